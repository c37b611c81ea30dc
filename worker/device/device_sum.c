// SPDX-License-Identifier: Apache-2.0
// worker/device/device_sum.c -- the gradients of a team's devices become one
// sum, on them.
//
// Each range is cut into a slice for each device. Behind all ops each device
// gets the others' gradients of its slice, adds all of them up in the order of
// the devices, looks whether the sum is finite, and gives the slice out. So the
// bits are those of a sum in host memory, and one part of every gradient goes
// out instead of all of it.
//
//   compute   ... (whole: of a range)
//   out       all devices' whole -> exchange -> add -> check -> host (done)
//
// No device overwrites what another one still reads: before the next step
// writes a gradient, the host has waited for every range of every device.
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "worker/device/device_inner.h"

#define LANE 32 // elements: slices begin at multiples of them

struct device_slice {
    uint64_t first, count; // elements of the vector
};

static struct device_slice slice_of(const struct device_meeting *m,
                                    uint32_t range, unsigned member)
{
    const struct elements *r = &m->ranges[range];
    uint64_t each = (r->count + m->n - 1) / m->n;
    uint64_t from, end;

    each = (each + LANE - 1) / LANE * LANE;
    from = sl_min(member * each, r->count);
    end = sl_min(from + each, r->count);
    return (struct device_slice){r->first + from, end - from};
}

static float *device_sum_element(struct kern_mem mem, uint64_t element)
{
    return (float *)mem.at + element;
}

// ---- making and freeing

static enum sl_err device_sum_make_plan(struct device *d,
                                        struct kern_plan **out,
                                        const struct kern_desc *desc,
                                        size_t *workspace, struct sl_error *err)
{
    size_t bytes = 0;
    enum sl_err rc = kern_plan_new(out, &bytes, d->dev, desc, SIZE_MAX, err);

    if (rc == SL_OK && bytes > *workspace)
        *workspace = bytes;
    return rc;
}

static enum sl_err plan_range(struct device *d, uint32_t range,
                              size_t *workspace, struct sl_error *err)
{
    struct device_meeting *m = d->meeting;
    int64_t n = (int64_t)slice_of(m, range, m->self).count;
    struct kern_desc desc;
    enum sl_err rc;

    if (n == 0)
        return SL_OK;
    kern_desc_binary(&desc, KERN_ADD, m->n, 1, &n);
    rc = device_sum_make_plan(d, &m->add[range], &desc, workspace, err);
    kern_desc_unscale_check(&desc, 1, &n, 0);
    return rc == SL_OK ? device_sum_make_plan(d, &m->check[range], &desc,
                                              workspace, err)
                       : rc;
}

// Makes the plans, and sets *workspace to the bytes that they want. A failure
// is named: plans say why they are refused.
static enum sl_err device_meeting_plan(struct device *d, size_t *workspace,
                                       struct sl_error *err)
{
    struct device_meeting *m = d->meeting;
    enum sl_err rc = SL_OK;

    m->whole = sl_calloc((size_t)m->count + 1, sizeof(struct kern_event *));
    m->add = sl_calloc((size_t)m->count + 1, sizeof(struct kern_plan *));
    m->check = sl_calloc((size_t)m->count + 1, sizeof(struct kern_plan *));
    if (m->whole == NULL || m->add == NULL || m->check == NULL)
        return sl_no_memory(err);
    for (uint32_t i = 0; i < m->count && rc == SL_OK; i++) {
        uint64_t n = slice_of(m, i, m->self).count;

        m->longest = n > m->longest ? n : m->longest;
        rc = plan_range(d, i, workspace, err);
    }
    return rc;
}

static enum sl_err device_meeting_alloc(struct device *d, size_t workspace)
{
    struct device_meeting *m = d->meeting;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; i < m->count && rc == SL_OK; i++)
        rc = d->b->event_new(&m->whole[i], d->dev);
    if (rc == SL_OK)
        rc = device_pair_grow(d, &m->words, m->count * DEVICE_WORD + 1);
    if (rc == SL_OK)
        rc = d->b->alloc(&m->scratch, d->dev,
                         (m->n - 1) * m->longest * sizeof(float), KERN_DEVICE);
    if (rc == SL_OK && workspace > 0)
        rc = d->b->alloc(&m->workspace, d->dev, workspace, KERN_DEVICE);
    if (rc == SL_OK)
        memset(m->words.host.at, 0, m->words.host.bytes);
    return rc;
}

enum sl_err device_meet(struct device *d, struct device *const *all, unsigned n,
                        unsigned self, const struct elements *ranges,
                        uint32_t count, struct sl_error *err)
{
    struct device_meeting *m = sl_calloc(1, sizeof(*m));
    size_t workspace = 0;
    enum sl_err rc;

    if (m == NULL)
        return sl_no_memory(err);
    *m = (struct device_meeting){
        .n = n, .self = self, .all = all, .ranges = ranges, .count = count};
    d->meeting = m;
    rc = device_meeting_plan(d, &workspace, err);
    if (rc == SL_OK) {
        rc = device_meeting_alloc(d, workspace);
        if (rc == SL_OK)
            return rc;
        rc = device_fail(d, rc, "memory for the sums of several devices", err);
    }
    device_part(d);
    return rc;
}

