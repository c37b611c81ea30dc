// SPDX-License-Identifier: Apache-2.0
// common/base/cgroup.h -- memory that the kernel lets this process have, and
// how often it killed for want of it. Both versions of control groups are read
// where the kernel and systemd mount them, /sys/fs/cgroup.
//
// Threads  any.
// Memory   the caller's struct.
// Units    bytes.
// Errors   a figure that the kernel does not give is 0 or "".
#ifndef COMMON_BASE_CGROUP_H
#define COMMON_BASE_CGROUP_H

#include <stdint.h>

#define CGROUP_PATH 1024

struct cgroup_memory {
    uint64_t limit_bytes; // narrowest limit, or the host's memory where that is
                          // less
    uint64_t oom_kills;   // processes of its group that the kernel has killed
                          // for want of memory; of the host, if the group
                          // counts none
    char oom_file[CGROUP_PATH]; // file that counts them, with `root` before
                                // it; "": nothing does
};

// Reads the limit and the kills of this process's group to *out, all of which
// is set; reads files. The limits of the groups above count too. `root` is put
// before the paths, which tests use; else "" (not NULL).
void cgroup_memory(struct cgroup_memory *out, const char *root);

#endif
