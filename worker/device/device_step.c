// SPDX-License-Identifier: Apache-2.0
// worker/device/device_step.c -- the parts of a step on a device; see device.h
// for what waits for what.
//
// Why nothing is overwritten while it is read:
//   - Parameters, scale and keys on the device: `in` waits for `computed` when
//     a step begins, and all of these copies come after that.
//   - A slot: `in` waits for its `used`. Its pinned half, and a batch that is
//     pinned itself: the host waits for its `copied`.
//   - A range of the host's parameters is read by the copy that fresh() makes.
//     The sync does not write to it before the range is sent, which is after
//     take(): by then ops that waited for the copy are done.
//   - A range of the host's gradient is written after the sync was waited for
//     (before its first op), and not after take().
//   - A range of the device's gradient, and the loss there: the step before
//     was taken, or settled. A step that is held gave out its loss alone.
// A step that is given up is settled.
#include <assert.h>
#include <string.h>

#include "worker/device/device_inner.h"

// ---- batches

// Copies a part of a batch to the device, by way of the pinned half unless the
// input's memory is pinned itself.
static enum sl_err device_copy_in(struct device *d, struct device_pair *to,
                                  const void *from, size_t bytes, bool pinned)
{
    enum sl_err rc = SL_OK;

    if (bytes == 0)
        return SL_OK;
    if (!pinned) {
        rc = device_grow(d, &to->host, bytes, KERN_HOST);
        if (rc != SL_OK)
            return rc;
        memcpy(to->host.at, from, bytes);
        from = to->host.at;
    }
    return d->b->copy(d->in, to->device.at, from, bytes, KERN_TO_DEVICE);
}

// Makes a slot large enough. Rarely needed: for a batch larger than all before.
// Then no other copy or op uses this slot, except a batch that was staged in
// vain.
static enum sl_err slot_grow(struct device *d, struct device_slot *s, size_t x,
                             size_t labels)
{
    enum sl_err rc;

    if (s->x.device.bytes >= x && s->labels.device.bytes >= labels &&
        s->x.device.at != NULL && s->labels.device.at != NULL)
        return SL_OK;
    d->moved++;
    rc = d->b->event_sync(s->copied);
    if (rc == SL_OK)
        rc = d->b->event_sync(s->used);
    if (rc == SL_OK)
        rc = device_grow(d, &s->x.device, x, KERN_DEVICE);
    return rc == SL_OK ? device_grow(d, &s->labels.device, labels, KERN_DEVICE)
                       : rc;
}

// Puts the batch into a slot: into pinned memory now, to the device when the
// ops that read the slot last are done.
static enum sl_err slot_fill(struct device_program *p, struct device_slot *s,
                             const struct batch *batch, uint32_t n)
{
    struct device *d = p->d;
    size_t x = p->x_bytes / p->p->batch * n;
    size_t labels = p->labels_bytes / p->p->batch * n;
    enum sl_err rc = slot_grow(d, s, x, labels);

    if (rc == SL_OK)
        rc = device_await(d, s->copied);
    device_slot_unstage(s); // a batch in the slot was staged in vain
    if (rc == SL_OK)
        rc = d->b->event_wait(d->in, s->used);
    if (rc == SL_OK)
        rc = device_copy_in(d, &s->x, batch->x, x, batch->pinned);
    if (rc == SL_OK)
        rc = device_copy_in(d, &s->labels, batch->y, labels, batch->pinned);
    return rc == SL_OK ? d->b->event_record(s->copied, d->in) : rc;
}

static struct device_slot *next_slot(struct device *d)
{
    return &d->slot[(d->at + 1) % DEVICE_SLOTS];
}

enum sl_err device_stage(struct device *d, const void *run, struct input *in,
                         const struct batch *batch, uint32_t n,
                         struct sl_error *err)
{
    struct device_slot *s = next_slot(d);
    enum sl_err rc;

