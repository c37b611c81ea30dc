// SPDX-License-Identifier: Apache-2.0
// worker/ring/sum.c -- the buckets of a round, each added up here and then
// handed to the group of ranks.
#include "worker/ring/sum.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "worker/reduce/group.h"

enum sl_err sum_init(struct sum *s, const struct overlap_range *buckets,
                     uint32_t count, uint64_t elements)
{
    struct sum made = {
        .buckets = buckets, .count = count, .elements = elements};

    made.whole = sl_calloc(count, sizeof(*made.whole));
    if (made.whole == NULL)
        return SL_ENOMEM;
    *s = made;
    return SL_OK;
}

void sum_release(struct sum *s)
{
    sl_free(s->own);
    sl_free(s->whole);
    *s = (struct sum){0};
}

enum sl_err sum_group(struct group **out, const struct ring_env *env,
                      const Sluice__V1__RingBegin *begin, enum wire_type wire,
                      struct sl_error *err)
{
    struct group_options o = {.io = env->io,
                              .tls = env->tls,
                              .ranks = env->ranks,
                              .job = begin->job,
                              .generation = begin->generation,
                              .count = (uint32_t)begin->n_ranks,
                              .self = begin->self,
                              .wire = wire,
                              .timeout_ms = SUM_SILENT_MS};
    struct group_rank *rank = sl_malloc_array(begin->n_ranks, sizeof(*rank));
    enum sl_err rc;

    if (rank == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a ring's ranks");
    for (size_t i = 0; i < begin->n_ranks; i++)
        rank[i] = (struct group_rank){begin->ranks[i]->address,
                                      begin->ranks[i]->host};
    o.rank = rank;
    rc = group_new(out, &o, err);
    sl_free(rank);
    return rc;
}

enum sl_err sum_join(struct sum *s, const struct ring_env *env,
                     const Sluice__V1__RingBegin *begin, enum wire_type wire,
                     struct sl_error *err)
{
    s->group = NULL;
    s->number = s->waited = s->sent = 0;
    return begin->n_ranks == 1 ? SL_OK
                               : sum_group(&s->group, env, begin, wire, err);
}

void sum_abort(void *sum)
{
    struct sum *s = sum;

    if (s->group != NULL)
        group_abort(s->group, "another generation is opened");
}

void sum_leave(struct sum *s)
{
    group_free(s->group);
    s->group = NULL;
}

enum sl_err sum_begin(struct sum *s, uint32_t contributions, float *gradient,
                      struct sl_error *err)
{
    if (contributions > 1 && s->own == NULL)
        s->own = sl_aligned(64, (size_t)s->elements * sizeof(float));
    if (contributions > 1 && s->own == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a round's sum");
    s->data = contributions > 1 ? s->own : gradient;
    s->next = s->count;
    memset(s->whole, 0, s->count * sizeof(*s->whole));
    for (uint32_t b = 0; contributions == 0 && b < s->count; b++)
        memset(s->data + s->buckets[b].first, 0,
               (size_t)s->buckets[b].count * sizeof(float));
    return SL_OK;
}

// Written so that both are one vector loop.
void sum_add(struct sum *s, uint32_t bucket, const float *g, float weight,
             bool first)
{
    const struct overlap_range *range = &s->buckets[bucket];
    float *to = s->data + range->first;
    size_t n = (size_t)range->count;

    g += range->first;
    if (first) {
        for (size_t i = 0; i < n; i++)
            to[i] = weight * g[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] += weight * g[i];
}

void sum_spoil(struct sum *s, uint32_t bucket)
{
    s->data[s->buckets[bucket].first] = NAN;
}

static enum sl_err start_next(struct sum *s, struct sl_error *err)
{
    const struct overlap_range *range = &s->buckets[s->next - 1];
    enum sl_err rc = SL_OK;

    if (s->group != NULL)
        rc = group_start(s->group, s->number, s->data + range->first,
                         (size_t)range->count, err);
    if (rc != SL_OK)
        return rc;
    s->number++;
    s->next--;
    return SL_OK;
}

enum sl_err sum_start(struct sum *s, uint32_t bucket, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    s->whole[bucket] = true;
    while (rc == SL_OK && s->next > 0 && s->whole[s->next - 1])
        rc = start_next(s, err);
    return rc;
}

uint64_t sum_outstanding(const struct sum *s)
{
    return s->number - s->waited;
}

enum sl_err sum_wait(struct sum *s, uint32_t *bucket, struct sl_error *err)
{
    *bucket = s->next + (uint32_t)sum_outstanding(s) - 1;
    s->waited++;
    return s->group == NULL ? SL_OK : group_wait(s->group, s->waited - 1, err);
}

uint64_t sum_sent(struct sum *s)
{
    struct group_stats stats = {0};
    uint64_t more;

    if (s->group != NULL)
        group_stats(s->group, &stats);
    more = stats.sent_bytes - s->sent;
    s->sent = stats.sent_bytes;
    return more;
}

uint32_t sum_suspect(const struct sum *s)
{
    return s->group == NULL ? UINT32_MAX : group_suspect(s->group);
}
