// SPDX-License-Identifier: Apache-2.0
// tests/sim/boss.c -- the coordinator: the real one, in a process that dies.
//
// Its journal is SQLite in memory, which survives it as committed pages would.
// What it says goes to the sessions; its pool writes manifests on its host's
// disk. After every call: cuts that are new are looked at (cuts.c), and what it
// believes is compared with what was counted (C1, C2).
#include "tests/sim/boss.h"

#include <inttypes.h>

#include "common/base/json.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/mode.h"
#include "coordinator/service/status_lists.h"
#include "proto/pbjson.h"
#include "tests/sim/books.h"
#include "tests/sim/groups.h"
#include "tests/sim/net.h"
#include "tests/sim/pool.h"
#include "tests/sim/rings.h"
#include "tests/sim/truth.h"

#define SUBMIT_AGAIN_US (500 * 1000)

// No two that are leased are so far apart.
#define SIM_HOLDERS 1024

struct boss {
    struct sim *sim;
    struct proc *proc;
    struct coord *coord;
    // who holds which closure, by what this one has sent
    struct holder {
        uint64_t member; // 0: nobody
        uint64_t closure;
        struct wire_attempt attempt;
    } holder[SIM_HOLDERS][2]; // by number modulo; the second: of a copy
    struct groups_sent groups;
};

static struct boss *boss_self(struct sim *s)
{
    struct proc *p = boss_of(s);

    return p == NULL ? NULL : p->self;
}

// It is about to be called.
static void mark(struct sim *s)
{
    truth_mark(s);
    rings_called(s);
}

struct proc *boss_of(struct sim *s)
{
    return proc_get(s, s->slots[0].now);
}

static struct job *job_of(struct sim *s)
{
    struct boss *b = boss_self(s);

    return b == NULL || b->coord == NULL || s->job == 0
               ? NULL
               : jobs_get(b->coord, s->job);
}

bool boss_look(struct sim *s, struct boss_sight *out)
{
    struct job *job = job_of(s);
    uint64_t last;

    if (job == NULL)
        return false;
    last = job->cuts.count == 0 ? 0 : job->cuts.list[job->cuts.count - 1].n;
    *out = (struct boss_sight){
        .state = (int)job->state,
        .last_cut = last,
        .cuts = last << 16 | job->cuts.count,
        .making = job->cuts.now != NULL,
    };
    return true;
}

static void name_job(struct sim *s, Sluice__V1__JobRequest *request,
                     char id[24])
{
    snprintf(id, 24, "j-%" PRIu64, s->job);
    request->id = id;
    request->shards = true;
}

Sluice__V1__CheckpointsReply *boss_cuts(struct sim *s)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts = NULL;
    char id[24];

    name_job(s, &request, id);
    T_OK(status_checkpoints(boss_self(s)->coord, &request, &cuts, t_err()));
    return cuts;
}

Sluice__V1__JobStatus *boss_status(struct sim *s)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    char id[24];

    if (job_of(s) == NULL)
        return NULL;
    name_job(s, &request, id);
    T_OK(coord_get(boss_self(s)->coord, &request, &status, t_err()));
    T_OK(wire_check(&status->base, t_err()));
    return status;
}

// ---- checks

// True for a job that has failed as it has to: each of its updates was skipped,
// which chance does to few of them. Nothing else fails a job here.
static bool has_nothing(const struct job *job)
{
    if (job->state != JOB_FAILED || !job->shards.placed)
        return false;
    for (uint32_t i = 0; i < job->shards.count; i++)
        if (job->shards.list[i].counts.applied > 0 ||
            job->shards.list[i].counts.skipped == 0)
            return false;
    return true;
}

// C1, C2, and E1: what is believed was counted, and what has finished is in a
// published cut.
// A2: a worker that is right is never suspect.
static void check_suspects(struct sim *s)
{
    uint64_t suspects = 0;

    list_for(n, &boss_self(s)->coord->drains)
    {
        const struct drain *d = list_entry(n, struct drain, node);

        T_TRUE(drain_is_audit(d) && sim_is_wrong(s, d->name));
        suspects++;
    }
    if (suspects > s->suspects)
        s->seen.suspects++;
    s->suspects = suspects;
}

