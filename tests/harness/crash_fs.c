// SPDX-License-Identifier: Apache-2.0
// tests/harness/crash_fs.c -- common/base/fs.h over a crash_disk, counting
// steps.
#include "tests/harness/crash_fs.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/crash_disk.h"

struct crash_fs {
    struct fs fs;
    struct disk disk;
    struct rng rng;
    uint64_t steps, die_at, fail_at; // 0: does not
    uint64_t life;                   // counts reboots
    bool dead;
};

struct crash_file {
    struct fs_file base;
    struct disk_node *node;
    uint64_t life; // a file of an earlier life is of no use
    bool writable;
};

// What becomes of a step.
enum fate {
    DONE,    // it happens
    HALF,    // the machine dies in it, and it may have happened
    NOTHING, // it fails, or the machine died before
};

static struct crash_fs *fs_of(struct fs *fs)
{
    return sl_container_of(fs, struct crash_fs, fs);
}

static struct crash_file *file_of(struct fs_file *f)
{
    return sl_container_of(f, struct crash_file, base);
}

static enum fate step(struct crash_fs *fs)
{
    if (fs->dead)
        return NOTHING;
    fs->steps++;
    if (fs->steps == fs->fail_at)
        return NOTHING;
    if (fs->steps != fs->die_at)
        return DONE;
    fs->dead = true;
    return HALF;
}

// After a step's effect, if any: what its caller hears.
static enum sl_err tell(struct crash_fs *fs, enum fate fate, const char *path,
                        const char *call, struct sl_error *err)
{
    if (fate == DONE)
        return SL_OK;
    return sl_fail(err, SL_EIO, "%s: %s: %s at step %llu", path, call,
                   fs->dead ? "the machine died" : "a bad sector",
                   (unsigned long long)fs->steps);
}

// Whether a step takes effect on the cache.
static bool happens(struct crash_fs *fs, enum fate fate)
{
    return fate == DONE || (fate == HALF && rng_below(&fs->rng, 2) == 0);
}

static bool alive(struct fs_file *f)
{
    struct crash_fs *fs = fs_of(f->fs);

    return !fs->dead && file_of(f)->life == fs->life;
}

static enum sl_err stale(struct fs_file *f, struct sl_error *err)
{
    return sl_fail(err, SL_EIO, "%s: it was open when the machine died",
                   f->path);
}

// Finds or makes the node to open.
static enum sl_err open_node(struct crash_fs *fs, struct disk_node **out,
                             const char *path, enum fs_mode mode,
                             struct sl_error *err)
{
    struct disk_node *n = disk_find(&fs->disk, path);
    enum fate fate;

    if (n == NULL && (mode == FS_READ || !disk_parent_exists(&fs->disk, path)))
        return sl_fail(err, SL_ENOENT, "%s: open: not there", path);
    if (n != NULL && mode == FS_CREATE)
        return sl_fail(err, SL_EEXIST, "%s: open: exists", path);
    if ((n != NULL && n->is_dir) || *path == '\0')
        return sl_fail(err, SL_EINVAL, "%s: open: a folder", path);
    *out = n;
    if (mode == FS_READ || (n != NULL && mode == FS_APPEND))
        return SL_OK;
    fate = step(fs);
    if (happens(fs, fate)) {
        if (n == NULL)
            *out = disk_link(&fs->disk, path, false);
        else
            disk_truncate(n);
    }
    return tell(fs, fate, path, "open", err);
}

static enum sl_err crash_open(struct fs *base, struct fs_file **out,
                              const char *path, enum fs_mode mode,
                              struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    struct disk_node *n = NULL;
    struct crash_file *f;
    char *norm;
    enum sl_err rc;

    if (fs->dead)
        return tell(fs, NOTHING, path, "open", err);
    norm = disk_path(path);
    rc = open_node(fs, &n, norm, mode, err);
    free(norm);
    if (rc != SL_OK)
        return rc;
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        abort();
    f->base.fs = base;
    f->base.path = strdup(path);
    f->node = n;
    f->life = fs->life;
    f->writable = mode != FS_READ;
    *out = &f->base;
    return SL_OK;
}

static void crash_close(struct fs_file *f)
{
    free(f->path);
    free(file_of(f));
}

static enum sl_err crash_pwrite(struct fs_file *f, uint64_t offset,
                                const void *bytes, size_t n,
                                struct sl_error *err)
{
    struct crash_fs *fs = fs_of(f->fs);
    enum fate fate;

    if (!alive(f))
        return stale(f, err);
    if (!file_of(f)->writable)
        return sl_fail(err, SL_EINVAL, "%s: write: open for reading", f->path);
    fate = step(fs);
    if (fate == HALF && n > 0) // a part of it reached the cache
        disk_write(file_of(f)->node, offset, bytes,
                   (size_t)rng_below(&fs->rng, n + 1));
    else if (fate == DONE)
        disk_write(file_of(f)->node, offset, bytes, n);
    return tell(fs, fate, f->path, "write", err);
}

