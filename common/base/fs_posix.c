// SPDX-License-Identifier: Apache-2.0
// common/base/fs_posix.c -- the real file system.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/fs.h"
#include "common/base/history.h"
#include "common/base/mem.h"

struct posix_file {
    struct fs_file base;
    int fd;
};

static struct posix_file *posix_file_of(struct fs_file *f)
{
    return sl_container_of(f, struct posix_file, base);
}

static enum sl_err posix_fail(struct sl_error *err, const char *call,
                              const char *path)
{
    int errnum = errno;

    return sl_fail(err, sl_err_from_errno(errnum), "%s: %s: %s", path, call,
                   strerror(errnum));
}

// An armed FAULT_ERR, as if the call had failed so.
static enum sl_err injected(struct sl_error *err, const char *call,
                            const char *path)
{
    return sl_fail(err, SL_EIO, "%s: %s: injected error", path, call);
}

// Returns true for a folder: it can be opened for reading, but every read of it
// fails.
static bool is_folder(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

// Takes the rights of group and others away from a regular file. Fails without
// effect if this process does not own it.
static void make_private(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) != 0)
        (void)fchmod(fd, st.st_mode & 0700);
}

static struct posix_file *new_file(const char *path, struct sl_error *err)
{
    struct posix_file *f = sl_calloc(1, sizeof(*f));

    if (f != NULL)
        f->base.path = sl_strdup(path);
    if (f == NULL || f->base.path == NULL) {
        sl_free(f);
        sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    f->base.fs = fs_posix();
    f->fd = -1;
    return f;
}

static enum sl_err posix_open(struct fs *fs, struct fs_file **out,
                              const char *path, enum fs_mode mode,
                              struct sl_error *err)
{
    static const int flags[] = {
        [FS_READ] = O_RDONLY,
        [FS_CREATE] = O_RDWR | O_CREAT | O_EXCL,
        [FS_WRITE] = O_RDWR | O_CREAT | O_TRUNC,
        [FS_APPEND] = O_RDWR | O_CREAT | O_APPEND,
    };
    struct posix_file *f = new_file(path, err);

