// SPDX-License-Identifier: Apache-2.0
// trainer/base/nonfinite.c -- the judgement, and its words.
#include "trainer/base/nonfinite.h"

#include <inttypes.h>

#include "trainer/base/figures.h"

struct nonfinite nonfinite_rule(const Sluice__V1__TrainSpec *train)
{
    return (struct nonfinite){.skip = spec_skips_nonfinite(train),
                              .most = train->max_nonfinite};
}

// Says why a step that is not finite ends a job with train.nonfinite: fail.
static enum sl_err nonfinite_refuse(const struct nonfinite_step *s,
                                    struct sl_error *err)
{
    if (s->strange[0] != '\0')
        return sl_fail(err, SL_ENUMERIC,
                       "the data is not finite: %s; mend it, or set "
                       "train.nonfinite: skip",
                       s->strange);
    return sl_fail(err, SL_ENUMERIC,
                   "the loss or gradient is not finite in %sstep %" PRIu32
                   " of closure %" PRIu64 "; lower the learning rate, or set "
                   "train.nonfinite: skip",
                   s->round ? "the round of " : "", s->step, s->closure);
}

// Says why one more step in a row is too many. The job skips already: no advice
// to do so.
static enum sl_err nonfinite_refuse_row(const struct nonfinite *n,
                                        const struct nonfinite_step *s,
                                        struct sl_error *err)
{
    return sl_fail(
        err, SL_ENUMERIC,
        "%" PRIu32 " %s in a row had a loss or gradient that is not finite, "
        "and train.max_nonfinite is %" PRIu32 "; %s%s",
        n->row, s->round ? "rounds" : "steps", n->most,
        s->strange[0] != '\0' ? "mend the data: " : "lower the learning rate",
        s->strange);
}

enum sl_err nonfinite_judge(struct nonfinite *n, const struct nonfinite_step *s,
                            struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    n->row++;
    if (!n->skip)
        rc = nonfinite_refuse(s, err);
    else if (n->most > 0 && n->row > n->most)
        rc = nonfinite_refuse_row(n, s, err);
    figures_nonfinite(rc == SL_OK ? FIGURES_SKIP : FIGURES_FAIL);
    return rc;
}

void nonfinite_scaled(void)
{
    figures_nonfinite(FIGURES_SCALE);
}
