// SPDX-License-Identifier: Apache-2.0
// lib/tasks.c -- a client of a queue: what is scheduled leaves in batches, what
// has ended is waited for.
//
//   user's threads   schedule -> unsent;  results -> ended
//   loop's thread    unsent -> Schedule -> alive;  Ended -> results, forget
//
// A task is in `alive` from schedule until its end was received. What Schedule
// did not accept stays in front of `unsent` and is sent again under the same
// numbers, whether the call arrived or not.
#include "lib/tasks.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/base/deadline.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "lib/inner.h"
#include "lib/link.h"

#define LIMIT 10000
#define BATCH_BYTES ((size_t)2 << 20) // of one call, and one more task
#define UNSENT_BYTES ((size_t)64 << 20)
#define CALL_MS 10000
#define WAIT_MS 10000
#define GOODBYE_MS 2000

struct asked {
    struct list_node node; // unsent, until it is accepted
    uint64_t number;
    size_t bytes;
    bool accepted;
    bool told;        // that it shall be cancelled
    const char *name; // behind the body
    uint8_t body[];
};

struct result {
    struct list_node node;
    struct sluice_task_ended ended;
    uint8_t bytes[]; // the result or the error
};

struct numbers { // that a call will name
    uint64_t *at;
    size_t count, space;
};

struct sluice_tasks {
    struct link link;
    char *queue; // owned
    uint64_t client;
    uint32_t said_limit; // to the coordinator

    // The loop's.
    struct line schedule, ended, cancel;
    struct loop_timer *again;
    uint64_t incarnation, after;
    uint64_t sending; // the first of the call under way
    struct numbers forget;
    bool full; // of others' tasks too: tried again at the timer
    bool late; // a call failed: nothing is started before the timer

    // Of whoever receives.
    struct list handed; // of struct result

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list unsent, results;
        struct map alive; // number -> struct asked, owned
        struct numbers to_cancel;
        uint64_t last;
        size_t unsent_bytes, accepted;
        uint32_t limit;
        bool kicked;           // the kick is posted
        bool closing, settled; // settled: nothing is left to be forgotten
        struct loop_task kick;
        enum sl_err broken; // we are refused
        struct sl_error why;
    } shared;
};

static void lock(struct sluice_tasks *t)
{
    pthread_mutex_lock(&t->shared.lock);
}

static void unlock(struct sluice_tasks *t)
{
    pthread_mutex_unlock(&t->shared.lock);
}

static bool numbers_add(struct numbers *n, uint64_t number)
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

// ---- ends

