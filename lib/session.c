// SPDX-License-Identifier: Apache-2.0
// lib/session.c -- a session: the stream to the coordinator, the thread that
// keeps it, and the queue of leases between that and the user's thread.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/deadline.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/run/log.h"
#include "lib/ring.h"
#include "proto/access.h"
#include "trainer/lease/lease.h"

// For the coordinator to take what is said last: a program whose coordinator
// hangs is to end within 2 s.
#define GOODBYE_MS 1500
#define SHM_MIN (32 << 10) // a smaller payload fits the call's packet
#define GRACE_MS 25000
#define DRAIN_WAIT_MS 1000   // for a step under way to end when it drains
#define DRAIN_ROUND_MS 10000 // for a round that other ranks are to end

// ---- the runner: leases come on the loop's thread

static void session_enqueue(void *arg, struct lease *l)
{
    struct sluice *s = arg;

    pthread_mutex_lock(&s->shared.lock);
    list_push_back(&s->shared.queue, &l->queued);
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
}

static void session_forget_job(void *arg, uint64_t job)
{
    struct sluice *s = arg;
    uint64_t *more;

    pthread_mutex_lock(&s->shared.lock);
    if (s->shared.ended_count == s->shared.ended_capacity) {
        size_t n = 2 * s->shared.ended_capacity + 4;

        more = sl_realloc_array(s->shared.ended, n, sizeof(*more));
        if (more != NULL) {
            s->shared.ended = more;
            s->shared.ended_capacity = n;
        }
    }
    if (s->shared.ended_count < s->shared.ended_capacity)
        s->shared.ended[s->shared.ended_count++] = job;
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
}

static const char *session_device(void *arg)
{
    return ((struct sluice *)arg)->device;
}

// ---- the stream, on the loop's thread

static void set_attached(struct sluice *s, bool attached, const char *why)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.attached = attached;
    snprintf(s->shared.why, sizeof(s->shared.why), "%s", why);
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
}

static bool session_on_welcome(void *arg, const Sluice__V1__Welcome *m)
{
    return worker_member_welcome(((struct sluice *)arg)->member, m);
}

static void session_on_attached(void *arg)
{
    set_attached(arg, true, "");
}

static void session_on_unattached(void *arg, const char *why)
{
    set_attached(arg, false, why);
}

static void session_set_gone(struct sluice *s)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.gone = true;
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
}

static bool session_is(struct sluice *s, const bool *shared)
{
    bool is;

    pthread_mutex_lock(&s->shared.lock);
    is = *shared;
    pthread_mutex_unlock(&s->shared.lock);
    return is;
}

static bool is_draining(struct sluice *s)
{
    return session_is(s, &s->shared.draining);
}

static void session_on_lost(void *arg)
{
    struct sluice *s = arg;

    worker_member_lost(s->member);
    if (is_draining(s) && worker_member_leases(s->member) == 0)
        session_set_gone(s);
}

static void session_on_down(void *arg, const Sluice__V1__AttendDown *m)
{
    worker_member_down(((struct sluice *)arg)->member, m);
}

static void session_on_beat(void *arg)
{
    worker_member_beat(((struct sluice *)arg)->member);
}

static void session_on_renewed(void *arg)
{
    worker_member_renewed(((struct sluice *)arg)->member);
}

// Nothing is leased any more: what was said last goes out before the end.
static void session_on_drained(void *arg)
{
    struct sluice *s = arg;

    if (!attendee_close(s->attend))
        session_set_gone(s);
}

// Another rank may be waiting for a psserver that is gone: without a limit the
// round, and we with it, would wait as long.
static void session_on_overdue(void *arg)
{
    struct sluice *s = arg;

    pthread_mutex_lock(&s->shared.lock);
    s->shared.overdue = true;
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
}

// ---- start

static void *session_run_loop(void *arg)
{
    loop_run(((struct sluice *)arg)->loop);
    return NULL;
}

static enum sl_err read_names(struct sluice *s, const struct sluice_options *o,
                              struct sl_error *err)
{
    char own[OWNSOCK_BYTES];

