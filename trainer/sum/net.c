// SPDX-License-Identifier: Apache-2.0
// trainer/sum/net.c -- the ring and the direct exchange, and the calls that
// carry their pieces.
//
// All waits are on the inbox's condition: for pieces, for ends of calls, and
// for memory that the transport has let go of.
#include "trainer/sum/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/base/fault.h"
#include "common/base/mem.h"
#include "proto/access.h"
#include "trainer/sum/add.h"

// A segment travels in about this many pieces: a hop that waits for a whole
// segment leaves its link idle for that long.
#define PIECES 16
#define PIECE_LEAST ((size_t)16 << 10) // least elements of a piece
#define PIECE_MOST ((size_t)64 << 10)
#define DIRECT_BYTES ((size_t)32 << 10) // a vector up to here goes directly
#define CALL_MS 60000
#define AGAIN_MS 5
#define AGAIN_MOST_MS 100
#define LOOK_MS 20

struct node {
    struct rpc_channel *channel; // NULL: ourselves, or hung up
    uint64_t failing_ms; // time since which calls to it fail; 0: they work
};

// One piece that is sent: ours until the call has ended and the transport has
// let go of the memory.
struct put {
    struct list_node node; // member of `flying` or `again`
    struct net *net;
    uint32_t to;
    struct wire_piece m;
    const void *data; // payload, in type m.wire
    size_t bytes;
    void *owned; // `data`, if we allocated it
    bool ended, released;
    enum sl_err code;
    unsigned tries;
    uint64_t due_ms;
};

struct net {
    struct net_options o;
    char **address; // owned
    uint32_t *rank; // owned
    struct node *nodes;
    const struct sl_clock *clock;

    // Under the inbox's lock.
    struct list flying, again;
    enum sl_err failed;
    struct sl_error why;
    uint32_t suspect;
    struct net_stats stats;

    // The sum under way.
    uint64_t bucket;
    float *data;
    size_t count;
    uint8_t *seen; // pieces that were taken, by hop and number
    size_t seen_space, pieces_most;
    size_t piece; // elements of a piece
};

// ---- making

static enum sl_err copy_options(struct net *n, const struct net_options *o)
{
    n->o = *o;
    n->address = sl_calloc(o->count, sizeof(*n->address));
    n->rank = sl_malloc_array(o->count, sizeof(*n->rank));
    n->nodes = sl_calloc(o->count, sizeof(*n->nodes));
    if (n->address == NULL || n->rank == NULL || n->nodes == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < o->count; i++) {
        n->rank[i] = o->rank[i];
        n->address[i] = sl_strdup(o->address[i]);
        if (n->address[i] == NULL)
            return SL_ENOMEM;
    }
    return SL_OK;
}

enum sl_err net_new(struct net **out, const struct net_options *o,
                    struct sl_error *err)
{
    struct net *n = sl_calloc(1, sizeof(*n));
    enum sl_err rc;

    if (n == NULL)
        return sl_no_memory(err);
    n->clock = sl_clock_real();
    n->suspect = UINT32_MAX;
    list_init(&n->flying);
    list_init(&n->again);
    rc = copy_options(n, o);
    for (uint32_t i = 0; i < o->count && rc == SL_OK; i++)
        if (i != o->self)
            rc = rpc_channel_new(&n->nodes[i].channel, o->io, o->address[i],
                                 o->tls, &access_to_worker, err);
    if (rc != SL_OK) {
        net_free(n);
        return rc;
    }
    *out = n;
    return SL_OK;
}

void net_free(struct net *n)
{
    if (n == NULL)
        return;
    for (uint32_t i = 0; i < n->o.count; i++) {
        if (n->nodes != NULL)
            rpc_channel_free(n->nodes[i].channel);
        if (n->address != NULL)
            sl_free(n->address[i]);
    }
    sl_free(n->address);
    sl_free(n->rank);
    sl_free(n->nodes);
    sl_free(n->seen);
    sl_free(n);
}

static void fail_locked(struct net *n, enum sl_err code, uint32_t suspect,
                        const char *text)
{
    if (n->failed != SL_OK)
        return;
    n->failed = code;
    n->suspect = suspect;
    sl_fail(&n->why, code, "%s", text);
    pthread_cond_broadcast(&n->o.inbox->changed);
}

void net_stop(struct net *n, const char *why)
{
    pthread_mutex_lock(&n->o.inbox->lock);
    fail_locked(n, SL_ESTALE, UINT32_MAX, why);
    pthread_mutex_unlock(&n->o.inbox->lock);
}

