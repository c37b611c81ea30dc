// SPDX-License-Identifier: Apache-2.0
// state/shard/replica.c -- see replica.h.
#include "state/shard/replica.h"

static bool bound_locked(const struct shard *s, uint64_t order)
{
    return order != 0 && s->bound.order == order;
}

// Says whether the feed that the answers are bound to goes on.
static bool bound_fed_locked(const struct shard *s)
{
    return s->feed.order == s->bound.order && oplog_goes_on(&s->feed);
}

// A log that is half full may be on its way to overflow, which only workers
// that wait can keep from it.
static bool may_bind_locked(const struct shard *s, uint64_t order,
                            uint64_t after)
{
    return s->bound.order == 0 && order != 0 && s->feed.order == order &&
           oplog_goes_on(&s->feed) && !s->closed && s->incarnation != 0 &&
           (s->feed.acked >= after || s->feed.bytes > s->feed.most / 2);
}

bool replica_bind(struct shard *s, uint64_t order, uint64_t after,
                  enum replica_kind kind)
{
    bool bound;

    pthread_mutex_lock(&s->lock);
    if (may_bind_locked(s, order, after)) {
        if (s->feed.most < REPLICA_LOG_BYTES)
            s->feed.most = REPLICA_LOG_BYTES;
        shard_feed_put_locked(s, OPLOG_TAG, oplog_tag(s->sequence)); // K7
        s->bound.order = order;
        s->bound.mark = s->feed.last;
        atomic_store(&s->binds, kind == REPLICA_ACKS); // P6
    }
    bound = bound_locked(s, order);
    pthread_mutex_unlock(&s->lock);
    return bound;
}

bool replica_stands(struct shard *s, uint64_t order)
{
    bool stands;

    pthread_mutex_lock(&s->lock);
    stands = bound_locked(s, order) && !bound_fed_locked(s);
    pthread_mutex_unlock(&s->lock);
    return stands;
}

bool replica_has_all(struct shard *s, uint64_t order)
{
    bool has;

    pthread_mutex_lock(&s->lock);
    has = bound_locked(s, order) && bound_fed_locked(s) &&
          s->feed.acked >= s->bound.mark;
    pthread_mutex_unlock(&s->lock);
    return has;
}

bool replica_free(struct shard *s, uint64_t order)
{
    bool bound;

    pthread_mutex_lock(&s->lock);
    bound = bound_locked(s, order);
    if (bound) {
        if (s->feed.order == order)
            shard_feed_stop_locked(s, "its replica has left the set");
        s->bound.order = 0;
        atomic_store(&s->binds, false);
    }
    pthread_mutex_unlock(&s->lock);
    return bound;
}

uint64_t replica_bound(struct shard *s)
{
    uint64_t order;

    pthread_mutex_lock(&s->lock);
    order = s->bound.order;
    pthread_mutex_unlock(&s->lock);
    return order;
}

uint64_t replica_lag(struct shard *s)
{
    uint64_t lag;

    pthread_mutex_lock(&s->lock);
    lag = s->feed.last - s->feed.acked;
    pthread_mutex_unlock(&s->lock);
    return lag;
}

// A shard that was bound after the last look at `binds` has its mark above all
// that was done until then (replica_bind), so no answer slips through.
bool replica_mark(struct shard *s, struct replica_mark *out)
{
    bool waits;

    if (!atomic_load(&s->binds))
        return false;
    pthread_mutex_lock(&s->lock);
    *out = (struct replica_mark){s->bound.order, s->feed.last};
    if (!bound_fed_locked(s)) // operations of now are in no log
        out->number = UINT64_MAX;
    waits = s->bound.order != 0 &&
            (out->number == UINT64_MAX || out->number > s->feed.acked);
    pthread_mutex_unlock(&s->lock);
    return waits;
}

enum replica_state replica_state(struct shard *s,
                                 const struct replica_mark *mark)
{
    enum replica_state is = REPLICA_WAITS;

    pthread_mutex_lock(&s->lock);
    if (s->closed)
        is = REPLICA_CLOSED;
    else if (s->bound.order != mark->order ||
             (mark->number != UINT64_MAX && s->feed.order == mark->order &&
              mark->number <= s->feed.acked))
        is = REPLICA_ACKED;
    pthread_mutex_unlock(&s->lock);
    return is;
}
