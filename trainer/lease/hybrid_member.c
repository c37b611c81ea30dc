// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_member.c -- following, and leading without a step.
#include "trainer/lease/hybrid_member.h"

#include <inttypes.h>

#include "common/base/fault.h"
#include "common/base/history.h"

#define LOOK_MS 200 // most time between two looks at the gate

struct hybrid_member {
    struct contributor *by;
    struct hybrid *hybrid;
    struct sync *sync;
    struct lease *lease;
    struct lease_metrics m;
    struct sl_error err;
};

// ---- following

static enum sl_err hybrid_member_compute(struct hybrid_member *t,
                                         const struct hybrid_head *head)
{
    struct hybrid_step s = {.hybrid = t->hybrid,
                            .by = t->by,
                            .clock = t->by->clock,
                            .m = &t->m,
                            .pulse = &t->lease->gate.pulse,
                            .sync = t->sync,
                            .head = *head};
    enum sl_err rc;

    atomic_store(&t->lease->gate.pulse.step, head->step);
    rc = hybrid_run(&s, &t->err);
    if (s.dropped)
        return SL_OK; // the leader says what is next
    if (rc == SL_OK)
        HISTORY("group_step",
                "job=%" PRIu64 " generation=%" PRIu64 " member=%" PRIu32
                " closure=%" PRIu64 " step=%" PRIu32,
                t->lease->job, t->hybrid->opened, t->hybrid->self,
                head->closure, head->step);
    return rc;
}

static void hybrid_member_follow_step(struct hybrid_member *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;
    struct hybrid_head head = {0};
    enum sl_err rc;

    pulse_wait(pulse, true);
    rc = hybrid_agree(t->hybrid, &head, &t->err);
    pulse_wait(pulse, false);
    pulse_beat(pulse); // the thread does not hang
    if (rc == SL_OK && head.any && !hybrid_known(t->lease, &head)) {
        sl_fail(&t->err, SL_EINVAL,
                "the leader says step %" PRIu32 " of closure %" PRIu64
                ", which the job does not have",
                head.step, head.closure);
        hybrid_accuse(t->hybrid, 0, &t->err);
        return;
    }
    if (rc == SL_OK && head.any)
        rc = hybrid_member_compute(t, &head);
    if (rc != SL_OK && t->hybrid->lost)
        hybrid_broken(t->hybrid, &t->err);
    else if (rc != SL_OK)
        hybrid_fail(t->hybrid, rc, &t->err);
    lease_set_progress(t->lease, &t->m);
}

// ---- leading without a step

static void idle(struct hybrid_member *t)
{
    struct hybrid_head none = {.any = false};

    if (hybrid_agree(t->hybrid, &none, &t->err) == SL_OK)
        return;
    if (t->hybrid->lost)
        hybrid_broken(t->hybrid, &t->err);
    else
        hybrid_fail(t->hybrid, t->err.code, &t->err);
}

static void hybrid_member_wait_news(struct hybrid_member *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;

    pulse_wait(pulse, true);
    seat_wait(t->lease->seat, LOOK_MS);
    if (hybrid_leads(t->hybrid) && !seat_has_news(t->lease->seat))
        idle(t);
    pulse_wait(pulse, false);
    pulse_beat(pulse);
}

// ---- the lease

static bool hybrid_member_must_end(struct hybrid_member *t)
{
    if (atomic_load(&t->lease->gate.draining))
        gate_close(&t->lease->gate, GATE_DRAIN);
    return gate_look(&t->lease->gate, t->by->clock) != GATE_OPEN ||
           t->hybrid->failed;
}

static void hybrid_member_loop(struct hybrid_member *t)
{
    while (!hybrid_member_must_end(t)) {
        hybrid_look(t->hybrid);
        if (t->by->ops->between != NULL)
            t->by->ops->between(t->by);
        if (hybrid_member_must_end(t) || seat_has_news(t->lease->seat))
            continue;
        if (hybrid_follows(t->hybrid))
            hybrid_member_follow_step(t);
        else
            hybrid_member_wait_news(t);
    }
}

static void hybrid_member_finish(struct hybrid_member *t)
{
    const struct sl_error *why = &t->hybrid->why;

    if (!t->hybrid->failed)
        lease_stopped(t->lease);
    else if (why->code == SL_ECANCELED)
        lease_hand_back(t->lease, why->text);
    else
        lease_fail(t->lease, why->code, why);
}

void hybrid_member_run(struct contributor *by, struct hybrid *h,
                       struct sync *sync, struct lease *l)
{
    struct hybrid_member t = {.by = by,
                              .hybrid = h,
                              .sync = sync,
                              .lease = l,
                              .m = lease_progress(l),
                              .err = SL_ERROR_INIT};

    hybrid_enter(h, l, by);
    hybrid_member_loop(&t);
    hybrid_exit(h);
    if (by->ops->leave != NULL)
        by->ops->leave(by);
    FAULT("group.left");
    hybrid_member_finish(&t);
}