static enum sl_err crash_write(struct fs_file *f, const void *bytes, size_t n,
                               struct sl_error *err)
{
    return crash_pwrite(f, file_of(f)->node->now.len, bytes, n, err);
}

static enum sl_err crash_pread(struct fs_file *f, uint64_t offset, void *to,
                               size_t n, size_t *got, struct sl_error *err)
{
    const struct disk_blob *now = &file_of(f)->node->now;

    if (!alive(f))
        return stale(f, err);
    *got = offset >= now->len      ? 0
           : n < now->len - offset ? n
                                   : (size_t)(now->len - offset);
    if (*got > 0)
        memcpy(to, now->data + offset, *got);
    return SL_OK;
}

static enum sl_err crash_sync(struct fs_file *f, struct sl_error *err)
{
    struct crash_fs *fs = fs_of(f->fs);
    enum fate fate;

    if (!alive(f))
        return stale(f, err);
    fate = step(fs);
    if (fate == DONE)
        disk_sync(file_of(f)->node);
    else if (fate == NOTHING)
        disk_sync_failed(file_of(f)->node);
    return tell(fs, fate, f->path, "fsync", err);
}

static enum sl_err crash_size(struct fs_file *f, uint64_t *out,
                              struct sl_error *err)
{
    if (!alive(f))
        return stale(f, err);
    *out = file_of(f)->node->now.len;
    return SL_OK;
}

static enum sl_err crash_map(struct fs_file *f, struct fs_map *out,
                             struct sl_error *err)
{
    const struct disk_blob *now = &file_of(f)->node->now;
    uint8_t *copy;

    if (!alive(f))
        return stale(f, err);
    copy = malloc(now->len + 1);
    if (copy == NULL)
        abort();
    if (now->len > 0)
        memcpy(copy, now->data, now->len);
    *out = (struct fs_map){copy, now->len, copy};
    return SL_OK;
}

static void crash_unmap(struct fs *fs, struct fs_map *m)
{
    free(m->impl);
}

static enum sl_err crash_rename(struct fs *base, const char *from,
                                const char *to, struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *a = disk_path(from), *b = disk_path(to);
    enum sl_err rc = SL_ENOENT;
    enum fate fate;

    if (!fs->dead && (disk_find(&fs->disk, a) == NULL ||
                      !disk_parent_exists(&fs->disk, b))) {
        sl_fail(err, rc, "%s: rename: not there", from);
    } else {
        fate = step(fs);
        if (happens(fs, fate))
            disk_rename(&fs->disk, a, b);
        rc = tell(fs, fate, to, "rename", err);
    }
    free(a);
    free(b);
    return rc;
}

static enum sl_err crash_sync_dir(struct fs *base, const char *dir,
                                  struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *norm = disk_path(dir);
    enum sl_err rc = SL_ENOENT;
    enum fate fate;

    if (!fs->dead && !disk_is_dir(&fs->disk, norm)) {
        sl_fail(err, rc, "%s: fsync: no such folder", dir);
    } else {
        fate = step(fs);
        if (fate == DONE)
            disk_sync_dir(&fs->disk, norm);
        rc = tell(fs, fate, dir, "fsync", err);
    }
    free(norm);
    return rc;
}

static enum sl_err crash_unlink(struct fs *base, const char *path,
                                struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *norm = disk_path(path);
    enum sl_err rc = SL_ENOENT;
    enum fate fate;

    if (!fs->dead && disk_find(&fs->disk, norm) == NULL) {
        sl_fail(err, rc, "%s: unlink: not there", path);
    } else {
        fate = step(fs);
        if (happens(fs, fate))
            disk_unlink(&fs->disk, norm);
        rc = tell(fs, fate, path, "unlink", err);
    }
    free(norm);
    return rc;
}

static enum sl_err crash_mkdir(struct fs *base, const char *path,
                               struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *norm = disk_path(path);
    enum sl_err rc;
    enum fate fate;

    if (!fs->dead && (*norm == '\0' || disk_find(&fs->disk, norm) != NULL)) {
        rc = sl_fail(err, SL_EEXIST, "%s: mkdir: exists", path);
    } else if (!fs->dead && !disk_parent_exists(&fs->disk, norm)) {
        rc = sl_fail(err, SL_ENOENT, "%s: mkdir: no parent", path);
    } else {
        fate = step(fs);
        if (happens(fs, fate))
            (void)disk_link(&fs->disk, norm, true);
        rc = tell(fs, fate, path, "mkdir", err);
    }
    free(norm);
    return rc;
}

