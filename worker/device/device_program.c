// SPDX-License-Identifier: Apache-2.0
// worker/device/device_program.c -- a program on a device: its values, its
// segments, and recordings of them.
#include <string.h>

#include "common/run/log.h"
#include "common/base/mem.h"
#include "worker/device/device_inner.h"

// ---- the block

static bool changes(enum program_place place)
{
    return place != PROGRAM_CONSTANTS && place != PROGRAM_ROW_GRADS &&
           place != PROGRAM_STATS && place != PROGRAM_OUTPUTS;
}

static size_t lay(struct device_program *p, enum program_place place, size_t at)
{
    size_t bytes = program_own(p->p, place).bytes;

    p->offset[place] = at;
    return at + ((bytes + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1));
}

// Lays out the block. What changes lies together, so that it is one copy.
static size_t lay_all(struct device_program *p)
{
    size_t at = 0;

    for (unsigned i = 0; i < PROGRAM_PLACES; i++) {
        if (changes((enum program_place)i))
            at = lay(p, (enum program_place)i, at);
    }
    p->changing_bytes = at;
    at = lay(p, PROGRAM_CONSTANTS, at);
    at = lay(p, PROGRAM_ROW_GRADS, at);
    at = lay(p, PROGRAM_STATS, at);
    at = lay(p, PROGRAM_OUTPUTS, at);
    return device_check_lay(p, at);
}

static bool device_block_has(const struct device_program *p,
                             struct kern_mem own, unsigned place)
{
    return memcmp((uint8_t *)p->block.host.at + p->offset[place], own.at,
                  own.bytes) == 0;
}

static void device_block_put(struct device_program *p, struct kern_mem own,
                             unsigned place)
{
    memcpy((uint8_t *)p->block.host.at + p->offset[place], own.at, own.bytes);
}

// Copies scale, keys and rows if they have changed: not without dropout and
// tables, and with one scale.
enum sl_err device_program_upload(struct device_program *p)
{
    struct device *d = p->d;
    bool stale = false;
    enum sl_err rc;

    for (unsigned i = 0; i < PROGRAM_PLACES; i++) {
        struct kern_mem own = program_own(p->p, (enum program_place)i);

        if (own.bytes == 0 || !changes((enum program_place)i) ||
            device_block_has(p, own, i))
            continue;
        if (!stale) { // the copy for the step before may still read it
            rc = device_await(d, p->uploaded);
            if (rc != SL_OK)
                return rc;
        }
        stale = true;
        device_block_put(p, own, i);
    }
    if (!stale)
        return SL_OK;
    d->gated = true;
    rc = d->b->copy(d->in, p->block.device.at, p->block.host.at,
                    p->changing_bytes, KERN_TO_DEVICE);
    return rc == SL_OK ? d->b->event_record(p->uploaded, d->in) : rc;
}

static enum sl_err make_block(struct device_program *p)
{
    struct device *d = p->d;
    size_t bytes = lay_all(p);
    enum sl_err rc = device_pair_grow(d, &p->block, bytes);

    if (rc != SL_OK)
        return rc;
    memset(p->block.host.at, 0, bytes);
    for (unsigned i = 0; i < PROGRAM_PLACES; i++) {
        struct kern_mem own = program_own(p->p, (enum program_place)i);

        if (own.bytes > 0)
            device_block_put(p, own, i);
    }
    device_check_put(p);
    rc = d->b->copy(d->in, p->block.device.at, p->block.host.at, bytes,
                    KERN_TO_DEVICE);
    // `compute` waits for `in` at the beginning of every step.
    return rc == SL_OK ? d->b->event_record(p->uploaded, d->in) : rc;
}

// ---- segments

static void note_batch(struct device_program *p, struct device_segment *s,
                       const struct program_op *op)
{
    for (uint32_t k = 0; k < op->args; k++) {
        const struct program_arg *arg = &op->arg[k];
        size_t *bytes = arg->place == PROGRAM_X        ? &p->x_bytes
                        : arg->place == PROGRAM_LABELS ? &p->labels_bytes
                                                       : NULL;

        if (bytes == NULL)
            continue;
        s->reads_batch = true;
        if (arg->offset + arg->bytes > *bytes)
            *bytes = arg->offset + arg->bytes;
    }
}

