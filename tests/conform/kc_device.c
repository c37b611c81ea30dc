// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_device.c -- running an op on a device that has memory of
// its own.
//
// A real device gets each tensor with its canaries, and they come back with
// it. The emulated one ("exact") gets an allocation of exactly the tensor's
// size instead, and outputs that are only written are not copied there: it
// reports what is read or written beyond, and what is read before it was
// written.
#include <string.h>

#include "tests/conform/kc.h"

struct there {
    struct kern_dev *dev;
    struct kern_stream *stream;
    struct kern_mem mem[KERN_IO], workspace;
    void *io[KERN_IO];
    bool exact;
};

// Tensors that share their address (an op in place) share it there too.
static int twin_of(const struct trial *b, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (b->io[k] == b->io[i])
            return (int)k;
    return -1;
}

static enum sl_err send(struct there *t, const struct trial *b, unsigned i)
{
    const struct kern_backend *backend = t->dev->backend;
    size_t front = (size_t)((char *)b->io[i] - b->base[i]);
    const void *from = t->exact ? b->io[i] : b->base[i];
    size_t bytes = t->exact ? b->bytes[i] : b->whole[i];
    enum sl_err rc;

    if (t->exact)
        front -= TRIAL_GUARD; // the shift alone
    rc = backend->alloc(&t->mem[i], t->dev, t->exact ? front + bytes : bytes,
                        KERN_DEVICE);
    if (rc != SL_OK)
        return rc;
    t->io[i] = (char *)t->mem[i].at + front;
    if (t->exact && i >= b->d.inputs && !trial_adds(&b->d))
        return SL_OK;
    return backend->copy(t->stream, t->exact ? t->io[i] : t->mem[i].at, from,
                         bytes, KERN_TO_DEVICE);
}

static enum sl_err fetch(struct there *t, const struct trial *b, unsigned i)
{
    bool exact = t->exact;

    return t->dev->backend->copy(t->stream, exact ? b->io[i] : b->base[i],
                                 exact ? t->io[i] : t->mem[i].at,
                                 exact ? b->bytes[i] : b->whole[i],
                                 KERN_TO_HOST);
}

static enum sl_err there_and_back(struct there *t, struct kern_plan *plan,
                                  const struct trial *b)
{
    unsigned n = b->d.inputs + b->d.outputs;
    enum sl_err rc = SL_OK;
    int twin;

    for (unsigned i = 0; i < n && rc == SL_OK; i++) {
        twin = twin_of(b, i);
        if (twin >= 0)
            t->io[i] = t->io[twin];
        else
            rc = send(t, b, i);
    }
    if (rc == SL_OK)
        rc = kern_run(plan, t->stream, t->io, t->workspace.at);
    for (unsigned i = 0; i < n && rc == SL_OK; i++)
        if (twin_of(b, i) < 0)
            rc = fetch(t, b, i);
    return rc == SL_OK ? t->dev->backend->stream_sync(t->stream) : rc;
}

enum sl_err kc_device_run(struct kern_dev *dev, struct kern_plan *plan,
                          struct trial *b, size_t workspace_bytes)
{
    const struct kern_backend *backend = dev->backend;
    struct there t = {.dev = dev,
                      .exact = strcmp(backend->name, "cuda-emul") == 0};
    enum sl_err rc = backend->stream_new(&t.stream, dev, 0);

    if (rc != SL_OK)
        return rc;
    if (workspace_bytes > 0) {
        rc = backend->alloc(&t.workspace, dev, workspace_bytes, KERN_DEVICE);
        if (rc == SL_OK && !t.exact)
            rc = backend->fill(t.stream, t.workspace.at, 0xFF, workspace_bytes);
    }
    if (rc == SL_OK)
        rc = there_and_back(&t, plan, b);
    for (unsigned i = 0; i < KERN_IO; i++)
        if (t.mem[i].at)
            backend->release(dev, &t.mem[i]);
    if (t.workspace.at)
        backend->release(dev, &t.workspace);
    backend->stream_free(t.stream);
    return rc;
}

bool kc_knows(struct kern_dev *dev, const struct kern_desc *d)
{
    return dev->backend->host || kern_score(dev, d) > 0;
}

bool kc_within(const struct kern_desc *d, int64_t most)
{
    for (unsigned i = 0; most > 0 && i < d->inputs + d->outputs; i++)
        if (kern_shape_extent(&d->io[i]) > most)
            return false;
    return true;
}
