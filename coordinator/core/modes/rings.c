// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/rings.c -- the generations of jobs in allreduce mode:
// opened, begun, counted.
#include "coordinator/core/modes/rings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "plan/round.h"
#include "common/run/log.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/modes/ring_audit.h"
#include "coordinator/core/modes/ring_rows.h"
#include "coordinator/core/send.h"
#include "coordinator/core/modes/send_ring.h"
#include "proto/spec.h"

#define ROUND_SPAN_MS 200 // time over which a round's duration is taken
#define KEYS_MOST 32768   // keys counted at once: a few milliseconds

// ---- leases

bool rings_in(const struct job *job, const struct member *m)
{
    const struct ring_rank *rank = ring_find(&job->ring, m->id);

    return rank != NULL && rank->in;
}

// Returns the first place without a rank, of as many as ranks are allowed;
// UINT64_MAX: none.
static uint64_t rings_find_free_place(const struct job *job)
{
    const uint32_t max = job->spec->train->workers->max;
    uint64_t place = 0;

    while (place < (max == 0 ? WIRE_RANKS_MAX : max)) {
        const struct work *w = leases_get(job, place);

        if (w == NULL || w->closure.state == CLOSURE_WAITING)
            return place;
        place++;
    }
    return UINT64_MAX;
}

// One more rank would only disturb a ring that has nothing left to sum.
bool rings_want(const struct job *job)
{
    return job->shards.placed && !job_ended(job) && !job_rests(job) &&
           !(job_served(job) && evidence_full(&job->shards.evidence)) &&
           rings_find_free_place(job) != UINT64_MAX;
}

struct work *rings_offer(struct job *job)
{
    struct work *w =
        rings_want(job) ? leases_work(job, rings_find_free_place(job)) : NULL;

    if (w != NULL)
        w->kind = WORK_RING;
    return w;
}

// ---- generations

static void rings_log_state(const struct job *job, const char *what)
{
    LOG(INFO, what, "job=%s generation=%llu ranks=%u base=%llu.%llu",
        job->id_text, (ull)job->ring.generation, job->ring.members,
        (ull)job->ring.base.incarnation, (ull)job->ring.base.sequence);
}

static void rings_open_generation(struct coord *c, struct job *job)
{
    uint64_t generation = job->ring.generation + 1;

    // R1, I1: committed before any rank is asked to join it.
    if (!coord_wrote(
            c, journal_ring_open(c->journal, job->id, generation, &c->err)))
        return;
    FAULT("ring.committed");
    if (job->cuts.now != NULL && !job->cuts.now->writing)
        cuts_begin_again(c, job, "the ring is made anew"); // R6
    ring_open(&job->ring, generation);
    ring_results_forget(&job->results);
    ring_rows_opened(job);
    for (uint32_t i = 0; i < job->shards.count; i++) {
        job->shards.evidence.shard[i].incarnation = generation;
        job->shards.list[i].server = 0;
        job->shards.list[i].silent_server = 0; // its memory is of G - 1
        job->shards.list[i].since_ms = coord_now(c);
    }
    JOB_HISTORY(job, "ring_open", " generation=%llu ranks=%u", (ull)generation,
                job->ring.members);
    rings_log_state(job, "ring opened");
    for (uint32_t i = 0; i < job->ring.count; i++) {
        send_ring_open(c, job, &job->ring, job->ring.rank[i].member);
        FAULT("ring.opened"); // some ranks know of it
    }
    job->changes++;
}

// Sets the number of contributions that a round has from now on.
static void settle_round(struct coord *c, struct job *job)
{
    const Sluice__V1__TrainSpec *t = job->spec->train;

    if (spec_ring_scales(job->spec)) {
        job->rounds.contributions = job->ring.members;
        return;
    }
    if (job->rounds.contributions != 0)
        return;
    job->rounds.contributions = t->has_contributions   ? t->contributions
                                : t->workers->max != 0 ? t->workers->max
                                                       : job->ring.members;
    coord_wrote(c,
                journal_ring_contributions(c->journal, job->id,
                                           job->rounds.contributions, &c->err));
}

