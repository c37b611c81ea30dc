// SPDX-License-Identifier: Apache-2.0
// worker/data/data_folder.h -- which images a folder holds:
// root/<class>/<file>.
//
// Classes are the folders in it, in byte order of their names or as they are
// given, and get the numbers 0, 1, ...; a class without images has a number,
// too. Files are in byte order within their class. Regular files called *.jpg,
// *.jpeg or *.png in letters of either case are taken. Names that begin with a
// dot, symbolic links (to folders, too) and other entries are skipped, and
// counted.
//
// A file is opened by the names that were found, below the folder, and no link
// is followed: a link that is put there later does not get a file elsewhere
// read.
//
// Threads  folder_scan and _release: one. The rest: any.
// Memory   folder_release frees; all zeroes is allowed.
// Errors   name the file or folder, but for folder_open's, which the caller
//          completes (folder_blame). `err` may be NULL.
#ifndef WORKER_DATA_DATA_FOLDER_H
#define WORKER_DATA_DATA_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/base/roots.h"
#include "trainer/base/pulse.h"

struct folder_file {
    uint32_t name; // offset of the file's name in `names`
    uint32_t class;
    uint32_t bytes;
};

struct folder {
    char *root; // owned
    int fd;     // descriptor of the root + 1; 0: none
    struct buf names;
    struct folder_file *files;
    size_t count, capacity;
    uint32_t *classes; // offset of each class's name
    uint32_t classes_count, classes_capacity;
    uint64_t hidden, links, others; // entries skipped
};

// Names of the classes, in order; count 0: the folders in the root. The folder
// of a class may be missing, but every folder in the root must be a class.
struct folder_names {
    char *const *name;
    size_t count;
};

// Finds the folder below one of the worker's roots, and lists what is in it.
// SL_EINVAL: a folder is none of the classes; SL_ERANGE: a file has over
// IMAGE_FILE_BYTES, or the names have over 4 GiB; SL_ECANCELED of the pulse;
// SL_ENOMEM; else those of roots.h and what the system says. On failure *out is
// untouched. `pulse` may be NULL; names and paths are copied.
enum sl_err folder_scan(struct folder *out, const struct roots *roots,
                        const char *root, struct folder_names names,
                        struct pulse *pulse, struct sl_error *err);
void folder_release(struct folder *f); // all zeroes is allowed

// Returns the name of class number `class`, below f->classes_count; it belongs
// to the folder.
const char *folder_class(const struct folder *f, uint32_t class);
// Returns the name of file number `file` within its class, without the class's;
// it belongs to the folder.
const char *folder_name(const struct folder *f, size_t file);

// Opens file number `file`, below f->count, for reading; *fd is the caller's,
// and untouched on failure. SL_ECORRUPT if it is no regular file any more, or
// not as long as it was; else what the system says.
enum sl_err folder_open(const struct folder *f, size_t file, int *fd,
                        struct sl_error *err);

// Puts folder, class and name of file number `file` before the text in *err,
// and returns `rc`, the error's code.
enum sl_err folder_blame(const struct folder *f, size_t file, enum sl_err rc,
                         struct sl_error *err);

#endif
