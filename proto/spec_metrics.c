// SPDX-License-Identifier: Apache-2.0
// proto/spec_metrics.c -- the check of evaluate.metrics: which of them the loss
// has.
#include "proto/spec_check.h"

#include <string.h>

#include "common/base/buf.h"

#define BIT(code) (UINT32_C(1) << SPEC_METRIC_##code)
#define DISTANCES                                                              \
    (BIT(MEAN_ABSOLUTE_ERROR) | BIT(MEAN_SQUARED_ERROR) |                      \
     BIT(ROOT_MEAN_SQUARED_ERROR))

static const char *const metric_names[] = {
#define METRIC_NAME(code, name) name,
    SPEC_METRIC_MAP(METRIC_NAME)
#undef METRIC_NAME
};

const char *spec_metric_name(enum spec_metric metric)
{
    return metric_names[metric];
}

enum spec_metric spec_metric_named(const char *name)
{
    unsigned i = 0;

    while (i < SPEC_METRIC_COUNT && strcmp(metric_names[i], name) != 0)
        i++;
    return (enum spec_metric)i;
}

uint32_t spec_metrics(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__EvaluateSpec *e = spec->evaluate;
    uint32_t bits = 0;

    for (size_t i = 0; e != NULL && i < e->n_metrics; i++)
        bits |= UINT32_C(1) << spec_metric_named(e->metrics[i]);
    return bits & ((UINT32_C(1) << SPEC_METRIC_COUNT) - 1);
}

uint32_t spec_metrics_scored(const Sluice__V1__JobSpec *spec)
{
    return spec_metrics(spec) & ~BIT(ACCURACY);
}

uint32_t spec_metrics_offered(enum spec_loss loss)
{
    switch (loss) {
    case SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY:
    case SPEC_LOSS_CATEGORICAL_CROSSENTROPY:
        return BIT(ACCURACY) | BIT(TOP_K) | BIT(PRECISION) | BIT(RECALL) |
               DISTANCES;
    case SPEC_LOSS_BINARY_CROSSENTROPY:
        return BIT(ACCURACY) | BIT(PRECISION) | BIT(RECALL) | BIT(AUC) |
               DISTANCES;
    case SPEC_LOSS_MEAN_SQUARED_ERROR:
    case SPEC_LOSS_MEAN_ABSOLUTE_ERROR:
        return DISTANCES;
    default:
        return 0;
    }
}

static enum sl_err not_offered(unsigned metric, enum spec_loss loss,
                               struct sl_error *err)
{
    struct buf list = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < SPEC_METRIC_COUNT; i++)
        if ((spec_metrics_offered(loss) >> i & 1) != 0)
            rc = buf_appendf(&list, "%s%s", list.len > 0 ? ", " : "",
                             metric_names[i]);
    rc = sl_fail(err, SL_EINVAL,
                 "evaluate.metrics: %s says nothing about %s; that has %s",
                 metric_names[metric], spec_loss_name(loss), buf_text(&list));
    buf_release(&list);
    return rc;
}

static enum sl_err check_each(const Sluice__V1__EvaluateSpec *e,
                              enum spec_loss loss, struct sl_error *err)
{
    uint32_t seen = 0;

    for (size_t i = 0; i < e->n_metrics; i++) {
        unsigned at;
        enum sl_err rc =
            spec_word("evaluate.metrics", e->metrics[i], metric_names,
                      SL_COUNT(metric_names), &at, err);

        if (rc != SL_OK)
            return rc;
        if ((seen >> at & 1) != 0)
            return sl_fail(err, SL_EINVAL, "evaluate.metrics: %s appears twice",
                           metric_names[at]);
        if ((spec_metrics_offered(loss) >> at & 1) == 0)
            return not_offered(at, loss, err);
        seen |= UINT32_C(1) << at;
    }
    return SL_OK;
}

static enum sl_err check_top_k(Sluice__V1__EvaluateSpec *e, bool wanted,
                               struct sl_error *err)
{
    if (!wanted)
        return e->has_top_k
                   ? sl_fail(err, SL_EINVAL,
                             "evaluate.top_k: says nothing without top_k in "
                             "evaluate.metrics")
                   : SL_OK;
    SPEC_DEFAULT(e, top_k, SPEC_TOP_K);
    return spec_range("evaluate.top_k", e->top_k, 1, 1000000, err);
}

// Checks evaluate.metrics and top_k, and requires workers that report them: an
// older worker would report none.
enum sl_err spec_check_metrics(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    Sluice__V1__EvaluateSpec *e = spec->evaluate;
    enum sl_err rc;
    bool top_k;

    if (e->n_metrics > 0 && (spec->data->test == NULL ||
                             (e->every_epochs == 0 && e->every_steps == 0)))
        return sl_fail(
            err, SL_EINVAL, "evaluate.metrics: nothing is evaluated; %s",
            spec_external(spec) ? "the program of an external model "
                                  "computes its own"
            : spec->data->test == NULL
                ? "give data.test"
                : "leave it out, or say evaluate.every_epochs or every_steps");
    if (e->n_metrics > 0 && spec_loss(spec) == SPEC_LOSS_SEVERAL)
        return sl_fail(
            err, SL_EINVAL,
            "evaluate.metrics: are those of one output; with losses, "
            "the loss alone is told");
    rc = check_each(e, spec_loss(spec), err);
    top_k = (spec_metrics(spec) & BIT(TOP_K)) != 0;
    if (rc == SL_OK && top_k && m->nodes[m->output[0]].out.rank > 1)
        rc = sl_fail(err, SL_EINVAL,
                     "evaluate.metrics: top_k counts samples, and this model "
                     "has several predictions for one; say top_k beside the "
                     "loss, and accuracy counts it");
    if (rc == SL_OK)
        rc = check_top_k(e, top_k, err);
    if (rc == SL_OK && spec_metrics_scored(spec) != 0)
        spec_needs(spec, MODEL_EDITION_METRICS);
    return rc;
}
