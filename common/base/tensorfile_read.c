// SPDX-License-Identifier: Apache-2.0
// common/base/tensorfile_read.c -- maps, parses and checks; answers only then.
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/crc.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/tensorfile.h"

#define LENGTH_BYTES 8
#define HEAD_LEAST ((size_t)4096) // what other formats are known by, too
#define CRC_DIGITS 8

struct tensorfile {
    struct fs *fs;        // NULL: the bytes are the caller's
    struct fs_map map;    // if fs
    struct fs_file *file; // the caller's; NULL: `data` is all of the data
    bool owns;            // `file` is ours
    uint8_t *head;        // if file: the header; owned
    char *name;           // owned; for errors
    const char *header;   // JSON with its padding
    size_t header_bytes;
    const uint8_t *data;
    uint64_t data_bytes;
    json_t *json;                // owned; holds all names and metadata
    const json_t *meta;          // or NULL
    struct tensor_info *tensors; // owned, by begin
    struct tensor_info **sorted; // owned, by name
    size_t count;
};

static enum sl_err tensorfile_corrupt(const struct tensorfile *f,
                                      struct sl_error *err, const char *tensor,
                                      const char *why)
{
    return sl_fail(err, SL_ECORRUPT, "%s: tensor '%.200s': %s", f->name, tensor,
                   why);
}

// --- one tensor

static enum sl_err read_shape(const struct tensorfile *f, struct tensor_info *t,
                              const json_t *shape, struct sl_error *err)
{
    if (!json_is_array(shape))
        return tensorfile_corrupt(f, err, t->name, "shape has to be an array");
    if (json_array_size(shape) > TENSOR_RANK_MAX)
        return tensorfile_corrupt(f, err, t->name, "rank is over 8");
    t->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < t->rank; i++) {
        const json_t *n = json_array_get(shape, i);

        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return tensorfile_corrupt(f, err, t->name,
                                      "shape has to hold sizes");
        t->shape[i] = (uint64_t)json_integer_value(n);
    }
    return SL_OK;
}

static enum sl_err read_offsets(const struct tensorfile *f,
                                struct tensor_info *t, const json_t *offsets,
                                struct sl_error *err)
{
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    uint64_t bytes;

    if (json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return tensorfile_corrupt(
            f, err, t->name,
            "data_offsets have to be [begin, end], begin <= end");
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    if (t->end > f->data_bytes)
        return tensorfile_corrupt(f, err, t->name,
                                  "ends beyond the end of the file");
    if (tensor_bytes(&bytes, t) != SL_OK || bytes != t->end - t->begin)
        return tensorfile_corrupt(
            f, err, t->name, "shape and dtype do not give end - begin bytes");
    return SL_OK;
}

static enum sl_err tensorfile_read_entry(const struct tensorfile *f,
                                         struct tensor_info *t,
                                         const char *name, const json_t *entry,
                                         struct sl_error *err)
{
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    enum sl_err rc;

    t->name = name;
    if (!json_is_object(entry) || json_object_size(entry) != 3 ||
        dtype == NULL || shape == NULL || offsets == NULL)
        return tensorfile_corrupt(
            f, err, name, "has to have exactly dtype, shape and data_offsets");
    if (!json_is_string(dtype))
        return tensorfile_corrupt(f, err, name, "dtype has to be a string");
    rc = tensor_dtype_parse(json_string_value(dtype), &t->dtype);
    if (rc != SL_OK)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: tensor '%.200s' has dtype %.50s, which is not read",
                       f->name, name, json_string_value(dtype));
    rc = read_shape(f, t, shape, err);
    return rc == SL_OK ? read_offsets(f, t, offsets, err) : rc;
}

// --- all of them

