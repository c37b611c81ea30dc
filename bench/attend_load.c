// SPDX-License-Identifier: Apache-2.0
// bench/attend_load.c -- many workers in one process, which compute nothing:
// each attends the coordinator over a connection of its own and keeps its
// heartbeats and leases as a worker does (proto/attendee). Who is given a
// closure waits as if it computed, pushes its steps to the shard, and completes
// it. What is measured is the coordinator: from a completion to the assignment
// that follows it.
//
//   Lease -> (a timer) -> push -> its answer -> ... -> Complete -> Lease
//
// Threads  the loop; answers of the shard come on an I/O thread and are posted.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/program.h"
#include "bench/target.h"
#include "common/base/clock.h"
#include "common/run/log.h"
#include "common/base/rng.h"
#include "proto/attendee.h"

#define HELD_MAX 8 // the coordinator gives two
#define DIALING                                                                \
    32 // at a time: hosts of their own would not wait for each other

struct lease {
    uint64_t closure;
    struct wire_attempt attempt;
    uint32_t steps;
};

struct worker {
    struct load *load;
    struct rpc_channel *channel;
    struct attendee *attendee;
    struct loop_timer *computes;
    struct target_op push;
    struct loop_task pushed;
    unsigned held_count;
    struct lease held[HELD_MAX]; // the first one is computed
    bool busy;
    uint32_t step;           // of the first
    uint64_t progress;       // steps pushed
    double done_s[HELD_MAX]; // completions that nothing has followed yet
    unsigned done_count;
};

struct load {
    struct loop *loop;
    struct target target[TARGETS_MAX];
    const struct conf *conf;
    struct rpc_io *io;
    struct worker *workers;
    unsigned count, opened, attached;
    uint64_t compute_ms;
    struct rng rng;
    struct meter meter;
    atomic_bool over;
};

// ---- a closure

static void begin(struct worker *w)
{
    struct load *l = w->load;

    if (w->busy || w->held_count == 0)
        return;
    w->busy = true;
    w->step = 0;
    // From half of it to half as much again: workers do not keep step.
    loop_timer_start(w->computes,
                     l->compute_ms / 2 + rng_below(&l->rng, l->compute_ms), 0);
}

static void complete(struct worker *w)
{
    const struct target *target = &w->load->target[0];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete m = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__Attempt attempt = wire_attempt_msg(w->held[0].attempt);
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;
    Sluice__V1__ShardEvidence evidence = SLUICE__V1__SHARD_EVIDENCE__INIT;
    Sluice__V1__ShardEvidence *list = &evidence;

    evidence.incarnation = target->incarnation;
    metrics.steps = metrics.samples = w->held[0].steps;
    m.job = target->job;
    m.job_incarnation = target->job_incarnation;
    m.closure = w->held[0].closure;
    m.attempt = &attempt;
    m.n_evidence = 1;
    m.evidence = &list;
    m.metrics = &metrics;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &m;
    if (w->done_count == HELD_MAX)
        program_die("%d completions were not followed by a lease", HELD_MAX);
    w->done_s[w->done_count++] = program_now_s();
    if (!attendee_send(w->attendee, &up))
        program_die("the coordinator does not listen");
}

static void next_step(void *arg)
{
    struct worker *w = arg;

    w->push.closure = w->held[0].closure;
    w->push.attempt = w->held[0].attempt;
    w->push.step = w->step;
    target_start(&w->push);
}

static void on_pushed(void *arg)
{
    struct worker *w = arg;

    w->progress++;
    if (atomic_load(&w->load->over))
        return;
    if (++w->step < w->held[0].steps) {
        next_step(w);
        return;
    }
    complete(w);
    w->busy = false;
    w->held_count--;
    memmove(&w->held[0], &w->held[1], w->held_count * sizeof(w->held[0]));
    begin(w);
}

static void pushed(struct target_op *op, enum sl_err rc,
                   const struct sl_error *err)
{
    struct worker *w = op->arg;

    if (!atomic_load(&w->load->over))
        program_must(rc, err, "a push");
    loop_post_task(w->load->loop, &w->pushed, on_pushed, w);
}

static void take_lease(struct worker *w, const Sluice__V1__Lease *m)
{
    struct load *l = w->load;

    if (m->kind != SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        program_die("a lease of kind %d", (int)m->kind);
    if (w->held_count == HELD_MAX)
        program_die("more than %d leases", HELD_MAX);
    if (w->done_count > 0) {
        if (l->attached == l->count &&
            !meter_add(&l->meter, 0, w->done_s[0], program_now_s())) {
            atomic_store(&l->over, true);
            loop_stop(l->loop);
        }
        w->done_count--;
        memmove(&w->done_s[0], &w->done_s[1],
                w->done_count * sizeof(w->done_s[0]));
    }
    w->held[w->held_count++] =
        (struct lease){.closure = m->closure,
                       .attempt = wire_attempt_of(m->attempt),
                       .steps = m->steps};
    begin(w);
}

// ---- attending

static bool welcome(void *arg, const Sluice__V1__Welcome *m)
{
    (void)arg;
    (void)m;
    return true;
}

static void open_next(struct load *l);

// Counting begins when all are there.
static void attached(void *arg)
{
    struct load *l = ((struct worker *)arg)->load;

    if (++l->attached == l->count)
        meter_start(&l->meter, l->conf);
    open_next(l);
}

static void lost(void *arg)
{
    (void)arg;
    program_die("the coordinator has gone");
}

static void down(void *arg, const Sluice__V1__AttendDown *m)
{
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_LEASES)
        for (size_t i = 0; i < m->leases->n_lease; i++)
            take_lease(arg, m->leases->lease[i]);
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_REVOKE)
        program_die("a lease was revoked: %s", m->revoke->why);
}

