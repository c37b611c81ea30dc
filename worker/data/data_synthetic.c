// SPDX-License-Identifier: Apache-2.0
// worker/data/data_synthetic.c -- samples out of (seed, number) alone.
//
// "binary": features N(0, 1), y = 1 if w.x > 0, w from the seed.
// "classes": one of `classes` seeded centres plus N(0, 1) noise; y is the
// nearest centre (mostly the one it was drawn around), so that the labels are
// a function of the features and a model can learn them.
// "images" is data_pattern.c.
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "worker/data/data_source.h"

// Streams of rng.h, so that no two draws share numbers. A test set has other
// samples of the same task.
enum { STREAM_TASK = 1, STREAM_TRAIN = 2, STREAM_TEST = 3 };

// Centres lie this many deviations of the noise from the origin, per feature.
#define SPREAD 1.5f

struct synthetic {
    struct data data;
    bool binary;
    uint64_t seed;
    uint32_t classes;
    float *task; // binary: w [features]; classes: centres [classes, features]
};

static uint32_t nearest(const struct synthetic *s, const float *x)
{
    size_t n = s->data.features;
    uint32_t best = 0;
    double least = 0;

    for (uint32_t c = 0; c < s->classes; c++) {
        const float *centre = s->task + c * n;
        double sum = 0;

        for (size_t i = 0; i < n; i++) {
            double d = (double)x[i] - (double)centre[i];

            sum += d * d;
        }
        if (c == 0 || sum < least) {
            least = sum;
            best = c;
        }
    }
    return best;
}

static uint32_t side(const struct synthetic *s, const float *x)
{
    double sum = 0;

    for (size_t i = 0; i < s->data.features; i++)
        sum += (double)s->task[i] * (double)x[i];
    return sum > 0;
}

static enum sl_err synthetic_read(struct data *d, uint64_t number, void *to,
                                  void *y, struct sl_error *err)
{
    struct synthetic *s = sl_container_of(d, struct synthetic, data);
    uint64_t stream = d->want.test ? STREAM_TEST : STREAM_TRAIN;
    size_t n = d->features;
    uint32_t label;
    float *x = to;

    rng_fill_normal(x, s->seed, stream, number * n, n);
    if (s->binary) {
        label = side(s, x);
    } else {
        uint64_t draw = sl_mix64(s->seed ^ sl_mix64(number ^ stream << 60));
        const float *centre = s->task + draw % s->classes * n;

        for (size_t i = 0; i < n; i++)
            x[i] += centre[i];
        label = nearest(s, x);
    }
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * d->scale + d->offset;
    return data_put_number(d, label, y, err);
}

static void synthetic_release(struct data *d)
{
    sl_free(sl_container_of(d, struct synthetic, data)->task);
}

static const struct data_ops synthetic_ops = {.read = synthetic_read,
                                              .release = synthetic_release};

static enum sl_err synthetic_check_source(const struct synthetic *s,
                                          const struct data_source *source,
                                          struct sl_error *err)
{
    const struct data *d = &s->data;

    if (source->samples == 0)
        return sl_fail(err, SL_EINVAL, "synthetic data: say how many samples");
    if (d->features > 1u << 30 ||
        source->samples > (UINT64_C(1) << 47) / d->features)
        return sl_fail(err, SL_ERANGE,
                       "synthetic data: %llu samples of %zu features are more "
                       "numbers than the generator has",
                       (unsigned long long)source->samples, d->features);
    if (!s->binary && (s->classes < 2 || s->classes > 1u << 20))
        return sl_fail(err, SL_EINVAL,
                       "synthetic data: classes must be 2 to 2^20, not %u",
                       s->classes);
    if (d->want.labels == DATA_VALUES && d->want.outputs != 1)
        return sl_fail(err, SL_EINVAL,
                       "synthetic labels are one number, but the model has "
                       "%llu outputs",
                       (unsigned long long)d->want.outputs);
    if (d->want.labels != DATA_VALUES && s->classes > d->want.outputs)
        return sl_fail(err, SL_EINVAL,
                       "synthetic data of %u classes does not fit the model's "
                       "%llu outputs",
                       s->classes, (unsigned long long)d->want.outputs);
    return SL_OK;
}

static enum sl_err make_task(struct synthetic *s, struct sl_error *err)
{
    size_t rows = s->binary ? 1 : s->classes, n = rows * s->data.features;

    s->task = sl_malloc_array(n, sizeof(float));
    if (s->task == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %zu centres", rows);
    rng_fill_normal(s->task, s->seed, STREAM_TASK, 0, n);
    if (!s->binary) {
        for (size_t i = 0; i < n; i++)
            s->task[i] *= SPREAD;
    }
    return SL_OK;
}

enum sl_err data_open_synthetic(struct data **out, const struct data_source *s,
                                const struct data_want *want,
                                struct sl_error *err)
{
    struct synthetic *d;
    const char *generator = s->generator != NULL ? s->generator : "";
    enum sl_err rc = SL_OK;

    if (strcmp(generator, "images") == 0)
        return data_open_pattern(out, s, want, err);
    d = sl_calloc(1, sizeof(*d));
    if (d == NULL)
        return sl_no_memory(err);
    data_init(&d->data, &synthetic_ops, s, want);
    d->binary = strcmp(generator, "binary") == 0;
    d->seed = s->seed;
    d->classes = d->binary ? 2 : s->classes;
    if (!d->binary && strcmp(generator, "classes") != 0)
        rc =
            sl_fail(err, SL_EINVAL,
                    "synthetic data: generator '%s' is none of binary, classes "
                    "and images",
                    generator);
    if (rc == SL_OK)
        rc = synthetic_check_source(d, s, err);
    if (rc == SL_OK)
        rc = data_set_samples(&d->data, s->samples, s, err);
    if (rc == SL_OK)
        rc = make_task(d, err);
    if (rc != SL_OK) {
        data_free(&d->data);
        return rc;
    }
    data_hash_number(&d->data, sl_hash64(generator, strlen(generator)));
    data_hash_number(&d->data, d->seed);
    data_hash_number(&d->data, d->classes);
    *out = &d->data;
    return SL_OK;
}
