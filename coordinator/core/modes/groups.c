// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/groups.c -- the generations of a hybrid job's groups:
// opened, begun, sent on their way.
#include "coordinator/core/modes/groups.h"

#include <stdio.h>

#include "common/run/log.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/modes/group_audit.h"
#include "coordinator/core/modes/rings.h"
#include "coordinator/core/modes/send_ring.h"

// ---- places

static struct work *groups_find_place(const struct job *job,
                                      const struct member *m)
{
    list_for(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->kind == WORK_RING && w->job == job)
            return w;
    }
    return NULL;
}

static struct group *group_of(const struct job *job, const struct member *m)
{
    const struct work *w = groups_find_place(job, m);

    return w == NULL ? NULL
                     : groups_at(&job->groups, w->closure.id - WORK_PLACES);
}

bool groups_want(const struct job *job)
{
    return job->shards.placed && !job_ended(job) && !job_rests(job);
}

struct work *groups_offer(struct job *job, const struct member *m)
{
    struct work *w =
        leases_work(job, WORK_PLACES + groups_place(&job->groups, m->host));

    if (w != NULL)
        w->kind = WORK_RING;
    return w;
}

bool groups_leads(const struct job *job, const struct member *m)
{
    const struct group *g = group_of(job, m);

    return g != NULL && group_leads(g, m->id);
}

// ---- generations

static void groups_log_state(const struct job *job, const struct group *g,
                             const char *what)
{
    LOG(INFO, what, "job=%s host=%s generation=%llu members=%u", job->id_text,
        g->host, (ull)g->ring.generation, g->ring.members);
}

// Returns the next generation's number. Numbers are never used twice, though
// none is kept: terms are journalled.
static uint64_t groups_next_generation(const struct coord *c,
                                       const struct job *job)
{
    uint64_t first = c->term << 32, newest = job->groups.generation;

    return (newest < first ? first : newest) + 1;
}

static void groups_open_generation(struct coord *c, struct job *job,
                                   struct group *g)
{
    job->groups.generation = groups_next_generation(c, job);
    ring_open(&g->ring, job->groups.generation);
    JOB_HISTORY(job, "group_open", " generation=%llu members=%u",
                (ull)g->ring.generation, g->ring.members);
    groups_log_state(job, g, "group opened");
    for (uint32_t i = 0; i < g->ring.count; i++)
        send_ring_open(c, job, &g->ring, g->ring.rank[i].member);
    job->changes++;
}

static void groups_begin_generation(struct coord *c, struct job *job,
                                    struct group *g)
{
    ring_choose(&g->ring, (struct wire_tag){0, 0}, false);
    for (uint32_t i = 0; i < g->ring.count; i++) {
        if (g->ring.rank[i].in)
            send_ring_begin(c, job, &g->ring, g->ring.rank[i].member);
    }
}

// Forgets the blame of a place once its present member has joined a generation.
static void groups_absolve_place(struct coord *c, const struct job *job,
                                 uint64_t member)
{
    const struct member *m = members_get(&c->members, member);
    struct work *w = m == NULL ? NULL : groups_find_place(job, m);

    if (w == NULL || w->closure.blamed_count == 0)
        return;
    closure_advanced(&w->closure);
    buf_reset(&w->story);
}

static void groups_run_generation(struct coord *c, struct job *job,
                                  struct group *g)
{
    JOB_HISTORY(job, "group_go", " generation=%llu members=%u",
                (ull)g->ring.generation, g->ring.members);
    groups_log_state(job, g, "group goes");
    happened_job(c, EVENT_GROUP_RUNS, job, NULL,
                 "generation %llu of the group on %s runs, with %u workers",
                 (ull)g->ring.generation, g->host, g->ring.members);
    for (uint32_t i = 0; i < g->ring.count; i++) {
        if (!g->ring.rank[i].in)
            continue;
        groups_absolve_place(c, job, g->ring.rank[i].member);
        send_ring_go(c, job, &g->ring, g->ring.rank[i].member);
    }
    job->changes++;
}

static void groups_check_one(struct coord *c, struct job *job, struct group *g)
{
    uint64_t accused = ring_accused(&g->ring, coord_now(c));
    struct member *m = accused == 0 ? NULL : members_get(&c->members, accused);

    if (m != NULL) {
        LOG(WARN, "rank removed from its generation",
            "job=%s generation=%llu worker=%s", job->id_text,
            (ull)g->ring.generation, m->name);
        excluded_put(c, m, job, CONDUCT_PEERS);
    }
    if (ring_due(&g->ring, coord_now(c)))
        groups_open_generation(c, job, g);
    if (ring_answered(&g->ring))
        groups_begin_generation(c, job, g);
}

// Merges two groups into one: the members of the smaller take places anew, and
// the fullest group comes first.
static void groups_merge_spare(struct coord *c, struct job *job)
{
    struct group *spare = groups_spare(&job->groups);

    if (spare == NULL)
        return;
    groups_log_state(job, spare, "group joins another");
    while (spare->ring.count > 0) {
        struct member *m = members_get(&c->members, spare->ring.rank[0].member);
        struct work *w = m == NULL ? NULL : groups_find_place(job, m);

        if (w == NULL)
            return; // the member is on its way out
        leases_revoke(c, m, w, "its group joins another");
    }
}

void groups_check(struct coord *c, struct job *job)
{
    if (!groups_want(job))
        return;
    for (uint32_t i = 0; i < job->groups.count && !c->dead; i++)
        groups_check_one(c, job, job->groups.group[i]);
    groups_merge_spare(c, job);
}

// ---- messages of members

static void groups_receive_join(struct coord *c, struct member *m,
                                struct job *job, struct group *g,
                                const Sluice__V1__RingJoin *message)
{
    if (leases_find(m, job->id, message->attempt) == groups_find_place(job, m))
        (void)rings_join(c, m, job, &g->ring, message);
}

static void groups_receive_answer(struct coord *c, struct member *m,
                                  struct job *job, struct group *g,
                                  const Sluice__V1__RingAnswer *message)
{
    struct wire_tag tag = wire_tag_of(message->tag);

    // A group has no state, so its members have none with a tag.
    if (wire_tag_cmp(tag, (struct wire_tag){0, 0}) != 0)
        rings_distrust(c, m, job,
                       "it reports a state, but this job's ranks keep none");
    else
        (void)ring_answer(&g->ring, m->id, message->generation, tag);
}

static void groups_receive_ready(struct coord *c, struct member *m,
                                 struct job *job, struct group *g,
                                 const Sluice__V1__RingReady *message)
{
    enum sl_err rc = ring_ready(&g->ring, m->id, message->generation,
                                wire_tag_of(message->tag));

    if (rc == SL_EINVAL)
        rings_distrust(c, m, job,
                       "it answers with the tag of another generation");
    else if (rc == SL_OK && g->ring.state == RING_RUNNING)
        groups_run_generation(c, job, g);
}

bool groups_receive(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__AttendUp *message)
{
    struct group *g = groups_want(job) ? group_of(job, m) : NULL;

    if (g == NULL)
        return false;
    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_RING_JOIN:
        groups_receive_join(c, m, job, g, message->ring_join);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER:
        groups_receive_answer(c, m, job, g, message->ring_answer);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_READY:
        groups_receive_ready(c, m, job, g, message->ring_ready);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_STEP:
        group_audit_take(c, m, job, g, message->ring_step);
        return !c->dead;
    case SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN:
        rings_accuse(c, m, job, &g->ring, message->ring_broken);
        return true;
    default:
        return false;
    }
}
