// SPDX-License-Identifier: Apache-2.0
// tests/sim/hand.c -- a worker's process; see hand.h.
#include "tests/sim/hand.h"

#include "tests/sim/fiber.h"
#include "tests/sim/grouper.h"
#include "tests/sim/net.h"
#include "tests/sim/ranker.h"

static struct hand *self(struct proc *p)
{
    return p->self;
}

struct rpc_io *hand_io(struct proc *p)
{
    return &self(p)->io;
}

// The lease counts from when its last acknowledged renewal was sent.
void hand_check_push(struct proc *p, const struct wire_push *push)
{
    const struct hand *h = self(p);
    const struct lease *l = h->runs;
    uint64_t ends_ms =
        attendee_renewed_ms(h->attend) + h->sim->knobs.lease_us / 1000;

    if (!p->alive)
        return; // it does not leave
    T_TRUE(l != NULL && l->kind == LEASE_TRAIN);
    T_EQ(push->closure, l->closure);
    T_EQ(wire_attempt_cmp(push->attempt, l->attempt), 0);
    if (atomic_load(&l->gate.closed) != GATE_OPEN)
        T_FAIL("fenced: worker %u pushes closure %llu, which was taken from it",
               p->number, (unsigned long long)l->closure);
    if (sl_now_ms(&h->sim->clock.clock) >= ends_ms)
        T_FAIL("fenced: worker %u pushes closure %llu after its lease's end",
               p->number, (unsigned long long)l->closure);
}

// ---- the stream: callbacks of the attendee

static bool on_welcome(void *arg, const Sluice__V1__Welcome *m)
{
    struct hand *h = arg;
    Sluice__V1__Welcome mine = *m;

    // Every other worker speaks of maps, as one that has an older coordinator
    // does not.
    mine.complete_by_map = m->complete_by_map && h->proc->slot % 2 == 0;
    return worker_member_welcome(h->member, &mine);
}

static void on_lost(void *arg)
{
    struct hand *h = arg;

    worker_member_lost(h->member);
}

static void on_down(void *arg, const Sluice__V1__AttendDown *m)
{
    struct hand *h = arg;

    worker_member_down(h->member, m);
}

static void on_beat(void *arg)
{
    struct hand *h = arg;

    if (h->computes) // many operations in a step
        pulse_beat(&h->runs->gate.pulse);
    worker_member_beat(h->member);
}

static void on_renewed(void *arg)
{
    struct hand *h = arg;

    worker_member_renewed(h->member);
}

static const char *say_away(void *arg)
{
    struct hand *h = arg;

    return worker_member_away(h->member);
}

// The process is the world's, not this one; and some workers are older.
void hand_say(struct sim *s, const struct proc *p, Sluice__V1__AttendUp *up)
{
    Sluice__V1__Hello *hello = up->hello;

    if (up->kind_case != SLUICE__V1__ATTEND_UP__KIND_HELLO)
        return;
    hello->process = p->process;
    hello->host = s->knobs.by_host ? proc_host_name(p) : "";
    if (s->knobs.audit > 0 && !s->knobs.by_host) // witnesses: of one host each
        hello->host = s->slots[p->slot].name;
    hello->pid = 0;
    hello->waits_for_round = p->slot % 4 != 3;
    hello->map_changes = p->slot % 3 != 0;
}

// ---- answers of shards

void hand_reply(struct sim *s, struct proc *p, const struct sim_reply *r)
{
    channel_reply(&self(p)->io, r);
}

void hand_deadline(struct sim *s, struct proc *p, uint64_t id)
{
    channel_deadline(&self(p)->io, id);
}

// ---- for the member: the runner, and its life's end

static void submit(void *arg, struct lease *l)
{
    struct hand *h = arg;

    list_push_back(&h->queue, &l->queued);
    fiber_notify(h->sim, &h->queue);
}

static void forget(void *arg, uint64_t job)
{
    struct hand *h = arg;

    T_EQ(job, h->sim->job);
    h->forget = true;
    fiber_notify(h->sim, &h->queue);
}

static const char *device(void *arg)
{
    return "simulated";
}

