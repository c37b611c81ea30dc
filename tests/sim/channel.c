// SPDX-License-Identifier: Apache-2.0
// tests/sim/channel.c -- calls of a worker to psservers; see channel.h.
#include "tests/sim/channel.h"

#include "tests/sim/calls.h"
#include "tests/sim/hand.h"
#include "trainer/push/peer_shm.h"

#define LENT_LONG_PERMILLE 50
#define LENT_LONG_US (500 * 1000)
#define LEND_MOST_US 3000 // after a call, until its payload is given back
#define CANCEL_US 500     // at most, until a call ends that was cancelled
#define STUCK_PERMILLE 20 // of calls: their psserver reads nothing more

struct rpc_channel {
    struct rpc_io *io;
    char address[24];
};

struct channel_call {
    struct list_node node;
    struct rpc_channel *channel;
    uint64_t id;
    rpc_done_fn done; // NULL: it has ended
    void *arg;
    bool stuck;
    void (*release)(void *user); // NULL: nothing is lent, or not any more
    void *user;
    struct sl_slice lent[RPC_MSG_PARTS];
    unsigned parts; // of `lent`
    uint8_t *copy;  // of what is lent, one part behind the other; owned
    size_t bytes;
};

void channel_io_init(struct rpc_io *io, struct sim *s, struct proc *p)
{
    io->sim = s;
    io->proc = p;
    list_init(&io->calls);
}

struct rpc_io *channel_io(const struct rpc_channel *channel)
{
    return channel->io;
}

static struct channel_call *find(struct rpc_io *io, uint64_t id)
{
    list_for(n, &io->calls)
    {
        struct channel_call *c = list_entry(n, struct channel_call, node);

        if (c->id == id)
            return c;
    }
    return NULL;
}

// ---- the end of a call

static void free_if_over(struct channel_call *c)
{
    if (c->done != NULL || c->release != NULL)
        return;
    list_remove(&c->node);
    free(c->copy);
    free(c);
}

// What was lent is the caller's again: as it was.
static void give_back(struct channel_call *c)
{
    void (*release)(void *) = c->release;
    size_t at = 0;

    if (release == NULL)
        return;
    for (unsigned i = 0; i < c->parts; at += c->lent[i++].len)
        T_MEM(c->lent[i].data, c->copy + at, c->lent[i].len);
    c->release = NULL;
    release(c->user);
}

static void release_run(struct sim *s, struct sim_event *e)
{
    struct rpc_io *io = hand_io(proc_get(s, e->proc));
    struct channel_call *c = find(io, e->a);

    if (c == NULL || (c->stuck && c->done != NULL))
        return;
    give_back(c);
    free_if_over(c);
}

static void release_after(struct channel_call *c, uint64_t us)
{
    const struct rpc_io *io = c->channel->io;

    sim_after(io->sim, us,
              &(struct sim_event){.kind = SIM_CALL,
                                  .proc = io->proc->number,
                                  .a = c->id,
                                  .run = release_run});
}

static void end(struct channel_call *c, enum sl_err rc, const char *why,
                const struct sl_slices *reply)
{
    struct sim *s = c->channel->io->sim;
    struct sl_error err = SL_ERROR_INIT;
    rpc_done_fn done = c->done;

    if (done == NULL)
        return;
    if (rc != SL_OK)
        sl_fail(&err, rc, "%s: %s", c->channel->address, why);
    c->done = NULL;
    c->stuck = false;
    if (sim_chance(s, 300))
        give_back(c);
    done(c->arg, rc, rc == SL_OK ? NULL : &err, rc == SL_OK ? reply : NULL);
    if (c->release != NULL)
        release_after(c, sim_below(s, sim_chance(s, LENT_LONG_PERMILLE)
                                          ? LENT_LONG_US
                                          : LEND_MOST_US));
    free_if_over(c);
}

static void end_at_once(struct channel_call *c)
{
    c->stuck = false;
    give_back(c);
    if (c->done != NULL)
        end(c, SL_ECANCELED, "cancelled", NULL);
    else
        free_if_over(c);
}

// ---- answers

