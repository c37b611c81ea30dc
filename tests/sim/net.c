// SPDX-License-Identifier: Apache-2.0
// tests/sim/net.c -- calls, and who reaches whom. See net.h.
#include "tests/sim/net_own.h"

#include "common/base/rng.h"

#define PATIENCE_US (2 * SIM_SECOND) // of a caller

// ---- hosts

uint32_t net_host(const char *address)
{
    unsigned host = 0;

    T_EQ(sscanf(address, "10.0.0.%u:", &host), 1);
    return host;
}

bool net_cut(struct sim *s, uint32_t from, uint32_t to)
{
    return s->net->cut_until[from][to] > sim_now(s);
}

uint64_t net_delay(struct sim *s, uint32_t from, uint32_t to)
{
    uint64_t free_us = s->net->clogged_until[from][to], now = sim_now(s);
    uint64_t wait = free_us > now ? free_us - now : 0;

    return wait + s->knobs.delay_us + sim_below(s, s->knobs.jitter_us);
}

static void raise_to(uint64_t *at, uint64_t us)
{
    if (*at < us)
        *at = us;
}

void net_partition(struct sim *s, uint32_t from, uint32_t to, uint64_t us)
{
    raise_to(&s->net->cut_until[from][to], sim_now(s) + us);
    s->seen.partitions++;
}

void net_clog(struct sim *s, uint32_t from, uint32_t to, uint64_t us)
{
    raise_to(&s->net->clogged_until[from][to], sim_now(s) + us);
    s->seen.clogs++;
}

void net_heal(struct sim *s)
{
    memset(s->net->cut_until, 0, sizeof(s->net->cut_until));
    memset(s->net->clogged_until, 0, sizeof(s->net->clogged_until));
}

// ---- a call

static void reply_run(struct sim *s, struct sim_event *e)
{
    hand_reply(s, proc_get(s, e->proc), e->data);
}

static void send_reply(struct sim *s, uint32_t host, uint32_t to,
                       const struct sim_reply *reply)
{
    struct proc *p = proc_get(s, to);
    struct sim_reply *copy;

    if (p == NULL)
        return;
    if (net_cut(s, host, p->host) || sim_chance(s, s->knobs.lose)) {
        s->seen.lost++;
        return;
    }
    copy = malloc(sizeof(*copy));
    T_ASSERT(copy != NULL);
    *copy = *reply;
    sim_after(s, net_delay(s, host, p->host),
              &(struct sim_event){.kind = SIM_REPLY,
                                  .proc = to,
                                  .a = reply->id,
                                  .b = (uint64_t)reply->rc,
                                  .data = copy,
                                  .run = reply_run,
                                  .drop = free});
}

void net_answer(struct sim *s, const struct sim_call *call,
                const struct sim_reply *reply)
{
    send_reply(s, net_host(call->to), call->from, reply);
}

static void request_run(struct sim *s, struct sim_event *e)
{
    struct sim_call *call = e->data;
    struct proc *p = proc_at(s, call->to);
    struct sim_reply reply = {.id = call->id, .kind = call->kind};
    uint64_t now = sim_now(s);

    if (p != NULL && p->paused_until_us > now) { // in its socket meanwhile
        struct sim_event later = *e;

        e->data = NULL;
        sim_after(s, p->paused_until_us - now, &later);
        return;
    }
    sim_note(s, sl_hash64(call->data, call->bytes));
    if (p == NULL)
        reply.rc = SL_EUNAVAIL; // connection refused
    else if (!server_call(s, p, call, &reply))
        return; // it answers later
    net_answer(s, call, &reply);
}

static void send_request(struct sim *s, const struct sim_call *call,
                         uint64_t after_us)
{
    size_t bytes = sizeof(*call) + call->bytes;
    struct sim_call *copy = malloc(bytes);

    T_ASSERT(copy != NULL);
    memcpy(copy, call, bytes);
    sim_after(s, after_us,
              &(struct sim_event){.kind = SIM_REQUEST,
                                  .a = call->id,
                                  .b = call->kind,
                                  .data = copy,
                                  .run = request_run,
                                  .drop = free});
}

