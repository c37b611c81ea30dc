// SPDX-License-Identifier: Apache-2.0
// common/base/grown.h -- a file that only grows, for readers who follow it:
// below a folder and nowhere else, by whole pieces or not at all.
//
// Not durable: it is read by people while it is written (events, curves). A
// piece that cannot be written whole, as on a full disk, is taken back, so that
// what a reader finds is whole pieces, and the next one is tried as if nothing
// had been.
//
// Threads  one at a time.
// Memory   grown_close frees; GROWN_INIT is a closed one.
// Errors   SL_EINVAL: the path leads out of the folder, or over a link; else
//          what the system says. A file that failed may be used on, unless it
//          is closed then (fd): what could not be taken back is its end.
#ifndef COMMON_BASE_GROWN_H
#define COMMON_BASE_GROWN_H

#include <stdint.h>

#include "common/base/status.h"

struct grown {
    int fd;         // -1: closed
    char *path;     // owned; for errors
    uint64_t bytes; // that hold
};
#define GROWN_INIT                                                             \
    {                                                                          \
        .fd = -1                                                               \
    }

// Is this a path below some folder: names with '/' between them, none of them
// "." or ".." or empty? "" is the folder itself.
enum sl_err grown_check(const char *below, struct sl_error *err);

// Makes the file `name`, which must not exist, in the folder `below` of `root`,
// which is made if it is missing, as are those above it; `root` must be there.
// No link is followed below `root`.
enum sl_err grown_create(struct grown *g, const char *root, const char *below,
                         const char *name, struct sl_error *err);

// Appends all n bytes or none.
enum sl_err grown_write(struct grown *g, const void *bytes, size_t n,
                        struct sl_error *err);

void grown_close(struct grown *g); // a closed one, too

#endif
