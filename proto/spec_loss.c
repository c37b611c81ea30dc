// SPDX-License-Identifier: Apache-2.0
// proto/spec_loss.c -- the check of the loss, and of the model's output that
// must fit it.
#include "proto/spec_check.h"

#include <stdio.h>
#include <string.h>

static const char *const loss_names[] = {
#define LOSS_NAME(code, name) name,
    SPEC_LOSS_MAP(LOSS_NAME)
#undef LOSS_NAME
};

static enum spec_loss loss_named(const char *name)
{
    for (unsigned i = 0; name != NULL && i < SL_COUNT(loss_names); i++)
        if (strcmp(name, loss_names[i]) == 0)
            return (enum spec_loss)(i + 1);
    return SPEC_LOSS_NONE;
}

enum spec_loss spec_loss(const Sluice__V1__JobSpec *spec)
{
    return spec->n_losses > 0 ? SPEC_LOSS_SEVERAL : loss_named(spec->loss);
}

size_t spec_heads(struct spec_head heads[MODEL_OUTPUTS_MAX],
                  const Sluice__V1__JobSpec *spec)
{
    size_t n =
        spec->n_losses < MODEL_OUTPUTS_MAX ? spec->n_losses : MODEL_OUTPUTS_MAX;

    for (size_t i = 0; i < n; i++) {
        const Sluice__V1__LossSpec *l = spec->losses[i];

        heads[i] = (struct spec_head){.loss = loss_named(l->loss),
                                      .from_logits = l->from_logits,
                                      .smoothing = l->label_smoothing,
                                      .weight = l->has_weight ? l->weight : 1};
    }
    return n;
}

uint64_t spec_label_numbers(enum spec_loss loss, const struct model_shape *out)
{
    uint64_t all = model_shape_elements(out);

    return loss != SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY || out->rank == 0
               ? all
               : all / out->dim[out->rank - 1];
}

const char *spec_loss_name(enum spec_loss loss)
{
    return loss == SPEC_LOSS_NONE      ? "none"
           : loss == SPEC_LOSS_SEVERAL ? "several outputs"
                                       : loss_names[loss - 1];
}

bool spec_loss_counts(enum spec_loss loss)
{
    return loss != SPEC_LOSS_MEAN_SQUARED_ERROR &&
           loss != SPEC_LOSS_MEAN_ABSOLUTE_ERROR && loss != SPEC_LOSS_SEVERAL;
}

bool spec_loss_has_classes(enum spec_loss loss)
{
    return loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ||
           loss == SPEC_LOSS_CATEGORICAL_CROSSENTROPY;
}

// Checks options that only some losses have, and requires workers that know
// them. `path`, here and below, is what stands before the names of fields.
static enum sl_err check_extras(Sluice__V1__JobSpec *spec,
                                const Sluice__V1__LossSpec *l, const char *path,
                                enum spec_loss loss, struct sl_error *err)
{
    if (l->has_label_smoothing && !spec_loss_counts(loss))
        return sl_fail(err, SL_EINVAL,
                       "%slabel_smoothing says nothing about %s; leave it out",
                       path, spec_loss_name(loss));
    if (l->has_label_smoothing &&
        !(l->label_smoothing >= 0 && l->label_smoothing < 1))
        return sl_fail(err, SL_EINVAL,
                       "%slabel_smoothing: wants a number in [0, 1), got %g",
                       path, l->label_smoothing);
    if (l->label_smoothing > 0 || loss == SPEC_LOSS_MEAN_ABSOLUTE_ERROR)
        spec_needs(spec, MODEL_EDITION);
    return SL_OK;
}

static enum sl_err check_top(Sluice__V1__JobSpec *spec, enum spec_loss loss,
                             struct sl_error *err)
{
    if (!spec->has_top_k)
        return SL_OK;
    if (!spec_loss_has_classes(loss))
        return sl_fail(err, SL_EINVAL,
                       "top_k says nothing about %s; leave it out",
                       spec_loss_name(loss));
    if (spec->top_k > 1)
        spec_needs(spec, MODEL_EDITION);
    return spec_range("top_k", spec->top_k, 1, 1000000, err);
}

