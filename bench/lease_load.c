// SPDX-License-Identifier: Apache-2.0
// bench/lease_load.c -- a worker that computes nothing, with everything that
// belongs to one: it attends the coordinator, takes closures, pushes each step
// to every shard at once, and completes. What it measures is the push, or the
// push that brings the parameters back: from the call to its answer.
//
//   Lease -> step: a push to every shard -> the last answer: the next step
//   -> ... -> Complete -> the next lease, which is here already (ahead)
//
// Threads  leases come on one I/O thread, answers to small pushes perhaps on
//          another: they take turns. Main's heartbeats look at what `lock`
//          guards.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/program.h"
#include "bench/target.h"

#define HELD_MAX 8    // as many as the coordinator gives
#define HELD_ENOUGH 4 // with more, completions wait (trainer/attend/member.c)
#define BEAT_NS (200 * 1000000L)

struct lease {
    uint64_t job, closure;
    struct wire_attempt attempt;
    uint32_t steps;
};

struct load {
    size_t shards;
    struct target target[TARGETS_MAX];
    struct target_op op[TARGETS_MAX];
    struct rpc_stream *stream;
    struct wire_arena arena;
    struct meter meter;
    uint32_t step;               // of held[0]
    unsigned on_way;             // its pushes
    struct lease done[HELD_MAX]; // and not said yet
    unsigned done_count;
    atomic_bool over;     // the run
    sem_t idle;           // over, and nothing on its way
    pthread_mutex_t turn; // of callbacks: all but what is below
    uint64_t progress;    // under the lock, as all below

    pthread_mutex_t lock;
    unsigned count;
    struct lease held[HELD_MAX];
};

// ---- what we say

static void say(struct load *l, const Sluice__V1__AttendUp *up)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    program_must(wire_msg(&msg, &up->base), NULL, "a message");
    if (rpc_stream_send(l->stream, &msg) != SL_OK) {
        rpc_msg_drop(&msg);
        if (!atomic_load(&l->over))
            program_die("the coordinator does not listen");
    }
}

static void say_hello(struct load *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Hello m = SLUICE__V1__HELLO__INIT;
    char name[32]; // a second process of one name would replace the first

    snprintf(name, sizeof(name), "lease-load-%d", (int)getpid());
    m.role = SLUICE__V1__ROLE__ROLE_WORKER;
    m.name = name;
    m.process = (uint64_t)getpid();
    m.pid = (uint64_t)getpid();
    m.host = (char *)"localhost";
    m.version = (char *)SLUICE_VERSION;
    m.device = (char *)"none";
    m.protocol = WIRE_PROTOCOL;
    m.external = true;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HELLO;
    up.hello = &m;
    say(l, &up);
}

struct complete_parts {
    Sluice__V1__Complete msg;
    Sluice__V1__Attempt attempt;
    Sluice__V1__StepMetrics metrics;
};

static void fill_complete(struct complete_parts *p, const struct load *l,
                          const struct lease *lease,
                          Sluice__V1__ShardEvidence **evidence)
{
    sluice__v1__complete__init(&p->msg);
    sluice__v1__step_metrics__init(&p->metrics);
    p->attempt = wire_attempt_msg(lease->attempt);
    p->metrics.steps = p->metrics.samples = lease->steps;
    p->msg.job = lease->job;
    p->msg.job_incarnation = l->target[0].job_incarnation;
    p->msg.closure = lease->closure;
    p->msg.attempt = &p->attempt;
    p->msg.n_evidence = l->shards;
    p->msg.evidence = evidence;
    p->msg.metrics = &p->metrics;
}

// All that are done, in one message.
static void say_complete(struct load *l)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Completes m = SLUICE__V1__COMPLETES__INIT;
    Sluice__V1__ShardEvidence evidence[TARGETS_MAX], *list[TARGETS_MAX];
    Sluice__V1__Complete *done[HELD_MAX];
    struct complete_parts part[HELD_MAX];

    for (size_t i = 0; i < l->shards; i++) {
        sluice__v1__shard_evidence__init(&evidence[i]);
        evidence[i].shard = (uint32_t)i;
        evidence[i].incarnation = l->target[i].incarnation;
        list[i] = &evidence[i];
    }
    for (unsigned i = 0; i < l->done_count; i++) {
        fill_complete(&part[i], l, &l->done[i], list);
        done[i] = &part[i].msg;
    }
    m.complete = done;
    m.n_complete = l->done_count;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETES;
    up.completes = &m;
    l->done_count = 0;
    say(l, &up);
}

static void say_heartbeat(struct load *l, uint64_t seq)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress lease[HELD_MAX], *list[HELD_MAX];
    Sluice__V1__Attempt attempt[HELD_MAX];

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; i < l->count; i++) {
        attempt[i] = wire_attempt_msg(l->held[i].attempt);
        sluice__v1__lease_progress__init(&lease[i]);
        lease[i].job = l->held[i].job;
        lease[i].closure = l->held[i].closure;
        lease[i].attempt = &attempt[i];
        lease[i].progress = l->progress;
        list[i] = &lease[i];
    }
    m.seq = seq;
    m.n_leases = l->count;
    m.leases = list;
    pthread_mutex_unlock(&l->lock);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &m;
    say(l, &up);
}

// ---- closures

static void push_step(struct load *l)
{
    const struct lease *lease = &l->held[0];

    l->on_way = (unsigned)l->shards;
    for (size_t i = 0; i < l->shards; i++) {
        l->op[i].closure = lease->closure;
        l->op[i].attempt = lease->attempt;
        l->op[i].step = l->step;
        target_start(&l->op[i]);
    }
}

static void begin_closure(struct load *l)
{
    if (l->count == 0 || l->on_way > 0)
        return;
    l->step = 0;
    push_step(l);
}

