// SPDX-License-Identifier: Apache-2.0
// trainer/lease/steps.c -- the moves between steps, and what is sent of one.
#include "trainer/lease/steps.h"

void steps_init(struct steps *s, struct lease *l, struct sync *sync,
                struct nonfinite *nonfinite)
{
    // A second attempt adds to the first.
    *s = (struct steps){.lease = l,
                        .sync = sync,
                        .nonfinite = nonfinite,
                        .m = lease_progress(l),
                        .err = SL_ERROR_INIT};
}

enum sync_result steps_open(struct steps *s)
{
    struct lease *l = s->lease;
    const struct sync_closure c = {.closure = l->closure,
                                   .attempt = l->attempt,
                                   .proof = l->proof,
                                   .steps = l->steps,
                                   .gate = &l->gate};

    return s->sync->ops->open(s->sync, &c, &s->err);
}

void steps_report(struct steps *s)
{
    tally_add(&s->tally, s->sync, &s->m);
    lease_set_progress(s->lease, &s->m);
}

void steps_again(struct steps *s)
{
    s->at = STEPS_ASK;
    steps_report(s);
}

static void steps_take(struct steps *s, uint32_t step)
{
    s->at = STEPS_STEP;
    s->step = step;
    s->fresh = 0;
    s->skipped = false;
}

// Shards are asked also while the lease drains: a closure that they have
// counted is no work for another worker.
static enum sync_result steps_ask(struct steps *s)
{
    struct gate *gate = &s->lease->gate;
    uint32_t step = 0;
    bool done = false;
    enum sync_result result =
        s->sync->ops->begin(s->sync, &step, &done, &s->err);

    if (result != SYNC_OK)
        return result;
    if (done) {
        s->step = step;
        s->at = STEPS_DONE;
        return SYNC_OK;
    }
    if (atomic_load(&gate->draining)) {
        gate_close(gate, GATE_DRAIN);
        return SYNC_STOPPED;
    }
    steps_take(s, step);
    return SYNC_OK;
}

static enum sync_result steps_settle(struct steps *s)
{
    enum sync_result result = s->sync->ops->settle(s->sync, &s->err);

    if (result == SYNC_OK)
        steps_again(s); // and the shards say what is missing
    return result;
}

enum sync_result steps_move(struct steps *s)
{
    enum sync_result result = SYNC_OK;
    uint32_t next;

    switch (s->at) {
    case STEPS_ASK:
        result = steps_ask(s);
        break;
    case STEPS_STEP:
        next = s->sync->ops->next(s->sync, s->step);
        if (next < s->lease->steps && !atomic_load(&s->lease->gate.draining))
            steps_take(s, next);
        else
            s->at = STEPS_SETTLE;
        break;
    case STEPS_SETTLE:
        result = steps_settle(s);
        break;
    case STEPS_DONE:
        break;
    }
    if (result != SYNC_AGAIN)
        return result;
    steps_again(s);
    return SYNC_OK;
}

enum sync_result steps_go(struct steps *s)
{
    enum sync_result result;

    while ((result = steps_move(s)) == SYNC_BUSY)
        s->sync->ops->await(s->sync);
    return result;
}

enum sync_result steps_fresh(struct steps *s)
{
    while (s->fresh < s->sync->ranges_count) {
        enum sync_result result =
            s->sync->ops->wait(s->sync, s->fresh, &s->err);

        if (result != SYNC_OK)
            return result;
        s->fresh++;
    }
    steps_report(s);
    return SYNC_OK;
}

enum sync_result steps_fresh_wait(struct steps *s)
{
    enum sync_result result;

    while ((result = steps_fresh(s)) == SYNC_BUSY)
        s->sync->ops->await(s->sync);
    return result;
}

enum sync_result steps_judge(struct steps *s)
{
    const struct nonfinite_step at = {
        .closure = s->lease->closure, .step = s->step, .strange = s->m.strange};
    enum sl_err rc;

    s->skipped = s->tally.skipped = true;
    rc = nonfinite_judge(s->nonfinite, &at, &s->err);
    s->err.code = rc;
    return rc == SL_OK ? SYNC_OK : SYNC_FAILED;
}

enum sync_result steps_whole(struct steps *s, uint32_t range,
                             const struct sync_step *step, bool finite)
{
    enum sync_result result = finite || s->skipped ? SYNC_OK : steps_judge(s);

    return result == SYNC_OK
               ? s->sync->ops->send(s->sync, range, step, !finite, &s->err)
               : result;
}

enum sync_result steps_skip(struct steps *s, uint32_t range,
                            const struct sync_step *step)
{
    s->skipped = s->tally.skipped = true;
    return s->sync->ops->send(s->sync, range, step, true, &s->err);
}

void steps_note(struct steps *s, uint64_t samples, double loss_sum,
                double right_sum)
{
    s->tally = (struct tally){.any = true,
                              .step = s->step,
                              .samples = samples,
                              .loss_sum = loss_sum,
                              .right_sum = right_sum,
                              .skipped = s->skipped};
}

void steps_end(struct steps *s)
{
    s->tally.skipped = s->skipped;
    if (!s->skipped)
        nonfinite_end_row(s->nonfinite);
}

void steps_conclude(struct steps *s, enum sync_result result)
{
    tally_conclude(s->lease, s->sync, result, &s->err);
}
