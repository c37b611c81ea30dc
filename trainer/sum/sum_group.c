// SPDX-License-Identifier: Apache-2.0
// trainer/sum/sum_group.c -- the choice of how each bucket is added, and the
// queue of buckets.
#include "trainer/sum/sum_group.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "proto/access.h"
#include "trainer/sum/sum_host.h"
#include "trainer/sum/net.h"

#define BACKGROUND_BYTES ((size_t)256 << 10)
#define SHARE_CALL_MS 1000
#define SHARE_AGAIN_MS 10

struct bucket {
    struct list_node node; // in `queue`
    uint64_t number;
    float *data;
    size_t count;
    bool spread; // a copy of rank 0's data, not a sum
};

struct rank_group {
    struct rpc_io *io;
    const struct rpc_tls *tls;
    struct ranks *ranks;
    struct ranks_of of;
    uint32_t lane, count, self, timeout_ms;
    enum wire_type wire;
    char **address; // owned
    struct inbox inbox;
    bool added; // `inbox` was added to `ranks`

    // The ranks of this host, in order.
    uint32_t mine[HOST_RANKS_MOST], mine_count, mine_self;
    int fd;             // of the memory, if we made it; -1: not
    uint32_t hosts;     // number of hosts
    struct net *net;    // NULL: not its host's first rank, or only one host
    struct host *local; // NULL: alone, or not joined yet

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list queue;
    uint64_t done; // buckets with lower numbers are done
    size_t eager;  // buckets in the queue for the background thread
    bool running, closing;
    enum sl_err failed;
    struct sl_error why;
    uint32_t suspect; // rank that made memory we cannot join; UINT32_MAX: none
};

// ---- the layout

static void find_mine(struct rank_group *g, const struct group_options *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (strcmp(o->rank[i].host, o->rank[o->self].host) != 0)
            continue;
        if (i == o->self)
            g->mine_self = g->mine_count;
        if (g->mine_count < HOST_RANKS_MOST)
            g->mine[g->mine_count] = i;
        g->mine_count++;
    }
}

// Returns true if the rank is the first of its host.
static bool is_first(const struct group_options *o, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (strcmp(o->rank[i].host, o->rank[rank].host) == 0)
            return false;
    return true;
}

static enum sl_err make_net(struct rank_group *g, const struct group_options *o,
                            struct sl_error *err)
{
    const char **address = sl_malloc_array(o->count, sizeof(*address));
    uint32_t *rank = sl_malloc_array(o->count, sizeof(*rank));
    struct net_options n = {
        .io = o->io,
        .tls = o->tls,
        .inbox = &g->inbox,
        .of = o->of,
        .lane = o->lane,
        .address = address,
        .rank = rank,
        .wire = o->wire,
        .timeout_ms = o->timeout_ms,
    };
    enum sl_err rc = SL_OK;

    if (address == NULL || rank == NULL)
        rc = SL_ENOMEM;
    for (uint32_t i = 0; i < o->count && rc == SL_OK; i++) {
        if (!is_first(o, i))
            continue;
        if (i == o->self)
            n.self = n.count;
        address[n.count] = o->rank[i].address;
        rank[n.count++] = i;
    }
    g->hosts = n.count;
    if (rc == SL_OK && n.count > 1 && g->mine_self == 0)
        rc = net_new(&g->net, &n, err);
    sl_free(address);
    sl_free(rank);
    return rc;
}

static enum sl_err make_share(struct rank_group *g, struct ranks_share *share,
                              struct sl_error *err)
{
    enum sl_err rc;

    if (g->mine_count > HOST_RANKS_MOST)
        return sl_fail(err, SL_ERANGE, "%u ranks on one host; at most %d",
                       g->mine_count, HOST_RANKS_MOST);
    if (g->mine_count == 1 || g->mine_self != 0)
        return SL_OK;
    rc = host_new(&g->local, g->mine_count, &g->fd, &share->bytes,
                  &share->token, err);
    share->fd = g->fd;
    return rc;
}