static void replay(struct sim *s, const struct sim_call *call, uint64_t first)
{
    uint64_t later;

    if (!sim_chance(s, s->knobs.replay))
        return;
    switch (sim_below(s, 4)) {
    case 0:
    case 1:
        later = sim_below(s, 200 * 1000);
        break;
    case 2:
        later = sim_between(s, SIM_SECOND / 5, 8 * SIM_SECOND);
        break;
    default: // across whatever happens until then
        later = sim_between(s, 2 * SIM_SECOND, 120 * SIM_SECOND);
        s->seen.replayed_late++;
        break;
    }
    s->seen.replayed++;
    send_request(s, call, first + later);
}

// Somebody sends the same with rubbish in it: values that are no numbers, or a
// message that ends too soon. Nobody waits for the answer.
static void send_rubbish(struct sim *s, const struct sim_call *call,
                         uint64_t after)
{
    static const uint8_t nan[4] = {0, 0, 0xc0, 0x7f};
    struct sim_call *copy;

    if ((call->kind != CALL_PUSH && call->kind != CALL_PUSH_BARE) ||
        !sim_chance(s, s->knobs.rubbish))
        return;
    copy = malloc(sizeof(*copy) + call->bytes);
    T_ASSERT(copy != NULL);
    memcpy(copy, call, sizeof(*copy) + call->bytes);
    copy->id = 0;
    if (sim_chance(s, 500))
        memcpy(copy->data + copy->bytes - sizeof(nan), nan, sizeof(nan));
    else
        copy->bytes = sim_below(s, copy->bytes);
    s->seen.rubbish++;
    send_request(s, copy, after / 2);
    free(copy);
}

static void deadline_run(struct sim *s, struct sim_event *e)
{
    hand_deadline(s, proc_get(s, e->proc), e->a);
}

uint64_t net_call(struct sim *s, struct proc *p, enum call_kind kind,
                  const char *to, const void *head, size_t head_bytes,
                  const void *payload, size_t payload_bytes)
{
    size_t bytes = head_bytes + payload_bytes;
    struct sim_call *call = malloc(sizeof(*call) + bytes);
    uint64_t after = net_delay(s, p->host, net_host(to));

    T_ASSERT(call != NULL);
    *call = (struct sim_call){
        .id = ++s->net->calls, .from = p->number, .kind = kind, .bytes = bytes};
    snprintf(call->to, sizeof(call->to), "%s", to);
    memcpy(call->data, head, head_bytes);
    if (payload_bytes > 0)
        memcpy(call->data + head_bytes, payload, payload_bytes);
    s->seen.calls++;
    if (net_cut(s, p->host, net_host(to)) || sim_chance(s, s->knobs.lose))
        s->seen.lost++;
    else
        send_request(s, call, after);
    replay(s, call, after);
    if (payload_bytes > 0)
        send_rubbish(s, call, after);
    sim_after(s, PATIENCE_US,
              &(struct sim_event){.kind = SIM_DEADLINE,
                                  .proc = p->number,
                                  .a = call->id,
                                  .run = deadline_run});
    free(call);
    return s->net->calls;
}

uint64_t net_number(struct sim *s)
{
    return ++s->net->calls;
}

// ---- life

void net_begin(struct sim *s)
{
    s->net = calloc(1, sizeof(*s->net));
    T_ASSERT(s->net != NULL);
}

static void parcels_free(struct list *l)
{
    struct list_node *n;

    while ((n = list_pop_front(l)) != NULL) {
        struct parcel *p = list_entry(n, struct parcel, node);

        wire_free(p->message);
        free(p);
    }
}

void net_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->net->sessions_count; i++) {
        parcels_free(&s->net->sessions[i]->up);
        parcels_free(&s->net->sessions[i]->down);
        free(s->net->sessions[i]);
    }
    free(s->net->sessions);
    free(s->net);
}
