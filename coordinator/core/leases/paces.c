// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/paces.c -- see paces.h.
#include "coordinator/core/leases/paces.h"

#include "coordinator/core/job.h"

void paces_take(const struct member *m, const struct job *job,
                const Sluice__V1__Change *change)
{
    struct opened *opened = map_get(&m->opened, job->id);

    if (opened != NULL && change != NULL && change->norm >= 0)
        pace_take(&opened->pace, change->took_ms, change->steps);
}

// Returns the worker's time for a step of the job; 0: not known, or the worker
// takes no leases of it.
static double paces_of(const struct coord *c, const struct job *job,
                       const struct member *m)
{
    const struct opened *opened = map_get(&m->opened, job->id);

    return opened != NULL && !m->draining && member_ready(m, coord_now(c))
               ? opened->pace.step_ms
               : 0;
}

static void paces_look(const struct coord *c, struct job *job)
{
    double fastest = 0, sum = 0;
    uint32_t count = 0;

    list_for(n, &c->members.all)
    {
        double ms = paces_of(c, job, list_entry(n, struct member, node));

        if (ms > 0 && (fastest == 0 || ms < fastest))
            fastest = ms;
    }
    list_for(n, &c->members.all)
    {
        double ms = paces_of(c, job, list_entry(n, struct member, node));

        if (ms > 0) {
            sum += pace_closures(ms, fastest, job->paces.most);
            count++;
        }
    }
    job->paces.fastest_ms = fastest;
    job->paces.mean = count > 0 ? sum / count : job->paces.most;
    job->paces.until_ms = coord_now(c) + PACES_LOOK_MS;
}

uint32_t paces_closures(struct coord *c, struct job *job,
                        const struct member *m)
{
    if (!job->paces.own)
        return 0;
    if (coord_now(c) >= job->paces.until_ms)
        paces_look(c, job);
    return pace_closures(paces_of(c, job, m), job->paces.fastest_ms,
                         job->paces.most);
}
