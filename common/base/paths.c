// SPDX-License-Identifier: Apache-2.0
// common/base/paths.c -- see paths.h.
#include "common/base/paths.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fs.h"
#include "common/base/mem.h"

#define DIGITS 18 // of a number in a range

static enum sl_err paths_add(struct paths *f, const char *path,
                             struct sl_error *err)
{
    f->bytes += strlen(path) + 1;
    if (f->count == PATHS_MAX)
        return sl_fail(err, SL_ERANGE, "names more than %d files", PATHS_MAX);
    if (f->bytes > PATHS_TOTAL)
        return sl_fail(err, SL_ERANGE, "names paths of over %zu bytes in all",
                       PATHS_TOTAL);
    if (f->count == f->capacity) {
        size_t capacity = f->capacity == 0 ? 16 : f->capacity * 2;
        char **more = sl_realloc_array(f->path, capacity, sizeof(*more));

        if (more == NULL)
            return sl_no_memory(err);
        f->path = more;
        f->capacity = capacity;
    }
    f->path[f->count] = sl_strdup(path);
    if (f->path[f->count] == NULL)
        return sl_no_memory(err);
    f->count++;
    return SL_OK;
}

void paths_release(struct paths *f)
{
    for (size_t i = 0; i < f->count; i++)
        sl_free(f->path[i]);
    sl_free(f->path);
    *f = (struct paths){.path = NULL};
}

// ---- braces

// A group of braces: the path is before it, `in` to `end` - 1, and after `end`.
struct braces {
    const char *open, *end; // '{', and '}'
    uint64_t first, last;   // of a range
    unsigned digits;        // 0: it is a list
};

// Reads a decimal number at *at and moves *at behind its digits. Returns the
// number of digits; 0: no digit, or over DIGITS.
static unsigned paths_number(const char **at, uint64_t *out)
{
    size_t n = strspn(*at, "0123456789");

    if (n == 0 || n > DIGITS)
        return 0;
    *out = strtoull(*at, NULL, 10);
    *at += n;
    return (unsigned)n;
}

static bool braces_is_range(struct braces *b)
{
    const char *at = b->open + 1;
    unsigned digits = paths_number(&at, &b->first);

    if (digits == 0 || strncmp(at, "..", 2) != 0)
        return false;
    at += 2;
    b->digits = digits;
    return paths_number(&at, &b->last) != 0 && at == b->end;
}

// Finds the first group of braces that is a range or a list.
static bool braces_find(struct braces *b, const char *path)
{
    for (const char *at = path; (at = strchr(at, '{')) != NULL; at++) {
        *b = (struct braces){.open = at, .end = strchr(at, '}')};
        if (b->end == NULL)
            return false;
        if (braces_is_range(b))
            return true;
        b->digits = 0;
        if (memchr(at, ',', (size_t)(b->end - at)) != NULL)
            return true;
    }
    return false;
}

static enum sl_err braces_check(const struct braces *b, struct sl_error *err)
{
    if (memchr(b->open + 1, '{', (size_t)(b->end - b->open - 1)) != NULL)
        return sl_fail(err, SL_EINVAL, "has braces within braces");
    if (b->digits > 0 && b->last < b->first)
        return sl_fail(err, SL_EINVAL, "has a range that falls");
    if (b->digits > 0 && b->last - b->first >= PATHS_MAX)
        return sl_fail(err, SL_ERANGE, "names more than %d files", PATHS_MAX);
    return SL_OK;
}

// Adds the path with `n` bytes of `word` in place of the braces.
static enum sl_err braces_put(struct paths *to, const char *path,
                              const struct braces *b, const char *word,
                              size_t n, struct sl_error *err)
{
    char text[PATHS_BYTES];
    int length =
        snprintf(text, sizeof(text), "%.*s%.*s%s", (int)(b->open - path), path,
                 (int)n, word, b->end + 1);

    if (length < 0 || (size_t)length >= sizeof(text))
        return sl_fail(err, SL_ERANGE, "is longer than %d bytes",
                       PATHS_BYTES - 1);
    return paths_add(to, text, err);
}

static enum sl_err braces_open(struct paths *to, const char *path,
                               const struct braces *b, struct sl_error *err)
{
    enum sl_err rc = braces_check(b, err);
    char number[DIGITS + 4];

    for (uint64_t i = b->first; rc == SL_OK && b->digits > 0 && i <= b->last;
         i++) {
        int n = snprintf(number, sizeof(number), "%0*llu", (int)b->digits,
                         (unsigned long long)i);

        rc = braces_put(to, path, b, number, (size_t)n, err);
    }
    for (const char *at = b->open + 1;
         rc == SL_OK && b->digits == 0 && at <= b->end;) {
        size_t n = strcspn(at, ",}");

        rc = braces_put(to, path, b, at, n, err);
        at += n + 1;
    }
    return rc;
}

