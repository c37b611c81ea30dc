// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/move.c -- see move.h.
#include "coordinator/core/shards/move.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/send.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/shards/shards.h"
#include "coordinator/rules/cut.h"
#include "proto/model.h"

// ---- the list

// Returns the move that psserver m takes part in, or NULL.
static const struct move *moves_with(const struct coord *c,
                                     const struct member *m)
{
    list_for(n, &c->moves.list)
    {
        const struct move *v = list_entry(n, struct move, node);

        if (v->source == m->id || v->target == m->id)
            return v;
    }
    return NULL;
}

static const char *name_of(const struct coord *c, uint64_t member)
{
    const struct member *m = members_get(&c->members, member);

    return m == NULL ? "" : m->name;
}

// Shards beside a ring stay: their rounds are those of its generation (R9).
static bool moves_never(const struct job *job)
{
    return job->shards.parts > 0;
}

// Says how many shards stay on psserver m, which is to lose them.
static void moves_reason_stay(const struct coord *c, const struct member *m,
                              struct buf *out)
{
    const struct job *first = NULL;
    uint32_t shards = 0;

    if (!moves_empties(m))
        return;
    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);
        uint32_t here = moves_never(job) ? job_lies_on(job, m) : 0;

        if (here > 0 && first == NULL)
            first = job;
        shards += here;
    }
    if (shards > 0)
        (void)buf_appendf(
            out, "%s%u of its shards %s beside a ring until %s has ended",
            out->len > 0 ? "; " : "", shards, shards == 1 ? "stays" : "stay",
            first->id_text);
}

void moves_reason(const struct coord *c, const struct member *m,
                  struct buf *out)
{
    const struct move *v = moves_with(c, m);

    if (v != NULL)
        (void)buf_appendf(
            out, "%sshard %u of j-%llu %s %s %s %s", out->len > 0 ? "; " : "",
            v->shard, (ull)v->job, v->replica ? "on" : "moves from",
            name_of(c, v->source), v->replica ? "gets a replica on" : "to",
            name_of(c, v->target));
    moves_reason_stay(c, m, out);
}

static void move_free(struct move *v)
{
    list_remove(&v->node);
    sl_free(v);
}

void moves_release(struct coord *c)
{
    list_for_safe(n, &c->moves.list)
    {
        move_free(list_entry(n, struct move, node));
    }
}

bool moves_empties(const struct member *m)
{
    return m->role == MEMBER_PSSERVER && (m->drained || m->empties);
}

static void move_enter(struct coord *c, struct move *v, enum move_phase next)
{
    v->phase = next;
    v->since_ms = coord_now(c);
}

