// SPDX-License-Identifier: Apache-2.0
// tests/sim/calls.c -- calls between processes: see calls.h.
#include "tests/sim/calls.h"

#include <semaphore.h>

#include "common/base/rng.h"
#include "tests/sim/fiber.h"
#include "tests/sim/net.h"
#include "tests/sim/ranker.h"

#define AGAIN_US 30000 // what could not pass
#define DIAL_AGAIN_US 200000
#define KEEPALIVE_US (15 * SIM_SECOND) // of silence: then a connection breaks

struct call_space {
    struct call_space *next;
    _Alignas(16) uint8_t bytes[];
};

// Of a server, until it has answered.
struct rank_call {
    struct rpc_call base;
    uint64_t flight;
    struct sim *sim;
    uint32_t proc;
    struct sl_slice cut[2];
    struct sl_slices body;
    uint8_t bytes[];
};

// A call, until its end was told.
struct flight {
    struct list_node node; // of calls.flights
    uint64_t number;
    uint32_t from;
    struct rpc_channel *channel; // NULL: nobody waits for its end
    char address[64], method[48];
    rpc_done_fn done;
    void *arg;
    uint64_t follows;    // a newcomer's: the generation that it copies
    bool travels;        // to its server
    bool waits;          // for its server to be there
    bool loses_reply;    // its connection breaks when it was handled
    uint32_t at;         // process that has it to answer; 0: none
    uint64_t held_us;    // since when it cannot pass; 0: it does
    struct sl_error end; // as its server said
    size_t bytes;
    uint8_t *data; // the request, then the reply; owned
};

struct served {
    struct list_node node;
    uint32_t proc;
    struct rpc_table table;
};

struct calls {
    uint64_t numbers;
    struct list flights, servers;
};

// The simulation that runs: rpc.h knows no other way to it.
static struct sim *world;

// ---- flights

static struct flight *find(struct sim *s, uint64_t number)
{
    list_for(n, &s->calls->flights)
    {
        struct flight *f = list_entry(n, struct flight, node);

        if (f->number == number)
            return f;
    }
    return NULL;
}

static void flight_free(struct flight *f)
{
    list_remove(&f->node);
    free(f->data);
    free(f);
}

// Tells the caller, as its server said or the transport.
static void end_as(struct flight *f, const struct sl_error *as)
{
    struct sl_slice all = {f->data, f->bytes};
    struct sl_slices reply = slices_one(&all);
    bool fine = as->code == SL_OK;

    list_remove(&f->node);
    if (fine && f->channel != NULL && f->follows != 0)
        ranker_note_copy(world->procs[f->from - 1], f->follows);
    if (f->channel != NULL)
        f->done(f->arg, as->code, fine ? NULL : as, fine ? &reply : NULL);
    free(f->data);
    free(f);
}

static void end(struct flight *f, enum sl_err code, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;

    (void)sl_fail(&err, code, "%s: simulated: %s", f->address, why);
    end_as(f, &err);
}

static void later(struct flight *f, uint64_t us, enum sim_kind kind,
                  uint32_t proc, void (*run)(struct sim *, struct sim_event *))
{
    sim_after(world, us,
              &(struct sim_event){
                  .kind = kind, .proc = proc, .a = f->number, .run = run});
}

static void reset_run(struct sim *s, struct sim_event *e);

// The caller's kernel is told that nobody is there.
static void reset(struct sim *s, struct flight *f, bool quietly)
{
    uint32_t host = net_host(f->address);

    f->at = 0;
    f->travels = false;
    later(f,
          quietly ? KEEPALIVE_US
                  : net_delay(s, host, s->procs[f->from - 1]->host),
          SIM_REPLY, f->from, reset_run);
}

// True if it cannot pass now, and tries again later; or its connection breaks.
static bool held_back(struct sim *s, struct flight *f, uint32_t from,
                      uint32_t to, struct sim_event *e)
{
    uint64_t now = sim_now(s);

    if (!net_cut(s, from, to)) {
        f->held_us = 0;
        return false;
    }
    if (f->held_us == 0)
        f->held_us = now;
    if (now - f->held_us >= KEEPALIVE_US)
        end(f, SL_EUNAVAIL, "keepalive");
    else
        sim_after(s, AGAIN_US, e);
    return true;
}

