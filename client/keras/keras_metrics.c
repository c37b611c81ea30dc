// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_metrics.c -- what metrics that a model was compiled with,
// as a job has them: evaluate.metrics, of those that its loss has, if their
// arguments are Keras' defaults; its accuracy, which every evaluation has;
// top_k.
#include <string.h>

#include "client/keras/keras_inner.h"
#include "proto/spec.h"

struct metrics {
    struct buf *notes;
    enum spec_loss loss;
    bool logits;         // the loss reads those, and so do metrics in Keras
    bool no_test;        // data without data.test, or that is not used
    bool accuracy;       // the class with the largest output is right
    const json_t *top_k; // or one of several
    json_t *names;       // of evaluate.metrics; owned
};

// ---- one metric

// An argument of a metric with its permitted values: its defaults, or absent.
struct fixed {
    const char *key;
    const char *values[3]; // as JSON
};

static const struct fixed of_confusion[] = {
    {"thresholds", {"0.5", "[0.5]"}},
    {"top_k", {"null"}},
    {"class_id", {"null"}},
    {NULL, {NULL}},
};
static const struct fixed of_auc[] = {
    {"num_thresholds", {"200"}},
    {"curve", {"\"ROC\""}},
    {"summation_method", {"\"interpolation\""}},
    {"thresholds", {"null"}},
    {"multi_label", {"false"}},
    {"label_weights", {"null"}},
    {NULL, {NULL}},
};
static const struct fixed of_distance[] = {{NULL, {NULL}}};

static const struct keras_known_metric {
    const char *word;
    enum spec_metric metric;
    const struct fixed *fixed;
} known[] = {
    {"Precision", SPEC_METRIC_PRECISION, of_confusion},
    {"Recall", SPEC_METRIC_RECALL, of_confusion},
    {"AUC", SPEC_METRIC_AUC, of_auc},
    {"MeanAbsoluteError", SPEC_METRIC_MEAN_ABSOLUTE_ERROR, of_distance},
    {"MAE", SPEC_METRIC_MEAN_ABSOLUTE_ERROR, of_distance},
    {"MeanSquaredError", SPEC_METRIC_MEAN_SQUARED_ERROR, of_distance},
    {"MSE", SPEC_METRIC_MEAN_SQUARED_ERROR, of_distance},
    {"RootMeanSquaredError", SPEC_METRIC_ROOT_MEAN_SQUARED_ERROR, of_distance},
};

static bool is_default(const struct fixed *f, const json_t *value)
{
    bool same = value == NULL || json_is_null(value);

    for (size_t i = 0; i < SL_COUNT(f->values) && f->values[i] != NULL; i++)
        same = same || keras_is(value, f->values[i]);
    return same;
}

static const char *other_argument(const struct fixed *f, const json_t *config)
{
    for (; f->key != NULL; f++)
        if (!is_default(f, json_object_get(config, f->key)))
            return f->key;
    return NULL;
}

