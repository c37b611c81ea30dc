// SPDX-License-Identifier: Apache-2.0
// host/store/s3_fs.c -- objects as files: the vtable of common/base/fs.h.
#include <string.h>

#include "common/base/mem.h"
#include "host/store/s3.h"

#define TEMP ".tmp"

static void file_free(struct s3_file *f)
{
    s3_upload_end(&f->upload);
    buf_release(&f->first);
    buf_release(&f->last);
    sl_free(f->window);
    pthread_mutex_destroy(&f->lock);
    sl_free(f->base.path);
    sl_free(f);
}

static struct s3_file *file_new(struct fs *fs, const char *path,
                                struct sl_error *err)
{
    struct s3_file *f = sl_calloc(1, sizeof(*f));
    char *copy = sl_strdup(path);

    if (f == NULL || copy == NULL) {
        sl_free(f);
        sl_free(copy);
        sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    f->base.fs = fs;
    f->base.path = copy;
    f->s = s3_of(fs);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

// Removes ".tmp" from the end of a name; false if it has none. The parts of an
// upload are sent under the final name, and no object appears before its end.
static bool drop_temp(struct s3_name *name)
{
    size_t n = strlen(name->key), temp = strlen(TEMP);

    if (n <= temp || strcmp(name->key + n - temp, TEMP) != 0)
        return false;
    name->key[n - temp] = '\0';
    return true;
}

static enum sl_err must_be_new(struct s3_file *f, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct s3_object found;
    enum sl_err rc = s3_head(f->s, &f->name, &found, &why);

    if (rc == SL_OK)
        return s3_taken(&f->name, err);
    return rc == SL_ENOENT ? SL_OK : sl_fail(err, rc, "%s", why.text);
}

static enum sl_err s3_open(struct fs *fs, struct fs_file **out,
                           const char *path, enum fs_mode mode,
                           struct sl_error *err)
{
    struct s3_file *f;
    enum sl_err rc = SL_OK;

    if (mode == FS_APPEND)
        return sl_fail(err, SL_ENOTSUP, "%s: S3 cannot append to objects",
                       path);
    f = file_new(fs, path, err);
    if (f == NULL)
        return SL_ENOMEM;
    f->writes = mode != FS_READ;
    rc = s3_file_name_of(&f->name, path, err);
    if (rc == SL_OK && mode == FS_READ)
        rc = s3_read_open(f, err);
    if (rc == SL_OK && f->writes)
        f->fresh = !drop_temp(&f->name) && mode == FS_CREATE;
    if (rc == SL_OK && f->fresh)
        rc = must_be_new(f, err);
    if (rc != SL_OK) {
        file_free(f);
        return rc;
    }
    *out = &f->base;
    return SL_OK;
}

static void s3_close(struct fs_file *base)
{
    file_free(s3_file_of(base));
}

static enum sl_err s3_commit(struct fs_file *base, const char *path, bool fresh,
                             struct sl_error *err)
{
    struct s3_name name;
    enum sl_err rc = s3_file_name_of(&name, path, err);

    if (rc == SL_OK)
        rc = s3_publish(s3_file_of(base), &name, fresh, err);
    s3_close(base);
    return rc;
}

static enum sl_err s3_size(struct fs_file *base, uint64_t *out,
                           struct sl_error *err)
{
    const struct s3_file *f = s3_file_of(base);

    *out = f->writes ? f->bytes : f->object.bytes;
    return SL_OK;
}

static enum sl_err s3_rename(struct fs *fs, const char *from, const char *to,
                             struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP, "%s: S3 cannot rename objects", from);
}

// Names are durable with what they name.
static enum sl_err s3_sync_dir(struct fs *fs, const char *dir,
                               struct sl_error *err)
{
    return SL_OK;
}

static enum sl_err s3_unlink(struct fs *fs, const char *path,
                             struct sl_error *err)
{
    struct s3_name name;
    enum sl_err rc = s3_file_name_of(&name, path, err);

    return rc == SL_OK ? s3_delete(s3_of(fs), &name, err) : rc;
}

// A folder is there if a name begins with it; a bucket, if it answers.
static enum sl_err stat_dir(struct s3 *s, const struct s3_name *name,
                            struct fs_stat *out, struct sl_error *err)
{
    struct s3_names names;
    enum sl_err rc = s3_list(s, name, 1, &names, err);
    bool any;

    if (rc != SL_OK)
        return rc;
    any = names.any || name->key[0] == '\0';
    s3_names_release(&names);
    if (!any)
        return sl_fail(err, SL_ENOENT, "s3://%s/%s does not exist",
                       name->bucket, name->key);
    *out = (struct fs_stat){0, 0, true};
    return SL_OK;
}

static enum sl_err s3_stat(struct fs *fs, const char *path, struct fs_stat *out,
                           struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct s3_object object;
    struct s3_name name;
    enum sl_err rc = s3_name_of(&name, path, err);

    if (rc != SL_OK)
        return rc;
    if (name.key[0] == '\0')
        return stat_dir(s3_of(fs), &name, out, err);
    rc = s3_head(s3_of(fs), &name, &object, &why);
    if (rc == SL_ENOENT)
        return stat_dir(s3_of(fs), &name, out, err);
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s", why.text);
    *out = (struct fs_stat){object.bytes, object.mtime_s * 1000000000u, false};
    return SL_OK;
}

static enum sl_err s3_list_dir(struct fs *fs, const char *dir, fs_name_fn fn,
                               void *arg, struct sl_error *err)
{
    struct s3_names names = {NULL, 0, 0, false};
    struct s3_name name;
    enum sl_err rc = s3_name_of(&name, dir, err);

    if (rc == SL_OK)
        rc = s3_list(s3_of(fs), &name, 0, &names, err);
    for (size_t i = 0; rc == SL_OK && i < names.count; i++)
        rc = fn(arg, names.name[i]);
    s3_names_release(&names);
    return rc;
}

static const struct fs_ops s3_ops = {
    .open = s3_open,
    .close = s3_close,
    .write = s3_write,
    .pwrite = s3_pwrite,
    .pread = s3_pread,
    .sync = s3_sync,
    .size = s3_size,
    .map = s3_map,
    .unmap = s3_unmap,
    .rename = s3_rename,
    .sync_dir = s3_sync_dir,
    .commit = s3_commit,
    .unlink = s3_unlink,
    .stat = s3_stat,
    .list = s3_list_dir,
};

enum sl_err s3_fs_new(struct s3 **out, const struct s3_setup *setup,
                      struct sl_error *err)
{
    enum sl_err rc = s3_new(out, setup, err);

    if (rc == SL_OK)
        (*out)->fs.ops = &s3_ops;
    return rc;
}