// Empty tensors share a begin with their neighbour; they come first, so that
// the chain of ends holds.
static int by_begin(const void *a, const void *b)
{
    const struct tensor_info *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int tensor_info_by_name(const void *a, const void *b)
{
    const struct tensor_info *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static enum sl_err check_cover(const struct tensorfile *f, struct sl_error *err)
{
    uint64_t at = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct tensor_info *t = &f->tensors[i];

        if (t->begin > at)
            return tensorfile_corrupt(f, err, t->name, "a hole lies before it");
        if (t->begin < at)
            return tensorfile_corrupt(f, err, t->name,
                                      "overlaps the tensor before it");
        at = t->end;
    }
    if (at != f->data_bytes)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: the tensors end at byte %" PRIu64
                       " of the data, the file at %" PRIu64,
                       f->name, at, f->data_bytes);
    return SL_OK;
}

static enum sl_err check_meta(const struct tensorfile *f, const json_t *meta,
                              struct sl_error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(meta))
        return sl_fail(err, SL_ECORRUPT, "%s: __metadata__ has to be an object",
                       f->name);
    json_object_foreach((json_t *)meta, key, value)
    {
        if (!json_is_string(value))
            return sl_fail(err, SL_ECORRUPT,
                           "%s: __metadata__ '%.200s' has to be a string",
                           f->name, key);
    }
    return SL_OK;
}

static enum sl_err read_entries(struct tensorfile *f, struct sl_error *err)
{
    const char *key;
    json_t *value;
    enum sl_err rc;

    json_object_foreach(f->json, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            rc = check_meta(f, value, err);
            f->meta = value;
        } else {
            rc = tensorfile_read_entry(f, &f->tensors[f->count], key, value,
                                       err);
            f->count++;
        }
        if (rc != SL_OK)
            return rc;
    }
    qsort(f->tensors, f->count, sizeof(*f->tensors), by_begin);
    for (size_t i = 0; i < f->count; i++)
        f->sorted[i] = &f->tensors[i];
    qsort(f->sorted, f->count, sizeof(struct tensor_info *),
          tensor_info_by_name);
    return check_cover(f, err);
}

static enum sl_err parse_header(struct tensorfile *f, struct sl_error *err)
{
    // Five values per tensor and up to eight sizes, and the metadata.
    const struct sl_json_limits limits = {
        .bytes = TENSORFILE_HEADER_MAX,
        .depth = 8,
        .values = (size_t)20 * TENSORFILE_TENSORS_MAX,
        .string_bytes = TENSORFILE_HEADER_MAX,
    };
    size_t members;
    enum sl_err rc;

    if (f->header_bytes == 0 || f->header[0] != '{')
        return sl_fail(err, SL_ECORRUPT, "%s: the header has to begin with {",
                       f->name);
    rc = sl_json_parse(&f->json, f->name, f->header, f->header_bytes, &limits,
                       err);
    if (rc == SL_ENOMEM)
        return rc;
    if (rc != SL_OK) // for the caller the file is wrong, not the call
        return err != NULL ? (err->code = SL_ECORRUPT) : SL_ECORRUPT;
    members = json_object_size(f->json);
    if (members > TENSORFILE_TENSORS_MAX)
        return sl_fail(err, SL_ECORRUPT, "%s: over %d tensors", f->name,
                       TENSORFILE_TENSORS_MAX);
    f->tensors = sl_calloc(members, sizeof(*f->tensors));
    f->sorted = sl_malloc_array(members, sizeof(struct tensor_info *));
    if (f->tensors == NULL || f->sorted == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", f->name);
    return read_entries(f, err);
}

// Begins of files that people take for safetensors, and what to do about them.
static const struct {
    const char *begin;
    size_t bytes;
    const char *what;
} others[] = {
#define OTHER(begin, what)                                                     \
    {                                                                          \
        begin, sizeof(begin) - 1, what                                         \
    }
    OTHER("version https://git-lfs.github.com/spec/",
          "a Git LFS pointer, which stands for the file; fetch it: git lfs "
          "pull"),
    OTHER("PK\x03\x04",
          "a zip archive, as torch.save (.bin, .pt), NumPy (.npz) and Keras "
          "(.keras) write them; convert it: safetensors.torch.save_file("
          "torch.load(FILE), 'weights.safetensors'), or sluice.keras."
          "save_weights"),
    OTHER("\x80\x02",
          "a pickle, as torch.save wrote them before 1.6; convert it: "
          "safetensors.torch.save_file(torch.load(FILE), "
          "'weights.safetensors')"),
    OTHER("\x89HDF\r\n",
          "HDF5, as Keras' .h5; convert it: model.load_weights(FILE), then "
          "sluice.keras.save_weights(model, 'weights.safetensors')"),
    OTHER("\x93NUMPY", "an array of NumPy; convert it: "
                       "safetensors.numpy.save_file({NAME: numpy.load(FILE)}, "
                       "'weights.safetensors')"),
    OTHER("GGUF",
          "GGUF, which holds quantized values; take the model's safetensors"),
    OTHER("\x1f\x8b", "compressed with gzip; unpack it: gunzip FILE"),
    OTHER("<", "an HTML or XML page, not the file that it links to"),
};

// Says which file this is that is no safetensors, if it is known; else NULL.
static const char *other_format(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < SL_COUNT(others); i++)
        if (n >= others[i].bytes &&
            memcmp(bytes, others[i].begin, others[i].bytes) == 0)
            return others[i].what;
    return NULL;
}