static bool keras_metrics_has_name(const json_t *names, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(names, i, one)
    {
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

static enum sl_err left_out(const struct metrics *m, const char *word,
                            const char *why, const char *more)
{
    return buf_appendf(m->notes, "metric %.60s is left out: %s%s\n", word, why,
                       more);
}

static enum sl_err want(struct metrics *m, enum spec_metric metric,
                        const char *word)
{
    const char *name = spec_metric_name(metric);

    if ((spec_metrics_offered(m->loss) >> metric & 1) == 0)
        return left_out(m, word, "an evaluation does not compute it for ",
                        spec_loss_name(m->loss));
    if (m->no_test)
        return left_out(m, word, "there is no data.test to evaluate on", "");
    if (keras_metrics_has_name(m->names, name))
        return SL_OK;
    if (m->logits && metric != SPEC_METRIC_TOP_K &&
        buf_appendf(m->notes,
                    "metric %.60s reads probabilities in a job; Keras reads "
                    "what the model gives, which are logits\n",
                    word) != SL_OK)
        return SL_ENOMEM;
    return json_array_append_new(m->names, json_string(name)) == 0 ? SL_OK
                                                                   : SL_ENOMEM;
}

static enum sl_err take_known(struct metrics *m,
                              const struct keras_known_metric *k,
                              const json_t *metric)
{
    const char *other = other_argument(k->fixed, keras_config(metric));

    if (other != NULL)
        return left_out(m, k->word, "a job has it with Keras' default of ",
                        other);
    // The loss is told anyhow.
    if (strcmp(spec_metric_name(k->metric), spec_loss_name(m->loss)) == 0)
        return SL_OK;
    return want(m, k->metric, k->word);
}

static bool keras_word_is_one_of(const char *word, const char *const *words,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keras_alike(word, words[i]))
            return true;
    return false;
}

static enum sl_err take_metric(struct metrics *m, const json_t *metric)
{
    static const char *const right[] = {"accuracy", "acc", "BinaryAccuracy",
                                        "CategoricalAccuracy",
                                        "SparseCategoricalAccuracy"};
    static const char *const top[] = {"TopKCategoricalAccuracy",
                                      "SparseTopKCategoricalAccuracy"};
    const char *word = keras_word(metric);

    if (m->loss == SPEC_LOSS_SEVERAL)
        return left_out(m, word, "an evaluation tells the loss alone of ",
                        spec_loss_name(m->loss));
    for (size_t i = 0; i < SL_COUNT(known); i++)
        if (keras_own(metric) && keras_alike(word, known[i].word))
            return take_known(m, &known[i], metric);
    if (keras_word_is_one_of(word, right, SL_COUNT(right)))
        m->accuracy = true;
    else if (keras_word_is_one_of(word, top, SL_COUNT(top)))
        m->top_k = metric;
    else if (keras_loss_name(metric) == NULL)
        return left_out(m, word, "an evaluation does not compute it", "");
    return SL_OK;
}

// A metric, or lists and objects of them; `depth` more of those.
static enum sl_err keras_take_metrics(struct metrics *m, const json_t *value,
                                      unsigned depth)
{
    enum sl_err rc = SL_OK;
    const char *key;
    json_t *one;
    size_t i;

    if (keras_word(value) != NULL)
        return take_metric(m, value);
    if (depth == 0)
        return SL_OK;
    json_array_foreach(value, i, one)
    {
        if (rc == SL_OK)
            rc = keras_take_metrics(m, one, depth - 1);
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, one)
    {
        if (rc == SL_OK)
            rc = keras_take_metrics(m, one, depth - 1);
    }
    return rc;
}

// ---- into the spec

// evaluate of the spec, made if it has none.
static json_t *evaluate_of(json_t *spec)
{
    json_t *e = json_object_get(spec, "evaluate");

    if (e == NULL && json_object_set_new(spec, "evaluate", json_object()) == 0)
        e = json_object_get(spec, "evaluate");
    return e;
}

// Alone it is what an evaluation's accuracy is; else it is told beside that.
static enum sl_err take_top_k(struct metrics *m, json_t *spec,
                              const json_t *said)
{
    const json_t *k = json_object_get(keras_config(m->top_k), "k");
    const json_t *own = said;
    json_t *to = spec;
    enum sl_err rc;

    if (m->accuracy) {
        rc = want(m, SPEC_METRIC_TOP_K, "TopKCategoricalAccuracy");
        if (rc != SL_OK || !keras_metrics_has_name(m->names, "top_k"))
            return rc;
        to = evaluate_of(spec);
        own = json_object_get(said, "evaluate");
    }
    if (json_object_get(own, "top_k") != NULL)
        return SL_OK;
    return json_object_set_new(to, "top_k",
                               json_is_integer(k)
                                   ? json_deep_copy(k)
                                   : json_integer(SPEC_TOP_K)) == 0
               ? SL_OK
               : SL_ENOMEM;
}

static enum spec_loss keras_job_loss(const json_t *spec, const json_t *said)
{
    const char *name = keras_str(said, "loss");
    unsigned i = 1;

    if (json_object_get(said, "losses") != NULL ||
        json_object_get(spec, "losses") != NULL)
        return SPEC_LOSS_SEVERAL;
    if (name == NULL)
        name = keras_str(spec, "loss");
    while (name != NULL && i < SPEC_LOSS_COUNT &&
           strcmp(spec_loss_name((enum spec_loss)i), name) != 0)
        i++;
    return name == NULL || i == SPEC_LOSS_COUNT ? SPEC_LOSS_NONE
                                                : (enum spec_loss)i;
}

static enum sl_err keras_metrics_fill_spec(struct metrics *m, json_t *spec,
                                           const json_t *said,
                                           const json_t *compiled)
{
    const json_t *own =
        json_object_get(json_object_get(said, "evaluate"), "metrics");
    enum sl_err rc =
        keras_take_metrics(m, json_object_get(compiled, "metrics"), 2);

    if (rc == SL_OK)
        rc = keras_take_metrics(
            m, json_object_get(compiled, "weighted_metrics"), 2);
    if (rc == SL_OK && m->top_k != NULL && (own == NULL || !m->accuracy))
        rc = take_top_k(m, spec, said);
    if (rc != SL_OK || own != NULL || json_array_size(m->names) == 0)
        return rc;
    return json_object_set(evaluate_of(spec), "metrics", m->names) == 0
               ? SL_OK
               : SL_ENOMEM;
}

enum sl_err keras_fill_metrics(json_t *spec, const json_t *said,
                               const json_t *compiled, struct buf *notes,
                               struct sl_error *err)
{
    const json_t *data = json_object_get(said, "data");
    const json_t *logits = json_object_get(said, "from_logits");
    const json_t *every =
        json_object_get(json_object_get(said, "evaluate"), "every_epochs");
    struct metrics m = {
        .notes = notes,
        .loss = keras_job_loss(spec, said),
        .no_test = (data != NULL && json_object_get(data, "test") == NULL) ||
                   keras_is(every, "0"),
        .names = json_array()};
    enum sl_err rc = SL_ENOMEM;

    if (logits == NULL)
        logits = json_object_get(spec, "from_logits");
    m.logits = json_is_true(logits);
    if (m.names != NULL)
        rc = keras_metrics_fill_spec(&m, spec, said, compiled);
    json_decref(m.names);
    return rc == SL_OK ? rc : sl_no_memory(err);
}