static enum sl_err check_output(const char *path, enum spec_loss loss,
                                const struct model_node *last,
                                struct sl_error *err)
{
    bool classes = spec_loss_has_classes(loss);
    char shape[MODEL_SHAPE_TEXT];

    if (last->out.rank == 0)
        return sl_fail(err, SL_EINVAL,
                       "%sloss: %s wants outputs, got %s from "
                       "layer '%s'",
                       path, spec_loss_name(loss),
                       model_shape_text(shape, &last->out), last->name);
    if (classes && last->out.dim[last->out.rank - 1] < 2)
        return sl_fail(err, SL_EINVAL,
                       "%sloss: %s wants one output per class, got %s from "
                       "layer '%s'; for two classes and one output use "
                       "binary_crossentropy",
                       path, spec_loss_name(loss),
                       model_shape_text(shape, &last->out), last->name);
    return SL_OK;
}

// Checks from_logits: what turns logits into probabilities for this loss, and
// what does that for another one.
static enum sl_err check_logits(Sluice__V1__LossSpec *l, const char *path,
                                enum spec_loss loss,
                                const struct model_node *last,
                                struct sl_error *err)
{
    bool binary = loss == SPEC_LOSS_BINARY_CROSSENTROPY;
    enum model_act right = binary ? MODEL_ACT_SIGMOID : MODEL_ACT_SOFTMAX;
    enum model_act wrong = binary ? MODEL_ACT_SOFTMAX : MODEL_ACT_SIGMOID;
    bool logits = last->act != right;

    if (last->act == wrong)
        return sl_fail(err, SL_EINVAL,
                       "%sloss: %s wants %s at the end or no activation, but "
                       "layer '%s' ends in %s",
                       path, spec_loss_name(loss), model_act_name(right),
                       last->name, model_act_name(wrong));
    // The loss op reads what its softmax does, and other layers what that
    // gives.
    if (!binary && !logits && last->users > 1)
        return sl_fail(
            err, SL_EINVAL,
            "%sloss: other layers read layer '%s' behind its softmax; "
            "make the layer before it, without an activation, the "
            "output",
            path, last->name);
    SPEC_DEFAULT(l, from_logits, logits);
    if (l->from_logits != logits)
        return sl_fail(err, SL_EINVAL,
                       "%sfrom_logits is %s, but layer '%s' ends in %s%s%s",
                       path, logits ? "false" : "true", last->name,
                       model_act_name(last->act),
                       logits ? "; the model has to end in " : "",
                       logits ? model_act_name(right) : "");
    return SL_OK;
}

// Checks the loss of the output `last`, and sets *loss.
static enum sl_err check_one(Sluice__V1__JobSpec *spec, Sluice__V1__LossSpec *l,
                             const char *path, const struct model_node *last,
                             enum spec_loss *loss, struct sl_error *err)
{
    char at[64];
    unsigned index;
    enum sl_err rc;

    snprintf(at, sizeof(at), "%sloss", path);
    rc = spec_word(at, l->loss, loss_names, SL_COUNT(loss_names), &index, err);
    if (rc != SL_OK)
        return rc;
    *loss = (enum spec_loss)(index + 1);
    rc = check_output(path, *loss, last, err);
    if (rc == SL_OK && last->out.rank > 1)
        spec_needs(spec, MODEL_EDITION_LABELS);
    if (rc == SL_OK)
        rc = check_extras(spec, l, path, *loss, err);
    if (rc != SL_OK)
        return rc;
    if (spec_loss_counts(*loss))
        return check_logits(l, path, *loss, last, err);
    if (l->has_from_logits)
        return sl_fail(err, SL_EINVAL,
                       "%sfrom_logits says nothing about %s; leave it out",
                       path, spec_loss_name(*loss));
    return SL_OK;
}