void net_stats(struct net *n, struct net_stats *out)
{
    pthread_mutex_lock(&n->o.inbox->lock);
    *out = n->stats;
    pthread_mutex_unlock(&n->o.inbox->lock);
}

uint32_t net_suspect(struct net *n)
{
    uint32_t suspect;

    pthread_mutex_lock(&n->o.inbox->lock);
    suspect = n->suspect;
    pthread_mutex_unlock(&n->o.inbox->lock);
    return suspect;
}

// ---- sending pieces

static void put_free(struct put *p)
{
    sl_free(p->owned);
    sl_free(p);
}

// Notes the failure of a call: nothing yet, or the end of the sum.
static void note_failure_locked(struct net *n, struct put *p)
{
    struct node *to = &n->nodes[p->to];
    uint64_t now = sl_now_ms(n->clock);
    char text[256];

    if (p->code == SL_ESTALE) {
        snprintf(text, sizeof(text),
                 "rank %u at %s has left generation %" PRIu64, n->rank[p->to],
                 n->address[p->to], n->o.of.generation);
        fail_locked(n, SL_ESTALE, n->rank[p->to], text);
        return;
    }
    if (p->code == SL_EBUSY || p->code == SL_ETIMEDOUT)
        return; // the rank answers, but is behind
    if (to->failing_ms == 0)
        to->failing_ms = now;
    if (now - to->failing_ms < n->o.timeout_ms)
        return;
    snprintf(text, sizeof(text), "rank %u at %s did not answer for %u ms",
             n->rank[p->to], n->address[p->to], n->o.timeout_ms);
    fail_locked(n, SL_EUNAVAIL, n->rank[p->to], text);
}

// Returns true if call and transport have let go of the piece, and the caller
// frees it. A piece that failed is queued to be sent again.
static bool net_settle_put_locked(struct put *p)
{
    struct net *n = p->net;
    unsigned doublings = p->tries < 5 ? p->tries : 5;
    uint64_t pause = (uint64_t)AGAIN_MS << doublings;

    if (!p->ended || !p->released)
        return false;
    list_remove(&p->node);
    if (p->code == SL_OK || n->failed != SL_OK)
        return true;
    p->tries++;
    p->due_ms =
        sl_now_ms(n->clock) + (pause < AGAIN_MOST_MS ? pause : AGAIN_MOST_MS);
    list_push_back(&n->again, &p->node);
    return false;
}

static void net_release_put(struct put *p, bool ended, enum sl_err code)
{
    struct net *n = p->net;
    bool gone;

    pthread_mutex_lock(&n->o.inbox->lock);
    if (ended) {
        p->ended = true;
        p->code = code;
        if (code == SL_OK)
            n->nodes[p->to].failing_ms = 0;
        else
            note_failure_locked(n, p);
    } else {
        p->released = true;
    }
    gone = net_settle_put_locked(p);
    pthread_cond_broadcast(&n->o.inbox->changed);
    pthread_mutex_unlock(&n->o.inbox->lock);
    if (gone)
        put_free(p);
}

static void on_released(void *arg)
{
    net_release_put(arg, false, SL_OK);
}

static void net_on_put_done(void *arg, enum sl_err code,
                            const struct sl_error *err,
                            const struct sl_slices *reply)
{
    net_release_put(arg, true, code);
}

// Starts the call of a piece. Without the lock.
static void net_start_put(struct net *n, struct put *p)
{
    const struct rpc_call_options options = {.deadline_ms = CALL_MS};
    struct rpc_msg msg;
    enum sl_err rc;

    pthread_mutex_lock(&n->o.inbox->lock);
    p->ended = p->released = false;
    p->code = SL_OK;
    list_push_back(&n->flying, &p->node);
    n->stats.sent_bytes += p->bytes;
    pthread_mutex_unlock(&n->o.inbox->lock);
    rpc_msg_init(&msg);
    rc = wire_head_piece(&msg, &p->m, p->bytes);
    if (rc != SL_OK) {
        net_release_put(p, false, SL_OK);
        net_release_put(p, true, SL_EUNAVAIL); // no memory: sent again later
        return;
    }
    rpc_msg_part(&msg, p->data, p->bytes);
    rpc_msg_on_release(&msg, on_released, p);
    FAULT("reduce.piece");
    rpc_call_start(n->nodes[p->to].channel, WIRE_PIECE, &msg, &options,
                   net_on_put_done, p, NULL);
}

