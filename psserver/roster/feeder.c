// SPDX-License-Identifier: Apache-2.0
// psserver/roster/feeder.c -- see feeder.h.
#include "psserver/roster/feeder.h"

#include <pthread.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "proto/wire.h"
#include "state/shard/replica.h"

#define BATCH_BYTES ((size_t)1 << 20) // one record may be longer

struct feeder {
    struct feeder_setup setup;
    struct feed_link *link;
    uint64_t sent;  // number of the last record of the call under way
    uint64_t first; // of a replica: the last record that was there at the start
    size_t bytes;   // of its records
    struct rpc_ticket ticket; // of that call
    struct loop_task task, ready;
    bool told;  // `ready` was posted
    bool freed; // by feeder_free; it goes when the last of `uses` ends
    _Atomic unsigned uses; // the owner's, the call's, those of tasks
    enum sl_err rc;
    struct sl_error why;
    struct {
        pthread_mutex_t lock;
        pthread_cond_t idle;
        unsigned starting; // calls that are being started
        bool stopping;     // feeder_free has begun: none starts any more
        bool busy;         // a call is under way, or begins, or is to end
        bool more;         // records came into the log since the last look
    } starts;
};

// The records of a call, which the transport reads.
struct feeder_batch {
    unsigned count;
    size_t bytes;
    struct oplog_record *record[RPC_MSG_PARTS]; // references
};

static void batch_free(void *arg)
{
    struct feeder_batch *b = arg;

    for (unsigned i = 0; i < b->count; i++)
        oplog_unref(b->record[i]);
    sl_free(b);
}

static void feeder_on_gone(void *arg)
{
    struct feeder *f = arg;

    feed_link_put(f->link);
    shard_unref(f->setup.shard);
    pthread_cond_destroy(&f->starts.idle);
    pthread_mutex_destroy(&f->starts.lock);
    sl_free(f);
}

// Any thread. The link goes on the loop.
static void feeder_unuse(struct feeder *f)
{
    if (atomic_fetch_sub(&f->uses, 1) == 1)
        loop_post_task(f->setup.links->loop, &f->task, feeder_on_gone, f);
}

static void feeder_on_end(void *arg)
{
    struct feeder *f = arg;

    if (!f->freed)
        f->setup.ended(f->setup.arg, f->rc, &f->why);
    feeder_unuse(f);
}

// Ends the feed; nothing is under way.
static void feeder_end(struct feeder *f, enum sl_err rc,
                       const struct sl_error *why)
{
    f->rc = rc;
    f->why = *why;
    atomic_fetch_add(&f->uses, 1);
    loop_post_task(f->setup.links->loop, &f->task, feeder_on_end, f);
}

// Takes the next records, as many as a call has.
static enum sl_err batch_fill(struct feeder_batch *b, struct feeder *f,
                              struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && b->count < RPC_MSG_PARTS && b->bytes < BATCH_BYTES) {
        struct oplog_record *r = NULL;

        rc = shard_feed_next(f->setup.shard, f->setup.order, f->sent + b->count,
                             &r, err);
        if (r == NULL)
            break;
        if (b->count > 0 && b->bytes + r->bytes > BATCH_BYTES) {
            oplog_unref(r);
            break;
        }
        b->record[b->count++] = r;
        b->bytes += r->bytes;
    }
    if (rc == SL_OK && b->count == 0 && !f->setup.replica)
        rc = sl_fail(err, SL_ESTATE, "the shard has stopped for another move");
    return rc;
}

static void feeder_on_answer(void *arg, enum sl_err code,
                             const struct sl_error *err,
                             const struct sl_slices *reply);

// Returns false once the feeder is being freed. feeder_started follows true.
// The lock is not held while a call starts: its answer may come within.
static bool feeder_may_start(struct feeder *f)
{
    bool may;

    pthread_mutex_lock(&f->starts.lock);
    may = !f->starts.stopping;
    f->starts.starting += may;
    pthread_mutex_unlock(&f->starts.lock);
    return may;
}

