// SPDX-License-Identifier: Apache-2.0
// trainer/sum/add.c -- the loops of the sums, and payloads of any type.
#include "trainer/sum/add.h"

#include <string.h>

#include "kernels/cast.h"
#include "state/base/element.h"

#define CHUNK 2048 // elements that stay in the first cache

static inline void loop_two(size_t n, const float *a, const float *b,
                            float *out, float *also)
{
    if (also == NULL) {
        for (size_t i = 0; i < n; i++)
            out[i] = a[i] + b[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];

        out[i] = sum;
        also[i] = sum;
    }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
loop_two_avx2(size_t n, const float *a, const float *b, float *out, float *also)
{
    loop_two(n, a, b, out, also);
}
#endif

// Operands are added in their order, so the bits are the same on every host.
void add_two(size_t n, const float *a, const float *b, float *out, float *also)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        loop_two_avx2(n, a, b, out, also);
        return;
    }
#endif
    loop_two(n, a, b, out, also);
}

void add_many(size_t n, const float *const *in, unsigned count, float *out,
              float *also)
{
    float sum[CHUNK];

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t some = n - at < CHUNK ? n - at : CHUNK;

        memcpy(sum, in[0] + at, some * sizeof(float));
        for (unsigned k = 1; k < count; k++)
            add_two(some, sum, in[k] + at, sum, NULL);
        memcpy(out + at, sum, some * sizeof(float));
        if (also != NULL)
            memcpy(also + at, sum, some * sizeof(float));
    }
}

void add_payload(float *to, enum wire_type type,
                 const struct sl_slices *payload)
{
    float wide[CHUNK];
    struct slices_runs it;
    const void *run;
    size_t n;

    if (slices_runs_init(&it, payload, wire_type_bytes(type)) != SL_OK)
        return;
    for (; (run = slices_runs_next(&it, CHUNK, &n)) != NULL; to += n) {
        cast_widen(element_dtype(type), n, run, wide);
        add_two(n, wide, to, to, NULL);
    }
}

void add_copy(float *to, enum wire_type type, const struct sl_slices *payload)
{
    struct slices_runs it;
    const void *run;
    size_t n;

    if (slices_runs_init(&it, payload, wire_type_bytes(type)) != SL_OK)
        return;
    for (; (run = slices_runs_next(&it, SIZE_MAX, &n)) != NULL; to += n)
        cast_widen(element_dtype(type), n, run, to);
}

void add_round(enum wire_type type, size_t n, float *values)
{
    uint16_t narrow[CHUNK];

    if (type == WIRE_F32)
        return;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t some = n - at < CHUNK ? n - at : CHUNK;

        cast_narrow(element_dtype(type), some, values + at, narrow);
        cast_widen(element_dtype(type), some, narrow, values + at);
    }
}

void add_narrow(enum wire_type type, size_t n, const float *from, void *to)
{
    cast_narrow(element_dtype(type), n, from, to);
}
