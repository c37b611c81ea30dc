// SPDX-License-Identifier: Apache-2.0
// state/shard/stale.c -- the arithmetic of late gradients, and the versions
// that it needs.
#include "state/shard/stale.h"

#include <string.h>

#include "common/base/mem.h"

double stale_scale(const struct stale_rule *r, uint64_t delay)
{
    bool late = r->max_delay > 0 && delay >= r->max_delay;

    if (delay <= 1 || (!late && r->kind != STALE_INVERSE))
        return 1;
    return 1 / (double)delay;
}

void stale_compensate(double lambda, size_t n, const void *g, const float *w,
                      const float *read, float *out)
{
    const uint8_t *at = g;
    float l = (float)lambda, x;

    for (size_t i = 0; i < n; i++) {
        memcpy(&x, at + sizeof(float) * i, sizeof(float));
        out[i] = x + l * x * x * (w[i] - read[i]);
    }
}

enum sl_err stale_init(struct stale_versions *s, const struct stale_rule *r,
                       size_t elements)
{
    *s = (struct stale_versions){0};
    if (r->kind != STALE_DC && !r->keeps)
        return SL_OK;
    s->count = (size_t)r->max_delay;
    s->elements = elements;
    s->version = sl_calloc(s->count, sizeof(*s->version));
    s->values = sl_aligned(64, s->count * elements * sizeof(float));
    if (s->version != NULL && s->values != NULL)
        return SL_OK;
    stale_release(s);
    return SL_ENOMEM;
}

void stale_release(struct stale_versions *s)
{
    sl_free(s->values);
    sl_free(s->version);
    *s = (struct stale_versions){0};
}

const float *stale_find(const struct stale_versions *s, uint64_t version)
{
    size_t at;

    if (s->count == 0)
        return NULL;
    at = (size_t)(version % s->count);
    return s->version[at] == version + 1 ? s->values + at * s->elements : NULL;
}

float *stale_keep(struct stale_versions *s, uint64_t version)
{
    size_t at;

    if (s->count == 0)
        return NULL;
    at = (size_t)(version % s->count);
    s->version[at] = version + 1;
    return s->values + at * s->elements;
}
