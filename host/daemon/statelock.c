// SPDX-License-Identifier: Apache-2.0
// host/daemon/statelock.c -- the lock file of a state folder, which names its
// holder and the boot that it was taken in.
#include "host/daemon/statelock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX_BYTES 256

static void read_boot_id(char *out, size_t space)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, space - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

// Fills *err with why fcntl gave no lock (errno). If another process holds it,
// with that: the kernel knows its pid, except in another pid namespace (l_pid
// is 0 then); the file has its own line.
static enum sl_err statelock_refuse(int fd, const char *path,
                                    struct flock *lock, struct sl_error *err)
{
    char text[TEXT_MAX_BYTES];
    ssize_t n;

    if (errno != EAGAIN && errno != EACCES)
        return sl_fail(err, sl_err_from_errno(errno), "%s: lock: %s", path,
                       strerror(errno));
    // Since then it may have been let go; then l_type says so, and l_pid is
    // what we put there.
    if (fcntl(fd, F_GETLK, lock) != 0 || lock->l_type == F_UNLCK)
        lock->l_pid = 0;
    n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return sl_fail(err, SL_EBUSY,
                   "%s is held by process %ld (%s); stop it, or choose another "
                   "folder with --state",
                   path, (long)lock->l_pid, text);
}

// Writes pid and boot id to the lock file. On a full disk the file stays empty,
// which does not matter: the kernel holds the lock.
static enum sl_err write_owner(int fd, const char *path, struct sl_error *err)
{
    char text[TEXT_MAX_BYTES], boot[64];
    int n;

    read_boot_id(boot, sizeof(boot));
    n = snprintf(text, sizeof(text), "pid %ld boot %s\n", (long)getpid(), boot);
    errno = 0;
    if ((ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) &&
        errno != ENOSPC && errno != EDQUOT)
        return sl_fail(err, sl_err_from_errno(errno), "%s: write: %s", path,
                       strerror(errno));
    return SL_OK;
}

enum sl_err statelock_take(struct statelock *l, const char *folder,
                           struct sl_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[4096];
    enum sl_err rc;
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/lock", folder) >= sizeof(path))
        return sl_fail(err, SL_EINVAL, "%.100s...: the path is too long",
                       folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return sl_fail(err, sl_err_from_errno(errno), "%s: open: %s", path,
                       strerror(errno));
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        rc = statelock_refuse(fd, path, &lock, err);
        close(fd);
        return rc;
    }
    rc = write_owner(fd, path, err);
    if (rc != SL_OK) {
        close(fd);
        return rc;
    }
    l->fd = fd;
    return SL_OK;
}

void statelock_release(struct statelock *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