// Checks the losses of several outputs, whose names model_make has looked up.
static enum sl_err check_several(Sluice__V1__JobSpec *spec,
                                 const struct model *m, struct sl_error *err)
{
    double sum = 0;

    for (size_t i = 0; i < spec->n_losses; i++) {
        Sluice__V1__LossSpec *l = spec->losses[i];
        enum spec_loss loss;
        char path[32], at[64];
        enum sl_err rc;

        snprintf(path, sizeof(path), "losses[%zu].", i);
        snprintf(at, sizeof(at), "%sweight", path);
        rc = check_one(spec, l, path, &m->nodes[m->output[i]], &loss, err);
        SPEC_DEFAULT(l, weight, 1);
        if (rc == SL_OK)
            rc =
                spec_real(at, l->weight, 0, SPEC_WEIGHT_MOST, SPEC_CLOSED, err);
        if (rc != SL_OK)
            return rc;
        sum += l->weight;
    }
    return sum > 0 ? SL_OK
                   : sl_fail(err, SL_EINVAL,
                             "losses: all weights are 0, so nothing would be "
                             "trained");
}

enum sl_err spec_set_outputs(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__ModelSpec *m = spec->model;

    if (spec->n_losses > 0 && (spec->loss != NULL || spec->has_from_logits ||
                               spec->has_label_smoothing || spec->has_top_k))
        return sl_fail(err, SL_EINVAL,
                       "losses: has the loss of each output; leave loss, "
                       "from_logits, label_smoothing and top_k out");
    if (spec->n_losses == 1)
        return sl_fail(err, SL_EINVAL,
                       "losses: has one loss; say it as `loss`, and its output "
                       "as model.output");
    if (spec->n_losses > 0 && m->output != NULL)
        return sl_fail(err, SL_EINVAL,
                       "model.output: losses name the outputs; leave it out");
    for (size_t i = 0; i < spec->n_losses; i++)
        if (spec->losses[i]->output == NULL)
            return sl_fail(err, SL_EINVAL, "losses[%zu].output is missing", i);
    for (size_t i = 0; i < m->n_outputs; i++)
        wire_heap.free(NULL, m->outputs[i]);
    wire_heap.free(NULL, m->outputs);
    m->outputs = NULL;
    m->n_outputs = 0;
    if (spec->n_losses == 0)
        return SL_OK;
    m->outputs = wire_heap.alloc(NULL, spec->n_losses * sizeof(*m->outputs));
    if (m->outputs == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < spec->n_losses; i++) {
        m->outputs[i] = NULL;
        if (spec_string(&m->outputs[i], spec->losses[i]->output) != SL_OK)
            return sl_no_memory(err);
        m->n_outputs++;
    }
    return SL_OK;
}

enum sl_err spec_check_loss(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err)
{
    Sluice__V1__LossSpec l = SLUICE__V1__LOSS_SPEC__INIT;
    enum spec_loss loss;
    enum sl_err rc;

    if (m->external) {
        if (spec->loss != NULL || spec->has_from_logits ||
            spec->has_label_smoothing || spec->has_top_k)
            return sl_fail(err, SL_EINVAL,
                           "loss: the program of an external model computes "
                           "its own; leave loss, from_logits, label_smoothing "
                           "and top_k out");
        return SL_OK;
    }
    if (spec->n_losses > 0)
        return check_several(spec, m, err);
    l.loss = spec->loss;
    l.has_from_logits = spec->has_from_logits;
    l.from_logits = spec->from_logits;
    l.has_label_smoothing = spec->has_label_smoothing;
    l.label_smoothing = spec->label_smoothing;
    rc = check_one(spec, &l, "", &m->nodes[m->output[0]], &loss, err);
    spec->has_from_logits = l.has_from_logits;
    spec->from_logits = l.from_logits;
    return rc == SL_OK ? check_top(spec, loss, err) : rc;
}

