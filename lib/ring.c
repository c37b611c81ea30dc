// SPDX-License-Identifier: Apache-2.0
// lib/ring.c -- the thread of a ring lease, from its start to its end.
#include "lib/ring.h"

#include <inttypes.h>

#include "common/base/mem.h"
#include "trainer/lease/lease.h"

static void *ring_run_lease(void *arg)
{
    struct lib_ring *g = arg;

    g->slot.lease->outcome.kind = OUTCOME_COMPLETE;
    g->run(g, g->slot.lease);
    slot_ended(&g->slot);
    return NULL;
}

static void ring_free(struct lib_ring *g)
{
    if (g->release != NULL)
        g->release(g);
    slot_release(&g->slot);
    sl_free(g);
}

enum sl_err ring_start(struct sluice *s, struct lease *l, struct kept_job *j,
                       struct sl_error *err)
{
    struct lib_ring *g = j->hybrid != NULL ? group_member_new() : rounds_new();
    uint32_t ranges =
        j->ring != NULL ? j->ring->buckets_count : j->sync->ranges_count;

    if (g == NULL)
        return sl_no_memory(err);
    g->base.clock = sl_clock_real();
    g->base.ring = j->ring;
    g->base.model = j->model;
    g->base.optimizer = &j->optimizer;
    g->base.nonfinite = &j->nonfinite;
    g->job = j;
    if (slot_init(&g->slot, s, l, ranges, j->model->variables_count) != SL_OK ||
        pthread_create(&g->thread, NULL, ring_run_lease, g) != 0) {
        ring_free(g);
        return sl_fail(err, SL_ENOMEM, "no memory for a rank's thread");
    }
    pthread_setname_np(g->thread, "sluice-ring");
    s->ring = g;
    return SL_OK;
}

// The lease goes back as its outcome says.
static void ring_end_lease(struct sluice *s)
{
    struct lib_ring *g = s->ring;

    s->ring = NULL;
    session_done(s, g->slot.lease);
    ring_free(g);
}

void ring_stop(struct sluice *s, const char *why, const struct sl_error *failed,
               bool job_error)
{
    struct lib_ring *g = s->ring;
    struct lease *l = g->slot.lease;

    slot_leave(&g->slot);
    gate_close(&l->gate, GATE_DRAIN);
    seat_wake(l->seat, true);
    record_wake(l->record);
    pthread_join(g->thread, NULL);
    if (failed != NULL) {
        lease_fail(l, failed->code, failed);
        l->outcome.job_error = job_error;
    } else if (l->outcome.kind == OUTCOME_HAND_BACK) {
        lease_hand_back(l, why);
    }
    ring_end_lease(s);
}

bool ring_reap(struct sluice *s, enum sl_err *rc, struct sl_error *err)
{
    struct lib_ring *g = s->ring;
    const struct outcome *o = &g->slot.lease->outcome;
    bool ended;

    pthread_mutex_lock(&s->shared.lock);
    ended = g->slot.shared.ended;
    pthread_mutex_unlock(&s->shared.lock);
    if (!ended)
        return false;
    pthread_join(g->thread, NULL);
    *rc = SL_OK;
    if (o->kind == OUTCOME_FAILED)
        *rc = sl_fail(err, o->err.code, "job %" PRIu64 ": %s",
                      g->slot.lease->job, o->err.text);
    ring_end_lease(s);
    return true;
}
