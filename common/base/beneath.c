// SPDX-License-Identifier: Apache-2.0
// common/base/beneath.c -- openat2, or a walk without it; see
// beneath.h.
#include "common/base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TRIES 16 // the kernel gives up where names move meanwhile
#define READ (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define LOOK (O_PATH | O_CLOEXEC)

static const uint64_t resolves[] = {
    [BENEATH_NONE] = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    [BENEATH_INSIDE] = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    [BENEATH_ALL] = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
};

// Closes it, and leaves errno as it is.
static void beneath_close_keep_errno(int fd)
{
    int errnum = errno;

    close(fd);
    errno = errnum;
}

static int beneath_close_fail(int fd, int errnum)
{
    close(fd);
    errno = errnum;
    return -1;
}

// ---- without openat2

static int open_component(int at, const char *name, int flags)
{
    struct stat st;

    if (strcmp(name, "..") == 0) {
        errno = EXDEV;
        return -1;
    }
    // Said now; what takes its place meanwhile is not followed either.
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    if (S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    return openat(at, name, flags | O_NOFOLLOW);
}

static int beneath_open_path(int dir, const char *path, int flags)
{
    int at = dir;

    for (;;) {
        size_t n = strcspn(path, "/");
        const char *rest = path + n + strspn(path + n, "/");
        bool last = path[n] == '\0';
        char name[NAME_MAX + 1];
        int next;

        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            next = -1;
        } else {
            memcpy(name, path, n);
            name[n] = '\0';
            next = open_component(at, n == 0 ? "." : name,
                                  last ? flags : LOOK | O_DIRECTORY);
        }
        if (at != dir)
            beneath_close_keep_errno(at);
        if (next < 0 || last)
            return next;
        at = next;
        path = rest;
    }
}

// ---- either way

static int open_at(int dir, const char *path, enum beneath_links links,
                   int flags)
{
    struct open_how how = {.flags = (uint64_t)flags,
                           .resolve = resolves[links]};
    int fd = -1;

    for (unsigned i = 0; fd < 0 && i < TRIES; i++) {
        fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
        if (fd < 0 && errno != EAGAIN && errno != EINTR)
            break;
    }
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    return beneath_open_path(dir, path, flags);
}

// Returns true for a file of /proc or /sys: such files hold no data, but what
// the kernel knows of this process and host.
static bool is_made_up(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 &&
           (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

static int open_kind(int dir, const char *path, enum beneath_links links,
                     mode_t kind, struct stat *st)
{
    struct stat seen;
    // Looked at before it is opened to be read, so that no FIFO and no device
    // is touched.
    int fd = open_at(dir, path, links, LOOK);

    memset(st, 0, sizeof(*st));
    if (fd < 0)
        return -1;
    if (fstat(fd, st) != 0)
        return beneath_close_fail(fd, errno);
    if ((st->st_mode & S_IFMT) != kind)
        return beneath_close_fail(fd, ENODEV);
    if (is_made_up(fd))
        return beneath_close_fail(fd, EACCES);
    close(fd);
    fd = open_at(dir, path, links, READ | (S_ISDIR(kind) ? O_DIRECTORY : 0));
    if (fd < 0)
        return -1;
    if (fstat(fd, &seen) != 0)
        return beneath_close_fail(fd, errno);
    if (seen.st_dev != st->st_dev || seen.st_ino != st->st_ino)
        return beneath_close_fail(fd, ESTALE);
    *st = seen;
    return fd;
}

int beneath_file(int dir, const char *path, enum beneath_links links,
                 struct stat *st)
{
    return open_kind(dir, path, links, S_IFREG, st);
}

int beneath_folder(int dir, const char *path, enum beneath_links links,
                   struct stat *st)
{
    return open_kind(dir, path, links, S_IFDIR, st);
}
