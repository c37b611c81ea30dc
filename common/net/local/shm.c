// SPDX-License-Identifier: Apache-2.0
// common/net/local/shm.c -- the memory; see shm.h. The socket is shm_sock.c.
#include "common/net/local/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/huge.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static enum sl_err shm_fail(struct sl_error *err, const char *what)
{
    int e = errno;

    return sl_fail(err, e == ENOMEM || e == ENOSPC ? SL_ENOMEM : SL_EIO,
                   "shared memory: %s: %s", what, strerror(e));
}

static enum sl_err map(struct shm *out, int fd, size_t bytes, int flags,
                       struct sl_error *err)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);

    if (at == MAP_FAILED)
        return shm_fail(err, "mmap");
    if (bytes >= SL_HUGE_PAGE)
        (void)madvise(at, bytes, MADV_HUGEPAGE); // a wish
    *out = (struct shm){at, bytes};
    return SL_OK;
}

enum sl_err shm_new(struct shm *out, int *fd, size_t bytes,
                    struct sl_error *err)
{
    int made = memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int why;
    enum sl_err rc;

    if (made < 0)
        return shm_fail(err, "memfd_create");
    // Allocated now, so that too little memory is an error here and not the
    // end of a process later.
    why = posix_fallocate(made, 0, (off_t)bytes);
    if (why != 0) {
        errno = why;
        rc = shm_fail(err, "allocating");
    } else if (fcntl(made, F_ADD_SEALS, SEALS) != 0) {
        rc = shm_fail(err, "sealing");
    } else {
        rc = map(out, made, bytes, 0, err);
    }
    if (rc != SL_OK) {
        close(made);
        return rc;
    }
    *fd = made;
    return SL_OK;
}

enum sl_err shm_map(struct shm *out, int fd, size_t bytes, struct sl_error *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;

    if (seals < 0 || (seals & SEALS) != SEALS)
        return sl_fail(err, SL_EDENIED, "shared memory: it is not sealed");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return sl_fail(err, SL_EDENIED, "shared memory: it is read-only");
    // Huge pages may be missing when they are touched, which is a SIGBUS.
    if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return sl_fail(err, SL_EDENIED, "shared memory: it is no plain memory");
    if (fstat(fd, &st) != 0 || st.st_size <= 0 || (uint64_t)st.st_size != bytes)
        return sl_fail(err, SL_EDENIED,
                       "shared memory has %lld bytes, not the %zu bytes that "
                       "its owner announced",
                       (long long)st.st_size, bytes);
    return map(out, fd, bytes, MAP_POPULATE, err);
}

void shm_release(struct shm *m)
{
    if (m->at != NULL)
        munmap(m->at, m->bytes);
    *m = (struct shm){NULL, 0};
}

bool shm_boot_id(char out[SHM_BOOT_ID])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, out, SHM_BOOT_ID - 1);
    close(fd);
    if (n <= 0)
        return false;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

enum sl_err shm_secret(uint64_t *out)
{
    uint64_t value = 0;

    while (value == 0)
        if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
            return SL_EIO;
    *out = value;
    return SL_OK;
}
