// SPDX-License-Identifier: Apache-2.0
// worker/device/resident.c -- values and slots on the device; see device.h for
// its streams.
//
// Why nothing is overwritten while it is read:
//   - Parameters: updates are on compute, before the next step's ops and behind
//     the last one's. `in` waits for `computed`, which is recorded again behind
//     an update, before it copies over them, or from them.
//   - The gradient on the device: `out` has copied it, or is settled, before a
//     rank knows the sum; `in` waits for the update before.
//   - The gradient of the host, and the constants: the host waits for `copied`.
//     A step that has given its gradient out since came behind that copy.
#include "worker/device/resident.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "worker/device/device_inner.h"

struct resident {
    struct device *d;
    struct optim optim;
    unsigned slots;
    uint32_t runs; // most runs of an update
    struct kern_mem slot[OPTIM_SLOTS_MAX];
    struct kern_mem aside; // the values, while a step reads others
    struct device_pair consts;
    struct kern_event *copied; // on `in`
    bool begun;                // parts of a gradient are on their way
};

static enum sl_err resident_fail(struct resident *r, enum sl_err rc,
                                 const char *what, struct sl_error *err)
{
    return rc == SL_OK ? rc : device_fail(r->d, rc, what, err);
}

static size_t resident_vector_bytes(const struct resident *r)
{
    return r->d->params.device.bytes;
}

// Returns where an array is now: the values may stand aside.
static float *array_at(const struct resident *r, unsigned array)
{
    if (array > 0)
        return r->slot[array - 1].at;
    return r->d->name == 0 ? r->d->params.device.at : r->aside.at;
}

// Lets later copies on `in` overwrite what ops and updates have read, and read
// what they have written.
static enum sl_err follow_compute(struct resident *r)
{
    return r->d->b->event_wait(r->d->in, r->d->computed);
}

// ---- values and slots

enum sl_err resident_write(struct resident *r, unsigned array, uint64_t first,
                           uint64_t n, const float *from, struct sl_error *err)
{
    struct device *d = r->d;
    float *pinned = (float *)d->params.host.at + first;
    size_t bytes = (size_t)n * sizeof(float);
    enum sl_err rc = follow_compute(r);

    memcpy(pinned, from, bytes);
    if (rc == SL_OK)
        rc = d->b->copy(d->in, array_at(r, array) + first, pinned, bytes,
                        KERN_TO_DEVICE);
    if (rc == SL_OK)
        rc = d->b->stream_sync(d->in);
    return resident_fail(r, rc, "copying a state to the device", err);
}

enum sl_err resident_read(struct resident *r, unsigned array, uint64_t first,
                          uint64_t n, float *into, struct sl_error *err)
{
    struct device *d = r->d;
    float *pinned = (float *)d->params.host.at + first;
    size_t bytes = (size_t)n * sizeof(float);
    enum sl_err rc = follow_compute(r);

    if (rc == SL_OK)
        rc = d->b->copy(d->in, pinned, array_at(r, array) + first, bytes,
                        KERN_TO_HOST);
    if (rc == SL_OK)
        rc = d->b->stream_sync(d->in);
    if (rc == SL_OK)
        memcpy(into, pinned, bytes);
    return resident_fail(r, rc, "copying a state from the device", err);
}

// ---- updates

enum sl_err resident_gradient(struct resident *r, uint64_t first, uint64_t n,
                              struct sl_error *err)
{
    struct device *d = r->d;
    enum sl_err rc = r->begun ? SL_OK : follow_compute(r);

    r->begun = true;
    if (rc == SL_OK)
        rc = d->b->copy(d->in, (float *)d->grads.device.at + first,
                        (float *)d->grads.host.at + first,
                        (size_t)n * sizeof(float), KERN_TO_DEVICE);
    if (rc == SL_OK)
        rc = d->b->event_record(r->copied, d->in);
    return resident_fail(r, rc, "copying an average to the device", err);
}

enum sl_err resident_free_gradient(struct resident *r, struct sl_error *err)
{
    r->begun = false; // parts of an earlier gradient are in vain
    return resident_fail(r, device_await(r->d, r->copied),
                         "waiting for a copy to the device", err);
}

static enum sl_err launch(struct resident *r, const struct resident_run *run,
                          const struct optim_consts *consts)
{
    struct device *d = r->d;
    const float *g = (float *)d->grads.device.at + run->first;
    float *slots[OPTIM_SLOTS_MAX], *w = array_at(r, 0) + run->first;

    for (unsigned k = 0; k < r->slots; k++)
        slots[k] = array_at(r, 1 + k) + run->first;
    return d->b->optim(d->compute, run->moving ? NULL : &r->optim,
                       (size_t)run->elements, g, w, slots, consts);
}

