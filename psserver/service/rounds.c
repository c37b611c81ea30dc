// SPDX-License-Identifier: Apache-2.0
// psserver/service/rounds.c -- the list of pulls that wait for their round.
#include "psserver/service/rounds.h"

// Answers calls that were taken off the list, without the lock.
static void answer_all(struct rounds *r, struct list *ready)
{
    struct list_node *n;

    while ((n = list_pop_front(ready)) != NULL) {
        struct rounds_wait *w = list_entry(n, struct rounds_wait, node);
        struct wire_pull pull = w->pull;
        struct shard *shard = w->shard;

        r->answer(r->arg, w->call, shard, &pull); // `w` is gone after this
        shard_unref(shard);
    }
}

static void take_locked(struct rounds *r, struct rounds_wait *w,
                        struct list *ready)
{
    list_remove(&w->node);
    list_push_back(ready, &w->node);
    r->_shared.count--;
}

static bool still_open(const struct rounds_wait *w)
{
    return shard_round_open(w->shard, w->pull.after_round_of - 1);
}

static void rounds_check_waits(void *arg)
{
    struct rounds *r = arg;
    struct list ready;

    list_init(&ready);
    pthread_mutex_lock(&r->_shared.lock);
    list_for_safe(n, &r->_shared.waits)
    {
        struct rounds_wait *w = list_entry(n, struct rounds_wait, node);

        if (++w->looks >= ROUNDS_LOOKS || !still_open(w))
            take_locked(r, w, &ready);
    }
    pthread_mutex_unlock(&r->_shared.lock);
    answer_all(r, &ready);
}

enum sl_err rounds_init(struct rounds *r, struct loop *loop,
                        void (*answer)(void *arg, struct rpc_call *call,
                                       struct shard *shard,
                                       const struct wire_pull *pull),
                        void *arg)
{
    *r = (struct rounds){.answer = answer, .arg = arg};
    pthread_mutex_init(&r->_shared.lock, NULL);
    list_init(&r->_shared.waits);
    if (loop_timer_new(&r->timer, loop, rounds_check_waits, r) != SL_OK) {
        pthread_mutex_destroy(&r->_shared.lock);
        return SL_ENOMEM;
    }
    loop_timer_start(r->timer, ROUNDS_LOOK_MS, ROUNDS_LOOK_MS);
    return SL_OK;
}

void rounds_stop(struct rounds *r)
{
    struct list ready;

    loop_timer_stop(r->timer);
    list_init(&ready);
    pthread_mutex_lock(&r->_shared.lock);
    r->_shared.stopped = true;
    list_for_safe(n, &r->_shared.waits)
    {
        take_locked(r, list_entry(n, struct rounds_wait, node), &ready);
    }
    pthread_mutex_unlock(&r->_shared.lock);
    answer_all(r, &ready);
}

void rounds_release(struct rounds *r)
{
    loop_timer_free(r->timer);
    pthread_mutex_destroy(&r->_shared.lock);
}

// The thread that applies the round does so before it looks at the list, and we
// look at the round with the list's lock held: so one of us sees the other.
bool rounds_wait(struct rounds *r, struct rpc_call *call, struct shard *shard,
                 const struct wire_pull *pull)
{
    struct rounds_wait *w = rpc_call_scratch(call, sizeof(*w));
    bool waits;

    if (w == NULL)
        return false;
    *w = (struct rounds_wait){.call = call, .shard = shard, .pull = *pull};
    pthread_mutex_lock(&r->_shared.lock);
    waits =
        !r->_shared.stopped && r->_shared.count < ROUNDS_MOST && still_open(w);
    if (waits) {
        shard_ref(shard);
        list_push_back(&r->_shared.waits, &w->node);
        r->_shared.count++;
    }
    pthread_mutex_unlock(&r->_shared.lock);
    return waits;
}

void rounds_applied(struct rounds *r, struct shard *shard)
{
    struct list ready;

    list_init(&ready);
    pthread_mutex_lock(&r->_shared.lock);
    list_for_safe(n, &r->_shared.waits)
    {
        struct rounds_wait *w = list_entry(n, struct rounds_wait, node);

        if (w->shard == shard && !still_open(w))
            take_locked(r, w, &ready);
    }
    pthread_mutex_unlock(&r->_shared.lock);
    answer_all(r, &ready);
}