static enum sl_err tensorfile_parse_bytes(struct tensorfile *f,
                                          const uint8_t *bytes, size_t n,
                                          size_t limit, struct sl_error *err)
{
    uint64_t header = 0;

    if (limit == 0 || limit > TENSORFILE_HEADER_MAX)
        limit = TENSORFILE_HEADER_MAX;
    if (n < LENGTH_BYTES)
        return sl_fail(err, SL_ECORRUPT, "%s: %zu bytes hold no header",
                       f->name, n);
    for (int i = LENGTH_BYTES; i-- > 0;)
        header = header << 8 | bytes[i];
    if ((header > limit || header > n - LENGTH_BYTES) &&
        other_format(bytes, n) != NULL)
        return sl_fail(err, SL_ECORRUPT, "%s is not a safetensors file but %s",
                       f->name, other_format(bytes, n));
    if (header > limit || header > n - LENGTH_BYTES)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: a header of %" PRIu64
                       " bytes; the file has %zu, the limit is %zu",
                       f->name, header, n, limit);
    f->header = (const char *)bytes + LENGTH_BYTES;
    f->header_bytes = (size_t)header;
    f->data = bytes + LENGTH_BYTES + header;
    f->data_bytes = n - LENGTH_BYTES - header;
    return parse_header(f, err);
}

static enum sl_err reader_new(struct tensorfile **out, const char *name,
                              struct sl_error *err)
{
    struct tensorfile *f = sl_calloc(1, sizeof(*f));

    if (f == NULL || (f->name = sl_strdup(name)) == NULL) {
        sl_free(f);
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", name);
    }
    *out = f;
    return SL_OK;
}

enum sl_err tensorfile_parse(struct tensorfile **out, const char *name,
                             const void *bytes, size_t n, size_t header_limit,
                             struct sl_error *err)
{
    struct tensorfile *f = NULL;
    enum sl_err rc = reader_new(&f, name, err);

    if (rc != SL_OK)
        return rc;
    rc = tensorfile_parse_bytes(f, bytes, n, header_limit, err);
    if (rc != SL_OK) {
        tensorfile_close(f);
        return rc;
    }
    *out = f;
    return SL_OK;
}

enum sl_err tensorfile_open(struct tensorfile **out, struct fs *fs,
                            const char *path, size_t header_limit,
                            struct sl_error *err)
{
    struct fs_file *file;
    struct tensorfile *f = NULL;
    enum sl_err rc = reader_new(&f, path, err);

