// SPDX-License-Identifier: Apache-2.0
// common/base/grown.h -- a file that only grows, for readers that follow it:
// always below one folder, and always by whole pieces.
//
// Not durable: people read it while it is written (events, curves). A piece
// that cannot be written whole, as on a full disk, is removed again, so that
// readers find whole pieces only, and the next piece is tried as usual.
//
// Threads  one at a time. All but grown_check do I/O.
// Memory   grown_close frees; GROWN_INIT is a closed one. Texts are read only
//          during the call.
// Errors   SL_EINVAL: the path leads out of the folder, or over a link or a
//          file; else the system's error. A file may be used after a failure,
//          unless it is closed then (fd -1): a part of a piece could not be
//          removed. `err` may be NULL.
#ifndef COMMON_BASE_GROWN_H
#define COMMON_BASE_GROWN_H

#include <stdint.h>

#include "common/base/status.h"

struct grown {
    int fd;         // -1: closed
    char *path;     // owned; for errors
    uint64_t bytes; // length in whole pieces
};
#define GROWN_INIT                                                             \
    {                                                                          \
        .fd = -1                                                               \
    }

// Checks that `below` is a path below a folder: names with '/' between them,
// none of them ".", "..", empty or longer than NAME_MAX, and no '/' at either
// end. "" is the folder itself. SL_EINVAL if not; looks at no file.
enum sl_err grown_check(const char *below, struct sl_error *err);

// Makes the file `name`, which must not exist, in the folder `below` of `root`.
// Makes that folder and its parents if missing; `root` must exist. Follows no
// link below `root`. `name` has no '/', which is not checked. What *g had
// before is not closed. SL_EEXIST: the file is there. A failure leaves *g as it
// was; folders it made stay.
enum sl_err grown_create(struct grown *g, const char *root, const char *below,
                         const char *name, struct sl_error *err);

// Appends all n bytes or none, to a file that is open (fd not -1).
enum sl_err grown_write(struct grown *g, const void *bytes, size_t n,
                        struct sl_error *err);

// Closes the file, which stays on disk, and leaves *g as GROWN_INIT, which is
// allowed.
void grown_close(struct grown *g);

#endif
