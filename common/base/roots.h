// SPDX-License-Identifier: Apache-2.0
// common/base/roots.h -- the folders below which a daemon reads what a job's
// spec names (--data-root, --weights-root), and nothing else of the host.
//
// A user who submits a job names files; the operator of a daemon says where
// they may lie. An absolute path must lie below a root by its text, and is then
// looked for there; a relative path is looked for below each root in turn.
// Links are followed as long as they stay below the root; '..' is refused, and
// so is all that is no regular file (or folder). Below the root '/' everything
// lies, so links are followed wherever they lead.
//
// Roots are opened for each path, so a root may be mounted after the daemon's
// start.
//
// A daemon may read files at places, too (common/base/remote.h): then another
// module, which knows what is allowed there, opens and lists those.
//
// Threads  roots_new, _add, _free: one. The rest: any; those that open or look
//          wait for the disk.
// Memory   roots_free frees. Paths are copied or read only during the call.
// Errors   name the path as the spec has it, the roots and the cure; never the
//          content of a file. SL_EDENIED: the path lies below no root, has
//          '..', goes over a link that is not followed, or names a device, a
//          FIFO or what this process may not read. SL_ENOENT: it is missing.
//          SL_EINVAL: a folder where a file is wanted. SL_ECORRUPT: it was
//          exchanged meanwhile. Else what the system says, as SL_EBUSY without
//          a free descriptor. `err` may be NULL.
#ifndef COMMON_BASE_ROOTS_H
#define COMMON_BASE_ROOTS_H

#include <stddef.h>

#include "common/base/fs.h"
#include "common/base/remote.h"
#include "common/base/status.h"

struct roots;

// Makes an empty set of roots. Errors name `daemon` ("worker") and its `flag`
// ("--data-root"); both must outlive the roots. SL_ENOMEM sets *out to NULL.
enum sl_err roots_new(struct roots **out, const char *daemon, const char *flag,
                      struct sl_error *err);

// Returns the root '/': all regular files of this host except those of /proc
// and /sys. Not freed.
const struct roots *roots_all(void);

// Frees the set of roots, of roots_new. NULL is allowed.
void roots_free(struct roots *r);

// Adds a folder; a relative path is from the working folder. The error of the
// system if it cannot be opened (SL_ENOENT: it is missing, or no folder);
// SL_ENOMEM. A failure leaves the roots as they were. Not to roots_all, and
// before other threads read the roots.
enum sl_err roots_add(struct roots *r, const char *dir, struct sl_error *err);

// Opens and lists files at places. Paths are whole ("s3://bucket/a/b"; for
// `list` the folder, with its '/'); errors are those of this header.
struct roots_places {
    enum sl_err (*open)(void *arg, struct fs_file **out, const char *path,
                        struct sl_error *err);
    enum sl_err (*list)(void *arg, const char *dir, fs_name_fn fn, void *of,
                        struct sl_error *err);
    void *arg;
};

// Has files at places read through `p`, which is copied; p->arg must outlive
// the roots. Not to roots_all, and before other threads read the roots.
void roots_read_places(struct roots *r, const struct roots_places *p);

// Returns the number of folders that roots_add has added; 1 for roots_all.
size_t roots_count(const struct roots *r);

// Checks that every root can be opened and listed now; else the error of the
// system, and *err names the first that cannot. SL_OK without roots.
enum sl_err roots_there(const struct roots *r, struct sl_error *err);

// Opens a file for reading, which the caller closes (fs_close). Only a missing
// file leads to the next root; another error ends the search. A failure leaves
// *out as it was. `r` NULL: no roots, and every path is refused (SL_EDENIED).
// So is a place, unless roots_read_places was called.
enum sl_err roots_file(const struct roots *r, struct fs_file **out,
                       const char *path, struct sl_error *err);

// Opens a folder of this host (a place is not known here), below the first root
// that has it; *fd is the caller's to close, and undefined after a failure. `r`
// may be NULL, as in roots_file.
enum sl_err roots_folder(const struct roots *r, int *fd, const char *path,
                         struct sl_error *err);

// Calls fn(arg, ...) for each name in a folder, below the first root that has
// it and no other, or at a place for each object right below `path`, which ends
// with '/' then; in byte order, up to the first error of fn, which it returns
// (*err is then fn's own matter). `r` may be NULL, as in roots_file.
enum sl_err roots_list(const struct roots *r, const char *path, fs_name_fn fn,
                       void *arg, struct sl_error *err);

#endif
