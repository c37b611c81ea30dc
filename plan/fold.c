// SPDX-License-Identifier: Apache-2.0
// plan/fold.c -- see fold.h.
#include "plan/fold.h"

#include <math.h>

#include "common/base/num.h"
#include "common/base/rng.h"

enum { FOLD_RUN = 64 }; // elements that share a draw

// In a run each element has a sum of its own. The first one's is drawn, else
// the columns of a kernel of 256 units would each have one sum alone.
void fold_add(struct fold *f, uint64_t first, const float *x, size_t n)
{
    while (n > 0) {
        uint64_t place = sl_mix64(first / FOLD_RUN), signs = sl_mix64(place);
        uint64_t from = first % FOLD_RUN, count = sl_min(n, FOLD_RUN - from);

        for (uint64_t i = 0; i < count; i++) {
            float *sum = &f->sums[(place + from + i) % FOLD_SUMS];

            f->squares += (double)x[i] * (double)x[i];
            *sum += signs >> (from + i) & 1 ? x[i] : -x[i];
        }
        first += count;
        x += count;
        n -= count;
    }
}

struct fold fold_not_finite(void)
{
    return (struct fold){.squares = (double)INFINITY};
}

double fold_norm(const struct fold *f)
{
    return isfinite(f->squares) ? sqrt(f->squares) : -1;
}

double fold_angle(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;

    for (unsigned i = 0; i < FOLD_SUMS; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (!(aa > 0 && bb > 0))
        return (double)NAN;
    return acos(fmax(-1, fmin(1, ab / sqrt(aa) / sqrt(bb)))) * 180 / M_PI;
}

bool fold_is_finite(const struct fold *f)
{
    bool finite = fold_norm(f) >= 0;

    for (int i = 0; i < FOLD_SUMS; i++)
        finite = finite && isfinite(f->sums[i]);
    return finite;
}
