// SPDX-License-Identifier: Apache-2.0
// lib/tasks_loop.c -- what a client of a queue says and hears: Schedule, Ended,
// Cancel, each one call at a time, and what follows from a failure.
#include <string.h>

#include "common/base/mem.h"
#include "lib/tasks_inner.h"

#define BATCH_BYTES ((size_t)2 << 20) // of one call, and one more task
#define CALL_MS 10000
#define WAIT_MS 10000

bool numbers_add(struct numbers *n, uint64_t number)
{
    if (n->count == n->space) {
        size_t space = 2 * n->space + 64;
        uint64_t *more = sl_realloc_array(n->at, space, sizeof(*more));

        if (more == NULL)
            return false;
        n->at = more;
        n->space = space;
    }
    n->at[n->count++] = number;
    return true;
}

struct queued_task *asked_new(const char *name, const void *body, size_t bytes)
{
    size_t text = strlen(name) + 1;
    struct queued_task *a = sl_malloc(sizeof(*a) + bytes + text);

    if (a == NULL)
        return NULL;
    memset(a, 0, sizeof(*a));
    a->bytes = bytes;
    if (bytes > 0)
        memcpy(a->body, body, bytes);
    a->name = memcpy(a->body + bytes, name, text);
    return a;
}

// ---- ends

// Under the lock. Without memory its result is lost to the user, not the task
// to `alive`: it is received again.
static bool tasks_end_locked(struct sluice_tasks *t, struct queued_task *a,
                             const struct sluice_task_ended *e)
{
    size_t text = strlen(e->error) + 1;
    struct result *r = sl_malloc(sizeof(*r) + e->bytes + text);

    if (r == NULL)
        return false;
    r->ended = *e;
    r->ended.number = a->number;
    memcpy(r->bytes, e->result, e->bytes);
    memcpy(r->bytes + e->bytes, e->error, text);
    r->ended.result = r->bytes;
    r->ended.error = (const char *)r->bytes + e->bytes;
    list_push_back(&t->shared.results, &r->node);
    map_remove(&t->shared.alive, a->number);
    if (a->accepted)
        t->shared.accepted--;
    else
        t->shared.unsent_bytes -= a->bytes;
    list_remove(&a->node);
    sl_free(a);
    pthread_cond_broadcast(&t->shared.changed);
    return true;
}

// All that are alive fail; `unsent` too unless they may still be sent.
static void tasks_fail_all_locked(struct sluice_tasks *t, const char *why,
                                  bool unsent)
{
    const struct sluice_task_ended e = {
        .state = SLUICE_TASK_FAILED, .result = "", .error = why};
    size_t at = 0, count = 0;
    struct queued_task **list;
    uint64_t number;
    void *a;

    list = sl_malloc_array(t->shared.alive.len, sizeof(struct queued_task *));
    while (list != NULL && map_next(&t->shared.alive, &at, &number, &a))
        list[count++] = a;
    for (size_t i = 0; i < count; i++)
        if (unsent || list[i]->accepted)
            tasks_end_locked(t, list[i], &e);
    sl_free(list);
}

static void tasks_fail_all(struct sluice_tasks *t, const char *why, bool unsent)
{
    tasks_lock(t);
    tasks_fail_all_locked(t, why, unsent);
    tasks_unlock(t);
}

static void tasks_break_off(struct sluice_tasks *t, enum sl_err rc,
                            const struct sl_error *err)
{
    tasks_lock(t);
    t->shared.broken = rc;
    t->shared.why = *err;
    pthread_cond_broadcast(&t->shared.changed);
    // Under the same lock: a program that reads results sees these first.
    tasks_fail_all_locked(t, err->text, true);
    tasks_unlock(t);
}

static void tasks_wait(struct sluice_tasks *t)
{
    t->late = true;
    loop_timer_start(t->again, LINK_AGAIN_MS, 0);
}

// What a call failed with: it is made again later, or the queue is not there
// any more, or we are not wanted.
static void tasks_handle_failure(struct sluice_tasks *t, enum sl_err rc,
                                 const struct sl_error *err)
{
    if (rc == SL_ENOENT) {
        t->incarnation = t->after = 0;
        t->forget.count = 0;
        tasks_fail_all(t, "the queue was deleted", false);
    } else if (!link_may_retry(rc)) {
        tasks_break_off(t, rc, err);
        return;
    }
    tasks_wait(t);
}

// ---- Schedule, on the loop