// Counts the rounds beyond the base that ranks had applied: they are lost, and
// will be done again.
static void count_redone(struct coord *c, struct job *job, uint64_t had)
{
    uint64_t base = job->ring.base.sequence;

    if (had <= base)
        return;
    job->rounds.redone += (had - base) * (uint64_t)job->rounds.contributions;
    coord_wrote(c, journal_ring_redone(c->journal, job->id, job->rounds.redone,
                                       &c->err));
}

// Begins the generation (R3, R5): every member has answered, and no cut is
// being written (K5).
static void rings_begin_generation(struct coord *c, struct job *job)
{
    uint64_t had = job->ring.highest;

    settle_round(c, job);
    if (c->dead)
        return;
    ring_choose(&job->ring, job->shards.list[0].cut,
                !ring_rows_fit(job, ring_highest(&job->ring)));
    job->rounds.based = false;
    monitor_ring_begins(job);
    count_redone(c, job, had);
    if (c->dead)
        return;
    JOB_HISTORY(job, "ring_base",
                " generation=%llu base_g=%llu base_n=%llu file=%d cut_g=%llu "
                "cut_n=%llu contributions=%u",
                (ull)job->ring.generation, (ull)job->ring.base.incarnation,
                (ull)job->ring.base.sequence, job->ring.base_is_file,
                (ull)job->shards.list[0].cut.incarnation,
                (ull)job->shards.list[0].cut.sequence,
                job->rounds.contributions);
    rings_log_state(job, "ring begins");
    for (uint32_t i = 0; i < job->ring.count; i++) {
        if (!job->ring.rank[i].in)
            continue;
        evaluations_tell_rank(c, job, job->ring.rank[i].member);
        send_ring_begin(c, job, &job->ring, job->ring.rank[i].member);
        FAULT("ring.begun");
    }
    ring_rows_settle(c, job);
    job->changes++;
}

// ---- progress

// Forgets the blame of ranks after a round is counted: work that gets on is no
// poison.
static void rings_absolve_ranks(struct job *job)
{
    size_t at = 0;
    void *value;

    while (map_next(&job->leases.active, &at, NULL, &value)) {
        struct work *w = value;

        if (w->closure.blamed_count == 0)
            continue;
        closure_advanced(&w->closure);
        buf_reset(&w->story);
    }
}

// Counts the keys of rounds that every member has applied (R4, R5), as many as
// a turn of the loop has time for: the rest at the next tick or report.
static enum sl_err take_rounds(struct coord *c, struct job *job)
{
    struct round_key *keys =
        sl_malloc_array(job->rounds.contributions, sizeof(*keys));
    enum sl_err rc = keys == NULL ? SL_ENOMEM : SL_OK;
    uint64_t taken = 0;

    // An only rank may say that it has done all rounds: the rest is counted at
    // the next tick or report, and calls are answered meanwhile.
    while (rc == SL_OK && job->rounds.counted < job->ring.progress &&
           taken < KEYS_MOST) {
        uint32_t count = round_next(evidence_counted(&job->shards.evidence, 0),
                                    job->rounds.contributions, keys);

        if (count == 0)
            rc = SL_ERANGE; // more rounds than the job has
        ring_results_open(&job->results, job->rounds.counted, keys, count);
        for (uint32_t i = 0; rc == SL_OK && i < count; i++)
            rc = evidence_count(&job->shards.evidence, keys[i].closure,
                                keys[i].step);
        taken += count;
        job->rounds.counted++;
        if (rc == SL_OK)
            ring_rows_decide(c, job, keys[0].closure);
    }
    sl_free(keys);
    return rc;
}

static void take_pace(struct job *job, uint64_t now)
{
    uint64_t took = now - job->rounds.at_ms;

    if (took < ROUND_SPAN_MS || job->rounds.counted <= job->rounds.at)
        return;
    job->rounds.each_ms =
        (double)took / (double)(job->rounds.counted - job->rounds.at);
    job->rounds.at = job->rounds.counted;
    job->rounds.at_ms = now;
}