static void reset_run(struct sim *s, struct sim_event *e)
{
    struct flight *f = find(s, e->a);

    if (f != NULL &&
        !held_back(s, f, net_host(f->address), s->procs[f->from - 1]->host, e))
        end(f, SL_EUNAVAIL, "the connection was reset");
}

static void deadline_run(struct sim *s, struct sim_event *e)
{
    struct flight *f = find(s, e->a);

    if (f != NULL)
        end(f, SL_ETIMEDOUT, "deadline exceeded");
}

// ---- the server

static const struct rpc_method *method_of(struct sim *s, const struct flight *f,
                                          const struct proc *p, void **arg)
{
    list_for(n, &s->calls->servers)
    {
        struct served *at = list_entry(n, struct served, node);

        for (size_t i = 0; at->proc == p->number && i < at->table.count; i++) {
            *arg = at->table.arg;
            if (strcmp(at->table.methods[i].path, f->method) == 0)
                return &at->table.methods[i];
        }
    }
    return NULL;
}

static void serve(struct sim *s, struct flight *f, struct proc *p)
{
    void *arg = NULL;
    const struct rpc_method *method = method_of(s, f, p, &arg);
    struct rank_call *call = calloc(1, sizeof(*call) + f->bytes);
    size_t cut = sim_below(s, f->bytes + 1);

    T_ASSERT(call != NULL && method != NULL && method->kind == RPC_UNARY);
    sim_note(s, sl_hash64(f->data, f->bytes));
    call->flight = f->number;
    call->sim = s;
    call->proc = p->number;
    if (f->bytes > 0)
        memcpy(call->bytes, f->data, f->bytes);
    call->cut[0] = (struct sl_slice){call->bytes, cut};
    call->cut[1] = (struct sl_slice){call->bytes + cut, f->bytes - cut};
    call->body = slices_all(call->cut, 2);
    f->at = p->number;
    f->travels = false;
    method->unary(&call->base, arg);
}

static void arrive_run(struct sim *s, struct sim_event *e)
{
    struct flight *f = find(s, e->a);
    struct proc *p;

    if (f == NULL)
        return;
    if (proc_get(s, f->from) == NULL && f->held_us != 0) {
        flight_free(f); // nobody sends it again
        return;
    }
    if (held_back(s, f, s->procs[f->from - 1]->host, net_host(f->address), e))
        return;
    p = proc_at(s, f->address);
    if (p != NULL && p->paused_until_us > sim_now(s)) // in its socket meanwhile
        sim_after(s, p->paused_until_us - sim_now(s), e);
    else if (p != NULL && f->channel == NULL) {
        serve(s, f, p);
        f = find(s, e->a);
        if (f != NULL)
            flight_free(f);
    } else if (p != NULL)
        serve(s, f, p);
    else if (f->channel == NULL)
        flight_free(f);
    else if (f->waits)
        sim_after(s, DIAL_AGAIN_US, e);
    else
        reset(s, f, false);
}

static void reply_run(struct sim *s, struct sim_event *e)
{
    struct flight *f = find(s, e->a);

    if (f != NULL &&
        !held_back(s, f, net_host(f->address), s->procs[f->from - 1]->host, e))
        end_as(f, &f->end);
}

void calls_serve(struct sim *s, struct proc *p, const struct rpc_table *table)
{
    struct served *at = calloc(1, sizeof(*at));

    T_ASSERT(at != NULL);
    *at = (struct served){.proc = p->number, .table = *table};
    list_push_back(&s->calls->servers, &at->node);
}

// ---- a process has died

static struct flight *next_of(struct sim *s, const struct proc *p)
{
    list_for(n, &s->calls->flights)
    {
        struct flight *f = list_entry(n, struct flight, node);

        if (f->from == p->number && f->channel != NULL)
            return f;
    }
    return NULL;
}

