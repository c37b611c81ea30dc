// SPDX-License-Identifier: Apache-2.0
// bench/attend_load.c -- many workers in one process, which compute nothing:
// each attends the coordinator over a connection of its own and keeps its
// heartbeats and leases as a worker does (stream/attendee). Who is given a
// closure waits as if it computed, pushes its steps to the shard, and completes
// it. What is measured is the coordinator: from a completion to the assignment
// that follows it.
//
//   Lease -> (a timer) -> push -> its answer -> ... -> Complete -> Lease
//
// With --pushes off nothing is pushed: what many shards would make of a
// thousand pushes each is not the coordinator's time. It believes completions,
// as long as no checkpoint shows what shards have counted.
//
// Threads  the loop; answers of the shard come on an I/O thread and are posted.
#include <math.h>
#include <sched.h>
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
#include "stream/attendee.h"

#define HELD_MAX 8 // the coordinator gives two
#define LOSE_MS 2
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
    bool busy, gone, by_map;
    double since_s;          // busy
    uint32_t step;           // of the first
    uint64_t progress;       // steps pushed
    double done_s[HELD_MAX]; // completions that nothing has followed yet
    unsigned done_count;
    uint64_t map_version; // 0: it has none yet
};

// A closure whose worker is gone, until somebody else has it.
struct orphan {
    uint64_t closure;
    double since_s;
};

struct load {
    struct loop *loop;
    // --lose: one worker at each turn of the timer, once half the time is over.
    struct loop_timer *loses;
    unsigned to_lose, lost;
    struct orphan *orphans; // owned
    unsigned orphans_count, orphans_ever;
    double again_s; // longest
    struct target target[TARGETS_MAX];
    const struct conf *conf;
    struct rpc_io *io;
    struct worker *workers;
    unsigned count, opened, attached;
    uint64_t compute_ms;
    bool pushes, heavy;
    double from_s, until_s, busy_s; // --heavy: of all workers
    uint64_t map_bytes;             // since all have attached
    struct rng rng;
    struct meter meter;
    atomic_bool over;
};

// ---- a closure

// From half of it to half as much again, as workers do not keep step; or with a
// tail that has no variance: Pareto of 1.5, a third of it at least.
static uint64_t takes_ms(struct load *l)
{
    double u = (double)rng_below(&l->rng, UINT64_C(1) << 53) * 0x1p-53;

    if (l->heavy)
        return (uint64_t)((double)l->compute_ms / 3 * pow(1 - u, -1 / 1.5));
    return l->compute_ms / 2 + rng_below(&l->rng, l->compute_ms);
}

static void begin(struct worker *w)
{
    struct load *l = w->load;

    if (w->busy || w->held_count == 0)
        return;
    w->busy = true;
    w->step = 0;
    w->since_s = program_now_s();
    loop_timer_start(w->computes, takes_ms(l), 0);
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
    if (w->by_map && w->map_version != 0) {
        m.map_version = w->map_version;
    } else {
        m.n_evidence = 1;
        m.evidence = &list;
    }
    m.metrics = &metrics;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &m;
    if (w->done_count == HELD_MAX)
        program_die("%d completions were not followed by a lease", HELD_MAX);
    w->done_s[w->done_count++] = program_now_s();
    if (!attendee_send(w->attendee, &up))
        program_die("the coordinator does not listen");
}

// What lies within the time that is measured.
static void was_busy(struct worker *w)
{
    struct load *l = w->load;
    double from = fmax(w->since_s, l->from_s);
    double until = fmin(program_now_s(), l->until_s);

    if (w->busy && l->attached == l->count && until > from)
        l->busy_s += until - from;
}

static void end_closure(struct worker *w)
{
    complete(w);
    was_busy(w);
    w->busy = false;
    w->held_count--;
    memmove(&w->held[0], &w->held[1], w->held_count * sizeof(w->held[0]));
    begin(w);
}

