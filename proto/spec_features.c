// SPDX-License-Identifier: Apache-2.0
// proto/spec_features.c -- the check of which features of a record are read.
#include "proto/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

#define KEY_BYTES 200

enum { IMAGE, NUMBERS, LABEL };

// What a feature takes besides its key.
static const struct {
    const char *name, *fields;
} feature_kinds[] = {
    [IMAGE] = {"image", " key decode size "},
    [NUMBERS] = {"x", " key "},
    [LABEL] = {"label", " key first field "},
};

static enum sl_err features_check_key(const Sluice__V1__FeatureSpec *f,
                                      const char *path, struct sl_error *err)
{
    size_t n = strlen(f->key);

    return n > 0 && n <= KEY_BYTES && utf8_plain(f->key, n)
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "%s.key: wants 1 to %d bytes, without control "
                         "characters",
                         path, KEY_BYTES);
}

// Compares a size that is said with the rows and columns of the model's input.
static enum sl_err features_check_size(const Sluice__V1__FeatureSpec *f,
                                       const struct model *m, const char *path,
                                       struct sl_error *err)
{
    const struct model_shape *in = &m->nodes[0].out;

    if (f->n_size == 0)
        return SL_OK;
    if (f->n_size != 2 || in->rank < 2 || f->size[0] != in->dim[0] ||
        f->size[1] != in->dim[1])
        return sl_fail(err, SL_EINVAL,
                       "%s.size: wants the rows and columns of "
                       "model.input_shape, such as [224, 224]; images are "
                       "resized to those",
                       path);
    return SL_OK;
}

static enum sl_err features_check_one(const Sluice__V1__FeatureSpec *f,
                                      unsigned kind, const struct model *m,
                                      const char *path, struct sl_error *err)
{
    static const char *const words[] = {"auto", "jpeg", "png", "raw"};
    char at[96];
    enum sl_err rc = SL_OK;

    if (f == NULL)
        return SL_OK;
    snprintf(at, sizeof(at), "%s.%s", path, feature_kinds[kind].name);
    rc = spec_only(at, &f->base, feature_kinds[kind].fields,
                   feature_kinds[kind].name, err);
    if (rc == SL_OK && f->key != NULL)
        rc = features_check_key(f, at, err);
    if (rc == SL_OK)
        rc = features_check_size(f, m, at, err);
    snprintf(at, sizeof(at), "%s.%s.decode", path, feature_kinds[kind].name);
    return rc == SL_OK && f->decode != NULL
               ? spec_word(at, f->decode, words, SL_COUNT(words), NULL, err)
               : rc;
}

// A record names nothing by itself, so a tfrecord says all keys.
static enum sl_err features_check_keys(const Sluice__V1__SourceSpec *s,
                                       const char *path, struct sl_error *err)
{
    const Sluice__V1__FeaturesSpec *f = s->features;
    const Sluice__V1__FeatureSpec *one = f->image != NULL ? f->image : f->x;

    if ((one != NULL) + (s->n_columns > 0) != 1)
        return sl_fail(err, SL_EINVAL,
                       "%s: wants one of features.image, features.x and "
                       "columns",
                       path);
    if ((one != NULL && one->key == NULL) || f->label == NULL ||
        f->label->key == NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s.features: wants the key of the image or of x, and "
                       "of the label, as in {image: {key: image/encoded}, "
                       "label: {key: image/class/label}}",
                       path);
    return f->label->field == NULL
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "%s.features.label.field: names a field of JSON, "
                         "which a record has not",
                         path);
}

// Sets what a group of members is read by if the job does not say it.
static enum sl_err features_default(Sluice__V1__FeaturesSpec *f,
                                    const char *path, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (f->x != NULL)
        rc = spec_string(&f->x->key, "npy");
    if (rc != SL_OK || f->label == NULL || f->label->field == NULL ||
        (f->label->key != NULL && strstr(f->label->key, "json") != NULL))
        return rc;
    return sl_fail(err, SL_EINVAL,
                   "%s.features.label.field: names a field of JSON; say key: "
                   "json",
                   path);
}

enum sl_err spec_check_features(const Sluice__V1__SourceSpec *s, bool records,
                                const struct model *m, const char *path,
                                struct sl_error *err)
{
    const Sluice__V1__FeaturesSpec *f = s->features;
    char at[64];
    enum sl_err rc;

    snprintf(at, sizeof(at), "%s.features", path);
    if (f == NULL)
        return records ? sl_fail(err, SL_EINVAL, "%s is missing", at) : SL_OK;
    if (f->image != NULL && f->x != NULL)
        return sl_fail(err, SL_EINVAL, "%s: wants image or x, not both", at);
    rc = features_check_one(f->image, IMAGE, m, at, err);
    if (rc == SL_OK)
        rc = features_check_one(f->x, NUMBERS, m, at, err);
    if (rc == SL_OK)
        rc = features_check_one(f->label, LABEL, m, at, err);
    if (rc != SL_OK)
        return rc;
    return records ? features_check_keys(s, path, err)
                   : features_default(s->features, path, err);
}