static void feeder_started(struct feeder *f)
{
    pthread_mutex_lock(&f->starts.lock);
    if (--f->starts.starting == 0)
        pthread_cond_signal(&f->starts.idle);
    pthread_mutex_unlock(&f->starts.lock);
}

static enum sl_err feeder_send(struct feeder *f, struct feeder_batch *b,
                               struct sl_error *err)
{
    const struct shard *s = f->setup.shard;
    const struct wire_follow m = {.job = s->plan.job,
                                  .job_incarnation = s->plan.job_incarnation,
                                  .shard = s->plan.shard,
                                  .incarnation = f->setup.incarnation,
                                  .order = f->setup.order,
                                  .number = f->sent + 1};
    struct rpc_call_options options = {
        .deadline_ms = f->setup.replica ? FEEDER_REPLICA_MS : FEEDER_CALL_MS,
        .wait_for_ready = true};
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (wire_head_follow(&msg, &m, b->bytes) != SL_OK) {
        batch_free(b);
        return sl_no_memory(err);
    }
    for (unsigned i = 0; i < b->count; i++)
        rpc_msg_part(&msg, b->record[i]->data, b->record[i]->bytes);
    rpc_msg_on_release(&msg, batch_free, b);
    if (!feeder_may_start(f)) {
        rpc_msg_drop(&msg); // and the records
        return sl_fail(err, SL_ECANCELED, "the feed was given up");
    }
    f->sent += b->count;
    f->bytes = b->bytes;
    options.deadline_ms += feed_link_enter(f->link, f->bytes);
    atomic_fetch_add(&f->uses, 1);
    rpc_call_start(f->link->channel, WIRE_FOLLOW, &msg, &options,
                   feeder_on_answer, f, &f->ticket);
    feeder_started(f);
    return SL_OK;
}

// Says whether a replica has all that there is: then the next operation goes
// on.
static bool feeder_rests(struct feeder *f)
{
    bool rests;

    pthread_mutex_lock(&f->starts.lock);
    rests = !f->starts.more;
    f->starts.more = false;
    f->starts.busy = !rests;
    pthread_mutex_unlock(&f->starts.lock);
    return rests;
}

// Sends what is next; the shard stops first if little is left.
static void feeder_step(struct feeder *f)
{
    struct feeder_batch *b = sl_calloc(1, sizeof(*b));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = b == NULL ? sl_no_memory(&err) : SL_OK;
    bool none;

    if (rc == SL_OK) {
        if (f->setup.replica)
            (void)replica_bind(f->setup.shard, f->setup.order, f->first,
                               f->setup.follow ? REPLICA_FOLLOWS
                                               : REPLICA_ACKS);
        else
            (void)shard_feed_hand_over(f->setup.shard, f->setup.order,
                                       FEEDER_LEFT_BYTES);
        do
            rc = batch_fill(b, f, &err);
        while (rc == SL_OK && b->count == 0 && !feeder_rests(f));
        none = b->count == 0;
        if (rc != SL_OK || none)
            batch_free(b);
        if (rc == SL_OK && none)
            return;
    }
    if (rc == SL_OK)
        rc = feeder_send(f, b, &err);
    if (rc != SL_OK)
        feeder_end(f, rc, &err);
}

// Notes what is acknowledged; returns true if that is all of a feed that has
// ended.
static bool feeder_acked(struct feeder *f, uint64_t applied)
{
    bool whole = shard_feed_acked(f->setup.shard, f->setup.order, applied);

    if (f->setup.replica && f->setup.acked != NULL)
        f->setup.acked(f->setup.acked_arg, f->setup.shard);
    return whole;
}

static void feeder_on_ready(void *arg)
{
    struct feeder *f = arg;

    if (!f->freed)
        f->setup.ready(f->setup.arg);
    feeder_unuse(f);
}

