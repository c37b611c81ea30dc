// SPDX-License-Identifier: Apache-2.0
// lib/serving.c -- a worker for tasks: one call brings results, renews what is
// held, and takes more.
//
//   loop's thread    Work -> held;  results -> Work
//   user's thread    take: the first of `held` that was not begun;  end
//
// So much is held as is done in HOLD_US, so that a handler that takes
// microseconds does not wait for the network, and one that takes minutes keeps
// nothing from others.
#include "lib/tasks.h"

#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "lib/inner.h"
#include "lib/link.h"

// A worker holds as many tasks as last HOLD_US: then a handler of microseconds
// does not wait for the network, and one of minutes keeps no task from others.
#define HOLD_US 20000
#define HOLD_MOST 256
#define BATCH_BYTES ((size_t)2 << 20) // of one call, and one more result
#define CALL_MS 10000
#define WAIT_MS 10000
#define LEASE_MS 2000 // until the coordinator has said
#define GOODBYE_MS 2000
#define ERROR_BYTES 4096

struct held_task { // a task from its lease until its end is sent
    struct list_node node;
    uint64_t id;
    uint32_t attempt;
    bool begun, gone; // gone: its result is not wanted
    size_t bytes;
    const char *name;
    uint8_t body[];
};

struct done { // a result until it has arrived
    struct list_node node;
    uint64_t id;
    bool failed, sent;
    size_t bytes;
    uint8_t result[]; // or the error, a string
};

struct sluice_serving {
    struct link link;
    char *queue, *name; // owned
    char **handlers;    // owned, and each
    size_t handlers_count;
    uint64_t process;

    // The loop's.
    struct link_line work;
    struct loop_timer *again, *renew;
    bool late;      // a call failed: nothing is started before the timer
    bool renew_due; // leases are to be renewed
    bool left;      // it was said that we leave
    bool leaving;   // the call under way says so
    bool parked;    // it waits for tasks
    uint32_t lease_ms;

    uint64_t began_us; // the user's: the task under way

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list held, results;
        uint64_t each_us;            // what a task takes, on average
        uint32_t waiting;            // held and not begun
        bool kicked, draining, gone; // gone: nothing is held or unsent
        struct loop_task kick;
        enum sl_err broken;
        struct sl_error why;
    } shared;
};

static void serving_lock(struct sluice_serving *s)
{
    pthread_mutex_lock(&s->shared.lock);
}

static void serving_unlock(struct sluice_serving *s)
{
    pthread_mutex_unlock(&s->shared.lock);
}

// ---- a call, on the loop

struct work_call { // what its message points into
    Sluice__V1__TaskWork m;
    Sluice__V1__TaskResult result[WIRE_TASKS_MAX], *results[WIRE_TASKS_MAX];
    uint64_t held[WIRE_TASKS_MAX];
};

static void add_results(struct sluice_serving *s, struct work_call *c)
{
    size_t bytes = 0;

    list_for(n, &s->shared.results)
    {
        struct done *d = list_entry(n, struct done, node);
        Sluice__V1__TaskResult *r = &c->result[c->m.n_ended];

        if (c->m.n_ended == WIRE_TASKS_MAX || bytes > BATCH_BYTES)
            break;
        *r = (Sluice__V1__TaskResult)SLUICE__V1__TASK_RESULT__INIT;
        r->id = d->id;
        r->failed = d->failed;
        if (d->failed)
            r->error = (char *)d->result;
        else
            r->result = (ProtobufCBinaryData){d->bytes, d->result};
        c->results[c->m.n_ended++] = r;
        d->sent = true;
        bytes += d->bytes;
    }
    c->m.ended = c->results;
}

static void add_held(struct sluice_serving *s, struct work_call *c)
{
    list_for(n, &s->shared.held)
    {
        if (c->m.n_held < WIRE_TASKS_MAX)
            c->held[c->m.n_held++] = list_entry(n, struct held_task, node)->id;
    }
    // Tasks with results that do not fit into this call are still held.
    list_for(n, &s->shared.results)
    {
        struct done *d = list_entry(n, struct done, node);

        if (!d->sent && c->m.n_held < WIRE_TASKS_MAX)
            c->held[c->m.n_held++] = d->id;
    }
    c->m.held = c->held;
}

