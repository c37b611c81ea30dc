// SPDX-License-Identifier: Apache-2.0
// trainer/lease/score.c -- counts of outputs, as Keras' metrics have them; see
// score.h.
#include "trainer/lease/score.h"

#include <math.h>

#include "common/base/mem.h"

static bool score_wants_metric(const struct score_rule *r, enum spec_metric m)
{
    return (r->metrics >> m & 1) != 0;
}

static bool score_has_classes(const struct score_rule *r)
{
    return r->loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ||
           r->loss == SPEC_LOSS_CATEGORICAL_CROSSENTROPY;
}

// ---- one prediction: its outputs as the metrics see them, its labels

static void score_softmax(float *p, const float *z, uint32_t n)
{
    double most = (double)z[0], sum = 0;

    for (uint32_t i = 1; i < n; i++)
        most = fmax(most, (double)z[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)z[i] - most);
    for (uint32_t i = 0; i < n; i++)
        p[i] = (float)(exp((double)z[i] - most) / sum);
}

static const float *predicted(const struct score_rule *r, const float *z,
                              float *space)
{
    if (!r->logits || !spec_loss_counts(r->loss))
        return z;
    if (score_has_classes(r)) {
        score_softmax(space, z, r->outputs);
        return space;
    }
    for (uint32_t i = 0; i < r->outputs; i++)
        space[i] = (float)(1 / (1 + exp(-(double)z[i])));
    return space;
}

static const float *labelled(const struct score_rule *r, const void *labels,
                             uint64_t row, float *space)
{
    uint64_t beside = r->weighted ? 1 : 0;
    int32_t class;

    if (r->loss != SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
        return (const float *)labels + row * (r->outputs + beside);
    class = ((const int32_t *)labels)[row * (1 + beside)];
    for (uint32_t i = 0; i < r->outputs; i++)
        space[i] = class >= 0 && (uint32_t) class == i ? 1 : 0;
    return space;
}

// ---- the counts of one prediction

// Returns true if the prediction's class is among the `k` largest outputs; of
// equal outputs the first comes first.
static bool among(const float *p, const float *y, uint32_t n, uint32_t k)
{
    uint32_t class = 0, before = 0;

    for (uint32_t i = 1; i < n; i++)
        class = y[i] > y[class] ? i : class;
    if (isnan(p[class]))
        return false;
    for (uint32_t i = 0; i < n; i++)
        before += p[i] > p[class] || (p[i] == p[class] && i < class) ? 1 : 0;
    return before < k;
}

static void confusion(struct score *s, const float *p, const float *y,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool told = p[i] > 0.5f, is = y[i] != 0;

        s->true_positives += told && is;
        s->false_positives += told && !is;
        s->false_negatives += !told && is;
    }
}

// Returns how many of the thresholds 0, 1/199, ... 1 are below `p`, less one;
// in floats, as Keras computes it.
static unsigned bucket(float p)
{
    const float steps = WIRE_SCORE_BUCKETS - 1;
    float at = p >= 1 ? steps : ceilf(p * steps);

    return at > 1 ? (unsigned)at - 1 : 0;
}

static void thresholds(struct score *s, const float *p, const float *y,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        (y[i] != 0 ? s->positives : s->negatives)[bucket(p[i])]++;
}

static void distances(struct score *s, const struct score_rule *r,
                      const float *p, const float *y)
{
    double n = (double)r->outputs * r->rows;
    double absolute = 0, squared = 0;

    for (uint32_t i = 0; i < r->outputs; i++) {
        double d = (double)p[i] - (double)y[i];

        absolute += fabs(d);
        squared += d * d;
    }
    s->absolute += absolute / n;
    s->squared += squared / n;
}

// Adds one prediction. Top-k compares the outputs `z` themselves: of
// probabilities more are equal.
static void score_add_sample(struct score *s, const struct score_rule *r,
                             const float *z, const float *p, const float *y)
{
    if (score_wants_metric(r, SPEC_METRIC_TOP_K) &&
        among(z, y, r->outputs, r->top_k))
        s->top++;
    if (score_wants_metric(r, SPEC_METRIC_PRECISION) ||
        score_wants_metric(r, SPEC_METRIC_RECALL))
        confusion(s, p, y, r->outputs);
    if (score_wants_metric(r, SPEC_METRIC_AUC))
        thresholds(s, p, y, r->outputs);
    if (score_wants_metric(r, SPEC_METRIC_MEAN_ABSOLUTE_ERROR) ||
        score_wants_metric(r, SPEC_METRIC_MEAN_SQUARED_ERROR) ||
        score_wants_metric(r, SPEC_METRIC_ROOT_MEAN_SQUARED_ERROR))
        distances(s, r, p, y);
}

enum sl_err score_add(struct score *s, const struct score_rule *rule,
                      const float *outputs, const void *labels,
                      uint64_t samples)
{
    float *space = sl_malloc_array(2 * (size_t)rule->outputs, sizeof(*space));

    if (space == NULL)
        return SL_ENOMEM;
    for (uint64_t i = 0; i < samples * rule->rows; i++) {
        const float *z = outputs + i * rule->outputs;

        score_add_sample(s, rule, z, predicted(rule, z, space),
                         labelled(rule, labels, i, space + rule->outputs));
    }
    sl_free(space);
    return SL_OK;
}