static void feeder_tell_ready(struct feeder *f)
{
    if (!f->setup.replica || f->told ||
        !replica_has_all(f->setup.shard, f->setup.order))
        return;
    f->told = true;
    atomic_fetch_add(&f->uses, 1);
    loop_post_task(f->setup.links->loop, &f->ready, feeder_on_ready, f);
}

static void feeder_on_answer(void *arg, enum sl_err code,
                             const struct sl_error *err,
                             const struct sl_slices *reply)
{
    struct feeder *f = arg;
    struct sl_error why = SL_ERROR_INIT;
    struct wire_follow_reply m = {0};
    enum sl_err rc = code;
    bool whole = false;

    feed_link_leave(f->link, f->bytes);
    if (rc == SL_OK)
        rc = wire_read_follow_reply(&m, reply, &why);
    else if (err != NULL)
        why = *err;
    if (rc == SL_OK && m.applied != f->sent)
        rc =
            sl_fail(&why, SL_ECORRUPT,
                    "the follower has applied operation %llu, not %llu",
                    (unsigned long long)m.applied, (unsigned long long)f->sent);
    if (rc == SL_OK)
        whole = feeder_acked(f, m.applied);
    if (rc == SL_OK)
        feeder_tell_ready(f);
    if (rc == SL_OK && m.whole && !whole)
        rc = sl_fail(&why, SL_ECORRUPT,
                     "the follower says that it is whole, and the feed has not "
                     "ended, or the shard goes on");
    if (rc != SL_OK || m.whole)
        feeder_end(f, rc, &why);
    else
        feeder_step(f);
    feeder_unuse(f);
}

enum sl_err feeder_new(struct feeder **out, const struct feeder_setup *setup,
                       struct sl_error *err)
{
    struct feeder *f = sl_calloc(1, sizeof(*f));
    enum sl_err rc;

    if (f == NULL)
        return sl_no_memory(err);
    rc =
        feed_links_take(&f->link, setup->links, setup->address,
                        setup->shard->plan.job + setup->shard->plan.shard, err);
    if (rc != SL_OK) {
        sl_free(f);
        return rc;
    }
    f->setup = *setup;
    atomic_init(&f->uses, 1);
    shard_ref(f->setup.shard);
    pthread_mutex_init(&f->starts.lock, NULL);
    pthread_cond_init(&f->starts.idle, NULL);
    *out = f;
    return SL_OK;
}

static void feeder_step_there(void *arg)
{
    feeder_step(arg);
    feeder_unuse(arg);
}

// The log has more: if no call is under way, one begins.
static void feeder_kick(void *arg, bool here)
{
    struct feeder *f = arg;
    bool begins;

    pthread_mutex_lock(&f->starts.lock);
    begins = !f->starts.busy && !f->starts.stopping;
    if (begins)
        f->starts.busy = true;
    else
        f->starts.more = true;
    pthread_mutex_unlock(&f->starts.lock);
    if (begins && here && !f->setup.follow) {
        feeder_step(f);
    } else if (begins) {
        atomic_fetch_add(&f->uses, 1);
        rpc_io_call(f->setup.links->io, feeder_step_there, f);
    }
}

void feeder_start(struct feeder *f)
{
    if (f->setup.replica) {
        f->first = replica_lag(f->setup.shard); // none is acknowledged
        shard_feed_wake(f->setup.shard, feeder_kick, f);
    }
    feeder_kick(f, true);
}

// A call that is cancelled ends when its peer reads, so it is not waited for:
// other shards share the connection.
void feeder_free(struct feeder *f)
{
    if (f == NULL)
        return;
    if (f->setup.replica)
        shard_feed_wake(f->setup.shard, NULL, NULL);
    pthread_mutex_lock(&f->starts.lock);
    f->starts.stopping = true;
    while (f->starts.starting > 0)
        pthread_cond_wait(&f->starts.idle, &f->starts.lock);
    pthread_mutex_unlock(&f->starts.lock);
    f->freed = true;
    rpc_cancel(f->link->channel, f->ticket);
    feeder_unuse(f);
}