static size_t encode(uint8_t head[WIRE_HEAD_MAX], const struct sim_reply *r,
                     size_t payload)
{
    if (r->kind == CALL_ASK)
        return wire_encode_ask_reply(head, &r->ask);
    if (r->kind == CALL_PUSH || r->kind == CALL_PUSH_BARE)
        return wire_encode_push_reply(head, &r->push, payload);
    return wire_encode_pull_reply(head, &r->pull, payload);
}

void channel_reply(struct rpc_io *io, const struct sim_reply *r)
{
    struct channel_call *c = find(io, r->id);
    uint8_t bytes[WIRE_HEAD_MAX + sizeof(r->values)];
    size_t payload = r->elements * sizeof(float), head, cut;
    struct sl_slice two[2];
    struct sl_slices all;

    if (c == NULL || c->done == NULL)
        return; // nobody waits for it any more
    if (r->rc != SL_OK) {
        end(c, r->rc, "as the psserver says", NULL);
        return;
    }
    head = encode(bytes, r, payload);
    memcpy(bytes + head, r->values, payload);
    cut = sim_below(io->sim, head + payload + 1);
    two[0] = (struct sl_slice){bytes, cut};
    two[1] = (struct sl_slice){bytes + cut, head + payload - cut};
    all = slices_all(two, 2);
    end(c, SL_OK, NULL, &all);
}

void channel_deadline(struct rpc_io *io, uint64_t id)
{
    struct channel_call *c = find(io, id);

    if (c != NULL)
        end(c, SL_ETIMEDOUT, "no answer", NULL);
}

// ---- calls

static enum call_kind kind_of(const char *method)
{
    if (strcmp(method, WIRE_ASK) == 0)
        return CALL_ASK;
    if (strcmp(method, WIRE_PULL) == 0)
        return CALL_PULL;
    if (strcmp(method, WIRE_PUSH) == 0)
        return CALL_PUSH_BARE;
    T_ASSERT(strcmp(method, WIRE_PUSH_PULL) == 0);
    return CALL_PUSH;
}

// What a message lends is looked at when it is given back.
static void lend(struct channel_call *c, const struct rpc_msg *msg)
{
    size_t at = 0;

    if (msg->parts == 0)
        return;
    c->release = msg->release;
    c->user = msg->user;
    c->parts = msg->parts;
    for (unsigned i = 0; i < msg->parts; i++)
        c->bytes += msg->part[i].len;
    c->copy = malloc(c->bytes);
    T_ASSERT(c->copy != NULL);
    for (unsigned i = 0; i < msg->parts; at += c->lent[i++].len) {
        c->lent[i] = msg->part[i];
        memcpy(c->copy + at, c->lent[i].data, c->lent[i].len);
    }
}

static void look_at_push(struct rpc_io *io, const struct rpc_msg *msg,
                         const struct channel_call *c)
{
    const struct sl_slice two[] = {{msg->head, msg->head_bytes},
                                   {c->copy, c->bytes}};
    struct sl_slices all = slices_all(two, c->parts > 0 ? 2 : 1);
    struct wire_push push;

    T_OK(wire_read_push(&push, &all, t_err()));
    hand_check_push(io->proc, &push);
}

static void drop_message(struct channel_call *c, struct rpc_msg *msg)
{
    if (c->release != NULL)
        msg->release = NULL; // ours now
    rpc_msg_drop(msg);
}

void rpc_call_start(struct rpc_channel *channel, const char *method,
                    struct rpc_msg *msg, const struct rpc_call_options *options,
                    rpc_done_fn done, void *arg, struct rpc_ticket *ticket)
{
    struct rpc_io *io = channel->io;
    struct channel_call *c;

    if (calls_are_for(method)) {
        calls_start(io->proc, channel, method, msg, options, done, arg);
        return;
    }
    c = calloc(1, sizeof(*c));
    T_ASSERT(c != NULL && options->deadline_ms > 0);
    c->channel = channel;
    c->done = done;
    c->arg = arg;
    lend(c, msg);
    if (kind_of(method) == CALL_PUSH || kind_of(method) == CALL_PUSH_BARE)
        look_at_push(io, msg, c);
    if (io->proc->alive)
        c->id = net_call(io->sim, io->proc, kind_of(method), channel->address,
                         msg->head, msg->head_bytes, c->copy, c->bytes);
    else
        c->id = net_number(io->sim); // nobody hears of it
    c->stuck = !io->sim->healed && sim_chance(io->sim, STUCK_PERMILLE);
    *ticket = (struct rpc_ticket){channel, c->id};
    list_push_back(&io->calls, &c->node);
    drop_message(c, msg);
    if (c->release != NULL && sim_chance(io->sim, 500))
        release_after(c, sim_below(io->sim, LEND_MOST_US));
}

