// SPDX-License-Identifier: Apache-2.0
// plan/sketch.c -- see sketch.h.
#include "plan/sketch.h"

#include <math.h>
#include <string.h>

#include "common/base/num.h"
#include "common/base/rng.h"

enum { SKETCH_RUN = SKETCH_NUMBERS - 1 }; // elements of a run, and sums

uint64_t sketch_seed(uint64_t job, uint64_t closure, uint64_t step)
{
    return sl_mix64(sl_mix64(sl_mix64(job) ^ closure) ^ step);
}

static inline double sketch_sign(uint64_t word, unsigned bit)
{
    return 1 - 2 * (double)(int)(word >> bit & 1);
}

// Adds a run of eight elements. Each sum has all of them, with the signs of a
// row of Hadamard's matrix, which take 24 additions in place of 64. A sign
// drawn for each element and one for each sum make the signs independent of
// each other, also in one lane of many runs.
static inline void sketch_run(double *of, uint64_t word, const float *x)
{
    double y[SKETCH_RUN], z[SKETCH_RUN];

    for (unsigned i = 0; i < SKETCH_RUN; i++) {
        y[i] = (double)x[i] * sketch_sign(word, i);
        of[0] += y[i] * y[i];
    }
    for (unsigned i = 0; i < SKETCH_RUN / 2; i++) {
        z[i] = y[2 * i] + y[2 * i + 1];
        z[SKETCH_RUN / 2 + i] = y[2 * i] - y[2 * i + 1];
    }
    for (unsigned i = 0; i < SKETCH_RUN / 2; i++) {
        y[i] = z[2 * i] + z[2 * i + 1];
        y[SKETCH_RUN / 2 + i] = z[2 * i] - z[2 * i + 1];
    }
    for (unsigned i = 0; i < SKETCH_RUN / 2; i++) {
        z[i] = y[2 * i] + y[2 * i + 1];
        z[SKETCH_RUN / 2 + i] = y[2 * i] - y[2 * i + 1];
    }
    for (unsigned i = 0; i < SKETCH_RUN; i++)
        of[1 + i] += z[i] * sketch_sign(word, SKETCH_RUN + i);
}

// Runs begin at multiples of eight; one that is not whole has zeroes beside it.
void sketch_add(struct sketch *s, uint64_t seed, uint64_t first, const float *x,
                size_t n)
{
    struct sketch sum = *s; // the compiler keeps it in registers

    while (n > 0) {
        uint64_t word = sl_mix64(seed ^ first / SKETCH_RUN),
                 from = first % SKETCH_RUN;
        uint64_t count = sl_min(n, SKETCH_RUN - from);
        float some[SKETCH_RUN] = {0};

        if (count == SKETCH_RUN) {
            sketch_run(sum.of, word, x);
        } else {
            memcpy(some + from, x, count * sizeof(*x));
            sketch_run(sum.of, word, some);
        }
        first += count;
        x += count;
        n -= count;
    }
    *s = sum;
}

// The squares of finite elements have a finite sum. A host that computes
// wrongly may spoil an element after it was looked at.
void sketch_end(struct sketch *s, bool finite)
{
    if (!finite || !isfinite(s->of[0]))
        *s = (struct sketch){{-1}};
}

double sketch_apart(double *norm, const struct sketch *a,
                    const struct sketch *b)
{
    double x = sqrt(fmax(a->of[0], 0)), y = sqrt(fmax(b->of[0], 0));
    bool x_finite = a->of[0] >= 0, y_finite = b->of[0] >= 0;
    double apart = fabs(x - y);

    if (!x_finite || !y_finite) {
        *norm = fmax(x, y);
        return x_finite || y_finite ? (double)INFINITY : 0;
    }
    for (unsigned k = 1; k < SKETCH_NUMBERS; k++)
        apart = fmax(apart, fabs(a->of[k] - b->of[k]));
    *norm = fmin(x, y);
    return apart;
}
