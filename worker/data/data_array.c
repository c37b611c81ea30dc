// SPDX-License-Identifier: Apache-2.0
// worker/data/data_array.c -- elements of files as numbers; see data_array.h.
#include "worker/data/data_array.h"

#include <string.h>

#include "common/base/copy.h"
#include "common/base/huge.h"
#include "common/base/num.h"
#include "worker/data/data_source.h"

#define CACHE_LINE 64
#define SOON_BYTES 4096
#define HUGE_FROM (4 * SL_HUGE_PAGE)
#define PIECE_BYTES ((size_t)16 << 20)

size_t array_type_bytes(enum array_type type)
{
    switch (type) {
    case ARRAY_U8:
    case ARRAY_I8:
        return 1;
    case ARRAY_U16:
    case ARRAY_I16:
    case ARRAY_F16:
    case ARRAY_BF16:
        return 2;
    case ARRAY_U32:
    case ARRAY_I32:
    case ARRAY_F32:
        return 4;
    case ARRAY_U64:
    case ARRAY_I64:
    case ARRAY_F64:
        return 8;
    }
    return 0;
}

enum sl_err array_measure(struct array *a, struct sl_error *err)
{
    uint64_t elements = 1, bytes;

    if (a->nd == 0 || a->nd > ARRAY_DIMS)
        return sl_fail(err, SL_EINVAL,
                       "the array has no dimension, or too many; arrays of "
                       "samples have 1 to %d",
                       ARRAY_DIMS);
    for (unsigned i = 1; i < a->nd; i++) {
        if (__builtin_mul_overflow(elements, a->dim[i], &elements))
            return sl_fail(err, SL_ERANGE,
                           "the array's shape has too many elements");
    }
    if (__builtin_mul_overflow(elements, array_type_bytes(a->type), &bytes) ||
        bytes > UINT64_C(1) << 40 ||
        __builtin_mul_overflow(bytes, a->dim[0], &a->bytes) ||
        a->bytes > UINT64_C(1) << 46)
        return sl_fail(err, SL_ERANGE,
                       "the array's shape has too many elements");
    a->rows = a->dim[0];
    a->row_elements = elements;
    a->row_bytes = (size_t)bytes;
    return SL_OK;
}

void *array_memory(uint64_t bytes)
{
    return bytes < HUGE_FROM ? sl_malloc((size_t)bytes)
                             : sl_huge((size_t)bytes);
}

static enum sl_err array_read_file(struct array *a, struct fs_file *file,
                                   struct pulse *pulse, struct sl_error *err)
{
    uint64_t done = 0;
    size_t got = PIECE_BYTES;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && done < a->bytes && got > 0) {
        rc = fs_pread(file, a->offset + done, a->memory + done,
                      (size_t)sl_min(a->bytes - done, PIECE_BYTES), &got, err);
        done += got;
        if (rc == SL_OK)
            rc = pulse_piece(pulse, err);
    }
    return rc == SL_OK && done < a->bytes
               ? sl_fail(err, SL_ECORRUPT,
                         "ends at byte %llu; its header promises more",
                         (unsigned long long)(a->offset + done))
               : rc;
}

enum sl_err array_take_file(struct array *a, struct fs_file *file,
                            uint64_t offset, struct pulse *pulse,
                            struct sl_error *err)
{
    enum sl_err rc;

    a->offset = offset;
    if (a->stay || a->bytes > ARRAY_MEMORY_BYTES) {
        a->file = file;
        return SL_OK;
    }
    a->memory = array_memory(a->bytes);
    if (a->memory == NULL)
        rc = sl_fail(err, SL_ENOMEM, "no memory for its %llu bytes",
                     (unsigned long long)a->bytes);
    else
        rc = array_read_file(a, file, pulse, err);
    fs_close(file);
    return rc;
}

// Rows come in a random order, so each begins with misses that no hardware
// prefetcher foresees; of a long row only its first SOON_BYTES are fetched.
void array_soon(const struct array *a, uint64_t row)
{
    const uint8_t *at;
    size_t bytes = a->row_bytes < SOON_BYTES ? a->row_bytes : SOON_BYTES;

    if (a->memory == NULL || row >= a->rows)
        return;
    at = a->memory + row * a->row_bytes;
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(at + i);
    __builtin_prefetch(at + bytes - 1);
}

enum sl_err array_row(const struct array *a, uint64_t row, void *scratch,
                      const uint8_t **out, struct sl_error *err)
{
    return array_rows(a, row, 1, scratch, out, err);
}