// Ends a move that has not come to its end. The source goes on when it is
// admitted again: it says hello if it is asked to, and else at its next
// attachment. What the target has loaded is of no use any more.
static void move_give_up(struct coord *c, struct move *v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Returns true if the source may have stopped for the move.
static bool move_stops(const struct move *v)
{
    return !v->replica && (v->phase == MOVE_FEEDS || v->phase == MOVE_LAST);
}

// Has the job train for a while before its next move that only evens out, if
// this is one: workers wait for the stop of a move, made or given up.
static void move_rests(struct coord *c, const struct move *v, struct job *job)
{
    if (v->evens)
        job->shards.evens_ms = coord_now(c) + MOVES_REST_MS;
}

// Notes that the shard stays on its psserver, or without a replica, until the
// next try, and tells people.
static void move_stays(struct coord *c, const struct move *v, struct job *job,
                       const struct member *source, const struct member *target,
                       const char *why)
{
    if (v->replica) {
        happened_job(c, EVENT_REPLICA_FAILED, job, target,
                     "shard %u of %s gets no replica now: %s", v->shard,
                     job->name, why);
        shards_no_replica(job, v->shard, coord_now(c), MOVES_AGAIN_MS);
        if (source != NULL && v->fed)
            send_replica_out(c, source, job->id, v->shard, v->request);
        return;
    }
    happened_job(c, EVENT_MOVE_FAILED, job, target, "shard %u stays on %s: %s",
                 v->shard, job->shards.list[v->shard].psserver, why);
    shards_stay(job, v->shard, v->phase == MOVE_FEEDS, coord_now(c),
                MOVES_AGAIN_MS);
    move_rests(c, v, job);
    // Its admission sets it going, and ends the log that it has begun.
    if ((move_stops(v) || v->fed) && source != NULL)
        send_hello_wanted(c, source, job, v->shard);
}

static void move_give_up(struct coord *c, struct move *v, const char *fmt, ...)
{
    struct member *source = members_get(&c->members, v->source);
    struct member *target = members_get(&c->members, v->target);
    struct job *job = jobs_get(c, v->job);
    char why[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    LOG(WARN, "move given up", "job=%llu shard=%u phase=%d why=%s", (ull)v->job,
        v->shard, (int)v->phase, why);
    if (v->phase != MOVE_WRITES && target != NULL)
        send_refuse(c, target, v->job, v->shard, "its move was given up", NULL);
    if (job != NULL && !job_ended(job))
        move_stays(c, v, job, source, target, why);
    move_free(v);
}

// Returns true if the move cannot go on once psserver m has said hello, not of
// a preparation. It may be from before the stop, and the admission sets the
// source going: so the report of its last snapshot, or of its feed's end, must
// find no move. The target, which owned the shard once, is refused by it, and
// drops what it has prepared.
static bool move_ends_by(const struct move *v, const struct member *m,
                         const Sluice__V1__ShardHello *h)
{
    if (v->job != h->job || v->shard != h->shard)
        return false;
    // The source of a replica has stopped if it lost its memory.
    if (v->source == m->id)
        return v->replica ? h->live_incarnation == 0 : move_stops(v);
    return v->phase != MOVE_WRITES && v->target == m->id;
}

// M3
void moves_hello(struct coord *c, const struct member *m,
                 const Sluice__V1__ShardHello *h)
{
    list_for_safe(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);

        if (move_ends_by(v, m, h))
            move_give_up(c, v, "%s said hello anew", m->name);
    }
}

void moves_left(struct coord *c, const struct member *m)
{
    list_for_safe(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);

        if (v->source == m->id || v->target == m->id)
            move_give_up(c, v, "%s is silent or gone", m->name);
    }
}

// ---- one move

// The source stops: the shard is served by nobody until the target is admitted,
// or the move is given up. No cut is begun meanwhile, nor a lease given.
static void move_stop_source(struct coord *c, struct move *v, struct job *job)
{
    move_enter(c, v, MOVE_LAST);
    shards_stop(c, job, v->shard);
    FAULT("move.last");
    send_move_snapshot(c, v->source, job, v->shard, v->request, true, 0);
}

// The source serves until little of its log is left, so leases go on.
static void move_feed(struct coord *c, struct move *v, struct job *job,
                      const struct member *target)
{
    move_enter(c, v, MOVE_FEEDS);
    FAULT("move.feeds");
    send_feed(c, v->source, target, job, v->shard, v->request, v->replica);
}

// A cut that is being made comes first, and then the move, before the next one.
static void move_go_on(struct coord *c, struct move *v, struct job *job)
{
    const struct member *target = members_get(&c->members, v->target);

    if (v->phase != MOVE_PREPARES || !v->prepared ||
        (cuts_awaited(job) && !v->replica))
        return;
    if (target == NULL || target->state != MEMBER_READY ||
        moves_empties(target))
        move_give_up(c, v, "the psserver that was to have it leaves");
    else if (v->replica && !v->fed)
        move_give_up(c, v, "there is no feed to follow");
    else if ((job->cuts.now == NULL || v->replica) && v->fed)
        move_feed(c, v, job, target);
    else if (job->cuts.now == NULL)
        move_stop_source(c, v, job);
    else
        cuts_wait(c, job, 2 * MOVES_LOOK_MS);
}