static void end_closure(struct load *l)
{
    l->done[l->done_count++] = l->held[0];
    pthread_mutex_lock(&l->lock);
    l->count--;
    memmove(&l->held[0], &l->held[1], l->count * sizeof(l->held[0]));
    pthread_mutex_unlock(&l->lock);
    if (l->count <= HELD_ENOUGH)
        say_complete(l);
    begin_closure(l);
}

static void count_push(struct load *l, const struct target_op *op)
{
    if (!meter_add(&l->meter, target_op_bytes(op), op->began_s,
                   program_now_s()))
        atomic_store(&l->over, true);
    pthread_mutex_lock(&l->lock);
    l->progress++;
    pthread_mutex_unlock(&l->lock);
    if (--l->on_way > 0)
        return;
    if (atomic_load(&l->over))
        sem_post(&l->idle);
    else if (++l->step < l->held[0].steps)
        push_step(l);
    else
        end_closure(l);
}

static void pushed(struct target_op *op, enum sl_err rc,
                   const struct sl_error *err)
{
    struct load *l = op->arg;

    program_must(rc, err, "a push");
    pthread_mutex_lock(&l->turn);
    count_push(l, op);
    pthread_mutex_unlock(&l->turn);
}

// ---- what we hear

static void take_lease(struct load *l, const Sluice__V1__Lease *m)
{
    if (m->kind != SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        program_die("a lease of kind %d", (int)m->kind);
    if (l->count == HELD_MAX)
        program_die("more than %d leases", HELD_MAX);
    pthread_mutex_lock(&l->lock);
    l->held[l->count++] = (struct lease){.job = m->job,
                                         .closure = m->closure,
                                         .attempt = wire_attempt_of(m->attempt),
                                         .steps = m->steps};
    pthread_mutex_unlock(&l->lock);
    if (!atomic_load(&l->over))
        begin_closure(l);
}

static void on_message(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user)
{
    struct load *l = user;
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__AttendDown *m;
    enum sl_err rc = wire_unpack_attend_down(&m, &l->arena, body, &err);

    (void)stream;
    program_must(rc == SL_ENOTSUP ? SL_OK : rc, &err, "the coordinator");
    pthread_mutex_lock(&l->turn);
    if (rc == SL_OK && m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_LEASES)
        for (size_t i = 0; i < m->leases->n_lease; i++)
            take_lease(l, m->leases->lease[i]);
    if (rc == SL_OK && m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_REVOKE)
        program_die("a lease was revoked: %s", m->revoke->why);
    pthread_mutex_unlock(&l->turn);
    wire_arena_reset(&l->arena);
}

static void on_end(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user)
{
    struct load *l = user;

    (void)stream;
    if (!atomic_load(&l->over))
        program_die("the coordinator has gone: %s",
                    err != NULL ? err->text : sl_err_text(code));
}

static void attend(struct load *l, struct rpc_channel *channel)
{
    static const struct rpc_stream_events events = {.on_message = on_message,
                                                    .on_end = on_end};
    struct rpc_call_options options = {.deadline_ms = RPC_NO_DEADLINE,
                                       .wait_for_ready = true};
    struct timespec pause = {.tv_nsec = BEAT_NS};
    struct sl_error err = SL_ERROR_INIT;

    program_must(rpc_stream_open(&l->stream, channel, WIRE_ATTEND, NULL,
                                 &options, &events, l, &err),
                 &err, "attending");
    say_hello(l);
    for (uint64_t seq = 1; !atomic_load(&l->over); seq++) {
        nanosleep(&pause, NULL);
        say_heartbeat(l, seq);
    }
    while (sem_wait(&l->idle) != 0)
        ; // a signal
    rpc_stream_cancel(l->stream);
    rpc_stream_unref(l->stream);
}

static const struct conf_about about = {
    .program = "lease_load",
    .usage = "lease_load --shard ADDRESS=INCARNATION... [OPTION]...",
    .text = "Attends a coordinator as a worker, runs the closures of an "
            "`external` job without computing, and says how long pushes take.",
    .example = "lease_load --coordinator unix:/tmp/c.sock --job 1 --shard "
               "127.0.0.1:4000=1",
};

static const struct conf_key keys[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .value = "127.0.0.1:7070",
     .help = "Its address."},
    {.name = "mode",
     .kind = CONF_CHOICE,
     .value = "push",
     .choices = "push|pushpull",
     .help = "What a step is: a push, or one that brings the parameters."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, target_keys, tls_keys,
                                                meter_keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_channel *channel;
    enum target_call call = TARGET_PUSH;
    static struct load l;
    struct rpc_io *io;

    if (strcmp(conf_str(c, "mode"), "pushpull") == 0)
        call = TARGET_PUSH_PULL;
    pthread_mutex_init(&l.lock, NULL);
    pthread_mutex_init(&l.turn, NULL);
    sem_init(&l.idle, 0, 0);
    wire_arena_init(&l.arena);
    l.shards = targets_open(l.target, &io, c);
    targets_share(l.target, l.shards, 1, c);
    for (size_t i = 0; i < l.shards; i++)
        l.op[i] = (struct target_op){
            .target = &l.target[i], .call = call, .done = pushed, .arg = &l};
    program_must(rpc_channel_new(&channel, io, conf_str(c, "coordinator"), NULL,
                                 NULL, &err),
                 &err, "the coordinator");
    meter_start(&l.meter, c);
    attend(&l, channel);
    rpc_channel_free(channel);
    meter_print(&l.meter, "push");
    targets_close(l.target, l.shards, io);
    wire_arena_release(&l.arena);
    meter_release(&l.meter);
    conf_free(c);
    return 0;
}