// Sends data[first, first + count) of the sum under way to node `to`. With
// `copy` the elements may change before they have left.
static enum sl_err net_send_piece(struct net *n, uint32_t to, uint32_t hop,
                                  size_t first, size_t count, bool copy)
{
    size_t bytes = count * wire_type_bytes(n->o.wire);
    struct put *p = sl_calloc(1, sizeof(*p));

    if (p == NULL)
        return SL_ENOMEM;
    p->net = n;
    p->to = to;
    p->bytes = bytes;
    p->m = (struct wire_piece){.job = n->o.of.job,
                               .generation = n->o.of.generation,
                               .token = n->o.of.token,
                               .bucket = n->bucket,
                               .first = first,
                               .from = n->rank[n->o.self],
                               .hop = hop,
                               .lane = n->o.lane,
                               .wire = n->o.wire};
    p->data = n->data + first;
    if (copy || n->o.wire != WIRE_F32) {
        p->owned = sl_malloc(bytes);
        if (p->owned == NULL) {
            sl_free(p);
            return SL_ENOMEM;
        }
        add_narrow(n->o.wire, count, n->data + first, p->owned);
        p->data = p->owned;
    }
    net_start_put(n, p);
    return SL_OK;
}

// ---- waiting

// Takes the first piece that is due to be sent again, or NULL.
static struct put *due_locked(struct net *n)
{
    uint64_t now = sl_now_ms(n->clock);

    list_for(at, &n->again)
    {
        struct put *p = list_entry(at, struct put, node);

        if (p->due_ms <= now) {
            list_remove(at);
            return p;
        }
    }
    return NULL;
}

static void net_wait_locked(struct net *n)
{
    struct deadline until = deadline_in_ms(LOOK_MS);
    uint64_t before = sl_now_us(n->clock);

    (void)deadline_wait(&until, &n->o.inbox->changed, &n->o.inbox->lock);
    n->stats.wait_ms += (double)(sl_now_us(n->clock) - before) / 1000;
}

// Returns the next piece of the bucket; NULL: failed. Sends pieces again
// meanwhile.
static struct inbox_piece *next_piece(struct net *n)
{
    struct inbox *b = n->o.inbox;
    struct inbox_piece *piece = NULL;
    struct put *again;

    pthread_mutex_lock(&b->lock);
    while (n->failed == SL_OK) {
        piece = inbox_take_locked(b, n->bucket);
        if (piece != NULL)
            break;
        again = due_locked(n);
        if (again == NULL) {
            net_wait_locked(n);
            continue;
        }
        pthread_mutex_unlock(&b->lock);
        net_start_put(n, again);
        pthread_mutex_lock(&b->lock);
    }
    if (piece != NULL)
        n->stats.received_bytes += piece->m.payload.bytes;
    pthread_mutex_unlock(&b->lock);
    return piece;
}

// Closes all channels. A socket that its peer does not read keeps what it was
// lent until it is closed, as a channel does that has nothing left but such
// calls.
static void net_close_channels(struct net *n)
{
    for (uint32_t i = 0; i < n->o.count; i++) {
        rpc_channel_free(n->nodes[i].channel);
        n->nodes[i].channel = NULL;
    }
}

// Waits until no call refers to the data. After a failure no piece is sent
// again.
static void net_wait_calls(struct net *n)
{
    struct inbox *b = n->o.inbox;
    struct list_node *at;
    struct put *again;
    bool hung_up = false;

    pthread_mutex_lock(&b->lock);
    while (!list_empty(&n->flying) || !list_empty(&n->again)) {
        if (n->failed != SL_OK && !hung_up) {
            pthread_mutex_unlock(&b->lock);
            net_close_channels(n);
            pthread_mutex_lock(&b->lock);
            hung_up = true;
            continue;
        }
        while (n->failed != SL_OK && (at = list_pop_front(&n->again)) != NULL)
            put_free(list_entry(at, struct put, node));
        again = due_locked(n);
        if (again != NULL) {
            pthread_mutex_unlock(&b->lock);
            net_start_put(n, again);
            pthread_mutex_lock(&b->lock);
        } else if (!list_empty(&n->flying) || !list_empty(&n->again)) {
            net_wait_locked(n);
        }
    }
    pthread_mutex_unlock(&b->lock);
}

// ---- the ring

static size_t segment_first(const struct net *n, uint32_t segment)
{
    return (size_t)((unsigned __int128)n->count * segment / n->o.count);
}

static uint32_t net_node_back(const struct net *n, uint32_t from, uint32_t back)
{
    return (from + 2 * n->o.count - back % n->o.count) % n->o.count;
}

