// SPDX-License-Identifier: Apache-2.0
// common/base/grown.c -- see grown.h.
#include "common/base/grown.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static enum sl_err grown_fail(struct sl_error *err, const char *path,
                              const char *what, int errnum)
{
    // O_NOFOLLOW met a link, or the path leads over what is no folder.
    enum sl_err rc = errnum == ELOOP || errnum == ENOTDIR
                         ? SL_EINVAL
                         : sl_err_from_errno(errnum);

    return sl_fail(err, rc, "%s: %s: %s", path, what, strerror(errnum));
}

// Returns the length of the first name of a path; 0: it is empty, ".", ".." or
// too long.
static size_t first_name(const char *path)
{
    size_t n = strcspn(path, "/");

    if (n > NAME_MAX || (n == 1 && path[0] == '.') ||
        (n == 2 && memcmp(path, "..", 2) == 0))
        return 0;
    return n;
}

enum sl_err grown_check(const char *below, struct sl_error *err)
{
    for (const char *at = below; at[0] != '\0';) {
        size_t n = first_name(at);

        if (n == 0)
            return sl_fail(err, SL_EINVAL,
                           "'%.200s' is not a path below a folder: it has an "
                           "empty name, '.', '..' or a '/' at its beginning",
                           below);
        at += n;
        if (at[0] == '/' && *++at == '\0')
            return sl_fail(err, SL_EINVAL, "'%.200s' ends with '/'", below);
    }
    return SL_OK;
}

// Opens the folder `below` of `at`, which it closes; makes what is missing.
static int grown_make_folders(int at, const char *below)
{
    while (at >= 0 && below[0] != '\0') {
        char name[NAME_MAX + 1];
        size_t n = first_name(below);
        int next, errnum;

        memcpy(name, below, n);
        name[n] = '\0';
        below += n + strspn(below + n, "/");
        next = mkdirat(at, name, 0777) != 0 && errno != EEXIST
                   ? -1
                   : openat(at, name, FOLDER | O_NOFOLLOW);
        errnum = errno;
        close(at);
        errno = errnum;
        at = next;
    }
    return at;
}

enum sl_err grown_create(struct grown *g, const char *root, const char *below,
                         const char *name, struct sl_error *err)
{
    struct buf path = BUF_INIT;
    enum sl_err rc = grown_check(below, err);
    int folder, fd, errnum;

    if (rc != SL_OK)
        return rc;
    rc = buf_appendf(&path, "%s%s%s/%s", root, below[0] != '\0' ? "/" : "",
                     below, name);
    if (rc != SL_OK)
        return sl_fail(err, rc, "a path");
    folder = grown_make_folders(open(root, FOLDER), below);
    fd = folder < 0 ? -1
                    : openat(folder, name,
                             O_WRONLY | O_CREAT | O_EXCL | O_APPEND |
                                 O_CLOEXEC | O_NOFOLLOW,
                             0666);
    errnum = errno;
    if (folder >= 0)
        close(folder);
    if (fd < 0) {
        rc = grown_fail(err, buf_text(&path), "cannot be made", errnum);
        buf_release(&path);
        return rc;
    }
    g->fd = fd;
    g->path = (char *)buf_detach(&path, NULL);
    g->bytes = 0;
    return SL_OK;
}

enum sl_err grown_write(struct grown *g, const void *bytes, size_t n,
                        struct sl_error *err)
{
    const uint8_t *from = bytes;
    size_t left = n;

    while (left > 0) {
        ssize_t wrote = write(g->fd, from, left);
        int errnum = wrote == 0 ? ENOSPC : errno;

        if (wrote < 0 && errnum == EINTR)
            continue;
        if (wrote <= 0) {
            enum sl_err rc =
                grown_fail(err, g->path, "cannot be written", errnum);

            // What a reader must not take for a piece; if even this fails, it
            // is the end of the file for him.
            if (left < n && ftruncate(g->fd, (off_t)g->bytes) != 0)
                grown_close(g);
            return rc;
        }
        from += wrote;
        left -= (size_t)wrote;
    }
    g->bytes += n;
    return SL_OK;
}

void grown_close(struct grown *g)
{
    if (g->fd >= 0)
        close(g->fd);
    sl_free(g->path);
    *g = (struct grown)GROWN_INIT;
}
