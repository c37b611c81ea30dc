// SPDX-License-Identifier: Apache-2.0
// common/base/fs.c -- what is the same over every implementation: the rule of
// the failed sync, and the sequences that make a file durable.
#include "common/base/fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

enum sl_err fs_open(struct fs *fs, struct fs_file **out, const char *path,
                    enum fs_mode mode, struct sl_error *err)
{
    return fs->ops->open(fs, out, path, mode, err);
}

void fs_close(struct fs_file *f)
{
    if (f != NULL)
        f->fs->ops->close(f);
}

static enum sl_err refuse_poisoned(struct fs_file *f, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: an earlier write or sync of it has failed",
                   f->path);
}

static enum sl_err fs_poison_on_error(struct fs_file *f, enum sl_err rc)
{
    if (rc != SL_OK)
        f->poisoned = true;
    return rc;
}

enum sl_err fs_write(struct fs_file *f, const void *bytes, size_t n,
                     struct sl_error *err)
{
    if (f->poisoned)
        return refuse_poisoned(f, err);
    return fs_poison_on_error(f, f->fs->ops->write(f, bytes, n, err));
}

enum sl_err fs_pwrite(struct fs_file *f, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err)
{
    if (f->poisoned)
        return refuse_poisoned(f, err);
    return fs_poison_on_error(f, f->fs->ops->pwrite(f, offset, bytes, n, err));
}

enum sl_err fs_pread(struct fs_file *f, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err)
{
    return f->fs->ops->pread(f, offset, to, n, got, err);
}

void fs_expect(struct fs_file *f, uint64_t offset, size_t n)
{
    if (f->fs->ops->expect != NULL)
        f->fs->ops->expect(f, offset, n);
}

enum sl_err fs_sync(struct fs_file *f, struct sl_error *err)
{
    if (f->poisoned)
        return refuse_poisoned(f, err);
    return fs_poison_on_error(f, f->fs->ops->sync(f, err));
}

enum sl_err fs_size(struct fs_file *f, uint64_t *out, struct sl_error *err)
{
    return f->fs->ops->size(f, out, err);
}

uint64_t fs_version(const struct fs_file *f)
{
    return f->fs->ops->version != NULL ? f->fs->ops->version(f) : 0;
}

enum sl_err fs_map_file(struct fs_file *f, struct fs_map *out,
                        struct sl_error *err)
{
    return f->fs->ops->map(f, out, err);
}

void fs_unmap(struct fs *fs, struct fs_map *m)
{
    if (m->impl != NULL || m->data != NULL)
        fs->ops->unmap(fs, m);
    *m = (struct fs_map){NULL, 0, NULL};
}

static enum sl_err refuse_share(struct fs_file *f, struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP, "%s: it cannot be mapped for writing",
                   f->path);
}

enum sl_err fs_reserve(struct fs_file *f, uint64_t offset, uint64_t n,
                       struct sl_error *err)
{
    if (f->fs->ops->reserve == NULL)
        return refuse_share(f, err);
    return f->fs->ops->reserve(f, offset, n, err);
}

enum sl_err fs_share(struct fs_file *f, uint64_t offset, size_t n, void **out,
                     struct sl_error *err)
{
    if (f->fs->ops->share == NULL)
        return refuse_share(f, err);
    return f->fs->ops->share(f, offset, n, out, err);
}

void fs_unshare(struct fs *fs, void *at, size_t n)
{
    fs->ops->unshare(fs, at, n);
}

enum sl_err fs_rename(struct fs *fs, const char *from, const char *to,
                      struct sl_error *err)
{
    return fs->ops->rename(fs, from, to, err);
}

enum sl_err fs_sync_dir(struct fs *fs, const char *dir, struct sl_error *err)
{
    return fs->ops->sync_dir(fs, dir, err);
}

enum sl_err fs_unlink(struct fs *fs, const char *path, struct sl_error *err)
{
    return fs->ops->unlink(fs, path, err);
}

enum sl_err fs_stat_path(struct fs *fs, const char *path, struct fs_stat *out,
                         struct sl_error *err)
{
    return fs->ops->stat(fs, path, out, err);
}

bool fs_exists(struct fs *fs, const char *path)
{
    struct fs_stat st;

    return fs_stat_path(fs, path, &st, NULL) == SL_OK;
}

enum sl_err fs_list(struct fs *fs, const char *dir, fs_name_fn fn, void *arg,
                    struct sl_error *err)
{
    return fs->ops->list(fs, dir, fn, arg, err);
}

char *fs_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return sl_strdup(".");
    return sl_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

char *fs_join(const char *dir, const char *name)
{
    size_t n = strlen(dir), m = strlen(name);
    char *path = sl_malloc(n + m + 2);

    if (path == NULL)
        return NULL;
    memcpy(path, dir, n);
    if (n == 0 || path[n - 1] != '/')
        path[n++] = '/';
    memcpy(path + n, name, m + 1);
    return path;
}

static enum sl_err out_of_memory(const char *path, struct sl_error *err)
{
    return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
}

static enum sl_err sync_parent(struct fs *fs, const char *path,
                               struct sl_error *err)
{
    char *dir = fs_dirname(path);
    enum sl_err rc;

    if (dir == NULL)
        return out_of_memory(path, err);
    rc = fs_sync_dir(fs, dir, err);
    sl_free(dir);
    return rc;
}

static bool is_dir(struct fs *fs, const char *path)
{
    struct fs_stat st;

    return fs_stat_path(fs, path, &st, NULL) == SL_OK && st.is_dir;
}