static void next_step(void *arg)
{
    struct worker *w = arg;

    if (atomic_load(&w->load->over))
        return; // whoever is closed may let others go on
    if (!w->load->pushes) {
        w->progress += w->held[0].steps;
        end_closure(w);
        return;
    }
    w->push.closure = w->held[0].closure;
    w->push.attempt = w->held[0].attempt;
    w->push.step = w->step;
    target_start(&w->push);
}

static void on_pushed(void *arg)
{
    struct worker *w = arg;

    w->progress++;
    if (atomic_load(&w->load->over) || w->gone)
        return;
    if (++w->step < w->held[0].steps) {
        next_step(w);
        return;
    }
    end_closure(w);
}

static void pushed(struct target_op *op, enum sl_err rc,
                   const struct sl_error *err)
{
    struct worker *w = op->arg;

    if (!atomic_load(&w->load->over))
        program_must(rc, err, "a push");
    loop_post_task(w->load->loop, &w->pushed, on_pushed, w);
}

// ---- workers that are gone

static void lose(struct load *l, struct worker *w)
{
    for (unsigned i = 0; i < w->held_count; i++)
        l->orphans[l->orphans_count++] =
            (struct orphan){w->held[i].closure, program_now_s()};
    l->orphans_ever += w->held_count;
    w->held_count = 0;
    w->gone = true;
    loop_timer_stop(w->computes);
    attendee_stop(w->attendee); // its stream ends, as that of who is killed
}

static void lose_next(void *arg)
{
    struct load *l = arg;

    if (program_now_s() < (l->meter.from_s + l->meter.until_s) / 2)
        return;
    lose(l, &l->workers[l->lost++]);
    if (l->lost == l->to_lose)
        loop_timer_stop(l->loses);
}

static void has_again(struct load *l, uint64_t closure)
{
    for (unsigned i = 0; i < l->orphans_count; i++) {
        if (l->orphans[i].closure != closure)
            continue;
        if (program_now_s() - l->orphans[i].since_s > l->again_s)
            l->again_s = program_now_s() - l->orphans[i].since_s;
        l->orphans[i] = l->orphans[--l->orphans_count];
        return;
    }
}

// ---- leases

static void take_lease(struct worker *w, const Sluice__V1__Lease *m)
{
    struct load *l = w->load;

    if (m->kind != SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        program_die("a lease of kind %d", (int)m->kind);
    if (w->held_count == HELD_MAX)
        program_die("more than %d leases", HELD_MAX);
    has_again(l, m->closure);
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
    ((struct worker *)arg)->by_map = m->complete_by_map;
    return true;
}

static void take_map(struct worker *w, const Sluice__V1__JobMap *m)
{
    struct load *l = w->load;

    if (m == NULL)
        return;
    w->map_version = m->version;
    if (l->attached == l->count)
        l->map_bytes += protobuf_c_message_get_packed_size(&m->base);
}

static void open_next(struct load *l);

// Counting begins when all are there.
static void attached(void *arg)
{
    struct load *l = ((struct worker *)arg)->load;

    if (++l->attached == l->count) {
        meter_start(&l->meter, l->conf);
        l->from_s = l->meter.from_s;
        l->until_s = l->meter.until_s;
        if (l->to_lose > 0)
            loop_timer_start(l->loses, 1, LOSE_MS);
    }
    open_next(l);
}

// Who is closed lets others wait, who may then be told that they are silent.
static bool over(const struct worker *w)
{
    return atomic_load(&w->load->over);
}

static void lost(void *arg)
{
    if (!over(arg))
        program_die("the coordinator has gone");
}

static void down(void *arg, const Sluice__V1__AttendDown *m)
{
    struct worker *w = arg;

    if (over(w))
        return;
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_LEASES)
        for (size_t i = 0; i < m->leases->n_lease; i++)
            take_lease(arg, m->leases->lease[i]);
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_JOB_OPEN)
        take_map(w, m->job_open->map);
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_MAP)
        take_map(w, m->map);
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_REVOKE)
        program_die("a lease was revoked, with %u workers there and %u lost: "
                    "%s",
                    w->load->attached, w->load->lost, m->revoke->why);
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
    if (!w->gone)
        attendee_stop(w->attendee);
    rpc_channel_free(w->channel);
    attendee_free(w->attendee);
    loop_timer_free(w->computes);
}

