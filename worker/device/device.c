// SPDX-License-Identifier: Apache-2.0
// worker/device/device.c -- a job's streams and memory on a device; see
// device.h.
#include <string.h>

#include "common/base/mem.h"
#include "worker/device/device_inner.h"

enum sl_err device_fail(struct device *d, enum sl_err rc, const char *what,
                        struct sl_error *err)
{
    if (rc == SL_ENOMEM)
        return sl_fail(err, rc,
                       "%s: %s; use a smaller batch, or a device with "
                       "more memory",
                       what, program_fault(d->dev, rc));
    return sl_fail(err, rc, "%s: %s", what, program_fault(d->dev, rc));
}

// ---- memory

void device_pair_release(struct device *d, struct device_pair *pair)
{
    if (pair->host.at != NULL)
        d->b->release(d->dev, &pair->host);
    if (pair->device.at != NULL)
        d->b->release(d->dev, &pair->device);
    *pair = (struct device_pair){{NULL, 0}, {NULL, 0}};
}

enum sl_err device_grow(struct device *d, struct kern_mem *mem, size_t bytes,
                        enum kern_place place)
{
    enum sl_err rc;

    if (mem->at != NULL && mem->bytes >= bytes)
        return SL_OK;
    if (mem->at != NULL)
        d->b->release(d->dev, mem);
    *mem = (struct kern_mem){NULL, 0};
    rc = d->b->alloc(mem, d->dev, bytes, place);
    if (rc != SL_OK)
        *mem = (struct kern_mem){NULL, 0};
    return rc;
}

enum sl_err device_pair_grow(struct device *d, struct device_pair *pair,
                             size_t bytes)
{
    enum sl_err rc = device_grow(d, &pair->host, bytes, KERN_HOST);

    if (rc == SL_OK)
        rc = device_grow(d, &pair->device, bytes, KERN_DEVICE);
    if (rc != SL_OK)
        device_pair_release(d, pair);
    return rc;
}

// ---- batches

void device_slot_unstage(struct device_slot *s)
{
    if (s->staged && s->lender != NULL)
        input_put(s->lender, &s->batch);
    s->staged = false;
    s->lender = NULL;
}

void device_unstage(struct device *d)
{
    for (unsigned i = 0; i < DEVICE_SLOTS; i++)
        device_slot_unstage(&d->slot[i]);
}

// ---- making and freeing

// Returns true if the backend has events. A module that has them has recording
// too: they came together.
static bool has_events(const struct kern_backend *b)
{
    return b->size >= offsetof(struct kern_backend, fault) + sizeof(b->fault) &&
           b->event_new != NULL && b->record_begin != NULL;
}

static enum sl_err make_streams(struct device *d)
{
    struct kern_event **events[] = {
        &d->arrived,        &d->ready,          &d->computed,
        &d->slot[0].copied, &d->slot[1].copied, &d->slot[0].used,
        &d->slot[1].used,
    };
    enum sl_err rc = d->b->stream_new(&d->in, d->dev, 1);

    if (rc == SL_OK)
        rc = d->b->stream_new(&d->compute, d->dev, 0);
    if (rc == SL_OK)
        rc = d->b->stream_new(&d->out, d->dev, 1);
    for (size_t i = 0; i < SL_COUNT(events) && rc == SL_OK; i++)
        rc = d->b->event_new(events[i], d->dev);
    return rc;
}

static enum sl_err device_make_vectors(struct device *d, size_t bytes)
{
    enum sl_err rc = device_pair_grow(d, &d->params, bytes);

    if (rc == SL_OK)
        rc = device_pair_grow(d, &d->grads, bytes);
    if (rc != SL_OK)
        return rc;
    memset(d->params.host.at, 0, bytes);
    memset(d->grads.host.at, 0, bytes); // elements that no op writes stay 0
    rc = d->b->fill(d->in, d->grads.device.at, 0, bytes);
    return rc == SL_OK ? d->b->stream_sync(d->in) : rc;
}

enum sl_err device_new(struct device **out, struct kern_dev *dev,
                       uint64_t elements, struct sl_error *err)
{
    struct device *d = sl_calloc(1, sizeof(*d));
    enum sl_err rc;

    if (d == NULL)
        return sl_no_memory(err);
    d->dev = dev;
    d->b = dev->backend;
    if (!has_events(d->b)) {
        sl_free(d);
        return sl_fail(err, SL_ENOTSUP,
                       "backend %s has no events: its module is older than "
                       "this worker",
                       dev->backend->name);
    }
    rc = make_streams(d);
    if (rc == SL_OK)
        rc = device_make_vectors(d, (size_t)elements * sizeof(float));
    if (rc != SL_OK) {
        rc = device_fail(d, rc, "the job's memory on the device", err);
        device_free(d);
        return rc;
    }
    *out = d;
    return SL_OK;
}

void device_free(struct device *d)
{
    if (d == NULL)
        return;
    if (d->out != NULL) // the last of the three streams
        (void)device_settle(d, NULL);
    device_unstage(d);
    for (unsigned i = 0; i < DEVICE_SLOTS; i++) {
        device_pair_release(d, &d->slot[i].x);
        device_pair_release(d, &d->slot[i].labels);
        d->b->event_free(d->slot[i].copied);
        d->b->event_free(d->slot[i].used);
    }
    device_pair_release(d, &d->params);
    device_pair_release(d, &d->grads);
    for (uint32_t i = 0; i < d->done_count; i++)
        d->b->event_free(d->done[i]);
    d->b->event_free(d->arrived);
    d->b->event_free(d->ready);
    d->b->event_free(d->computed);
    d->b->stream_free(d->in);
    d->b->stream_free(d->compute);
    d->b->stream_free(d->out);
    sl_free(d->done);
    sl_free(d);
}

float *device_params(struct device *d)
{
    return d->params.host.at;
}

float *device_grads(struct device *d)
{
    return d->grads.host.at;
}

// ---- waiting

enum sl_err device_settle(struct device *d, struct sl_error *err)
{
    enum sl_err in = d->b->stream_sync(d->in);
    enum sl_err compute = d->b->stream_sync(d->compute);
    enum sl_err out = d->b->stream_sync(d->out);
    enum sl_err rc = in != SL_OK ? in : compute != SL_OK ? compute : out;

    d->p = NULL;
    return rc == SL_OK ? rc : device_fail(d, rc, "waiting for the device", err);
}

enum sl_err device_await(struct device *d, struct kern_event *e)
{
    enum sl_err rc = d->b->event_query(e);

    return rc == SL_EBUSY ? d->b->event_sync(e) : rc;
}
