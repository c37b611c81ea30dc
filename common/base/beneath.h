// SPDX-License-Identifier: Apache-2.0
// common/base/beneath.h -- opens files and folders below an open folder, and
// no others.
//
// A path is resolved by the kernel (openat2), so that an attacker cannot leave
// the folder by a link that is made during the check. Where there is no
// openat2 (an old kernel, or a sandbox that does not know it), each component
// is opened by itself, and then no link is followed, whatever `links` says.
//
// A file is looked at before it is opened: opening a device may do something,
// and a FIFO's other end would be told of a reader.
//
// Threads  any.
// Memory   descriptors are the caller's, and closed on exec.
// Errors   -1 and errno. EXDEV: the path leads out, or without openat2 names
//          '..'. ELOOP: a link that is not followed, or too many. ENODEV: it is
//          neither a file nor a folder as wanted; st says what it is. EACCES:
//          also for all of /proc and /sys. ESTALE: it was exchanged meanwhile.
//          Else what the kernel says, as ENOENT.
#ifndef COMMON_BASE_BENEATH_H
#define COMMON_BASE_BENEATH_H

#include <sys/stat.h>

enum beneath_links {
    BENEATH_NONE,   // no link is followed
    BENEATH_INSIDE, // links that stay below the folder are followed
    // For the folder '/', below which everything lies: all links are followed,
    // except the magic ones of /proc.
    BENEATH_ALL,
};

// `dir` is a descriptor of an open folder, `path` relative to it; both stay the
// caller's. *st is undefined after a failure, but for ENODEV. They do I/O.

// Opens a regular file for reading and fills *st. Returns a descriptor.
int beneath_file(int dir, const char *path, enum beneath_links links,
                 struct stat *st);

// Opens a folder, to list it and to open what lies below, and fills *st.
// Returns a descriptor.
int beneath_folder(int dir, const char *path, enum beneath_links links,
                   struct stat *st);

#endif
