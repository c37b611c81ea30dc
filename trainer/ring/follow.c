// SPDX-License-Identifier: Apache-2.0
// trainer/ring/follow.c -- a state that is copied part by part and then follows
// the rounds of the ranks that have it.
#include "trainer/ring/follow.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "trainer/ring/packed.h"
#include "trainer/ring/rank_inner.h"

#define FETCH_BYTES ((uint64_t)4 << 20) // most bytes of one piece

struct follow_part {
    struct shard *shard; // the copy's, then the rank's
    // The image.
    struct feed_image head; // magic 0: not fetched yet
    bool counts;            // its CountedSet and ShardCounts are fetched
    uint64_t have;          // bytes of its memory that are fetched
    bool whole;
    uint64_t rounds;
    // The next round.
    struct feed_record record; // magic 0: not fetched yet
    uint8_t *bytes; // the record behind its head, or an image's set; owned
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

// ---- images

static enum sl_err follow_reserve(struct follow_part *p, size_t size,
                                  struct sl_error *err)
{
    uint8_t *bytes = sl_realloc_array(p->bytes, size, 1);

    if (bytes == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a copy of the state");
    p->bytes = bytes;
    p->size = size;
    p->got = 0;
    return SL_OK;
}

static size_t counts_bytes(const struct follow_part *p)
{
    return (size_t)(p->head.set_bytes + p->head.counts_bytes);
}

// Fills *get with the next piece of a part's image: its head, what it counts,
// its memory. Returns false if the image is whole.
static bool want_image(struct follow *f, uint32_t i, struct follow_get *get)
{
    struct follow_part *p = &f->part[i];
    size_t n;

    if (p->whole)
        return false;
    *get = (struct follow_get){.ask = {.follower = f->id, .part = i}};
    if (p->head.magic == 0) {
        get->into = &p->head;
        get->ask.bytes = sizeof(p->head);
        return true;
    }
    get->ask.offset = sizeof(p->head);
    if (!p->counts) {
        get->into = p->bytes;
        get->ask.bytes = p->size;
        return true;
    }
    get->ask.offset += counts_bytes(p) + p->have;
    get->into = shard_memory_at(p->shard, (size_t)p->have, &n);
    get->ask.bytes = (size_t)sl_min(FETCH_BYTES, n);
    return true;
}

static enum sl_err take_image_head(struct follow_part *p, uint32_t i,
                                   struct sl_error *err)
{
    const struct feed_image head = p->head;

    if (head.magic == FEED_IMAGE_MAGIC &&
        head.memory_bytes == shard_bytes(p->shard) && counts_bytes(p) > 0 &&
        head.set_bytes <= FETCH_BYTES && head.counts_bytes <= FETCH_BYTES)
        return follow_reserve(p, counts_bytes(p), err);
    p->head.magic = 0;
    return sl_fail(err, SL_ECORRUPT,
                   "the image of part %" PRIu32 " has %" PRIu64
                   " bytes of memory: it belongs to another job",
                   i, head.memory_bytes);
}

static enum sl_err follow_read_counts(struct follow_part *p,
                                      struct sl_error *err)
{
    struct once once;
    enum sl_err rc =
        packed_read(&once, &p->shard->plan.schedule, p->shard->plan.piece_count,
                    p->bytes, p->head.set_bytes, p->head.counts_bytes, err);

    if (rc != SL_OK)
        return rc;
    once_release(&p->shard->once);
    p->shard->once = once;
    p->rounds = p->head.rounds;
    p->counts = true;
    return SL_OK;
}

static enum sl_err take_image(struct follow *f, uint32_t i,
                              const struct follow_get *get,
                              struct sl_error *err)
{
    struct follow_part *p = &f->part[i];