    if (rc != SL_OK)
        return rc;
    rc = fs_open(fs, &file, path, FS_READ, err);
    if (rc == SL_OK) {
        rc = fs_map_file(file, &f->map, err);
        fs_close(file);
    }
    if (rc == SL_OK) {
        f->fs = fs;
        rc = tensorfile_parse_bytes(f, f->map.data, f->map.bytes, header_limit,
                                    err);
    }
    if (rc != SL_OK) {
        tensorfile_close(f);
        return rc;
    }
    *out = f;
    return SL_OK;
}

// Reads exactly n bytes from there.
static enum sl_err tensorfile_read_exactly(struct fs_file *file, uint64_t at,
                                           void *into, size_t n,
                                           struct sl_error *err)
{
    size_t got = 0;
    enum sl_err rc = fs_pread(file, at, into, n, &got, err);

    if (rc == SL_OK && got < n)
        rc = sl_fail(err, SL_ECORRUPT,
                     "%s ends at byte %" PRIu64 ": it was cut short while it "
                     "was read",
                     file->path, at + got);
    return rc;
}

// Reads the header's length and then the header. A length beyond the limit is
// left for the checks of the parser.
static enum sl_err read_head(struct tensorfile *f, uint64_t bytes, size_t limit,
                             struct sl_error *err)
{
    size_t n = (size_t)sl_min(bytes, HEAD_LEAST);
    uint64_t header = 0;
    enum sl_err rc;

    f->head = sl_calloc(1, HEAD_LEAST);
    if (f->head == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", f->name);
    rc = tensorfile_read_exactly(f->file, 0, f->head, n, err);
    if (rc != SL_OK)
        return rc;
    for (int i = LENGTH_BYTES; i-- > 0;)
        header = header << 8 | f->head[i];
    if (header > sl_min(bytes, limit) || header + LENGTH_BYTES <= HEAD_LEAST)
        return SL_OK;
    n = LENGTH_BYTES + (size_t)header;
    sl_free(f->head);
    f->head = n > bytes ? NULL : sl_malloc(n);
    return f->head == NULL
               ? sl_fail(err, n > bytes ? SL_ECORRUPT : SL_ENOMEM,
                         "%s: a header of %zu bytes", f->name, n)
               : tensorfile_read_exactly(f->file, 0, f->head, n, err);
}

// Reads and maps nothing: a mapped file that its owner cuts short is a SIGBUS,
// which ends the process and not the one job.
enum sl_err tensorfile_open_read(struct tensorfile **out, struct fs_file *file,
                                 uint64_t bytes, size_t header_limit,
                                 struct sl_error *err)
{
    struct tensorfile *f = NULL;
    enum sl_err rc = reader_new(&f, file->path, err);

    if (rc != SL_OK)
        return rc;
    if (header_limit == 0 || header_limit > TENSORFILE_HEADER_MAX)
        header_limit = TENSORFILE_HEADER_MAX;
    f->file = file;
    rc = read_head(f, bytes, header_limit, err);
    if (rc == SL_OK)
        rc = tensorfile_parse_bytes(f, f->head, bytes, header_limit, err);
    if (rc != SL_OK) {
        tensorfile_close(f);
        return rc;
    }
    f->data = NULL;
    *out = f;
    return SL_OK;
}

enum sl_err tensorfile_open_unmapped(struct tensorfile **out, struct fs *fs,
                                     const char *path, size_t header_limit,
                                     struct sl_error *err)
{
    struct fs_file *file = NULL;
    uint64_t bytes = 0;
    enum sl_err rc;