    if (f == NULL)
        return SL_ENOMEM;
    f->base.fs = fs;
    do {
        f->fd = open(path, flags[mode] | O_CLOEXEC,
                     fs == fs_private() ? 0600 : 0644);
    } while (f->fd < 0 && errno == EINTR);
    if (f->fd < 0 || is_folder(f->fd)) {
        enum sl_err rc =
            f->fd < 0
                ? posix_fail(err, "open", path)
                : sl_fail(err, SL_EINVAL, "%s is a folder, not a file", path);

        if (f->fd >= 0)
            close(f->fd);
        sl_free(f->base.path);
        sl_free(f);
        return rc;
    }
    if (mode != FS_READ && fs == fs_private())
        make_private(f->fd);
    *out = &f->base;
    return SL_OK;
}

static void posix_close(struct fs_file *base)
{
    struct posix_file *f = posix_file_of(base);

    close(f->fd);
    sl_free(f->base.path);
    sl_free(f);
}

// A signal or a full disk may cut a write short; the next call tells which.
static enum sl_err posix_write(struct fs_file *base, const void *bytes,
                               size_t n, struct sl_error *err)
{
    const uint8_t *at = bytes;

    if (FAULT_ERR("fs.write") != SL_OK)
        return injected(err, "write", base->path);
    while (n > 0) {
        ssize_t done = write(posix_file_of(base)->fd, at, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return posix_fail(err, "write", base->path);
        at += done;
        n -= (size_t)done;
    }
    return SL_OK;
}

static enum sl_err posix_pwrite(struct fs_file *base, uint64_t offset,
                                const void *bytes, size_t n,
                                struct sl_error *err)
{
    const uint8_t *at = bytes;

    while (n > 0) {
        ssize_t done = pwrite(posix_file_of(base)->fd, at, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return posix_fail(err, "pwrite", base->path);
        at += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return SL_OK;
}

static enum sl_err posix_pread(struct fs_file *base, uint64_t offset, void *to,
                               size_t n, size_t *got, struct sl_error *err)
{
    uint8_t *at = to;
    size_t have = 0;

    while (have < n) {
        ssize_t done = pread(posix_file_of(base)->fd, at + have, n - have,
                             (off_t)(offset + have));

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return posix_fail(err, "pread", base->path);
        if (done == 0)
            break;
        have += (size_t)done;
    }
    *got = have;
    return SL_OK;
}

static void posix_expect(struct fs_file *base, uint64_t offset, size_t n)
{
    (void)posix_fadvise(posix_file_of(base)->fd, (off_t)offset, (off_t)n,
                        POSIX_FADV_WILLNEED);
}

static enum sl_err posix_sync(struct fs_file *base, struct sl_error *err)
{
    if (FAULT_ERR("fs.fsync") != SL_OK)
        return injected(err, "fsync", base->path);
    // Not repeated, not even after EINTR: see fs.h.
    if (fsync(posix_file_of(base)->fd) != 0)
        return posix_fail(err, "fsync", base->path);
    HISTORY("fs", "op=fsync path=%s", base->path);
    return SL_OK;
}

static enum sl_err posix_size(struct fs_file *base, uint64_t *out,
                              struct sl_error *err)
{
    struct stat st;

    if (fstat(posix_file_of(base)->fd, &st) != 0)
        return posix_fail(err, "fstat", base->path);
    *out = (uint64_t)st.st_size;
    return SL_OK;
}

static enum sl_err posix_map(struct fs_file *base, struct fs_map *out,
                             struct sl_error *err)
{
    uint64_t bytes = 0;
    enum sl_err rc = posix_size(base, &bytes, err);
    void *p;

    if (rc != SL_OK)
        return rc;
    if (bytes == 0) { // which mmap refuses
        *out = (struct fs_map){NULL, 0, NULL};
        return SL_OK;
    }
    p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, posix_file_of(base)->fd, 0);
    if (p == MAP_FAILED)
        return posix_fail(err, "mmap", base->path);
    *out = (struct fs_map){p, bytes, p};
    return SL_OK;
}

static void posix_unmap(struct fs *fs, struct fs_map *m)
{
    munmap(m->impl, m->bytes);
}

static enum sl_err posix_reserve(struct fs_file *base, uint64_t offset,
                                 uint64_t n, struct sl_error *err)
{
    int rc;

    do {
        rc = fallocate(posix_file_of(base)->fd, 0, (off_t)offset, (off_t)n);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? SL_OK : posix_fail(err, "fallocate", base->path);
}

// Neighbours are not read ahead: what is mapped so is met in no order.
static enum sl_err posix_share(struct fs_file *base, uint64_t offset, size_t n,
                               void **out, struct sl_error *err)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED,
                   posix_file_of(base)->fd, (off_t)offset);

    if (p == MAP_FAILED)
        return posix_fail(err, "mmap", base->path);
    (void)madvise(p, n, MADV_RANDOM);
    *out = p;
    return SL_OK;
}

static void posix_unshare(struct fs *fs, void *at, size_t n)
{
    munmap(at, n);
}

static enum sl_err posix_rename(struct fs *fs, const char *from, const char *to,
                                struct sl_error *err)
{
    if (FAULT_ERR("fs.rename") != SL_OK)
        return injected(err, "rename", to);
    if (rename(from, to) != 0)
        return posix_fail(err, "rename", to);
    HISTORY("fs", "op=rename path=%s from=%s", to, from);
    FAULT("fs.renamed");
    return SL_OK;
}

static enum sl_err posix_sync_dir(struct fs *fs, const char *dir,
                                  struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    int fd;

    if (FAULT_ERR("fs.dirsync") != SL_OK)
        return injected(err, "fsync", dir);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return posix_fail(err, "open", dir);
    if (fsync(fd) != 0)
        rc = posix_fail(err, "fsync", dir);
    else
        HISTORY("fs", "op=dirsync path=%s", dir);
    close(fd);
    return rc;
}

static enum sl_err posix_unlink(struct fs *fs, const char *path,
                                struct sl_error *err)
{
    if (FAULT_ERR("fs.unlink") != SL_OK)
        return injected(err, "unlink", path);
    if (unlink(path) != 0)
        return posix_fail(err, "unlink", path);
    HISTORY("fs", "op=unlink path=%s", path);
    FAULT("fs.unlinked");
    return SL_OK;
}

static enum sl_err posix_mkdir(struct fs *fs, const char *path,
                               struct sl_error *err)
{
    if (mkdir(path, fs == fs_private() ? 0700 : 0755) != 0)
        return posix_fail(err, "mkdir", path);
    return SL_OK;
}

static enum sl_err posix_stat(struct fs *fs, const char *path,
                              struct fs_stat *out, struct sl_error *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return posix_fail(err, "stat", path);
    out->bytes = (uint64_t)st.st_size;
    out->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
                    (uint64_t)st.st_mtim.tv_nsec;
    out->is_dir = S_ISDIR(st.st_mode);
    return SL_OK;
}

static int posix_entry_by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static enum sl_err list_at(int at, const char *path, const char *dir,
                           fs_name_fn fn, void *arg, struct sl_error *err)
{
    struct dirent **names;
    enum sl_err rc = SL_OK;
    int count = scandirat(at, path, &names, not_dots, posix_entry_by_name);

    if (count < 0)
        return posix_fail(err, "scandir", dir);
    for (int i = 0; i < count; i++) {
        if (rc == SL_OK)
            rc = fn(arg, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return rc;
}

static enum sl_err posix_list(struct fs *fs, const char *dir, fs_name_fn fn,
                              void *arg, struct sl_error *err)
{
    return list_at(AT_FDCWD, dir, dir, fn, arg, err);
}

static const struct fs_ops posix_ops = {
    .open = posix_open,
    .close = posix_close,
    .write = posix_write,
    .pwrite = posix_pwrite,
    .pread = posix_pread,
    .expect = posix_expect,
    .sync = posix_sync,
    .size = posix_size,
    .map = posix_map,
    .unmap = posix_unmap,
    .reserve = posix_reserve,
    .share = posix_share,
    .unshare = posix_unshare,
    .rename = posix_rename,
    .sync_dir = posix_sync_dir,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .stat = posix_stat,
    .list = posix_list,
};

struct fs *fs_posix(void)
{
    static struct fs fs = {&posix_ops};

    return &fs;
}

struct fs *fs_private(void)
{
    static struct fs fs = {&posix_ops};

    return &fs;
}

enum sl_err fs_private_folder(const char *path, bool *others,
                              struct sl_error *err)
{
    struct stat st;
    bool fresh = stat(path, &st) != 0 && errno == ENOENT;
    enum sl_err rc = fs_mkdirs(fs_posix(), path, err);

    if (rc == SL_OK && fresh && chmod(path, 0700) != 0)
        rc = posix_fail(err, "chmod", path);
    if (rc == SL_OK && stat(path, &st) != 0)
        rc = posix_fail(err, "stat", path);
    if (rc == SL_OK)
        *others = (st.st_mode & 077) != 0;
    return rc;
}

enum sl_err fs_list_open(int fd, const char *dir, fs_name_fn fn, void *arg,
                         struct sl_error *err)
{
    return list_at(fd, ".", dir, fn, arg, err);
}

enum sl_err fs_take(struct fs_file **out, int fd, const char *path,
                    struct sl_error *err)
{
    struct posix_file *f = new_file(path, err);

    if (f == NULL) {
        close(fd);
        return SL_ENOMEM;
    }
    f->fd = fd;
    *out = &f->base;
    return SL_OK;
}

enum sl_err fs_absolute(char **path, struct sl_error *err)
{
    char *full = realpath(*path, NULL);
    char *copy = full == NULL ? NULL : sl_strdup(full);

    free(full);
    if (copy == NULL)
        return sl_fail(err, SL_EIO, "%s: no absolute path", *path);
    sl_free(*path);
    *path = copy;
    return SL_OK;
}
