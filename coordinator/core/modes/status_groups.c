// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/status_groups.c -- the groups of a hybrid job, for
// people.
#include "coordinator/core/modes/status_groups.h"
#include "coordinator/core/job.h"

#include "common/base/mem.h"

static bool add_member(const struct coord *c, const struct ring_rank *rank,
                       Sluice__V1__GroupStatus *out)
{
    const struct member *m = members_get(&c->members, rank->member);
    Sluice__V1__GroupMember *to =
        wire_new(&sluice__v1__group_member__descriptor);

    if (to == NULL)
        return false;
    out->members[out->n_members++] = to;
    to->worker = sl_strdup(m == NULL ? "" : m->name);
    to->host = sl_strdup(m == NULL ? "" : m->host);
    return to->worker != NULL && to->host != NULL;
}

static bool status_groups_add(const struct coord *c, const struct group *g,
                              Sluice__V1__JobStatus *out)
{
    Sluice__V1__GroupStatus *to =
        wire_new(&sluice__v1__group_status__descriptor);

    if (to == NULL)
        return false;
    out->groups[out->n_groups++] = to;
    to->generation = g->ring.generation;
    to->runs = g->ring.state == RING_RUNNING && !g->ring.torn;
    to->members = sl_calloc(g->ring.count, sizeof(*to->members));
    for (uint32_t i = 0; to->members != NULL && i < g->ring.count; i++) {
        if (!add_member(c, &g->ring.rank[i], to))
            return false;
    }
    return to->members != NULL;
}

bool groups_status(const struct coord *c, const struct job *job,
                   Sluice__V1__JobStatus *out)
{
    if (job->groups.count == 0)
        return true;
    out->groups = sl_calloc(job->groups.count, sizeof(*out->groups));
    for (uint32_t i = 0; out->groups != NULL && i < job->groups.count; i++) {
        if (job->groups.group[i]->ring.count > 0 &&
            !status_groups_add(c, job->groups.group[i], out))
            return false;
    }
    return out->groups != NULL;
}
