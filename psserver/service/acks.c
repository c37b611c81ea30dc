// SPDX-License-Identifier: Apache-2.0
// psserver/service/acks.c -- the list of answers that wait for a replica.
#include "psserver/service/acks.h"

struct acks_one {
    struct list_node node;
    struct rpc_call *call;
    struct shard *shard; // a reference
    struct replica_mark mark;
    struct rpc_msg msg;
};

static void answer_unsaid(struct rpc_call *call, struct rpc_msg *msg,
                          const char *why)
{
    struct sl_error err = SL_ERROR_INIT;

    sl_fail(&err, SL_EUNAVAIL, "%s", why);
    rpc_answer(call, SL_EUNAVAIL, &err, msg);
}

static void answer_closed(struct rpc_call *call, struct rpc_msg *msg)
{
    answer_unsaid(
        call, msg,
        "the shard is not here any more; take the newest map and try again");
}

// Answers calls that were taken off the list, without the lock. `all`: whatever
// they wait for.
static void answer_ready(struct list *ready, bool all)
{
    struct list_node *n;

    while ((n = list_pop_front(ready)) != NULL) {
        struct acks_one *w = list_entry(n, struct acks_one, node);
        struct shard *shard = w->shard;

        if (all || replica_state(shard, &w->mark) == REPLICA_CLOSED)
            answer_closed(w->call, &w->msg); // `w` is gone after this
        else
            rpc_answer(w->call, SL_OK, NULL, &w->msg);
        shard_unref(shard);
    }
}

static void look(struct acks *a, const struct shard *shard)
{
    struct list ready;

    list_init(&ready);
    pthread_mutex_lock(&a->_shared.lock);
    list_for_safe(n, &a->_shared.waits)
    {
        struct acks_one *w = list_entry(n, struct acks_one, node);

        if ((shard == NULL || w->shard == shard) &&
            replica_state(w->shard, &w->mark) != REPLICA_WAITS) {
            list_remove(&w->node);
            list_push_back(&ready, &w->node);
        }
    }
    pthread_mutex_unlock(&a->_shared.lock);
    answer_ready(&ready, false);
}

static void answer_late(struct list *late)
{
    struct list_node *n;

    while ((n = list_pop_front(late)) != NULL) {
        struct acks_one *w = list_entry(n, struct acks_one, node);
        struct shard *shard = w->shard;

        answer_unsaid(w->call, &w->msg,
                      "the replica of the shard has not acknowledged what it "
                      "has counted; ask again");
        shard_unref(shard);
    }
}

// Ends waits whose callers wait no longer: a worker asks again and again, for
// as long as a shard stands.
static void look_for_late(struct acks *a)
{
    struct list late;

    list_init(&late);
    pthread_mutex_lock(&a->_shared.lock);
    list_for_safe(n, &a->_shared.waits)
    {
        if (rpc_call_left_ms(list_entry(n, struct acks_one, node)->call) > 0)
            continue;
        list_remove(n);
        list_push_back(&late, n);
    }
    pthread_mutex_unlock(&a->_shared.lock);
    answer_late(&late);
}

static void acks_on_timer(void *arg)
{
    look(arg, NULL);
    look_for_late(arg);
}

enum sl_err acks_init(struct acks *a, struct loop *loop)
{
    *a = (struct acks){0};
    pthread_mutex_init(&a->_shared.lock, NULL);
    list_init(&a->_shared.waits);
    if (loop_timer_new(&a->timer, loop, acks_on_timer, a) != SL_OK) {
        pthread_mutex_destroy(&a->_shared.lock);
        return SL_ENOMEM;
    }
    loop_timer_start(a->timer, ACKS_LOOK_MS, ACKS_LOOK_MS);
    return SL_OK;
}

void acks_stop(struct acks *a)
{
    struct list ready;
    struct list_node *n;

    loop_timer_stop(a->timer);
    list_init(&ready);
    pthread_mutex_lock(&a->_shared.lock);
    a->_shared.stopped = true;
    while ((n = list_pop_front(&a->_shared.waits)) != NULL)
        list_push_back(&ready, n);
    pthread_mutex_unlock(&a->_shared.lock);
    answer_ready(&ready, true);
}

void acks_release(struct acks *a)
{
    loop_timer_free(a->timer);
    pthread_mutex_destroy(&a->_shared.lock);
}

// What acknowledges changes the shard before it looks at the list, and we look
// at the shard with the list's lock held: so one of us sees the other.
bool acks_wait(struct acks *a, struct rpc_call *call, struct shard *shard,
               struct rpc_msg *msg)
{
    struct replica_mark mark;
    struct acks_one *w;
    bool waits, stopped;

    if (!replica_mark(shard, &mark))
        return false;
    w = rpc_call_scratch(call, sizeof(*w));
    if (w == NULL) {
        answer_closed(call, msg);
        return true;
    }
    *w = (struct acks_one){.call = call, .shard = shard, .mark = mark};
    // Two psservers that replicate to each other would else wait for each
    // other's room.
    rpc_call_drop_body(call);
    pthread_mutex_lock(&a->_shared.lock);
    stopped = a->_shared.stopped;
    waits = !stopped && replica_state(shard, &mark) != REPLICA_ACKED;
    if (waits) {
        shard_ref(shard);
        rpc_msg_move(&w->msg, msg);
        list_push_back(&a->_shared.waits, &w->node);
    }
    pthread_mutex_unlock(&a->_shared.lock);
    if (stopped)
        answer_closed(call, msg);
    return waits || stopped;
}

void acks_look(struct acks *a, const struct shard *shard)
{
    look(a, shard);
}
