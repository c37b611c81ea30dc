// SPDX-License-Identifier: Apache-2.0
// common/base/roots.c -- which root a path lies below, and what is said
// if it lies below none; see roots.h.
#include "common/base/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/beneath.h"

#define SHOWN_BYTES 161 // of a path, in an error
#define LIST_BYTES 120  // of all roots

struct roots {
    const char *daemon, *flag; // of errors
    char **dir;                // absolute
    size_t count;
    struct roots_places places; // open NULL: none are read
};

enum sl_err roots_new(struct roots **out, const char *daemon, const char *flag,
                      struct sl_error *err)
{
    *out = sl_calloc(1, sizeof(**out));
    if (*out == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    (*out)->daemon = daemon;
    (*out)->flag = flag;
    return SL_OK;
}

const struct roots *roots_all(void)
{
    static char slash[] = "/";
    static char *dir[] = {slash};
    static const struct roots all = {
        .daemon = "process", .flag = "", .dir = dir, .count = 1};

    return &all;
}

void roots_free(struct roots *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++)
        sl_free(r->dir[i]);
    sl_free(r->dir);
    sl_free(r);
}

void roots_read_places(struct roots *r, const struct roots_places *p)
{
    r->places = *p;
}

size_t roots_count(const struct roots *r)
{
    return r->count;
}

static int open_root(const char *dir)
{
    return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

enum sl_err roots_there(const struct roots *r, struct sl_error *err)
{
    for (size_t i = 0; i < r->count; i++) {
        if (access(r->dir[i], R_OK | X_OK) != 0)
            return sl_fail(err, sl_err_from_errno(errno), "%.200s: %s",
                           r->dir[i], strerror(errno));
    }
    return SL_OK;
}

// Returns `dir` as an absolute path; links in it stay, because the operator
// chose them.
static char *absolute(const char *dir)
{
    char here[PATH_MAX];

    if (dir[0] == '/')
        return sl_strdup(dir);
    if (getcwd(here, sizeof(here)) == NULL)
        return NULL;
    return strcmp(dir, ".") == 0 ? sl_strdup(here) : fs_join(here, dir);
}

enum sl_err roots_add(struct roots *r, const char *dir, struct sl_error *err)
{
    int fd = open_root(dir), errnum = errno;
    char **more;

    if (fd < 0)
        return sl_fail(err, sl_err_from_errno(errnum),
                       "%s %.200s: %s; it must name an existing folder",
                       r->flag, dir, strerror(errnum));
    close(fd);
    more = sl_realloc_array(r->dir, r->count + 1, sizeof(*more));
    if (more != NULL)
        r->dir = more;
    if (more != NULL)
        more[r->count] = absolute(dir);
    if (more == NULL || more[r->count] == NULL)
        return sl_fail(err, SL_ENOMEM, "%s %.200s: no memory", r->flag, dir);
    r->count++;
    return SL_OK;
}

// ---- which root

// The next component, without those that say nothing; *n is 0 at the end.
static const char *component(const char *path, size_t *n)
{
    for (;;) {
        path += strspn(path, "/");
        *n = strcspn(path, "/");
        if (*n != 1 || *path != '.')
            return path;
        path++;
    }
}

static bool is_dots(const char *name, size_t n)
{
    return n == 2 && name[0] == '.' && name[1] == '.';
}

static bool climbs(const char *path)
{
    size_t n;

    for (path = component(path, &n); n > 0; path = component(path + n, &n)) {
        if (is_dots(path, n))
            return true;
    }
    return false;
}

// What of an absolute path lies below the root; NULL: it does not.
static const char *below(const char *root, const char *path)
{
    size_t n, m;

    for (;;) {
        root = component(root, &n);
        path = component(path, &m);
        if (n == 0)
            return *path != '\0' ? path : ".";
        if (n != m || memcmp(root, path, n) != 0)
            return NULL;
        root += n;
        path += m;
    }
}

static enum beneath_links links_of(const char *root)
{
    size_t n;

    (void)component(root, &n);
    return n == 0 ? BENEATH_ALL : BENEATH_INSIDE;
}

// ---- what is said

// "/srv/data, /mnt/more"
static const char *roots_format_list(char out[LIST_BYTES],
                                     const struct roots *r)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < r->count && at < LIST_BYTES; i++)
        at += (size_t)snprintf(out + at, LIST_BYTES - at, "%s%s",
                               i > 0 ? ", " : "", r->dir[i]);
    return out;
}

static const char *kind_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFLNK:
        return "a link";
    default:
        return "a device";
    }
}

static enum sl_err no_roots(const struct roots *r, const char *path,
                            struct sl_error *err)
{
    char text[SHOWN_BYTES];

    return sl_fail(err, SL_EDENIED,
                   "%s: this %s reads no files, since it was started "
                   "without %s; give it %s DIR, a folder "
                   "that this lies below",
                   utf8_line(text, sizeof(text), path), r->daemon, r->flag,
                   r->flag);
}