    s->coordinator = sl_strdup(lib_coordinator(own, o->coordinator));
    s->name = lib_name(o->name);
    s->job = o->job;
    s->by_range = o->by_range;
    s->local = o->local;
    s->waiting = o->waiting;
    s->waiting_arg = o->waiting_arg;
    s->device = sl_strdup(o->device != NULL ? o->device : "a program");
    if (s->coordinator == NULL || s->name == NULL || s->device == NULL)
        return sl_no_memory(err);
    if (o->local && o->by_range)
        return sl_fail(err, SL_EINVAL,
                       "local: a session by range keeps no vectors, which mode "
                       "local wants; open it without by_range");
    if (strlen(s->name) > 200 || s->name[0] == '\0')
        return sl_fail(err, SL_EINVAL, "name: 1 to 200 bytes");
    return rpc_addresses_check(s->coordinator, err);
}

static enum sl_err session_start_rpc(struct sluice *s,
                                     const struct sluice_options *o,
                                     struct sl_error *err)
{
    struct rpc_io_options io = {.threads = o->io_threads};
    const struct rpc_tls *with = s->tls.ca_file != NULL ? &s->tls : NULL;
    enum sl_err rc = rpc_io_new(&s->io, &io, err);

    if (rc == SL_OK)
        rc = rpc_channel_new(&s->channel, s->io, s->coordinator, with,
                             &access_to_coordinator, err);
    if (rc == SL_OK)
        rc = peers_new(&s->peers, s->io, with, err);
    // By range a psserver of this host would share memory for all of it.
    if (rc == SL_OK && !o->no_shm && !o->by_range)
        peers_share(s->peers, s->loop, sl_clock_real(), SHM_MIN);
    return rc;
}

static enum sl_err session_start_member(struct sluice *s, struct sl_error *err)
{
    struct worker_member_setup member = {.loop = s->loop,
                                         .clock = sl_clock_real(),
                                         .drained = session_on_drained,
                                         .grace_ms = GRACE_MS,
                                         .ring = listen_env(s),
                                         .arg = s};
    struct worker_member_runner runner = {.submit = session_enqueue,
                                          .forget = session_forget_job,
                                          .device = session_device,
                                          .arg = s,
                                          .away = ""};
    struct attendee_setup attend = {.loop = s->loop,
                                    .clock = sl_clock_real(),
                                    .channel = s->channel,
                                    .role = SLUICE__V1__ROLE__ROLE_WORKER,
                                    .name = s->name,
                                    .device = s->device,
                                    .external = true,
                                    .ranks = !s->by_range,
                                    .groups = !s->by_range,
                                    .own_steps = s->local,
                                    .no_store = s->store == NULL,
                                    .only_job = s->job,
                                    .welcome = session_on_welcome,
                                    .attached = session_on_attached,
                                    .unattached = session_on_unattached,
                                    .lost = session_on_lost,
                                    .down = session_on_down,
                                    .beat = session_on_beat,
                                    .renewed = session_on_renewed,
                                    .arg = s};
    enum sl_err rc = worker_member_new(&s->member, &member);

    if (rc != SL_OK)
        return sl_fail(err, rc, "no memory");
    rc = attendee_new(&s->attend, &attend, err);
    if (rc == SL_OK)
        worker_member_start(s->member, s->attend, &runner);
    return rc;
}

// In the worker's order; the loop does not run.
static void session_free(struct sluice *s)
{
    if (s->attend != NULL)
        attendee_stop(s->attend);
    if (s->member != NULL)
        worker_member_abandon(s->member);
    if (s->loop != NULL)
        loop_turn(s->loop); // what was given back last, while there are all
    jobs_free(s);
    listen_stop(s);
    rpc_channel_free(s->channel);
    attendee_free(s->attend);
    peers_free(s->peers);
    rpc_io_free(s->io);
    worker_member_free(s->member);
    loop_timer_free(s->overdue);
    loop_free(s->loop);
    listen_release(s);
    sl_free(s->shared.ended);
    pthread_cond_destroy(&s->shared.changed);
    pthread_mutex_destroy(&s->shared.lock);
    sl_free(s->coordinator);
    sl_free(s->name);
    sl_free(s->device);
    sl_free(s);
}

static enum sl_err session_start(struct sluice *s,
                                 const struct sluice_options *o,
                                 struct sl_error *err)
{
    enum sl_err rc = read_names(s, o, err);

