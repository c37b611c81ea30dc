// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/serve.c -- one pass over idle workers and the offers
// of jobs.
//
// A worker is offered work of the jobs that it holds leases of, and of the jobs
// that are listed for newcomers. A job that has nothing for any worker leaves
// the list at the first question, so a pass in which nothing can be leased
// costs a question per job, and a look at each worker.
#include "coordinator/core/leases/serve.h"

#include "coordinator/core/advance.h"
#include "coordinator/core/modes/copies.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/leases/guard.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/paces.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/send.h"
#include "proto/spec.h"

// The best offer for a worker so far, while jobs are compared.
struct choice {
    const struct member *member;
    struct dispatch_worker worker;
    struct job *job; // NULL: none yet
    struct dispatch_job is;
    struct offer offer;
};

// Says whether another attached worker was given the job's last lease, and so
// has the job.
static bool is_elsewhere(const struct coord *c, const struct job *job,
                         const struct member *m)
{
    struct member *other;

    if (job->leases.served_by == m->id)
        return false;
    other = members_get(&c->members, job->leases.served_by);
    return other != NULL && member_ready(other, coord_now(c));
}

static struct dispatch_job serve_describe_job(const struct coord *c,
                                              const struct job *job,
                                              const struct member *m)
{
    return (struct dispatch_job){
        .id = job->id,
        .priority = spec_priority(job->spec->train),
        .external = job->external,
        .held_here = map_get(&job->leases.holders, m->id) != NULL,
        .held = job->leases.held,
        .workers = (uint32_t)job->leases.holders.len,
        .max_workers = job->spec->train->max_workers,
        .served = job->leases.served,
        .apart = is_elsewhere(c, job, m) ? dispatch_apart(m->lease_ms) : 0,
    };
}

// Drops a job without an offer for a worker from the lists, if no worker gets
// an offer: it is not asked again in this pass.
static void exhausted(struct coord *c, struct job *job)
{
    bool newcomers = offers_any(c, job, true);

    if (!newcomers)
        list_remove(&job->pass.node);
    if (!newcomers && !offers_any(c, job, false)) {
        job->pass.spent = true;
        c->offers.jobs--;
    }
}

// Compares a job with the choice so far. Its order is cheaper to see than its
// offer: with hundreds of jobs only a few are asked.
static void serve_consider_job(struct coord *c, struct choice *choice,
                               struct job *job)
{
    struct dispatch_job is = serve_describe_job(c, job, choice->member);
    struct offer o;

    c->offers.compared++;
    if (!job_able(job, choice->member))
        return; // other workers may know its layers, or be ranks
    if (!dispatch_fits(&choice->worker, &is)) {
        list_remove(&job->pass.node); // the job has its max_workers
        return;
    }
    if (choice->job != NULL && !dispatch_before(&is, &choice->is))
        return;
    o = offers_for(c, job, choice->member);
    if (o.kind == WORK_NONE) {
        exhausted(c, job);
        return;
    }
    choice->job = job;
    choice->is = is;
    choice->offer = o;
}

static void consider_held(struct coord *c, struct choice *choice)
{
    struct job *last = NULL;

    list_for(n, &choice->member->leases)
    {
        struct job *job = list_entry(n, struct work, on_holder)->job;

        if (job != last && !job->pass.spent)
            serve_consider_job(c, choice, job);
        last = job;
    }
}

static void consider_new(struct coord *c, struct choice *choice)
{
    const struct member *m = choice->member;

    list_for_safe(n, &c->offers.list[m->external])
    {
        struct job *job = list_entry(n, struct job, pass.node);

        if (map_get(&job->leases.holders, m->id) == NULL)
            serve_consider_job(c, choice, job);
    }
}

static bool serve_give_lease(struct coord *c, struct member *m, struct job *job,
                             const struct offer *o)
{
    struct work *w = o->kind != WORK_TRAIN ? o->work
                     : o->copy_of != NULL  ? copies_new(o->copy_of)
                                           : leases_work(job, o->closure);

    if (w == NULL)
        return false;
    if (!leases_give(c, m, w)) {
        leases_settle(c, w);
        return false;
    }
    w->norm_most = guard_bound(w);
    w->closures = paces_closures(c, job, m);
    excluded_readmit(c, m, job);
    return true;
}

// Puts a worker last that is to meet others than it has met, once. Leases go
// around: of an even number of workers the same two have each round of two
// (A6).
static bool serve_yields(struct coord *c, struct member *m, uint32_t have)
{
    struct list *open = &c->members.open[have];

    if (!m->yields || list_last(open) == &m->open)
        return false;
    m->yields = false;
    list_remove(&m->open);
    list_push_back(open, &m->open);
    return true;
}

// Serves a worker that holds `have` leases.
static void serve_worker(struct coord *c, struct member *m, uint32_t have)
{
    struct choice choice = {
        .member = m,
        .worker = {.leases = member_computes(m),
                   .most = m->lease_most,
                   .ready = member_ready(m, coord_now(c)),
                   .external = m->external,
                   .only = m->only_job},
    };

    if (!dispatch_worker_free(&choice.worker))
        return;
    consider_held(c, &choice);
    if (leases_ring_job(m) == NULL) // a rank works for its own job alone
        consider_new(c, &choice);
    if (choice.job != NULL && !serve_yields(c, m, have))
        (void)serve_give_lease(c, m, choice.job, &choice.offer);
}

// ---- a pass

static void serve_collect_offers(struct coord *c)
{
    c->offers.jobs = 0;
    c->offers.wanting = 0;
    list_init(&c->offers.list[0]);
    list_init(&c->offers.list[1]);
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);

        offers_begin(job);
        job->pass.spent = false;
        if (job_rests(job) || queue_waits(job))
            continue;
        list_push_back(&c->offers.list[job->external], &job->pass.node);
        c->offers.jobs++;
        c->offers.wanting++;
    }
}

static void serve_clear_offers(struct coord *c)
{
    while (list_pop_front(&c->offers.list[0]) != NULL)
        continue;
    while (list_pop_front(&c->offers.list[1]) != NULL)
        continue;
}

// Serves the workers that hold `have` leases, until no job has anything for
// them.
static void serve_all(struct coord *c, uint32_t have)
{
    list_for_safe(n, &c->members.open[have])
    {
        struct member *m = list_entry(n, struct member, open);
        uint32_t held;

        // A worker that streams has the leases behind its first ones at once,
        // or its stream ends.
        do {
            if (c->dead || c->offers.jobs == 0)
                return;
            held = m->lease_count;
            serve_worker(c, m, have);
        } while (m->lease_count > held && member_computes(m) == have);
    }
}

// Begins queued jobs that have their turn by now.
static void take_turns(struct coord *c)
{
    struct job *job;

    while (!c->dead && (job = queue_next(c)) != NULL)
        advance_job(c, job);
}

void serve_workers(struct coord *c)
{
    take_turns(c);
    if (c->dead)
        return;
    serve_collect_offers(c);
    for (uint32_t have = 0; have < DISPATCH_LEASES_WIDEST; have++)
        serve_all(c, have);
    serve_clear_offers(c);
    if (c->dead)
        return;
    list_for_safe(n, &c->members.unsent)
    {
        struct member *m = list_entry(n, struct member, unsent);

        list_remove(n);
        send_leases(c, m);
    }
    // Journals the counters of works that were leased again.
    list_for(j, &c->jobs.active)
    {
        jobs_flush(c, list_entry(j, struct job, on_active));
    }
}
