// SPDX-License-Identifier: Apache-2.0
// tests/sim/server.c -- a psserver: the real roster, store, shards, snapshots.
//
// Left out is what only moves bytes: rpc, the attendee, the mapping cache. The
// dispatch below is that of psserver/service/attend.c and
// psserver/service/api.c. Pulls that wait for a round wait in the psserver's
// own list (psserver/service/rounds.h).
#include "tests/sim/calls.h"
#include "tests/sim/server.h"

#include "common/base/mem.h"
#include "state/snap/archive.h"
#include "psserver/roster/roster.h"
#include "psserver/service/rounds.h"
#include "tests/sim/net.h"
#include "tests/sim/pool.h"
#include "tests/sim/soak.h"
#include "tests/sim/truth.h"

struct server {
    struct sim *sim;
    struct loop loop;
    struct shard_table *store;
    struct roster *roster;
    struct rounds rounds;
    uint64_t seq;
};

// A call that waits for a round.
struct waiting_pull {
    struct rpc_call base;
    struct sim *sim;
    struct proc *proc;
    struct sim_call *call; // owned
};

// Looks at a shard, if it is here: truth.c compares.
static struct memory *look(struct sim *s, struct proc *p, uint64_t job,
                           uint32_t shard)
{
    struct server *me = p->self;
    struct shard *found = store_find(me->store, job, shard);
    struct memory *m;

    if (found == NULL)
        return NULL;
    m = truth_memory(s, p, found);
    shard_unref(found);
    return m;
}

// ---- upwards

static void check_up(struct sim *s, struct proc *p,
                     const Sluice__V1__AttendUp *up)
{
    const Sluice__V1__ShardHello *hello = up->shard_hello;
    struct memory *m;

    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO &&
        hello->failure[0] == '\0') {
        m = look(s, p, hello->job, hello->shard);
        T_TRUE(m != NULL);
        truth_hello(s, m, hello);
    }
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT &&
        up->snapshot->failure[0] == '\0')
        truth_report(s, p, up->snapshot);
}

static void send_up(void *arg, const Sluice__V1__AttendUp *up)
{
    struct proc *p = arg;
    struct server *me = p->self;

    if (!p->alive)
        return;
    if (me->sim->knobs.soak == NULL)
        check_up(me->sim, p, up);
    session_up(me->sim, p, up);
}

// ---- downwards: psserver/service/attend.c

bool server_welcome(struct sim *s, struct proc *p, const Sluice__V1__Welcome *m)
{
    struct server *me = p->self;

    if (!roster_term(me->roster, m->term))
        return false;
    p->term = m->term;
    return true;
}

void server_attached(struct sim *s, struct proc *p)
{
    struct server *me = p->self;

    roster_attached(me->roster);
}

void server_beat(struct sim *s, struct proc *p)
{
    struct server *me = p->self;

    roster_tick(me->roster, ++me->seq, p->draining);
}

static void close_round(struct sim *s, struct proc *p,
                        const Sluice__V1__CloseRound *m)
{
    struct server *me = p->self;
    struct memory *memory = look(s, p, m->job, m->shard);
    uint64_t version = memory == NULL ? 0 : once_version(&memory->shard->once);

    roster_close_round(me->roster, m);
    if (memory != NULL)
        rounds_told(s, memory, m->closure, version);
}

static void receive(struct sim *s, struct proc *p,
                    const Sluice__V1__AttendDown *down)
{
    struct server *me = p->self;

    switch (down->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_PLACE:
        roster_place(me->roster, down->place);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_ADMIT:
        roster_admit(me->roster, down->admit);
        (void)look(s, p, down->admit->job, down->admit->shard);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REFUSE:
        roster_refuse(me->roster, down->refuse);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_HELLO_WANTED:
        roster_hello(me->roster, down->hello_wanted);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_ROUND:
        close_round(s, p, down->close_round);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        roster_snapshot(me->roster, down->snapshot);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        roster_keep(me->roster, down->keep);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB:
        roster_close_job(me->roster, down->close_job);
        break;
    default:
        break;
    }
}

// The term that a message was said in; 0: it does not say so.
static uint64_t term_of(const Sluice__V1__AttendDown *down)
{
    switch (down->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_PLACE:
        return down->place->term;
    case SLUICE__V1__ATTEND_DOWN__KIND_ADMIT:
        return down->admit->term;
    case SLUICE__V1__ATTEND_DOWN__KIND_REFUSE:
        return down->refuse->term;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        return down->keep->term;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_ROUND:
        return down->close_round->term;
    default:
        return 0;
    }
}

