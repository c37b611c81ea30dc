// SPDX-License-Identifier: Apache-2.0
// client/cli/target.c -- the way of data to a place that a person named,
// whatever stands there.
#include "client/cli/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"

#define LINKS_MAX 40 // as many as the kernel follows
#define COPY_BYTES ((size_t)1 << 20)

bool target_is_stdout(const char *named)
{
    return strcmp(named, "-") == 0;
}

static enum sl_err target_error(const char *named, int errnum,
                                struct sl_error *err)
{
    return sl_fail(err, sl_err_from_errno(errnum), "%s: %s", named,
                   strerror(errnum));
}

// Of a place that is written to instead of being replaced.
static bool target_is_written_to(const char *named)
{
    struct stat at;

    return target_is_stdout(named) ||
           (stat(named, &at) == 0 && !S_ISREG(at.st_mode));
}

// ---- which file

// What the link `*path` names, in its stead.
static enum sl_err follow_link(char **path, struct sl_error *err)
{
    char to[PATH_MAX];
    ssize_t n = readlink(*path, to, sizeof(to) - 1);
    char *dir, *next;

    if (n < 0)
        return target_error(*path, errno, err);
    to[n] = '\0';
    dir = to[0] == '/' ? sl_strdup("/") : fs_dirname(*path);
    next = dir != NULL ? fs_join(dir, to[0] == '/' ? to + 1 : to) : NULL;
    sl_free(dir);
    if (next == NULL)
        return sl_no_memory(err);
    sl_free(*path);
    *path = next;
    return SL_OK;
}

// The file behind all links; the last one need not exist.
static enum sl_err real_file(char **out, const char *named,
                             struct sl_error *err)
{
    char *path = sl_strdup(named);
    enum sl_err rc = path != NULL ? SL_OK : sl_no_memory(err);
    struct stat at;
    int links = 0;

    while (rc == SL_OK && lstat(path, &at) == 0 && S_ISLNK(at.st_mode)) {
        if (++links > LINKS_MAX)
            rc = target_error(named, ELOOP, err);
        else
            rc = follow_link(&path, err);
    }
    if (rc != SL_OK) {
        sl_free(path);
        return rc;
    }
    *out = path;
    return SL_OK;
}

// ---- may it be written

static enum sl_err folder_takes(const char *named, const char *dir,
                                struct sl_error *err)
{
    char *probe = fs_join(dir, ".sluice-XXXXXX");
    struct stat at;
    int fd;

    if (probe == NULL)
        return sl_no_memory(err);
    fd = mkostemp(probe, O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        unlink(probe);
        sl_free(probe);
        return SL_OK;
    }
    sl_free(probe);
    if (stat(dir, &at) != 0)
        return sl_fail(err, SL_ENOENT, "%s: the folder %s does not exist",
                       named, dir);
    return sl_fail(err, sl_err_from_errno(errno),
                   "%s: cannot create a file in %s: %s", named, dir,
                   strerror(errno));
}

static enum sl_err target_check_file(const char *named, struct sl_error *err)
{
    char *path = NULL, *dir = NULL;
    enum sl_err rc = real_file(&path, named, err);

    if (rc != SL_OK)
        return rc;
    dir = fs_dirname(path);
    rc = dir != NULL ? folder_takes(named, dir, err) : sl_no_memory(err);
    sl_free(dir);
    sl_free(path);
    return rc;
}

enum sl_err target_check(const char *named, struct sl_error *err)
{
    size_t n = strlen(named);
    struct stat at;

    if (n == 0)
        return sl_fail(err, SL_EINVAL, "the name of the file is empty");
    if (target_is_stdout(named))
        return SL_OK;
    if (named[n - 1] == '/' || (stat(named, &at) == 0 && S_ISDIR(at.st_mode)))
        return sl_fail(err, SL_EINVAL,
                       "%s is a folder: name a file to write in it", named);
    if (target_is_written_to(named))
        return access(named, W_OK) == 0 ? SL_OK
                                        : target_error(named, errno, err);
    return target_check_file(named, err);
}

// ---- open