// Returns how many numbers a sample's label has.
static uint64_t label_numbers(const Sluice__V1__JobSpec *spec,
                              const struct model *m)
{
    struct spec_head heads[MODEL_OUTPUTS_MAX];
    size_t n = spec_heads(heads, spec);
    uint64_t all = 0;

    if (n == 0)
        return spec_label_numbers(spec_loss(spec), &m->nodes[m->output[0]].out);
    for (size_t i = 0; i < n; i++)
        all += spec_label_numbers(heads[i].loss, &m->nodes[m->output[i]].out);
    return all;
}

// Checks that a label of several outputs is in a file that has such labels.
static enum sl_err check_joined_labels(const char *path,
                                       const Sluice__V1__SourceSpec *s,
                                       uint64_t numbers, struct sl_error *err)
{
    static const char *const files[] = {"npy", "npz", "idx", "csv", "tfrecord"};

    for (size_t i = 0; i < SL_COUNT(files); i++)
        if (numbers == 1 || strcmp(s->format, files[i]) == 0)
            return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "%s.format: %s has one label for a sample, and the losses "
                   "of the outputs read %llu numbers; keep them in an npy or "
                   "npz, or in label_columns of a csv",
                   path, s->format, (unsigned long long)numbers);
}

// Checks label_columns against what the losses read.
static enum sl_err check_label_columns(const char *path,
                                       const Sluice__V1__SourceSpec *s,
                                       enum spec_loss loss, uint64_t numbers,
                                       struct sl_error *err)
{
    size_t have = s->n_label_columns > 0 ? s->n_label_columns : 1;

    // A worker compares a single column with the model itself.
    if (strcmp(s->format, "csv") != 0 ||
        (s->n_label_columns == 0 && loss != SPEC_LOSS_SEVERAL))
        return SL_OK;
    if (s->n_label_columns > 0 && spec_loss_has_classes(loss))
        return sl_fail(err, SL_EINVAL,
                       "%s.label_columns: %s reads one number, the class; say "
                       "its column as label_column",
                       path, spec_loss_name(loss));
    if (spec_loss_has_classes(loss) || have == numbers)
        return SL_OK;
    return sl_fail(
        err, SL_EINVAL, "%s.%s: a label is %zu numbers, and %s %llu", path,
        s->n_label_columns > 0 ? "label_columns" : "label_column", have,
        loss == SPEC_LOSS_SEVERAL ? "the losses of the outputs read"
                                  : "the model has outputs for",
        (unsigned long long)numbers);
}

// Labels that a generator makes must be classes that the model has; one for
// each of several rows of outputs is in arrays alone.
enum sl_err spec_check_labels(const char *path, const Sluice__V1__SourceSpec *s,
                              const Sluice__V1__JobSpec *spec,
                              const struct model *m, struct sl_error *err)
{
    enum spec_loss loss = spec_loss(spec);
    const struct model_node *last;
    uint64_t outputs, numbers;
    enum sl_err rc;

    if (m->external || s == NULL)
        return SL_OK;
    numbers = label_numbers(spec, m);
    rc = check_label_columns(path, s, loss, numbers, err);
    if (rc != SL_OK)
        return rc;
    if (loss == SPEC_LOSS_SEVERAL && m->outputs > 1)
        return check_joined_labels(path, s, numbers, err);
    last = &m->nodes[m->output[0]];
    if (last->out.rank > 1 && strcmp(s->format, "npy") != 0 &&
        strcmp(s->format, "npz") != 0 && strcmp(s->format, "idx") != 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.format: %s has one label for a sample, and the "
                       "outputs of layer '%s' want one for each; keep them in "
                       "an npy or npz",
                       path, s->format, last->name);
    if (!s->has_classes)
        return SL_OK;
    outputs = last->out.dim[0];
    if (loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY &&
        s->classes > outputs)
        return sl_fail(err, SL_EINVAL,
                       "%s.classes: %u, but layer '%s' has %llu outputs", path,
                       s->classes, last->name, (unsigned long long)outputs);
    if (loss == SPEC_LOSS_BINARY_CROSSENTROPY && s->classes > 2)
        return sl_fail(err, SL_EINVAL,
                       "%s.classes: %u, but binary_crossentropy knows 2", path,
                       s->classes);
    return SL_OK;
}
