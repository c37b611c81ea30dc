// SPDX-License-Identifier: Apache-2.0
// coordinator/core/gone.c -- the leases of a worker that is gone: the one that
// it computed is blamed, the others waited behind it.
#include "coordinator/core/gone.h"

#include "common/base/broken.h"
#include "coordinator/core/blame.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/send.h"

static void give_up_lease(struct coord *c, struct member *m, struct work *w,
                          bool computed, enum gone_why why)
{
    if (why == GONE_LOST)
        send_revoke(c, m, w, "nothing was heard of this worker");
    leases_end(w);
    if (BROKEN(lose_closure))
        return;
    if (why == GONE_LOST && computed) {
        closure_lost(&w->closure);
        blame_work(c, w, m->name, "lost");
    } else {
        closure_unstarted(&w->closure);
    }
}

// Jobs whose leases it held when it fell silent, or holds now.
static void count_lost(struct coord *c, struct member *m)
{
    size_t at = 0;
    uint64_t id;

    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        (void)map_put(&m->losing, w->job->id, w->job);
    }
    if (m->state == MEMBER_SUSPECT)
        return; // it may come back
    while (map_next(&m->losing, &at, &id, NULL)) {
        struct job *job = jobs_get(c, id);

        if (job != NULL && !job_ended(job))
            jobs_count(job, &job->counters.workers_lost);
    }
    map_release(&m->losing);
}

void gone_take_leases(struct coord *c, struct member *m, enum gone_why why)
{
    struct list_node *n;
    bool first = true;

    if (why == GONE_LOST) {
        count_lost(c, m);
        // Short closures may be complete and not said yet, so this one may
        // blame the wrong one; the next will not.
        if (m->lease_count > 0)
            members_forget_pace(&c->members);
    }
    // The oldest is what it computed; the other waited behind it.
    while ((n = list_first(&m->leases)) != NULL) {
        give_up_lease(c, m, list_entry(n, struct work, on_holder), first, why);
        first = false;
    }
}
