// SPDX-License-Identifier: Apache-2.0
// worker/data/data.c -- what all kinds of sources share; see data.h.
#include "worker/data/data.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/utf8.h"
#include "worker/data/data_source.h"

void data_free(struct data *d)
{
    if (d == NULL || --d->refs > 0)
        return;
    d->ops->release(d);
    for (size_t i = 0; i < d->ids_count; i++) {
        sl_free((char *)(uintptr_t)d->ids[i].how.name);
        buf_release(&d->ids[i].bag);
    }
    sl_free(d->ids);
    sl_free(d->weights);
    sl_free(d->class_weights);
    bad_unref(d->bad);
    sl_free(d);
}

uint64_t data_samples(const struct data *d)
{
    return d->samples;
}

uint64_t data_hash(const struct data *d)
{
    return sl_mix64(d->hash ^ d->samples);
}

size_t data_sample_bytes(const struct data *d)
{
    return d->features * (d->u8 ? 1 : sizeof(float));
}

bool data_is_u8(const struct data *d)
{
    return d->u8;
}

float data_scale(const struct data *d)
{
    return d->scale;
}

float data_offset(const struct data *d)
{
    return d->offset;
}

bool data_shared(const struct data *d)
{
    return d->shared;
}

uint64_t data_memory(const struct data *d)
{
    return d->ops->memory == NULL ? 0 : d->ops->memory(d);
}

uint32_t data_classes(const struct data *d)
{
    return d->classes;
}

const char *data_class(const struct data *d, uint32_t number)
{
    return d->ops->class_name(d, number);
}

bool data_has_values(const struct data *d)
{
    return d->want.labels == DATA_VALUES;
}

// Returns how many numbers a part of a label becomes.
static size_t data_part_spread(const struct data_label_part *p)
{
    return (size_t)(p->numbers * (p->classes > 0 ? p->classes : 1));
}

size_t data_row_bytes(const struct data *d)
{
    size_t spread = 0;

    if (d->want.labels == DATA_INDEX)
        return sizeof(int32_t);
    for (uint32_t i = 0; i < d->want.parts; i++)
        spread += data_part_spread(&d->want.part[i]);
    return (d->want.parts > 0 ? spread : (size_t)d->want.outputs) *
           sizeof(float);
}

size_t data_label_bytes(const struct data *d)
{
    return data_want_rows(&d->want) *
           (data_row_bytes(d) + (d->weighted ? sizeof(float) : 0));
}

bool data_weighted(const struct data *d)
{
    return d->weighted;
}

// Returns true if the contents of a file are wrong. A file that is missing or
// cannot be opened is another matter, which other workers may not meet.
static bool is_bad(enum sl_err rc)
{
    return rc == SL_ECORRUPT || rc == SL_EINVAL || rc == SL_ERANGE ||
           rc == SL_ENOTSUP;
}

// Notes a bad sample as "train/cat/7.png: broken PNG", without the folders
// above, which people know.
static enum sl_err data_note_bad_sample(struct data *d, uint64_t number,
                                        struct sl_error *err)
{
    struct bad_sample bad = {.test = d->want.test, .number = number};
    const char *text = err->text;
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc;

    if (strlen(text) > d->strip && d->strip > 0 && text[d->strip - 1] == '/')
        text += d->strip;
    utf8_line(bad.what, sizeof(bad.what), text);
    rc = bad_note(d->bad, &bad, &why);
    *err = why;
    return rc;
}

// Returns the class of a row's label.
static size_t data_class_of(const struct data *d, const uint8_t *label)
{
    size_t n = (size_t)d->want.outputs, most = 0;
    const float *v = (const void *)label;
    int32_t class;

    if (d->want.labels == DATA_INDEX) {
        memcpy(&class, label, sizeof(class));
        return (size_t) class;
    }
    if (d->want.labels == DATA_VALUES)
        return v[0] > 0.5f;
    for (size_t i = 1; i < n; i++)
        most = v[i] > v[most] ? i : most;
    return most;
}