    if (fs->ops != fs_posix()->ops) // fs_private is a real one, too
        return tensorfile_open(out, fs, path, header_limit, err);
    rc = fs_open(fs, &file, path, FS_READ, err);
    if (rc == SL_OK)
        rc = fs_size(file, &bytes, err);
    if (rc == SL_OK)
        rc = tensorfile_open_read(out, file, bytes, header_limit, err);
    if (rc == SL_OK)
        (*out)->owns = true;
    else
        fs_close(file);
    return rc;
}

enum sl_err tensorfile_read(const struct tensorfile *f,
                            const struct tensor_info *t, uint64_t offset,
                            void *into, size_t n, struct sl_error *err)
{
    assert(offset <= t->end - t->begin && n <= t->end - t->begin - offset);
    if (f->file == NULL) {
        memcpy(into, f->data + t->begin + offset, n);
        return SL_OK;
    }
    return tensorfile_read_exactly(
        f->file, LENGTH_BYTES + f->header_bytes + t->begin + offset, into, n,
        err);
}

void tensorfile_close(struct tensorfile *f)
{
    if (f == NULL)
        return;
    if (f->fs != NULL)
        fs_unmap(f->fs, &f->map);
    if (f->owns)
        fs_close(f->file);
    json_decref(f->json);
    sl_free(f->head);
    sl_free(f->tensors);
    sl_free(f->sorted);
    sl_free(f->name);
    sl_free(f);
}

// --- queries

size_t tensorfile_count(const struct tensorfile *f)
{
    return f->count;
}

const struct tensor_info *tensorfile_at(const struct tensorfile *f, size_t i)
{
    return &f->tensors[i];
}

const struct tensor_info *tensorfile_find(const struct tensorfile *f,
                                          const char *name)
{
    struct tensor_info want = {.name = name}, *key = &want;
    struct tensor_info **found =
        bsearch(&key, f->sorted, f->count, sizeof(struct tensor_info *),
                tensor_info_by_name);

    return found != NULL ? *found : NULL;
}

const uint8_t *tensorfile_data(const struct tensorfile *f,
                               const struct tensor_info *t)
{
    assert(f->file == NULL);
    return f->data + t->begin;
}

static void place_text(char out[TENSOR_PLACE_TEXT], const struct tensor_info *t,
                       uint64_t at, float value)
{
    uint64_t index[TENSOR_RANK_MAX] = {0};
    size_t len = 0;

    for (unsigned i = t->rank; i-- > 0; at /= t->shape[i])
        index[i] = at % t->shape[i];
    for (unsigned i = 0; i < t->rank; i++)
        len += (size_t)snprintf(out + len, TENSOR_PLACE_TEXT - len,
                                "%s%" PRIu64 "%s", i == 0 ? "[" : ", ",
                                index[i], i + 1 == t->rank ? "]" : "");
    snprintf(out + len, TENSOR_PLACE_TEXT - len, " is %s",
             isnan(value) ? "nan"
             : value > 0  ? "inf"
                          : "-inf");
}

bool tensor_not_finite(const struct tensor_info *t, const uint8_t *bytes,
                       char out[TENSOR_PLACE_TEXT])
{
    uint64_t count = (t->end - t->begin) / sizeof(float);
    float value;

    for (uint64_t i = 0; t->dtype == TENSOR_F32 && i < count; i++) {
        memcpy(&value, bytes + i * sizeof(value), sizeof(value));
        if (isfinite(value))
            continue;
        place_text(out, t, i, value);
        return true;
    }
    return false;
}

size_t tensorfile_meta_count(const struct tensorfile *f)
{
    return json_object_size(f->meta);
}

struct tensor_meta tensorfile_meta_at(const struct tensorfile *f, size_t i)
{
    void *at = json_object_iter((json_t *)f->meta);

    while (i-- > 0)
        at = json_object_iter_next((json_t *)f->meta, at);
    return (struct tensor_meta){json_object_iter_key(at),
                                json_string_value(json_object_iter_value(at))};
}

const char *tensorfile_meta(const struct tensorfile *f, const char *key)
{
    return json_string_value(json_object_get(f->meta, key));
}

// --- checksums

static bool read_crc(const char *digits, uint32_t *out)
{
    char text[CRC_DIGITS + 1], *end;

    memcpy(text, digits, CRC_DIGITS);
    text[CRC_DIGITS] = '\0';
    *out = (uint32_t)strtoul(text, &end, 16);
    return strspn(text, "0123456789abcdef") == CRC_DIGITS;
}

// Over a copy of the header in which the digits are zeroes. Their place is
// found by the text `"key":"`, which the writer writes without blanks.
static enum sl_err verify_header(const struct tensorfile *f, const char *crc,
                                 struct sl_error *err)
{
    static const char mark[] = "\"" TENSORFILE_KEY_HEADER "\":\"";
    struct buf copy = BUF_INIT;
    uint32_t want, got;
    char *place;

