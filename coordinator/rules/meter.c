// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/meter.c -- a rate over a sliding window, and losses per
// epoch.
#include "coordinator/rules/meter.h"

#include <math.h>
#include <string.h>

#include "common/base/num.h"

void meter_init(struct meter *m)
{
    memset(m, 0, sizeof(*m));
    for (uint32_t i = 0; i < METER_EPOCHS; i++)
        m->epoch[i].epoch = UINT32_MAX;
}

static const struct meter_point *meter_newest_point(const struct meter *m)
{
    return &m->point[(m->points - 1) % METER_POINTS];
}

static const struct meter_point *meter_oldest_point(const struct meter *m)
{
    uint32_t first = m->points > METER_POINTS ? m->points - METER_POINTS : 0;

    return &m->point[first % METER_POINTS];
}

void meter_rate_add(struct meter *m, uint64_t now_ms, uint64_t samples)
{
    if (m->points > 0 && samples < meter_newest_point(m)->samples)
        m->points = 0;
    if (m->points > 0 && now_ms - meter_newest_point(m)->at_ms < METER_EVERY_MS)
        return;
    m->point[m->points % METER_POINTS] = (struct meter_point){now_ms, samples};
    m->points++;
}

double meter_rate(const struct meter *m, uint64_t now_ms, uint64_t samples)
{
    const struct meter_point *from;

    if (m->points == 0)
        return 0;
    from = meter_oldest_point(m);
    if (now_ms <= from->at_ms || samples < from->samples)
        return 0;
    return (double)(samples - from->samples) * 1000.0 /
           (double)(now_ms - from->at_ms);
}

struct meter_sums meter_delta(struct meter_sums *seen,
                              const struct meter_sums *now)
{
    struct meter_sums more = {0};

    if (now->steps < seen->steps || now->samples < seen->samples ||
        now->correct < seen->correct || now->skipped < seen->skipped ||
        now->refused < seen->refused)
        return more;
    more.steps = now->steps - seen->steps;
    more.samples = now->samples - seen->samples;
    more.correct = now->correct - seen->correct;
    more.skipped = now->skipped - seen->skipped;
    more.refused = now->refused - seen->refused;
    more.loss_sum = now->loss_sum - seen->loss_sum;
    *seen = *now;
    return more;
}

void meter_loss_add(struct meter *m, uint32_t epoch,
                    const struct meter_sums *sums)
{
    uint32_t at = epoch % METER_EPOCHS;
    struct meter_sums *to = &m->epoch[at].sums;

    if (m->epoch[at].epoch != epoch) {
        m->epoch[at].epoch = epoch;
        memset(to, 0, sizeof(*to));
    }
    to->steps += sums->steps;
    to->samples += sums->samples;
    to->correct += sums->correct;
    to->skipped += sums->skipped;
    to->refused += sums->refused;
    to->loss_sum += sums->loss_sum;
}

struct meter_sums meter_loss(const struct meter *m, uint32_t epoch)
{
    for (uint32_t back = 0; back < 2 && back <= epoch; back++) {
        uint32_t e = epoch - back, at = e % METER_EPOCHS;

        if (m->epoch[at].epoch == e && m->epoch[at].sums.steps > 0)
            return m->epoch[at].sums;
    }
    return (struct meter_sums){0};
}

static double mean(double sum, uint64_t samples)
{
    return samples == 0 ? (double)NAN : sum / (double)samples;
}

double meter_mean_loss(const struct meter_sums *sums)
{
    return mean(sums->loss_sum, sums->samples);
}

double meter_mean_accuracy(const struct meter_sums *sums)
{
    return mean((double)sums->correct, sums->samples);
}

void meter_of_applied(struct meter_sums *sums, uint64_t step_samples)
{
    uint64_t applied =
        sums->steps > sums->skipped ? sums->steps - sums->skipped : 0;

    sums->samples = sl_min(sums->samples, applied * step_samples);
    sums->correct = sl_min(sums->correct, sums->samples);
}