// Puts the weight of each row behind its label. The source has written the
// labels one behind another: the last is moved first.
static void data_put_weights(const struct data *d, uint8_t *y)
{
    size_t each = data_row_bytes(d);

    for (size_t i = data_want_rows(&d->want); i-- > 0;) {
        uint8_t *label = y + i * (each + sizeof(float));
        float weight = d->weights != NULL ? d->weights[i] : 1;

        memmove(label, y + i * each, each);
        if (d->class_weights != NULL)
            weight *= d->class_weights[data_class_of(d, label)];
        memcpy(label + each, &weight, sizeof(weight));
    }
}

// Writes a part of a label to `to`: its numbers, or for each class a row of
// zeroes and a 1. The numbers lie at `from`, which may overlap the space at
// `to` but not begin before it: each number is read before that reaches it.
static enum sl_err data_spread_part(const struct data_label_part *p,
                                    const float *from, float *to,
                                    struct sl_error *err)
{
    for (uint64_t i = 0; i < p->numbers; i++) {
        float value = from[i];

        if (p->classes == 0) {
            *to++ = value;
            continue;
        }
        if (data_check_class((double)value, p->classes, err) != SL_OK)
            return SL_ERANGE;
        memset(to, 0, (size_t)p->classes * sizeof(*to));
        to[(size_t)value] = 1;
        to += p->classes;
    }
    return SL_OK;
}

// Reads a sample of labels in parts. Their numbers are read to the end of the
// label's space, and spread out from its start on.
static enum sl_err data_read_parts(struct data *d, uint64_t number, void *x,
                                   float *y, struct sl_error *err)
{
    float *from = y + data_row_bytes(d) / sizeof(*y) - d->want.outputs;
    enum sl_err rc = d->ops->read(d, number, x, from, err);

    for (uint32_t i = 0; rc == SL_OK && i < d->want.parts; i++) {
        rc = data_spread_part(&d->want.part[i], from, y, err);
        if (rc != SL_OK)
            return sl_prefix(err, rc, "sample %llu, part %u of its label",
                             (unsigned long long)number, i);
        from += d->want.part[i].numbers;
        y += data_part_spread(&d->want.part[i]);
    }
    return rc;
}

static enum sl_err data_read_one(struct data *d, uint64_t number, void *x,
                                 void *y, struct sl_error *err)
{
    return d->want.parts > 0 ? data_read_parts(d, number, x, y, err)
                             : d->ops->read(d, number, x, y, err);
}

static enum sl_err read_or_pass(struct data *d, uint64_t number, void *x,
                                void *y, struct sl_error *err)
{
    for (uint64_t tried = 0; tried < d->samples; tried++) {
        struct sl_error why = SL_ERROR_INIT;
        enum sl_err rc = SL_OK;

        if (!bad_has(d->bad, d->want.test, number)) {
            rc = data_read_one(d, number, x, y, &why);
            if (rc == SL_OK)
                return rc;
            if (is_bad(rc))
                rc = data_note_bad_sample(d, number, &why);
        }
        if (rc != SL_OK) {
            if (err != NULL)
                *err = why;
            return rc;
        }
        number = (number + 1) % d->samples;
    }
    return sl_fail(err, SL_ECORRUPT, "none of the %llu samples can be read",
                   (unsigned long long)d->samples);
}

enum sl_err data_read(struct data *d, uint64_t number, void *x, void *y,
                      struct sl_error *err)
{
    enum sl_err rc;

    if (number >= d->samples)
        return sl_fail(err, SL_ERANGE, "the data has no sample %llu, only %llu",
                       (unsigned long long)number,
                       (unsigned long long)d->samples);
    rc = d->bad == NULL ? data_read_one(d, number, x, y, err)
                        : read_or_pass(d, number, x, y, err);
    if (rc == SL_OK && d->weighted)
        data_put_weights(d, y);
    return rc;
}

enum sl_err data_set_weights(struct data *d, struct sl_error *err)
{
    d->weights = sl_calloc(data_want_rows(&d->want), sizeof(*d->weights));
    d->weighted = d->weights != NULL;
    return d->weighted ? SL_OK : sl_no_memory(err);
}

enum sl_err data_check_weight(double weight, struct sl_error *err)
{
    return weight >= 0 && weight <= DATA_WEIGHT_MOST
               ? SL_OK
               : sl_fail(err, SL_EINVAL, "a weight is %g; one is from 0 to %g",
                         weight, DATA_WEIGHT_MOST);
}