// Makes the target the owner (M2). From here on it is a shard of a psserver
// that has not shown it yet.
static void move_over(struct coord *c, struct move *v, struct job *job)
{
    struct member *source = members_get(&c->members, v->source);
    struct member *target = members_get(&c->members, v->target);
    uint32_t shard = v->shard;
    uint64_t took = coord_now(c) - v->began_ms;

    FAULT("move.commit");
    if (!coord_wrote(c, journal_shard_move(c->journal, job->id, shard,
                                           target->name, &c->err)))
        return;
    FAULT("move.committed");
    JOB_HISTORY(job, "moved", " shard=%u incarnation=%llu", shard,
                (ull)job->shards.evidence.shard[shard].incarnation);
    LOG(INFO, "shard moved", "job=%s shard=%u from=%s to=%s ms=%llu",
        job->id_text, shard, source->name, target->name, (ull)took);
    happened_job(c, EVENT_SHARD_MOVED, job, target,
                 "shard %u of %s lies on %s now, no more on %s", shard,
                 job->name, target->name, source->name);
    move_rests(c, v, job);
    move_free(v);
    c->moves.look_ms = 0; // the next one
    shards_move(c, job, shard, target);
    send_refuse(c, source, job->id, shard, "it has moved away", NULL);
    place_moved(c, job, shard);
}

static bool move_hears(const struct move *v, const struct member *m,
                       const Sluice__V1__SnapshotReport *report)
{
    return v->source == m->id && v->phase != MOVE_FEEDS &&
           v->request == report->request && v->shard == report->shard &&
           v->job == report->job;
}

static void move_take(struct coord *c, struct move *v, struct job *job,
                      const Sluice__V1__SnapshotReport *report)
{
    struct member *target = members_get(&c->members, v->target);
    struct wire_tag tag = wire_tag_of(report->tag);

    if (report->failure[0] != '\0') {
        move_give_up(c, v, "no snapshot was written: %s", report->failure);
    } else if (tag.incarnation !=
               job->shards.evidence.shard[v->shard].incarnation) {
        move_give_up(c, v, "it has a newer incarnation");
    } else if (v->phase == MOVE_LAST) { // M2
        move_over(c, v, job);
    } else if (v->phase == MOVE_WRITES) {
        move_enter(c, v, MOVE_PREPARES);
        v->fed = report->feed == v->request;
        FAULT("move.prepare");
        send_prepare(c, target, job, v->shard, &tag, v->fed ? v->request : 0);
    }
}

static bool move_is_fed(const struct move *v, const struct member *m,
                        const struct job *job, const Sluice__V1__FeedEnded *e)
{
    return !v->replica && v->phase == MOVE_FEEDS && v->source == m->id &&
           v->request == e->order && v->job == e->job && v->shard == e->shard &&
           e->incarnation == job->shards.evidence.shard[e->shard].incarnation;
}

void moves_feed_ended(struct coord *c, struct member *m,
                      const Sluice__V1__FeedEnded *ended)
{
    struct job *job = jobs_live(c, ended->job, ended->job_incarnation);

    if (job == NULL || ended->shard >= job->shards.count)
        return;
    list_for_safe(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);

        if (!move_is_fed(v, m, job, ended))
            continue;
        if (ended->failure[0] == '\0')
            move_over(c, v, job);
        else
            move_give_up(c, v, "its feed ended: %s", ended->failure);
        return;
    }
}

// Ends the log of a feed that began when its move was given up: by its source's
// admission, or by a word if it was to be a replica's.
static void move_forgotten(struct coord *c, struct member *m,
                           const struct job *job,
                           const Sluice__V1__SnapshotReport *report)
{
    const struct job_shard *s;

    if (job == NULL || report->feed == 0 || report->shard >= job->shards.count)
        return;
    s = &job->shards.list[report->shard];
    if (s->server != m->id)
        return;
    if (!job_has_replicas(job))
        send_hello_wanted(c, m, job, report->shard);
    else if (job_replica(s) == NULL || s->replica.feed != report->feed)
        send_replica_out(c, m, job->id, report->shard, report->feed);
}

bool moves_report(struct coord *c, struct member *m,
                  const Sluice__V1__SnapshotReport *report)
{
    struct job *job = jobs_live(c, report->job, report->job_incarnation);

    list_for(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);

        if (!move_hears(v, m, report))
            continue;
        if (job != NULL)
            move_take(c, v, job, report);
        return true; // a job that has ended: the next tick
    }
    move_forgotten(c, m, job, report);
    return false;
}

