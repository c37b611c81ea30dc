// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_lead.c -- a leader between two steps.
#include "trainer/lease/hybrid_lead.h"

#include "common/base/fault.h"

#define LOOK_MS 200 // most time between two looks at the gates

enum sync_result hybrid_meet(struct hybrid *h, struct lease *l,
                             const struct sl_clock *clock, bool *parted)
{
    struct gate *gate = &l->gate, *ring = &h->lease->gate;
    struct seat *seat = h->lease->seat;

    for (;;) {
        if (seat_has_news(seat))
            hybrid_look(h);
        *parted = h->failed || hybrid_follows(h) ||
                  atomic_load(&ring->draining) ||
                  gate_look(ring, clock) != GATE_OPEN;
        if (atomic_load(&gate->draining))
            gate_close(gate, GATE_DRAIN);
        if (*parted || gate_look(gate, clock) != GATE_OPEN)
            return SYNC_STOPPED;
        if (hybrid_leads(h))
            return SYNC_OK;
        pulse_wait(&gate->pulse, true);
        seat_wait(seat, LOOK_MS);
        pulse_wait(&gate->pulse, false);
        pulse_beat(&gate->pulse); // the thread does not hang
    }
}

enum sync_result hybrid_lead_begin(struct hybrid_step *s, struct hybrid *h,
                                   struct contributor *by, struct steps *t,
                                   bool *parted)
{
    enum sync_result result = hybrid_meet(h, t->lease, by->clock, parted);

    if (result == SYNC_OK)
        result = steps_fresh_wait(t);
    if (result != SYNC_OK)
        return result;
    atomic_store(&t->lease->gate.pulse.step, t->step);
    *s = (struct hybrid_step){
        .hybrid = h,
        .by = by,
        .clock = by->clock,
        .m = &t->m,
        .pulse = &t->lease->gate.pulse,
        .sync = t->sync,
        .head = {.any = true, .closure = t->lease->closure, .step = t->step}};
    return SYNC_OK;
}

static enum sync_result regroup(struct hybrid *h, enum sl_err rc,
                                struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;

    if (h->lost) {
        hybrid_broken(h, err);
        *err = (struct sl_error)SL_ERROR_INIT;
        return SYNC_AGAIN;
    }
    sl_fail(&why, SL_ECANCELED, "its step failed: %s", err->text);
    hybrid_fail(h, SL_ECANCELED, &why);
    err->code = rc;
    return SYNC_FAILED;
}

enum sync_result hybrid_lead(struct hybrid_step *s, struct sl_error *err)
{
    enum sl_err rc = hybrid_agree(s->hybrid, &s->head, err);

    if (rc == SL_OK)
        rc = hybrid_run(s, err);
    if (s->dropped && s->pulled != SYNC_FAILED) {
        *err = (struct sl_error)SL_ERROR_INIT;
        return s->pulled;
    }
    if (rc != SL_OK)
        return regroup(s->hybrid, rc, err);
    FAULT("group.summed");
    return SYNC_OK;
}