    assert(d->p != NULL && d->segment == d->p->segments_count);
    rc = slot_fill(d->p, s, batch, n);
    if (rc != SL_OK)
        return device_fail(d, rc, "copying a batch to the device", err);
    s->staged = true;
    s->run = run;
    s->batch = *batch;
    s->n = n;
    s->lender = batch->pinned ? in : NULL;
    if (batch->pinned)
        return SL_OK;
    s->batch.x = NULL;
    s->batch.y = NULL;
    return SL_OK;
}

bool device_staged(struct device *d, const void *run, uint32_t step,
                   struct batch *out)
{
    const struct device_slot *s = next_slot(d);

    if (!s->staged || s->run != run || s->batch.step != step)
        return false;
    *out = s->batch;
    return true;
}

enum sl_err device_free_batch(struct device *d, const struct batch *batch)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < DEVICE_SLOTS && batch->pinned; i++) {
        struct device_slot *s = &d->slot[i];

        if (s->batch.x != batch->x)
            continue;
        s->staged = false; // no step begins with it
        s->lender = NULL;
        rc = device_await(d, s->copied);
    }
    return rc;
}

// ---- before the ops

enum sl_err device_begin(struct device *d, struct device_program *p,
                         const struct batch *batch, enum device_way way,
                         struct sl_error *err)
{
    struct device_slot *s = next_slot(d);
    enum sl_err rc = SL_OK;

    if (s->staged && s->batch.x == batch->x) {
        assert(s->n == p->p->batch);
    } else {
        assert(batch->x != NULL && batch->n >= p->p->batch);
        rc = slot_fill(p, s, batch, p->p->batch);
        s->batch = *batch;
    }
    s->staged = false;
    s->lender = NULL; // the caller gives it back
    d->at = (d->at + 1) % DEVICE_SLOTS;
    d->p = p;
    d->segment = 0;
    d->loss_sent = false;
    d->held = way == DEVICE_HOLDS;
    d->kept = way == DEVICE_KEEPS;
    d->summed = way == DEVICE_SUMS;
    d->gated = true;
    if (rc == SL_OK)
        rc = d->b->event_wait(d->in, d->computed);
    if (rc == SL_OK)
        rc = device_program_upload(p);
    return rc == SL_OK ? rc : device_fail(d, rc, "beginning a step", err);
}

static enum sl_err copy_params(struct device *d, const float *from,
                               size_t first, size_t bytes, struct sl_error *err)
{
    float *to = (float *)d->params.device.at + first;
    enum sl_err rc = d->b->copy(d->in, to, from, bytes, KERN_TO_DEVICE);

    d->gated = true;
    return rc == SL_OK
               ? rc
               : device_fail(d, rc, "copying parameters to the device", err);
}

enum sl_err device_fresh(struct device *d, const float *params, uint32_t range,
                         struct sl_error *err)
{
    const struct elements *r = &d->p->ranges[range];

    if (!device_touches(d->p, range))
        return SL_OK;
    d->name = 0;
    return copy_params(d, params + r->first, (size_t)r->first,
                       (size_t)r->count * sizeof(float), err);
}

enum sl_err device_vector(struct device *d, const float *params, uint64_t name,
                          struct sl_error *err)
{
    enum sl_err rc;

    if (d->name == name)
        return SL_OK;
    rc = resident_make_way(d->resident, err);
    if (rc == SL_OK)
        rc = copy_params(d, params, 0, d->params.device.bytes, err);
    d->name = rc == SL_OK ? name : 0;
    return rc;
}

// ---- the ops

// Makes the following ops on `compute` wait for all that `in` was given so far:
// it works in order, so this is the batch, the values and the fresh parameters.
static enum sl_err gate(struct device *d)
{
    enum sl_err rc;

    if (!d->gated)
        return SL_OK;
    d->gated = false;
    rc = d->b->event_record(d->arrived, d->in);
    return rc == SL_OK ? d->b->event_wait(d->compute, d->arrived) : rc;
}

// Copies bytes [from, end) of the program's block to the host.
static enum sl_err copy_words(struct device *d, size_t from, size_t end)
{
    struct device_program *p = d->p;

    return d->b->copy(d->out, (uint8_t *)p->block.host.at + from,
                      (uint8_t *)p->block.device.at + from, end - from,
                      KERN_TO_HOST);
}

