// SPDX-License-Identifier: Apache-2.0
// trainer/lease/record.c -- the counted copy of a job's JobOpen, and the map
// that follows it.
#include "trainer/lease/record.h"

#include <inttypes.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "proto/spec.h"

// Makes the forms of coded payloads, which follow the shards' pieces.
static enum sl_err record_make_coded(struct record *r)
{
    const struct layout *l = &r->layout;
    enum sl_err rc = SL_OK;

    if (!spec_coded(r->open->spec))
        return SL_OK;
    r->coded = sl_calloc(l->shards_count, sizeof(*r->coded));
    if (r->coded == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; rc == SL_OK && i < l->pieces_count; i++) {
        const struct layout_piece *piece = &l->pieces[i];

        rc = coded_add(&r->coded[piece->shard], piece->elements,
                       l->variables[piece->variable].kind == MODEL_MOVING);
    }
    return rc;
}

static enum sl_err record_make_layout(struct record *r, struct sl_error *err)
{
    const Sluice__V1__JobOpen *open = r->open;
    enum sl_err rc;

    if (open->n_pieces + open->rows_shards == 0 || open->geometry == NULL)
        return SL_OK; // not placed yet: a probe comes first
    rc = layout_make(&r->layout, open->variables, open->n_variables,
                     open->pieces, open->n_pieces, open->rows_shards, err);
    if (rc != SL_OK)
        return rc;
    r->shards = sl_malloc_array(r->layout.shards_count, sizeof(*r->shards));
    if (r->shards == NULL || record_make_coded(r) != SL_OK)
        return sl_no_memory(err);
    for (uint32_t i = 0; i < r->layout.shards_count; i++) {
        r->shards[i].first = r->layout.shards[i].first;
        r->shards[i].count = r->layout.shards[i].elements;
    }
    if (spec_allreduce(open->spec)) {
        r->first_range = r->layout.shards_count - open->rows_shards;
        for (uint32_t i = r->first_range; i < r->layout.shards_count; i++)
            r->shards[i].first = 0; // rows are in no vector
    }
    r->schedule = wire_schedule(open->geometry);
    if (r->accumulate == 0 || r->schedule.batch % r->accumulate != 0)
        return sl_fail(err, SL_EINVAL,
                       "%" PRIu64 " samples of a step are not %u micro-batches",
                       r->schedule.batch, r->accumulate);
    r->placed = r->schedule.samples > 0;
    return SL_OK;
}

enum sl_err record_new(struct record **out, const Sluice__V1__JobOpen *open,
                       struct sl_error *err)
{
    struct record *r = sl_calloc(1, sizeof(*r));
    ProtobufCMessage *copy = NULL;
    enum sl_err rc;

    if (r == NULL)
        return sl_no_memory(err);
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->shared.lock, NULL);
    rc = wire_dup(&copy, &open->base);
    r->open = (Sluice__V1__JobOpen *)copy;
    if (rc == SL_OK) {
        r->accumulate = spec_accumulate(r->open->spec);
        rc = record_make_layout(r, err);
    }
    if (rc == SL_OK && spec_skip_bad(r->open->spec) > 0) {
        r->bad = bad_new(spec_skip_bad(r->open->spec));
        if (r->bad == NULL)
            rc = sl_no_memory(err);
    }
    if (rc != SL_OK) {
        record_unref(r);
        return rc;
    }
    if (r->open->map != NULL)
        (void)record_map(r, r->open->map);
    *out = r;
    return SL_OK;
}

void record_follow(struct record *r, const struct record *before)
{
    if (r->bad == NULL || before->bad == NULL)
        return;
    bad_unref(r->bad);
    r->bad = bad_ref(before->bad);
}