    if (strlen(crc) != CRC_DIGITS || !read_crc(crc, &want))
        return sl_fail(err, SL_ECORRUPT, "%s: the header's checksum is none",
                       f->name);
    if (buf_append(&copy, f->header, f->header_bytes) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", f->name);
    place = memmem(copy.data, copy.len, mark, sizeof(mark) - 1);
    got = ~want;
    if (place != NULL) {
        memset(place + sizeof(mark) - 1, '0', CRC_DIGITS);
        got = crc32c(0, copy.data, copy.len);
    }
    buf_release(&copy);
    if (got != want)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: the header's checksum is %08" PRIx32
                       ", not %08" PRIx32,
                       f->name, got, want);
    return SL_OK;
}

// The CRC of a block of data, through `space` where it is read.
static enum sl_err block_crc(const struct tensorfile *f, uint64_t at, size_t n,
                             uint8_t *space, uint32_t *out,
                             struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (f->file != NULL)
        rc = tensorfile_read_exactly(
            f->file, LENGTH_BYTES + f->header_bytes + at, space, n, err);
    if (rc == SL_OK)
        *out = crc32c(0, f->file != NULL ? space : f->data + at, n);
    return rc;
}

static enum sl_err verify_blocks(const struct tensorfile *f, const char *crcs,
                                 uint8_t *space, struct sl_error *err)
{
    uint64_t at = 0;
    size_t blocks = (size_t)((f->data_bytes + TENSORFILE_BLOCK_BYTES - 1) /
                             TENSORFILE_BLOCK_BYTES);

    if (strlen(crcs) != blocks * CRC_DIGITS)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: %zu blocks of data, but not as many checksums",
                       f->name, blocks);
    for (size_t i = 0; i < blocks; i++) {
        uint64_t left = f->data_bytes - at;
        size_t n = left < TENSORFILE_BLOCK_BYTES ? (size_t)left
                                                 : TENSORFILE_BLOCK_BYTES;
        uint32_t want, got = 0;
        enum sl_err rc = block_crc(f, at, n, space, &got, err);

        if (rc != SL_OK)
            return rc;
        if (!read_crc(crcs + i * CRC_DIGITS, &want) || got != want)
            return sl_fail(err, SL_ECORRUPT,
                           "%s: the checksum of data block %zu of %zu does not "
                           "hold",
                           f->name, i, blocks);
        at += n;
    }
    return SL_OK;
}

static enum sl_err verify_data(const struct tensorfile *f, const char *crcs,
                               struct sl_error *err)
{
    size_t n = (size_t)sl_min(f->data_bytes, TENSORFILE_BLOCK_BYTES);
    uint8_t *space = f->file == NULL ? NULL : sl_malloc(n > 0 ? n : 1);
    enum sl_err rc = SL_ENOMEM;

    if (f->file == NULL || space != NULL)
        rc = verify_blocks(f, crcs, space, err);
    else
        sl_fail(err, rc, "%s: out of memory", f->name);
    sl_free(space);
    return rc;
}

enum sl_err tensorfile_verify(const struct tensorfile *f, struct sl_error *err)
{
    const char *header = tensorfile_meta(f, TENSORFILE_KEY_HEADER);
    const char *data = tensorfile_meta(f, TENSORFILE_KEY_DATA);
    enum sl_err rc;

    if (header == NULL || data == NULL)
        return sl_fail(err, SL_ENOENT, "%s has no checksums", f->name);
    rc = verify_header(f, header, err);
    return rc == SL_OK ? verify_data(f, data, err) : rc;
}
