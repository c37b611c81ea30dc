// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_ring.c -- rounds that the coordinator ends: open ones,
// and those of a ring that rows lie beside.
#include <inttypes.h>

#include "common/run/log.h"
#include "psserver/roster/roster_inner.h"

// A shard that does not hold what all ranks have applied, or has no memory for
// it, is no state of the job any more: its memory goes, and the next generation
// begins with a cut.
static void hosted_decide(struct hosted *h, const Sluice__V1__CloseRound *m)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        shard_decide(h->shard, m->generation, m->rounds, m->skip, &err);

    if (rc == SL_OK) {
        hosted_applied(h);
        hosted_reached(h);
        return;
    }
    LOG(ERROR, "round of the ring not applied",
        HOLD_PAIRS " generation=%" PRIu64 " rounds=%" PRIu64
                   " error=%s reason=%s",
        HOLD_VALUES(h), m->generation, m->rounds, sl_err_name(rc), err.text);
    hosted_unfit(h, &err);
}

void roster_close_round(struct roster *r, const Sluice__V1__CloseRound *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);

    if (!roster_term_holds(r, m->term, "CloseRound") || h == NULL ||
        h->state != HOSTED_ADMITTED)
        return;
    if (h->shard->plan.decided) {
        hosted_decide(h, m);
        return;
    }
    (void)shard_close_round(h->shard, m->job_incarnation, m->closure);
    hosted_send_counted(h, m->closure + 1);
}
