// SPDX-License-Identifier: Apache-2.0
// state/shard/mean.c -- the weighted sum of a round, chunk by chunk.
#include "state/shard/mean.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "kernels/lanes.h"
#include "state/base/finite.h"

#define CHUNK 2048 // elements: on the stack, and in the first cache

// A smaller norm is that of a zero: no direction is left in its rounding.
#define LEAST_NORM 0x1p-100
// Directions that cancel to less than this share leave their rounding.
#define LEAST_SHARE 0x1p-20
#define SQUARES_LANES 8

// Returns true if only the plain mean of a piece makes sense: rows of an
// embedding are of different contributions.
static bool mean_is_plain(const struct plan_piece *piece)
{
    const char *last = strrchr(piece->name, '/');

    return piece->moving ||
           strcmp(last == NULL ? piece->name : last + 1, "embeddings") == 0;
}

void mean_begin(struct mean *m)
{
    m->at = m->piece = 0;
    coded_reader_init(&m->reader, m->coded, m->type, &m->payload);
}

// Sets sum to weight * part, or adds that to it, and multiplies the result by
// `by`: 1 but for the last part, which leaves every bit.
ALWAYS void mean_add_loop(float *restrict sum, const float *restrict part,
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
__attribute__((target("avx2"))) static void
mean_add_avx2(float *restrict sum, const float *restrict part, float weight,
              bool begin, float by, size_t n)
{
    mean_add_loop(sum, part, weight, begin, by, n);
}
#endif

static void mean_add(float *restrict sum, const float *restrict part,
                     float weight, bool begin, float by, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        mean_add_avx2(sum, part, weight, begin, by, n);
        return;
    }
#endif
    mean_add_loop(sum, part, weight, begin, by, n);
}

// Returns what the elements of a part are multiplied by, where the mean is.
static float mean_weight(const struct mean *m, const struct mean_part *part)
{
    const struct directions *d = m->directions;

    if (part->norms == NULL || mean_is_plain(&d->pieces[m->piece]))
        return part->weight;
    return part->norms[m->piece] < LEAST_NORM
               ? 0
               : (float)((double)part->weight / part->norms[m->piece]);
}

// Returns what the sum is multiplied by, where the mean is.
static float mean_by(const struct mean *m)
{
    return m->directions == NULL ? m->by : m->directions->by[m->piece];
}

static void mean_chunk(struct mean *m, size_t n, float *restrict out)
{
    float space[CHUNK];

    for (size_t k = 0; k < m->count; k++) {
        const struct mean_part *part = &m->parts[k];
        const float *values = space;

        if (part->values != NULL)
            values = part->values + m->at;
        else
            coded_reader_take(&m->reader, n, space);
        mean_add(out, values, mean_weight(m, part), k == 0,
                 k + 1 == m->count ? mean_by(m) : 1, n);
    }
    m->at += n;
}

// Goes to the piece of the next element; returns how many elements of those
// that follow are treated alike.
static size_t mean_alike(struct mean *m)
{
    const struct plan_piece *piece;

    if (m->directions == NULL)
        return m->elements - m->at;
    piece = &m->directions->pieces[m->piece];
    while (m->at == piece->first + piece->elements)
        piece = &m->directions->pieces[++m->piece];
    return (size_t)(piece->first + piece->elements - m->at);
}

void mean_take(struct mean *m, size_t n, float *out)
{
    size_t some;

    for (; n > 0; n -= some, out += some) {
        some = (size_t)sl_min(sl_min(n, CHUNK), mean_alike(m));
        mean_chunk(m, some, out);
    }
}

void mean_write(struct mean *m, float *out)
{
    float chunk[CHUNK];
    size_t n;

    mean_begin(m);
    for (size_t at = 0; at < m->elements; at += n) {
        n = (size_t)sl_min(m->elements - at, CHUNK);
        mean_take(m, n, chunk);
        memcpy(out + at, chunk, n * sizeof(*out));
    }
}

// Returns true if no element of the mean can be out of range. A sum is rounded
// once for each part: half of the range is more than enough.
static bool mean_surely_finite(const struct mean *m)
{
    const struct directions *d = m->directions;
    double most = 0;

    if (!(m->by > 0 && m->by <= 1)) // no samples, or more than a number holds
        return false;
    for (size_t k = 0; k < m->count; k++)
        most += (double)m->parts[k].weight * (double)m->parts[k].most;
    for (size_t p = 0; d != NULL && p < d->count; p++) {
        if (!isfinite(d->by[p]))
            return false;
        most = d->sizes[p] > most ? d->sizes[p] : most;
    }
    return most <= (double)FLT_MAX / 2;
}

