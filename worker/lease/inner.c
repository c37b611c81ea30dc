// SPDX-License-Identifier: Apache-2.0
// worker/lease/inner.c -- the steps that a worker takes by itself; see inner.h.
#include "worker/lease/inner.h"

#include <string.h>

#include "common/base/mem.h"
#include "proto/spec.h"
#include "state/base/element.h"
#include "state/base/finite.h"
#include "state/shard/apply.h"
#include "trainer/ring/rank.h"

struct inner {
    const struct record *record;
    struct plan *plans; // of the shards; of all with the job's optimizer
    uint32_t count;
    uint64_t elements;
    unsigned slots_count;
    bool keep;
    float *base; // parameters of the round; NULL in a stream
    float *mark; // parameters behind a closure; NULL: a round has one
    // Of a stream: what steps compute with, if no device has it; owned. Else
    // NULL.
    float *own[2];
    double blend;   // of a stream
    uint8_t *parts; // of a stream: the fragment of each shard; else NULL
    float *slots;   // slot behind slot, each of all elements
    uint64_t t;     // updates since the slots were reset
    bool open;      // a contribution is under way
    struct spec_moments moments; // that shards keep; without vectors: none
    uint8_t *left; // moments on their way, shard by shard; or NULL
    bool begun;    // it has taken a step
};

static struct apply_memory inner_memory(const struct inner *in, uint32_t shard,
                                        float *params)
{
    uint64_t first = in->record->shards[shard].first;
    struct apply_memory m = {.values = params + first};

    for (unsigned k = 0; k < in->slots_count; k++)
        m.slots[k] = in->slots + k * in->elements + first;
    return m;
}

static void inner_reset(struct inner *in)
{
    const struct optim *o = &in->plans[0].optim;

    for (unsigned k = 0; k < in->slots_count; k++)
        for (uint64_t i = 0; i < in->elements; i++)
            in->slots[k * in->elements + i] = optim_slot_init(o, k);
    in->t = 0;
}

static void inner_share_out(struct inner *in, uint32_t fragments)
{
    struct fragments f = fragments_begin(fragments);

    for (uint32_t i = 0; i < in->count; i++)
        in->parts[i] = (uint8_t)fragments_add(&f, in->record->shards[i].count);
}

// Makes the vectors; the sync has the base of a stream. Returns false without
// memory.
static bool inner_make_vectors(struct inner *in,
                               const Sluice__V1__TrainSpec *train,
                               bool on_device)
{
    size_t n = (size_t)in->elements;
    bool streams = spec_streams(train), marks = spec_sets(train) || streams;

    in->slots = sl_malloc_array(n * in->slots_count, sizeof(*in->slots));
    if (in->moments.vectors > 0)
        in->left = sl_malloc_array(n * in->slots_count,
                                   wire_type_bytes(in->moments.wire));
    if (marks)
        in->mark = sl_malloc_array(n, sizeof(*in->mark));
    if (streams)
        in->parts = sl_malloc(in->count);
    else
        in->base = sl_malloc_array(n, sizeof(*in->base));
    for (unsigned i = 0; streams && !on_device && i < 2; i++)
        in->own[i] = sl_aligned(64, n * sizeof(float));
    if (in->slots == NULL || (in->moments.vectors > 0 && in->left == NULL) ||
        (marks && in->mark == NULL) ||
        (streams ? in->parts == NULL : in->base == NULL) ||
        (streams && !on_device && (in->own[0] == NULL || in->own[1] == NULL)))
        return false;
    if (in->own[1] != NULL) // elements that no op writes stay 0
        memset(in->own[1], 0, n * sizeof(float));
    return true;
}

static enum sl_err inner_make(struct inner *in, bool on_device,
                              struct sl_error *err)
{
    const Sluice__V1__TrainSpec *train = in->record->open->spec->train;
    const struct rank_job job = {.open = in->record->open};
    enum sl_err rc = rank_plans(&in->plans, &in->count, &job, NULL, err);
    struct spec_inner spec = spec_inner(train);

    if (rc != SL_OK)
        return rc;
    in->elements = in->record->layout.elements;
    in->slots_count = optim_slots(&in->plans[0].optim);
    in->keep = spec.keep;
    in->blend = spec.blend;
    in->moments = spec_moments(in->record->open->spec);
    if (!inner_make_vectors(in, train, on_device))
        return sl_no_memory(err);
    if (in->parts != NULL)
        inner_share_out(in, spec_fragments(train));
    inner_reset(in);
    return SL_OK;
}

enum sl_err inner_new(struct inner **out, const struct record *record,
                      bool on_device, struct sl_error *err)
{
    struct inner *in;
    enum sl_err rc;

    if (!spec_local(record->open->spec)) {
        *out = NULL;
        return SL_OK;
    }
    in = sl_calloc(1, sizeof(*in));
    if (in == NULL)
        return sl_no_memory(err);
    in->record = record;
    rc = inner_make(in, on_device, err);
    if (rc != SL_OK) {
        inner_free(in);
        return rc;
    }
    *out = in;
    return SL_OK;
}