static void cancel_run(struct sim *s, struct sim_event *e)
{
    struct channel_call *c = find(hand_io(proc_get(s, e->proc)), e->a);

    if (c != NULL && !c->stuck)
        end(c, SL_ECANCELED, "cancelled", NULL);
}

void rpc_cancel(struct rpc_channel *channel, struct rpc_ticket ticket)
{
    struct rpc_io *io = channel->io;
    struct channel_call *c = find(io, ticket.serial);

    if (c == NULL || c->done == NULL)
        return;
    if (!io->proc->alive) {
        end_at_once(c);
        return;
    }
    sim_after(io->sim, sim_below(io->sim, CANCEL_US),
              &(struct sim_event){.kind = SIM_CALL,
                                  .proc = io->proc->number,
                                  .a = c->id,
                                  .b = 1,
                                  .run = cancel_run});
}

// ---- channels

enum sl_err rpc_channel_new(struct rpc_channel **out, struct rpc_io *io,
                            const char *address, const struct rpc_tls *tls,
                            const struct rpc_channel_options *options,
                            struct sl_error *err)
{
    struct rpc_channel *ch = calloc(1, sizeof(*ch));

    T_ASSERT(ch != NULL && strlen(address) < sizeof(ch->address));
    ch->io = io;
    snprintf(ch->address, sizeof(ch->address), "%s", address);
    *out = ch;
    return SL_OK;
}

const char *rpc_channel_address(struct rpc_channel *channel)
{
    return channel->address;
}

// The coordinator has one address here.
bool rpc_channel_untried(struct rpc_channel *channel)
{
    return false;
}

void rpc_channel_hurry(struct rpc_channel *channel)
{
}

static void break_run(struct sim *s, struct sim_event *e)
{
    struct channel_call *c = find(hand_io(proc_get(s, e->proc)), e->a);

    if (c != NULL)
        end_at_once(c);
}

// Its calls end on an I/O thread, not here.
void rpc_channel_break(struct rpc_channel *channel)
{
    struct rpc_io *io = channel->io;

    list_for(n, &io->calls)
    {
        struct channel_call *c = list_entry(n, struct channel_call, node);

        if (strcmp(c->channel->address, channel->address) != 0)
            continue;
        c->stuck = false;
        sim_after(io->sim, sim_below(io->sim, CANCEL_US),
                  &(struct sim_event){.kind = SIM_CALL,
                                      .proc = io->proc->number,
                                      .a = c->id,
                                      .b = 2,
                                      .run = break_run});
    }
    io->sim->seen.broken_links++;
}

void rpc_channel_free(struct rpc_channel *channel)
{
    if (channel == NULL)
        return;
    calls_leave(channel);
    list_for_safe(n, &channel->io->calls)
    {
        struct channel_call *c = list_entry(n, struct channel_call, node);

        if (c->channel == channel)
            end_at_once(c);
    }
    free(channel);
}

void channel_end_all(struct rpc_io *io)
{
    struct list_node *n;

    while ((n = list_first(&io->calls)) != NULL)
        end_at_once(list_entry(n, struct channel_call, node));
}

// ---- memory that is shared: none

enum sl_err peer_shm_new(struct peer_shm **out, struct loop *loop,
                         const struct sl_clock *clock,
                         struct rpc_channel *channel)
{
    return SL_ENOTSUP;
}

void peer_shm_free(struct peer_shm *n)
{
}

void peer_shm_look(struct peer_shm *n)
{
}

struct shm_buffer *peer_shm_take(struct peer_shm *n, size_t bytes)
{
    return NULL;
}

void peer_shm_give(struct peer_shm *n, struct shm_buffer *buffer, bool clean)
{
}
