// SPDX-License-Identifier: Apache-2.0
// worker/data/data_folder_index.c -- the walk over a folder of classes: names,
// files and their order.
#include "worker/data/data_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/beneath.h"
#include "worker/data/data_image.h"

struct folder_index_scan {
    struct folder *f;
    struct folder_names names;
    struct pulse *pulse;
    int class_fd;
    const char *class_path;
    struct sl_error *err;
};

static enum sl_err folder_no_memory(struct folder_index_scan *s)
{
    return sl_fail(s->err, SL_ENOMEM, "no memory for the list of images");
}

static enum sl_err folder_add_name(struct folder_index_scan *s,
                                   const char *name, uint32_t *at)
{
    struct buf *b = &s->f->names;

    if (b->len > UINT32_MAX - 256)
        return sl_fail(
            s->err, SL_ERANGE,
            "%s: the names of the images take more than 4 GiB in all",
            s->f->root);
    *at = (uint32_t)b->len;
    if (buf_append(b, name, strlen(name) + 1) != SL_OK)
        return folder_no_memory(s);
    return SL_OK;
}

static bool is_image(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot > name && image_ending(dot + 1);
}

static enum sl_err folder_add_file(struct folder_index_scan *s,
                                   const char *name, uint64_t bytes)
{
    struct folder *f = s->f;
    struct folder_file file = {.class = f->classes_count - 1,
                               .bytes = (uint32_t)bytes};
    enum sl_err rc;

    if (bytes > IMAGE_FILE_BYTES)
        return sl_fail(s->err, SL_ERANGE,
                       "%s/%s is %llu bytes long; images are read up to %llu",
                       s->class_path, name, (unsigned long long)bytes,
                       (unsigned long long)IMAGE_FILE_BYTES);
    if (f->count == f->capacity) {
        size_t capacity = f->capacity == 0 ? 1024 : f->capacity * 2;
        struct folder_file *more =
            sl_realloc_array(f->files, capacity, sizeof(*more));

        if (more == NULL)
            return folder_no_memory(s);
        f->files = more;
        f->capacity = capacity;
    }
    rc = folder_add_name(s, name, &file.name);
    if (rc == SL_OK)
        f->files[f->count++] = file;
    return rc;
}

// Looks at the entry `name` itself, not at what it points to. *wanted: it is of
// type `kind`, and not skipped.
static enum sl_err folder_stat_entry(struct folder_index_scan *s, int dir,
                                     const char *path, const char *name,
                                     mode_t kind, struct stat *st, bool *wanted)
{
    struct folder *f = s->f;

    *wanted = false;
    if (name[0] == '.') {
        f->hidden++;
        return SL_OK;
    }
    if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) != 0) {
        int errnum = errno;

        return sl_fail(s->err, sl_err_from_errno(errnum), "%s/%s: %s", path,
                       name, strerror(errnum));
    }
    *wanted = (st->st_mode & S_IFMT) == kind;
    if (S_ISLNK(st->st_mode))
        f->links++;
    else if (!*wanted)
        f->others++;
    return SL_OK;
}

static enum sl_err on_file(void *arg, const char *name)
{
    struct folder_index_scan *s = arg;
    struct stat st;
    bool wanted;
    enum sl_err rc = pulse_piece(s->pulse, s->err);

    if (rc == SL_OK)
        rc = folder_stat_entry(s, s->class_fd, s->class_path, name, S_IFREG,
                               &st, &wanted);
    if (rc != SL_OK || !wanted)
        return rc;
    if (is_image(name))
        return folder_add_file(s, name, (uint64_t)st.st_size);
    s->f->others++;
    return SL_OK;
}

static enum sl_err folder_add_class(struct folder_index_scan *s,
                                    const char *name)
{
    struct folder *f = s->f;
    uint32_t capacity = f->classes_capacity == 0 ? 16 : f->classes_capacity * 2,
             *more;
    enum sl_err rc;

    if (f->classes_count == f->classes_capacity) {
        more = sl_realloc_array(f->classes, capacity, sizeof(*more));
        if (more == NULL)
            return folder_no_memory(s);
        f->classes = more;
        f->classes_capacity = capacity;
    }
    rc = folder_add_name(s, name, &f->classes[f->classes_count]);
    if (rc == SL_OK)
        f->classes_count++;
    return rc;
}

// Lists the images of a folder that is there, as those of the class added last.
static enum sl_err scan_class(struct folder_index_scan *s, const char *name)
{
    enum sl_err rc;
    char *path;

