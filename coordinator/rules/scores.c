// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/scores.c -- see scores.h.
#include "coordinator/rules/scores.h"

#include <math.h>

// per range, so that sums do not wrap
#define PREDICTIONS_MAX (UINT64_C(1) << 56)

static uint64_t scores_sum_counts(const uint64_t *counts, size_t n)
{
    uint64_t all = 0;

    for (size_t i = 0; i < n; i++) {
        if (counts[i] > PREDICTIONS_MAX)
            return UINT64_MAX;
        all += counts[i];
    }
    return all;
}

static bool scores_wants_metric(uint32_t metrics, enum spec_metric m)
{
    return (metrics >> m & 1) != 0;
}

// Says whether the buckets hold the same number of outputs for each sample.
static bool buckets_fit(const Sluice__V1__ScoreSums *m, uint64_t samples)
{
    uint64_t positives, negatives;

    if (m->n_positives != WIRE_SCORE_BUCKETS ||
        m->n_negatives != WIRE_SCORE_BUCKETS)
        return false;
    positives = scores_sum_counts(m->positives, m->n_positives);
    negatives = scores_sum_counts(m->negatives, m->n_negatives);
    return positives <= PREDICTIONS_MAX && negatives <= PREDICTIONS_MAX &&
           positives + negatives >= samples &&
           (positives + negatives) % samples == 0;
}

bool scores_fit(const Sluice__V1__ScoreSums *m, uint32_t metrics,
                uint64_t samples)
{
    if (metrics == 0)
        return true;
    if (m == NULL || samples == 0 || m->top > samples ||
        m->true_positives > PREDICTIONS_MAX ||
        m->false_positives > PREDICTIONS_MAX ||
        m->false_negatives > PREDICTIONS_MAX || m->absolute < 0 ||
        m->squared < 0)
        return false;
    return !scores_wants_metric(metrics, SPEC_METRIC_AUC) ||
           buckets_fit(m, samples);
}

void scores_add(struct scores *s, const Sluice__V1__ScoreSums *m)
{
    s->top += m->top;
    s->true_positives += m->true_positives;
    s->false_positives += m->false_positives;
    s->false_negatives += m->false_negatives;
    for (size_t i = 0; i < m->n_positives && i < WIRE_SCORE_BUCKETS; i++)
        s->positives[i] += m->positives[i];
    for (size_t i = 0; i < m->n_negatives && i < WIRE_SCORE_BUCKETS; i++)
        s->negatives[i] += m->negatives[i];
}

static double scores_ratio(uint64_t of, uint64_t all)
{
    return all == 0 ? 0 : (double)of / (double)all;
}

// Returns the area under the curve of recall over the rate of false positives,
// in trapezoids between thresholds, from the highest: an output is told
// positive at a threshold if it lies in that bucket or a later one.
static double auc(const struct scores *s)
{
    uint64_t positives = scores_sum_counts(s->positives, WIRE_SCORE_BUCKETS);
    uint64_t negatives = scores_sum_counts(s->negatives, WIRE_SCORE_BUCKETS);
    uint64_t right = 0, wrong = 0;
    double x = 0, y = 0, area = 0;

    for (size_t i = WIRE_SCORE_BUCKETS; i-- > 0;) {
        double to_x, to_y;

        right += s->positives[i];
        wrong += s->negatives[i];
        to_x = scores_ratio(wrong, negatives);
        to_y = scores_ratio(right, positives);
        area += (to_x - x) * (to_y + y) / 2;
        x = to_x;
        y = to_y;
    }
    return area;
}

double scores_value(const struct scores *s, enum spec_metric metric,
                    const struct scores_distances *sums, uint64_t samples)
{
    switch (metric) {
    case SPEC_METRIC_TOP_K:
        return scores_ratio(s->top, samples);
    case SPEC_METRIC_PRECISION:
        return scores_ratio(s->true_positives,
                            s->true_positives + s->false_positives);
    case SPEC_METRIC_RECALL:
        return scores_ratio(s->true_positives,
                            s->true_positives + s->false_negatives);
    case SPEC_METRIC_AUC:
        return auc(s);
    case SPEC_METRIC_MEAN_ABSOLUTE_ERROR:
        return sums->absolute / (double)samples;
    case SPEC_METRIC_MEAN_SQUARED_ERROR:
        return sums->squared / (double)samples;
    case SPEC_METRIC_ROOT_MEAN_SQUARED_ERROR:
        return sqrt(sums->squared / (double)samples);
    default:
        return NAN;
    }
}
