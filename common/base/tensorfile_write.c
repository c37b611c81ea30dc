// SPDX-License-Identifier: Apache-2.0
// common/base/tensorfile_write.c -- the writer of safetensors files: the header
// is known first, tensors follow in order.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/crc.h"
#include "common/base/json.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/tensorfile.h"

#define LENGTH_BYTES 8 // of the header's length in front
#define CRC_DIGITS 8

struct tensorfile_writer {
    struct fs *fs;
    struct fs_file *file; // owned; named path + ".tmp"
    char *path, *temp;    // owned
    bool made;            // `temp` exists, and is ours to remove
    struct buf head;      // length, JSON, padding: what lies before the data
    struct strmap places; // metadata key -> 1 + offset of its value in head
    uint64_t data_bytes, appended;
    bool checks;
    struct buf crcs; // hex, CRC_DIGITS per finished block
    uint32_t crc;    // of the block that is being filled
};

// --- the header

static enum sl_err put_meta(struct tensorfile_writer *w, const char *key,
                            const char *value, bool first)
{
    struct buf *h = &w->head;
    enum sl_err rc = first ? SL_OK : buf_append_char(h, ',');

    if (rc == SL_OK)
        rc = sl_json_quote(h, key, strlen(key));
    if (rc == SL_OK)
        rc = buf_append_char(h, ':');
    // The value's text begins behind its quote; 1 more, for no value is NULL.
    if (rc == SL_OK)
        rc = strmap_put(&w->places, key, (void *)(uintptr_t)(h->len + 2));
    if (rc == SL_OK)
        rc = sl_json_quote(h, value, strlen(value));
    return rc;
}

static enum sl_err put_zeroes(struct tensorfile_writer *w, const char *key,
                              size_t digits, bool first)
{
    char *zeroes = sl_malloc(digits + 1);
    enum sl_err rc;

    if (zeroes == NULL)
        return SL_ENOMEM;
    memset(zeroes, '0', digits);
    zeroes[digits] = '\0';
    rc = put_meta(w, key, zeroes, first);
    sl_free(zeroes);
    return rc;
}

static size_t block_count(uint64_t data_bytes)
{
    return (size_t)((data_bytes + TENSORFILE_BLOCK_BYTES - 1) /
                    TENSORFILE_BLOCK_BYTES);
}

static enum sl_err put_metadata(struct tensorfile_writer *w,
                                const struct tensor_meta *meta, size_t count)
{
    enum sl_err rc = SL_OK;

    if (count == 0 && !w->checks)
        return SL_OK;
    rc = buf_append_str(&w->head, "\"__metadata__\":{");
    for (size_t i = 0; i < count && rc == SL_OK; i++)
        rc = put_meta(w, meta[i].key, meta[i].value, i == 0);
    if (rc == SL_OK && w->checks)
        rc = put_zeroes(w, TENSORFILE_KEY_DATA,
                        CRC_DIGITS * block_count(w->data_bytes), count == 0);
    if (rc == SL_OK && w->checks)
        rc = put_zeroes(w, TENSORFILE_KEY_HEADER, CRC_DIGITS, false);
    if (rc == SL_OK)
        rc = buf_append_char(&w->head, '}');
    return rc;
}

static enum sl_err put_tensor(struct buf *h, const struct tensor_info *t)
{
    enum sl_err rc = SL_OK;

    if (h->data[h->len - 1] != '{')
        rc = buf_append_char(h, ',');
    if (rc == SL_OK)
        rc = sl_json_quote(h, t->name, strlen(t->name));
    if (rc == SL_OK)
        rc = buf_appendf(h, ":{\"dtype\":\"%s\",\"shape\":[",
                         tensor_dtype_name(t->dtype));
    for (unsigned i = 0; i < t->rank && rc == SL_OK; i++)
        rc = buf_appendf(h, "%s%" PRIu64, i > 0 ? "," : "", t->shape[i]);
    if (rc == SL_OK)
        rc = buf_appendf(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                         t->begin, t->end);
    return rc;
}

static enum sl_err put_header(struct tensorfile_writer *w,
                              const struct tensor_info *tensors, size_t count,
                              const struct tensor_meta *meta, size_t meta_count)
{
    uint8_t length[LENGTH_BYTES] = {0};
    struct buf *h = &w->head;
    enum sl_err rc = buf_append(h, length, sizeof(length));
    uint64_t n;

    if (rc == SL_OK)
        rc = buf_append_char(h, '{');
    if (rc == SL_OK)
        rc = put_metadata(w, meta, meta_count);
    for (size_t i = 0; i < count && rc == SL_OK; i++)
        rc = put_tensor(h, &tensors[i]);
    if (rc == SL_OK)
        rc = buf_append_char(h, '}');
    while (rc == SL_OK && h->len % 8 != 0)
        rc = buf_append_char(h, ' ');
    if (rc != SL_OK)
        return rc;
    n = h->len - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        h->data[i] = (uint8_t)(n >> 8 * i);
    return n <= TENSORFILE_HEADER_MAX ? SL_OK : SL_ERANGE;
}