static uint32_t serving_room_locked(const struct sluice_serving *s)
{
    uint64_t want = s->shared.each_us == UINT64_MAX
                        ? 1
                        : HOLD_US / (s->shared.each_us + 1) + 1;

    if (want > HOLD_MOST)
        want = HOLD_MOST;
    return want > s->shared.waiting ? (uint32_t)want - s->shared.waiting : 0;
}

// Whether there is something to say; then *c says it.
static bool fill_locked(struct sluice_serving *s, struct work_call *c)
{
    bool idle = list_empty(&s->shared.held);

    if (list_empty(&s->shared.results) && !s->renew_due && !idle)
        return false;
    c->m = (Sluice__V1__TaskWork)SLUICE__V1__TASK_WORK__INIT;
    c->m.queue = s->queue;
    c->m.worker = s->name;
    c->m.process = s->process;
    c->m.handlers = s->handlers;
    c->m.n_handlers = s->handlers_count;
    add_results(s, c);
    add_held(s, c);
    if (s->shared.draining)
        c->m.leave = idle;
    else
        c->m.take = serving_room_locked(s);
    if (idle && c->m.n_ended == 0)
        c->m.wait_ms = WAIT_MS;
    s->leaving = c->m.leave;
    s->parked = c->m.wait_ms > 0;
    return true;
}

static void serving_pump(struct sluice_serving *s)
{
    struct work_call *c;

    if (s->work.busy || s->late || s->left)
        return;
    c = sl_malloc(sizeof(*c));
    if (c == NULL) {
        s->late = true;
        loop_timer_start(s->again, LINK_AGAIN_MS, 0);
        return;
    }
    serving_lock(s); // packed under it
    if (s->shared.broken == SL_OK && fill_locked(s, c)) {
        s->renew_due = false;
        line_call(&s->work, &c->m.base, CALL_MS + c->m.wait_ms);
        loop_timer_start(s->renew, s->lease_ms / 3, 0);
    }
    serving_unlock(s);
    sl_free(c);
}

// ---- its answer, on the loop

// Frees the results in the call if it arrived, else has them sent again.
static void serving_ack_results_locked(struct sluice_serving *s, bool arrived)
{
    list_for_safe(n, &s->shared.results)
    {
        struct done *d = list_entry(n, struct done, node);

        if (d->sent && arrived) {
            list_remove(n);
            sl_free(d);
        } else {
            d->sent = false;
        }
    }
}

static void serving_drop_locked(struct sluice_serving *s, uint64_t id)
{
    list_for_safe(n, &s->shared.held)
    {
        struct held_task *h = list_entry(n, struct held_task, node);

        if (h->id != id)
            continue;
        h->gone = true;
        if (!h->begun) {
            s->shared.waiting--;
            list_remove(n);
            sl_free(h);
        }
        return;
    }
}

// Adds a task that the coordinator gave. Without memory it is left out: as it
// is not reported as held, the coordinator gives it to another worker.
static void serving_add_locked(struct sluice_serving *s,
                               const Sluice__V1__TaskGiven *g)
{
    size_t text = strlen(g->name) + 1;
    struct held_task *h = sl_malloc(sizeof(*h) + g->body.len + text);

    if (h == NULL)
        return;
    memset(h, 0, sizeof(*h));
    h->id = g->id;
    h->attempt = g->attempt;
    h->bytes = g->body.len;
    if (h->bytes > 0)
        memcpy(h->body, g->body.data, h->bytes);
    h->name = memcpy(h->body + h->bytes, g->name, text);
    list_push_back(&s->shared.held, &h->node);
    s->shared.waiting++;
}

// Drops the tasks that were not begun, for the coordinator to give elsewhere.
static void forget_waiting_locked(struct sluice_serving *s)
{
    list_for_safe(n, &s->shared.held)
    {
        struct held_task *h = list_entry(n, struct held_task, node);

        if (!h->begun) {
            list_remove(n);
            sl_free(h);
        }
    }
    s->shared.waiting = 0;
}