void inner_free(struct inner *in)
{
    if (in == NULL)
        return;
    rank_plans_free(in->plans, in->count);
    sl_free(in->base);
    sl_free(in->mark);
    sl_free(in->own[0]);
    sl_free(in->own[1]);
    sl_free(in->parts);
    sl_free(in->slots);
    sl_free(in->left);
    sl_free(in);
}

uint64_t inner_bytes(const struct inner *in)
{
    return in == NULL ? 0
                      : in->elements * sizeof(float) *
                            ((in->base != NULL) + in->slots_count +
                             (in->left != NULL) * in->slots_count +
                             (in->mark != NULL) +
                             2 * (in->parts != NULL)); // or the sync's
}

// ---- moments that shards keep (L9)

bool inner_asks(const struct inner *in, struct sync_moments *m)
{
    if (in == NULL || in->moments.vectors == 0 || in->begun)
        return false;
    m->vectors = in->slots_count;
    m->wire = in->moments.wire;
    m->to = in->slots;
    m->elements = in->elements;
    return true;
}

void inner_go_on(struct inner *in, uint64_t t)
{
    if (t == 0)
        inner_reset(in);
    in->t = t;
}

bool inner_leaves(const struct inner *in, uint64_t closure)
{
    return in->moments.vectors > 0 && closure % in->moments.every == 0;
}

void inner_leave(struct inner *in, uint32_t shard, struct sync_step *step)
{
    const struct elements *e = &in->record->shards[shard];
    size_t each = e->count * wire_type_bytes(in->moments.wire);
    uint8_t *to = in->left + e->first * wire_type_bytes(in->moments.wire) *
                                 in->slots_count;

    for (unsigned k = 0; k < in->slots_count; k++)
        element_write(in->moments.wire, e->count, to + k * each,
                      in->slots + k * in->elements + e->first);
    if (in->t == 0 ||
        !finite_all(in->moments.wire, to, e->count * in->slots_count))
        return;
    step->rows = to;
    step->rows_bytes = each * in->slots_count;
    step->moments_t = in->t;
}

void inner_begin(struct inner *in, const float *params)
{
    memcpy(in->base, params, (size_t)in->elements * sizeof(*params));
    if (!in->keep)
        inner_reset(in);
    in->open = true;
}

void inner_mark(struct inner *in, const float *params)
{
    if (in->mark != NULL)
        memcpy(in->mark, params, (size_t)in->elements * sizeof(*params));
}

void inner_undo(const struct inner *in, float *params)
{
    memcpy(params, in->mark, (size_t)in->elements * sizeof(*params));
}

void inner_update(struct inner *in, uint64_t closure, uint32_t at,
                  const float *grads, float *params)
{
    struct apply_step step = {
        .t = ++in->t,
        .rate = rate_at(&in->plans[0].rate,
                        record_inner_number(in->record, closure, at)),
        .moves = 1};

    in->begun = true;
    for (uint32_t i = 0; i < in->count; i++) {
        struct apply_memory to = inner_memory(in, i, params);
        struct sl_slice one = {
            (const uint8_t *)(grads + in->record->shards[i].first),
            plan_values_bytes(&in->plans[i])};
        struct sl_slices payload = slices_one(&one);

        apply_update(&in->plans[i], &to, WIRE_F32, &payload, &step, NULL);
    }
}

// Writes what is pushed of a run of elements.
static void inner_run_change(bool moving, uint64_t first, uint64_t n,
                             const float *base, const float *params,
                             float *grads)
{
    for (uint64_t i = first; i < first + n; i++)
        grads[i] = moving ? params[i] : base[i] - params[i];
}

void inner_change(const struct inner *in, uint32_t shard, const float *base,
                  const float *params, float *grads)
{
    for (size_t k = 0; k < in->plans[shard].run_count; k++) {
        const struct plan_run *run = &in->plans[shard].runs[k];

        inner_run_change(run->moving,
                         in->record->shards[shard].first + run->first,
                         run->elements, base, params, grads);
    }
}

void inner_finish(struct inner *in, float *params, float *grads)
{
    for (uint32_t i = 0; i < in->count; i++)
        inner_change(in, i, in->base, params, grads);
    inner_cancel(in, params);
}

// ---- streams

float *const *inner_own(const struct inner *in)
{
    return in->own;
}

uint32_t inner_fragment(const struct inner *in, uint32_t shard)
{
    return in->parts[shard];
}

void inner_merge(const struct inner *in, uint32_t shard, const float *base,
                 float *params)
{
    const struct elements *e = &in->record->shards[shard];
    float mine = (float)in->blend;

    for (uint64_t i = e->first; i < e->first + e->count; i++) {
        params[i] = mine * params[i] + (1 - mine) * base[i];
        in->mark[i] = mine * in->mark[i] + (1 - mine) * base[i];
    }
}

void inner_cancel(struct inner *in, float *params)
{
    if (in != NULL && in->open)
        memcpy(params, in->base, (size_t)in->elements * sizeof(*params));
    if (in != NULL)
        in->open = false;
}