// Replaces the first braces of each path by what they stand for, until no path
// has any: each turn takes one group from all of them.
static enum sl_err paths_open_braces(struct paths *f, const char *pattern,
                                     struct sl_error *err)
{
    enum sl_err rc = paths_add(f, pattern, err);
    struct braces b;

    while (rc == SL_OK && braces_find(&b, f->path[0])) {
        struct paths more = {.path = NULL};

        for (size_t i = 0; rc == SL_OK && i < f->count; i++)
            rc = braces_find(&b, f->path[i])
                     ? braces_open(&more, f->path[i], &b, err)
                     : paths_add(&more, f->path[i], err);
        paths_release(f);
        *f = more;
    }
    return rc;
}

// ---- stars

// Returns true if `name` fits `pattern`, where '*' is the only sign. Goes back
// to the last star alone: what an earlier one took cannot matter.
static bool paths_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *back = NULL;

    if (*name == '.' && *pattern != '.')
        return false;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            back = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

struct paths_walk {
    struct paths *to;
    const char *pattern; // of names
    const char *dir;     // before names, with its '/'; "": none
    size_t dir_bytes;
    struct sl_error *err;
};

static enum sl_err paths_take_name(void *arg, const char *name)
{
    struct paths_walk *w = arg;
    char path[PATHS_BYTES];
    int n;

    if (!paths_fits(w->pattern, name))
        return SL_OK;
    n = snprintf(path, sizeof(path), "%.*s%s", (int)w->dir_bytes, w->dir, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return sl_fail(w->err, SL_ERANGE, "is longer than %d bytes",
                       PATHS_BYTES - 1);
    return paths_add(w->to, path, w->err);
}

static enum sl_err paths_fail_folder(struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "has a '*' in a folder's name; it may stand in the last "
                   "part of the path alone");
}

// Lists the folder of a path with a star in its last part.
static enum sl_err paths_list(struct paths_walk *w, const struct roots *roots,
                              const char *path, struct sl_error *err)
{
    char dir[PATHS_BYTES];
    size_t before = w->to->count;
    enum sl_err rc;

    snprintf(dir, sizeof(dir), "%.*s", (int)w->dir_bytes, path);
    if (strchr(dir, '*') != NULL)
        return paths_fail_folder(err);
    rc = roots_list(roots, dir[0] != '\0' ? dir : ".", paths_take_name, w, err);
    return rc == SL_OK && w->to->count == before
               ? sl_fail(err, SL_ENOENT,
                         "no file has such a name; look at the folder and at "
                         "the pattern (data.*.x)")
               : rc;
}

static enum sl_err paths_open_star(struct paths *to, const struct roots *roots,
                                   const char *path, struct sl_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    struct paths_walk w = {
        .to = to, .pattern = path + n, .dir = path, .dir_bytes = n, .err = err};

    return strchr(path, '*') == NULL ? paths_add(to, path, err)
                                     : paths_list(&w, roots, path, err);
}

bool paths_is_pattern(const char *path)
{
    struct braces b;

    return path != NULL && (strchr(path, '*') != NULL || braces_find(&b, path));
}

// Lists what a pattern's braces stand for; stars stay. Whoever may submit a job
// may send any pattern, so its length and its braces are bounded first.
static enum sl_err paths_named(struct paths *out, const char *pattern,
                               struct sl_error *err)
{
    unsigned braces = 0;

    for (const char *at = pattern; (at = strchr(at, '{')) != NULL; at++)
        braces++;
    if (braces > PATHS_BRACES)
        return sl_fail(err, SL_ERANGE, "has more than %d braces", PATHS_BRACES);
    return strlen(pattern) < PATHS_BYTES
               ? paths_open_braces(out, pattern, err)
               : sl_fail(err, SL_ERANGE, "is longer than %d bytes",
                         PATHS_BYTES - 1);
}

enum sl_err paths_check(const char *pattern, struct sl_error *err)
{
    struct paths named = {.path = NULL};
    enum sl_err rc = paths_named(&named, pattern, err);

    for (size_t i = 0; rc == SL_OK && i < named.count; i++) {
        const char *star = strchr(named.path[i], '*');

        if (star != NULL && strchr(star, '/') != NULL)
            rc = paths_fail_folder(err);
    }
    paths_release(&named);
    return rc == SL_OK ? rc : sl_prefix(err, rc, "%.160s", pattern);
}

enum sl_err paths_expand(struct paths *out, const struct roots *roots,
                         const char *pattern, struct sl_error *err)
{
    struct paths named = {.path = NULL}, all = {.path = NULL};
    enum sl_err rc = paths_named(&named, pattern, err);

    for (size_t i = 0; rc == SL_OK && i < named.count; i++)
        rc = paths_open_star(&all, roots, named.path[i], err);
    paths_release(&named);
    if (rc == SL_OK) {
        *out = all;
        return SL_OK;
    }
    paths_release(&all);
    return sl_prefix(err, rc, "%.160s", pattern);
}
