// SPDX-License-Identifier: Apache-2.0
// proto/spec_weights.c -- the check of what samples and classes weigh in the
// loss.
#include "proto/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

// Says what else of a csv has the name of the column of weights; NULL: nothing.
static const char *weights_name_used(const Sluice__V1__SourceSpec *s)
{
    const char *name = s->sample_weight;

    return spec_ids_column(s, name) < s->n_ids ? "one of ids"
                                               : spec_column_used(s, name);
}

// Checks the weights of a source's samples; `s` may be NULL.
static enum sl_err weights_check_source(Sluice__V1__JobSpec *spec,
                                        const Sluice__V1__SourceSpec *s,
                                        const char *path, struct sl_error *err)
{
    const char *name = s != NULL ? s->sample_weight : NULL, *used;

    if (name == NULL)
        return SL_OK;
    if (name[0] == '\0' || !utf8_plain(name, strlen(name)))
        return sl_fail(err, SL_EINVAL,
                       "%s.sample_weight: wants a file (idx, npy), an array of "
                       "the file (npz) or a column (csv), in printable "
                       "characters",
                       path);
    used = weights_name_used(s);
    if (used != NULL)
        return sl_fail(err, SL_EINVAL, "%s.sample_weight: '%.60s' is %s too",
                       path, name, used);
    spec_needs(spec, MODEL_EDITION_WEIGHED);
    return SL_OK;
}

static enum sl_err weights_check_classes(Sluice__V1__JobSpec *spec,
                                         const struct model *m,
                                         struct sl_error *err)
{
    const Sluice__V1__TrainSpec *t = spec->train;
    const struct model_shape *out = &m->nodes[m->output[0]].out;
    uint64_t outputs = out->dim[out->rank - 1], classes = outputs;
    double sum = 0;

    if (spec_loss(spec) == SPEC_LOSS_SEVERAL)
        return sl_fail(err, SL_EINVAL,
                       "train.class_weight: is of one output, and losses has "
                       "those of several; weigh samples, with "
                       "data.train.sample_weight");
    if (spec_loss(spec) == SPEC_LOSS_BINARY_CROSSENTROPY)
        classes = model_shape_elements(out) == 1 ? 2 : 0;
    else if (!spec_loss_has_classes(spec_loss(spec)))
        classes = 0;
    if (classes == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.class_weight: wants a loss of classes, or "
                       "binary_crossentropy of one output; else weights are "
                       "those of samples, data.train.sample_weight");
    if (t->n_class_weight != classes)
        return sl_fail(err, SL_EINVAL,
                       "train.class_weight: wants a number for each of %llu "
                       "classes, got %zu",
                       (unsigned long long)classes, t->n_class_weight);
    for (size_t i = 0; i < t->n_class_weight; i++) {
        char at[64];
        enum sl_err rc;

        snprintf(at, sizeof(at), "train.class_weight[%zu]", i);
        rc = spec_real(at, t->class_weight[i], 0, SPEC_WEIGHT_MOST, SPEC_CLOSED,
                       err);
        if (rc != SL_OK)
            return rc;
        sum += t->class_weight[i];
    }
    spec_needs(spec, MODEL_EDITION_WEIGHED);
    return sum > 0 ? SL_OK
                   : sl_fail(err, SL_EINVAL,
                             "train.class_weight: all are 0, so nothing would "
                             "be trained");
}

// Returns true if an entry of data.train.augment mixes samples.
static bool weights_mixed(const Sluice__V1__SourceSpec *train)
{
    for (size_t i = 0; i < train->n_augment; i++)
        if (train->augment[i]->has_mixup || train->augment[i]->has_cutmix)
            return true;
    return false;
}

enum sl_err spec_check_weights(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    const Sluice__V1__SourceSpec *train = spec->data->train;
    bool classes = spec->train->n_class_weight > 0;
    enum sl_err rc = SL_OK;

    if (m->external)
        return classes ? sl_fail(err, SL_EINVAL,
                                 "train.class_weight: the program of an "
                                 "external model computes its own loss; weigh "
                                 "there")
                       : SL_OK;
    if (classes)
        rc = weights_check_classes(spec, m, err);
    if (rc == SL_OK)
        rc = weights_check_source(spec, train, "data.train", err);
    if (rc == SL_OK)
        rc = weights_check_source(spec, spec->data->test, "data.test", err);
    if (rc == SL_OK && (classes || train->sample_weight != NULL) &&
        weights_mixed(train))
        rc = sl_fail(err, SL_EINVAL,
                     "%s: mixup and cutmix mix samples, and their weights "
                     "would have to be mixed as well; use one or the other",
                     classes ? "train.class_weight"
                             : "data.train.sample_weight");
    return rc;
}