static void keep_echo(struct sim *s, struct proc *p,
                      const Sluice__V1__AttendDown *down)
{
    struct echo *e = &s->echoes[s->echoes_count % SIM_ECHOES];
    ProtobufCMessage *copy = NULL;

    if (term_of(down) == 0)
        return;
    T_OK(wire_dup(&copy, &down->base));
    wire_free((ProtobufCMessage *)e->message);
    *e = (struct echo){p->slot, term_of(down), (Sluice__V1__AttendDown *)copy};
    s->echoes_count++;
}

// I5: a coordinator that was replaced, and does not know it, says something.
static void receive_echo(struct sim *s, struct proc *p)
{
    struct echo *e = &s->echoes[sim_below(s, SIM_ECHOES)];

    if (s->healed || e->message == NULL || e->slot != p->slot ||
        e->term >= p->term || !sim_chance(s, 300))
        return;
    s->seen.echoes++;
    receive(s, p, e->message);
}

void server_down(struct sim *s, struct proc *p,
                 const Sluice__V1__AttendDown *down)
{
    receive(s, p, down);
    keep_echo(s, p, down);
    receive_echo(s, p);
}

// ---- calls: psserver/service/api.c

static struct sl_slices bytes_of(const struct sim_call *call,
                                 struct sl_slice *one)
{
    *one = (struct sl_slice){call->data, call->bytes};
    return slices_one(one);
}

static void do_ask(struct sim *s, struct proc *p, const struct sl_slices *bytes,
                   struct sim_reply *reply)
{
    struct server *me = p->self;
    struct shard *shard;
    struct memory *m;
    struct wire_ask ask;

    T_OK(wire_read_ask(&ask, bytes, t_err()));
    shard = store_find(me->store, ask.job, ask.shard);
    if (shard == NULL) {
        reply->rc = SL_EUNAVAIL;
        return;
    }
    m = truth_memory(s, p, shard);
    reply->rc = shard_ask(shard, &ask, &reply->ask, t_err());
    if (m != NULL)
        truth_ask(s, m, &ask, reply->rc, &reply->ask);
    shard_unref(shard);
}

static void do_push(struct sim *s, struct proc *p,
                    const struct sl_slices *bytes, struct sim_reply *reply)
{
    struct server *me = p->self;
    struct shard *shard;
    struct memory *m;
    struct wire_push push;

    reply->rc = wire_read_push(&push, bytes, t_err());
    if (reply->rc != SL_OK) {
        s->seen.rejected++;
        return;
    }
    shard = store_find(me->store, push.job, push.shard);
    if (shard == NULL) {
        reply->rc = SL_EUNAVAIL;
        return;
    }
    m = truth_memory(s, p, shard);
    T_LE(shard->plan.elements, SL_COUNT(reply->values));
    reply->rc = shard_push(shard, &push, &reply->push, reply->values, t_err());
    if (m != NULL)
        truth_push(s, m, &push, reply->rc, &reply->push, reply->values);
    soak_pushed(s, reply->rc, &reply->push);
    if (reply->rc == SL_OK && reply->push.result != WIRE_PUSH_REFUSED &&
        reply->push.result != WIRE_PUSH_HELD)
        reply->elements = shard->plan.elements;
    if (reply->rc == SL_OK && reply->push.result == WIRE_PUSH_COUNTED &&
        shard->plan.contributions > 0)
        rounds_applied(&me->rounds, shard);
    shard_unref(shard);
}

// The values of a snapshot, also of a shard that is not here any more.
static void pull_tag(struct sim *s, struct proc *p, struct shard *shard,
                     const struct wire_pull *pull, struct sim_reply *reply)
{
    struct tagged_file *file = NULL;
    struct archive archive;
    char *folder;

    if (shard == NULL) {
        archive_init(&archive);
        reply->rc = archive_values(&archive, &p->files.fs, "/store", pull->job,
                                   pull->shard, pull->tag, &file, t_err());
        archive_release(&archive);
    } else {
        reply->rc = shard_pull_check(shard, pull, t_err());
        folder = snap_folder("/store", &shard->plan);
        if (reply->rc == SL_OK)
            reply->rc = snap_values(&p->files.fs, folder, &shard->plan,
                                    pull->tag, &file, t_err());
        sl_free(folder);
    }
    if (reply->rc != SL_OK)
        return;
    reply->elements = file->bytes / sizeof(float);
    T_LE(reply->elements, SL_COUNT(reply->values));
    memcpy(reply->values, file->values, file->bytes);
    tagged_file_unref(file);
}

static void pull_now(struct sim *s, struct proc *p, struct shard *shard,
                     const struct wire_pull *pull, struct sim_reply *reply)
{
    struct memory *m = truth_memory(s, p, shard);

    reply->rc = shard_pull(shard, pull, &reply->pull, reply->values, t_err());
    if (reply->rc == SL_OK)
        reply->elements = shard->plan.elements;
    if (m != NULL)
        truth_pull(s, m, pull, reply->rc, &reply->pull, reply->values);
}