    if (rc == SL_OK && !history_on())
        history_open("worker", s->name); // the process has one
    if (rc == SL_OK)
        rc = listen_init(s, o, err);
    if (rc == SL_OK)
        rc = loop_new(&s->loop, err);
    if (rc == SL_OK &&
        loop_timer_new(&s->overdue, s->loop, session_on_overdue, s) != SL_OK)
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        rc = session_start_rpc(s, o, err);
    if (rc == SL_OK)
        rc = session_start_member(s, err);
    if (rc != SL_OK)
        return rc;
    attendee_start(s->attend);
    if (pthread_create(&s->thread, NULL, session_run_loop, s) != 0)
        return sl_fail(err, SL_ENOMEM, "cannot start a thread");
    pthread_setname_np(s->thread, "sluice");
    s->started = true;
    return SL_OK;
}

enum sl_err sluice_open(struct sluice **out, const struct sluice_options *o,
                        struct sl_error *err)
{
    struct sluice_options all = {.size = sizeof(all)};
    struct sluice *s;
    enum sl_err rc;

    if (o != NULL && o->size < sizeof(o->size))
        return sl_fail(err, SL_EINVAL,
                       "options.size is %zu; set it to sizeof(options)",
                       o->size);
    if (o != NULL)
        memcpy(&all, o, o->size < sizeof(all) ? o->size : sizeof(all));
    lib_log_once();
    s = sl_calloc(1, sizeof(*s));
    if (s == NULL)
        return sl_no_memory(err);
    list_init(&s->jobs);
    list_init(&s->shared.queue);
    pthread_mutex_init(&s->shared.lock, NULL);
    pthread_cond_init(&s->shared.changed, NULL);
    rc = session_start(s, &all, err);
    if (rc != SL_OK) {
        session_free(s);
        return rc;
    }
    *out = s;
    return SL_OK;
}

// ---- waiting

enum sl_err sluice_attach(struct sluice *s, int64_t wait_ms,
                          struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_or_never(&d, wait_ms);
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&s->shared.lock);
    while (!s->shared.attached &&
           deadline_wait(until, &s->shared.changed, &s->shared.lock))
        ;
    if (!s->shared.attached)
        rc = sl_fail(
            err, SL_ETIMEDOUT, "%s: no coordinator took us: %s", s->coordinator,
            s->shared.why[0] != '\0' ? s->shared.why : "it says nothing");
    pthread_mutex_unlock(&s->shared.lock);
    return rc;
}

// ---- the end

static void session_drain(void *arg)
{
    struct sluice *s = arg;

    loop_timer_start(s->overdue, DRAIN_ROUND_MS, 0);
    worker_member_drain(s->member, "");
    if (worker_member_drained(s->member))
        session_on_drained(s);
}

void sluice_drain(struct sluice *s)
{
    bool first;

    pthread_mutex_lock(&s->shared.lock);
    first = !s->shared.draining;
    if (first)
        s->shared.drain_ends_ms = sl_real_ms() + DRAIN_WAIT_MS;
    s->shared.draining = true;
    pthread_cond_broadcast(&s->shared.changed);
    pthread_mutex_unlock(&s->shared.lock);
    if (first && loop_post(s->loop, session_drain, s) != SL_OK)
        session_set_gone(s); // without memory it leaves without a word
}

// Hands back what waits, and what is leased before the coordinator has heard
// that we leave, until it has taken all of that.
static void session_say_goodbye(struct sluice *s)
{
    struct deadline until = deadline_in_ms(GOODBYE_MS);
    bool in_time = true;

    pthread_mutex_lock(&s->shared.lock);
    while (!s->shared.gone && in_time) {
        if (list_empty(&s->shared.queue)) {
            in_time =
                deadline_wait(&until, &s->shared.changed, &s->shared.lock);
            continue;
        }
        pthread_mutex_unlock(&s->shared.lock);
        (void)sluice_take(s, 0, NULL, NULL);
        pthread_mutex_lock(&s->shared.lock);
    }
    pthread_mutex_unlock(&s->shared.lock);
}

void sluice_close(struct sluice *s)
{
    if (s == NULL)
        return;
    sluice_drain(s);
    if (s->open != NULL)
        sluice_finish(s->open, "the program is leaving");
    if (s->ring != NULL)
        ring_stop(s, "the program is leaving", NULL, false);
    session_say_goodbye(s);
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    (void)sluice_take(s, 0, NULL, NULL); // what came meanwhile
    session_free(s);
}

// ---- the queue

// The next lease that may run; what may not is given back.
static struct lease *pop(struct sluice *s)
{
    struct lease *l = NULL;

