// SPDX-License-Identifier: Apache-2.0
// state/shard/update.c -- the apply of an average, and the count of all keys
// that it is made of, under the lock of the shard.
#include "state/shard/update.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"

static enum sl_err check_here_locked(const struct shard *s,
                                     struct sl_error *err)
{
    return !s->behind
               ? SL_OK
               : sl_fail(err, SL_ESTATE,
                         "job %" PRIu64 " shard %u: its values are elsewhere",
                         s->plan.job, s->plan.shard);
}

// Everything that can fail, before anything is changed (S1).
static enum sl_err check_locked(struct shard *s, const struct update *u,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (s->closed || s->incarnation == 0)
        return sl_fail(err, SL_EUNAVAIL,
                       "job %" PRIu64 " shard %u is not admitted", s->plan.job,
                       s->plan.shard);
    if (!u->elsewhere)
        rc = check_here_locked(s, err);
    for (size_t i = 0; rc == SL_OK && i < u->count; i++) {
        const struct once_step *step = &u->steps[i];

        rc = once_key(&s->once, step->closure, step->step, err);
        if (rc == SL_OK &&
            counted_has(&s->once.counted, step->closure, step->step))
            rc = sl_fail(err, SL_ESTATE,
                         "job %" PRIu64 " shard %u: step %u of closure %" PRIu64
                         " is counted already",
                         s->plan.job, s->plan.shard, step->step, step->closure);
        if (rc == SL_OK)
            rc = once_reserve(&s->once, step->closure);
    }
    if (rc == SL_OK && u->absent_bytes > 0)
        rc = once_reserve_passed(&s->once, s->plan.piece_count);
    return rc;
}

static void step_locked(struct apply_step *out, struct shard *s,
                        struct stale_versions *versions, const struct update *u)
{
    uint64_t version = once_version(&s->once);
    const struct apply_of of = {&s->rates, u->steps[0].closure, version,
                                version, u->steps[0].samples};

    apply_step_init(out, &s->plan, versions, &of);
    out->absent = u->absent;
    out->absent_bytes = u->absent_bytes;
    out->passed = s->once.passed;
}

static void update_apply_locked(struct shard *s, const struct update *u,
                                float *fresh)
{
    struct sl_slice one = {(const uint8_t *)u->gradient,
                           plan_values_bytes(&s->plan)};
    struct sl_slices payload = slices_one(&one);
    struct apply_step step;

    step_locked(&step, s, &s->versions, u);
    apply_update(&s->plan, &s->memory, WIRE_F32, &payload, &step, fresh);
    if (u->absent_bytes > 0)
        once_pass(&s->once, u->absent, u->absent_bytes);
}

enum sl_err update_shard(struct shard *s, const struct update *u, float *fresh,
                         struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = check_locked(s, u, err);
    if (rc == SL_OK) {
        if (u->elsewhere)
            s->behind = s->behind || !u->steps[0].skip;
        else if (!u->steps[0].skip)
            update_apply_locked(s, u, fresh);
        else if (fresh != NULL)
            memcpy(fresh, s->memory.values, plan_values_bytes(&s->plan));
        FAULT("apply.done");
        once_add_round(&s->once, u->steps, u->count);
        HISTORY("round",
                "job=%" PRIu64 " uid=%" PRIx64 " shard=%u incarnation=%" PRIu64
                " keys=%zu skip=%d version=%" PRIu64 " steps=%" PRIu64,
                s->plan.job, s->plan.job_uid, s->plan.shard, s->incarnation,
                u->count, u->steps[0].skip, once_version(&s->once),
                counted_steps(&s->once.counted));
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void foresee_locked(struct shard *s, const struct update *u,
                           uint64_t elements, float *values, float *slots)
{
    struct apply_memory to = {.values = values};
    struct stale_versions none = {0};
    size_t bytes = (size_t)elements * sizeof(float);
    struct apply_step step;

    memcpy(values, s->memory.values, bytes);
    for (unsigned k = 0; k < optim_slots(&s->plan.optim); k++) {
        to.slots[k] = slots + k * elements;
        memcpy(to.slots[k], s->memory.slots[k], bytes);
    }
    step_locked(&step, s, &none, u);
    apply_front(&s->plan, &to, u->gradient, elements, &step);
}

enum sl_err update_foresee(struct shard *s, const struct update *u,
                           uint64_t elements, float *values, float *slots,
                           struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&s->lock);
    rc = check_here_locked(s, err);
    if (rc == SL_OK)
        foresee_locked(s, u, elements, values, slots);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static enum sl_err bring_locked(struct shard *s, update_read_fn read, void *arg,
                                struct sl_error *err)
{
    unsigned slots = optim_slots(&s->plan.optim);
    enum sl_err rc = SL_OK;

    if (s->memory.freeze != NULL)
        freeze_touch(s->memory.freeze, 0, shard_bytes(s));
    for (unsigned k = 0; rc == SL_OK && k <= slots; k++)
        rc = read(arg, k, k == 0 ? s->memory.values : s->memory.slots[k - 1],
                  err);
    return rc;
}

enum sl_err update_bring(struct shard *s, update_read_fn read, void *arg,
                         struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&s->lock);
    if (s->behind)
        rc = bring_locked(s, read, arg, err);
    s->behind = s->behind && rc != SL_OK;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

bool update_is_behind(struct shard *s)
{
    bool behind;

    pthread_mutex_lock(&s->lock);
    behind = s->behind;
    pthread_mutex_unlock(&s->lock);
    return behind;
}
