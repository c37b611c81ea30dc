// SPDX-License-Identifier: Apache-2.0
// lib/done.c -- what closures ask of their session: the next lease, to give one
// back, and whether a call may wait on.
#include "lib/inner.h"

#include "common/base/clock.h"

static void session_on_done(void *arg)
{
    struct lease *l = arg;
    struct sluice *s = l->done_arg;

    worker_member_done(s->member, l);
}

void session_done(struct sluice *s, struct lease *l)
{
    l->done_arg = s;
    loop_post_task(s->loop, &l->done, session_on_done, l);
}

struct lease *session_next(struct sluice *s, const struct record *record)
{
    struct list_node *n;
    struct lease *l = NULL;

    pthread_mutex_lock(&s->shared.lock);
    n = list_first(&s->shared.queue);
    if (n != NULL && !s->shared.draining)
        l = list_entry(n, struct lease, queued);
    if (l != NULL && (l->record != record || l->kind != LEASE_TRAIN))
        l = NULL;
    if (l != NULL)
        list_remove(&l->queued);
    pthread_mutex_unlock(&s->shared.lock);
    return l;
}

static bool session_stays(struct sluice *s)
{
    bool stays;

    pthread_mutex_lock(&s->shared.lock);
    stays = !s->shared.draining || sl_real_ms() < s->shared.drain_ends_ms;
    pthread_mutex_unlock(&s->shared.lock);
    return stays;
}

bool session_patient(void *session)
{
    struct sluice *s = session;

    // Without the lock: it may drain.
    return session_stays(s) &&
           (s->waiting == NULL || s->waiting(s->waiting_arg));
}

bool session_ring_patient(void *session)
{
    struct sluice *s = session;

    return s->pulls ? session_patient(s) : session_stays(s);
}
