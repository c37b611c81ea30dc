// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_sentry.c -- a thread that looks after a server from time to
// time: what a peer owes comes to nobody's mind by an event.
#include "common/net/rpc_serve.h"

#include "common/base/deadline.h"

#define LOOK_MS 250

struct rpc_sentry {
    void (*look)(void *arg);
    void *arg;
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t stops;
    bool stopping;
};

static bool rpc_sentry_wait(struct rpc_sentry *s)
{
    struct deadline until = deadline_in_ms(LOOK_MS);
    bool goes_on;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping && deadline_wait(&until, &s->stops, &s->lock))
        ;
    goes_on = !s->stopping;
    pthread_mutex_unlock(&s->lock);
    return goes_on;
}

static void *rpc_sentry_run(void *arg)
{
    struct rpc_sentry *s = arg;

    while (rpc_sentry_wait(s))
        s->look(s->arg);
    return NULL;
}

struct rpc_sentry *rpc_sentry_start(void (*look)(void *arg), void *arg)
{
    struct rpc_sentry *s = gpr_zalloc(sizeof(*s));

    s->look = look;
    s->arg = arg;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stops, NULL);
    if (pthread_create(&s->id, NULL, rpc_sentry_run, s) == 0) {
        pthread_setname_np(s->id, "sentry");
        return s;
    }
    pthread_cond_destroy(&s->stops);
    pthread_mutex_destroy(&s->lock);
    gpr_free(s);
    return NULL;
}

void rpc_sentry_stop(struct rpc_sentry *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->stops);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->id, NULL);
    pthread_cond_destroy(&s->stops);
    pthread_mutex_destroy(&s->lock);
    gpr_free(s);
}