// Returns the segment that comes in a hop.
static uint32_t segment_in(const struct net *n, uint32_t hop)
{
    uint32_t m = n->o.count;

    return hop < m - 1 ? net_node_back(n, n->o.self, hop + 1)
                       : net_node_back(n, n->o.self, hop - (m - 1));
}

static size_t pieces_of(const struct net *n, uint32_t segment)
{
    size_t length = segment_first(n, segment + 1) - segment_first(n, segment);

    return (length + n->piece - 1) / n->piece;
}

static enum sl_err send_segment(struct net *n, uint32_t segment)
{
    size_t end = segment_first(n, segment + 1);
    uint32_t next = net_node_back(n, n->o.self, n->o.count - 1);
    enum sl_err rc = SL_OK;

    for (size_t at = segment_first(n, segment); at < end && rc == SL_OK;
         at += n->piece) {
        size_t some = end - at < n->piece ? end - at : n->piece;

        rc = net_send_piece(n, next, 0, at, some, false);
    }
    return rc;
}

// Returns false if a piece does not fit the sum. *again: it fits, and was here
// before.
static bool net_piece_fits(struct net *n, const struct wire_piece *m,
                           bool *again)
{
    uint32_t hops = 2 * n->o.count - 2;
    size_t first, end, number;
    uint8_t *seen;

    *again = false;
    if (m->hop >= hops || m->wire != n->o.wire ||
        m->from != n->rank[net_node_back(n, n->o.self, 1)])
        return false;
    first = segment_first(n, segment_in(n, m->hop));
    end = segment_first(n, segment_in(n, m->hop) + 1);
    if (m->first < first || m->first >= end ||
        (m->first - first) % n->piece != 0)
        return false;
    number = end - (size_t)m->first;
    if (number > n->piece)
        number = n->piece;
    if (m->payload.bytes != number * wire_type_bytes(m->wire))
        return false;
    seen = &n->seen[m->hop * n->pieces_most + (m->first - first) / n->piece];
    *again = *seen != 0;
    *seen = 1;
    return true;
}

static enum sl_err ring_piece(struct net *n, const struct wire_piece *m)
{
    uint32_t hops = 2 * n->o.count - 2, sums = n->o.count - 1;
    size_t count = m->payload.bytes / wire_type_bytes(m->wire);
    float *at = n->data + m->first;

    if (m->hop < sums)
        add_payload(at, m->wire, &m->payload);
    else
        add_copy(at, m->wire, &m->payload);
    if (m->hop == sums - 1) // the sum is whole: rounded, as others get it
        add_round(m->wire, count, at);
    if (m->hop + 1 == hops)
        return SL_OK;
    return net_send_piece(n, net_node_back(n, n->o.self, n->o.count - 1),
                          m->hop + 1, (size_t)m->first, count, false);
}

static enum sl_err net_fail_corrupt(struct net *n, const struct wire_piece *m)
{
    char text[160];

    snprintf(text, sizeof(text),
             "rank %u sent a piece that does not fit: hop %u, element %" PRIu64
             ", %zu bytes; do all ranks run the same version?",
             m->from, m->hop, m->first, m->payload.bytes);
    pthread_mutex_lock(&n->o.inbox->lock);
    fail_locked(n, SL_ECORRUPT, m->from, text);
    pthread_mutex_unlock(&n->o.inbox->lock);
    return SL_ECORRUPT;
}

static enum sl_err make_seen(struct net *n)
{
    size_t longest = n->count / n->o.count + 1, need;

    n->piece = longest / PIECES;
    if (n->piece < PIECE_LEAST)
        n->piece = PIECE_LEAST;
    if (n->piece > PIECE_MOST)
        n->piece = PIECE_MOST;
    n->pieces_most = (longest + n->piece - 1) / n->piece;
    need = n->pieces_most * (2 * (size_t)n->o.count - 2);
    if (need > n->seen_space) {
        sl_free(n->seen);
        n->seen = sl_malloc(need);
        n->seen_space = n->seen != NULL ? need : 0;
    }
    if (n->seen == NULL)
        return SL_ENOMEM;
    memset(n->seen, 0, need);
    return SL_OK;
}

static enum sl_err ring(struct net *n)
{
    enum sl_err rc = make_seen(n);
    size_t left = 0;