// The caller wants no answer; the request may still arrive.
static void disown(struct flight *f)
{
    struct sl_error err = SL_ERROR_INIT;
    rpc_done_fn done = f->done;
    void *arg = f->arg;

    (void)sl_fail(&err, SL_ECANCELED, "%s: cancelled", f->address);
    f->channel = NULL;
    if (!f->travels) // an answer finds nobody
        flight_free(f);
    done(arg, SL_ECANCELED, &err, NULL);
}

void calls_gone(struct sim *s, struct proc *p, bool quietly)
{
    struct flight *f;

    list_for_safe(n, &s->calls->servers)
    {
        struct served *at = list_entry(n, struct served, node);

        if (at->proc != p->number)
            continue;
        list_remove(n);
        free(at);
    }
    list_for(n, &s->calls->flights)
    {
        f = list_entry(n, struct flight, node);
        if (f->at == p->number)
            reset(s, f, quietly);
    }
    while ((f = next_of(s, p)) != NULL)
        disown(f);
}

void calls_new(struct sim *s)
{
    s->calls = calloc(1, sizeof(*s->calls));
    T_ASSERT(s->calls != NULL);
    list_init(&s->calls->flights);
    list_init(&s->calls->servers);
    world = s;
}

void calls_free(struct sim *s)
{
    list_for_safe(n, &s->calls->flights)
        flight_free(list_entry(n, struct flight, node));
    list_for_safe(n, &s->calls->servers)
        free(list_entry(n, struct served, node));
    free(s->calls);
    world = NULL;
}

// ---- for channel.c

bool calls_are_for(const char *method)
{
    return strcmp(method, WIRE_PIECE) == 0 || strcmp(method, WIRE_STATE) == 0;
}

static struct flight *next_in(struct rpc_channel *channel)
{
    list_for(n, &world->calls->flights)
    {
        struct flight *f = list_entry(n, struct flight, node);

        if (f->channel == channel)
            return f;
    }
    return NULL;
}

void calls_leave(struct rpc_channel *channel)
{
    struct flight *f;

    while ((f = next_in(channel)) != NULL)
        disown(f);
}

static uint8_t *joined(struct rpc_msg *msg, size_t *bytes)
{
    uint8_t *all;
    size_t at;

    *bytes = msg == NULL ? 0 : rpc_msg_bytes(msg);
    all = malloc(*bytes + 1);
    T_ASSERT(all != NULL);
    if (msg == NULL)
        return all;
    memcpy(all, msg->head, msg->head_bytes);
    at = msg->head_bytes;
    for (unsigned i = 0; i < msg->parts; i++) {
        memcpy(all + at, msg->part[i].data, msg->part[i].len);
        at += msg->part[i].len;
    }
    rpc_msg_drop(msg);
    return all;
}

static void start(struct sim *s, struct flight *f, int64_t deadline_ms)
{
    uint32_t from = s->procs[f->from - 1]->host, to = net_host(f->address);
    uint64_t delay = net_delay(s, from, to);

    s->seen.calls++;
    later(f, (uint64_t)deadline_ms * 1000, SIM_DEADLINE, f->from, deadline_run);
    if (sim_chance(s, s->knobs.lose)) {
        s->seen.lost++;
        f->loses_reply = sim_chance(s, 500);
        if (!f->loses_reply) {
            later(f, delay, SIM_REPLY, f->from, reset_run);
            return;
        }
    }
    f->travels = true;
    later(f, delay, SIM_REQUEST, 0, arrive_run);
}

// The generation whose state the request is to copy ahead; 0: it is another.
static uint64_t followed(const struct flight *f)
{
    const struct sl_slice one = {f->data, f->bytes};
    const struct sl_slices all = slices_one(&one);
    Sluice__V1__StateRequest *m = NULL;
    struct wire_arena arena;
    uint64_t generation;

    if (strcmp(f->method, WIRE_STATE) != 0)
        return 0;
    wire_arena_init(&arena);
    T_OK(wire_unpack_state_request(&m, &arena, &all, t_err()));
    generation = m->follower == 0 ? 0 : m->generation;
    wire_arena_release(&arena);
    return generation;
}

