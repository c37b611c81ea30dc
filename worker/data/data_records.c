// SPDX-License-Identifier: Apache-2.0
// worker/data/data_records.c -- see data_records.h.
#include "worker/data/data_records.h"

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "worker/data/data_index.h"

#define NEAR_BYTES 4096 // skipped at most for the next bytes to be near

void records_release(struct records *r)
{
    for (size_t i = 0; r->file != NULL && i < r->paths.count; i++)
        fs_close(r->file[i]);
    sl_free(r->file);
    sl_free(r->size);
    sl_free(r->at);
    paths_release(&r->paths);
    *r = (struct records){.at = NULL};
}

enum sl_err records_open(struct records *r, const struct data_source *s,
                         struct sl_error *err)
{
    enum sl_err rc = paths_expand(&r->paths, s->roots, s->x, err);

    if (rc != SL_OK)
        return rc;
    r->index = s->index;
    r->file = sl_calloc(r->paths.count, sizeof(*r->file));
    r->size = sl_calloc(r->paths.count, sizeof(*r->size));
    if (r->file == NULL || r->size == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; rc == SL_OK && i < r->paths.count; i++) {
        rc = roots_file(s->roots, &r->file[i], r->paths.path[i], err);
        if (rc == SL_OK)
            rc = fs_size(r->file[i], &r->size[i], err);
    }
    return rc;
}

enum sl_err records_add(struct records *r, struct data_extent one,
                        struct sl_error *err)
{
    if (r->count == RECORDS_MAX)
        return sl_fail(err, SL_ERANGE, "the set has more than 2^32 records");
    if (r->count == r->capacity) {
        uint64_t capacity = r->capacity == 0 ? 1024 : r->capacity * 2;
        struct data_extent *more =
            sl_realloc_array(r->at, (size_t)capacity, sizeof(*more));

        if (more == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for the records' places");
        r->at = more;
        r->capacity = capacity;
    }
    r->at[r->count++] = one;
    return SL_OK;
}

void records_hash(const struct records *r, struct data *d)
{
    for (size_t i = 0; i < r->paths.count; i++) {
        data_hash_name(d, r->paths.path[i]);
        data_hash_number(d, r->size[i]);
        data_hash_version(d, fs_version(r->file[i]));
    }
}

enum sl_err records_load(const struct records *r, const struct data_extent *one,
                         uint32_t more, void *to, struct sl_error *err)
{
    size_t n = (size_t)one->bytes + more, got = 0;
    enum sl_err rc =
        fs_pread(r->file[one->file], one->offset, to, n, &got, err);

    return rc == SL_OK && got < n
               ? sl_fail(err, SL_ECORRUPT,
                         "is cut short; the file has changed since it was "
                         "opened")
               : rc;
}

void records_expect(const struct records *r, const struct data_extent *one)
{
    if (one->bytes != RECORD_MISSING)
        fs_expect(r->file[one->file], one->offset, one->bytes);
}

enum sl_err records_blame(const struct records *r,
                          const struct data_extent *one, enum sl_err rc,
                          struct sl_error *err)
{
    return sl_prefix(err, rc, "%s: sample at byte %llu",
                     r->paths.path[one->file], (unsigned long long)one->offset);
}

// ---- looking through a file

// Reads a whole chunk where the last bytes were near, and else no more than is
// asked for: between the heads of large records nothing is read.
static enum sl_err records_scan_fill(struct records_scan *s, uint64_t offset,
                                     size_t n, struct sl_error *err)
{
    uint64_t end = s->base + s->got;
    bool near = offset >= s->base && offset <= end + NEAR_BYTES;

    s->base = offset;
    return fs_pread(s->file, offset, s->chunk,
                    near || n > SCAN_BYTES / 2 ? SCAN_BYTES : n, &s->got, err);
}

enum sl_err records_scan_bytes(struct records_scan *s, uint64_t offset,
                               size_t n, const uint8_t **out,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (offset < s->base || offset - s->base > s->got ||
        n > s->got - (size_t)(offset - s->base))
        rc = records_scan_fill(s, offset, n, err);
    if (rc == SL_OK && n > s->got - (size_t)(offset - s->base))
        rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu, in the middle",
                     (unsigned long long)s->size);
    *out = s->chunk + (offset - s->base);
    return rc;
}

static enum sl_err
records_scan_all(struct records *r,
                 enum sl_err (*fn)(void *arg, struct records_scan *s,
                                   uint32_t file, struct sl_error *err),
                 void *arg, struct sl_error *err)
{
    struct records_scan s = {.chunk = sl_malloc(SCAN_BYTES)};
    enum sl_err rc = s.chunk == NULL ? sl_no_memory(err) : SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < r->paths.count; i++) {
        s.file = r->file[i];
        s.size = r->size[i];
        s.base = s.got = 0;
        rc = fn(arg, &s, i, err);
        if (rc != SL_OK)
            sl_prefix(err, rc, "%s", r->paths.path[i]);
    }
    sl_free(s.chunk);
    return rc;
}

enum sl_err records_scan(struct records *r, const char *recipe,
                         enum sl_err (*fn)(void *arg, struct records_scan *s,
                                           uint32_t file, struct sl_error *err),
                         void *arg, struct sl_error *err)
{
    enum sl_err rc;

    if (recipe != NULL && index_read(r->index, r, recipe))
        return SL_OK;
    rc = records_scan_all(r, fn, arg, err);
    if (rc == SL_OK && recipe != NULL)
        index_write(r->index, r, recipe);
    return rc;
}