    for (uint32_t hop = 0; hop < 2 * n->o.count - 2; hop++)
        left += pieces_of(n, segment_in(n, hop));
    if (rc == SL_OK)
        rc = send_segment(n, n->o.self);
    while (left > 0 && rc == SL_OK) {
        struct inbox_piece *piece = next_piece(n);
        bool again;

        if (piece == NULL)
            return SL_ESTALE; // n->failed has the code
        if (!net_piece_fits(n, &piece->m, &again))
            rc = net_fail_corrupt(n, &piece->m);
        else if (!again)
            rc = ring_piece(n, &piece->m);
        left -= rc == SL_OK && !again;
        inbox_answer(piece);
    }
    return rc;
}

// ---- the direct exchange

static uint32_t node_of(const struct net *n, uint32_t rank)
{
    for (uint32_t i = 0; i < n->o.count; i++)
        if (n->rank[i] == rank)
            return i;
    return UINT32_MAX;
}

// Adds the vectors in the order of ranks, each rounded as other ranks get it.
static enum sl_err add_direct(struct net *n, struct inbox_piece *const *of)
{
    float *own = sl_malloc_array(n->count, sizeof(*own));
    float *other = sl_malloc_array(n->count, sizeof(*other));

    if (own == NULL || other == NULL) {
        sl_free(own);
        sl_free(other);
        return SL_ENOMEM;
    }
    memcpy(own, n->data, n->count * sizeof(*own));
    add_round(n->o.wire, n->count, own);
    memset(n->data, 0, n->count * sizeof(*own));
    for (uint32_t i = 0; i < n->o.count; i++) {
        const float *from = own;

        if (i != n->o.self) {
            add_copy(other, n->o.wire, &of[i]->m.payload);
            from = other;
        }
        if (i == 0)
            memcpy(n->data, from, n->count * sizeof(*from));
        else
            add_two(n->count, n->data, from, n->data, NULL);
    }
    sl_free(own);
    sl_free(other);
    return SL_OK;
}

#define DIRECT_HOP UINT32_MAX

static enum sl_err net_gather_direct(struct net *n, struct inbox_piece **of)
{
    size_t bytes = n->count * wire_type_bytes(n->o.wire);
    uint32_t left = n->o.count - 1;

    while (left > 0) {
        struct inbox_piece *piece = next_piece(n);
        uint32_t from;

        if (piece == NULL)
            return SL_ESTALE;
        from = node_of(n, piece->m.from);
        if (from == UINT32_MAX || from == n->o.self || piece->m.first != 0 ||
            piece->m.hop != DIRECT_HOP || piece->m.wire != n->o.wire ||
            piece->m.payload.bytes != bytes) {
            enum sl_err rc = net_fail_corrupt(n, &piece->m);

            inbox_answer(piece);
            return rc;
        }
        if (of[from] != NULL) { // the piece came again
            inbox_answer(piece);
            continue;
        }
        of[from] = piece;
        left--;
    }
    return SL_OK;
}

static enum sl_err direct(struct net *n)
{
    struct inbox_piece **of =
        sl_calloc(n->o.count, sizeof(struct inbox_piece *));
    enum sl_err rc = of == NULL ? SL_ENOMEM : SL_OK;

    for (uint32_t i = 0; i < n->o.count && rc == SL_OK; i++)
        if (i != n->o.self)
            rc = net_send_piece(n, i, DIRECT_HOP, 0, n->count, true);
    if (rc == SL_OK)
        rc = net_gather_direct(n, of);
    if (rc == SL_OK)
        rc = add_direct(n, of);
    for (uint32_t i = 0; of != NULL && i < n->o.count; i++)
        inbox_answer(of[i]);
    sl_free(of);
    return rc;
}

enum sl_err net_sum(struct net *n, uint64_t bucket, float *data, size_t count,
                    struct sl_error *err)
{
    enum sl_err rc;

    n->bucket = bucket;
    n->data = data;
    n->count = count;
    rc = count * sizeof(float) <= DIRECT_BYTES ? direct(n) : ring(n);
    if (rc != SL_OK) {
        pthread_mutex_lock(&n->o.inbox->lock);
        fail_locked(n, rc, UINT32_MAX, "the sum could not be made: no memory");
        pthread_mutex_unlock(&n->o.inbox->lock);
    }
    // What comes again from now on is acknowledged at once: two ranks of which
    // each lost the other's answer would wait for each other.
    if (rc == SL_OK)
        inbox_done(n->o.inbox, bucket + 1);
    net_wait_calls(n);
    if (rc != SL_OK)
        inbox_done(n->o.inbox, bucket + 1);
    pthread_mutex_lock(&n->o.inbox->lock);
    rc = n->failed;
    if (rc != SL_OK && err != NULL)
        *err = n->why;
    pthread_mutex_unlock(&n->o.inbox->lock);
    return rc;
}