// Sends the loss out first, so that it is known when any gradient is; and with
// it the words behind it up to `end`: those of ranges and of variables.
static enum sl_err device_send_words(struct device *d, size_t end)
{
    struct device_program *p = d->p;
    size_t at = p->offset[PROGRAM_STATS];
    size_t least =
        p->offset[PROGRAM_OUTPUTS] + program_own(p->p, PROGRAM_OUTPUTS).bytes;
    enum sl_err rc;

    if (d->loss_sent)
        return SL_OK;
    d->loss_sent = true;
    if (end < least)
        end = least;
    rc = copy_words(d, at, end);
    return rc == SL_OK ? d->b->event_record(p->stats, d->out) : rc;
}

// Sends out the words of ranges [first, end) of overlap.by_send.
static enum sl_err device_send_range_words(struct device *d, uint32_t first,
                                           uint32_t end)
{
    size_t at = d->p->check.ranges_at;

    if (!d->loss_sent) // with the words of ranges before, which no op touches
        return device_send_words(d, at + end * 2 * sizeof(double));
    return copy_words(d, at + first * 2 * sizeof(double),
                      at + end * 2 * sizeof(double));
}

static enum sl_err device_hand_out_range(struct device *d, float *grads,
                                         uint32_t range)
{
    const struct elements *r = &d->p->ranges[range];
    float *from = (float *)d->grads.device.at + r->first;
    enum sl_err rc;

    if (!device_touches(d->p, range))
        return SL_OK; // its gradient is 0 and has never left the host
    rc = d->b->copy(d->out, grads + r->first, from,
                    (size_t)r->count * sizeof(float), KERN_TO_HOST);
    return rc == SL_OK ? d->b->event_record(d->done[range], d->out) : rc;
}

static enum sl_err let_out_follow(struct device *d)
{
    enum sl_err rc = d->b->event_record(d->ready, d->compute);

    return rc == SL_OK ? d->b->event_wait(d->out, d->ready) : rc;
}

static bool touches_any(const struct device_program *p, uint32_t first,
                        uint32_t end)
{
    while (first < end && !device_touches(p, p->overlap->by_send[first]))
        first++;
    return first < end;
}

// Hands out, behind the ops of a segment, the ranges that no later op touches.
static enum sl_err hand_out_behind(struct device *d, float *grads,
                                   const struct device_segment *s)
{
    enum sl_err rc;

    if (d->kept || !touches_any(d->p, s->whole_first, s->whole_end))
        return SL_OK;
    rc = let_out_follow(d);
    if (rc == SL_OK)
        rc = d->held || d->summed
                 ? device_send_words(d, 0)
                 : device_send_range_words(d, s->whole_first, s->whole_end);
    for (uint32_t i = s->whole_first; !d->held && i < s->whole_end; i++) {
        uint32_t range = d->p->overlap->by_send[i];

        if (rc == SL_OK)
            rc = d->summed ? device_mark_whole(d, range)
                           : device_hand_out_range(d, grads, range);
    }
    return rc;
}

static enum sl_err hand_out_all(struct device *d, float *grads)
{
    const struct overlap *o = d->p->overlap;
    enum sl_err rc = let_out_follow(d);

    for (uint32_t i = 0; i < o->shards && rc == SL_OK; i++)
        rc = device_hand_out_range(d, grads, o->by_send[i]);
    return rc;
}

// Sends out the gradients of rows, which are few and whole with the last ops.
static enum sl_err device_send_rows(struct device *d)
{
    struct device_program *p = d->p;
    size_t at = p->offset[PROGRAM_ROW_GRADS];
    size_t bytes = program_own(p->p, PROGRAM_ROW_GRADS).bytes;
    enum sl_err rc = SL_OK;

    if (bytes == 0)
        return SL_OK;
    rc = copy_words(d, at, at + bytes);
    return rc == SL_OK ? d->b->event_record(p->rows, d->out) : rc;
}

static enum sl_err device_step_finish(struct device *d)
{
    bool rows = program_own(d->p->p, PROGRAM_ROW_GRADS).bytes > 0;
    enum sl_err rc = SL_OK;