static enum sl_err crash_stat(struct fs *base, const char *path,
                              struct fs_stat *out, struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *norm = disk_path(path);
    struct disk_node *n = disk_find(&fs->disk, norm);
    enum sl_err rc = SL_OK;

    if (fs->dead)
        rc = tell(fs, NOTHING, path, "stat", err);
    else if (n == NULL && *norm != '\0')
        rc = sl_fail(err, SL_ENOENT, "%s: stat: not there", path);
    else
        *out = (struct fs_stat){n != NULL ? n->now.len : 0, 0,
                                n == NULL || n->is_dir};
    free(norm);
    return rc;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Copies of the names in a folder, sorted: fn may change the folder.
static size_t names_in(struct crash_fs *fs, const char *dir, char ***out)
{
    size_t count = 0, n = strlen(dir);
    char **names = NULL;

    list_for(at, &fs->disk.now)
    {
        const char *path = list_entry(at, struct disk_name, node)->path;
        const char *rest = n == 0 ? path : path + n + 1;

        if ((n > 0 && (strncmp(path, dir, n) != 0 || path[n] != '/')) ||
            strchr(rest, '/') != NULL)
            continue;
        names = realloc(names, (count + 1) * sizeof(*names));
        if (names == NULL)
            abort();
        names[count++] = strdup(rest);
    }
    if (count > 0)
        qsort(names, count, sizeof(*names), by_bytes);
    *out = names;
    return count;
}

static enum sl_err crash_list(struct fs *base, const char *dir, fs_name_fn fn,
                              void *arg, struct sl_error *err)
{
    struct crash_fs *fs = fs_of(base);
    char *norm = disk_path(dir), **names = NULL;
    enum sl_err rc = SL_OK;
    size_t count = 0;

    if (fs->dead)
        rc = tell(fs, NOTHING, dir, "list", err);
    else if (!disk_is_dir(&fs->disk, norm))
        rc = sl_fail(err, SL_ENOENT, "%s: list: no such folder", dir);
    else
        count = names_in(fs, norm, &names);
    for (size_t i = 0; i < count; i++) {
        if (rc == SL_OK)
            rc = fn(arg, names[i]);
        free(names[i]);
    }
    free(names);
    free(norm);
    return rc;
}

static const struct fs_ops crash_ops = {
    .open = crash_open,
    .close = crash_close,
    .write = crash_write,
    .pwrite = crash_pwrite,
    .pread = crash_pread,
    .sync = crash_sync,
    .size = crash_size,
    .map = crash_map,
    .unmap = crash_unmap,
    .rename = crash_rename,
    .sync_dir = crash_sync_dir,
    .unlink = crash_unlink,
    .mkdir = crash_mkdir,
    .stat = crash_stat,
    .list = crash_list,
};

struct crash_fs *crash_fs_new(uint64_t seed)
{
    struct crash_fs *fs = calloc(1, sizeof(*fs));

    if (fs == NULL)
        abort();
    fs->fs.ops = &crash_ops;
    disk_init(&fs->disk);
    rng_init(&fs->rng, seed, 0);
    return fs;
}

void crash_fs_free(struct crash_fs *fs)
{
    if (fs == NULL)
        return;
    disk_release(&fs->disk);
    free(fs);
}

struct fs *crash_fs_ops(struct crash_fs *fs)
{
    return &fs->fs;
}

void crash_fs_die_at(struct crash_fs *fs, uint64_t n)
{
    fs->die_at = n == 0 ? 0 : fs->steps + n;
}

bool crash_fs_died(const struct crash_fs *fs)
{
    return fs->dead;
}

void crash_fs_fail_at(struct crash_fs *fs, uint64_t n)
{
    fs->fail_at = n == 0 ? 0 : fs->steps + n;
}

uint64_t crash_fs_steps(const struct crash_fs *fs)
{
    return fs->steps;
}

void crash_fs_reboot(struct crash_fs *fs)
{
    disk_reboot(&fs->disk, &fs->rng);
    fs->dead = false;
    fs->die_at = fs->fail_at = 0;
    fs->life++;
}

bool crash_fs_durable(struct crash_fs *fs, const char *path)
{
    char *norm = disk_path(path);
    bool durable = disk_durable(&fs->disk, norm);

    free(norm);
    return durable;
}

enum sl_err crash_fs_flip(struct crash_fs *fs, const char *path, uint64_t byte,
                          unsigned bit)
{
    char *norm = disk_path(path);
    struct disk_node *n = disk_find(&fs->disk, norm);

    free(norm);
    if (n == NULL)
        return SL_ENOENT;
    disk_sync(n);
    if (byte >= n->now.len || byte >= n->durable.len || bit > 7)
        return SL_ERANGE;
    n->now.data[byte] ^= (uint8_t)(1u << bit);
    n->durable.data[byte] ^= (uint8_t)(1u << bit);
    return SL_OK;
}

size_t crash_fs_bytes(const struct crash_fs *fs)
{
    return disk_bytes(&fs->disk);
}
