// SPDX-License-Identifier: Apache-2.0
// common/base/tensorfile.c -- what the writer and the reader share: dtypes,
// sizes and the order of tensors.
#include "common/base/tensorfile.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[TENSOR_DTYPE_COUNT] = {
#define TENSOR_DTYPE_ROW(name, bytes) [TENSOR_##name] = {#name, bytes},
    TENSOR_DTYPE_MAP(TENSOR_DTYPE_ROW)
#undef TENSOR_DTYPE_ROW
};

const char *tensor_dtype_name(enum tensor_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t tensor_dtype_bytes(enum tensor_dtype dtype)
{
    return dtypes[dtype].bytes;
}

enum sl_err tensor_dtype_parse(const char *word, enum tensor_dtype *out)
{
    for (int i = 0; i < TENSOR_DTYPE_COUNT; i++) {
        if (strcmp(word, dtypes[i].name) == 0) {
            *out = (enum tensor_dtype)i;
            return SL_OK;
        }
    }
    return SL_ENOTSUP;
}

enum sl_err tensor_bytes(uint64_t *out, const struct tensor_info *t)
{
    uint64_t bytes = tensor_dtype_bytes(t->dtype);

    for (unsigned i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return SL_ERANGE;
    }
    *out = bytes;
    return SL_OK;
}

static int wider_then_name(const void *a, const void *b)
{
    const struct tensor_info *x = a, *y = b;
    size_t n = tensor_dtype_bytes(x->dtype), m = tensor_dtype_bytes(y->dtype);

    if (n != m)
        return n > m ? -1 : 1;
    return strcmp(x->name, y->name);
}

enum sl_err tensorfile_layout(struct tensor_info *tensors, size_t count,
                              struct sl_error *err)
{
    uint64_t at = 0, bytes;

    if (count > 0)
        qsort(tensors, count, sizeof(*tensors), wider_then_name);
    for (size_t i = 0; i < count; i++) {
        struct tensor_info *t = &tensors[i];

        if (t->rank > TENSOR_RANK_MAX)
            return sl_fail(err, SL_EINVAL, "tensor '%s' has rank %u, not <= %d",
                           t->name, t->rank, TENSOR_RANK_MAX);
        if (tensor_bytes(&bytes, t) != SL_OK ||
            __builtin_add_overflow(at, bytes, &t->end))
            return sl_fail(err, SL_ERANGE, "tensor '%s' is too large", t->name);
        t->begin = at;
        at = t->end;
    }
    return SL_OK;
}