static void count_rounds(struct coord *c, struct job *job)
{
    uint64_t had = job->rounds.counted;
    enum sl_err rc;

    if (!job->rounds.based || had >= job->ring.progress)
        return;
    rc = take_rounds(c, job);
    if (rc != SL_OK) {
        end_fail(c, job, "round %llu of %llu cannot be counted: %s",
                 (ull)job->rounds.counted, (ull)job->ring.progress,
                 sl_err_name(rc));
        return;
    }
    job->reports.moved_ms = coord_now(c);
    jobs_unwarn(job, JOB_WARN_REACH);
    take_pace(job, job->reports.moved_ms);
    rings_absolve_ranks(job);
    job->changes++;
}

// ---- what is due

static void put_out(struct coord *c, struct job *job)
{
    uint64_t accused = ring_accused(&job->ring, coord_now(c));
    struct member *m = accused == 0 ? NULL : members_get(&c->members, accused);

    if (m == NULL)
        return;
    LOG(WARN, "rank removed from its generation",
        "job=%s generation=%llu worker=%s", job->id_text,
        (ull)job->ring.generation, m->name);
    excluded_put(c, m, job, CONDUCT_PEERS);
}

void rings_check(struct coord *c, struct job *job)
{
    if (!job->shards.placed || job_ended(job) || job->behind.paused || c->dead)
        return;
    count_rounds(c, job);
    ring_audit_vote(c, job);
    if (job_ended(job) || c->dead)
        return;
    put_out(c, job);
    if ((ring_due(&job->ring, coord_now(c)) ||
         (ring_rows_due(job) && job->ring.members > 0) ||
         (job->ring.state == RING_RUNNING && monitor_wants_ring(job))) &&
        !(job_served(job) && evidence_full(&job->shards.evidence)))
        rings_open_generation(c, job);
    if (!c->dead && ring_answered(&job->ring) &&
        (job->cuts.now == NULL || !job->cuts.now->writing) &&
        ring_rows_known(c, job))
        rings_begin_generation(c, job);
}

// Tells newcomers, while rounds go on, which rank's state to copy.
static void send_copies(struct coord *c, struct job *job)
{
    struct ring_rank *rank;

    while ((rank = ring_copier(&job->ring)) != NULL) {
        ring_copies(&job->ring, rank);
        JOB_HISTORY(job, "ring_copy", " generation=%llu member=%llu",
                    (ull)job->ring.generation, (ull)rank->member);
        evaluations_tell_rank(c, job, rank->member);
        send_ring_copy(c, job, rank->member);
    }
}

// Starts the rounds, as every member has the base, and marks the parts as
// served.
static void rings_run_generation(struct coord *c, struct job *job)
{
    uint64_t now = coord_now(c);

    for (uint32_t i = 0; i < job->shards.parts; i++) {
        job->shards.list[i].server =
            ring_member(&job->ring, i % job->ring.members)->member;
        job->shards.list[i].since_ms = now;
    }
    job->rounds.at = job->ring.progress;
    job->rounds.at_ms = now;
    JOB_HISTORY(job, "ring_go", " generation=%llu ranks=%u steps=%llu",
                (ull)job->ring.generation, job->ring.members,
                (ull)evidence_steps(&job->shards.evidence));
    rings_log_state(job, "ring goes");
    happened_job(c, EVENT_RING_RUNS, job, NULL,
                 "generation %llu of the ring runs, with %u workers",
                 (ull)job->ring.generation, job->ring.members);
    for (uint32_t i = 0; i < job->ring.count; i++) {
        uint64_t member = job->ring.rank[i].member;

        if (!job->ring.rank[i].in)
            continue;
        for (uint32_t s = 0; s < job->shards.parts; s++)
            send_keep(c, member, job, s);
        send_ring_go(c, job, &job->ring, member);
        FAULT("ring.gone");
    }
    send_copies(c, job);
    job->changes++;
}

// ---- reports of ranks

void rings_distrust(struct coord *c, struct member *m, struct job *job,
                    const char *why)
{
    LOG(ERROR, "report of a rank refused", "job=%s worker=%s why=%s",
        job->id_text, m->name, why);
    excluded_put(c, m, job, CONDUCT_FAILS);
}