const struct member *moves_followed(struct coord *c, const struct member *m,
                                    const Sluice__V1__ReplicaReport *r)
{
    list_for_safe(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);
        const struct member *target = members_get(&c->members, v->target);

        if (!v->replica || v->phase != MOVE_FEEDS || v->source != m->id ||
            v->request != r->order || v->job != r->job || v->shard != r->shard)
            continue;
        if (!r->ready || target == NULL) {
            move_give_up(c, v, "its feed ended: %s", r->failure);
            return NULL;
        }
        move_free(v);
        c->moves.look_ms = 0; // the next one
        return target;
    }
    return NULL;
}

// Returns true if m is the owner of the shard: it was asked to load it anew,
// and is not refused.
static bool moves_owns(struct coord *c, const struct member *m,
                       const Sluice__V1__ShardHello *h)
{
    const struct job *job = jobs_get(c, h->job);

    return job != NULL && !job_ended(job) && h->shard < job->shards.count &&
           strcmp(job->shards.list[h->shard].psserver, m->name) == 0;
}

void moves_prepared(struct coord *c, struct member *m,
                    const Sluice__V1__ShardHello *h)
{
    struct job *job = jobs_live(c, h->job, h->job_incarnation);

    list_for(n, &c->moves.list)
    {
        struct move *v = list_entry(n, struct move, node);

        if (job == NULL || v->target != m->id || v->job != h->job ||
            v->shard != h->shard)
            continue;
        // The answer to an older preparation, which the target may still have:
        // that to this one follows (M4).
        if (h->follow != 0 && h->follow != v->request)
            return;
        if (h->failure[0] != '\0') {
            m->no_moves_ms = coord_now(c) + MOVES_FAILED_MS;
            move_give_up(c, v, "%s cannot load it: %s", m->name, h->failure);
            return;
        }
        v->prepared = true;
        v->fed = v->fed && h->follow == v->request;
        move_go_on(c, v, job);
        return;
    }
    // A move that is over, or one of an earlier coordinator.
    if (!moves_owns(c, m, h))
        send_refuse(c, m, h->job, h->shard, "its move was given up", NULL);
}

// ---- which shard moves next

// A psserver that may give or take shards.
struct party {
    struct member *member;
    uint64_t weight; // of its shards of all jobs that have not ended
    bool busy;       // in a move
    // The last job that was asked about, and where its shards would go from
    // here; NULL: nowhere.
    const struct job *job;
    struct party *to;
};

struct parties {
    struct party *list; // owned
    uint32_t count;
    struct strmap by_name; // to `weight` of a party
};

static void parties_release(struct parties *p)
{
    strmap_release(&p->by_name);
    sl_free(p->list);
}

static bool parties_add(struct coord *c, struct parties *p, struct member *m)
{
    struct party *at = &p->list[p->count];

    *at = (struct party){.member = m, .busy = moves_with(c, m) != NULL};
    p->count++;
    return strmap_put(&p->by_name, m->name, &at->weight) == SL_OK;
}

// Returns the party of this name; NULL: there is none.
static struct party *parties_get(const struct parties *p, const char *name)
{
    uint64_t *weight = strmap_get(&p->by_name, name);

    return weight == NULL ? NULL
                          : sl_container_of(weight, struct party, weight);
}

static bool move_may_have(const struct member *m)
{
    return m->role == MEMBER_PSSERVER && m->edition >= MODEL_EDITION_MOVES &&
           (m->state == MEMBER_READY || m->state == MEMBER_DRAINING);
}

// Lists the psservers, and weighs the shards of each. False without memory.
static bool parties_init(struct coord *c, struct parties *p)
{
    bool ok = true;

    *p = (struct parties){0};
    strmap_init(&p->by_name);
    p->list = sl_malloc_array(c->members.psservers + 1, sizeof(*p->list));
    if (p->list == NULL)
        return false;
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (move_may_have(m))
            ok = ok && parties_add(c, p, m);
    }
    shards_weigh(c, &p->by_name);
    return ok;
}