void device_part(struct device *d)
{
    struct device_meeting *m = d->meeting;

    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->whole != NULL)
            d->b->event_free(m->whole[i]);
        if (m->add != NULL)
            kern_plan_free(m->add[i]);
        if (m->check != NULL)
            kern_plan_free(m->check[i]);
    }
    device_pair_release(d, &m->words);
    if (m->scratch.at != NULL)
        d->b->release(d->dev, &m->scratch);
    if (m->workspace.at != NULL)
        d->b->release(d->dev, &m->workspace);
    sl_free(m->whole);
    sl_free(m->add);
    sl_free(m->check);
    sl_free(m);
    d->meeting = NULL;
}

// ---- a step

enum sl_err device_mark_whole(struct device *d, uint32_t range)
{
    return device_touches(d->p, range)
               ? d->b->event_record(d->meeting->whole[range], d->compute)
               : SL_OK;
}

// Returns the space for another member's part of our slice.
static float *scratch_of(const struct device_meeting *m, unsigned member)
{
    unsigned place = member < m->self ? member : member - 1;

    return device_sum_element(m->scratch, place * m->longest);
}

static enum sl_err device_sum_exchange(struct device *d, uint32_t range)
{
    struct device_meeting *m = d->meeting;
    const void *mine[KERN_PEERS], *theirs[KERN_PEERS];
    void *to[KERN_PEERS];
    size_t bytes[KERN_PEERS];
    struct device_slice own = slice_of(m, range, m->self);
    const struct kern_exchange x = {m->self, m->n, mine, bytes, theirs, to};
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < m->n && rc == SL_OK; i++) {
        struct device_slice s = slice_of(m, range, i);

        mine[i] = device_sum_element(d->grads.device, s.first);
        bytes[i] = s.count * sizeof(float);
        theirs[i] = device_sum_element(m->all[i]->grads.device, own.first);
        to[i] = i == m->self ? NULL : scratch_of(m, i);
        // Recorded by now, as the ops of all devices are enqueued: a device
        // that is lost leaves none of the others waiting.
        rc = d->b->event_wait(d->out, m->all[i]->meeting->whole[range]);
    }
    return rc == SL_OK ? d->b->exchange(d->out, &x) : rc;
}

static enum sl_err device_sum_add_range(struct device *d, uint32_t range)
{
    struct device_meeting *m = d->meeting;
    struct device_slice own = slice_of(m, range, m->self);
    uint8_t *block = d->p->block.device.at;
    float *sum = device_sum_element(d->grads.device, own.first);
    void *word = (uint8_t *)m->words.device.at + range * DEVICE_WORD;
    void *io[KERN_PEERS + 1];
    enum sl_err rc;

    for (unsigned i = 0; i < m->n; i++)
        io[i] = i == m->self ? sum : scratch_of(m, i);
    io[m->n] = sum;
    rc = kern_run(m->add[range], d->out, io, m->workspace.at);
    if (rc == SL_OK)
        rc = kern_run(m->check[range], d->out,
                      (void *[]){sum, block + d->p->check.one_at, sum, word},
                      m->workspace.at);
    return rc;
}

static enum sl_err give_out(struct device *d, float *grads, uint32_t range)
{
    struct device_meeting *m = d->meeting;
    struct device_slice own = slice_of(m, range, m->self);
    size_t word = range * DEVICE_WORD;
    enum sl_err rc = SL_OK;

    if (own.count > 0)
        rc = device_sum_add_range(d, range);
    if (rc == SL_OK && own.count > 0)
        rc = d->b->copy(d->out, grads + own.first,
                        device_sum_element(d->grads.device, own.first),
                        own.count * sizeof(float), KERN_TO_HOST);
    if (rc == SL_OK && own.count > 0)
        rc = d->b->copy(d->out, (uint8_t *)m->words.host.at + word,
                        (uint8_t *)m->words.device.at + word, DEVICE_WORD,
                        KERN_TO_HOST);
    return rc == SL_OK ? d->b->event_record(d->done[range], d->out) : rc;
}

enum sl_err device_sum(struct device *d, float *grads, const uint32_t *order,
                       struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; i < d->meeting->count && rc == SL_OK; i++) {
        if (!device_touches(d->p, order[i]))
            continue;
        rc = device_sum_exchange(d, order[i]);
        if (rc == SL_OK)
            rc = give_out(d, grads, order[i]);
    }
    return rc == SL_OK
               ? rc
               : device_fail(d, rc, "the sum over several devices", err);
}

const uint32_t *device_order(const struct device *d)
{
    return d->p->overlap->by_send;
}

bool device_sum_finite(const struct device *d, uint32_t range)
{
    const double *word =
        (const double *)(const void *)((uint8_t *)d->meeting->words.host.at +
                                       range * DEVICE_WORD);

    return !device_touches(d->p, range) || word[1] == 0;
}