static bool rings_is_loopback(const char *address)
{
    static const char *const own[] = {"127.", "localhost:", "[::1]:"};

    for (size_t i = 0; i < SL_COUNT(own); i++)
        if (strncmp(address, own[i], strlen(own[i])) == 0)
            return true;
    return false;
}

// Returns true if a rank on a machine of another name would have to dial this
// one's loopback. RingJoin.host does not tell: it differs on one machine, too,
// where memory is not shared.
static bool is_out_of_reach(const struct coord *c, const struct ring *ring,
                            const struct ring_rank *rank)
{
    const struct member *own = members_get(&c->members, rank->member);

    for (uint32_t i = 0; own != NULL && i < ring->count; i++) {
        const struct member *other =
            members_get(&c->members, ring->rank[i].member);

        if (other != NULL && rings_is_loopback(rank->address) &&
            own->host[0] != '\0' && other->host[0] != '\0' &&
            strcmp(other->host, own->host) != 0)
            return true;
    }
    return false;
}

// Puts out ranks that the others cannot dial. Returns true if one is member
// `joined`.
static bool put_out_near(struct coord *c, struct job *job, struct ring *ring,
                         uint64_t joined)
{
    bool itself = false;

    for (uint32_t i = ring->count; i-- > 0 && i < ring->count;) {
        struct member *m = members_get(&c->members, ring->rank[i].member);

        if (m == NULL || !is_out_of_reach(c, ring, &ring->rank[i]))
            continue;
        itself = itself || m->id == joined;
        jobs_warn(job, JOB_WARN_REACH,
                  "worker %.60s advertises %.60s to ranks of other hosts: %s",
                  m->name, ring->rank[i].address,
                  conduct_why_text(CONDUCT_NEAR));
        excluded_put(c, m, job, CONDUCT_NEAR); // may end its place in this ring
    }
    return itself;
}

enum sl_err rings_join(struct coord *c, const struct member *m, struct job *job,
                       struct ring *ring, const Sluice__V1__RingJoin *message)
{
    enum sl_err rc = ring_join(ring, m->id, m->process, coord_now(c));
    struct ring_rank *rank = rc == SL_OK ? ring_find(ring, m->id) : NULL;

    if (rank == NULL)
        return rc;
    snprintf(rank->address, sizeof(rank->address), "%s", message->address);
    snprintf(rank->host, sizeof(rank->host), "%s", message->host);
    rank->able = message->copies;
    rank->lanes = message->lanes;
    rank->marks = message->marks;
    rank->tokens = message->tokens;
    LOG(INFO, "rank joined", "job=%s worker=%s address=%s", job->id_text,
        m->name, rank->address);
    return put_out_near(c, job, ring, m->id) ? SL_ESTATE : SL_OK;
}

static void rings_receive_join(struct coord *c, struct member *m,
                               struct job *job,
                               const Sluice__V1__RingJoin *message)
{
    const struct work *w = leases_find(m, job->id, message->attempt);

    if (w != NULL && w->kind == WORK_RING &&
        rings_join(c, m, job, &job->ring, message) == SL_OK)
        send_copies(c, job);
}

static void receive_copied(struct member *m, struct job *job,
                           const Sluice__V1__RingCopied *message)
{
    struct wire_tag tag = wire_tag_of(message->tag);
    enum sl_err rc = ring_copied(&job->ring, m->id, message->generation);

    if (rc == SL_OK)
        LOG(INFO, "rank has copied",
            "job=%s worker=%s generation=%llu rounds=%llu", job->id_text,
            m->name, (ull)tag.incarnation, (ull)tag.sequence);
}

static void rings_receive_answer(struct coord *c, struct member *m,
                                 struct job *job,
                                 const Sluice__V1__RingAnswer *message)
{
    struct wire_tag tag = wire_tag_of(message->tag);
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = ring_answer(&job->ring, m->id, message->generation, tag);

    if (rc == SL_OK)
        ring_find(&job->ring, m->id)->skipped = message->skipped;
    JOB_HISTORY(job, "ring_answer",
                " generation=%llu worker=%s tag_g=%llu tag_n=%llu taken=%d",
                (ull)message->generation, m->name, (ull)tag.incarnation,
                (ull)tag.sequence, rc == SL_OK);
    if (rc == SL_ERANGE)
        rings_distrust(c, m, job,
                       "its state has counted more rounds than were run");
    if (rc != SL_EINVAL)
        return;
    sl_fail(&err, SL_ESTATE,
            "worker %s shows a state of generation %llu, this journal knows "
            "only %llu",
            m->name, (ull)tag.incarnation, (ull)job->ring.generation - 1);
    behind_pause(c, job, &err); // I7
}