    for (;;) {
        struct list_node *n;

        pthread_mutex_lock(&s->shared.lock);
        n = list_pop_front(&s->shared.queue);
        pthread_mutex_unlock(&s->shared.lock);
        if (n == NULL)
            return NULL;
        l = list_entry(n, struct lease, queued);
        atomic_store(&l->running, true);
        if (is_draining(s))
            gate_close(&l->gate, GATE_DRAIN);
        if (gate_look(&l->gate, sl_clock_real()) == GATE_OPEN)
            return l;
        lease_stopped(l);
        session_done(s, l);
    }
}

static bool pop_ended(struct sluice *s, uint64_t *job)
{
    bool any;

    pthread_mutex_lock(&s->shared.lock);
    any = s->shared.ended_count > 0;
    if (any)
        *job = s->shared.ended[--s->shared.ended_count];
    pthread_mutex_unlock(&s->shared.lock);
    return any;
}

static bool session_has_news_locked(const struct sluice *s)
{
    if (s->ring != NULL)
        return slot_news_locked(&s->ring->slot) || s->shared.overdue;
    return !list_empty(&s->shared.queue) || s->shared.ended_count > 0 ||
           s->shared.draining;
}

// Until there is something to look at; false: it took too long.
static bool wait_for_news(struct sluice *s, const struct deadline *until)
{
    bool there = true;

    pthread_mutex_lock(&s->shared.lock);
    while (there && !session_has_news_locked(s))
        there = deadline_wait(until, &s->shared.changed, &s->shared.lock);
    pthread_mutex_unlock(&s->shared.lock);
    return there;
}

// A place in a ring: it runs from now on, whatever the program does.
static enum sl_err session_start_ring(struct sluice *s, struct lease *l,
                                      struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    uint64_t number = l->job; // the lease may be gone after session_done
    struct kept_job *job;
    enum sl_err rc = jobs_take(s, l, &job, &why);

    if (rc == SL_OK && job->ring == NULL && job->hybrid == NULL)
        rc = sl_fail(&why, SL_ENOTSUP, "the job's workers are no ranks");
    if (rc == SL_OK)
        rc = listen_start(s, &why);
    if (rc == SL_OK)
        rc = ring_start(s, l, job, &why);
    if (rc == SL_OK)
        return SL_OK;
    lease_fail(l, rc, &why);
    session_done(s, l);
    return sl_fail(err, rc, "job %" PRIu64 ": %s", number, why.text);
}

// One look: a closure, or what is to be said; SL_EBUSY: nothing.
static enum sl_err session_try_take(struct sluice *s,
                                    struct sluice_closure **out,
                                    struct sl_error *err)
{
    struct lease *l;
    uint64_t job;
    enum sl_err rc;

    if (s->ring != NULL && ring_reap(s, &rc, err) && rc != SL_OK)
        return rc;
    if (s->ring != NULL && session_is(s, &s->shared.overdue))
        ring_stop(s, "the session is leaving", NULL, false);
    if (s->ring != NULL) {
        rc = closure_of_slot(s, out, err);
        return rc != SL_OK || *out != NULL ? rc : SL_EBUSY;
    }
    l = pop(s);
    if (l != NULL && l->kind == LEASE_RING) {
        rc = session_start_ring(s, l, err);
        return rc == SL_OK ? SL_EBUSY : rc;
    }
    if (l != NULL && spec_hybrid(l->record->open->spec)) {
        lease_hand_back(l, "the worker's group has ended");
        session_done(s, l);
        return SL_EBUSY;
    }
    if (l != NULL)
        return closure_open(s, l, out, err);
    if (is_draining(s))
        return sl_fail(err, SL_ECANCELED, "the session is leaving");
    if (!pop_ended(s, &job))
        return SL_EBUSY;
    jobs_forget(s, job);
    return sl_fail(err, SL_ENOENT, "job %" PRIu64 " has ended", job);
}

enum sl_err sluice_take(struct sluice *s, int64_t wait_ms,
                        struct sluice_closure **out, struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_or_never(&d, wait_ms);
    bool there = true;

    if (s->open != NULL)
        return sl_fail(err, SL_ESTATE,
                       "a closure is under way: finish it first");
    for (;;) {
        enum sl_err rc = session_try_take(s, out, err);

        if (rc != SL_EBUSY)
            return rc;
        if (!there)
            return sl_fail(err, SL_ETIMEDOUT,
                           "no work arrived within the time");
        there = wait_for_news(s, until);
    }
}