// Tensors have to lie one behind the other, as the reader will ask.
static enum sl_err tensorfile_check_layout(struct tensorfile_writer *w,
                                           const struct tensor_info *tensors,
                                           size_t count, struct sl_error *err)
{
    uint64_t bytes;

    if (count > TENSORFILE_TENSORS_MAX)
        return sl_fail(err, SL_ERANGE, "%s: %zu tensors; at most %d", w->path,
                       count, TENSORFILE_TENSORS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct tensor_info *t = &tensors[i];

        if (t->rank > TENSOR_RANK_MAX || tensor_bytes(&bytes, t) != SL_OK ||
            t->begin != w->data_bytes || t->end - t->begin != bytes)
            return sl_fail(err, SL_EINVAL,
                           "%s: tensor '%s' is not laid out; call "
                           "tensorfile_layout",
                           w->path, t->name);
        w->data_bytes = t->end;
    }
    return SL_OK;
}

// --- the file

static void tensorfile_writer_free(struct tensorfile_writer *w)
{
    fs_close(w->file);
    sl_free(w->path);
    sl_free(w->temp);
    buf_release(&w->head);
    buf_release(&w->crcs);
    strmap_release(&w->places);
    sl_free(w);
}

static char *temp_name(const char *path)
{
    struct buf b = BUF_INIT;

    if (buf_appendf(&b, "%s.tmp", path) != SL_OK)
        return NULL;
    return (char *)buf_detach(&b, NULL);
}

enum sl_err tensorfile_create(struct tensorfile_writer **out, struct fs *fs,
                              const char *path,
                              const struct tensor_info *tensors, size_t count,
                              const struct tensor_meta *meta, size_t meta_count,
                              bool checks, struct sl_error *err)
{
    struct tensorfile_writer *w = sl_calloc(1, sizeof(*w));
    enum sl_err rc;

    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
    w->fs = fs;
    w->checks = checks;
    w->path = sl_strdup(path);
    w->temp = temp_name(path);
    if (w->path == NULL || w->temp == NULL) {
        rc = sl_fail(err, SL_ENOMEM, "%s: out of memory", path);
        goto fail;
    }
    rc = tensorfile_check_layout(w, tensors, count, err);
    if (rc != SL_OK)
        goto fail;
    rc = put_header(w, tensors, count, meta, meta_count);
    if (rc != SL_OK) {
        sl_fail(err, rc, "%s: header: %s", path, sl_err_text(rc));
        goto fail;
    }
    rc = fs_open(fs, &w->file, w->temp, FS_WRITE, err);
    // A store that commits in one step has no such name.
    w->made = rc == SL_OK && fs->ops->commit == NULL;
    if (rc == SL_OK)
        rc = fs_write(w->file, w->head.data, w->head.len, err);
    if (rc != SL_OK)
        goto fail;
    *out = w;
    return SL_OK;

fail:
    tensorfile_abort(w);
    return rc;
}

static enum sl_err end_block(struct tensorfile_writer *w)
{
    enum sl_err rc = buf_appendf(&w->crcs, "%08" PRIx32, w->crc);

    w->crc = 0;
    return rc;
}

// Checksums of the next n bytes, block by block.
static enum sl_err take_checks(struct tensorfile_writer *w, const uint8_t *at,
                               size_t n)
{
    uint64_t done = w->appended;
    enum sl_err rc = SL_OK;

    while (n > 0 && rc == SL_OK) {
        size_t space = TENSORFILE_BLOCK_BYTES - done % TENSORFILE_BLOCK_BYTES;
        size_t now = n < space ? n : space;

        w->crc = crc32c(w->crc, at, now);
        if (now == space)
            rc = end_block(w);
        done += now;
        at += now;
        n -= now;
    }
    return rc;
}

// Fills the header with blanks up to the length that the file has room for.
static enum sl_err put_blanks(struct tensorfile_writer *w, size_t length)
{
    uint64_t n = length - LENGTH_BYTES;
    enum sl_err rc = w->head.len <= length ? SL_OK : SL_ERANGE;

