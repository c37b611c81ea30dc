// SPDX-License-Identifier: Apache-2.0
// lib/done.c -- what closures ask of their session: to give a lease back, and
// whether a call may wait on.
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