static enum sl_err copy_addresses(struct rank_group *g,
                                  const struct group_options *o)
{
    g->address = sl_calloc(o->count, sizeof(*g->address));
    for (uint32_t i = 0; g->address != NULL && i < o->count; i++) {
        g->address[i] = sl_strdup(o->rank[i].address);
        if (g->address[i] == NULL)
            return SL_ENOMEM;
    }
    return g->address != NULL ? SL_OK : SL_ENOMEM;
}

static void *background(void *arg);

static enum sl_err group_set_up(struct rank_group *g,
                                const struct group_options *o,
                                struct sl_error *err)
{
    struct ranks_share share = {.fd = -1};
    enum sl_err rc = copy_addresses(g, o);

    find_mine(g, o);
    if (rc == SL_OK)
        rc = make_net(g, o, err);
    if (rc == SL_OK)
        rc = make_share(g, &share, err);
    if (rc == SL_OK)
        rc = ranks_add(g->ranks, &g->of, g->lane, &g->inbox, share);
    g->added = rc == SL_OK;
    if (rc == SL_OK && g->count > 1)
        g->has_thread = pthread_create(&g->thread, NULL, background, g) == 0;
    if (rc == SL_OK && g->count > 1 && !g->has_thread)
        rc = sl_fail(err, SL_ENOMEM, "no thread for sums");
    return rc;
}

enum sl_err group_new(struct rank_group **out, const struct group_options *o,
                      struct sl_error *err)
{
    struct rank_group *g = sl_calloc(1, sizeof(*g));
    enum sl_err rc;

    if (g == NULL)
        return sl_no_memory(err);
    g->io = o->io;
    g->tls = o->tls;
    g->ranks = o->ranks;
    g->of = o->of;
    g->lane = o->lane;
    g->count = o->count;
    g->self = o->self;
    g->wire = o->wire;
    g->timeout_ms = o->timeout_ms;
    g->fd = -1;
    g->suspect = UINT32_MAX;
    inbox_init(&g->inbox);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    list_init(&g->queue);
    rc = group_set_up(g, o, err);
    if (rc != SL_OK) {
        group_free(g);
        return rc;
    }
    *out = g;
    return SL_OK;
}

static void group_set_failed(struct rank_group *g, enum sl_err code,
                             const struct sl_error *why)
{
    pthread_mutex_lock(&g->lock);
    if (g->failed == SL_OK) {
        g->failed = code;
        g->why = *why;
    }
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void group_abort(struct rank_group *g, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;
    struct host *local;

    sl_fail(&err, SL_ESTALE, "%s", why);
    group_set_failed(g, SL_ESTALE, &err);
    if (g->net != NULL)
        net_stop(g->net, why);
    pthread_mutex_lock(&g->lock);
    local = g->local;
    pthread_mutex_unlock(&g->lock);
    if (local != NULL)
        host_stop(local);
}

void group_free(struct rank_group *g)
{
    struct list_node *n;

    if (g == NULL)
        return;
    group_abort(g, "the generation of the ring has ended");
    pthread_mutex_lock(&g->lock);
    g->closing = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (g->has_thread)
        pthread_join(g->thread, NULL);
    if (g->added)
        ranks_remove(g->ranks, g->of.job, g->of.generation, g->lane);
    inbox_close(&g->inbox);
    net_free(g->net);
    host_free(g->local);
    if (g->fd >= 0)
        close(g->fd);
    while ((n = list_pop_front(&g->queue)) != NULL)
        sl_free(list_entry(n, struct bucket, node));
    for (uint32_t i = 0; g->address != NULL && i < g->count; i++)
        sl_free(g->address[i]);
    sl_free(g->address);
    inbox_release(&g->inbox);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    sl_free(g);
}

// ---- joining the memory of this host

static enum sl_err failed_now(struct rank_group *g, struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&g->lock);
    rc = g->failed;
    if (rc != SL_OK && err != NULL)
        *err = g->why;
    pthread_mutex_unlock(&g->lock);
    return rc;
}

