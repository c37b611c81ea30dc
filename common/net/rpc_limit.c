// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_limit.c -- the accounts of a server's peers, and whose turn it
// is to send.
#include "common/net/rpc_limit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define GIVEN_PART 2 // of the budget is given out to requests,
#define PEER_PART 8  // and this part of it to one peer
#define INBOUND_LEAST ((size_t)64 << 20)
#define INBOUND_MOST ((size_t)4 << 30) // where it goes by the host's memory

// ---- settings

const struct conf_key rpc_limit_keys[] = {
    {.name = "peer-calls",
     .kind = CONF_INT,
     .value = "2048",
     .min = 1,
     .max = 1000000,
     .unit = "calls",
     .help = "Calls and streams that one peer may have open: a certificate's "
             "bearer, or without one a host. Unix sockets are not limited."},
    {.name = "calls",
     .kind = CONF_INT,
     .value = "131072",
     .min = 1,
     .max = 1000000,
     .unit = "calls",
     .help = "Calls and streams that all peers together may have open."},
    {.name = "peer-connections",
     .kind = CONF_INT,
     .value = "256",
     .min = 1,
     .max = 1000000,
     .unit = "connections",
     .help = "TCP connections that one host may have; newer ones are closed."},
    {.name = "connections",
     .kind = CONF_INT,
     .value = "4096",
     .min = 1,
     .max = 1000000,
     .unit = "connections",
     .help = "TCP connections that all hosts together may have."},
    {.name = "inbound-bytes",
     .kind = CONF_BYTES,
     .value = "0",
     .max = INT64_MAX,
     .help = "Memory for incoming messages, at least 64 MiB; 0: a quarter of "
             "the host's, at most 4 GiB. Half of it is for large requests; "
             "when it is used up, further ones wait in their senders. Calls "
             "end when messages that were not asked for reach the whole."},
    {.name = "unread-bytes",
     .kind = CONF_BYTES,
     .value = "256MiB",
     .min = 1 << 20,
     .max = INT64_MAX,
     .help = "Bytes of answers that one peer has not read, above which its "
             "next calls wait."},
    {.name = "peer-patience",
     .kind = CONF_MS,
     .value = "30s",
     .min = 100,
     .max = 86400000,
     .help =
         "Time that a peer has to send a large request or to read an answer, "
         "plus a second for each MiB under way; then the call ends."},
    {.name = NULL},
};

void rpc_limits_read(struct rpc_limits *out, const struct conf *c)
{
    *out = (struct rpc_limits){
        .peer_calls = (unsigned)conf_int(c, "peer-calls"),
        .calls = (unsigned)conf_int(c, "calls"),
        .peer_connections = (unsigned)conf_int(c, "peer-connections"),
        .connections = (unsigned)conf_int(c, "connections"),
        .inbound_bytes = (size_t)conf_int(c, "inbound-bytes"),
        .unread_bytes = (size_t)conf_int(c, "unread-bytes"),
        .patience_ms = (unsigned)conf_int(c, "peer-patience"),
    };
}

// Defaults of the limits, the same as in rpc_limit_keys.
static const struct rpc_limits usual = {
    .peer_calls = 2048,
    .calls = 131072,
    .peer_connections = 256,
    .connections = 4096,
    .unread_bytes = (size_t)256 << 20,
    .patience_ms = 30000,
};

static size_t part_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    size_t bytes = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;

    return bytes / 4 < INBOUND_MOST ? bytes / 4 : INBOUND_MOST;
}

static void rpc_limits_set_defaults(struct rpc_limits *m)
{
    m->peer_calls = m->peer_calls ? m->peer_calls : usual.peer_calls;
    m->calls = m->calls ? m->calls : usual.calls;
    m->peer_connections =
        m->peer_connections ? m->peer_connections : usual.peer_connections;
    m->connections = m->connections ? m->connections : usual.connections;
    if (m->inbound_bytes == 0)
        m->inbound_bytes = part_of_memory();
    if (m->inbound_bytes < INBOUND_LEAST)
        m->inbound_bytes = INBOUND_LEAST;
    m->unread_bytes = m->unread_bytes ? m->unread_bytes : usual.unread_bytes;
    m->patience_ms = m->patience_ms ? m->patience_ms : usual.patience_ms;
}

void rpc_limit_init(struct rpc_limit *l, const struct rpc_limits *most)
{
    *l = (struct rpc_limit){.calls = 0};
    if (most != NULL)
        l->most = *most;
    rpc_limits_set_defaults(&l->most);
    map_init(&l->peers);
    list_init(&l->turns);
}

void rpc_limit_release(struct rpc_limit *l)
{
    map_release_owned(&l->peers);
}

// ---- peers

