// SPDX-License-Identifier: Apache-2.0
// host/store/s3_write.c -- a file that is written: gathered in parts.
//
// The first part stays in memory until the end, since whoever writes a file of
// tensors comes back to its head; so does the part being filled. What fits into
// the first is one PUT, and no upload is ever begun.
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "host/store/s3.h"

// Equal parts, as some stores want them, for all but the largest objects.
#define EQUAL_PARTS 1000
#define LARGE_FACTOR 8

static size_t last_bytes(const struct s3_file *f)
{
    size_t part = f->s->part_bytes;

    return f->parts < EQUAL_PARTS ? part : part * LARGE_FACTOR;
}

static enum sl_err send_last(struct s3_file *f, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (f->upload.id == NULL)
        rc = s3_upload_begin(&f->upload, f->s, &f->name, err);
    if (rc == SL_OK)
        rc = s3_upload_part(&f->upload, f->parts + 2, f->last.data, f->last.len,
                            err);
    if (rc != SL_OK)
        return rc;
    f->parts++;
    buf_reset(&f->last);
    return SL_OK;
}

enum sl_err s3_write(struct fs_file *base, const void *bytes, size_t n,
                     struct sl_error *err)
{
    struct s3_file *f = s3_file_of(base);
    const uint8_t *at = bytes;
    enum sl_err rc = SL_OK;

    if (!f->writes || f->published)
        return sl_fail(err, SL_ESTATE, "%s: %s", base->path,
                       f->writes ? "S3 cannot append to objects"
                                 : "it was opened for reading");
    while (rc == SL_OK && n > 0) {
        bool first = f->first.len < f->s->part_bytes;
        struct buf *to = first ? &f->first : &f->last;
        size_t space = (first ? f->s->part_bytes : last_bytes(f)) - to->len;
        size_t take = sl_min(n, space);

        if (space == 0) {
            rc = send_last(f, err);
            continue;
        }
        if (buf_append(to, at, take) != SL_OK)
            return sl_fail(err, SL_ENOMEM, "%s: out of memory", base->path);
        at += take;
        n -= take;
        f->bytes += take;
    }
    return rc;
}

// The piece of [offset, offset + n) that lies in `b`, which begins at `begins`,
// is replaced; how much that is.
static size_t s3_replace_piece(struct buf *b, uint64_t begins, uint64_t offset,
                               const uint8_t *bytes, size_t n)
{
    uint64_t from = offset > begins ? offset : begins;
    uint64_t to = offset + n < begins + b->len ? offset + n : begins + b->len;

    if (from >= to)
        return 0;
    memcpy(b->data + (from - begins), bytes + (from - offset),
           (size_t)(to - from));
    return (size_t)(to - from);
}

static enum sl_err fill_hole(struct s3_file *f, uint64_t until,
                             struct sl_error *err)
{
    static const uint8_t zeroes[4096];
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && f->bytes < until) {
        uint64_t n = until - f->bytes;

        rc = s3_write(&f->base, zeroes,
                      n < sizeof(zeroes) ? (size_t)n : sizeof(zeroes), err);
    }
    return rc;
}

enum sl_err s3_pwrite(struct fs_file *base, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err)
{
    struct s3_file *f = s3_file_of(base);
    const uint8_t *at = bytes;
    size_t over, done = 0;
    enum sl_err rc = SL_OK;

    if (f->writes && offset > f->bytes)
        rc = fill_hole(f, offset, err);
    if (rc != SL_OK)
        return rc;
    over = f->writes && offset < f->bytes
               ? (f->bytes - offset < n ? (size_t)(f->bytes - offset) : n)
               : 0;
    if (over > 0 && !f->published) {
        done = s3_replace_piece(&f->first, 0, offset, at, over);
        done += s3_replace_piece(&f->last, f->bytes - f->last.len, offset, at,
                                 over);
    }
    if (done < over && !f->published)
        return sl_fail(err, SL_ENOTSUP,
                       "%s: bytes at %" PRIu64
                       " are uploaded already: only the first %zu bytes and "
                       "the part that is not sent yet can be replaced",
                       base->path, offset, f->s->part_bytes);
    if (over == n && !f->published)
        return SL_OK;
    return s3_write(base, at + over, n - over, err);
}

static enum sl_err finish_upload(struct s3_file *f, bool fresh,
                                 struct sl_error *err)
{
    enum sl_err rc = f->last.len > 0 ? send_last(f, err) : SL_OK;

    if (rc == SL_OK)
        rc = s3_upload_part(&f->upload, 1, f->first.data, f->first.len, err);
    if (rc == SL_OK)
        rc = s3_upload_finish(&f->upload, fresh, err);
    return rc;
}

enum sl_err s3_publish(struct s3_file *f, const struct s3_name *name,
                       bool fresh, struct sl_error *err)
{
    bool same = strcmp(f->name.bucket, name->bucket) == 0 &&
                strcmp(f->name.key, name->key) == 0;
    enum sl_err rc;

    fresh |= f->fresh;
    if (!f->writes)
        return sl_fail(err, SL_ESTATE, "%s: it was opened for reading",
                       f->base.path);
    if (f->published && same)
        return SL_OK;
    if (f->published || (!same && f->upload.id != NULL))
        return sl_fail(err, SL_ENOTSUP,
                       "%s: its upload was started under another name than %s, "
                       "and S3 cannot rename objects",
                       f->base.path, name->key);
    f->name = *name;
    if (f->upload.id == NULL && f->last.len == 0)
        rc = s3_put(f->s, name, f->first.data, f->first.len, fresh, err);
    else
        rc = finish_upload(f, fresh, err);
    f->published = rc == SL_OK;
    return rc;
}

// Publishes a file under the name with which it was opened.
enum sl_err s3_sync(struct fs_file *base, struct sl_error *err)
{
    struct s3_file *f = s3_file_of(base);
    struct s3_name name;
    enum sl_err rc;

    if (!f->writes)
        return SL_OK;
    rc = s3_name_of(&name, base->path, err);
    return rc == SL_OK ? s3_publish(f, &name, false, err) : rc;
}