// Says whether one more psserver may hold shards of the job.
static bool has_room(const struct job *job, const struct member *m)
{
    uint32_t limit = job->spec->placement->psservers, distinct = 0;

    if (limit == 0 || job_lies_on(job, m) > 0)
        return true;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        bool seen = false;

        for (uint32_t k = 0; k < i && !seen; k++)
            seen = strcmp(job->shards.list[k].psserver,
                          job->shards.list[i].psserver) == 0;
        distinct += !seen;
    }
    return distinct < limit;
}

// Returns the psserver with the least weight that may take one of the job's
// shards from there; NULL: none.
static struct party *lightest(struct coord *c, const struct parties *p,
                              const struct job *job, const struct party *from)
{
    bool leaves = moves_empties(from->member);
    struct party *best = NULL;

    for (uint32_t i = 0; i < p->count; i++) {
        struct party *to = &p->list[i];

        if (to == from || to->busy || to->member->state != MEMBER_READY ||
            moves_empties(to->member) ||
            coord_now(c) < to->member->no_moves_ms ||
            !job_shard_able(job, to->member) ||
            (best != NULL && to->weight >= best->weight) ||
            (!leaves &&
             (coord_now(c) - to->member->attached_ms < c->options.settle_ms ||
              !has_room(job, to->member))))
            continue;
        best = to;
    }
    return best;
}

// Returns true if psservers differ by less when a shard of that weight has
// moved, and its old one has not less than its new one: it stays there.
static bool move_evens(const struct party *from, const struct party *to,
                       uint64_t weight)
{
    return from->weight >= to->weight + 2 * weight;
}

static bool moves_alone(const struct job *job)
{
    const char *word = job->spec->placement->move;

    return word == NULL || strcmp(word, "manual") != 0;
}

// Returns the psserver that shard i of the job should move to now; NULL: none.
static struct party *move_due(struct coord *c, const struct parties *p,
                              const struct job *job, uint32_t i,
                              struct party **from)
{
    const struct job_shard *s = &job->shards.list[i];

    *from = parties_get(p, s->psserver);
    if (*from == NULL || (*from)->busy || s->server != (*from)->member->id ||
        coord_now(c) < s->move_ms)
        return NULL;
    if (!moves_empties((*from)->member) &&
        (!moves_alone(job) || coord_now(c) < job->shards.evens_ms))
        return NULL;
    if ((*from)->job != job) {
        (*from)->job = job;
        (*from)->to = lightest(c, p, job, *from);
    }
    if ((*from)->to != NULL && !moves_empties((*from)->member) &&
        !move_evens(*from, (*from)->to, shards_weight(job, s)))
        return NULL;
    return (*from)->to;
}

// Says whether a replica of the job may lie there, also if not right now.
static bool replica_may_lie(const struct coord *c, const struct job *job,
                            const struct party *from, const struct party *to)
{
    return to != from && to->member->state == MEMBER_READY &&
           !moves_empties(to->member) &&
           coord_now(c) >= to->member->no_moves_ms &&
           job_shard_able(job, to->member);
}

static bool same_host(const struct party *a, const struct party *b)
{
    return strcmp(a->member->host, b->member->host) == 0;
}

// Returns true if `to` is better than `best` for a replica of a shard of
// `from`: it is on another host, or free at once, or has less weight.
static bool replica_better(const struct party *from, const struct party *to,
                           const struct party *best)
{
    bool near = same_host(to, from);

    if (near != same_host(best, from))
        return !near;
    if (to->busy != best->busy)
        return !to->busy;
    return to->weight < best->weight;
}

// Returns the psserver that is to follow shard i of the job, which wants a
// replica: on another host if there is one, and then the one with the least
// weight. NULL: none can now; another host's that is in a move is waited for,
// since replicas stay where they are.
static struct party *replica_due(struct coord *c, const struct parties *p,
                                 const struct job *job, uint32_t i,
                                 struct party **from)
{
    const struct job_shard *s = &job->shards.list[i];
    struct party *best = NULL;