    while (rc == SL_OK && w->head.len < length)
        rc = buf_append_char(&w->head, ' ');
    for (int i = 0; rc == SL_OK && i < LENGTH_BYTES; i++)
        w->head.data[i] = (uint8_t)(n >> 8 * i);
    return rc;
}

enum sl_err tensorfile_shrink(struct tensorfile_writer *w,
                              const struct tensor_info *tensors, size_t count,
                              const struct tensor_meta *meta, size_t meta_count,
                              struct sl_error *err)
{
    size_t length = w->head.len;
    enum sl_err rc;

    w->data_bytes = 0;
    rc = tensorfile_check_layout(w, tensors, count, err);
    if (rc != SL_OK)
        return rc;
    buf_reset(&w->head);
    strmap_release(&w->places);
    rc = put_header(w, tensors, count, meta, meta_count);
    if (rc == SL_OK)
        rc = put_blanks(w, length);
    return rc == SL_OK
               ? SL_OK
               : sl_fail(err, rc, "%s: header: %s", w->path, sl_err_text(rc));
}

enum sl_err tensorfile_append(struct tensorfile_writer *w, const void *bytes,
                              size_t n, struct sl_error *err)
{
    enum sl_err rc;

    if (n > w->data_bytes - w->appended)
        return sl_fail(err, SL_ERANGE,
                       "%s: %zu bytes at %" PRIu64 " go beyond the last tensor",
                       w->path, n, w->appended);
    rc = fs_write(w->file, bytes, n, err);
    if (rc == SL_OK && w->checks && take_checks(w, bytes, n) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "%s: out of memory", w->path);
    if (rc == SL_OK)
        w->appended += n;
    return rc;
}

static bool needs_escape(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            return true;
    }
    return false;
}

enum sl_err tensorfile_patch(struct tensorfile_writer *w, const char *key,
                             const char *value, struct sl_error *err)
{
    uintptr_t place = (uintptr_t)strmap_get(&w->places, key);
    size_t n = strlen(value);
    uint8_t *at;

    if (place == 0)
        return sl_fail(err, SL_ENOENT, "%s: no metadata key '%s'", w->path,
                       key);
    at = w->head.data + place - 1;
    if (needs_escape(value) || place - 1 + n >= w->head.len ||
        memchr(at, '"', n) != NULL || at[n] != '"')
        return sl_fail(err, SL_EINVAL,
                       "%s: metadata '%s' can only be replaced by plain text "
                       "of the same length",
                       w->path, key);
    memcpy(at, value, n);
    return SL_OK;
}

static enum sl_err fill_checks(struct tensorfile_writer *w,
                               struct sl_error *err)
{
    char digits[CRC_DIGITS + 1];
    enum sl_err rc = SL_OK;

    if (w->appended % TENSORFILE_BLOCK_BYTES != 0)
        rc = end_block(w);
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s: out of memory", w->path);
    rc = tensorfile_patch(w, TENSORFILE_KEY_DATA, buf_text(&w->crcs), err);
    if (rc != SL_OK)
        return rc;
    // Over the JSON and its padding, while its own digits are still zeroes.
    snprintf(
        digits, sizeof(digits), "%08" PRIx32,
        crc32c(0, w->head.data + LENGTH_BYTES, w->head.len - LENGTH_BYTES));
    return tensorfile_patch(w, TENSORFILE_KEY_HEADER, digits, err);
}

enum sl_err tensorfile_finish(struct tensorfile_writer *w, uint64_t *bytes,
                              struct sl_error *err)
{
    uint64_t size = w->head.len + w->data_bytes;
    struct fs_file *file;
    enum sl_err rc = SL_OK;

    if (w->appended != w->data_bytes)
        rc = sl_fail(err, SL_ESTATE,
                     "%s: %" PRIu64 " of %" PRIu64 " bytes were appended",
                     w->path, w->appended, w->data_bytes);
    if (rc == SL_OK && w->checks)
        rc = fill_checks(w, err);
    if (rc == SL_OK)
        rc = fs_pwrite(w->file, 0, w->head.data, w->head.len, err);
    if (rc != SL_OK) {
        tensorfile_abort(w);
        return rc;
    }
    file = w->file;
    w->file = NULL; // fs_commit closes it
    rc = fs_commit(file, w->path, err);
    if (rc != SL_OK) {
        tensorfile_abort(w);
        return rc;
    }
    tensorfile_writer_free(w);
    if (bytes != NULL)
        *bytes = size;
    return SL_OK;
}

void tensorfile_abort(struct tensorfile_writer *w)
{
    if (w == NULL)
        return;
    if (w->made)
        (void)fs_unlink(w->fs, w->temp, NULL); // missing if it was renamed
    tensorfile_writer_free(w);
}