void calls_start(struct proc *p, struct rpc_channel *channel,
                 const char *method, struct rpc_msg *msg,
                 const struct rpc_call_options *options, rpc_done_fn done,
                 void *arg)
{
    struct flight *f = calloc(1, sizeof(*f));

    T_ASSERT(f != NULL);
    *f = (struct flight){.number = ++world->calls->numbers,
                         .from = p->number,
                         .channel = channel,
                         .done = done,
                         .arg = arg,
                         .waits = options->wait_for_ready};
    snprintf(f->address, sizeof(f->address), "%s",
             rpc_channel_address(channel));
    snprintf(f->method, sizeof(f->method), "%s", method);
    f->data = joined(msg, &f->bytes);
    f->follows = followed(f);
    list_push_back(&world->calls->flights, &f->node);
    if (p->alive)
        start(world, f, options->deadline_ms);
    else
        end(f, SL_ECANCELED, "the process died");
}

// No two ranks here share memory.
enum sl_err rpc_call_sync(struct rpc_channel *channel, const char *method,
                          struct rpc_msg *msg,
                          const struct rpc_call_options *options,
                          struct rpc_body **reply, struct sl_error *err)
{
    abort();
}

// ---- common/net/rpc.h: the server

const struct sl_slices *rpc_call_body(const struct rpc_call *call)
{
    return &((const struct rank_call *)(const void *)call)->body;
}

void *rpc_call_scratch(struct rpc_call *call, size_t bytes)
{
    struct call_space *more = calloc(1, sizeof(*more) + bytes);

    T_ASSERT(more != NULL);
    more->next = call->space;
    call->space = more;
    return more->bytes;
}

void calls_release(struct rpc_call *call)
{
    struct call_space *next;

    for (; call->space != NULL; call->space = next) {
        next = call->space->next;
        free(call->space);
    }
}

static void call_free(struct rank_call *call)
{
    calls_release(&call->base);
    free(call);
}

void rpc_answer(struct rpc_call *answered, enum sl_err code,
                const struct sl_error *err, struct rpc_msg *reply)
{
    struct rank_call *call = sl_container_of(answered, struct rank_call, base);
    struct sim *s = call->sim;
    struct flight *f = find(s, call->flight);
    struct proc *p = proc_get(s, call->proc);
    size_t bytes;
    uint8_t *data = joined(code == SL_OK ? reply : NULL, &bytes);

    if (code != SL_OK && reply != NULL)
        rpc_msg_drop(reply);
    if (f == NULL || p == NULL || f->at != call->proc) {
        free(data); // nobody waits, or nobody is there to say so
        call_free(call);
        return;
    }
    free(f->data);
    f->data = data;
    f->bytes = bytes;
    (void)sl_fail(&f->end, code, "%s",
                  err != NULL ? err->text : sl_err_text(code));
    call_free(call);
    if (f->loses_reply)
        reset(s, f, false);
    else
        later(f, net_delay(s, p->host, s->procs[f->from - 1]->host), SIM_REPLY,
              f->from, reply_run);
    f->at = 0;
}

// ---- waits that deadline.h does not have

int __real_sem_wait(sem_t *sem);
int __real_sem_post(sem_t *sem);
int __wrap_sem_wait(sem_t *sem);
int __wrap_sem_post(sem_t *sem);

int __wrap_sem_wait(sem_t *sem)
{
    if (fiber_proc() == NULL)
        return __real_sem_wait(sem);
    while (sem_trywait(sem) != 0)
        (void)fiber_await(sem, UINT64_MAX);
    return 0;
}

const struct sl_clock *__real_sl_clock_real(void);
const struct sl_clock *__wrap_sl_clock_real(void);

const struct sl_clock *__wrap_sl_clock_real(void)
{
    return world == NULL ? __real_sl_clock_real() : &world->clock.clock;
}

int __wrap_sem_post(sem_t *sem)
{
    int rc = __real_sem_post(sem);

    if (world != NULL)
        fiber_notify(world, sem);
    return rc;
}