// Makes the counted set of the base the evidence of all parts (C2, R5).
static enum sl_err take_base(struct job *job, struct counted *set,
                             const Sluice__V1__ShardCounts *counts)
{
    uint64_t left;
    enum sl_err rc = round_left(set, job->rounds.contributions,
                                job->shards.evidence.closures, &left);

    if (rc != SL_OK)
        return rc;
    // Bounds what a rank may report: a RingStep of 2^63 would have the loop
    // count rounds for hours.
    job->ring.last = job->ring.base.sequence + left;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        struct counted copy;

        rc = counted_copy(&copy, set);
        if (rc != SL_OK)
            return rc;
        evidence_admit(&job->shards.evidence, i, job->ring.generation, &copy);
        if (!job_on_workers(job, i))
            continue; // it says its own counts
        job_counts_reset(job, i);
        job_counts_take(job, i, counts);
    }
    job->rounds.counted = job->ring.base.sequence;
    job->rounds.based = true;
    job->changes++;
    return SL_OK;
}

// Returns true if a state cannot be that of a ring beside tables: shards take
// rounds of the first closures that are not counted (R8).
static bool rings_has_gaps(const struct job *job, const struct counted *set)
{
    return job_psserver_shards(job) > 0 && counted_sparse(set) > 0;
}

// Returns why a base cannot be: it lacks steps of the last cut, or differs
// between ranks; or NULL.
static const char *base_wrong(const struct job *job, const struct counted *set)
{
    const struct job_cut *last = job_last_cut(job);

    if (counted_steps(set) < job->ring.base.sequence)
        return "its state has more rounds than steps";
    if (last != NULL && counted_steps(set) < last->checkpoint->steps)
        return "its state lacks what the last checkpoint holds";
    if (job->rounds.based &&
        !counted_equal(evidence_counted(&job->shards.evidence, 0), set))
        return "its state differs from that of another rank";
    return NULL;
}

static void rings_receive_ready(struct coord *c, struct member *m,
                                struct job *job,
                                const Sluice__V1__RingReady *message)
{
    struct sl_error err = SL_ERROR_INIT;
    const char *wrong;
    struct counted set;
    enum sl_err rc;

    if (message->generation != job->ring.generation ||
        job->ring.state != RING_COPYING || ring_find(&job->ring, m->id) == NULL)
        return;
    if (wire_counted_read(&set, &job->shards.schedule, message->counted,
                          &err) != SL_OK) {
        rings_distrust(c, m, job, err.text);
        return;
    }
    if (rings_has_gaps(job, &set)) {
        end_fail(c, job,
                 "it was resumed from a cut that lacks steps before others, "
                 "and a round beside tables is of steps in their order: resume "
                 "that cut in async or sync, or a later one");
        counted_release(&set);
        return;
    }
    wrong = base_wrong(job, &set);
    rc = wrong != NULL ? SL_EINVAL
                       : ring_ready(&job->ring, m->id, message->generation,
                                    wire_tag_of(message->tag));
    if (rc == SL_OK && !job->rounds.based)
        rc = take_base(job, &set, message->counts);
    FAULT("ring.ready");
    counted_release(&set);
    if (rc == SL_OK && job->ring.state == RING_RUNNING)
        rings_run_generation(c, job);
    else if (rc != SL_OK && rc != SL_ESTALE)
        rings_distrust(
            c, m, job,
            wrong != NULL
                ? wrong
                : "its state is not the base that the ranks agreed on");
}

// ---- counts of ranks