    if (get->into == &p->head)
        return take_image_head(p, i, err);
    if (!p->counts)
        return follow_read_counts(p, err);
    FAULT("follow.piece");
    p->have += get->ask.bytes;
    p->whole = p->have == p->head.memory_bytes;
    return SL_OK;
}

// ---- records

static uint64_t follow_part_steps(const struct follow_part *p)
{
    return counted_steps(&p->shard->once.counted);
}

static bool has_record(const struct follow_part *p)
{
    return p->record.magic != 0 && p->got == p->size;
}

// Fills *get with the next piece of a part's next record. Returns false if none
// is wanted.
static bool want_record(struct follow *f, uint32_t i, struct follow_get *get)
{
    struct follow_part *p = &f->part[i];

    if (!p->whole || has_record(p))
        return false;
    *get = (struct follow_get){.ask = {.follower = f->id,
                                       .part = i,
                                       .record = true,
                                       .after = follow_part_steps(p),
                                       .all = f->in_place}};
    if (p->record.magic == 0) {
        get->into = &p->record;
        get->ask.bytes = sizeof(p->record);
        return true;
    }
    get->into = p->bytes + p->got;
    get->ask.offset = sizeof(p->record) + p->got;
    get->ask.bytes = (size_t)sl_min(FETCH_BYTES, p->size - p->got);
    return true;
}

static size_t absent_bytes(const struct follow_part *p)
{
    return p->record.skip == FEED_ABSENT ? (p->shard->plan.piece_count + 7) / 8
                                         : 0;
}

static enum sl_err take_record_head(struct follow_part *p, uint32_t i,
                                    struct sl_error *err)
{
    const struct feed_record r = p->record;

    if (r.magic == FEED_RECORD_MAGIC && r.before == follow_part_steps(p) &&
        r.rounds == p->rounds + 1 && r.keys > 0 &&
        r.keys <= WIRE_CONTRIBUTIONS_MAX && r.skip <= FEED_ABSENT &&
        r.average_bytes ==
            (r.skip == FEED_SKIP ? 0 : plan_values_bytes(&p->shard->plan)))
        return follow_reserve(p,
                              (size_t)(r.keys * sizeof(struct feed_key) +
                                       r.average_bytes + absent_bytes(p)),
                              err);
    p->record.magic = 0;
    return sl_fail(err, SL_ECORRUPT,
                   "a record of part %" PRIu32 " does not follow round "
                   "%" PRIu64,
                   i, p->rounds);
}

static enum sl_err take_record(struct follow *f, uint32_t i,
                               const struct follow_get *get,
                               struct sl_error *err)
{
    struct follow_part *p = &f->part[i];

    if (get->into == &p->record)
        return take_record_head(p, i, err);
    p->got += get->ask.bytes;
    return SL_OK;
}

static enum sl_err follow_apply_record(struct follow_part *p,
                                       struct sl_error *err)
{
    size_t n = (size_t)p->record.keys;
    struct once_step *steps = sl_calloc(n, sizeof(*steps));
    struct update u = {
        .gradient = (const float *)(p->bytes + n * sizeof(struct feed_key)),
        .steps = steps,
        .count = n,
        .absent = p->bytes + p->size - absent_bytes(p),
        .absent_bytes = absent_bytes(p)};
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
                                      .skip = p->record.skip == FEED_SKIP};
    }
    rc = update_shard(p->shard, &u, NULL, err);
    sl_free(steps);
    if (rc == SL_OK && follow_part_steps(p) != p->record.after)
        rc = sl_fail(err, SL_ECORRUPT, "a record counts other steps");
    p->record.magic = 0;
    if (rc == SL_OK)
        p->rounds++;
    return rc;
}

// ---- all parts

struct kind {
    bool (*want)(struct follow *f, uint32_t i, struct follow_get *get);
    enum sl_err (*take)(struct follow *f, uint32_t i,
                        const struct follow_get *get, struct sl_error *err);
};

static const struct kind images = {want_image, take_image};
static const struct kind records = {want_record, take_record};

