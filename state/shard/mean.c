// SPDX-License-Identifier: Apache-2.0
// state/shard/mean.c -- the weighted sum of a round, chunk by chunk.
#include "state/shard/mean.h"

#include <float.h>

#include "common/base/num.h"
#include "kernels/lanes.h"
#include "state/base/finite.h"

#define CHUNK 2048 // elements: on the stack, and in the first cache

void mean_begin(struct mean *m)
{
    m->at = 0;
    coded_reader_init(&m->reader, m->coded, m->type, &m->payload);
}

// Sets sum to weight * part, or adds that to it, and multiplies the result by
// `by`: 1 but for the last part, which leaves every bit.
ALWAYS void add_loop(float *restrict sum, const float *restrict part,
                     float weight, bool begin, float by, size_t n)
{
    if (begin)
        for (size_t i = 0; i < n; i++)
            sum[i] = weight * part[i] * by;
    else
        for (size_t i = 0; i < n; i++)
            sum[i] = (sum[i] + weight * part[i]) * by;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void add_avx2(float *restrict sum,
                                                     const float *restrict part,
                                                     float weight, bool begin,
                                                     float by, size_t n)
{
    add_loop(sum, part, weight, begin, by, n);
}
#endif

static void add_part(float *restrict sum, const float *restrict part,
                     float weight, bool begin, float by, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        add_avx2(sum, part, weight, begin, by, n);
        return;
    }
#endif
    add_loop(sum, part, weight, begin, by, n);
}

static void take_chunk(struct mean *m, size_t n, float *restrict out)
{
    float space[CHUNK];

    for (size_t k = 0; k < m->count; k++) {
        const struct mean_part *part = &m->parts[k];
        const float *values = space;

        if (part->values != NULL)
            values = part->values + m->at;
        else
            coded_reader_take(&m->reader, n, space);
        add_part(out, values, part->weight, k == 0,
                 k + 1 == m->count ? m->by : 1, n);
    }
    m->at += n;
}

void mean_take(struct mean *m, size_t n, float *out)
{
    size_t some;

    for (; n > 0; n -= some, out += some) {
        some = (size_t)sl_min(n, CHUNK);
        take_chunk(m, some, out);
    }
}

// The sum is rounded once for each part: half of the range is more than enough.
bool mean_finite(struct mean *m)
{
    double most = 0;
    float chunk[CHUNK];
    bool finite = true;
    size_t n;

    for (size_t k = 0; k < m->count; k++)
        most += (double)m->parts[k].weight * (double)m->parts[k].most;
    if (most <= (double)FLT_MAX / 2)
        return true;
    mean_begin(m);
    for (size_t at = 0; finite && at < m->elements; at += n) {
        n = (size_t)sl_min(m->elements - at, CHUNK);
        mean_take(m, n, chunk);
        finite = finite_all(WIRE_F32, chunk, n);
    }
    return finite;
}