// A file in a folder of its own: what is written there is copied.
static enum sl_err aside(struct target *t, struct sl_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *folder =
        fs_join(tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", "sluice-XXXXXX");

    if (folder == NULL)
        return sl_no_memory(err);
    if (mkdtemp(folder) == NULL) {
        enum sl_err rc = sl_fail(
            err, sl_err_from_errno(errno),
            "%s: a file beside it is needed meanwhile, and %s cannot be made: "
            "%s; name a folder that can be written with TMPDIR",
            t->named, folder, strerror(errno));

        sl_free(folder);
        return rc;
    }
    t->folder = folder;
    t->path = fs_join(folder, "data");
    return t->path != NULL ? SL_OK : sl_no_memory(err);
}

enum sl_err target_open(struct target *t, const char *named,
                        struct sl_error *err)
{
    enum sl_err rc = target_check(named, err);

    *t = (struct target){.named = NULL};
    if (rc != SL_OK)
        return rc;
    t->named = sl_strdup(named);
    if (t->named == NULL)
        rc = sl_no_memory(err);
    else if (target_is_written_to(named))
        rc = aside(t, err);
    else
        rc = real_file(&t->path, named, err);
    if (rc != SL_OK)
        target_abort(t);
    return rc;
}

// ---- done

static void target_release(struct target *t)
{
    if (t->folder != NULL) {
        if (t->path != NULL)
            unlink(t->path);
        rmdir(t->folder);
    }
    sl_free(t->folder);
    sl_free(t->path);
    sl_free(t->named);
    *t = (struct target){.named = NULL};
}

void target_abort(struct target *t)
{
    target_release(t);
}

static enum sl_err target_write_all(int fd, const char *named,
                                    const void *bytes, size_t n,
                                    struct sl_error *err)
{
    for (const char *p = bytes; n > 0;) {
        ssize_t done = write(fd, p, n);

        if (done < 0 && errno != EINTR)
            return target_error(named, errno, err);
        p += done > 0 ? done : 0;
        n -= (size_t)(done > 0 ? done : 0);
    }
    return SL_OK;
}

static const char *target_display_name(const char *named)
{
    return target_is_stdout(named) ? "standard output" : named;
}

// What stands at `named`, to write to; not a file that is to be replaced.
static enum sl_err open_place(int *fd, const char *named, struct sl_error *err)
{
    if (target_is_stdout(named)) {
        fflush(stdout);
        *fd = STDOUT_FILENO;
        return SL_OK;
    }
    *fd = open(named, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return *fd >= 0 ? SL_OK : target_error(named, errno, err);
}

// `rc` is how the writing ended.
static enum sl_err close_place(int fd, const char *named, enum sl_err rc,
                               struct sl_error *err)
{
    if (fd != STDOUT_FILENO && close(fd) != 0 && rc == SL_OK)
        rc = target_error(named, errno, err);
    return rc;
}

static enum sl_err target_copy_out(struct target *t, int to,
                                   struct sl_error *err)
{
    void *space = sl_malloc(COPY_BYTES);
    struct fs_file *from = NULL;
    size_t got = COPY_BYTES;
    enum sl_err rc = space != NULL
                         ? fs_open(fs_posix(), &from, t->path, FS_READ, err)
                         : sl_no_memory(err);

    for (uint64_t at = 0; rc == SL_OK && got == COPY_BYTES; at += got) {
        rc = fs_pread(from, at, space, COPY_BYTES, &got, err);
        if (rc == SL_OK)
            rc = target_write_all(to, target_display_name(t->named), space, got,
                                  err);
    }
    fs_close(from);
    sl_free(space);
    return rc;
}

enum sl_err target_done(struct target *t, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    int fd;

    if (t->folder != NULL) { // else the file was written in its place
        rc = open_place(&fd, t->named, err);
        if (rc == SL_OK)
            rc = close_place(fd, t->named, target_copy_out(t, fd, err), err);
    }
    target_release(t);
    return rc;
}

static enum sl_err target_replace(const char *named, const void *bytes,
                                  size_t n, struct sl_error *err)
{
    struct target t;
    enum sl_err rc = target_open(&t, named, err);

    if (rc != SL_OK)
        return rc;
    rc = fs_write_durable(fs_posix(), t.path, bytes, n, err);
    if (rc == SL_OK)
        return target_done(&t, err);
    target_abort(&t);
    return rc;
}

enum sl_err target_write(const char *named, const void *bytes, size_t n,
                         struct sl_error *err)
{
    enum sl_err rc = target_check(named, err);
    int fd;

    if (rc != SL_OK || !target_is_written_to(named))
        return rc != SL_OK ? rc : target_replace(named, bytes, n, err);
    rc = open_place(&fd, named, err);
    if (rc == SL_OK)
        rc = close_place(
            fd, named,
            target_write_all(fd, target_display_name(named), bytes, n, err),
            err);
    return rc;
}
