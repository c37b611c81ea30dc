// SPDX-License-Identifier: Apache-2.0
// common/base/fault.h -- named places where a test can inject a fault.
//
// FAULT("snap.rename") marks a durable or visible step, at the line. In a build
// with SLUICE_FAULTS (cmake -DSLUICE_TESTING=ON) the binary lists its points
// (--list-faults) and the environment arms them:
//
//   SLUICE_FAULT="snap.rename=kill"            the first time it is reached
//   SLUICE_FAULT="api.ack=kill@3,apply.half=delay:50"     the third; each time,
//                                              for 50 ms
//   SLUICE_FAULT="journal.committed=pause:/tmp/go"  until that file exists;
//                                              /tmp/go.here says that it waits
//   SLUICE_FAULT="snap.fsync=error@2"          FAULT_ERR gives SL_EIO
//   SLUICE_FAULT_LOG=/tmp/reached              a line per point, when first hit
//
// In every other build FAULT is nothing and no name is in the binary.
//
// Threads  any. Arming happens once, when the first point is reached.
// Errors   a malformed SLUICE_FAULT ends the process with status 2 and says
//          why, when the first point is reached; so does a line of the log, or
//          a file PATH.here, that cannot be written. A log that cannot be
//          opened is left out. A name that this binary lacks is no error (it
//          may be another role's): compare with --list-faults.
#ifndef COMMON_BASE_FAULT_H
#define COMMON_BASE_FAULT_H

#include "common/base/status.h"

#ifdef SLUICE_FAULTS

struct fault_point {
    const char *name;
    const char *file;
    int line;
    unsigned reached; // times, atomically
};

// Counts the point, logs it when first hit, and carries out the act that is
// armed for it: `delay` and `pause` wait here, `kill` ends the process by
// SIGKILL. Returns SL_EIO for `error`, else SL_OK.
enum sl_err fault_reached(struct fault_point *point);

// FAULT_ERR is an expression, SL_EIO or SL_OK; FAULT drops an armed `error`.
// `text` is a literal. Each point is an entry of a linker section: all are
// known without running.
#define FAULT_ERR(text)                                                        \
    __extension__({                                                            \
        static struct fault_point fault_here                                   \
            __attribute__((section("sl_faults"), used, aligned(8))) = {        \
                text, __FILE__, __LINE__, 0};                                  \
        fault_reached(&fault_here);                                            \
    })
#define FAULT(text) ((void)FAULT_ERR(text))

#else

#define FAULT_ERR(text) SL_OK
#define FAULT(text) ((void)0)

#endif

// Writes "name file:line" for each point of this binary to stdout, sorted by
// name. Returns false if this build has none, or when out of memory.
bool fault_list(void);

#endif