// A list of what is unsent, from the first; its count.
static size_t tasks_list_unsent(struct sluice_tasks *t,
                                Sluice__V1__TaskAsked *one,
                                Sluice__V1__TaskAsked **list, uint64_t *first)
{
    size_t n = 0, bytes = 0;

    list_for(node, &t->shared.unsent)
    {
        struct queued_task *a = list_entry(node, struct queued_task, node);

        // A cancelled one leaves a gap: the rest is another call's.
        if (n == WIRE_TASKS_MAX || bytes > BATCH_BYTES ||
            (n > 0 && a->number != *first + n))
            break;
        if (n == 0)
            *first = a->number;
        one[n] = (Sluice__V1__TaskAsked)SLUICE__V1__TASK_ASKED__INIT;
        one[n].name = (char *)a->name;
        one[n].body = (ProtobufCBinaryData){a->bytes, a->body};
        list[n] = &one[n];
        bytes += a->bytes;
        n++;
    }
    return n;
}

static void pump_resume(struct sluice_tasks *t)
{
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;

    if (t->schedule.busy)
        return;
    m.queue = t->queue;
    m.client = t->client;
    m.session = t->session;
    m.first = 1;
    m.limit = t->said_limit;
    m.resume = true;
    line_call(&t->schedule, &m.base, CALL_MS);
}

// What an earlier process left is as if it were accepted from us.
static enum sl_err take_over(struct sluice_tasks *t,
                             const Sluice__V1__TaskScheduled *m,
                             struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    tasks_lock(t);
    for (size_t i = 0; rc == SL_OK && i < m->n_left; i++) {
        struct queued_task *a = asked_new("", NULL, 0);

        if (a == NULL || !numbers_add(&t->left, m->left[i]) ||
            map_put(&t->shared.alive, m->left[i], a) != SL_OK) {
            sl_free(a);
            rc = sl_fail(err, SL_ENOMEM,
                         "no memory for the tasks that an earlier process "
                         "left");
            break;
        }
        a->number = m->left[i];
        a->accepted = true;
        t->shared.accepted++;
    }
    if (rc == SL_OK) {
        t->shared.last = m->last;
        t->shared.resumed = true;
        pthread_cond_broadcast(&t->shared.changed);
    }
    tasks_unlock(t);
    return rc;
}

static bool is_resumed(struct sluice_tasks *t)
{
    bool resumed;

    tasks_lock(t);
    resumed = t->shared.resumed;
    tasks_unlock(t);
    return resumed;
}

static void pump_schedule(struct sluice_tasks *t)
{
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;
    Sluice__V1__TaskAsked *one, **list;
    bool none;

    tasks_lock(t);
    none = list_empty(&t->shared.unsent);
    tasks_unlock(t);
    if (none || t->schedule.busy || t->full)
        return;
    one = sl_malloc_array(WIRE_TASKS_MAX, sizeof(*one));
    list = sl_malloc_array(WIRE_TASKS_MAX, sizeof(struct queued_task *));
    if (one != NULL && list != NULL) {
        m.queue = t->queue;
        m.client = t->client;
        m.session = t->session;
        m.limit = t->said_limit;
        m.incarnation = t->incarnation;
        m.tasks = list;
        tasks_lock(t); // the bodies are the user's tasks: packed under it
        m.n_tasks = tasks_list_unsent(t, one, list, &m.first);
        t->sending = m.first;
        if (m.n_tasks > 0)
            line_call(&t->schedule, &m.base, CALL_MS);
        tasks_unlock(t);
    } else {
        tasks_wait(t);
    }
    sl_free(one);
    sl_free(list);
}

// Of those that were sent; some may have ended before this answer came.
static void tasks_mark_accepted(struct sluice_tasks *t, uint64_t count)
{
    tasks_lock(t);
    while (!list_empty(&t->shared.unsent)) {
        struct queued_task *a =
            list_entry(list_first(&t->shared.unsent), struct queued_task, node);

        if (a->number >= t->sending + count)
            break;
        list_remove(&a->node);
        a->accepted = true;
        t->shared.unsent_bytes -= a->bytes;
        t->shared.accepted++;
    }
    pthread_cond_broadcast(&t->shared.changed);
    tasks_unlock(t);
}

static void tasks_pump(struct sluice_tasks *t);

static void on_scheduled(void *arg, enum sl_err rc, const struct sl_error *err,
                         const ProtobufCMessage *reply)
{
    const Sluice__V1__TaskScheduled *m =
        (const Sluice__V1__TaskScheduled *)reply;
    struct sluice_tasks *t = arg;

    if (rc != SL_OK) {
        tasks_handle_failure(t, rc, err);
        return;
    }
    t->incarnation = m->incarnation;
    if (!is_resumed(t)) {
        struct sl_error why = SL_ERROR_INIT;

        rc = take_over(t, m, &why);
        if (rc != SL_OK)
            tasks_break_off(t, rc, &why);
        tasks_pump(t);
        return;
    }
    tasks_mark_accepted(t, m->accepted);
    t->full = m->full[0] != '\0';
    if (t->full)
        loop_timer_start(t->again, LINK_AGAIN_MS, 0);
    tasks_pump(t);
}