static enum sl_err ask_share(struct rank_group *g, struct rpc_channel *first,
                             struct host **out, struct sl_error *err)
{
    const struct rpc_call_options options = {.deadline_ms = SHARE_CALL_MS};
    Sluice__V1__ShareRequest m = SLUICE__V1__SHARE_REQUEST__INIT;
    Sluice__V1__JobToken token;
    Sluice__V1__ShareReply *reply = NULL;
    struct rpc_body *body = NULL;
    struct wire_arena arena;
    struct rpc_msg msg;
    enum sl_err rc;

    m.job = g->of.job;
    m.generation = g->of.generation;
    m.token = wire_token_msg(&token, &g->of.token);
    m.from = g->self;
    m.lane = g->lane;
    rpc_msg_init(&msg);
    rc = wire_msg(&msg, &m.base);
    if (rc != SL_OK) {
        rpc_msg_drop(&msg);
        return rc;
    }
    rc = rpc_call_sync(first, WIRE_SHARE, &msg, &options, &body, err);
    if (rc != SL_OK)
        return rc;
    wire_arena_init(&arena);
    rc = wire_unpack_share_reply(&reply, &arena, rpc_body_slices(body), err);
    if (rc == SL_OK)
        rc = host_join(out, g->mine_self, g->mine_count, reply->pid, reply->fd,
                       reply->bytes, reply->token, err);
    wire_arena_release(&arena);
    rpc_body_free(body);
    return rc;
}

