// SPDX-License-Identifier: Apache-2.0
// host/store/s3_read.c -- a file that is read: ranges, and a window over it.
//
// To open is to read the beginning: small files (marks, manifests) take one
// request. Small reads come from the window; whoever reads on gets it wider.
#include <string.h>

#include "common/base/mem.h"
#include "host/store/s3.h"

#define FIRST_BYTES ((size_t)256 << 10)
#define WINDOW_BYTES ((size_t)8 << 20)
#define MAP_BYTES ((size_t)32 << 20) // of one request
#define MAP_ALIGN 64

enum sl_err s3_read_open(struct s3_file *f, struct sl_error *err)
{
    enum sl_err rc;

    f->window = sl_malloc(FIRST_BYTES);
    if (f->window == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", f->base.path);
    f->space = FIRST_BYTES;
    rc = s3_get(f->s, &f->name, NULL, 0, f->window, FIRST_BYTES, &f->have,
                &f->object, err);
    return rc;
}

// Reads bytes of the version that was opened. A store that names no versions
// shows another one by its size at least, so that what lies before the end
// yields a byte.
static enum sl_err get_of_version(struct s3_file *f, uint64_t offset, void *to,
                                  size_t n, size_t *got, struct sl_error *err)
{
    struct s3_object found;
    enum sl_err rc =
        s3_get(f->s, &f->name, f->object.etag, offset, to, n, got, &found, err);

    if (rc == SL_OK && found.bytes != f->object.bytes)
        rc = s3_replaced(&f->name, err);
    return rc;
}

// Bytes of the window at `offset`, if it has any.
static size_t from_window(const struct s3_file *f, uint64_t offset, void *to,
                          size_t n)
{
    size_t skip;

    if (offset < f->at || offset >= f->at + f->have)
        return 0;
    skip = (size_t)(offset - f->at);
    if (n > f->have - skip)
        n = f->have - skip;
    memcpy(to, f->window + skip, n);
    return n;
}

static enum sl_err move_window(struct s3_file *f, uint64_t offset,
                               struct sl_error *err)
{
    bool goes_on = offset == f->at + f->have;
    size_t want = goes_on ? WINDOW_BYTES : FIRST_BYTES, got = 0;
    enum sl_err rc;

    if (want > f->space) {
        uint8_t *wider = sl_realloc(f->window, want);

        if (wider == NULL)
            return sl_fail(err, SL_ENOMEM, "%s: out of memory", f->base.path);
        f->window = wider;
        f->space = want;
    }
    f->have = 0;
    rc = get_of_version(f, offset, f->window, want, &got, err);
    if (rc == SL_OK) {
        f->at = offset;
        f->have = got;
    }
    return rc;
}

static enum sl_err read_windowed(struct s3_file *f, uint64_t offset,
                                 uint8_t *to, size_t n, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&f->lock);
    while (rc == SL_OK && n > 0) {
        size_t got = from_window(f, offset, to, n);

        offset += got;
        to += got;
        n -= got;
        if (n > 0)
            rc = move_window(f, offset, err);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static enum sl_err s3_check_readable(const struct s3_file *f,
                                     struct sl_error *err)
{
    if (!f->writes)
        return SL_OK;
    return sl_fail(
        err, SL_ENOTSUP,
        "%s: an object cannot be read before its upload to S3 has finished",
        f->base.path);
}

enum sl_err s3_pread(struct fs_file *base, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err)
{
    struct s3_file *f = s3_file_of(base);
    uint64_t left = f->object.bytes > offset ? f->object.bytes - offset : 0;
    enum sl_err rc = s3_check_readable(f, err);

    if (rc != SL_OK)
        return rc;
    if (n > left)
        n = (size_t)left;
    if (n >= WINDOW_BYTES) {
        rc = get_of_version(f, offset, to, n, &n, err);
    } else {
        rc = read_windowed(f, offset, to, n, err);
    }
    if (rc == SL_OK)
        *got = n;
    return rc;
}

// Reads the whole object into memory, since S3 has no file to map.
enum sl_err s3_map(struct fs_file *base, struct fs_map *out,
                   struct sl_error *err)
{
    struct s3_file *f = s3_file_of(base);
    size_t bytes = (size_t)f->object.bytes, done = 0, got;
    enum sl_err rc = s3_check_readable(f, err);
    uint8_t *all;

    if (rc != SL_OK)
        return rc;
    if (bytes == 0) {
        *out = (struct fs_map){NULL, 0, NULL};
        return SL_OK;
    }
    all = sl_aligned(MAP_ALIGN, bytes);
    if (all == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: no memory for its %zu bytes",
                       base->path, bytes);
    while (rc == SL_OK && done < bytes) {
        size_t n = bytes - done < MAP_BYTES ? bytes - done : MAP_BYTES;

        rc = s3_pread(base, done, all + done, n, &got, err);
        done += rc == SL_OK ? got : 0;
    }
    if (rc != SL_OK) {
        sl_free(all);
        return rc;
    }
    *out = (struct fs_map){all, bytes, all};
    return SL_OK;
}

void s3_unmap(struct fs *fs, struct fs_map *m)
{
    sl_free(m->impl);
}