// ---- pulls that wait

static void waiting_free(struct waiting_pull *w)
{
    calls_release(&w->base);
    free(w->call);
    free(w);
}

static void answer_round(void *arg, struct rpc_call *call, struct shard *shard,
                         const struct wire_pull *pull)
{
    struct waiting_pull *w = sl_container_of(call, struct waiting_pull, base);
    struct sim_reply reply = {.id = w->call->id, .kind = CALL_PULL};

    if (w->proc->alive) { // else it was killed
        pull_now(w->sim, w->proc, shard, pull, &reply);
        net_answer(w->sim, w->call, &reply);
    }
    waiting_free(w);
}

static bool wait_for_round(struct sim *s, struct proc *p, struct shard *shard,
                           const struct wire_pull *pull,
                           const struct sim_call *call)
{
    struct server *me = p->self;
    size_t bytes = sizeof(*call) + call->bytes;
    struct waiting_pull *waits;
    bool kept;

    if (pull->after_round_of == 0)
        return false;
    waits = calloc(1, sizeof(*waits));
    T_ASSERT(waits != NULL);
    *waits = (struct waiting_pull){.sim = s, .proc = p, .call = malloc(bytes)};
    T_ASSERT(waits->call != NULL);
    memcpy(waits->call, call, bytes);
    kept = rounds_wait(&me->rounds, &waits->base, shard, pull);
    if (!kept)
        waiting_free(waits);
    s->seen.round_waits += kept;
    return kept;
}

// False: it is answered later.
static bool do_pull(struct sim *s, struct proc *p, const struct sim_call *call,
                    const struct sl_slices *bytes, struct sim_reply *reply)
{
    struct server *me = p->self;
    struct shard *shard;
    struct wire_pull pull;
    bool waits = false;

    T_OK(wire_read_pull(&pull, bytes, t_err()));
    shard = store_find(me->store, pull.job, pull.shard);
    if (pull.has_tag)
        pull_tag(s, p, shard, &pull, reply);
    else if (shard == NULL)
        reply->rc = SL_EUNAVAIL;
    else
        waits = wait_for_round(s, p, shard, &pull, call);
    if (!pull.has_tag && shard != NULL && !waits)
        pull_now(s, p, shard, &pull, reply);
    shard_unref(shard);
    return !waits;
}

bool server_call(struct sim *s, struct proc *p, const struct sim_call *call,
                 struct sim_reply *reply)
{
    struct sl_slice one;
    struct sl_slices bytes = bytes_of(call, &one);

    if (call->kind == CALL_PULL)
        return do_pull(s, p, call, &bytes, reply);
    if (call->kind == CALL_ASK)
        do_ask(s, p, &bytes, reply);
    else
        do_push(s, p, &bytes, reply);
    if (call->kind == CALL_PUSH_BARE)
        reply->elements = 0;
    return true;
}

// ---- life

void server_start_proc(struct sim *s, struct proc *p)
{
    struct server *me = calloc(1, sizeof(*me));
    struct roster_setup setup;

    T_ASSERT(me != NULL);
    *me = (struct server){.sim = s, .loop = {s, p}};
    p->self = me;
    T_OK(store_new(&me->store));
    setup = (struct roster_setup){.loop = &me->loop,
                                  .fs = &p->files.fs,
                                  .store = me->store,
                                  .folder = "/store",
                                  .deltas = s->knobs.tables ? 3 : 0,
                                  .send = send_up,
                                  .arg = p};
    T_OK(roster_new(&me->roster, &setup));
    T_OK(rounds_init(&me->rounds, &me->loop, answer_round, me));
    if (s->knobs.mode != SIM_SYNC)
        loop_timer_stop(me->rounds.timer); // it looks at nothing there
    session_dial(s, p);
}

void server_stop_proc(struct sim *s, struct proc *p)
{
    struct server *me = p->self;

    rounds_stop(&me->rounds);
    rounds_release(&me->rounds);
    truth_gone(s, p);
    pool_end_all(p);
    roster_free(me->roster);
    store_free(me->store);
    free(me);
    p->self = NULL;
}

static void saved(void *arg)
{
    struct proc *p = arg;
    struct server *me = p->self;

    if (p->alive)
        proc_exit(me->sim, p);
}

void server_drain_proc(struct sim *s, struct proc *p)
{
    struct server *me = p->self;

    if (p->draining)
        return;
    p->draining = true;
    server_beat(s, p);
    roster_save(me->roster, saved, p);
}