static void after(struct sim *s)
{
    struct job *job = job_of(s);

    if (job == NULL || boss_self(s)->coord->dead)
        return;
    check_suspects(s);
    if (s->seen.audits < job->audit.compared)
        s->seen.audits = job->audit.compared;
    if (job->shards.placed)
        s->shards = job->shards.count;
    T_LE(s->shards, SIM_SHARDS);
    if (s->knobs.soak == NULL)
        cuts_look(s);
    if (job->mode->on_workers && job->shards.placed && !job_ended(job))
        rings_look(s, job);
    if ((job->state == JOB_FINISHED || has_nothing(job)) && !s->finished) {
        T_TRUE(job_cut_complete(job)); // E1
        s->finished = true;
        s->seen.all_skipped += job->state == JOB_FAILED;
    }
    if ((job->state == JOB_FAILED && !has_nothing(job)) ||
        job->state == JOB_STOPPED)
        T_FAIL("the job ended as %s: %s", job_state_name(job->state),
               job->end.reason);
}

static void check_evidence(struct sim *s)
{
    struct job *job = job_of(s);

    if (job == NULL || job_ended(job) || !job->shards.placed ||
        job->mode->on_workers || s->knobs.soak != NULL)
        return;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        truth_evidence(s, i, job->shards.evidence.shard[i].incarnation,
                       evidence_counted(&job->shards.evidence, i));
        rounds_believed(s, i, &job->shards.evidence.shard[i]);
    }
}

static unsigned copies_out(const struct boss *b)
{
    unsigned copies = 0;

    for (unsigned i = 0; i < SIM_HOLDERS; i++)
        copies += b->holder[i][0].member != 0 && b->holder[i][1].member != 0;
    return copies;
}

// Never two at once without a loss, but as a copy: of the same attempt (I4),
// by somebody else, and no more of them than the job says.
static void check_holders(struct boss *b, uint64_t member,
                          const Sluice__V1__Lease *lease)
{
    struct holder *h = b->holder[lease->closure % SIM_HOLDERS];
    struct wire_attempt attempt = wire_attempt_of(lease->attempt);
    unsigned at = h[0].member != 0, other = 1 - at;

    T_EQ(h[at].member, 0);
    if (h[other].member != 0) {
        T_EQ(h[other].closure, lease->closure);
        T_NE(h[other].member, member);
        T_EQ(wire_attempt_cmp(h[other].attempt, attempt), 0);
        T_LT(copies_out(b), b->sim->knobs.backup);
        b->sim->seen.backups++;
    }
    h[at] = (struct holder){member, lease->closure, attempt};
}

