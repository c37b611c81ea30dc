// SPDX-License-Identifier: Apache-2.0
// worker/ring/follow.c -- a state that is copied part by part and then follows
// the rounds of those who have it.
#include "worker/ring/follow.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "worker/ring/packed.h"
#include "worker/ring/rank_inner.h"

#define FETCH_BYTES ((uint64_t)4 << 20) // at once

struct follow_part {
    struct shard *shard; // the set's, and then the rank's
    // The image.
    struct feed_image head; // magic 0: not here yet
    uint64_t have;          // bytes of the memory
    bool whole;
    uint64_t rounds;
    // The next round.
    struct feed_record record; // magic 0: not here yet
    uint8_t *bytes;            // of it, behind its head; owned
    size_t size, got;
};

enum sl_err follow_init(struct follow *f, struct rank *rank,
                        const struct rank_job *j, uint64_t generation,
                        uint64_t id, follow_fetch_fn fetch, void *arg,
                        struct sl_error *err)
{
    struct follow made = {.rank = rank,
                          .generation = generation,
                          .id = id,
                          .fetch = fetch,
                          .arg = arg};
    enum sl_err rc = rank_set_new(&made.parts, &made.count, j, NULL, err);

    if (rc != SL_OK)
        return rc;
    made.part = sl_calloc(made.count, sizeof(*made.part));
    if (made.part == NULL) {
        rank_set_free(made.parts, made.count);
        return sl_fail(err, SL_ENOMEM, "no memory for a copy of the state");
    }
    for (uint32_t i = 0; i < made.count; i++) {
        made.part[i].shard = made.parts[i];
        shard_admit(made.parts[i], generation);
    }
    made.job = j->open->job;
    made.job_incarnation = j->open->job_incarnation;
    *f = made;
    return SL_OK;
}

void follow_release(struct follow *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        sl_free(f->part[i].bytes);
    sl_free(f->part);
    rank_set_free(f->parts, f->count);
    *f = (struct follow){0};
}

static enum sl_err fetch(struct follow *f, struct feed_ask *ask, void *into,
                         struct sl_error *err)
{
    ask->follower = f->id;
    return f->fetch(f->arg, ask, into, err);
}

// ---- images

static enum sl_err fetch_head(struct follow *f, uint32_t i,
                              struct sl_error *err)
{
    struct feed_ask ask = {.part = i, .bytes = sizeof(struct feed_image)};
    struct follow_part *p = &f->part[i];
    struct feed_image head;
    struct once once;
    uint8_t *packed;
    enum sl_err rc = fetch(f, &ask, &head, err);

    if (rc != SL_OK)
        return rc;
    if (head.magic != FEED_IMAGE_MAGIC ||
        head.memory_bytes != shard_bytes(p->shard) ||
        head.set_bytes > FETCH_BYTES || head.counts_bytes > FETCH_BYTES)
        return sl_fail(err, SL_ECORRUPT,
                       "an image of part %" PRIu32 " has %" PRIu64
                       " bytes of memory: it is not of this job",
                       i, head.memory_bytes);
    ask.offset = sizeof(head);
    ask.bytes = (size_t)(head.set_bytes + head.counts_bytes);
    packed = sl_malloc(ask.bytes);
    rc = packed == NULL ? SL_ENOMEM : fetch(f, &ask, packed, err);
    if (rc == SL_OK)
        rc = packed_read(&once, &p->shard->plan.schedule, packed,
                         head.set_bytes, head.counts_bytes, err);
    sl_free(packed);
    if (rc != SL_OK)
        return rc;
    once_release(&p->shard->once);
    p->shard->once = once;
    p->rounds = head.rounds;
    p->head = head;
    return SL_OK;
}

static enum sl_err copy_piece(struct follow *f, uint32_t i,
                              struct sl_error *err)
{
    struct follow_part *p = &f->part[i];
    struct feed_ask ask = {.part = i};
    enum sl_err rc;
    size_t n;
    void *to;

    if (p->head.magic == 0)
        return fetch_head(f, i, err);
    ask.offset =
        sizeof(p->head) + p->head.set_bytes + p->head.counts_bytes + p->have;
    to = shard_memory_at(p->shard, (size_t)p->have, &n);
    ask.bytes = (size_t)sl_min(FETCH_BYTES, n);
    rc = fetch(f, &ask, to, err);
    if (rc != SL_OK)
        return rc;
    FAULT("follow.piece");
    p->have += ask.bytes;
    p->whole = p->have == p->head.memory_bytes;
    return SL_OK;
}

// ---- records

static uint64_t steps_of(const struct follow_part *p)
{
    return counted_steps(&p->shard->once.counted);
}

static enum sl_err fetch_record_head(struct follow *f, uint32_t i,
                                     struct sl_error *err)
{
    struct follow_part *p = &f->part[i];
    struct feed_ask ask = {.part = i,
                           .record = true,
                           .after = steps_of(p),
                           .bytes = sizeof(struct feed_record)};
    struct feed_record r;
    enum sl_err rc = fetch(f, &ask, &r, err);
    uint8_t *bytes;
    size_t size;