// Before anything is opened.
static enum sl_err roots_deny(const struct roots *r, const char *path,
                              const char *why, struct sl_error *err)
{
    char text[SHOWN_BYTES], roots[LIST_BYTES];

    return sl_fail(err, SL_EDENIED, "%s: %s; this %s reads below %s %s",
                   utf8_line(text, sizeof(text), path), why, r->daemon, r->flag,
                   roots_format_list(roots, r));
}

static enum sl_err roots_explain_errno(const struct roots *r, const char *path,
                                       mode_t want, const struct stat *st,
                                       int errnum, struct sl_error *err)
{
    char text[SHOWN_BYTES], roots[LIST_BYTES];

    utf8_line(text, sizeof(text), path);
    roots_format_list(roots, r);
    switch (errnum) {
    case ENODEV:
        return sl_fail(err, S_ISDIR(st->st_mode) ? SL_EINVAL : SL_EDENIED,
                       "%s is %s, not %s", text, kind_name(st->st_mode),
                       kind_name(want));
    case EXDEV:
    case ELOOP:
        return sl_fail(err, SL_EDENIED,
                       "%s goes through a symbolic link that sluice does not "
                       "follow: it leads out of %s %s, is absolute, or loops; "
                       "replace the link by the file that it names",
                       text, r->flag, roots);
    case ENOENT:
    case ENOTDIR:
        return sl_fail(err, SL_ENOENT,
                       "%s does not exist below %s %s of this %s; put it "
                       "there, or start the %s with another root",
                       text, r->flag, roots, r->daemon, r->daemon);
    case ESTALE:
        return sl_fail(err, SL_ECORRUPT,
                       "another process replaced %s while it was opened", text);
    default:
        return sl_fail(err, sl_err_from_errno(errnum), "%s, below %s %s: %s",
                       text, r->flag, roots, strerror(errnum));
    }
}

// ---- opening

static int open_below(const char *root, const char *rest, mode_t want,
                      struct stat *st)
{
    int dir = open_root(root), fd, errnum;

    if (dir < 0)
        return -1;
    fd = S_ISDIR(want) ? beneath_folder(dir, rest, links_of(root), st)
                       : beneath_file(dir, rest, links_of(root), st);
    errnum = errno;
    close(dir);
    errno = errnum;
    return fd;
}

// Opens a path below the first root that has it. Only a missing file leads to
// the next root; any other error ends the search.
static enum sl_err open_path(const struct roots *r, int *fd, const char *path,
                             mode_t want, struct sl_error *err)
{
    static const struct roots none = {.daemon = "worker",
                                      .flag = "--data-root"};
    int errnum = 0;
    struct stat st;

    if (r == NULL)
        r = &none;
    if (r->count == 0)
        return no_roots(r, path, err);
    if (climbs(path))
        return roots_deny(r, path, "paths with '..' are not read", err);
    for (size_t i = 0; i < r->count; i++) {
        const char *rest = path[0] == '/' ? below(r->dir[i], path) : path;

        if (rest == NULL)
            continue;
        *fd = open_below(r->dir[i], rest, want, &st);
        if (*fd >= 0)
            return SL_OK;
        errnum = errno;
        if (errnum != ENOENT && errnum != ENOTDIR)
            break;
    }
    if (errnum == 0)
        return roots_deny(r, path, "lies elsewhere", err);
    return roots_explain_errno(r, path, want, &st, errnum, err);
}

// Returns SL_EDENIED for a daemon that reads no places.
static enum sl_err roots_deny_place(const struct roots *r, const char *path,
                                    struct sl_error *err)
{
    char text[SHOWN_BYTES];

    return sl_fail(err, SL_EDENIED,
                   "%s: this %s reads nothing at places, since it was started "
                   "without --data-allow; give it --data-allow PREFIX, as in "
                   "s3://bucket/folder or https://host/folder",
                   utf8_line(text, sizeof(text), path),
                   r != NULL ? r->daemon : "process");
}

enum sl_err roots_file(const struct roots *r, struct fs_file **out,
                       const char *path, struct sl_error *err)
{
    int fd = -1;
    enum sl_err rc;

    if (remote_is(path))
        return r != NULL && r->places.open != NULL
                   ? r->places.open(r->places.arg, out, path, err)
                   : roots_deny_place(r, path, err);
    rc = open_path(r, &fd, path, S_IFREG, err);
    return rc == SL_OK ? fs_take(out, fd, path, err) : rc;
}

enum sl_err roots_folder(const struct roots *r, int *fd, const char *path,
                         struct sl_error *err)
{
    return open_path(r, fd, path, S_IFDIR, err);
}

enum sl_err roots_list(const struct roots *r, const char *path, fs_name_fn fn,
                       void *arg, struct sl_error *err)
{
    int fd = -1;
    enum sl_err rc;

    if (remote_is(path))
        return r != NULL && r->places.list != NULL
                   ? r->places.list(r->places.arg, path, fn, arg, err)
                   : roots_deny_place(r, path, err);
    rc = roots_folder(r, &fd, path, err);
    if (rc != SL_OK)
        return rc;
    rc = fs_list_open(fd, path, fn, arg, err);
    close(fd);
    return rc;
}