bool mean_finite(struct mean *m)
{
    float chunk[CHUNK];
    bool finite = true;
    size_t n;

    if (mean_surely_finite(m))
        return true;
    mean_begin(m);
    for (size_t at = 0; finite && at < m->elements; at += n) {
        n = (size_t)sl_min(m->elements - at, CHUNK);
        mean_take(m, n, chunk);
        finite = finite_all(WIRE_F32, chunk, n);
    }
    return finite;
}

// ---- directions

enum sl_err directions_init(struct directions *d, const struct plan *plan)
{
    *d = (struct directions){NULL};
    if (!plan->directions)
        return SL_OK;
    d->pieces = plan->pieces;
    d->count = plan->piece_count;
    d->sizes = sl_calloc(d->count, sizeof(*d->sizes));
    d->last = sl_calloc(d->count, sizeof(*d->last));
    d->by = sl_calloc(d->count, sizeof(*d->by));
    return d->sizes != NULL && d->last != NULL && d->by != NULL ? SL_OK
                                                                : SL_ENOMEM;
}

void directions_release(struct directions *d)
{
    sl_free(d->sizes);
    sl_free(d->last);
    sl_free(d->by);
    *d = (struct directions){NULL};
}

// Adds up in SQUARES_LANES sums, which is as fast as memory, in one order.
static double mean_squares(const float *values, size_t n)
{
    double sums[SQUARES_LANES] = {0}, sum = 0;
    size_t whole = n / SQUARES_LANES * SQUARES_LANES;

    for (size_t i = 0; i < whole; i += SQUARES_LANES)
        for (size_t k = 0; k < SQUARES_LANES; k++)
            sums[k] += (double)values[i + k] * (double)values[i + k];
    for (size_t i = whole; i < n; i++)
        sums[i - whole] += (double)values[i] * (double)values[i];
    for (size_t k = 0; k < SQUARES_LANES; k++)
        sum += sums[k];
    return sum;
}

// Returns a number as a factor of floats; NAN if it is none, which mean_finite
// finds.
static float mean_factor(double by)
{
    return fabs(by) <= (double)FLT_MAX ? (float)by : (float)NAN;
}

// Returns the sum of squares of the next piece of a mean.
static double mean_piece_squares(struct mean *m, const struct plan_piece *piece)
{
    float chunk[CHUNK];
    double sum = 0;
    size_t n;

    for (size_t left = (size_t)piece->elements; left > 0; left -= n) {
        n = (size_t)sl_min(left, CHUNK);
        mean_take(m, n, chunk);
        sum += mean_squares(chunk, n);
    }
    return sum;
}

void directions_norms(const struct directions *d, const struct coded *coded,
                      enum wire_type type, const struct sl_slices *payload,
                      double *norms)
{
    const struct mean_part part = {.weight = 1};
    struct mean m = {.parts = &part, // the payload itself
                     .count = 1,
                     .elements = SIZE_MAX, // not looked at: pieces say it
                     .by = 1,
                     .coded = coded,
                     .type = type,
                     .payload = *payload};

    mean_begin(&m);
    for (size_t p = 0; p < d->count; p++)
        norms[p] = sqrt(mean_piece_squares(&m, &d->pieces[p]));
}

void directions_sum(struct directions *d, struct mean *m)
{
    if (d->count == 0)
        return;
    for (size_t p = 0; p < d->count; p++)
        d->by[p] = 1;
    m->directions = d;
}

void directions_mean(struct directions *d, double weight, struct mean *m)
{
    directions_sum(d, m);
    mean_begin(m);
    for (size_t p = 0; p < d->count; p++) {
        double sum = mean_piece_squares(m, &d->pieces[p]);

        if (mean_is_plain(&d->pieces[p]))
            d->by[p] = 1.0f / (float)weight;
        else if (!isfinite(sum))
            d->by[p] = (float)NAN;
        else if (sqrt(sum) < weight * LEAST_SHARE)
            d->by[p] = 0;
        else
            d->by[p] = mean_factor(d->sizes[p] / weight / sqrt(sum));
    }
}