static void group_pause_ms(struct rank_group *g, uint64_t ms)
{
    struct deadline until = deadline_in_ms(ms);

    pthread_mutex_lock(&g->lock);
    if (g->failed == SL_OK)
        (void)deadline_wait(&until, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

// Makes the host's first rank the suspect, unless it or this rank has left the
// generation.
static enum sl_err blame_first(struct rank_group *g, enum sl_err rc,
                               struct sl_error *err)
{
    if (rc != SL_ESTALE) {
        pthread_mutex_lock(&g->lock);
        g->suspect = g->mine[0];
        pthread_mutex_unlock(&g->lock);
    }
    return sl_prefix(err, rc, "memory of rank %u of this host, at %s",
                     g->mine[0], g->address[g->mine[0]]);
}

// Joins the memory of the host's first rank, which may be a little behind with
// the generation. The last call is begun so early that it ends within
// timeout_ms.
static enum sl_err group_join_host(struct rank_group *g, struct sl_error *err)
{
    const struct sl_clock *clock = sl_clock_real();
    uint64_t until = sl_now_ms(clock) + (g->timeout_ms > 2 * SHARE_CALL_MS
                                             ? g->timeout_ms - SHARE_CALL_MS
                                             : g->timeout_ms);
    struct rpc_channel *first = NULL;
    struct host *local = NULL;
    enum sl_err rc = rpc_channel_new(&first, g->io, g->address[g->mine[0]],
                                     g->tls, &access_to_worker, err);

    while (rc == SL_OK) {
        rc = ask_share(g, first, &local, err);
        if (rc == SL_OK || rc == SL_ESTALE || rc == SL_EDENIED ||
            rc == SL_ENOENT || sl_now_ms(clock) >= until)
            break;
        group_pause_ms(g, SHARE_AGAIN_MS);
        rc = failed_now(g, err);
    }
    rpc_channel_free(first);
    if (rc != SL_OK)
        return blame_first(g, rc, err);
    pthread_mutex_lock(&g->lock);
    g->local = local;
    rc = g->failed;
    pthread_mutex_unlock(&g->lock);
    return rc;
}

// ---- buckets

static enum sl_err group_sum_bucket(struct rank_group *g,
                                    const struct bucket *b,
                                    struct sl_error *err)
{
    enum sl_err rc = failed_now(g, err);

    if (rc != SL_OK || g->count == 1)
        return rc;
    if (g->mine_count > 1 && g->local == NULL)
        rc = group_join_host(g, err);
    if (rc == SL_OK && g->mine_count > 1 && !b->spread)
        rc = host_sum(g->local, b->data, b->count);
    // Between hosts a spread is a sum with zeros.
    if (b->spread && g->net != NULL && g->self != 0)
        memset(b->data, 0, b->count * sizeof(*b->data));
    if (rc == SL_OK && g->net != NULL)
        rc = net_sum(g->net, b->number, b->data, b->count, err);
    if (rc == SL_OK && g->mine_count > 1 && (b->spread || g->hosts > 1))
        rc = host_spread(g->local, b->data, b->count);
    return rc;
}

// Returns true if the background thread adds the bucket. Small ones of lane 0
// are left to the thread that waits: a second thread would only be later. For
// lane 1 no thread may wait yet, since all may wait for lane 0.
static bool is_eager(const struct rank_group *g, const struct bucket *b)
{
    return g->lane != 0 || b->count * sizeof(float) >= BACKGROUND_BYTES;
}

// Runs the first bucket of the queue; with the lock, which is released
// meanwhile.
static void run_first_locked(struct rank_group *g)
{
    struct bucket *b =
        list_entry(list_pop_front(&g->queue), struct bucket, node);
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    g->running = true;
    g->eager -= is_eager(g, b);
    pthread_mutex_unlock(&g->lock);
    rc = group_sum_bucket(g, b, &err);
    if (rc != SL_OK) {
        if (err.code != rc)
            sl_fail(&err, rc, "%s", sl_err_text(rc));
        group_set_failed(g, rc, &err);
    }
    pthread_mutex_lock(&g->lock);
    g->running = false;
    g->done = b->number + 1;
    sl_free(b);
    pthread_cond_broadcast(&g->changed);
}

static void *background(void *arg)
{
    struct rank_group *g = arg;

    pthread_mutex_lock(&g->lock);
    while (!g->closing) {
        if (g->eager > 0 && !g->running && g->failed == SL_OK)
            run_first_locked(g);
        else
            pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static enum sl_err group_enqueue_bucket(struct rank_group *g, struct bucket now,
                                        struct sl_error *err)
{
    struct bucket *b = sl_calloc(1, sizeof(*b));

    if (b == NULL)
        return sl_no_memory(err);
    *b = now;
    pthread_mutex_lock(&g->lock);
    list_push_back(&g->queue, &b->node);
    g->eager += is_eager(g, b);
    if (is_eager(g, b))
        pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return SL_OK;
}

enum sl_err group_start(struct rank_group *g, uint64_t bucket, float *data,
                        size_t count, struct sl_error *err)
{
    return group_enqueue_bucket(
        g, (struct bucket){.number = bucket, .data = data, .count = count},
        err);
}

enum sl_err group_spread(struct rank_group *g, uint64_t bucket, float *data,
                         size_t count, struct sl_error *err)
{
    return group_enqueue_bucket(
        g,
        (struct bucket){
            .number = bucket, .data = data, .count = count, .spread = true},
        err);
}

enum sl_err group_wait(struct rank_group *g, uint64_t bucket,
                       struct sl_error *err)
{
    enum sl_err rc;

    pthread_mutex_lock(&g->lock);
    // Waits also after a failure, while another thread uses the data.
    while (g->done <= bucket && (g->failed == SL_OK || g->running)) {
        if (!g->running && !list_empty(&g->queue))
            run_first_locked(g);
        else
            pthread_cond_wait(&g->changed, &g->lock);
    }
    rc = g->failed;
    if (rc != SL_OK && err != NULL)
        *err = g->why;
    pthread_mutex_unlock(&g->lock);
    return rc;
}

void group_stats(struct rank_group *g, struct group_stats *out)
{
    struct net_stats net = {0};
    struct host *local;

    if (g->net != NULL)
        net_stats(g->net, &net);
    pthread_mutex_lock(&g->lock);
    local = g->local;
    pthread_mutex_unlock(&g->lock);
    *out = (struct group_stats){
        .sent_bytes = net.sent_bytes,
        .received_bytes = net.received_bytes,
        .wait_ms = net.wait_ms + (local != NULL ? host_wait_ms(local) : 0),
    };
}

uint32_t group_suspect(struct rank_group *g)
{
    uint32_t suspect;

    pthread_mutex_lock(&g->lock);
    suspect = g->suspect;
    pthread_mutex_unlock(&g->lock);
    if (suspect != UINT32_MAX || g->net == NULL)
        return suspect;
    return net_suspect(g->net);
}
