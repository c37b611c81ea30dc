// SPDX-License-Identifier: Apache-2.0
// proto/spec_augment.c -- the check of how training images are changed.
#include "proto/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "proto/field.h"

#define ALPHA_MOST 2 // of mixup, cutmix

// What the amount of a change may be; `flip` has none.
static const struct augment_word {
    const char *name;
    double most;
    bool mixes; // two samples of a batch, of any shape
} changes[] = {{"crop", 0, false},          {"flip", 0, false},
               {"translate", 1, false},     {"rotate", 180, false},
               {"zoom", 0.99, false},       {"brightness", 1, false},
               {"contrast", 1, false},      {"mixup", ALPHA_MOST, true},
               {"cutmix", ALPHA_MOST, true}};

static const ProtobufCFieldDescriptor *
augment_field(const Sluice__V1__AugmentSpec *s, const struct augment_word *c)
{
    return protobuf_c_message_descriptor_get_field_by_name(s->base.descriptor,
                                                           c->name);
}

static double augment_amount(const Sluice__V1__AugmentSpec *s,
                             const struct augment_word *c)
{
    double amount;

    memcpy(&amount, field_at(&s->base, augment_field(s, c), 0), sizeof(amount));
    return amount;
}

// Sets *out to the row of `changes` whose key the entry has; SL_EINVAL unless
// the entry has one such key.
static enum sl_err augment_change(const Sluice__V1__AugmentSpec *s,
                                  const char *path,
                                  const struct augment_word **out,
                                  struct sl_error *err)
{
    unsigned found = 0;

    for (size_t i = 0; i < SL_COUNT(changes); i++) {
        if (field_count(&s->base, augment_field(s, &changes[i])) == 0)
            continue;
        *out = &changes[i];
        found++;
    }
    return found == 1 ? SL_OK
                      : sl_fail(err, SL_EINVAL,
                                "%s: wants one of crop, flip, translate, "
                                "rotate, zoom, brightness, contrast, mixup and "
                                "cutmix, got %u; the next is an entry of its "
                                "own",
                                path, found);
}

static enum sl_err augment_check_range(const Sluice__V1__AugmentSpec *s,
                                       const char *path, struct sl_error *err)
{
    bool colour = s->has_brightness || s->has_contrast;

    if (s->n_range == 0)
        return SL_OK;
    if (!colour || s->n_range != 2 || !(s->range[0] < s->range[1]))
        return sl_fail(err, SL_EINVAL,
                       "%s.range: wants the least and the largest value of a "
                       "pixel, such as [0, 255], with brightness or contrast",
                       path);
    return SL_OK;
}

// Checks an image's change against the image.
static enum sl_err augment_check_shape(const Sluice__V1__AugmentSpec *s,
                                       const struct model_shape *in,
                                       const char *path, struct sl_error *err)
{
    uint64_t least = in->dim[0] < in->dim[1] ? in->dim[0] : in->dim[1];
    char at[80];

    if (in->rank < 2 || in->rank > 3 || in->dim[0] > 1u << 14 ||
        in->dim[1] > 1u << 14)
        return sl_fail(err, SL_EINVAL,
                       "%s: wants a model that reads rows and columns of "
                       "pixels, such as input_shape: [32, 32, 3]",
                       path);
    snprintf(at, sizeof(at), "%s.crop", path);
    return s->has_crop ? spec_range(at, s->crop, 1, least - 1, err) : SL_OK;
}

static enum sl_err augment_check_mix(const Sluice__V1__JobSpec *spec,
                                     const char *path, struct sl_error *err)
{
    if (spec_loss(spec) == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
        return sl_fail(err, SL_EINVAL,
                       "%s: mixes labels, and with "
                       "sparse_categorical_crossentropy a label is one number; "
                       "use categorical_crossentropy, which reads the same "
                       "labels",
                       path);
    if (spec->data->train->n_ids > 0)
        return sl_fail(err, SL_EINVAL,
                       "%s: mixes samples, and ids cannot be mixed", path);
    return SL_OK;
}

static enum sl_err augment_check_one(const Sluice__V1__JobSpec *spec,
                                     const Sluice__V1__AugmentSpec *s,
                                     const struct model *m, const char *path,
                                     bool *mixes, struct sl_error *err)
{
    static const char *const flips[] = {"horizontal", "vertical", "both"};
    const struct augment_word *c = NULL;
    char at[80];
    enum sl_err rc = augment_change(s, path, &c, err);

    if (rc == SL_OK)
        rc = augment_check_range(s, path, err);
    if (rc != SL_OK)
        return rc;
    snprintf(at, sizeof(at), "%s.%s", path, c->name);
    if (c->mixes && *mixes)
        return sl_fail(err, SL_EINVAL, "%s: samples are mixed once", at);
    *mixes = *mixes || c->mixes;
    if (s->flip != NULL)
        rc = spec_word(at, s->flip, flips, SL_COUNT(flips), NULL, err);
    if (rc == SL_OK && c->most > 0)
        rc =
            spec_real(at, augment_amount(s, c), 0, c->most, SPEC_OPEN_LOW, err);
    if (rc != SL_OK)
        return rc;
    if (c->mixes)
        rc = augment_check_mix(spec, at, err);
    return rc == SL_OK && !s->has_mixup
               ? augment_check_shape(s, &m->nodes[0].out, path, err)
               : rc;
}

enum sl_err spec_augment_fits(const Sluice__V1__JobSpec *spec,
                              const struct model *m, struct sl_error *err)
{
    const Sluice__V1__SourceSpec *train =
        spec->data != NULL ? spec->data->train : NULL;
    bool mixes = false;
    enum sl_err rc = SL_OK;

    if (train == NULL)
        return SL_OK;
    if (train->n_augment > SPEC_AUGMENT_MAX)
        return sl_fail(err, SL_EINVAL,
                       "data.train.augment: has over %d entries",
                       SPEC_AUGMENT_MAX);
    for (size_t i = 0; rc == SL_OK && i < train->n_augment; i++) {
        char at[64];

        snprintf(at, sizeof(at), "data.train.augment[%zu]", i);
        rc = augment_check_one(spec, train->augment[i], m, at, &mixes, err);
    }
    return rc;
}

enum sl_err spec_check_augment(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    enum sl_err rc;

    if (spec->data->test != NULL && spec->data->test->n_augment > 0)
        return sl_fail(err, SL_EINVAL,
                       "data.test.augment: samples of a test are read as they "
                       "are; only data.train has it");
    if (spec->data->train->n_augment == 0)
        return SL_OK;
    rc = spec_augment_fits(spec, m, err);
    if (rc == SL_OK)
        spec_needs(spec, MODEL_EDITION_AUGMENT);
    return rc;
}