// Under the lock. Without memory its result is lost to the user, not the task
// to `alive`: it is received again.
static bool end_locked(struct sluice_tasks *t, struct asked *a,
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
static void fail_all(struct sluice_tasks *t, const char *why, bool unsent)
{
    const struct sluice_task_ended e = {
        .state = SLUICE_TASK_FAILED, .result = "", .error = why};
    size_t at = 0, count = 0;
    struct asked **list;
    uint64_t number;
    void *a;

    lock(t);
    list = sl_malloc_array(t->shared.alive.len, sizeof(struct asked *));
    while (list != NULL && map_next(&t->shared.alive, &at, &number, &a))
        list[count++] = a;
    for (size_t i = 0; i < count; i++)
        if (unsent || list[i]->accepted)
            end_locked(t, list[i], &e);
    unlock(t);
    sl_free(list);
}

static void break_off(struct sluice_tasks *t, enum sl_err rc,
                      const struct sl_error *err)
{
    lock(t);
    t->shared.broken = rc;
    t->shared.why = *err;
    pthread_cond_broadcast(&t->shared.changed);
    unlock(t);
    fail_all(t, err->text, true);
}

// What a call failed with: it is made again later, or the queue is not there
// any more, or we are not wanted.
static void failed(struct sluice_tasks *t, enum sl_err rc,
                   const struct sl_error *err)
{
    if (rc == SL_ENOENT) {
        t->incarnation = t->after = 0;
        t->forget.count = 0;
        fail_all(t, "the queue was deleted", false);
    } else if (!link_may_retry(rc)) {
        break_off(t, rc, err);
        return;
    }
    t->late = true;
    loop_timer_start(t->again, LINK_AGAIN_MS, 0);
}

// ---- Schedule, on the loop

// A list of what is unsent, from the first; its count.
static size_t fill(struct sluice_tasks *t, Sluice__V1__TaskAsked *one,
                   Sluice__V1__TaskAsked **list, uint64_t *first)
{
    size_t n = 0, bytes = 0;

    list_for(node, &t->shared.unsent)
    {
        struct asked *a = list_entry(node, struct asked, node);

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

static void pump_schedule(struct sluice_tasks *t)
{
    Sluice__V1__TaskSchedule m = SLUICE__V1__TASK_SCHEDULE__INIT;
    Sluice__V1__TaskAsked *one, **list;
    bool none;

    lock(t);
    none = list_empty(&t->shared.unsent);
    unlock(t);
    if (none || t->schedule.busy || t->full)
        return;
    one = sl_malloc_array(WIRE_TASKS_MAX, sizeof(*one));
    list = sl_malloc_array(WIRE_TASKS_MAX, sizeof(struct asked *));
    if (one != NULL && list != NULL) {
        m.queue = t->queue;
        m.client = t->client;
        m.limit = t->said_limit;
        m.incarnation = t->incarnation;
        m.tasks = list;
        lock(t); // the bodies are the user's tasks: packed under it
        m.n_tasks = fill(t, one, list, &m.first);
        t->sending = m.first;
        if (m.n_tasks > 0)
            line_call(&t->schedule, &m.base, CALL_MS);
        unlock(t);
    }
    sl_free(one);
    sl_free(list);
}

// Of those that were sent; some may have ended before this answer came.
static void accept(struct sluice_tasks *t, uint64_t count)
{
    lock(t);
    while (!list_empty(&t->shared.unsent)) {
        struct asked *a =
            list_entry(list_first(&t->shared.unsent), struct asked, node);

        if (a->number >= t->sending + count)
            break;
        list_remove(&a->node);
        a->accepted = true;
        t->shared.unsent_bytes -= a->bytes;
        t->shared.accepted++;
    }
    pthread_cond_broadcast(&t->shared.changed);
    unlock(t);
}

static void pump(struct sluice_tasks *t);

static void on_scheduled(void *arg, enum sl_err rc, const struct sl_error *err,
                         const ProtobufCMessage *reply)
{
    const Sluice__V1__TaskScheduled *m =
        (const Sluice__V1__TaskScheduled *)reply;
    struct sluice_tasks *t = arg;

    if (rc != SL_OK) {
        failed(t, rc, err);
        return;
    }
    t->incarnation = m->incarnation;
    accept(t, m->accepted);
    t->full = m->full[0] != '\0';
    if (t->full)
        loop_timer_start(t->again, LINK_AGAIN_MS, 0);
    pump(t);
}

// ---- Ended, on the loop

static void pump_ended(struct sluice_tasks *t)
{
    Sluice__V1__TaskEndedRequest m = SLUICE__V1__TASK_ENDED_REQUEST__INIT;
    bool wanted, closing;

    lock(t);
    closing = t->shared.closing;
    wanted = t->shared.accepted > 0 && !closing;
    if (closing && t->forget.count == 0) {
        t->shared.settled = true;
        pthread_cond_broadcast(&t->shared.changed);
    }
    unlock(t);
    if (closing)
        line_cancel(&t->ended); // it may wait for what nobody receives
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

static void receive(struct sluice_tasks *t, const Sluice__V1__TaskEndedReply *m)
{
    lock(t);
    for (size_t i = 0; i < m->n_tasks; i++) {
        const Sluice__V1__TaskEnded *e = m->tasks[i];
        struct asked *a = map_get(&t->shared.alive, e->number);
        struct sluice_task_ended ended = {.state = (int)e->state,
                                          .result = e->result.data,
                                          .bytes = e->result.len,
                                          .error = e->error,
                                          .losses = e->losses};

        if (ended.bytes == 0)
            ended.result = "";
        // One that was accepted by a call whose answer was lost is still
        // `unsent`: it ends all the same. Without memory it comes again.
        if ((a != NULL && !end_locked(t, a, &ended)) ||
            !numbers_add(&t->forget, e->number))
            break;
        t->after = e->ended;
    }
    unlock(t);
}

static bool is_closing(struct sluice_tasks *t)
{
    bool closing;

    lock(t);
    closing = t->shared.closing;
    unlock(t);
    return closing;
}

static void on_ended(void *arg, enum sl_err rc, const struct sl_error *err,
                     const ProtobufCMessage *reply)
{
    struct sluice_tasks *t = arg;

    if (rc == SL_ECANCELED && is_closing(t)) {
        pump(t); // by ourselves: what is to be forgotten is said once more
        return;
    }
    if (rc != SL_OK) {
        failed(t, rc, err);
        return;
    }
    t->forget.count = 0; // they are
    receive(t, (const Sluice__V1__TaskEndedReply *)reply);
    t->full = false; // what is forgotten with the next call makes room
    pump_ended(t);
    pump(t);
}

// ---- Cancel, on the loop

// Those that were accepted and not told yet, into `out`. Those that have ended
// leave the list of wishes.
static size_t wishes_locked(struct sluice_tasks *t, uint64_t *out)
{
    struct numbers *all = &t->shared.to_cancel;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < all->count; i++) {
        struct asked *a = map_get(&t->shared.alive, all->at[i]);

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

    if (t->cancel.busy)
        return;
    lock(t);
    m.queue = t->queue;
    m.client = t->client;
    m.incarnation = t->incarnation;
    if (t->shared.to_cancel.count > 0)
        m.numbers =
            sl_malloc_array(t->shared.to_cancel.count, sizeof(uint64_t));
    if (m.numbers != NULL)
        m.n_numbers = wishes_locked(t, m.numbers);
    unlock(t);
    if (m.n_numbers > 0)
        line_call(&t->cancel, &m.base, CALL_MS);
    sl_free(m.numbers);
}

static void on_cancelled(void *arg, enum sl_err rc, const struct sl_error *err,
                         const ProtobufCMessage *reply)
{
    struct sluice_tasks *t = arg;

    if (rc == SL_OK) {
        pump(t);
        return;
    }
    lock(t);
    for (size_t i = 0; i < t->shared.to_cancel.count; i++) {
        struct asked *a = map_get(&t->shared.alive, t->shared.to_cancel.at[i]);

        if (a != NULL)
            a->told = false;
    }
    unlock(t);
    failed(t, rc, err);
}

// ---- the loop

static void pump(struct sluice_tasks *t)
{
    bool broken;

    lock(t);
    broken = t->shared.broken != SL_OK;
    unlock(t);
    if (t->late || broken)
        return;
    pump_schedule(t);
    pump_cancel(t);
    pump_ended(t);
}

static void on_again(void *arg)
{
    struct sluice_tasks *t = arg;

    t->late = false;
    t->full = false;
    pump(t);
}

static void on_kick(void *arg)
{
    struct sluice_tasks *t = arg;

    lock(t);
    t->shared.kicked = false;
    unlock(t);
    pump(t);
}

static void kick_locked(struct sluice_tasks *t)
{
    if (t->shared.kicked)
        return;
    t->shared.kicked = true;
    loop_post_task(t->link.loop, &t->shared.kick, on_kick, t);
}

// ---- the user's

static const struct deadline *deadline_of(struct deadline *d, int64_t wait_ms)
{
    if (wait_ms < 0)
        return NULL;
    *d = deadline_in_ms((uint64_t)wait_ms);
    return d;
}

static bool wait_locked(struct sluice_tasks *t, const struct deadline *until)
{
    if (until != NULL)
        return deadline_wait(until, &t->shared.changed, &t->shared.lock);
    pthread_cond_wait(&t->shared.changed, &t->shared.lock);
    return true;
}

static struct asked *asked_new(const char *name, const void *body, size_t bytes)
{
    size_t text = strlen(name) + 1;
    struct asked *a = sl_malloc(sizeof(*a) + bytes + text);

    if (a == NULL)
        return NULL;
    memset(a, 0, sizeof(*a));
    a->bytes = bytes;
    if (bytes > 0)
        memcpy(a->body, body, bytes);
    a->name = memcpy(a->body + bytes, name, text);
    return a;
}

static bool has_room(const struct sluice_tasks *t)
{
    return t->shared.alive.len < t->shared.limit &&
           t->shared.unsent_bytes < UNSENT_BYTES;
}

// Under the lock: there is room, or an error.
static enum sl_err wait_for_room(struct sluice_tasks *t, int64_t wait_ms,
                                 struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_of(&d, wait_ms);

    while (t->shared.broken == SL_OK && !has_room(t))
        if (!wait_locked(t, until))
            return sl_fail(err, SL_ETIMEDOUT,
                           "queue '%s' is full: %zu tasks have not ended",
                           t->queue, t->shared.alive.len);
    if (t->shared.broken != SL_OK && err != NULL)
        *err = t->shared.why;
    return t->shared.broken;
}

enum sl_err sluice_tasks_schedule(struct sluice_tasks *t, const char *name,
                                  const void *body, size_t bytes,
                                  int64_t wait_ms, uint64_t *number,
                                  struct sl_error *err)
{
    struct asked *a;
    enum sl_err rc;

    if (bytes > SLUICE_TASK_BYTES)
        return sl_fail(
            err, SL_EINVAL,
            "a payload of %zu bytes; at most %d: put it into a file, "
            "and its name into the payload",
            bytes, SLUICE_TASK_BYTES);
    if (!link_is_name(name))
        return sl_fail(
            err, SL_EINVAL,
            "a handler's name has 1 to %d bytes of UTF-8, no control "
            "characters, no blanks at its ends",
            WIRE_NAME_BYTES);
    a = asked_new(name, body, bytes);
    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a task");
    lock(t);
    rc = wait_for_room(t, wait_ms, err);
    if (rc == SL_OK &&
        map_put(&t->shared.alive, t->shared.last + 1, a) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for a task");
    if (rc == SL_OK) {
        *number = a->number = ++t->shared.last;
        t->shared.unsent_bytes += bytes;
        list_push_back(&t->shared.unsent, &a->node);
        kick_locked(t);
    }
    unlock(t);
    if (rc != SL_OK)
        sl_free(a);
    return rc;
}

static void free_results(struct list *l)
{
    struct list_node *n;

    while ((n = list_pop_front(l)) != NULL)
        sl_free(list_entry(n, struct result, node));
}

enum sl_err sluice_tasks_ended(struct sluice_tasks *t, int64_t wait_ms,
                               struct sluice_task_ended *out, size_t max,
                               size_t *count, struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_of(&d, wait_ms);
    size_t n = 0;

    free_results(&t->handed);
    lock(t);
    while (list_empty(&t->shared.results))
        if (!wait_locked(t, until))
            break;
    while (n < max && !list_empty(&t->shared.results)) {
        struct list_node *node = list_pop_front(&t->shared.results);

        out[n++] = list_entry(node, struct result, node)->ended;
        list_push_back(&t->handed, node);
    }
    unlock(t);
    if (n == 0)
        return sl_fail(err, SL_ETIMEDOUT, "no task has ended");
    *count = n;
    return SL_OK;
}

enum sl_err sluice_tasks_cancel(struct sluice_tasks *t, uint64_t number,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    lock(t);
    if (map_get(&t->shared.alive, number) != NULL &&
        !numbers_add(&t->shared.to_cancel, number))
        rc = sl_fail(err, SL_ENOMEM, "no memory for a wish to cancel");
    kick_locked(t);
    unlock(t);
    return rc;
}

uint64_t sluice_tasks_open_count(struct sluice_tasks *t)
{
    uint64_t n;

    lock(t);
    n = t->shared.alive.len;
    list_for(node, &t->shared.results) n++;
    unlock(t);
    return n;
}

// ---- life

static void
line_set(struct sluice_tasks *t, struct line *l, const char *method,
         enum sl_err (*decode)(ProtobufCMessage **, struct wire_arena *,
                               const struct sl_slices *, struct sl_error *),
         void (*answered)(void *, enum sl_err, const struct sl_error *,
                          const ProtobufCMessage *))
{
    *l = (struct line){.link = &t->link,
                       .method = method,
                       .decode = decode,
                       .answered = answered,
                       .arg = t};
}

LINK_DECODE(task_scheduled, TaskScheduled)
LINK_DECODE(task_ended_reply, TaskEndedReply)
LINK_DECODE(task_cancel_reply, TaskCancelReply)

static enum sl_err begin(struct sluice_tasks *t,
                         const struct sluice_tasks_options *o,
                         struct sl_error *err)
{
    const struct link_options link = {o->coordinator, o->tls_ca, o->tls_cert,
                                      o->tls_key};
    enum sl_err rc;

    if (!link_is_name(o->queue))
        return sl_fail(err, SL_EINVAL,
                       "a queue's name has 1 to %d bytes of UTF-8, no control "
                       "characters, no blanks at its ends",
                       WIRE_NAME_BYTES);
    if (o->limit > 1000000)
        return sl_fail(err, SL_EINVAL, "limit is %u; at most 1000000",
                       o->limit);
    t->queue = sl_strdup(o->queue);
    t->said_limit = o->limit;
    t->shared.limit = o->limit != 0 ? o->limit : LIMIT;
    if (t->queue == NULL || getentropy(&t->client, sizeof(t->client)) != 0)
        return sl_fail(err, SL_ENOMEM, "no memory or no randomness");
    t->client |= 1; // not 0
    rc = link_open(&t->link, &link, err);
    if (rc == SL_OK)
        rc = loop_timer_new(&t->again, t->link.loop, on_again, t);
    return rc == SL_OK ? link_start(&t->link, err) : rc;
}

static void free_all(struct sluice_tasks *t)
{
    link_stop(&t->link);
    loop_timer_free(t->again);
    link_release(&t->link);
    line_release(&t->schedule);
    line_release(&t->ended);
    line_release(&t->cancel);
    free_results(&t->handed);
    free_results(&t->shared.results);
    map_release_owned(&t->shared.alive);
    sl_free(t->forget.at);
    sl_free(t->shared.to_cancel.at);
    pthread_cond_destroy(&t->shared.changed);
    pthread_mutex_destroy(&t->shared.lock);
    sl_free(t->queue);
    sl_free(t);
}

enum sl_err sluice_tasks_open(struct sluice_tasks **out,
                              const struct sluice_tasks_options *o,
                              struct sl_error *err)
{
    struct sluice_tasks_options all = {.size = sizeof(all)};
    struct sluice_tasks *t;
    enum sl_err rc = link_options_read(&all, o, err);

    if (rc != SL_OK)
        return rc;
    t = sl_calloc(1, sizeof(*t));
    if (t == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    list_init(&t->handed);
    list_init(&t->shared.unsent);
    list_init(&t->shared.results);
    pthread_mutex_init(&t->shared.lock, NULL);
    pthread_cond_init(&t->shared.changed, NULL);
    line_set(t, &t->schedule, WIRE_TASK_SCHEDULE, decode_task_scheduled,
             on_scheduled);
    line_set(t, &t->ended, WIRE_TASK_ENDED, decode_task_ended_reply, on_ended);
    line_set(t, &t->cancel, WIRE_TASK_CANCEL, decode_task_cancel_reply,
             on_cancelled);
    rc = begin(t, &all, err);
    if (rc != SL_OK) {
        free_all(t);
        return rc;
    }
    *out = t;
    return SL_OK;
}

void sluice_tasks_close(struct sluice_tasks *t)
{
    struct deadline until = deadline_in_ms(GOODBYE_MS);

    if (t == NULL)
        return;
    lock(t);
    t->shared.closing = true;
    kick_locked(t);
    while ((!list_empty(&t->shared.unsent) || !t->shared.settled) &&
           t->shared.broken == SL_OK &&
           deadline_wait(&until, &t->shared.changed, &t->shared.lock))
        ;
    unlock(t);
    free_all(t);
}
