// SPDX-License-Identifier: Apache-2.0
// worker/data/data_idx.c -- IDX files, the format of the MNIST family.
//
// 00 00 T D, then D big-endian u32 dimensions, then the elements, big-endian,
// row-major. The file is exactly as long as that promises. One that begins like
// gzip, whatever its name, is inflated into memory, once.
#include "worker/data/data_array.h"

#include <string.h>

#include "common/base/mem.h"
#include "worker/data/data_inflate.h"

#define IDX_DIMS 4
#define IDX_HEAD (4 + 4 * IDX_DIMS)

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static bool idx_type_of(uint8_t code, enum array_type *out)
{
    switch (code) {
    case 0x08:
        *out = ARRAY_U8;
        return true;
    case 0x09:
        *out = ARRAY_I8;
        return true;
    case 0x0b:
        *out = ARRAY_I16;
        return true;
    case 0x0c:
        *out = ARRAY_I32;
        return true;
    case 0x0d:
        *out = ARRAY_F32;
        return true;
    case 0x0e:
        *out = ARRAY_F64;
        return true;
    }
    return false;
}

// Reads the header from the first n bytes of the contents.
static enum sl_err idx_read_head(struct array *a, const uint8_t *p, size_t n,
                                 size_t *head_bytes, struct sl_error *err)
{
    if (n < 4 || p[0] != 0 || p[1] != 0)
        return sl_fail(err, SL_ECORRUPT,
                       "no IDX file: byte 0 should begin 00 00 <type> "
                       "<dimensions>");
    if (!idx_type_of(p[2], &a->type))
        return sl_fail(err, SL_ECORRUPT, "byte 2: is no type that IDX has");
    if (p[3] < 1 || p[3] > IDX_DIMS)
        return sl_fail(err, SL_ECORRUPT,
                       "byte 3: the number of dimensions is not 1 to %d",
                       IDX_DIMS);
    a->nd = p[3];
    a->swap = array_type_bytes(a->type) > 1;
    *head_bytes = 4 + 4 * (size_t)a->nd;
    if (n < *head_bytes)
        return sl_fail(err, SL_ECORRUPT, "ends at byte %zu, within its header",
                       n);
    for (unsigned i = 0; i < a->nd; i++)
        a->dim[i] = be32(p + 4 + 4 * i);
    return array_measure(a, err);
}

static enum sl_err open_gz(struct array *a, struct fs_file *file,
                           struct pulse *pulse, struct sl_error *err)
{
    const struct inflate_source packed = {
        .file = file,
        .bytes = a->file_bytes,
        .form = INFLATE_GZIP,
        .pulse = pulse,
    };
    uint8_t front[IDX_HEAD];
    size_t got = 0, head_bytes = 0;
    struct inflater *from = NULL;
    enum sl_err rc = inflater_new(&from, &packed, err);

    if (rc == SL_OK)
        rc = inflater_read(from, front, sizeof(front), &got, err);
    if (rc == SL_OK)
        rc = idx_read_head(a, front, got, &head_bytes, err);
    if (rc == SL_OK)
        rc = inflate_bounds(a->bytes + head_bytes, packed.bytes, err);
    if (rc == SL_OK)
        rc = inflater_rows(from, a, front + head_bytes, got - head_bytes, err);
    inflater_free(from);
    return rc;
}

// Opens a plain IDX file; owns `file`.
static enum sl_err open_plain(struct array *a, struct fs_file *file,
                              struct pulse *pulse, struct sl_error *err)
{
    uint8_t front[IDX_HEAD];
    size_t got = 0, head_bytes = 0;
    enum sl_err rc;

    rc = fs_pread(file, 0, front, sizeof(front), &got, err);
    if (rc == SL_OK)
        rc = idx_read_head(a, front, got, &head_bytes, err);
    if (rc == SL_OK && a->file_bytes != head_bytes + a->bytes)
        rc = sl_fail(err, SL_ECORRUPT,
                     "is %llu bytes long; its header promises %s",
                     (unsigned long long)a->file_bytes,
                     head_bytes + a->bytes > a->file_bytes ? "more" : "fewer");
    if (rc != SL_OK) {
        fs_close(file);
        return rc;
    }
    return array_take_file(a, file, head_bytes, pulse, err);
}

// Opens a plain or gzipped IDX file; owns `file`.
static enum sl_err open_either(struct array *a, struct fs_file *file,
                               struct pulse *pulse, struct sl_error *err)
{
    uint8_t magic[2] = {0, 0};
    size_t got = 0;
    enum sl_err rc = fs_pread(file, 0, magic, sizeof(magic), &got, err);

    if (rc == SL_OK && (got < 2 || magic[0] != 0x1f || magic[1] != 0x8b))
        return open_plain(a, file, pulse, err);
    if (rc == SL_OK)
        rc = open_gz(a, file, pulse, err);
    fs_close(file);
    return rc;
}

enum sl_err array_open_idx(struct array *out, const struct roots *roots,
                           const char *path, struct pulse *pulse,
                           struct sl_error *err)
{
    struct array a = {.type = ARRAY_U8, .stay = out->stay};
    struct fs_file *file = NULL;
    enum sl_err rc = roots_file(roots, &file, path, err);

    if (rc != SL_OK)
        return rc;
    a.path = sl_strdup(path);
    rc = a.path == NULL ? SL_ENOMEM : fs_size(file, &a.file_bytes, err);
    a.version = fs_version(file);
    if (rc == SL_OK)
        rc = open_either(&a, file, pulse, err);
    else
        fs_close(file);
    if (rc != SL_OK) {
        array_release(&a);
        return sl_prefix(err, rc, "%s", path);
    }
    *out = a;
    return SL_OK;
}
