// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/gone.c -- leases of workers that are gone, and
// suspicions until the cause of each is known.
#include "coordinator/core/leases/gone.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/leases/blame.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/send.h"

struct suspicion {
    struct list_node node; // in coord.suspicions, oldest first
    uint64_t process, identity, witness;
    char *name; // owned, may be NULL
    uint64_t since_ms;
    uint64_t job;
    enum work_kind kind;
    uint64_t closure, cut; // cut: WORK_EVALUATE
};

// ---- one suspicion

static void gone_add_suspicion(struct coord *c, const struct member *m,
                               struct work *w)
{
    struct work *of = w->copy_of != NULL ? w->copy_of : w;
    struct suspicion *s = sl_calloc(1, sizeof(*s));

    if (s == NULL)
        return; // no closure is blamed
    *s = (struct suspicion){
        .process = m->process,
        .identity = m->identity,
        .witness = m->witness,
        .name = sl_strdup(m->name),
        .since_ms = coord_now(c),
        .job = w->job->id,
        .kind = w->kind,
        .closure = w->closure.id,
        .cut = w->cut,
    };
    list_push_back(&c->suspicions, &s->node);
    of->closure.suspected++;
    if (m->memory_bytes > 0 &&
        (of->least_memory == 0 || m->memory_bytes < of->least_memory))
        of->least_memory = m->memory_bytes;
}

static struct work *range(const struct job *job, const struct suspicion *s)
{
    const struct evaluation *e = job->evaluations.running;

    return e == NULL || e->plan.cut != s->cut ? NULL
                                              : evaluation_range(e, s->closure);
}

// Returns the work that a suspicion is about, or NULL if it is gone.
static struct work *work_of(struct job *job, const struct suspicion *s)
{
    switch (s->kind) {
    case WORK_PROBE:
        return &job->leases.probe;
    case WORK_EVALUATE:
        return range(job, s);
    default:
        return leases_get(job, s->closure);
    }
}

// Returns the suspected work if it may still be poison; a closure that others
// have completed is not.
static struct work *accused(struct job *job, const struct suspicion *s)
{
    struct work *w = work_of(job, s);

    if (w == NULL && s->kind == WORK_TRAIN && job->shards.placed &&
        !evidence_closure_full(&job->shards.evidence, s->closure))
        w = leases_work(job, s->closure);
    if (w == NULL || (w->closure.state != CLOSURE_WAITING &&
                      w->closure.state != CLOSURE_LEASED))
        return NULL;
    return w;
}

// Raises the blame that w needs, by how many other workers the job lost.
static void expect(const struct job *job, struct work *w)
{
    uint64_t lost = job->counters.workers_lost;
    uint64_t own = (uint64_t)w->closure.blamed_count + w->closure.suspected + 1;

    if (job->shards.placed)
        closure_expect(&w->closure, schedule_steps(&job->shards.schedule),
                       evidence_steps(&job->shards.evidence),
                       lost > own ? lost - own : 0);
}

static void gone_settle_suspicion(struct coord *c, struct suspicion *s,
                                  bool guilty)
{
    struct job *job = jobs_get(c, s->job);
    struct work *w;

    list_remove(&s->node);
    if (job != NULL && !job_ended(job)) {
        w = work_of(job, s);
        if (w != NULL && w->closure.suspected > 0)
            w->closure.suspected--;
        w = guilty ? accused(job, s) : w;
        if (w != NULL && guilty) {
            LOG(INFO, "worker did not come back",
                "job=%s closure=%llu worker=%s", job->id_text,
                (ull)w->closure.id, s->name == NULL ? "?" : s->name);
            expect(job, w);
            blame_weigh(c, w);
            closure_killed(&w->closure, s->witness);
            blame_work(c, w, s->witness, s->name == NULL ? "?" : s->name,
                       "lost");
        } else if (w != NULL) {
            leases_settle(c, w);
        }
    }
    sl_free(s->name);
    sl_free(s);
}

void gone_back(struct coord *c, const struct member *m)
{
    list_for_safe(n, &c->suspicions)
    {
        struct suspicion *s = list_entry(n, struct suspicion, node);

        if (s->process == m->process)
            gone_settle_suspicion(c, s, false);
    }
}

void gone_replaced(struct coord *c, const struct member *m)
{
    list_for_safe(n, &c->suspicions)
    {
        struct suspicion *s = list_entry(n, struct suspicion, node);

        if (c->dead)
            return;
        if (s->identity == m->identity && s->process != m->process)
            gone_settle_suspicion(c, s, true);
    }
}

void gone_check(struct coord *c)
{
    uint64_t now = coord_now(c);
    struct list_node *n;

    while (!c->dead && (n = list_first(&c->suspicions)) != NULL) {
        struct suspicion *s = list_entry(n, struct suspicion, node);

        if (now - s->since_ms < c->options.lease_ms)
            return;
        gone_settle_suspicion(c, s, true);
    }
}

void gone_release(struct coord *c)
{
    struct list_node *n;

    while ((n = list_pop_front(&c->suspicions)) != NULL) {
        struct suspicion *s = list_entry(n, struct suspicion, node);

        sl_free(s->name);
        sl_free(s);
    }
}

// ---- leases of a worker that goes

// Says whether work may be blamed: a rank computes none of its own while the
// ring is made anew, or once all is counted.
static bool blamable(const struct work *w)
{
    if (leases_is_place(w))
        return false;
    return w->kind != WORK_RING ||
           (job_served(w->job) && !evidence_full(&w->job->shards.evidence));
}

static void give_up_lease(struct coord *c, struct member *m, struct work *w,
                          bool computed, enum gone_why why)
{
    char name[64];

    if (why == GONE_LOST)
        send_revoke(c, m, w, "this worker sent no heartbeat");
    if (why == GONE_LOST && computed && blamable(w) && !leases_is_early(w))
        gone_add_suspicion(c, m, w);
    if (why == GONE_LOST && computed)
        happened_work(c, EVENT_CLOSURE_LOST, w, m, "%s was lost with %s",
                      happened_name(name, w), m->name);
    leases_end(c, w, why == GONE_LOST ? SPAN_LOST : SPAN_HANDED_BACK);
    closure_unstarted(&w->closure, computed);
    leases_settle(c, w);
}

// Counts a lost worker in the jobs that it held leases of when it fell silent,
// or holds now.
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

void gone_worker(struct coord *c, struct member *m, enum gone_why why)
{
    struct list_node *n;
    bool first = true;

    if (why == GONE_LOST) {
        count_lost(c, m);
        // Short closures may be complete without a report yet, so this
        // suspicion may be wrong; the next will not be.
        if (m->lease_count > 0)
            members_forget_pace(&c->members);
    }
    // A place in a group is not computed.
    while ((n = list_first(&m->leases)) != NULL) {
        struct work *w = list_entry(n, struct work, on_holder);
        bool place = leases_is_place(w);

        give_up_lease(c, m, w, first, why);
        first = first && place;
    }
}