    path = fs_join(s->f->root, name);
    if (path == NULL)
        return folder_no_memory(s);
    s->class_path = path;
    s->class_fd = openat(s->f->fd - 1, name,
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->class_fd < 0) {
        int errnum = errno;

        rc = sl_fail(s->err, sl_err_from_errno(errnum), "%s: %s", path,
                     strerror(errnum));
    } else {
        rc = fs_list_open(s->class_fd, path, on_file, s, s->err);
        close(s->class_fd);
    }
    sl_free(path);
    return rc;
}

static bool is_named(const struct folder_index_scan *s, const char *name)
{
    for (size_t i = 0; i < s->names.count; i++)
        if (strcmp(s->names.name[i], name) == 0)
            return true;
    return false;
}

// Takes the next folder in byte order; of classes that were named it only sees
// that the folder is one of them.
static enum sl_err on_class(void *arg, const char *name)
{
    struct folder_index_scan *s = arg;
    struct stat st;
    bool wanted;
    enum sl_err rc = pulse_piece(s->pulse, s->err);

    if (rc == SL_OK)
        rc = folder_stat_entry(s, s->f->fd - 1, s->f->root, name, S_IFDIR, &st,
                               &wanted);
    if (rc != SL_OK || !wanted)
        return rc;
    if (s->names.count > 0)
        return is_named(s, name)
                   ? SL_OK
                   : sl_fail(s->err, SL_EINVAL,
                             "%s: the folder '%.80s' is none of the %zu "
                             "classes (data.classes, or the folders of "
                             "data.train): move it away, or name it there",
                             s->f->root, name, s->names.count);
    rc = folder_add_class(s, name);
    return rc == SL_OK ? scan_class(s, name) : rc;
}

// Takes the classes in the order in which they were named.
static enum sl_err scan_named(struct folder_index_scan *s)
{
    enum sl_err rc = SL_OK;
    struct stat st;

    for (size_t i = 0; rc == SL_OK && i < s->names.count; i++) {
        const char *name = s->names.name[i];

        rc = folder_add_class(s, name);
        if (rc == SL_OK &&
            fstatat(s->f->fd - 1, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode))
            rc = scan_class(s, name);
    }
    return rc;
}

enum sl_err folder_scan(struct folder *out, const struct roots *roots,
                        const char *root, struct folder_names names,
                        struct pulse *pulse, struct sl_error *err)
{
    struct folder f = {.root = sl_strdup(root)};
    struct folder_index_scan s = {
        .f = &f, .names = names, .pulse = pulse, .err = err};
    int fd = -1;
    enum sl_err rc;

    if (f.root == NULL)
        return folder_no_memory(&s);
    rc = roots_folder(roots, &fd, root, err);
    f.fd = fd + 1;
    if (rc == SL_OK)
        rc = fs_list_open(fd, root, on_class, &s, err);
    if (rc == SL_OK)
        rc = scan_named(&s);
    if (rc != SL_OK) {
        folder_release(&f);
        return rc;
    }
    *out = f;
    return SL_OK;
}

void folder_release(struct folder *f)
{
    if (f->fd > 0)
        close(f->fd - 1);
    buf_release(&f->names);
    sl_free(f->files);
    sl_free(f->classes);
    sl_free(f->root);
    memset(f, 0, sizeof(*f));
}

const char *folder_class(const struct folder *f, uint32_t class)
{
    return (const char *)f->names.data + f->classes[class];
}

const char *folder_name(const struct folder *f, size_t file)
{
    return (const char *)f->names.data + f->files[file].name;
}

enum sl_err folder_blame(const struct folder *f, size_t file, enum sl_err rc,
                         struct sl_error *err)
{
    return sl_prefix(err, rc, "%s/%s/%s", f->root,
                     folder_class(f, f->files[file].class),
                     folder_name(f, file));
}

// ---- opening

enum sl_err folder_open(const struct folder *f, size_t file, int *out,
                        struct sl_error *err)
{
    const struct folder_file *at = &f->files[file];
    char path[2 * 256 + 2];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder_class(f, at->class),
             folder_name(f, file));
    fd = beneath_file(f->fd - 1, path, BENEATH_NONE, &st);
    if (fd < 0 && errno != ENODEV) {
        int errnum = errno;

        return sl_fail(err, sl_err_from_errno(errnum), "%s", strerror(errnum));
    }
    if (fd < 0 || st.st_size != (off_t)at->bytes) {
        if (fd >= 0)
            close(fd);
        return sl_fail(err, SL_ECORRUPT,
                       "was changed while the job runs: it had %u bytes",
                       at->bytes);
    }
    *out = fd;
    return SL_OK;
}