// ---- Ended, on the loop

static void pump_ended(struct sluice_tasks *t)
{
    Sluice__V1__TaskEndedRequest m = SLUICE__V1__TASK_ENDED_REQUEST__INIT;
    bool wanted, closing;

    tasks_lock(t);
    closing = t->shared.closing;
    wanted = t->shared.accepted > 0 && !closing;
    if (closing && t->forget.count == 0 && t->shared.to_forget.count == 0) {
        t->shared.settled = true;
        pthread_cond_broadcast(&t->shared.changed);
    }
    tasks_unlock(t);
    if (closing)
        line_cancel(&t->ended); // it may wait for results in vain
    if (t->ended.busy || (!wanted && t->forget.count == 0))
        return;
    m.queue = t->queue;
    m.client = t->client;
    m.incarnation = t->incarnation;
    m.after = t->after;
    m.max = wanted ? WIRE_TASKS_MAX : 0;
    m.wait_ms = WAIT_MS;
    m.forget = t->forget.at;
    m.n_forget = t->forget.count;
    line_call(&t->ended, &m.base, WAIT_MS + CALL_MS);
}

static void tasks_receive_ended(struct sluice_tasks *t,
                                const Sluice__V1__TaskEndedReply *m)
{
    tasks_lock(t);
    for (size_t i = 0; i < m->n_tasks; i++) {
        const Sluice__V1__TaskEnded *e = m->tasks[i];
        struct queued_task *a = map_get(&t->shared.alive, e->number);
        struct sluice_task_ended ended = {.state = (int)e->state,
                                          .result = e->result.data,
                                          .bytes = e->result.len,
                                          .error = e->error,
                                          .losses = e->losses};

        if (ended.bytes == 0)
            ended.result = "";
        // A task that a call without an answer delivered is still `unsent`:
        // it ends all the same. Without memory it comes again.
        if ((a != NULL && !tasks_end_locked(t, a, &ended)) ||
            (t->session == 0 && !numbers_add(&t->forget, e->number)))
            break;
        t->after = e->ended;
    }
    tasks_unlock(t);
}

static bool is_closing(struct sluice_tasks *t)
{
    bool closing;

    tasks_lock(t);
    closing = t->shared.closing;
    tasks_unlock(t);
    return closing;
}

static void tasks_on_ended(void *arg, enum sl_err rc,
                           const struct sl_error *err,
                           const ProtobufCMessage *reply)
{
    struct sluice_tasks *t = arg;

    if (rc == SL_ECANCELED && is_closing(t)) {
        tasks_pump(
            t); // by ourselves: what is to be forgotten is said once more
        return;
    }
    if (rc != SL_OK) {
        tasks_handle_failure(t, rc, err);
        return;
    }
    t->forget.count = 0; // they are
    tasks_receive_ended(t, (const Sluice__V1__TaskEndedReply *)reply);
    t->full = false; // what is forgotten with the next call makes room
    pump_ended(t);
    tasks_pump(t);
}

// ---- forgetting, on the loop: of a client with a name

static void pump_forget(struct sluice_tasks *t)
{
    Sluice__V1__TaskEndedRequest m = SLUICE__V1__TASK_ENDED_REQUEST__INIT;

    if (t->forgetting.busy)
        return;
    tasks_lock(t); // packed under it
    m.queue = t->queue;
    m.client = t->client;
    m.incarnation = t->incarnation;
    m.forget = t->shared.to_forget.at;
    m.n_forget = t->shared.to_forget.count < WIRE_TASK_NUMBERS_MAX
                     ? t->shared.to_forget.count
                     : WIRE_TASK_NUMBERS_MAX;
    t->shared.forgetting = m.n_forget;
    if (m.n_forget > 0)
        line_call(&t->forgetting, &m.base, CALL_MS);
    tasks_unlock(t);
}

static void on_forgotten(void *arg, enum sl_err rc, const struct sl_error *err,
                         const ProtobufCMessage *reply)
{
    struct sluice_tasks *t = arg;
    struct numbers *n = &t->shared.to_forget;

    tasks_lock(t);
    if (rc == SL_OK || rc == SL_ENOENT) { // with its queue
        n->count -= t->shared.forgetting;
        memmove(n->at, n->at + t->shared.forgetting,
                n->count * sizeof(uint64_t));
    }
    tasks_unlock(t);
    if (rc != SL_OK)
        tasks_handle_failure(t, rc, err);
    t->full = false;
    tasks_pump(t);
}