static enum sl_err copy_consts(struct resident *r,
                               const struct optim_consts *consts,
                               uint32_t count)
{
    struct device *d = r->d;
    size_t bytes = count * sizeof(*consts);
    enum sl_err rc;

    memcpy(r->consts.host.at, consts, bytes);
    rc = d->b->copy(d->in, r->consts.device.at, r->consts.host.at, bytes,
                    KERN_TO_DEVICE);
    if (rc == SL_OK)
        rc = d->b->event_record(r->copied, d->in);
    if (rc == SL_OK)
        rc = d->b->event_record(d->arrived, d->in);
    return rc == SL_OK ? d->b->event_wait(d->compute, d->arrived) : rc;
}

enum sl_err resident_update(struct resident *r, const struct resident_run *run,
                            const struct optim_consts *consts, uint32_t count,
                            struct sl_error *err)
{
    const struct optim_consts *there = r->consts.device.at;
    struct device *d = r->d;
    enum sl_err rc;

    assert(count <= r->runs && r->begun);
    r->begun = false;
    rc = copy_consts(r, consts, count);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++)
        rc = launch(r, &run[i], &there[i]);
    if (rc == SL_OK)
        rc = d->b->event_record(d->computed, d->compute);
    return resident_fail(r, rc, "an update on the device", err);
}

// ---- other parameters

enum sl_err resident_make_way(struct resident *r, struct sl_error *err)
{
    enum sl_err rc;

    if (r == NULL || r->d->name != 0)
        return SL_OK;
    rc = follow_compute(r);
    if (rc == SL_OK)
        rc = r->d->b->copy(r->d->in, r->aside.at, r->d->params.device.at,
                           resident_vector_bytes(r), KERN_ON_DEVICE);
    return resident_fail(r, rc, "keeping parameters on the device", err);
}

enum sl_err resident_come_back(struct resident *r, struct sl_error *err)
{
    struct device *d = r->d;
    enum sl_err rc;

    if (d->name == 0)
        return SL_OK;
    rc = follow_compute(r);
    if (rc == SL_OK)
        rc = d->b->copy(d->in, d->params.device.at, r->aside.at,
                        resident_vector_bytes(r), KERN_ON_DEVICE);
    d->name = 0;
    d->gated = true;
    return resident_fail(r, rc, "keeping parameters on the device", err);
}

// ---- the test of the device's bits

#define TRIED 512
#define ARRAYS (1 + OPTIM_SLOTS_MAX)

// Returns a number; they have many sizes, and those of slots may be sums of
// squares.
static float resident_trial_number(uint32_t i, bool positive)
{
    uint32_t h = (i + 1) * 2654435761u;
    float v;

    h ^= h >> 15;
    h *= 2246822519u;
    v = ldexpf(1 + (float)(h >> 9) / (1 << 23), (int)(i % 24) - 18);
    return (h & 1) != 0 && !positive ? -v : v;
}

struct resident_trial {
    uint64_t n;
    float w[ARRAYS][TRIED], g[TRIED]; // the host's numbers
};

static enum sl_err begin_trial(struct resident *r, struct resident_trial *t,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; rc == SL_OK && k <= r->slots; k++) {
        for (uint32_t i = 0; i < t->n; i++)
            t->w[k][i] = resident_trial_number(i + 1000 * (k + 1), k > 0);
        rc = resident_write(r, k, 0, t->n, t->w[k], err);
    }
    for (uint32_t i = 0; i < t->n; i++)
        t->g[i] = resident_trial_number(i, false);
    memcpy(r->d->grads.host.at, t->g, (size_t)t->n * sizeof(float));
    return rc;
}

// Makes one update on the device and the same one on the host.
static enum sl_err try_update(struct resident *r, struct resident_trial *t,
                              uint64_t at, bool moving, struct sl_error *err)
{
    struct resident_run run = {.elements = t->n, .moving = moving};
    struct optim_consts k = {.clip = INFINITY, .a = 0.9f, .b = 1 - 0.9f};
    float *slots[OPTIM_SLOTS_MAX];
    enum sl_err rc = resident_free_gradient(r, err);

    for (unsigned i = 0; i < r->slots; i++)
        slots[i] = t->w[1 + i];
    if (!moving)
        optim_consts(&k, &r->optim, at, 0.01);
    if (rc == SL_OK)
        rc = resident_gradient(r, 0, t->n, err);
    if (rc == SL_OK)
        rc = resident_update(r, &run, &k, 1, err);
    if (!moving)
        optim_apply(&r->optim, at, 0.01, (size_t)t->n, t->g, t->w[0], slots);
    for (uint64_t i = 0; moving && i < t->n; i++) {
        float kept = k.a * t->w[0][i], taken = k.b * t->g[i];

        t->w[0][i] = kept + taken;
    }
    return rc;
}