static const struct conf_about about = {
    .program = "attend_load",
    .usage = "attend_load --shard ADDRESS=INCARNATION [OPTION]...",
    .text =
        "Many workers of an `external` job, which wait instead of computing; "
        "says how long the coordinator takes from a completion to the next "
        "assignment.",
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
    {.name = "pushes",
     .kind = CONF_BOOL,
     .value = "on",
     .help = "Whether steps are pushed to the shard."},
    {.name = "heavy",
     .kind = CONF_BOOL,
     .value = "off",
     .help = "Closures take as long as a heavy tail has it (Pareto 1.5); said "
             "is which part of the time workers compute."},
    {.name = "maps",
     .kind = CONF_BOOL,
     .value = "off",
     .help = "Say how many bytes of maps came once all were there."},
    {.name = "ahead",
     .kind = CONF_BOOL,
     .value = "off",
     .help = "Takes its core before other programs do, as far as the system "
             "permits: the workers would have hosts of their own."},
    {.name = "lose",
     .kind = CONF_INT,
     .value = "0",
     .max = 100000,
     .help = "So many go, one in 2 ms, when half of the time is over; what is "
             "said then is how long their closures are nobody's."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, target_keys, tls_keys,
                                                meter_keys, NULL};

// Each has a connection.
static void raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

// Also of threads that are started later.
static void go_ahead(void)
{
    struct sched_param first = {.sched_priority = 1};

    if (sched_setscheduler(0, SCHED_RR, &first) != 0)
        LOG(WARN, "not ahead of other programs: lacks the right", "");
}

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct sl_error err = SL_ERROR_INIT;
    static struct load l;

    raise_files();
    log_set_level(LOG_LEVEL_WARN);
    if (conf_bool(c, "ahead"))
        go_ahead();
    l.conf = c;
    l.count = (unsigned)conf_int(c, "workers");
    rng_init(&l.rng, 1, 0);
    l.compute_ms = (uint64_t)conf_int(c, "compute-ms");
    l.pushes = conf_bool(c, "pushes");
    l.heavy = conf_bool(c, "heavy");
    l.workers = calloc(l.count, sizeof(*l.workers));
    if (l.workers == NULL)
        program_die("no memory for %u workers", l.count);
    if (targets_open(l.target, &l.io, c) != 1)
        program_die("--shard: exactly one is wanted");
    program_must(loop_new(&l.loop, &err), &err, "the loop");
    l.to_lose = (unsigned)conf_int(c, "lose");
    l.orphans = calloc(l.to_lose + 1, HELD_MAX * sizeof(*l.orphans));
    if (l.orphans == NULL || l.to_lose >= l.count)
        program_die("--lose %u of %u workers", l.to_lose, l.count);
    program_must(loop_timer_new(&l.loses, l.loop, lose_next, &l), NULL,
                 "a timer");
    for (unsigned i = 0; i < DIALING; i++)
        open_next(&l);
    loop_run(l.loop);
    for (unsigned i = 0; i < l.count; i++)
        was_busy(&l.workers[i]);
    if (l.heavy)
        printf("{\"busy\": %.3f}\n",
               l.busy_s / l.count / (l.until_s - l.from_s));
    else if (conf_bool(c, "maps"))
        printf("{\"map_bytes\": %llu}\n", (unsigned long long)l.map_bytes);
    else if (l.to_lose == 0)
        meter_print(&l.meter, "attend");
    else
        printf("{\"lost\": %u, \"closures\": %u, \"nobodys\": %u, "
               "\"again_s\": %.3f}\n",
               l.lost, l.orphans_ever, l.orphans_count, l.again_s);
    for (unsigned i = 0; i < l.count; i++)
        close_worker(&l.workers[i]);
    targets_close(l.target, 1, l.io);
    loop_timer_free(l.loses);
    free(l.orphans);
    loop_free(l.loop);
    meter_release(&l.meter);
    free(l.workers);
    conf_free(c);
    return 0;
}