static void serving_apply_reply(struct sluice_serving *s,
                                const Sluice__V1__TaskWorkReply *m)
{
    serving_lock(s);
    serving_ack_results_locked(s, true);
    for (size_t i = 0; i < m->n_gone; i++)
        serving_drop_locked(s, m->gone[i]);
    for (size_t i = 0; i < m->n_tasks; i++)
        serving_add_locked(s, m->tasks[i]);
    if (s->shared.draining)
        forget_waiting_locked(s);
    if (s->leaving && list_empty(&s->shared.results) &&
        list_empty(&s->shared.held))
        s->left = s->shared.gone = true;
    pthread_cond_broadcast(&s->shared.changed);
    serving_unlock(s);
}

static void on_worked(void *arg, enum sl_err rc, const struct sl_error *err,
                      const ProtobufCMessage *reply)
{
    struct sluice_serving *s = arg;
    bool again = true;

    if (rc == SL_OK) {
        const Sluice__V1__TaskWorkReply *m =
            (const Sluice__V1__TaskWorkReply *)reply;

        if (m->lease_ms >= 10)
            s->lease_ms = m->lease_ms;
        serving_apply_reply(s, m);
        serving_pump(s);
        return;
    }
    serving_lock(s);
    serving_ack_results_locked(s, false);
    if (!link_may_retry(rc)) {
        s->shared.broken = rc;
        s->shared.why = *err;
        s->shared.gone = true;
        again = false;
        pthread_cond_broadcast(&s->shared.changed);
    }
    // Cancelled by ourselves, to leave: no reason to wait.
    s->late = again && !(rc == SL_ECANCELED && s->shared.draining);
    serving_unlock(s);
    if (s->late)
        loop_timer_start(s->again, LINK_AGAIN_MS, 0);
    else
        serving_pump(s);
}

static void serving_on_retry(void *arg)
{
    struct sluice_serving *s = arg;

    s->late = false;
    serving_pump(s);
}

static void on_renew(void *arg)
{
    struct sluice_serving *s = arg;

    s->renew_due = true;
    loop_timer_start(s->renew, s->lease_ms / 3, 0);
    serving_pump(s);
}

static void serving_on_kick(void *arg)
{
    struct sluice_serving *s = arg;
    bool leave;

    if (s->link.over) // the channel and the timers are gone
        return;
    serving_lock(s);
    s->shared.kicked = false;
    leave = s->shared.draining;
    if (leave)
        forget_waiting_locked(s);
    serving_unlock(s);
    if (leave && s->parked)
        line_cancel(&s->work);            // for tasks that we do not want
    s->renew_due = s->renew_due || leave; // so they go back at once
    serving_pump(s);
}

static void kick_locked(struct sluice_serving *s)
{
    if (s->shared.kicked)
        return;
    s->shared.kicked = true;
    loop_post_task(s->link.loop, &s->shared.kick, serving_on_kick, s);
}

// ---- the user's

static struct held_task *first_waiting(struct sluice_serving *s)
{
    list_for(n, &s->shared.held)
    {
        struct held_task *h = list_entry(n, struct held_task, node);

        if (!h->begun)
            return h;
    }
    return NULL;
}

static enum sl_err serving_check_running(struct sluice_serving *s,
                                         struct sl_error *err)
{
    if (s->shared.broken != SL_OK) {
        if (err != NULL)
            *err = s->shared.why;
        return s->shared.broken;
    }
    return s->shared.draining ? sl_fail(err, SL_ECANCELED, "draining") : SL_OK;
}

enum sl_err sluice_serving_take(struct sluice_serving *s, int64_t wait_ms,
                                struct sluice_task *out, struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_or_never(&d, wait_ms);
    struct held_task *h = NULL;
    enum sl_err rc;

    serving_lock(s);
    while ((rc = serving_check_running(s, err)) == SL_OK &&
           (h = first_waiting(s)) == NULL) {
        if (!deadline_wait(until, &s->shared.changed, &s->shared.lock)) {
            rc = sl_fail(err, SL_ETIMEDOUT, "no task arrived within the time");
            break;
        }
    }
    if (rc == SL_OK) {
        h->begun = true;
        s->shared.waiting--;
        s->began_us = sl_real_us();
        *out =
            (struct sluice_task){h->id, h->attempt, h->name, h->body, h->bytes};
    }
    serving_unlock(s);
    return rc;
}