void data_take_beside(struct data *d, struct data *from)
{
    for (size_t i = 0; i < d->ids_count; i++) {
        struct buf bag = d->ids[i].bag;

        d->ids[i].bag = from->ids[i].bag;
        from->ids[i].bag = bag;
    }
    if (d->weights != NULL)
        memcpy(d->weights, from->weights,
               data_want_rows(&d->want) * sizeof(*d->weights));
}

enum sl_err data_weigh_classes(struct data *d, const double *weights,
                               size_t count, struct sl_error *err)
{
    bool values = d->want.labels == DATA_VALUES;
    uint64_t classes = values ? 2 : d->want.outputs;
    float *copy;

    if (count != classes || (values && d->want.outputs != 1))
        return sl_fail(err, SL_EINVAL,
                       "%zu weights of classes, and the model has %llu outputs",
                       count, (unsigned long long)d->want.outputs);
    for (size_t i = 0; i < count; i++)
        if (data_check_weight(weights[i], err) != SL_OK)
            return sl_prefix(err, SL_EINVAL, "class %zu", i);
    copy = sl_malloc_array(count, sizeof(*copy));
    if (copy == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < count; i++)
        copy[i] = (float)weights[i];
    d->class_weights = copy;
    d->weighted = true;
    return SL_OK;
}

size_t data_id_columns(const struct data *d)
{
    return d->ids_count;
}

enum sl_err data_gather_ids(const struct data *d, struct ids *ids,
                            struct sl_error *err)
{
    for (size_t i = 0; i < d->ids_count; i++) {
        const struct data_ids *c = &d->ids[i];
        enum sl_err rc = ids_add(ids, i, (const void *)c->bag.data,
                                 c->bag.len / sizeof(uint64_t), err);

        if (rc != SL_OK)
            return sl_prefix(err, rc, "id column '%s'", c->how.name);
    }
    return SL_OK;
}

void data_soon(struct data *d, uint64_t number)
{
    if (d->ops->soon != NULL && number < d->samples)
        d->ops->soon(d, number);
}

void data_expect(struct data *d, uint64_t number)
{
    if (d->ops->expect != NULL && number < d->samples)
        d->ops->expect(d, number);
}

void data_init(struct data *d, const struct data_ops *ops,
               const struct data_source *s, const struct data_want *want)
{
    const char *slash;

    d->ops = ops;
    d->refs = 1;
    d->want = *want;
    d->samples = 0;
    d->hash = sl_hash64(s->format, strlen(s->format));
    d->features = 1;
    for (unsigned i = 0; i < want->rank; i++)
        d->features *= (size_t)want->dim[i];
    d->scale = (float)s->scale;
    d->offset = (float)s->offset;
    d->u8 = d->shared = d->weighted = false;
    d->weights = d->class_weights = NULL;
    d->classes = 0;
    d->ids = NULL;
    d->ids_count = 0;
    d->bad = s->bad != NULL ? bad_ref(s->bad) : NULL;
    slash = s->x != NULL ? strrchr(s->x, '/') : NULL;
    d->strip = slash != NULL ? (size_t)(slash + 1 - s->x) : 0;
}

enum sl_err data_set_ids(struct data *d, const struct data_source *s,
                         struct sl_error *err)
{
    if (s->ids_count == 0)
        return SL_OK;
    if (s->ids_count > IDS_COLUMNS_MAX)
        return sl_fail(err, SL_ERANGE,
                       "the data has %zu id columns; %d are allowed",
                       s->ids_count, IDS_COLUMNS_MAX);
    d->ids = sl_calloc(s->ids_count, sizeof(*d->ids));
    if (d->ids == NULL)
        return sl_no_memory(err);
    for (; d->ids_count < s->ids_count; d->ids_count++) {
        struct id_column *how = &d->ids[d->ids_count].how;

        *how = s->ids[d->ids_count];
        how->name = sl_strdup(how->name);
        if (how->name == NULL)
            return sl_no_memory(err);
    }
    return SL_OK;
}