// Two of the same hash share what they may.
static uint64_t rpc_limit_peer_key(const char *who)
{
    return sl_hash64(who, strlen(who));
}

static struct rpc_limit_peer *rpc_limit_peer_get(struct rpc_limit *l,
                                                 const char *who, bool trusted)
{
    uint64_t key = rpc_limit_peer_key(who);
    struct rpc_limit_peer *p = map_get(&l->peers, key);

    if (p != NULL)
        return p;
    p = sl_calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    snprintf(p->who, sizeof(p->who), "%s", who);
    p->key = key;
    p->trusted = trusted;
    list_init(&p->waiting);
    if (map_put(&l->peers, key, p) == SL_OK)
        return p;
    sl_free(p);
    return NULL;
}

static void rpc_limit_peer_forget(struct rpc_limit *l, struct rpc_limit_peer *p)
{
    map_remove(&l->peers, p->key);
    sl_free(p);
}

// A few idle records stay: a psserver with one worker would otherwise allocate
// and free one for each push.
static void forget_idle(struct rpc_limit *l, struct rpc_limit_peer *p)
{
    if (p->calls == 0 && p->said_ms == 0 && l->peers.len > RPC_LIMIT_IDLE)
        rpc_limit_peer_forget(l, p);
}

unsigned rpc_limit_refused(struct rpc_limit *l, const char *who, bool trusted,
                           uint64_t now_ms)
{
    struct rpc_limit_peer *p = rpc_limit_peer_get(l, who, trusted);
    unsigned count;

    if (p == NULL)
        return 0;
    count = ++p->refused;
    if (p->said_ms != 0 && now_ms - p->said_ms < RPC_LIMIT_SAY_MS)
        return 0;
    p->said_ms = now_ms ? now_ms : 1;
    p->refused = 0;
    return count;
}

// Marks the peer as used, so that rpc_limit_forget keeps it for a minute.
bool rpc_limit_denied(struct rpc_limit *l, const char *who, bool trusted,
                      uint64_t now_ms, unsigned *left_out)
{
    struct rpc_limit_peer *p = rpc_limit_peer_get(l, who, trusted);

    if (p == NULL)
        return false;
    p->used = true;
    return log_share(&p->denied, LOG_SHARE, now_ms, left_out);
}

void rpc_limit_forget(struct rpc_limit *l, uint64_t now_ms)
{
    size_t at = 0;
    void *value;

    while (map_next(&l->peers, &at, NULL, &value)) {
        struct rpc_limit_peer *p = value;

        if (p->used)
            p->idle_ms = now_ms;
        p->used = p->calls > 0;
        if (p->used || now_ms - p->idle_ms < RPC_LIMIT_SAY_MS ||
            now_ms - p->said_ms < RPC_LIMIT_SAY_MS)
            continue;
        rpc_limit_peer_forget(l, p);
        at = 0; // what came behind it may have moved
    }
}

// ---- calls