// Marks where segments begin: before an op that waits, behind one that hands
// out.
static void mark_cuts(const struct device_program *p, bool *cut)
{
    cut[p->p->count] = true;
    for (uint32_t i = 0; p->overlap != NULL && i < p->overlap->shards; i++) {
        if (!device_touches(p, i))
            continue;
        cut[p->overlap->wait_before[i]] = true;
        cut[p->overlap->send_after[i] + 1] = true;
    }
}

// Notes the ranges that are whole behind the segment: no later op touches them.
static void note_whole(const struct device_program *p, struct device_segment *s)
{
    const struct overlap *o = p->overlap;

    while (o != NULL && s->whole_end < o->shards &&
           o->send_after[o->by_send[s->whole_end]] < s->end)
        s->whole_end++;
}

static enum sl_err make_segments(struct device_program *p)
{
    uint32_t ops = p->p->count, count = 0;
    bool *cut = sl_calloc((size_t)ops + 1, sizeof(*cut));

    if (cut == NULL)
        return SL_ENOMEM;
    mark_cuts(p, cut);
    for (uint32_t i = 1; i <= ops; i++)
        count += cut[i];
    p->segments = sl_calloc((size_t)count + 1, sizeof(*p->segments));
    if (p->segments == NULL) {
        sl_free(cut);
        return SL_ENOMEM;
    }
    for (uint32_t i = 0; i < ops; i++) {
        struct device_segment *s = &p->segments[p->segments_count];

        note_batch(p, s, &p->p->ops[i]);
        if (!cut[i + 1])
            continue;
        s->end = i + 1;
        note_whole(p, s);
        s[1].first = i + 1;
        s[1].whole_first = s[1].whole_end = s->whole_end;
        p->segments_count++;
    }
    sl_free(cut);
    return SL_OK;
}

// ---- recordings

static uint64_t device_program_moves(const struct device_program *p)
{
    return p->d->moved + p->p->memory->moved; // both counts only rise
}

static void device_program_fill_places(uint8_t *at[PROGRAM_PLACES],
                                       const struct device_program *p)
{
    const struct device *d = p->d;

    for (unsigned i = 0; i < PROGRAM_PLACES; i++)
        at[i] = (uint8_t *)p->block.device.at + p->offset[i];
    at[PROGRAM_ARENA] = p->p->memory->arena.at;
    at[PROGRAM_PARAMS] = d->params.device.at;
    at[PROGRAM_GRADS] = d->grads.device.at;
    at[PROGRAM_X] = d->slot[d->at].x.device.at;
    at[PROGRAM_LABELS] = d->slot[d->at].labels.device.at;
}

static enum sl_err enqueue(struct device_program *p,
                           const struct device_segment *s, struct pulse *pulse,
                           struct sl_error *err)
{
    uint8_t *at[PROGRAM_PLACES];
    enum sl_err rc;

    device_program_fill_places(at, p);
    rc = program_enqueue(p->p, p->d->compute, at, s->first, s->end, pulse, err);
    if (rc != SL_OK)
        return rc;
    rc = device_check_enqueue(p, s);
    return rc == SL_OK ? rc
                       : device_fail(p->d, rc, "looking at a gradient", err);
}

// Records a segment. Only `compute` records, and only what is enqueued on it:
// the ops.
static enum sl_err record(struct device_program *p,
                          const struct device_segment *s,
                          struct kern_plan **out, struct sl_error *err)
{
    struct device *d = p->d;
    struct kern_plan *plan = NULL;
    enum sl_err rc = d->b->record_begin(d->compute), end;