enum sl_err data_set_samples(struct data *d, uint64_t have,
                             const struct data_source *s, struct sl_error *err)
{
    if (have == 0)
        return sl_fail(err, SL_EINVAL, "the data has no samples");
    d->samples = s->limit > 0 && s->limit < have ? s->limit : have;
    return SL_OK;
}

void data_hash_name(struct data *d, const char *path)
{
    const char *base = strrchr(path, '/');

    base = base != NULL ? base + 1 : path;
    data_hash_number(d, sl_hash64(base, strlen(base)));
}

void data_hash_version(struct data *d, uint64_t version)
{
    if (version != 0)
        data_hash_number(d, version);
}

enum sl_err data_check_classes(const struct data_want *want, const char *path,
                               uint64_t images, uint32_t classes,
                               struct sl_error *err)
{
    if (images == 0)
        return sl_fail(err, SL_EINVAL,
                       "%s holds no images: they belong in a folder per class, "
                       "as <class>/<name>.jpg or .png",
                       path);
    if (want->labels == DATA_VALUES && (classes != 2 || want->outputs != 1))
        return sl_fail(err, SL_EINVAL,
                       "%s has %u classes; with this loss labels are one "
                       "number, 0 or 1, so it needs two and the model one "
                       "output",
                       path, classes);
    if (want->labels != DATA_VALUES && classes != want->outputs)
        return sl_fail(err, SL_EINVAL,
                       "%s has %u classes (folders), but the model has %llu "
                       "outputs",
                       path, classes, (unsigned long long)want->outputs);
    return SL_OK;
}

void data_hash_number(struct data *d, uint64_t n)
{
    d->hash = sl_mix64(d->hash ^ n) + n;
}

// Becomes a loop of vectors: a product and a sum, never fused, so that every
// host reads the same numbers.
static inline __attribute__((always_inline)) void
to_floats(const uint8_t *raw, size_t n, float scale, float offset, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)raw[i] * scale + offset;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
to_floats_avx2(const uint8_t *raw, size_t n, float scale, float offset,
               float *out)
{
    to_floats(raw, n, scale, offset, out);
}
#endif

void data_floats(const uint8_t *raw, size_t n, float scale, float offset,
                 float *out)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        to_floats_avx2(raw, n, scale, offset, out);
        return;
    }
#endif
    to_floats(raw, n, scale, offset, out);
}

enum sl_err data_image_shape(const struct data_want *want, uint32_t shape[3],
                             struct sl_error *err)
{
    for (unsigned i = 0; i < 3; i++) {
        uint64_t n = i < want->rank ? want->dim[i] : 1;

        if (want->rank < 2 || want->rank > 3 || n == 0 || n > 1u << 14)
            return sl_fail(err, SL_EINVAL,
                           "images need a model that reads rows, columns and "
                           "channels, such as input_shape: [256, 256, 3]");
        shape[i] = (uint32_t)n;
    }
    return SL_OK;
}

enum sl_err data_check_class(double value, uint64_t classes,
                             struct sl_error *err)
{
    if (!(value >= 0 && value < (double)classes && value == floor(value)))
        return sl_fail(err, SL_ERANGE,
                       "its label is %s; the model has %llu outputs, so labels "
                       "are 0 to %llu",
                       value != floor(value) ? "no whole number"
                       : value < 0           ? "negative"
                                             : "too large",
                       (unsigned long long)classes,
                       (unsigned long long)classes - 1);
    return SL_OK;
}

enum sl_err data_put_class(const struct data *d, double value, void *y,
                           struct sl_error *err)
{
    uint64_t classes = d->want.outputs;
    float *row = y;
    int32_t label;

    if (data_check_class(value, classes, err) != SL_OK)
        return SL_ERANGE;
    if (d->want.labels == DATA_INDEX) {
        label = (int32_t)value;
        memcpy(y, &label, sizeof(label));
        return SL_OK;
    }
    memset(row, 0, (size_t)classes * sizeof(float));
    row[(size_t)value] = 1.0f;
    return SL_OK;
}

enum sl_err data_put_number(const struct data *d, double value, void *y,
                            struct sl_error *err)
{
    float one = (float)value;

    if (d->want.labels != DATA_VALUES)
        return data_put_class(d, value, y, err);
    memcpy(y, &one, sizeof(one));
    return SL_OK;
}
