// SPDX-License-Identifier: Apache-2.0
// trainer/ring/sum.c -- the buckets of a round, each added up here and then
// handed to the group of ranks.
#include "trainer/ring/sum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "trainer/sum/sum_group.h"

enum sl_err sum_init(struct sum *s, const struct elements *buckets,
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

static enum sl_err group_of_lane(struct rank_group **out,
                                 const struct ring_env *env,
                                 const Sluice__V1__RingBegin *begin,
                                 uint32_t lane, enum wire_type wire,
                                 struct sl_error *err)
{
    struct group_options o = {
        .io = env->io,
        .tls = env->tls,
        .ranks = env->ranks,
        .of = {begin->job, begin->generation, wire_token_of(begin->token)},
        .lane = lane,
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

enum sl_err sum_group(struct rank_group **out, const struct ring_env *env,
                      const Sluice__V1__RingBegin *begin, enum wire_type wire,
                      struct sl_error *err)
{
    return group_of_lane(out, env, begin, 0, wire, err);
}

enum sl_err sum_join(struct sum *s, const struct ring_env *env,
                     const Sluice__V1__RingBegin *begin, enum wire_type wire,
                     uint32_t early, struct sl_error *err)
{
    bool alone = begin->n_ranks == 1;
    enum sl_err rc = SL_OK;

    assert(early <= s->count);
    if (alone)
        early = 0;
    s->lane[0] = (struct sum_lane){.first = early, .count = s->count - early};
    s->lane[1] = (struct sum_lane){.first = 0, .count = early};
    s->sent = 0;
    if (!alone)
        rc = group_of_lane(&s->lane[0].group, env, begin, 0, wire, err);
    s->asked = s->lane[0].group;
    if (rc == SL_OK && early > 0)
        rc = group_of_lane(&s->lane[1].group, env, begin, 1, wire, err);
    if (rc != SL_OK)
        sum_leave(s);
    return rc;
}

void sum_abort(void *sum)
{
    struct sum *s = sum;

    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        if (s->lane[i].group != NULL)
            group_abort(s->lane[i].group, "another generation is opened");
    }
}

void sum_leave(struct sum *s)
{
    for (uint32_t i = WIRE_LANES; i-- > 0;) {
        group_free(s->lane[i].group);
        s->lane[i].group = NULL;
    }
    s->asked = NULL;
}

enum sl_err sum_begin(struct sum *s, uint32_t contributions, float *gradient,
                      struct sl_error *err)
{
    // One gradient is summed where it is: a vector of its own takes as much
    // memory as the parameters.
    if (contributions > 1 && s->own == NULL)
        s->own = sl_aligned(64, (size_t)s->elements * sizeof(float));
    if (contributions > 1 && s->own == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a round's sum");
    s->data = contributions > 1 ? s->own : gradient;
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        s->lane[i].next = s->lane[i].first + s->lane[i].count;
    memset(s->whole, 0, s->count * sizeof(*s->whole));
    for (uint32_t b = 0; contributions == 0 && b < s->count; b++)
        memset(s->data + s->buckets[b].first, 0,
               (size_t)s->buckets[b].count * sizeof(float));
    return SL_OK;
}

// Two loops, so that each is one vector loop.
void sum_add(struct sum *s, uint32_t bucket, const float *g, float weight,
             bool first)
{
    const struct elements *range = &s->buckets[bucket];
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

static enum sl_err start_next(struct sum *s, struct sum_lane *lane,
                              struct sl_error *err)
{
    const struct elements *range = &s->buckets[lane->next - 1];
    enum sl_err rc = SL_OK;

    if (lane->group != NULL)
        rc = group_start(lane->group, lane->number, s->data + range->first,
                         (size_t)range->count, err);
    if (rc != SL_OK)
        return rc;
    lane->number++;
    lane->next--;
    return SL_OK;
}

enum sl_err sum_start(struct sum *s, uint32_t bucket, struct sl_error *err)
{
    struct sum_lane *lane = &s->lane[bucket < s->lane[0].first];
    enum sl_err rc = SL_OK;

    s->whole[bucket] = true;
    while (rc == SL_OK && lane->next > lane->first && s->whole[lane->next - 1])
        rc = start_next(s, lane, err);
    return rc;
}

enum sl_err sum_start_rest(struct sum *s, bool spoil, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = WIRE_LANES; i-- > 0;) {
        struct sum_lane *lane = &s->lane[i];

        while (rc == SL_OK && lane->next > lane->first) {
            if (spoil)
                sum_spoil(s, lane->next - 1);
            rc = start_next(s, lane, err);
        }
    }
    return rc;
}

static uint64_t outstanding(const struct sum_lane *lane)
{
    return lane->number - lane->waited - lane->marks;
}

uint64_t sum_outstanding(const struct sum *s)
{
    return outstanding(&s->lane[0]) + outstanding(&s->lane[1]);
}

uint64_t sum_early_outstanding(const struct sum *s)
{
    return outstanding(&s->lane[1]);
}

enum sl_err sum_wait(struct sum *s, uint32_t *bucket, struct sl_error *err)
{
    struct sum_lane *lane = &s->lane[sum_early_outstanding(s) > 0];

    *bucket = lane->next + (uint32_t)outstanding(lane) - 1;
    s->asked = lane->group;
    lane->waited++;
    return s->asked == NULL ? SL_OK
                            : group_wait(s->asked, lane->waited - 1, err);
}

enum sl_err sum_start_marks(struct sum *s, float *data, size_t count,
                            struct sl_error *err)
{
    struct sum_lane *lane = &s->lane[0];
    enum sl_err rc = SL_OK;

    assert(lane->next == lane->first && !lane->marks);
    if (lane->group != NULL)
        rc = group_start(lane->group, lane->number, data, count, err);
    if (rc != SL_OK)
        return rc;
    lane->number++;
    lane->marks = true;
    return SL_OK;
}

enum sl_err sum_wait_marks(struct sum *s, struct sl_error *err)
{
    struct sum_lane *lane = &s->lane[0];

    assert(lane->marks && outstanding(lane) == 0);
    lane->marks = false;
    s->asked = lane->group;
    lane->waited++;
    return s->asked == NULL ? SL_OK
                            : group_wait(s->asked, lane->waited - 1, err);
}

uint64_t sum_sent(struct sum *s)
{
    uint64_t before = s->sent;

    s->sent = 0;
    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        struct group_stats stats = {0};

        if (s->lane[i].group != NULL)
            group_stats(s->lane[i].group, &stats);
        s->sent += stats.sent_bytes;
    }
    return s->sent - before;
}

uint32_t sum_suspect(const struct sum *s)
{
    return s->asked == NULL ? UINT32_MAX : group_suspect(s->asked);
}