    if (rc != SL_OK)
        return device_fail(d, rc, "recording a step", err);
    rc = enqueue(p, s, NULL, err);
    end = d->b->record_end(&plan, d->compute);
    if (rc == SL_OK && end != SL_OK)
        rc = device_fail(d, end, "recording a step", err);
    if (rc != SL_OK)
        kern_plan_free(plan);
    else
        *out = plan;
    return rc;
}

// Gives up recording: starting kernels one by one is slower, but right.
static void do_without(struct device_program *p, const struct sl_error *err)
{
    p->direct = true;
    LOG(WARN, "step cannot be recorded; its kernels are started one by one",
        "device=%s batch=%u error=%s", p->d->b->name, p->p->batch, err->text);
}

enum sl_err device_program_run(struct device_program *p,
                               struct device_segment *s, struct pulse *pulse,
                               struct sl_error *err)
{
    unsigned slot = s->reads_batch ? p->d->at : 0;
    struct kern_plan **plan = &s->recorded[slot].plan;
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc;

    if (!p->warm || p->direct ||
        s->end - s->first + s->whole_end - s->whole_first < 2)
        return enqueue(p, s, pulse, err);
    if (*plan == NULL || s->recorded[slot].moved != device_program_moves(p)) {
        kern_plan_free(*plan); // a plan under way is freed when it has run
        *plan = NULL;
        rc = record(p, s, plan, &why);
        if (rc == SL_ELOST)
            return sl_fail(err, rc, "%s", why.text);
        if (rc != SL_OK) {
            do_without(p, &why);
            return enqueue(p, s, pulse, err);
        }
        s->recorded[slot].moved = device_program_moves(p);
    }
    rc = kern_run(*plan, p->d->compute, NULL, NULL);
    pulse_beat(pulse);
    return rc == SL_OK ? rc : device_fail(p->d, rc, "a recorded step", err);
}

// ---- making and freeing

static enum sl_err make_done(struct device *d, uint32_t count)
{
    struct kern_event **more;
    enum sl_err rc = SL_OK;

    if (count <= d->done_count)
        return SL_OK;
    more = sl_realloc_array(d->done, count, sizeof(struct kern_event *));
    if (more == NULL)
        return SL_ENOMEM;
    d->done = more;
    while (d->done_count < count && rc == SL_OK) {
        rc = d->b->event_new(&d->done[d->done_count], d->dev);
        d->done_count += rc == SL_OK;
    }
    return rc;
}

enum sl_err device_place(struct device_program **out, struct device *d,
                         struct program *program, const struct overlap *overlap,
                         const struct elements *ranges,
                         const struct model *clips, struct sl_error *err)
{
    struct device_program *p = sl_calloc(1, sizeof(*p));
    enum sl_err rc;

    if (p == NULL)
        return sl_no_memory(err);
    p->d = d;
    p->p = program;
    p->overlap = overlap;
    p->ranges = ranges;
    p->clips = overlap == NULL ? NULL : clips;
    rc = overlap == NULL ? SL_OK : make_done(d, overlap->shards);
    if (rc == SL_OK)
        rc = d->b->event_new(&p->uploaded, d->dev);
    if (rc == SL_OK)
        rc = d->b->event_new(&p->stats, d->dev);
    if (rc == SL_OK)
        rc = d->b->event_new(&p->rows, d->dev);
    if (rc == SL_OK)
        rc = make_segments(p);
    if (rc == SL_OK)
        rc = make_block(p);
    if (rc != SL_OK)
        rc = device_fail(d, rc, "a program's memory on the device", err);
    else
        rc = device_check_make(p, err);
    if (rc != SL_OK) {
        device_program_free(p);
        return rc;
    }
    *out = p;
    return SL_OK;
}

void device_program_free(struct device_program *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->segments_count; i++) {
        for (unsigned k = 0; k < DEVICE_SLOTS; k++)
            kern_plan_free(p->segments[i].recorded[k].plan);
    }
    sl_free(p->segments);
    device_check_free(p);
    device_pair_release(p->d, &p->block);
    p->d->b->event_free(p->uploaded);
    p->d->b->event_free(p->stats);
    p->d->b->event_free(p->rows);
    sl_free(p);
}
