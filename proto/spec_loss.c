// SPDX-License-Identifier: Apache-2.0
// proto/spec_loss.c -- the check of the loss, and of the model's output that
// must fit it.
#include "proto/spec_check.h"

#include <string.h>

static const char *const loss_names[] = {
#define LOSS_NAME(code, name) name,
    SPEC_LOSS_MAP(LOSS_NAME)
#undef LOSS_NAME
};

enum spec_loss spec_loss(const Sluice__V1__JobSpec *spec)
{
    for (unsigned i = 0; spec->loss != NULL && i < SL_COUNT(loss_names); i++)
        if (strcmp(spec->loss, loss_names[i]) == 0)
            return (enum spec_loss)(i + 1);
    return SPEC_LOSS_NONE;
}

const char *spec_loss_name(enum spec_loss loss)
{
    return loss == SPEC_LOSS_NONE ? "none" : loss_names[loss - 1];
}

bool spec_loss_counts(enum spec_loss loss)
{
    return loss != SPEC_LOSS_MEAN_SQUARED_ERROR &&
           loss != SPEC_LOSS_MEAN_ABSOLUTE_ERROR;
}

bool spec_loss_has_classes(enum spec_loss loss)
{
    return loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ||
           loss == SPEC_LOSS_CATEGORICAL_CROSSENTROPY;
}

// Checks options that only some losses have, and requires workers that know
// them.
static enum sl_err check_extras(Sluice__V1__JobSpec *spec, enum spec_loss loss,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (spec->has_label_smoothing && !spec_loss_counts(loss))
        return sl_fail(err, SL_EINVAL,
                       "label_smoothing says nothing about %s; leave it out",
                       spec_loss_name(loss));
    if (spec->has_top_k && !spec_loss_has_classes(loss))
        return sl_fail(err, SL_EINVAL,
                       "top_k says nothing about %s; leave it out",
                       spec_loss_name(loss));
    if (spec->has_label_smoothing &&
        !(spec->label_smoothing >= 0 && spec->label_smoothing < 1))
        return sl_fail(err, SL_EINVAL,
                       "label_smoothing: wants a number in [0, 1), got %g",
                       spec->label_smoothing);
    if (spec->has_top_k)
        rc = spec_range("top_k", spec->top_k, 1, 1000000, err);
    if (spec->label_smoothing > 0 || spec->top_k > 1 ||
        loss == SPEC_LOSS_MEAN_ABSOLUTE_ERROR)
        spec_needs(spec, MODEL_EDITION);
    return rc;
}

static enum sl_err check_output(enum spec_loss loss, const struct model *m,
                                struct sl_error *err)
{
    const struct model_node *last = &m->nodes[m->output];
    bool classes = spec_loss_has_classes(loss);
    char shape[MODEL_SHAPE_TEXT];

    if (last->out.rank == 0)
        return sl_fail(err, SL_EINVAL,
                       "loss: %s wants outputs, got %s from "
                       "layer '%s'",
                       spec_loss_name(loss),
                       model_shape_text(shape, &last->out), last->name);
    if (classes && last->out.dim[last->out.rank - 1] < 2)
        return sl_fail(err, SL_EINVAL,
                       "loss: %s wants one output per class, got %s from "
                       "layer '%s'; for two classes and one output use "
                       "binary_crossentropy",
                       spec_loss_name(loss),
                       model_shape_text(shape, &last->out), last->name);
    return SL_OK;
}

// What turns logits into probabilities for this loss, and what does that for
// another one.
static enum sl_err check_logits(Sluice__V1__JobSpec *spec, enum spec_loss loss,
                                const struct model_node *last,
                                struct sl_error *err)
{
    bool binary = loss == SPEC_LOSS_BINARY_CROSSENTROPY;
    enum model_act right = binary ? MODEL_ACT_SIGMOID : MODEL_ACT_SOFTMAX;
    enum model_act wrong = binary ? MODEL_ACT_SOFTMAX : MODEL_ACT_SIGMOID;
    bool logits = last->act != right;

    if (last->act == wrong)
        return sl_fail(err, SL_EINVAL,
                       "loss: %s wants %s at the end or no activation, but "
                       "layer '%s' ends in %s",
                       spec_loss_name(loss), model_act_name(right), last->name,
                       model_act_name(wrong));
    SPEC_DEFAULT(spec, from_logits, logits);
    if (spec->from_logits != logits)
        return sl_fail(
            err, SL_EINVAL, "from_logits is %s, but layer '%s' ends in %s%s%s",
            logits ? "false" : "true", last->name, model_act_name(last->act),
            logits ? "; the model has to end in " : "",
            logits ? model_act_name(right) : "");
    return SL_OK;
}

enum sl_err spec_check_loss(Sluice__V1__JobSpec *spec, const struct model *m,
                            struct sl_error *err)
{
    enum spec_loss loss;
    unsigned index;
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
    rc = spec_word("loss", spec->loss, loss_names, SL_COUNT(loss_names), &index,
                   err);
    if (rc != SL_OK)
        return rc;
    loss = (enum spec_loss)(index + 1);
    rc = check_output(loss, m, err);
    if (rc == SL_OK && m->nodes[m->output].out.rank > 1)
        spec_needs(spec, MODEL_EDITION_LABELS);
    if (rc == SL_OK)
        rc = check_extras(spec, loss, err);
    if (rc != SL_OK)
        return rc;
    if (spec_loss_counts(loss))
        return check_logits(spec, loss, &m->nodes[m->output], err);
    if (spec->has_from_logits)
        return sl_fail(err, SL_EINVAL,
                       "from_logits says nothing about %s; leave it out",
                       spec_loss_name(loss));
    return SL_OK;
}

// Labels that a generator makes must be classes that the model has; one for
// each of several rows of outputs is in arrays alone.
enum sl_err spec_check_labels(const char *path, const Sluice__V1__SourceSpec *s,
                              enum spec_loss loss, const struct model *m,
                              struct sl_error *err)
{
    const struct model_shape *out;
    uint64_t outputs;

    if (m->external || s == NULL)
        return SL_OK;
    out = &m->nodes[m->output].out;
    if (out->rank > 1 && strcmp(s->format, "npy") != 0 &&
        strcmp(s->format, "npz") != 0 && strcmp(s->format, "idx") != 0)
        return sl_fail(err, SL_EINVAL,
                       "%s.format: %s has one label for a sample, and the "
                       "outputs of layer '%s' want one for each; keep them in "
                       "an npy or npz",
                       path, s->format, m->nodes[m->output].name);
    if (!s->has_classes)
        return SL_OK;
    outputs = out->dim[0];
    if (loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY &&
        s->classes > outputs)
        return sl_fail(err, SL_EINVAL,
                       "%s.classes: %u, but layer '%s' has %llu outputs", path,
                       s->classes, m->nodes[m->output].name,
                       (unsigned long long)outputs);
    if (loss == SPEC_LOSS_BINARY_CROSSENTROPY && s->classes > 2)
        return sl_fail(err, SL_EINVAL,
                       "%s.classes: %u, but binary_crossentropy knows 2", path,
                       s->classes);
    return SL_OK;
}