    *from = parties_get(p, s->psserver);
    if (*from == NULL || (*from)->busy || s->server != (*from)->member->id ||
        job_replica(s) != NULL || coord_now(c) < s->replica.again_ms)
        return NULL;
    for (uint32_t k = 0; k < p->count; k++) {
        struct party *to = &p->list[k];

        if (replica_may_lie(c, job, *from, to) &&
            (best == NULL || replica_better(*from, to, best)))
            best = to;
    }
    return best == NULL || best->busy ? NULL : best;
}

static bool move_can_feed(const struct job_shard *s, const struct party *from,
                          const struct party *to)
{
    return !s->by_files && from->member->edition >= MODEL_EDITION_FEEDS &&
           to->member->edition >= MODEL_EDITION_FEEDS;
}

static void move_begin(struct coord *c, struct job *job, uint32_t shard,
                       struct party *from, struct party *to)
{
    struct move *v = sl_calloc(1, sizeof(*v));
    bool feed = move_can_feed(&job->shards.list[shard], from, to);

    if (v == NULL)
        return; // the next look tries again
    v->job = job->id;
    v->shard = shard;
    v->source = from->member->id;
    v->target = to->member->id;
    v->request = (c->term << 32) | ++c->requests;
    v->began_ms = coord_now(c);
    v->replica = job_has_replicas(job);
    v->evens = !v->replica && !moves_empties(from->member);
    move_rests(c, v, job);
    from->busy = to->busy = true;
    list_push_back(&c->moves.list, &v->node);
    move_enter(c, v, MOVE_WRITES);
    LOG(INFO, v->replica ? "replica begun" : "move begun",
        "job=%s shard=%u from=%s to=%s", job->id_text, shard,
        from->member->name, to->member->name);
    FAULT("move.begin");
    send_move_snapshot(c, v->source, job, shard, v->request, false,
                       feed ? v->request : 0);
}

// Begins at most one move of a job, and one of each psserver.
static void moves_begin(struct coord *c, const struct parties *p,
                        struct job *job)
{
    struct party *from, *to;

    if (job->state != JOB_RUNNING || job->behind.paused || !job_served(job) ||
        moves_never(job) || cuts_awaited(job))
        return;
    for (uint32_t i = 0; i < job_psserver_shards(job); i++) {
        to = job_has_replicas(job) ? replica_due(c, p, job, i, &from)
                                   : move_due(c, p, job, i, &from);
        if (to == NULL)
            continue;
        if (job->cuts.now == NULL)
            move_begin(c, job, i, from, to);
        else
            cuts_wait(c, job, 2 * MOVES_LOOK_MS);
        return;
    }
}

// A large shard has as long for a file, or to be loaded, as a cut would have.
static uint64_t patience(const struct move *v, const struct job *job)
{
    const struct job_shard *s = &job->shards.list[v->shard];

    if (move_stops(v))
        return MOVES_STOP_MS;
    return MOVES_LATE_MS + shards_bytes(job, s) / CUT_BYTES_PER_MS;
}

static void move_tick(struct coord *c, struct move *v)
{
    struct job *job = jobs_get(c, v->job);

    if (job == NULL || job_ended(job))
        move_give_up(c, v, "the job has ended");
    else if (job->behind.paused)
        move_give_up(c, v, "the job is paused (I7)");
    else if (coord_now(c) - v->since_ms >= patience(v, job))
        move_give_up(c, v, "it took too long");
    else
        move_go_on(c, v, job);
}

void moves_tick(struct coord *c)
{
    uint64_t now = coord_now(c);
    struct parties p;

    list_for_safe(n, &c->moves.list)
    {
        move_tick(c, list_entry(n, struct move, node));
    }
    if (c->members.psservers < 2 || now < c->moves.look_ms)
        return;
    c->moves.look_ms = now + MOVES_LOOK_MS;
    if (parties_init(c, &p)) {
        list_for(n, &c->jobs.active)
        {
            moves_begin(c, &p, list_entry(n, struct job, on_active));
        }
    }
    parties_release(&p);
}
