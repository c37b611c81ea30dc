// SPDX-License-Identifier: Apache-2.0
// worker/data/data_index.c -- see data_index.h.
#include "worker/data/data_index.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "worker/data/data_records.h"

#define INDEX_FORM "sluice records 1"
#define INDEX_NAME (sizeof("index/.records") + 2 * SHA256_BYTES)
#define INDEX_PART 8 // of the files' bytes, an index has this part at most

// ---- its name

static enum sl_err index_hash_files(struct sha256 *h, const struct records *r)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < r->paths.count; i++) {
        uint64_t one[2] = {r->size[i], fs_version(r->file[i])};

        rc = one[1] == 0 ? SL_ENOTSUP : sha256_update(h, one, sizeof(one));
    }
    return rc;
}

// Returns the path of the index, to be freed; NULL: it can have none.
static char *index_path(const struct index_place *place,
                        const struct records *r, const char *recipe)
{
    char name[INDEX_NAME], hex[2 * SHA256_BYTES + 1];
    uint8_t hash[SHA256_BYTES];
    struct sha256 h = {NULL};

    if (place == NULL || place->store == NULL || sha256_init(&h) != SL_OK)
        return NULL;
    if (sha256_update(&h, INDEX_FORM, sizeof(INDEX_FORM)) != SL_OK ||
        sha256_update(&h, recipe, strlen(recipe) + 1) != SL_OK ||
        index_hash_files(&h, r) != SL_OK || sha256_final(&h, hash) != SL_OK) {
        sha256_release(&h);
        return NULL;
    }
    hex_encode(hex, hash, SHA256_BYTES);
    snprintf(name, sizeof(name), "index/%s.records", hex);
    return fs_join(place->store, name);
}

// Returns the most bytes that the extents of *r may have to be worth a file.
static uint64_t index_most(const struct records *r)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->paths.count; i++)
        bytes += r->size[i];
    return bytes / INDEX_PART;
}

// ---- reading

// Returns true if an extent lies within its file, as a scan's does: the store
// may have been written by anyone.
static bool index_extent_fits(const struct records *r,
                              const struct data_extent *one)
{
    uint64_t size;

    if (one->file >= r->paths.count)
        return false;
    size = r->size[one->file];
    return one->bytes == RECORD_MISSING ||
           (one->bytes <= RECORD_BYTES && one->offset <= size &&
            one->bytes <= size - one->offset);
}

static bool index_take(struct records *r, const struct buf *b)
{
    size_t n = b->len < SHA256_BYTES ? 0 : b->len - SHA256_BYTES;
    size_t count = n / sizeof(*r->at);
    uint8_t sum[SHA256_BYTES];
    struct data_extent *at;
    bool fit = true;

    if (n == 0 || n % sizeof(*r->at) != 0 || count > RECORDS_MAX ||
        sha256_bytes(sum, b->data + SHA256_BYTES, n) != SL_OK ||
        memcmp(sum, b->data, SHA256_BYTES) != 0)
        return false;
    at = sl_malloc(n);
    if (at == NULL)
        return false;
    memcpy(at, b->data + SHA256_BYTES, n);
    for (size_t i = 0; fit && i < count; i++)
        fit = index_extent_fits(r, &at[i]);
    if (!fit) {
        sl_free(at);
        return false;
    }
    sl_free(r->at); // it has no extents
    r->at = at;
    r->count = r->capacity = count;
    return true;
}

// Reads the file, which is the index if there is one.
static bool index_load(const struct index_place *place, struct records *r,
                       const char *path)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf b = BUF_INIT;
    enum sl_err rc = fs_read_all(
        place->fs, path, (size_t)index_most(r) + SHA256_BYTES, &b, &err);
    bool good = rc == SL_OK && index_take(r, &b);

    if (rc == SL_OK && !good)
        sl_fail(&err, SL_ECORRUPT, "%s is damaged", path);
    if (!good && rc != SL_ENOENT)
        LOG(WARN, "the index of the records is no use; they are looked for",
            "why=%s", err.text);
    buf_release(&b);
    return good;
}

bool index_read(const struct index_place *place, struct records *r,
                const char *recipe)
{
    char *path = index_path(place, r, recipe);
    bool good = path != NULL && index_load(place, r, path);

    if (good)
        LOG(INFO, "records are found by their index", "file=%s records=%llu",
            path, (unsigned long long)r->count);
    sl_free(path);
    return good;
}

// ---- writing

static enum sl_err index_make(struct buf *b, const struct records *r)
{
    size_t n = (size_t)r->count * sizeof(*r->at);
    uint8_t sum[SHA256_BYTES];
    enum sl_err rc = sha256_bytes(sum, r->at, n);

    if (rc == SL_OK)
        rc = buf_append(b, sum, sizeof(sum));
    return rc == SL_OK ? buf_append(b, r->at, n) : rc;
}

static enum sl_err index_put(const struct index_place *place, const char *path,
                             const struct records *r, struct sl_error *err)
{
    struct buf b = BUF_INIT;
    char *folder = fs_dirname(path);
    enum sl_err rc = folder == NULL || index_make(&b, r) != SL_OK
                         ? sl_no_memory(err)
                         : fs_mkdirs(place->fs, folder, err);

    // Two workers may write it at a time: both write the same bytes.
    if (rc == SL_OK)
        rc = fs_write_durable(place->fs, path, b.data, b.len, err);
    sl_free(folder);
    buf_release(&b);
    return rc;
}

void index_write(const struct index_place *place, const struct records *r,
                 const char *recipe)
{
    struct sl_error err = SL_ERROR_INIT;
    char *path;

    if (r->count == 0 || r->count > index_most(r) / sizeof(*r->at))
        return;
    path = index_path(place, r, recipe);
    if (path == NULL)
        return;
    if (index_put(place, path, r, &err) == SL_OK)
        LOG(INFO, "the index of the records is kept", "file=%s records=%llu",
            path, (unsigned long long)r->count);
    else
        LOG(WARN, "the index of the records cannot be kept", "why=%s",
            err.text);
    sl_free(path);
}
