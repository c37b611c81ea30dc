// SPDX-License-Identifier: Apache-2.0
// common/base/beneath.h -- opens what lies below an open folder, and
// nothing else.
//
// A path is resolved by the kernel (openat2), so that nobody gets out of the
// folder by putting a link there while it is looked at. Where there is no
// openat2 (an old kernel, or a sandbox that does not know it), each component
// is opened by itself, and then no link is followed, whatever was asked.
//
// A file is looked at before it is opened: opening a device may do something,
// and a FIFO's other end would be told of a reader.
//
// Threads  any.
// Memory   descriptors are the caller's.
// Errors   -1 and errno. EXDEV: the path leads out, or names '..'. ELOOP: a
//          link that is not followed, or too many. ENODEV: it is neither a
//          file nor a folder as wanted; st says what it is. ESTALE: it was
//          exchanged meanwhile.
#ifndef COMMON_BASE_BENEATH_H
#define COMMON_BASE_BENEATH_H

#include <sys/stat.h>

enum beneath_links {
    BENEATH_NONE,   // no link is followed
    BENEATH_INSIDE, // those that stay below the folder are
    // The folder is '/', below which everything lies: all are, but for the
    // magic ones of /proc.
    BENEATH_ALL,
};

// Opens a regular file for reading; st is of it.
int beneath_file(int dir, const char *path, enum beneath_links links,
                 struct stat *st);

// Opens a folder, to list it and to open what lies below.
int beneath_folder(int dir, const char *path, enum beneath_links links,
                   struct stat *st);

#endif