// Returns true if all bits are equal. NaNs may differ: their gradient will not
// be finite either.
static bool same_bits(const float *a, const float *b, uint64_t n)
{
    uint64_t i = 0;

    while (i < n && (memcmp(&a[i], &b[i], sizeof(*a)) == 0 ||
                     (isnan(a[i]) && isnan(b[i]))))
        i++;
    return i == n;
}

static enum sl_err resident_compare_trial(struct resident *r,
                                          const struct resident_trial *t,
                                          struct sl_error *err)
{
    float there[TRIED];
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; rc == SL_OK && k <= r->slots; k++) {
        rc = resident_read(r, k, 0, t->n, there, err);
        if (rc == SL_OK && !same_bits(there, t->w[k], t->n))
            rc = sl_fail(err, SL_ENOTSUP,
                         "its optimizer has other bits than this host's");
    }
    return rc;
}

// Sets the gradient back to 0, on host and device: elements that no op writes
// stay 0.
static enum sl_err forget_trial(struct resident *r, struct sl_error *err)
{
    size_t bytes = r->d->grads.device.bytes;
    enum sl_err rc = resident_free_gradient(r, err);

    if (rc != SL_OK)
        return rc;
    memset(r->d->grads.host.at, 0, sl_min(bytes, TRIED * sizeof(float)));
    rc = follow_compute(r);
    if (rc == SL_OK)
        rc = r->d->b->fill(r->d->in, r->d->grads.device.at, 0, bytes);
    if (rc == SL_OK)
        rc = r->d->b->stream_sync(r->d->in);
    return resident_fail(r, rc, "clearing a gradient", err);
}

static enum sl_err prove(struct resident *r, struct sl_error *err)
{
    struct resident_trial t = {
        .n = sl_min(resident_vector_bytes(r) / sizeof(float), TRIED)};
    enum sl_err rc = begin_trial(r, &t, err), end;

    for (uint64_t at = 1; rc == SL_OK && at <= 3; at++)
        rc = try_update(r, &t, at, at == 3, err);
    if (rc == SL_OK)
        rc = resident_compare_trial(r, &t, err);
    end = forget_trial(r, rc == SL_OK ? err : NULL);
    return rc == SL_OK ? end : rc;
}

// ---- making and freeing

static enum sl_err resident_alloc(struct resident *r, struct sl_error *err)
{
    struct device *d = r->d;
    enum sl_err rc = d->b->event_new(&r->copied, d->dev);

    for (unsigned k = 0; rc == SL_OK && k < r->slots; k++)
        rc = device_grow(d, &r->slot[k], resident_vector_bytes(r), KERN_DEVICE);
    // Taken now: where there is no memory for it, the optimizer is left to the
    // host. An evaluation that finds none would fail on each such worker.
    if (rc == SL_OK)
        rc = device_grow(d, &r->aside, resident_vector_bytes(r), KERN_DEVICE);
    if (rc == SL_OK)
        rc = device_pair_grow(d, &r->consts,
                              r->runs * sizeof(struct optim_consts));
    return resident_fail(r, rc, "memory for the optimizer on the device", err);
}

enum sl_err resident_new(struct resident **out, struct device *d,
                         const struct optim *o, uint32_t runs,
                         struct sl_error *err)
{
    struct resident *r;
    enum sl_err rc;

    if (!kern_has_optim(d->b))
        return sl_fail(err, SL_ENOTSUP, "backend %s has no optimizers",
                       d->b->name);
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return sl_no_memory(err);
    *r = (struct resident){
        .d = d, .optim = *o, .slots = optim_slots(o), .runs = runs};
    rc = resident_alloc(r, err);
    if (rc == SL_OK)
        rc = prove(r, err);
    if (rc != SL_OK) {
        resident_free(r);
        return rc;
    }
    d->resident = r;
    *out = r;
    return SL_OK;
}

void resident_free(struct resident *r)
{
    struct device *d;

    if (r == NULL)
        return;
    d = r->d;
    (void)device_settle(d, NULL);
    d->resident = NULL;
    for (unsigned k = 0; k < r->slots; k++) {
        if (r->slot[k].at != NULL)
            d->b->release(d->dev, &r->slot[k]);
    }
    if (r->aside.at != NULL)
        d->b->release(d->dev, &r->aside);
    device_pair_release(d, &r->consts);
    d->b->event_free(r->copied);
    sl_free(r);
}

uint64_t resident_vectors(const struct resident *r)
{
    return r->slots + 1;
}