struct record *record_ref(struct record *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void record_unref(struct record *r)
{
    if (r == NULL || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    if (r->open != NULL)
        wire_free(&r->open->base);
    if (r->shared.map != NULL)
        wire_free(&r->shared.map->base);
    for (uint32_t i = 0; r->coded != NULL && i < r->layout.shards_count; i++)
        coded_release(&r->coded[i]);
    sl_free(r->coded);
    layout_release(&r->layout);
    bad_unref(r->bad);
    sl_free(r->shards);
    pthread_mutex_destroy(&r->shared.lock);
    sl_free(r);
}

struct sync_ps_options record_sync(const struct record *r)
{
    const Sluice__V1__JobOpen *open = r->open;
    struct sync_ps_options o = {
        .job = open->job,
        .job_incarnation = open->job_incarnation,
        .shards = r->shards + r->first_range,
        .shards_count = r->layout.shards_count - r->first_range,
        .first_shard = r->first_range,
        .elements = r->first_range == 0 ? r->layout.elements : 0,
        .wire = spec_wire(open->spec),
        .contributions = spec_ring_rows(open->spec)
                             ? open->spec->train->contributions
                             : spec_contributions(open->spec->train),
        .tables = open->spec->model->n_tables > 0,
        .schedule = r->schedule,
        .coded = r->coded,
    };

    if (r->coded != NULL) {
        const struct spec_inner inner = spec_inner(open->spec->train);

        o.up = inner.up;
        o.down = inner.down;
        o.wire = inner.down < WIRE_TYPES ? inner.down : WIRE_F32;
    }
    if (open->token != NULL)
        o.token = (struct wire_token){open->token->low, open->token->high};
    return o;
}

enum sl_err record_fits(const struct record *r, const struct model *model,
                        struct sl_error *err)
{
    if (r->layout.elements == model->elements)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "the model has %" PRIu64
                   " parameters, but the shards %" PRIu64
                   "; coordinator and worker differ in version?",
                   model->elements, r->layout.elements);
}

uint64_t record_inner_number(const struct record *r, uint64_t closure,
                             uint32_t at)
{
    uint64_t each = schedule_closures_per_epoch(&r->schedule);
    uint64_t most = r->open->spec->train->contributions;
    uint64_t round =
        closure / each * sl_ceil_div(each, most) + closure % each / most;

    return round * r->accumulate + at;
}

// Hands the newest map to the sync, in the order of the shards. The caller
// holds the lock.
static void record_send_map_locked(struct record *r)
{
    const Sluice__V1__JobMap *map = r->shared.map;
    uint32_t count = r->layout.shards_count;
    struct sync_map_entry *entries;

    if (map == NULL || r->shared.sync == NULL)
        return;
    entries = sl_calloc(count, sizeof(*entries));
    if (entries == NULL)
        return; // out of memory: sync asks for a map again
    for (uint32_t i = 0; i < count; i++)
        entries[i].address = "";
    for (size_t i = 0; i < map->n_shards; i++) {
        const Sluice__V1__MapEntry *e = map->shards[i];

        if (e->shard < count) {
            entries[e->shard].address = e->address;
            entries[e->shard].incarnation = e->incarnation;
        }
    }
    r->shared.sync->ops->map(r->shared.sync, map->version,
                             entries + r->first_range, count - r->first_range);
    sl_free(entries);
}

// Returns a copy of `old` with the entries of `map` in place of its own; NULL
// without memory, or if `map` has a shard that `old` lacks.
static Sluice__V1__JobMap *merged(const Sluice__V1__JobMap *old,
                                  const Sluice__V1__JobMap *map)
{
    Sluice__V1__JobMap both = *old;
    ProtobufCMessage *copy = NULL;
    size_t next = 0;

    both.version = map->version;
    both.shards = sl_malloc_array(old->n_shards, sizeof(both.shards[0]));
    if (both.shards == NULL)
        return NULL;
    for (size_t i = 0; i < old->n_shards; i++) { // both are in order
        bool newer = next < map->n_shards &&
                     map->shards[next]->shard == old->shards[i]->shard;

        both.shards[i] = newer ? map->shards[next++] : old->shards[i];
    }
    if (next == map->n_shards)
        (void)wire_dup(&copy, &both.base);
    sl_free(both.shards);
    return (Sluice__V1__JobMap *)copy;
}

static Sluice__V1__JobMap *record_apply_map(const Sluice__V1__JobMap *old,
                                            const Sluice__V1__JobMap *map)
{
    ProtobufCMessage *copy = NULL;

    if (map->since != 0)
        return old != NULL && old->version == map->since ? merged(old, map)
                                                         : NULL;
    (void)wire_dup(&copy, &map->base);
    return (Sluice__V1__JobMap *)copy;
}

bool record_map(struct record *r, const Sluice__V1__JobMap *map)
{
    Sluice__V1__JobMap *newest = NULL;
    bool fits = true;

    pthread_mutex_lock(&r->shared.lock);
    if (r->shared.map == NULL || map->version >= r->shared.map->version) {
        newest = record_apply_map(r->shared.map, map);
        fits = newest != NULL;
    }
    if (newest != NULL) {
        if (r->shared.map != NULL)
            wire_free(&r->shared.map->base);
        r->shared.map = newest;
        record_send_map_locked(r);
    }
    pthread_mutex_unlock(&r->shared.lock);
    return fits;
}

void record_attach(struct record *r, struct sync *sync)
{
    pthread_mutex_lock(&r->shared.lock);
    r->shared.sync = sync;
    record_send_map_locked(r);
    pthread_mutex_unlock(&r->shared.lock);
}

void record_wake(struct record *r)
{
    pthread_mutex_lock(&r->shared.lock);
    if (r->shared.sync != NULL)
        r->shared.sync->ops->wake(r->shared.sync);
    pthread_mutex_unlock(&r->shared.lock);
}

void record_leave_out(struct record *r, const struct record_left_out *l)
{
    pthread_mutex_lock(&r->shared.lock);
    r->shared.left_out = *l;
    pthread_mutex_unlock(&r->shared.lock);
}

struct record_left_out record_left_out(struct record *r)
{
    struct record_left_out l;

    pthread_mutex_lock(&r->shared.lock);
    l = r->shared.left_out;
    pthread_mutex_unlock(&r->shared.lock);
    return l;
}