static void check_lease(struct boss *b, uint64_t member,
                        const Sluice__V1__Lease *lease)
{
    struct job *job = job_of(b->sim);

    T_EQ(lease->term, coord_term(b->coord));
    if (lease->kind != SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        return;
    T_LT(lease->closure, schedule_closures(&b->sim->knobs.schedule));
    check_holders(b, member, lease);
    // C3: some shard lacks a step of it. C5: not beyond the window.
    T_FALSE(evidence_closure_full(&job->shards.evidence, lease->closure));
    if (b->sim->knobs.contributions > 0)
        rounds_lease(b->sim, job, lease->closure);
    else
        T_LT(lease->closure,
             evidence_low(&job->shards.evidence) + b->sim->knobs.window);
}

static void end_lease(struct boss *b, uint64_t member, uint64_t closure)
{
    struct holder *h = b->holder[closure % SIM_HOLDERS];

    for (unsigned i = 0; i < 2; i++)
        if (h[i].member == member && h[i].closure == closure)
            h[i].member = 0;
}

static void forget_holder(struct boss *b, uint64_t member)
{
    for (unsigned i = 0; i < SIM_HOLDERS; i++)
        for (unsigned k = 0; k < 2; k++)
            if (b->holder[i][k].member == member)
                b->holder[i][k].member = 0;
}

// ---- what it does

static void io_send(void *arg, uint64_t member, const Sluice__V1__AttendDown *m)
{
    struct boss *b = arg;

    T_OK(wire_check(&m->base, t_err()));
    if (b->sim->knobs.mode == SIM_HYBRID)
        groups_down(b->sim, &b->groups, member, m);
    switch (m->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_LEASES:
        for (size_t i = 0; i < m->leases->n_lease; i++)
            check_lease(b, member, m->leases->lease[i]);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REVOKE:
        if (m->revoke->whole_job)
            books_check_ended(b->sim);
        else if (m->revoke->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
            end_lease(b, member, m->revoke->closure);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_PLACE:
        truth_place(b->sim, m->place->shard);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_ADMIT:
        books_check_admit(b->sim, m->admit->shard, m->admit->incarnation);
        truth_admit(b->sim, m->admit->shard, m->admit->incarnation);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN:
        if (b->sim->knobs.mode == SIM_RING)
            rings_job_open(b->sim, m->job_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_OPEN:
        if (b->sim->knobs.mode == SIM_RING)
            rings_opened(b->sim, m->ring_open);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RING_BEGIN:
        if (b->sim->knobs.mode == SIM_RING)
            rings_begun(b->sim, m->ring_begin);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB:
        books_check_ended(b->sim);
        break;
    default:
        break;
    }
    session_down(b->sim, member, m);
}

static void io_hang_up(void *arg, uint64_t member)
{
    struct boss *b = arg;

    forget_holder(b, member);
    session_hang_up(b->sim, member, false);
}

static void io_cut_off(void *arg, uint64_t member)
{
    struct boss *b = arg;

    forget_holder(b, member);
    session_hang_up(b->sim, member, true);
}

// Its pool's work ends on its loop: what it changed is looked at then.
struct boss_work {
    struct sim *sim;
    void (*work)(void *);
    void (*done)(void *);
    void *task;
};

static void work_begin(void *arg)
{
    struct boss_work *w = arg;

    w->work(w->task);
}

static void work_end(void *arg)
{
    struct boss_work *w = arg;

    mark(w->sim);
    w->done(w->task);
    after(w->sim);
    free(w);
}

static enum sl_err io_work(void *arg, void (*work)(void *),
                           void (*done)(void *), void *task)
{
    struct boss *b = arg;
    struct boss_work *w = malloc(sizeof(*w));

    T_ASSERT(w != NULL);
    *w = (struct boss_work){b->sim, work, done, task};
    pool_add(b->sim, b->proc, work_begin, work_end, w);
    return SL_OK;
}

static void io_changed(void *arg, uint64_t job)
{
}

// Only a disk that failed is a reason; the daemon ends and is started again.
static void give_up(struct sim *s, struct proc *p, const struct sl_error *why)
{
    if (why->code != SL_EIO || s->knobs.write_fault + s->knobs.read_fault == 0)
        T_FAIL("the coordinator gave up: %s: %s", sl_err_name(why->code),
               why->text);
    s->seen.boss_fatals++;
    proc_exit(s, p);
}

static void io_fatal(void *arg, const struct sl_error *err)
{
    struct boss *b = arg;

    give_up(b->sim, b->proc, err);
}

// ---- what it hears

void boss_hello(struct sim *s, struct proc *boss, uint64_t number,
                const Sluice__V1__Hello *hello)
{
    struct boss *b = boss->self;
    struct sl_error err = SL_ERROR_INIT;

    mark(s);
    if (b->coord == NULL ||
        coord_attach(b->coord, number, hello, MEMBER_LOCAL, &err) != SL_OK)
        session_hang_up(s, number, false);
    else
        after(s);
}

static void note_ended(struct boss *b, uint64_t number,
                       const Sluice__V1__AttendUp *up)
{
    switch (up->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETE:
        b->sim->seen.completions++;
        end_lease(b, number, up->complete->closure);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_COMPLETES:
        for (size_t i = 0; i < up->completes->n_complete; i++) {
            b->sim->seen.completions++;
            end_lease(b, number, up->completes->complete[i]->closure);
        }
        break;
    case SLUICE__V1__ATTEND_UP__KIND_HAND_BACK:
        end_lease(b, number, up->hand_back->closure);
        break;
    case SLUICE__V1__ATTEND_UP__KIND_FAILED:
        end_lease(b, number, up->failed->closure);
        break;
    default:
        break;
    }
}

void boss_receive(struct sim *s, struct proc *boss, uint64_t number,
                  const Sluice__V1__AttendUp *up)
{
    struct boss *b = boss->self;

    if (b->coord == NULL)
        return;
    mark(s);
    note_ended(b, number, up);
    coord_receive(b->coord, number, up);
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_COMPLETE ||
        up->kind_case == SLUICE__V1__ATTEND_UP__KIND_COMPLETES ||
        (s->knobs.contributions + s->knobs.open > 0 &&
         up->kind_case == SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT) ||
        up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
        check_evidence(s);
    after(s);
}

void boss_detach(struct sim *s, struct proc *boss, uint64_t number)
{
    struct boss *b = boss->self;

    if (b->coord == NULL)
        return;
    mark(s);
    forget_holder(b, number);
    coord_detach(b->coord, number);
    after(s);
}

// ---- life

static void tick_run(struct sim *s, struct sim_event *e)
{
    struct boss *b = proc_get(s, e->proc)->self;

    sim_after(s, s->knobs.tick_us, e);
    if (b->coord == NULL)
        return;
    mark(s);
    coord_tick(b->coord);
    after(s);
}

static void submit_run(struct sim *s, struct sim_event *e)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    struct boss *b = proc_get(s, e->proc)->self;
    Sluice__V1__SubmitReply *reply = NULL;
    ProtobufCMessage *spec = NULL;
    json_t *value = NULL;
    char text[2048];

    if (s->job != 0 || b->coord == NULL || b->coord->dead)
        return;
    knobs_job(&s->knobs, text, sizeof(text));
    T_OK(sl_json_parse(&value, "job", text, strlen(text), NULL, t_err()));
    T_OK(pbjson_read(&spec, &sluice__v1__job_spec__descriptor, value, "job",
                     t_err()));
    json_decref(value);
    request.spec = (Sluice__V1__JobSpec *)spec;
    request.request_id = "r-1";
    T_OK(coord_submit(b->coord, &request, &reply, t_err()));
    s->job = reply->job;
    wire_free(&reply->base);
    wire_free(spec);
}

void boss_start(struct sim *s, struct proc *p)
{
    struct boss *b = calloc(1, sizeof(*b));
    struct sl_error err = SL_ERROR_INIT;
    struct books_intents open;
    struct coord_options options = {
        .clock = &s->clock.clock,
        .fs = &p->files.fs,
        .journal = s->journal,
        .store = "/store",
        .state_dir = "/state",
        .heartbeat_ms = (uint32_t)(s->knobs.heartbeat_us / 1000),
        .lease_ms = (uint32_t)(s->knobs.lease_us / 1000),
        .settle_ms = 1000,
        .seed = s->seed,
    };
    struct coord_io io = {
        .arg = b,
        .send = io_send,
        .hang_up = io_hang_up,
        .cut_off = io_cut_off,
        .work = io_work,
        .changed = io_changed,
        .fatal = io_fatal,
    };

    T_ASSERT(b != NULL);
    *b = (struct boss){.sim = s, .proc = p};
    if (s->knobs.mode == SIM_HYBRID)
        groups_new(&b->groups);
    p->self = b;
    mark(s);
    books_intents(s, &open);
    if (coord_new(&b->coord, &options, &io, &err) != SL_OK) {
        give_up(s, p, &err);
        return;
    }
    books_check_settled(s, &open);
    after(s);
    sim_after(s, s->knobs.tick_us,
              &(struct sim_event){
                  .kind = SIM_TIMER, .proc = p->number, .run = tick_run});
    sim_after(s, SUBMIT_AGAIN_US,
              &(struct sim_event){
                  .kind = SIM_TIMER, .proc = p->number, .run = submit_run});
}

void boss_stop(struct sim *s, struct proc *p)
{
    struct boss *b = p->self;

    coord_free(b->coord);
    b->coord = NULL;
    pool_end_all(p);
    groups_free(&b->groups);
    free(b);
    p->self = NULL;
}