// ---- Cancel, on the loop

// Those that were accepted and not told yet, into `out`. Those that have ended
// leave the list of wishes.
static size_t wishes_locked(struct sluice_tasks *t, uint64_t *out)
{
    struct numbers *all = &t->shared.to_cancel;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < all->count; i++) {
        struct queued_task *a = map_get(&t->shared.alive, all->at[i]);

        if (a == NULL)
            continue;
        if (a->accepted && !a->told && n < WIRE_TASK_NUMBERS_MAX) {
            out[n++] = all->at[i];
            a->told = true;
        }
        all->at[kept++] = all->at[i];
    }
    all->count = kept;
    return n;
}

static void pump_cancel(struct sluice_tasks *t)
{
    Sluice__V1__TaskCancel m = SLUICE__V1__TASK_CANCEL__INIT;
    bool wanted;

    if (t->cancel.busy)
        return;
    tasks_lock(t);
    m.queue = t->queue;
    m.client = t->client;
    m.incarnation = t->incarnation;
    wanted = t->shared.to_cancel.count > 0;
    if (wanted)
        m.numbers =
            sl_malloc_array(t->shared.to_cancel.count, sizeof(uint64_t));
    if (m.numbers != NULL)
        m.n_numbers = wishes_locked(t, m.numbers);
    tasks_unlock(t);
    if (wanted && m.numbers == NULL)
        tasks_wait(t);
    if (m.n_numbers > 0)
        line_call(&t->cancel, &m.base, CALL_MS);
    sl_free(m.numbers);
}

static void on_cancelled(void *arg, enum sl_err rc, const struct sl_error *err,
                         const ProtobufCMessage *reply)
{
    struct sluice_tasks *t = arg;

    if (rc == SL_OK) {
        tasks_pump(t);
        return;
    }
    tasks_lock(t);
    for (size_t i = 0; i < t->shared.to_cancel.count; i++) {
        struct queued_task *a =
            map_get(&t->shared.alive, t->shared.to_cancel.at[i]);

        if (a != NULL)
            a->told = false;
    }
    tasks_unlock(t);
    tasks_handle_failure(t, rc, err);
}

// ---- the loop

static void tasks_pump(struct sluice_tasks *t)
{
    bool broken;

    tasks_lock(t);
    broken = t->shared.broken != SL_OK;
    tasks_unlock(t);
    if (t->late || broken)
        return;
    if (!is_resumed(t)) {
        pump_resume(t);
        return;
    }
    pump_schedule(t);
    pump_cancel(t);
    pump_forget(t);
    pump_ended(t);
}

void tasks_loop_again(void *tasks)
{
    struct sluice_tasks *t = tasks;

    t->late = false;
    t->full = false;
    tasks_pump(t);
}

static void tasks_on_kick(void *arg)
{
    struct sluice_tasks *t = arg;

    if (t->link.over) // the channel and the timers are gone
        return;
    tasks_lock(t);
    t->shared.kicked = false;
    tasks_unlock(t);
    tasks_pump(t);
}

void tasks_loop_kick(struct sluice_tasks *t)
{
    if (t->shared.kicked)
        return;
    t->shared.kicked = true;
    loop_post_task(t->link.loop, &t->shared.kick, tasks_on_kick, t);
}

static void
line_set(struct sluice_tasks *t, struct link_line *l, const char *method,
         enum sl_err (*decode)(ProtobufCMessage **, struct wire_arena *,
                               const struct sl_slices *, struct sl_error *),
         void (*answered)(void *, enum sl_err, const struct sl_error *,
                          const ProtobufCMessage *))
{
    *l = (struct link_line){.link = &t->link,
                            .method = method,
                            .decode = decode,
                            .answered = answered,
                            .arg = t};
}

WIRE_DECODER(decode_task_scheduled, task_scheduled, TaskScheduled)
WIRE_DECODER(decode_task_ended_reply, task_ended_reply, TaskEndedReply)
WIRE_DECODER(decode_task_cancel_reply, task_cancel_reply, TaskCancelReply)

void tasks_loop_init(struct sluice_tasks *t)
{
    line_set(t, &t->schedule, WIRE_TASK_SCHEDULE, decode_task_scheduled,
             on_scheduled);
    line_set(t, &t->ended, WIRE_TASK_ENDED, decode_task_ended_reply,
             tasks_on_ended);
    line_set(t, &t->forgetting, WIRE_TASK_ENDED, decode_task_ended_reply,
             on_forgotten);
    line_set(t, &t->cancel, WIRE_TASK_CANCEL, decode_task_cancel_reply,
             on_cancelled);
}