enum sl_err array_rows(const struct array *a, uint64_t first, uint64_t n,
                       void *scratch, const uint8_t **out, struct sl_error *err)
{
    uint64_t at = first * a->row_bytes;
    size_t bytes = (size_t)n * a->row_bytes, got = 0;
    enum sl_err rc;

    if (first > a->rows || n > a->rows - first)
        return sl_fail(err, SL_ERANGE, "%s: has no sample %llu, only %llu",
                       a->path, (unsigned long long)(first + n - 1),
                       (unsigned long long)a->rows);
    if (a->memory != NULL) {
        *out = a->memory + at;
        return SL_OK;
    }
    rc = fs_pread(a->file, a->offset + at, scratch, bytes, &got, err);
    if (rc != SL_OK)
        return rc;
    if (got < bytes)
        return sl_fail(err, SL_ECORRUPT,
                       "%s: sample %llu at byte %llu is cut short; the file "
                       "has changed since it was opened",
                       a->path, (unsigned long long)first,
                       (unsigned long long)(a->offset + at));
    *out = scratch;
    return SL_OK;
}

void array_expect(const struct array *a, uint64_t row)
{
    if (a->memory == NULL && row < a->rows)
        fs_expect(a->file, a->offset + row * a->row_bytes, a->row_bytes);
}

static uint64_t array_load_bits(const struct array *a, const uint8_t *raw)
{
    uint8_t one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    switch (array_type_bytes(a->type)) {
    case 1:
        memcpy(&one, raw, 1);
        return one;
    case 2:
        memcpy(&two, raw, 2);
        return a->swap ? __builtin_bswap16(two) : two;
    case 4:
        memcpy(&four, raw, 4);
        return a->swap ? __builtin_bswap32(four) : four;
    default:
        memcpy(&eight, raw, 8);
        return a->swap ? __builtin_bswap64(eight) : eight;
    }
}

// Converts IEEE half precision, with subnormals, infinities and NaN.
static double from_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, value;

    if (exponent == 0)
        value = fraction * 0x1p-24;
    else if (exponent == 31)
        value = fraction == 0 ? __builtin_inf() : __builtin_nan("");
    else
        value = __builtin_ldexp(fraction + 1024, exponent - 25);
    return h & 0x8000 ? -value : value;
}

double array_double(const struct array *a, const uint8_t *raw)
{
    uint64_t bits = array_load_bits(a, raw);
    uint32_t low = (uint32_t)bits;
    float f;
    double d;

    switch (a->type) {
    case ARRAY_U8:
    case ARRAY_U16:
    case ARRAY_U32:
    case ARRAY_U64:
        return (double)bits;
    case ARRAY_I8:
        return (int8_t)bits;
    case ARRAY_I16:
        return (int16_t)bits;
    case ARRAY_I32:
        return (int32_t)bits;
    case ARRAY_I64:
        return (double)(int64_t)bits;
    case ARRAY_F16:
        return from_half((uint16_t)bits);
    case ARRAY_BF16: // the upper half of a float
        low <<= 16;
        // fall through
    case ARRAY_F32:
        memcpy(&f, &low, sizeof(f));
        return (double)f;
    case ARRAY_F64:
        memcpy(&d, &bits, sizeof(d));
        return d;
    }
    return 0;
}

bool array_is_floats(const struct array *a)
{
    return a->type == ARRAY_F32 && !a->swap;
}

// Converts in one pass; a value may lie anywhere, and may be replaced in its
// place.
static void scale_floats(const uint8_t *raw, size_t n, float scale,
                         float offset, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float value;

        memcpy(&value, raw + i * sizeof(value), sizeof(value));
        out[i] = value * scale + offset;
    }
}

void array_floats(const struct array *a, const uint8_t *raw, size_t n,
                  float scale, float offset, float *out)
{
    size_t size = array_type_bytes(a->type);

    if (a->type == ARRAY_U8) {
        data_floats(raw, n, scale, offset, out);
        return;
    }
    if (array_is_floats(a)) {
        if (scale != 1.0f || offset != 0.0f)
            scale_floats(raw, n, scale, offset, out);
        else if (raw != (const uint8_t *)out)
            sl_copy(out, raw, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(array_double(a, raw + i * size) * (double)scale +
                         (double)offset);
}

bool array_is_words(const struct array *a)
{
    return a->type == ARRAY_U32 || a->type == ARRAY_I32 ||
           a->type == ARRAY_U64 || a->type == ARRAY_I64;
}

void array_words(const struct array *a, const uint8_t *raw, size_t n,
                 uint64_t *out)
{
    size_t size = array_type_bytes(a->type);

    if (size == sizeof(*out) && !a->swap) {
        if (n > 0)
            memcpy(out, raw, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = array_load_bits(a, raw + i * size);

        out[i] = a->type == ARRAY_I32 ? (uint64_t)(int32_t)bits : bits;
    }
}

void array_release(struct array *a)
{
    sl_free(a->memory);
    fs_close(a->file);
    sl_free(a->path);
    memset(a, 0, sizeof(*a));
}