enum sl_err rpc_limit_enter(struct rpc_limit *l, struct rpc_limit_call *call,
                            const char *who, bool trusted, struct sl_error *err)
{
    struct rpc_limit_peer *p = rpc_limit_peer_get(l, who, trusted);
    enum sl_err rc = SL_OK;

    if (p == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for one more peer");
    if (!p->trusted && p->calls >= l->most.peer_calls)
        rc = sl_fail(err, SL_EBUSY,
                     "%s has %u calls open, as many as one peer may "
                     "(--peer-calls); try again later",
                     who, p->calls);
    else if (!p->trusted && l->calls >= l->most.calls)
        rc = sl_fail(err, SL_EBUSY,
                     "%u calls are open here, as many as may be (--calls); "
                     "try again later",
                     l->calls);
    if (rc != SL_OK) {
        forget_idle(l, p);
        return rc;
    }
    call->peer = p;
    p->calls++;
    p->used = true;
    l->calls++;
    return SL_OK;
}

static bool peer_may(const struct rpc_limit *l, const struct rpc_limit_call *c)
{
    const struct rpc_limit_peer *p = c->peer;
    size_t most = l->most.inbound_bytes / GIVEN_PART / PEER_PART;

    if (p->trusted)
        return true;
    if (p->unread_bytes >= l->most.unread_bytes)
        return false;
    if (!c->large || p->inbound_bytes == 0)
        return true;
    return p->inbound_bytes < most &&
           c->inbound_bytes <= most - p->inbound_bytes;
}

static bool all_may(const struct rpc_limit *l, const struct rpc_limit_call *c)
{
    size_t most = l->most.inbound_bytes / GIVEN_PART;

    return !c->large || l->inbound_bytes == 0 ||
           (l->inbound_bytes < most &&
            c->inbound_bytes <= most - l->inbound_bytes);
}

static void rpc_limit_charge(struct rpc_limit *l, struct rpc_limit_call *call)
{
    call->peer->inbound_bytes += call->inbound_bytes;
    l->inbound_bytes += call->inbound_bytes;
    call->large = false; // it is counted now
}

static struct rpc_limit_call *rpc_limit_call_of(struct list_node *n)
{
    return list_entry(n, struct rpc_limit_call, node);
}

// Returns true if a waiting call needs the room that `call` would take. A call
// that waits only for its own peer's calls in flight holds no other peer back.
static bool has_before(struct rpc_limit *l, const struct rpc_limit_call *call)
{
    if (!call->large)
        return false;
    list_for(n, &l->turns)
    {
        const struct rpc_limit_peer *p =
            list_entry(n, struct rpc_limit_peer, node);

        if (p == call->peer)
            return true;
        list_for(m, &p->waiting)
        {
            if (peer_may(l, rpc_limit_call_of(m)))
                return true;
        }
    }
    return false;
}

bool rpc_limit_start(struct rpc_limit *l, struct rpc_limit_call *call,
                     size_t bytes)
{
    struct rpc_limit_peer *p = call->peer;

    call->inbound_bytes = bytes;
    call->large = bytes > 0;
    if (!has_before(l, call) && peer_may(l, call) && all_may(l, call)) {
        rpc_limit_charge(l, call);
        return true;
    }
    if (list_empty(&p->waiting))
        list_push_back(&l->turns, &p->node);
    list_push_back(&p->waiting, &call->node);
    return false;
}

static void no_more(struct rpc_limit_call *call)
{
    struct rpc_limit_peer *p = call->peer;

    list_remove(&call->node);
    if (list_empty(&p->waiting))
        list_remove(&p->node);
}

// The first of a peer that may go. One that is too large for what is left
// keeps the others from what is left, or it would never go.
static struct rpc_limit_call *next_of(struct rpc_limit *l,
                                      struct rpc_limit_peer *p, bool *full)
{
    list_for(n, &p->waiting)
    {
        struct rpc_limit_call *c = rpc_limit_call_of(n);

        if (!peer_may(l, c) || (c->large && *full) ||
            (!c->large && p->resumed > 0))
            continue;
        if (all_may(l, c))
            return c;
        *full = true;
    }
    return NULL;
}

struct rpc_limit_call *rpc_limit_next(struct rpc_limit *l)
{
    bool full = false;

    list_for(n, &l->turns)
    {
        struct rpc_limit_peer *p = list_entry(n, struct rpc_limit_peer, node);
        struct rpc_limit_call *c = next_of(l, p, &full);

        if (c == NULL)
            continue;
        no_more(c);
        c->resumed = !c->large;
        p->resumed += c->resumed;
        rpc_limit_charge(l, c);
        if (list_on(&p->node)) { // behind the others
            list_remove(&p->node);
            list_push_back(&l->turns, &p->node);
        }
        return c;
    }
    return NULL;
}

struct rpc_limit_call *rpc_limit_give_up(struct rpc_limit *l)
{
    struct list_node *n = list_first(&l->turns);
    struct rpc_limit_call *c;

    if (n == NULL)
        return NULL;
    c = rpc_limit_call_of(
        list_first(&list_entry(n, struct rpc_limit_peer, node)->waiting));
    (void)rpc_limit_drop(l, c);
    return c;
}

bool rpc_limit_drop(struct rpc_limit *l, struct rpc_limit_call *call)
{
    if (!list_on(&call->node))
        return false;
    no_more(call);
    call->inbound_bytes = 0; // was not counted
    return true;
}

void rpc_limit_has(struct rpc_limit *l, struct rpc_limit_call *call,
                   size_t bytes)
{
    if (call->peer == NULL)
        return;
    call->peer->inbound_bytes += bytes - call->inbound_bytes;
    l->inbound_bytes += bytes - call->inbound_bytes;
    call->inbound_bytes = bytes;
}

static void not_resumed(struct rpc_limit_call *call)
{
    call->peer->resumed -= call->resumed;
    call->resumed = false;
}

void rpc_limit_answer(struct rpc_limit *l, struct rpc_limit_call *call,
                      size_t bytes)
{
    rpc_limit_has(l, call, 0);
    if (call->peer == NULL)
        return;
    not_resumed(call);
    call->peer->unread_bytes += bytes;
    call->unread_bytes = bytes;
}

void rpc_limit_leave(struct rpc_limit *l, struct rpc_limit_call *call)
{
    struct rpc_limit_peer *p = call->peer;

    if (p == NULL)
        return;
    rpc_limit_has(l, call, 0);
    not_resumed(call);
    p->unread_bytes -= call->unread_bytes;
    p->calls--;
    l->calls--;
    *call = (struct rpc_limit_call){.peer = NULL};
    forget_idle(l, p);
}