    if (rc != SL_OK)
        return rc;
    if (r.magic != FEED_RECORD_MAGIC || r.before != steps_of(p) ||
        r.rounds != p->rounds + 1 || r.keys == 0 ||
        r.keys > WIRE_CONTRIBUTIONS_MAX ||
        r.average_bytes !=
            (r.skip != 0 ? 0 : plan_values_bytes(&p->shard->plan)))
        return sl_fail(err, SL_ECORRUPT,
                       "a record of part %" PRIu32 " does not follow round "
                       "%" PRIu64,
                       i, p->rounds);
    size = (size_t)(r.keys * sizeof(struct feed_key) + r.average_bytes);
    bytes = sl_realloc_array(p->bytes, size, 1);
    if (bytes == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a round");
    p->bytes = bytes;
    p->size = size;
    p->got = 0;
    p->record = r;
    return SL_OK;
}

// All of the next round of a part.
static enum sl_err fetch_record(struct follow *f, uint32_t i,
                                struct sl_error *err)
{
    struct follow_part *p = &f->part[i];
    struct feed_ask ask = {.part = i, .record = true, .after = steps_of(p)};
    enum sl_err rc = SL_OK;

    if (p->record.magic == 0)
        rc = fetch_record_head(f, i, err);
    while (rc == SL_OK && p->got < p->size) {
        ask.offset = sizeof(p->record) + p->got;
        ask.bytes = (size_t)sl_min(FETCH_BYTES, p->size - p->got);
        rc = fetch(f, &ask, p->bytes + p->got, err);
        if (rc == SL_OK)
            p->got += ask.bytes;
    }
    return rc;
}

static enum sl_err apply(struct follow_part *p, struct sl_error *err)
{
    size_t n = (size_t)p->record.keys;
    struct once_step *steps = sl_calloc(n, sizeof(*steps));
    struct update u = {
        .gradient = (const float *)(p->bytes + n * sizeof(struct feed_key)),
        .steps = steps,
        .count = n};
    enum sl_err rc;

    if (steps == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a round");
    for (size_t i = 0; i < n; i++) {
        struct feed_key key;

        memcpy(&key, p->bytes + i * sizeof(key), sizeof(key));
        steps[i] = (struct once_step){.closure = key.closure,
                                      .step = (uint32_t)key.step,
                                      .samples = key.samples,
                                      .digest = key.digest,
                                      .skip = p->record.skip != 0};
    }
    rc = update_shard(p->shard, &u, NULL, err);
    sl_free(steps);
    if (rc == SL_OK && steps_of(p) != p->record.after)
        rc = sl_fail(err, SL_ECORRUPT, "a record counts other steps");
    p->record.magic = 0;
    if (rc == SL_OK)
        p->rounds++;
    return rc;
}

// ---- all parts

// The part that is furthest behind the others, or NULL: they are level.
static struct follow_part *behind(const struct follow *f)
{
    struct follow_part *least = &f->part[0];
    bool level = true;

    for (uint32_t i = 1; i < f->count; i++) {
        level = level && f->part[i].rounds == f->part[0].rounds;
        if (f->part[i].rounds < least->rounds)
            least = &f->part[i];
    }
    return level ? NULL : least;
}

static enum sl_err bring_level(struct follow *f, struct sl_error *err)
{
    struct follow_part *p = behind(f);
    enum sl_err rc;

    if (p != NULL) {
        rc = fetch_record(f, (uint32_t)(p - f->part), err);
        return rc == SL_OK ? apply(p, err) : rc;
    }
    rank_set_place(f->rank, f->parts, f->count, f->job, f->job_incarnation,
                   (struct wire_tag){f->generation, f->part[0].rounds});
    f->parts = NULL;
    f->in_place = true;
    FAULT("follow.placed");
    return SL_OK;
}

// R3: each part has what the round brings before any takes it.
static enum sl_err run_round(struct follow *f, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++)
        rc = fetch_record(f, i, err);
    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++)
        rc = apply(&f->part[i], err);
    FAULT("follow.round");
    if (rc == SL_OK)
        f->rank->tag.sequence++;
    else
        rank_release(f->rank);
    return rc;
}

enum sl_err follow_step(struct follow *f, struct sl_error *err)
{
    for (uint32_t k = 0; !f->in_place && k < f->count; k++) {
        uint32_t i = f->next++ % f->count;

        if (!f->part[i].whole)
            return copy_piece(f, i, err);
    }
    return f->in_place ? run_round(f, err) : bring_level(f, err);
}

enum sl_err follow_to(struct follow *f, uint64_t rounds, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (!f->in_place || f->rank->tag.incarnation != f->generation ||
        f->rank->tag.sequence > rounds)
        return sl_fail(err, SL_ESTATE, "the copy is of another past");
    while (rc == SL_OK && f->rank->tag.sequence < rounds)
        rc = run_round(f, err);
    return rc;
}