static struct held_task *find_begun(struct sluice_serving *s, uint64_t id)
{
    list_for(n, &s->shared.held)
    {
        struct held_task *h = list_entry(n, struct held_task, node);

        if (h->id == id)
            return h->begun ? h : NULL;
    }
    return NULL;
}

// A quarter of the newest, and half of a task that took long: what is held is
// soon what it should be.
static void meter_locked(struct sluice_serving *s)
{
    uint64_t took = sl_real_us() - s->began_us;
    uint64_t *each = &s->shared.each_us;

    if (*each == UINT64_MAX)
        *each = took;
    else if (took > *each)
        *each = (*each + took) / 2;
    else
        *each = (3 * *each + took) / 4;
}

static struct done *done_new(uint64_t id, const void *result, size_t bytes,
                             const char *error)
{
    size_t n = error != NULL ? strnlen(error, ERROR_BYTES - 1) + 1 : bytes;
    struct done *d = sl_malloc(sizeof(*d) + n);

    if (d == NULL)
        return NULL;
    memset(d, 0, sizeof(*d));
    d->id = id;
    d->failed = error != NULL;
    d->bytes = n;
    if (n > 0)
        memcpy(d->result, error != NULL ? (const void *)error : result, n);
    if (error != NULL)
        d->result[n - 1] = '\0';
    return d;
}