static void leave(void *arg)
{
    struct hand *h = arg;

    if (h->proc->exiting || !h->proc->alive)
        return;
    h->proc->exiting = true;
    (void)attendee_close(h->attend);
    proc_exit(h->sim, h->proc);
}

// The compute thread would hang for as long as train.stall_seconds says, which
// is longer than any step here.
static void stuck(void *arg)
{
    struct hand *h = arg;

    T_FAIL("live: worker %u takes its compute thread for one that hangs",
           h->proc->number);
}

// ---- life

// The attendee draws the number of its process: the world has drawn it already.
static const struct proc *is_made; // NULL: none

ssize_t __real_getrandom(void *out, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags);

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags)
{
    if (is_made == NULL)
        return __real_getrandom(out, bytes, flags);
    T_ASSERT(bytes == sizeof(is_made->process));
    memcpy(out, &is_made->process, bytes);
    return (ssize_t)bytes;
}

static struct attendee_setup attend_as(struct hand *h)
{
    return (struct attendee_setup){
        .loop = &h->loop,
        .clock = &h->sim->clock.clock,
        .channel = h->boss,
        .role = SLUICE__V1__ROLE__ROLE_WORKER,
        .name = h->sim->slots[h->proc->slot].name,
        .device = device(NULL),
        .welcome_ms = 3000,
        .welcome = on_welcome,
        .lost = on_lost,
        .down = on_down,
        .beat = on_beat,
        .renewed = on_renewed,
        .away = say_away,
        .arg = h,
    };
}

static void make_member(struct hand *h)
{
    struct attendee_setup attend = attend_as(h);
    struct worker_member_setup setup = {.loop = &h->loop,
                                        .clock = &h->sim->clock.clock,
                                        .drained = leave,
                                        .stuck = stuck,
                                        .grace_ms = 60 * 1000,
                                        .ring = ranker_env(h->rank),
                                        .arg = h};
    struct worker_member_runner runner = {.submit = submit,
                                          .forget = forget,
                                          .device = device,
                                          .arg = h,
                                          .away = ""};

    T_OK(worker_member_new(&h->member, &setup));
    is_made = h->proc;
    T_OK(attendee_new(&h->attend, &attend, t_err()));
    is_made = NULL;
    worker_member_start(h->member, h->attend, &runner);
    attendee_start(h->attend);
}

void hand_start(struct sim *s, struct proc *p)
{
    struct hand *h = calloc(1, sizeof(*h));

    T_ASSERT(h != NULL);
    p->self = h;
    h->sim = s;
    h->proc = p;
    h->loop = (struct loop){s, p};
    list_init(&h->queue);
    channel_io_init(&h->io, s, p);
    T_OK(peers_new(&h->peers, &h->io, NULL, t_err()));
    T_OK(rpc_channel_new(&h->boss, &h->io, "10.0.0.0:1", NULL, NULL, t_err()));
    if (s->knobs.mode >= SIM_RING)
        h->rank = ranker_new(h);
    if (s->knobs.mode == SIM_HYBRID)
        h->group = grouper_new(h);
    make_member(h);
    fiber_start(s, p, work_run, h);
}

// What a thread waits for comes at once, or never: gates are closed, calls have
// ended. Leases that end so are reported to nobody.
void hand_stop(struct sim *s, struct proc *p)
{
    struct hand *h = self(p);

    worker_member_abandon(h->member);
    h->quit = true;
    channel_end_all(&h->io);
    fiber_end_all(p);
    attendee_stop(h->attend);
    session_end_stream(p);
    pool_run_posted(p);
    pool_end_all(p);
    pool_run_posted(p);
    T_EQ(worker_member_leases(h->member), 0);
    attendee_free(h->attend);
    worker_member_free(h->member);
    peers_free(h->peers);
    rpc_channel_free(h->boss);
    grouper_free(h->group);
    ranker_free(h->rank);
    T_TRUE(list_empty(&h->io.calls) && list_empty(&p->timers));
    free(h);
    p->self = NULL;
}

void hand_drain(struct sim *s, struct proc *p)
{
    struct hand *h = self(p);

    if (p->draining)
        return;
    p->draining = true;
    worker_member_drain(h->member, "");
    if (worker_member_drained(h->member))
        leave(h);
}