static void beat(void *arg)
{
    struct worker *w = arg;
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress lease[HELD_MAX], *list[HELD_MAX];
    Sluice__V1__Attempt attempt[HELD_MAX];

    for (unsigned i = 0; i < w->held_count; i++) {
        attempt[i] = wire_attempt_msg(w->held[i].attempt);
        sluice__v1__lease_progress__init(&lease[i]);
        lease[i].job = w->load->target[0].job;
        lease[i].closure = w->held[i].closure;
        lease[i].attempt = &attempt[i];
        lease[i].progress = w->progress;
        list[i] = &lease[i];
    }
    m.n_leases = w->held_count;
    m.leases = list;
    attendee_heartbeat(w->attendee, &m);
}

static void open_next(struct load *l)
{
    struct worker *w = &l->workers[l->opened];
    struct sl_error err = SL_ERROR_INIT;
    char name[32];
    struct attendee_setup setup = {.loop = l->loop,
                                   .clock = sl_clock_real(),
                                   .role = SLUICE__V1__ROLE__ROLE_WORKER,
                                   .name = name,
                                   .device = "none",
                                   .external = true,
                                   .welcome = welcome,
                                   .attached = attached,
                                   .lost = lost,
                                   .down = down,
                                   .beat = beat,
                                   .arg = w};

    if (l->opened == l->count)
        return;
    snprintf(name, sizeof(name), "w-%u", l->opened++);
    w->load = l;
    w->push = (struct target_op){
        .target = &l->target[0], .call = TARGET_PUSH, .done = pushed, .arg = w};
    program_must(loop_timer_new(&w->computes, l->loop, next_step, w), NULL,
                 "a timer");
    program_must(rpc_channel_new(&w->channel, l->io,
                                 conf_str(l->conf, "coordinator"), NULL, NULL,
                                 &err),
                 &err, "the coordinator");
    setup.channel = w->channel;
    program_must(attendee_new(&w->attendee, &setup, &err), &err, "a worker");
    attendee_start(w->attendee);
}

static void close_worker(struct worker *w)
{
    attendee_stop(w->attendee);
    rpc_channel_free(w->channel);
    attendee_free(w->attendee);
    loop_timer_free(w->computes);
}

static const struct conf_about about = {
    .program = "attend_load",
    .usage = "attend_load --shard ADDRESS=INCARNATION [OPTION]...",
    .text =
        "Many workers of an `external` job of one shard, which wait instead "
        "of computing; says how long the coordinator takes from a "
        "completion to the next assignment.",
    .example = "attend_load --coordinator 127.0.0.1:7070 --job 1 --shard "
               "127.0.0.1:4000=1 --workers 1000",
};

static const struct conf_key keys[] = {
    {.name = "coordinator",
     .kind = CONF_STRING,
     .value = "127.0.0.1:7070",
     .help = "Its address."},
    {.name = "workers",
     .kind = CONF_INT,
     .value = "1000",
     .min = 1,
     .max = 100000,
     .help = "How many attend."},
    {.name = "compute-ms",
     .kind = CONF_INT,
     .value = "100",
     .min = 1,
     .max = 1 << 20,
     .unit = "ms",
     .help = "How long a closure seems to compute, on average."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, target_keys, meter_keys,
                                                NULL};

// Each has a connection.
static void raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct sl_error err = SL_ERROR_INIT;
    static struct load l;

    raise_files();
    log_set_level(LOG_LEVEL_WARN);
    l.conf = c;
    l.count = (unsigned)conf_int(c, "workers");
    rng_init(&l.rng, 1, 0);
    l.compute_ms = (uint64_t)conf_int(c, "compute-ms");
    l.workers = calloc(l.count, sizeof(*l.workers));
    if (l.workers == NULL)
        program_die("no memory for %u workers", l.count);
    if (targets_open(l.target, &l.io, c) != 1)
        program_die("--shard: exactly one is wanted");
    program_must(loop_new(&l.loop, &err), &err, "the loop");
    for (unsigned i = 0; i < DIALING; i++)
        open_next(&l);
    loop_run(l.loop);
    meter_print(&l.meter, "attend");
    for (unsigned i = 0; i < l.count; i++)
        close_worker(&l.workers[i]);
    targets_close(l.target, 1, l.io);
    loop_free(l.loop);
    meter_release(&l.meter);
    free(l.workers);
    conf_free(c);
    return 0;
}