// Makes the name of an existing folder durable: the process that made it may
// have died, or failed, before its sync. If the parent may not be opened, or
// cannot be synced, the folder is not our work, and that is no error.
static enum sl_err settle_dir(struct fs *fs, const char *path,
                              struct sl_error *err)
{
    struct sl_error own = SL_ERROR_INIT;
    enum sl_err rc = sync_parent(fs, path, &own);

    if (rc == SL_OK || rc == SL_EDENIED || rc == SL_EINVAL)
        return SL_OK;
    return sl_fail(err, rc, "%s", own.text);
}

// Makes one folder in a parent that exists and is durable.
static enum sl_err make_dir(struct fs *fs, const char *path,
                            struct sl_error *err)
{
    struct sl_error own = SL_ERROR_INIT, look = SL_ERROR_INIT;
    enum sl_err rc = fs->ops->mkdir(fs, path, &own);
    struct fs_stat st = {.is_dir = true};

    // Another process may have made it meanwhile, or fs_stat_path failed on a
    // folder that exists.
    if (rc == SL_EEXIST) {
        enum sl_err seen = fs_stat_path(fs, path, &st, &look);

        if (seen != SL_OK)
            return sl_fail(err, seen, "%s", look.text);
        rc = st.is_dir ? SL_OK : rc;
    }
    return rc == SL_OK ? sync_parent(fs, path, err)
                       : sl_fail(err, rc, "%s", own.text);
}

// Each folder is made only after its parent's name is durable, so one sync of
// the deepest existing folder is enough.
enum sl_err fs_mkdirs(struct fs *fs, const char *path, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    char *parent;

    if (fs->ops->mkdir == NULL)
        return SL_OK;
    if (is_dir(fs, path))
        return settle_dir(fs, path, err);
    parent = fs_dirname(path);
    if (parent == NULL)
        return out_of_memory(path, err);
    if (strcmp(parent, path) != 0)
        rc = fs_mkdirs(fs, parent, err);
    sl_free(parent);
    return rc == SL_OK ? make_dir(fs, path, err) : rc;
}

static enum sl_err fs_file_commit(struct fs_file *f, const char *path,
                                  bool fresh, struct sl_error *err)
{
    struct fs *fs = f->fs;
    char *temp;
    enum sl_err rc;

    if (fs->ops->commit != NULL && !f->poisoned)
        return fs->ops->commit(f, path, fresh, err);
    temp = sl_strdup(f->path);
    rc = temp == NULL ? out_of_memory(path, err) : fs_sync(f, err);
    fs_close(f);
    if (rc == SL_OK && fresh && fs_exists(fs, path))
        rc = sl_fail(err, SL_EEXIST, "%s is there already", path);
    if (rc == SL_OK)
        rc = fs_rename(fs, temp, path, err);
    if (rc == SL_OK)
        rc = sync_parent(fs, path, err);
    sl_free(temp);
    return rc;
}

enum sl_err fs_commit(struct fs_file *f, const char *path, struct sl_error *err)
{
    return fs_file_commit(f, path, false, err);
}

static enum sl_err write_whole(struct fs *fs, const char *path,
                               const void *bytes, size_t n, bool fresh,
                               struct sl_error *err)
{
    char temp[4096];
    struct fs_file *f;
    enum sl_err rc;

    if ((size_t)snprintf(temp, sizeof(temp), "%s.tmp", path) >= sizeof(temp))
        return sl_fail(err, SL_EINVAL, "%.100s...: the path is too long", path);
    rc = fs_open(fs, &f, temp, FS_WRITE, err);
    if (rc != SL_OK)
        return rc;
    rc = fs_write(f, bytes, n, err);
    if (rc == SL_OK)
        rc = fs_file_commit(f, path, fresh, err);
    else
        fs_close(f);
    if (rc != SL_OK && fs->ops->commit == NULL)
        (void)fs_unlink(fs, temp, NULL); // missing if it was renamed already
    return rc;
}

enum sl_err fs_write_durable(struct fs *fs, const char *path, const void *bytes,
                             size_t n, struct sl_error *err)
{
    return write_whole(fs, path, bytes, n, false, err);
}

enum sl_err fs_write_new(struct fs *fs, const char *path, const void *bytes,
                         size_t n, struct sl_error *err)
{
    return write_whole(fs, path, bytes, n, true, err);
}

enum sl_err fs_read_all(struct fs *fs, const char *path, size_t limit,
                        struct buf *out, struct sl_error *err)
{
    struct fs_file *f;
    uint64_t bytes;
    size_t start = out->len, got = 0;
    uint8_t *to;
    enum sl_err rc = fs_open(fs, &f, path, FS_READ, err);

    if (rc != SL_OK)
        return rc;
    rc = fs_size(f, &bytes, err);
    if (rc != SL_OK)
        goto done;
    if (bytes > limit) {
        rc = sl_fail(err, SL_ERANGE,
                     "%s has %" PRIu64 " bytes; at most %zu are read", path,
                     bytes, limit);
        goto done;
    }
    to = buf_extend(out, (size_t)bytes);
    if (to == NULL) {
        rc = out_of_memory(path, err);
        goto done;
    }
    rc = fs_pread(f, 0, to, (size_t)bytes, &got, err);
    out->len = start + (rc == SL_OK ? got : 0);
    out->data[out->len] = '\0';
done:
    fs_close(f);
    return rc;
}
