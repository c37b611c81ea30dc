// SPDX-License-Identifier: Apache-2.0
// trainer/lease/tally.c -- metrics of counted steps, and evidence for a report.
#include "trainer/lease/tally.h"

#include <math.h>

#include "common/base/mem.h"

void tally_add(struct tally *t, const struct sync *sync,
               struct lease_metrics *m)
{
    struct sync_seen seen;

    // Steps ascend, except those that are computed again.
    if (t->any && t->step >= m->next && sync->ops->counted(sync, t->step)) {
        m->next = t->step + 1;
        m->steps++;
        m->samples += t->samples;
        if (!t->skipped && isfinite(t->loss_sum)) {
            m->loss_samples += t->samples;
            m->loss_sum += t->loss_sum;
            m->right_sum += isfinite(t->right_sum) ? t->right_sum : 0;
        }
        m->skipped += t->skipped;
    }
    t->any = false;
    sync->ops->seen(sync, &seen);
    m->refused = seen.refused;
    m->wait_ms = seen.wait_ms;
    m->push_ms = seen.push_ms;
    m->pushed_bytes = seen.pushed_bytes;
    m->pulled_bytes = seen.pulled_bytes;
}

void tally_evidence(struct lease *l, const struct sync *sync)
{
    struct outcome *o = &l->outcome;
    uint32_t n = sync->ranges_count;

    o->incarnations = sl_malloc_array(n, sizeof(*o->incarnations));
    o->held = sl_malloc_array(n, sizeof(*o->held));
    o->closed = sl_malloc_array(n, sizeof(*o->closed));
    if (o->incarnations == NULL || o->held == NULL || o->closed == NULL) {
        lease_hand_back(l, "out of memory");
        return;
    }
    o->incarnations_count = n;
    sync->ops->evidence(sync, o->incarnations);
    o->map_version = sync->ops->named(sync);
    for (uint32_t i = 0; i < n; i++) {
        o->held[i] = sync->ops->held(sync, i);
        o->closed[i] = sync->ops->closed(sync, i);
    }
}

void tally_conclude(struct lease *l, const struct sync *sync,
                    enum sync_result result, const struct sl_error *err)
{
    switch (result) {
    case SYNC_BUSY:
        return; // it has not ended
    case SYNC_OK:
        tally_evidence(l, sync);
        return;
    case SYNC_AGAIN: // W1: that all is counted is not known any more
        lease_hand_back(l, "a shard has been replaced");
        return;
    case SYNC_STOPPED:
        lease_stopped(l);
        return;
    case SYNC_FENCED:
        lease_hand_back(l, "a newer attempt of the closure runs");
        return;
    case SYNC_EARLY:
        lease_hand_back(l, "an earlier round is open on a shard");
        return;
    case SYNC_PARTLY:
        lease_hand_back(l, "a shard has a part of its contribution");
        return;
    case SYNC_FAILED:
        lease_fail(l, err->code, err);
        return;
    }
}