// Fetches what up to FOLLOW_AT_ONCE parts, of those whose rounds are below
// `below`, want. *asked: the number of pieces; 0 if no part wants any.
static enum sl_err fetch(struct follow *f, const struct kind *kind,
                         uint64_t below, size_t *asked, struct sl_error *err)
{
    struct follow_get gets[FOLLOW_AT_ONCE];
    struct sl_error took = SL_ERROR_INIT;
    enum sl_err rc = SL_OK, bad = SL_OK;
    size_t n = 0;

    for (uint32_t k = 0; k < f->count && n < FOLLOW_AT_ONCE; k++) {
        uint32_t i = (f->first + k) % f->count;

        if (f->part[i].rounds < below && kind->want(f, i, &gets[n]))
            n++;
    }
    *asked = n;
    if (n > 0)
        rc = f->fetch(f->arg, gets, n, err);
    for (size_t k = 0; k < n; k++) {
        uint32_t i = gets[k].ask.part;

        if (gets[k].rc == SL_OK && bad == SL_OK)
            bad = kind->take(f, i, &gets[k], &took);
        else if (gets[k].into == &f->part[i].record)
            // A head that is not whole counts as missing.
            f->part[i].record.magic = 0;
        else if (gets[k].into == &f->part[i].head)
            f->part[i].head.magic = 0;
    }
    if (bad != SL_OK && err != NULL)
        *err = took;
    return bad != SL_OK ? bad : rc;
}

static bool all_whole(const struct follow *f)
{
    bool whole = true;

    for (uint32_t i = 0; i < f->count; i++)
        whole = whole && f->part[i].whole;
    return whole;
}

static uint64_t follow_newest_round(const struct follow *f)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < f->count; i++)
        if (f->part[i].counts && f->part[i].rounds > most)
            most = f->part[i].rounds;
    return most;
}

// Fetches and applies records of the parts that are whole and behind the newest
// image or part. *any: there were such parts.
static enum sl_err bring_on(struct follow *f, bool *any, struct sl_error *err)
{
    uint64_t to = follow_newest_round(f);
    size_t asked;
    enum sl_err rc = fetch(f, &records, to, &asked, err);
    enum sl_err applied = SL_OK;

    *any = asked > 0;
    for (uint32_t i = 0; applied == SL_OK && i < f->count; i++) {
        struct follow_part *p = &f->part[i];

        if (p->whole && p->rounds < to && has_record(p)) {
            applied = follow_apply_record(p, err);
            *any = true;
        }
    }
    return applied != SL_OK ? applied : rc;
}

static void follow_place_state(struct follow *f)
{
    rank_set_place(f->rank, f->parts, f->count, f->job, f->job_incarnation,
                   (struct wire_tag){f->generation, f->part[0].rounds});
    f->parts = NULL;
    f->in_place = true;
    FAULT("follow.placed");
}

static enum sl_err follow_copy_step(struct follow *f, struct sl_error *err)
{
    bool any = false;
    size_t asked;
    enum sl_err rc = SL_OK;

    f->records = !f->records || all_whole(f);
    if (f->records)
        rc = bring_on(f, &any, err);
    if (rc != SL_OK || any)
        return rc;
    rc = fetch(f, &images, UINT64_MAX, &asked, err);
    if (rc == SL_OK && asked == 0)
        follow_place_state(f);
    return rc;
}

// Applies one round. R3: each part has what the round brings before any part
// takes it.
static enum sl_err follow_run_round(struct follow *f, struct sl_error *err)
{
    size_t asked = 0;
    enum sl_err rc = SL_OK;

    do {
        rc = fetch(f, &records, UINT64_MAX, &asked, err);
    } while (rc == SL_OK && asked > 0);
    if (rc == SL_EBUSY) // tells all ranks in turn how far we are
        f->first = (f->first + FOLLOW_AT_ONCE) % f->count;
    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++)
        rc = follow_apply_record(&f->part[i], err);
    FAULT("follow.round");
    if (rc == SL_OK)
        f->rank->tag.sequence++;
    else
        rank_release(f->rank);
    return rc;
}

enum sl_err follow_step(struct follow *f, struct sl_error *err)
{
    return f->in_place ? follow_run_round(f, err) : follow_copy_step(f, err);
}

enum sl_err follow_to(struct follow *f, uint64_t rounds, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (!f->in_place || f->rank->tag.incarnation != f->generation ||
        f->rank->tag.sequence > rounds)
        return sl_fail(
            err, SL_ESTATE,
            "the copied state and the base did not run the same rounds");
    while (rc == SL_OK && f->rank->tag.sequence < rounds)
        rc = follow_run_round(f, err);
    return rc;
}