// Takes a rank's counts, which are of the round that has just been counted.
static void rings_apply_counts(struct coord *c, struct member *m,
                               struct job *job,
                               const Sluice__V1__RingStep *message)
{
    if (message->counts->counted != evidence_steps(&job->shards.evidence)) {
        end_fail(c, job,
                 "worker '%s' says that round %llu has counted %llu steps; by "
                 "the counted set of the base there are %llu",
                 m->name, (ull)message->sequence, (ull)message->counts->counted,
                 (ull)evidence_steps(&job->shards.evidence));
        return;
    }
    for (uint32_t i = 0; i < job->shards.parts; i++)
        job_counts_take(job, i, message->counts);
}

static void receive_step(struct coord *c, struct member *m, struct job *job,
                         const Sluice__V1__RingStep *message)
{
    uint64_t had = job->ring.progress;
    enum sl_err rc =
        ring_step(&job->ring, m->id, message->generation, message->sequence);

    if (rc == SL_EINVAL)
        rings_distrust(c, m, job, "it counts fewer rounds than its base has");
    if (rc == SL_ERANGE)
        rings_distrust(c, m, job, "it has counted more rounds than were run");
    if (rc == SL_OK)
        ring_audit_hold(job, m, message);
    if (rc != SL_OK || job->ring.progress == had)
        return;
    job->rounds.skipped = message->skipped; // as all ranks say of it
    count_rounds(c, job);
    if (!job_ended(job) && message->sequence == job->rounds.counted)
        rings_apply_counts(c, m, job, message);
}

void rings_accuse(struct coord *c, const struct member *m, struct job *job,
                  struct ring *ring, const Sluice__V1__RingBroken *message)
{
    const struct ring_rank *rank = message->suspect == RING_SELF
                                       ? ring_find(ring, m->id)
                                       : ring_member(ring, message->suspect);
    const struct member *other =
        rank == NULL ? NULL : members_get(&c->members, rank->member);
    enum sl_err rc;

    if (ring_find(ring, m->id) == NULL)
        return; // no other part takes the message
    rc = ring_accuse(ring, m->id, message->generation, message->suspect,
                     coord_now(c));
    LOG(INFO, "ring broken",
        "job=%s generation=%llu worker=%s suspects=%s taken=%d why=%s",
        job->id_text, (ull)message->generation, m->name,
        other == NULL ? "nobody" : other->name, rc == SL_OK, message->why);
    if (rc == SL_OK)
        jobs_warn(job, JOB_WARN_REACH, "worker %.60s cannot sum with %.60s: %s",
                  m->name, other == NULL || other == m ? "others" : other->name,
                  message->why);
    happened_job(c, EVENT_RING_BROKEN, job, m,
                 "%s says that generation %llu is broken: %s", m->name,
                 (ull)message->generation, message->why);
}

bool rings_refuse(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__SnapshotReport *report)
{
    if (!job->shards.placed || !job_on_workers(job, report->shard) ||
        job->shards.list[report->shard].server != m->id ||
        ring_may_have(&job->ring, wire_tag_of(report->tag)))
        return false;
    rings_distrust(c, m, job,
                   "it reports a part of a round that was never run");
    return true;
}

bool rings_receive(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__AttendUp *message)
{
    if (!job->shards.placed || job->behind.paused)
        return false;
    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_RING_JOIN:
        rings_receive_join(c, m, job, message->ring_join);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_COPIED:
        receive_copied(m, job, message->ring_copied);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_ANSWER:
        rings_receive_answer(c, m, job, message->ring_answer);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_READY:
        rings_receive_ready(c, m, job, message->ring_ready);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_STEP:
        receive_step(c, m, job, message->ring_step);
        return true;
    case SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN:
        rings_accuse(c, m, job, &job->ring, message->ring_broken);
        return true;
    default:
        return false;
    }
}

// ---- status

// The slowest rank waits for none.
void rings_fill_sums(Sluice__V1__JobStatus *m, const struct job *job)
{
    double bytes = 0;
    size_t at = 0;
    void *value;

    while (map_next(&job->leases.active, &at, NULL, &value)) {
        const struct work *w = value;

        if (w->kind != WORK_RING || w->holder == NULL)
            continue;
        m->sum_wait_ms = fmax(m->sum_wait_ms, w->sums.each_wait_ms);
        bytes = fmax(bytes, w->sums.each_bytes);
    }
    m->sum_bytes = (uint64_t)bytes;
}
