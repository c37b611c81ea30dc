// SPDX-License-Identifier: Apache-2.0
// common/base/paths.h -- the files that one path of a job's data
// names.
//
// "clicks/2026-*.csv": '*' stands for any bytes of a file's name, in the last
// part of the path alone, but not for a dot at its front; folders whose names
// fit are listed like files. Files come in byte order.
// "part-{00000..00331}.tar", "{train,extra}.csv": a range counts with as many
// digits as its first number has, and a list names each of its parts; files
// come in the order in which they are written. Braces with neither ".." between
// two numbers (of 18 digits at most) nor a comma are bytes of a name.
//
// Threads  one at a time. paths_expand lists folders for a '*', and waits.
// Memory   paths_release frees; all zeroes is allowed. Paths are copied.
// Errors   those of roots.h, with the path as the spec has it; SL_EINVAL: '*'
//          in a folder's name, a range that falls, braces within braces;
//          SL_ENOENT: no file's name fits; SL_ERANGE: over one of the bounds
//          below. `err` may be NULL.
#ifndef COMMON_BASE_PATHS_H
#define COMMON_BASE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/roots.h"
#include "common/base/status.h"

#define PATHS_MAX 65536                // paths of a pattern
#define PATHS_BYTES 4096               // bytes of a path, with its 0
#define PATHS_TOTAL ((size_t)16 << 20) // bytes of all paths of a pattern
#define PATHS_BRACES 16                // most '{' in a pattern

struct paths {
    char **path;            // an owned array of owned paths
    size_t count, capacity; // of `path`
    size_t bytes;           // of all paths, each with its closing 0
};

// Returns true if a path may name several files: it has a '*', or braces that
// are a range or a list. NULL has none.
bool paths_is_pattern(const char *path);

// Checks a path as paths_expand does, but looks at no file. SL_EINVAL,
// SL_ERANGE, SL_ENOMEM.
enum sl_err paths_check(const char *pattern, struct sl_error *err);

// Lists the paths that `pattern` names, at least one; a path without a pattern
// names itself. A '*' finds names below one root alone (roots_list). A file
// that is named without '*' may be missing, and `roots` are not asked for it;
// NULL: no roots (roots_list). What *out had is not freed; on failure it is
// untouched.
enum sl_err paths_expand(struct paths *out, const struct roots *roots,
                         const char *pattern, struct sl_error *err);
// Frees the paths and leaves *f all zeroes, which is allowed.
void paths_release(struct paths *f);

#endif