    d->p->warm = true;
    if (!d->loss_sent || rows)
        rc = let_out_follow(d);
    if (rc == SL_OK) // a step that is kept sends all its words
        rc = device_send_words(d, d->kept ? d->p->check.factors_at : 0);
    if (rc == SL_OK)
        rc = device_send_rows(d);
    if (rc == SL_OK)
        rc = d->b->event_record(d->slot[d->at].used, d->compute);
    return rc == SL_OK ? d->b->event_record(d->computed, d->compute) : rc;
}

static enum sl_err device_order_error(struct device *d, enum sl_err rc,
                                      struct sl_error *err)
{
    return rc == SL_OK
               ? rc
               : device_fail(d, rc, "a step's order on the device", err);
}

enum sl_err device_run(struct device *d, float *grads, uint32_t first,
                       uint32_t end, struct pulse *pulse, struct sl_error *err)
{
    struct device_program *p = d->p;
    enum sl_err rc = SL_OK;

    assert(p->segments[d->segment].first == first);
    while (rc == SL_OK && d->segment < p->segments_count &&
           p->segments[d->segment].end <= end) {
        struct device_segment *s = &p->segments[d->segment++];

        rc = device_order_error(d, gate(d), err);
        if (rc == SL_OK)
            rc = device_program_run(p, s, pulse, err);
        if (rc == SL_OK)
            rc = device_order_error(d, hand_out_behind(d, grads, s), err);
    }
    if (rc == SL_OK && d->segment == p->segments_count)
        rc = device_order_error(d, device_step_finish(d), err);
    return rc;
}

// ---- words and gradients that have come out

static void device_read_words(struct device_program *p,
                              enum program_place place)
{
    struct kern_mem own = program_own(p->p, place);

    if (own.bytes > 0)
        memcpy(own.at, (uint8_t *)p->block.host.at + p->offset[place],
               own.bytes);
}

enum sl_err device_take_stats(struct device *d, struct sl_error *err)
{
    struct device_program *p = d->p;
    enum sl_err rc = device_await(d, p->stats);

    if (rc != SL_OK)
        return device_fail(d, rc, "waiting for the loss", err);
    device_read_words(p, PROGRAM_STATS);
    device_read_words(p, PROGRAM_OUTPUTS);
    return SL_OK;
}

enum sl_err device_take_rows(struct device *d, struct sl_error *err)
{
    struct device_program *p = d->p;
    enum sl_err rc;

    if (program_own(p->p, PROGRAM_ROW_GRADS).bytes == 0)
        return SL_OK;
    rc = device_await(d, p->rows);
    if (rc != SL_OK)
        return device_fail(d, rc, "waiting for gradients of rows", err);
    device_read_words(p, PROGRAM_ROW_GRADS);
    return SL_OK;
}

enum sl_err device_take(struct device *d, uint32_t range, struct sl_error *err)
{
    enum sl_err rc;

    if (!device_touches(d->p, range))
        return SL_OK;
    rc = device_await(d, d->done[range]);
    return rc == SL_OK ? rc : device_fail(d, rc, "waiting for a gradient", err);
}

// ---- clipping

enum sl_err device_clip(struct device *d, float *grads, double clipnorm,
                        double global, struct sl_error *err)
{
    bool any = false;
    enum sl_err rc = device_check_send_factors(d->p, &any, clipnorm, global);

    if (rc == SL_OK && any)
        rc = gate(d);
    if (rc == SL_OK && any)
        rc = device_check_shrink(d->p);
    if (rc == SL_OK)
        rc = hand_out_all(d, grads);
    return rc == SL_OK ? rc : device_fail(d, rc, "clipping a gradient", err);
}

enum sl_err device_let_go(struct device *d, struct device_program *p,
                          float *grads, struct sl_error *err)
{
    enum sl_err rc;

    d->p = p;
    d->summed = false;
    rc = hand_out_all(d, grads);
    return rc == SL_OK ? rc : device_fail(d, rc, "copying held gradients", err);
}