enum sl_err sluice_serving_end(struct sluice_serving *s, uint64_t id,
                               const void *result, size_t bytes,
                               const char *error, struct sl_error *err)
{
    struct sl_error large = SL_ERROR_INIT;
    struct done *d;
    struct held_task *h;
    enum sl_err rc = SL_OK;

    if (error == NULL && bytes > SLUICE_TASK_BYTES) {
        rc = sl_fail(&large, SL_EINVAL,
                     "a result of %zu bytes; at most %d: put it into a file, "
                     "and its name into the result",
                     bytes, SLUICE_TASK_BYTES);
        error = large.text;
        if (err != NULL)
            *err = large;
    }
    d = done_new(id, result, bytes, error);
    if (d == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a result");
    serving_lock(s);
    h = find_begun(s, id);
    if (h != NULL) {
        list_remove(&h->node);
        meter_locked(s);
    }
    if (h != NULL && !h->gone) {
        list_push_back(&s->shared.results, &d->node);
        d = NULL;
    }
    kick_locked(s);
    serving_unlock(s);
    sl_free(d);
    sl_free(h);
    return h != NULL ? rc
                     : sl_fail(err, SL_ESTATE, "task %llu is not under way",
                               (unsigned long long)id);
}

void sluice_serving_drain(struct sluice_serving *s)
{
    serving_lock(s);
    s->shared.draining = true;
    pthread_cond_broadcast(&s->shared.changed);
    kick_locked(s);
    serving_unlock(s);
}

// ---- life

WIRE_DECODER(decode_task_work_reply, task_work_reply, TaskWorkReply)

static enum sl_err copy_handlers(struct sluice_serving *s,
                                 const struct sluice_serving_options *o,
                                 struct sl_error *err)
{
    if (o->handlers_count == 0 || o->handlers_count > 1000)
        return sl_fail(err, SL_EINVAL, "%zu handlers; 1 to 1000 are allowed",
                       o->handlers_count);
    s->handlers = sl_calloc(o->handlers_count, sizeof(char *));
    if (s->handlers == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < o->handlers_count; i++) {
        if (!link_is_name(o->handlers[i]))
            return sl_fail(err, SL_EINVAL,
                           "handler %zu: a name has 1 to %d bytes of UTF-8, no "
                           "control characters, no blanks at its ends",
                           i, WIRE_NAME_BYTES);
        s->handlers[s->handlers_count] = sl_strdup(o->handlers[i]);
        if (s->handlers[s->handlers_count] == NULL)
            return sl_no_memory(err);
        s->handlers_count++;
    }
    return SL_OK;
}

static enum sl_err serving_start(struct sluice_serving *s,
                                 const struct sluice_serving_options *o,
                                 struct sl_error *err)
{
    const struct link_options link = {o->coordinator, o->tls_ca, o->tls_cert,
                                      o->tls_key};
    enum sl_err rc = copy_handlers(s, o, err);

    if (rc != SL_OK)
        return rc;
    s->queue = sl_strdup(o->queue != NULL ? o->queue : "");
    s->name = lib_name(o->name);
    if (s->queue == NULL || s->name == NULL ||
        getentropy(&s->process, sizeof(s->process)) != 0)
        return sl_fail(err, SL_ENOMEM, "no memory or no randomness");
    if (!link_is_name(s->name) ||
        (s->queue[0] != '\0' && !link_is_name(s->queue)))
        return sl_fail(err, SL_EINVAL, "name and queue: 1 to %d bytes",
                       WIRE_NAME_BYTES);
    s->process |= 1; // not 0
    rc = link_open(&s->link, &link, err);
    if (rc == SL_OK)
        rc = loop_timer_new(&s->again, s->link.loop, serving_on_retry, s);
    if (rc == SL_OK)
        rc = loop_timer_new(&s->renew, s->link.loop, on_renew, s);
    if (rc == SL_OK)
        rc = link_start(&s->link, err);
    if (rc != SL_OK)
        return rc;
    serving_lock(s);
    kick_locked(s); // the first call
    serving_unlock(s);
    return SL_OK;
}

static void serving_free(struct sluice_serving *s)
{
    struct list_node *n;

    link_stop(&s->link);
    loop_timer_free(s->again);
    loop_timer_free(s->renew);
    link_release(&s->link);
    line_release(&s->work);
    while ((n = list_pop_front(&s->shared.held)) != NULL)
        sl_free(list_entry(n, struct held_task, node));
    while ((n = list_pop_front(&s->shared.results)) != NULL)
        sl_free(list_entry(n, struct done, node));
    for (size_t i = 0; i < s->handlers_count; i++)
        sl_free(s->handlers[i]);
    sl_free(s->handlers);
    pthread_cond_destroy(&s->shared.changed);
    pthread_mutex_destroy(&s->shared.lock);
    sl_free(s->queue);
    sl_free(s->name);
    sl_free(s);
}

enum sl_err sluice_serving_open(struct sluice_serving **out,
                                const struct sluice_serving_options *o,
                                struct sl_error *err)
{
    struct sluice_serving_options all = {.size = sizeof(all)};
    struct sluice_serving *s;
    enum sl_err rc = link_options_read(&all, o, err);

    if (rc != SL_OK)
        return rc;
    s = sl_calloc(1, sizeof(*s));
    if (s == NULL)
        return sl_no_memory(err);
    s->lease_ms = LEASE_MS;
    s->shared.each_us = UINT64_MAX;
    list_init(&s->shared.held);
    list_init(&s->shared.results);
    pthread_mutex_init(&s->shared.lock, NULL);
    pthread_cond_init(&s->shared.changed, NULL);
    s->work = (struct link_line){.link = &s->link,
                                 .method = WIRE_TASK_WORK,
                                 .decode = decode_task_work_reply,
                                 .answered = on_worked,
                                 .arg = s};
    rc = serving_start(s, &all, err);
    if (rc != SL_OK) {
        serving_free(s);
        return rc;
    }
    *out = s;
    return SL_OK;
}

void sluice_serving_close(struct sluice_serving *s)
{
    struct deadline until = deadline_in_ms(GOODBYE_MS);

    if (s == NULL)
        return;
    sluice_serving_drain(s);
    serving_lock(s);
    while (!s->shared.gone &&
           deadline_wait(&until, &s->shared.changed, &s->shared.lock))
        ;
    serving_unlock(s);
    serving_free(s);
}
