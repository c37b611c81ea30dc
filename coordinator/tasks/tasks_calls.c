// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/tasks_calls.c -- clients' calls: schedule, fetch, cancel,
// delete.
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/tasks/visit.h"

enum sl_err desk_failed(struct desk *d, enum sl_err rc,
                        const struct sl_error *err)
{
    if (d->failed == SL_OK) {
        d->failed = rc;
        d->why = *err;
    }
    return rc;
}

const char *desk_tenant(const struct visit *v, const char *said)
{
    return access_of_tenant(&v->who) || said == NULL ? v->who.tenant : said;
}

enum sl_err visit_no_memory(struct visit *v)
{
    return sl_fail(&v->err, SL_ENOMEM, "no memory for an answer");
}

void *visit_reply(struct visit *v, const ProtobufCMessageDescriptor *of)
{
    v->reply = wire_new(of);
    if (v->reply == NULL)
        visit_no_memory(v);
    return v->reply;
}

void *reply_more(void ***list, size_t *count, size_t *space,
                 const ProtobufCMessageDescriptor *of)
{
    void *m;

    if (*count == *space) {
        size_t n = 2 * *space + 8;
        void **more = sl_realloc_array(*list, n, sizeof(*more));

        if (more == NULL)
            return NULL;
        *list = more;
        *space = n;
    }
    m = wire_new(of);
    if (m != NULL)
        (*list)[(*count)++] = m;
    return m;
}

// ---- queues by name

static enum sl_err no_queue(struct visit *v, const char *name)
{
    return sl_fail(
        &v->err, SL_ENOENT,
        "there is no queue '%s': it was deleted, or nothing was ever "
        "scheduled in it",
        name);
}

// Finds the queue of that name. SL_ENOENT also if its incarnation is not the
// one that the caller knows.
static enum sl_err find_queue(struct desk *d, struct visit *v, const char *name,
                              uint64_t incarnation, struct book_queue **out)
{
    struct book_queue *q =
        book_queue_find(&d->book, desk_tenant(v, NULL), name);

    if (q == NULL || (incarnation != 0 && q->id != incarnation))
        return no_queue(v, name);
    *out = q;
    return SL_OK;
}

static enum sl_err make_queue(struct desk *d, struct visit *v,
                              const Sluice__V1__TaskSchedule *m,
                              struct book_queue **out)
{
    const char *tenant = desk_tenant(v, NULL);
    uint32_t limit = m->limit != 0 ? m->limit : BOOK_LIMIT;
    uint64_t id = 0;
    enum sl_err rc;

    v->changes = access_audit_name(WIRE_TASK_SCHEDULE);
    v->queue = m->queue;
    rc = book_queue_room(&d->book, tenant, &v->err);
    if (rc != SL_OK)
        return rc;
    rc = store_queue_add(d->store, &id, tenant, m->queue, limit, &v->err);
    if (rc != SL_OK)
        return desk_failed(d, rc, &v->err);
    *out = book_queue_add(&d->book, id, tenant, m->queue, limit);
    if (*out != NULL)
        return SL_OK;
    sl_fail(&v->err, SL_ENOMEM, "no memory for a queue");
    return desk_failed(d, SL_ENOMEM, &v->err); // the file is ahead
}

static enum sl_err open_queue(struct desk *d, struct visit *v,
                              const Sluice__V1__TaskSchedule *m,
                              struct book_queue **out)
{
    enum sl_err rc = SL_OK;

    *out = book_queue_find(&d->book, desk_tenant(v, NULL), m->queue);
    if (m->incarnation != 0 && (*out == NULL || (*out)->id != m->incarnation))
        return no_queue(v, m->queue);
    if (*out == NULL)
        return make_queue(d, v, m, out);
    if (m->limit != 0 && m->limit != (*out)->limit) {
        rc = store_queue_limit(d->store, (*out)->id, m->limit, &v->err);
        if (rc != SL_OK)
            return desk_failed(d, rc, &v->err);
        (*out)->limit = m->limit;
    }
    return rc;
}

static enum sl_err open_client(struct desk *d, struct visit *v,
                               struct book_queue *q,
                               const Sluice__V1__TaskSchedule *m,
                               struct book_client **out)
{
    struct book_client *c = book_client_find(q, m->client);
    struct book_client *old;
    enum sl_err rc;

    // Two processes under one name would draw the same numbers, and the tasks
    // of the one that is behind would be taken for repeated ones.
    if (c != NULL && c->session != m->session && !m->resume)
        return sl_fail(&v->err, SL_ESTALE,
                       "another process goes on as this client of queue '%s'",
                       q->name);
    if (c == NULL)
        c = book_client_add(q, m->client);
    if (c == NULL)
        return sl_fail(&v->err, SL_ENOMEM, "no memory for a client");
    c->session = m->session;
    *out = c;
    old = book_client_surplus(q);
    if (old == NULL || old == c)
        return SL_OK;
    rc = store_client_remove(d->store, q->id, old->id, &v->err);
    if (rc != SL_OK)
        return desk_failed(d, rc, &v->err);
    book_client_remove(old);
    return SL_OK;
}

// ---- Schedule

static enum sl_err tasks_schedule_one(struct desk *d, struct visit *v,
                                      struct book_client *c, uint64_t number,
                                      const Sluice__V1__TaskAsked *m)
{
    struct book_task *t = book_add(&d->book, c, d->book.last_id + 1, number,
                                   m->name, m->body.len);
    enum sl_err rc;

    if (t == NULL)
        return sl_fail(&v->err, SL_ENOMEM, "no memory for a task");
    rc = store_add(d->store, t, &m->body, &v->err);
    return rc == SL_OK ? rc : desk_failed(d, rc, &v->err);
}

static enum sl_err tasks_room(const struct desk *d, const struct book_queue *q,
                              const Sluice__V1__TaskAsked *m,
                              struct sl_error *full)
{
    if (d->home != NULL && d->home->crowded(d->home->arg, full))
        return SL_EBUSY;
    return book_room(&d->book, q, m->name, m->body.len, full);
}

// Adds as many tasks as there is room for; a task that is known already counts
// as accepted.
static enum sl_err add_some(struct desk *d, struct visit *v,
                            struct book_client *c,
                            const Sluice__V1__TaskSchedule *m,
                            uint64_t *accepted, struct sl_error *full)
{
    uint64_t last = c->last;
    enum sl_err rc = SL_OK;

    for (*accepted = 0; rc == SL_OK && *accepted < m->n_tasks; ++*accepted) {
        const Sluice__V1__TaskAsked *one = m->tasks[*accepted];

        if (m->first + *accepted <= last)
            continue;
        if (tasks_room(d, c->queue, one, full) != SL_OK)
            break;
        rc = tasks_schedule_one(d, v, c, m->first + *accepted, one);
    }
    return rc;
}

// Adds tasks, then writes the client's row even if one of them failed, so that
// its `last` covers the tasks that were added.
static enum sl_err add_all(struct desk *d, struct visit *v,
                           struct book_client *c,
                           const Sluice__V1__TaskSchedule *m,
                           Sluice__V1__TaskScheduled *reply)
{
    uint64_t last = c->last;
    struct sl_error full = SL_ERROR_INIT;
    enum sl_err rc = add_some(d, v, c, m, &reply->accepted, &full);

    if (c->last != last || m->resume) {
        enum sl_err wrote = store_client(d->store, c, &v->err);

        if (wrote != SL_OK)
            return desk_failed(d, wrote, &v->err);
    }
    if (rc != SL_OK || full.code == SL_OK)
        return rc;
    reply->full = sl_strdup(full.text);
    return reply->full != NULL ? SL_OK : visit_no_memory(v);
}

static enum sl_err tell_left(struct visit *v, const struct book_client *c,
                             Sluice__V1__TaskScheduled *reply)
{
    size_t at = 0;
    uint64_t number;
    void *task;

    if (c->tasks.len > WIRE_TASK_LEFT_MAX)
        return sl_fail(
            &v->err, SL_EBUSY,
            "the client has %zu tasks in queue '%s', and could go on "
            "with %d",
            c->tasks.len, c->queue->name, WIRE_TASK_LEFT_MAX);
    reply->last = c->last;
    reply->left = sl_malloc_array(c->tasks.len, sizeof(uint64_t));
    if (reply->left == NULL)
        return visit_no_memory(v);
    while (map_next(&c->tasks, &at, &number, &task))
        reply->left[reply->n_left++] = number;
    return SL_OK;
}

enum sl_err visit_schedule(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskSchedule *m =
        (const Sluice__V1__TaskSchedule *)v->request;
    Sluice__V1__TaskScheduled *reply =
        visit_reply(v, &sluice__v1__task_scheduled__descriptor);
    struct book_queue *q = NULL;
    struct book_client *c = NULL;
    enum sl_err rc = reply == NULL ? SL_ENOMEM : open_queue(d, v, m, &q);

    if (rc == SL_OK)
        rc = open_client(d, v, q, m, &c);
    if (rc != SL_OK)
        return rc;
    reply->incarnation = q->id;
    rc = add_all(d, v, c, m, reply);
    return rc == SL_OK && m->resume ? tell_left(v, c, reply) : rc;
}

// ---- Ended

// Forgets tasks that the caller has the results of. Unknown numbers are
// forgotten already; a task that has not ended stays.
static enum sl_err tasks_forget_ended(struct desk *d, struct visit *v,
                                      struct book_client *c,
                                      const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct book_task *t = map_get(&c->tasks, numbers[i]);
        enum sl_err rc;

        if (t == NULL || t->ended == 0)
            continue;
        rc = store_forget(d->store, t->id, &v->err);
        if (rc != SL_OK)
            return desk_failed(d, rc, &v->err);
        book_forget(&d->book, t);
    }
    return SL_OK;
}

static enum sl_err find_client(struct desk *d, struct visit *v,
                               const char *queue, uint64_t incarnation,
                               uint64_t client, struct book_client **out)
{
    struct book_queue *q = NULL;
    enum sl_err rc = find_queue(d, v, queue, incarnation, &q);

    if (rc != SL_OK)
        return rc;
    *out = book_client_find(q, client);
    return *out != NULL
               ? SL_OK
               : sl_fail(&v->err, SL_ENOENT,
                         "queue '%s' has no task of this client", queue);
}

enum sl_err visit_ended(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskEndedRequest *m =
        (const Sluice__V1__TaskEndedRequest *)v->request;
    struct book_client *c = NULL;
    enum sl_err rc = find_client(d, v, m->queue, m->incarnation, m->client, &c);

    if (rc == SL_OK)
        rc = tasks_forget_ended(d, v, c, m->forget, m->n_forget);
    if (rc != SL_OK)
        return rc;
    if (visit_reply(v, &sluice__v1__task_ended_reply__descriptor) == NULL)
        return SL_ENOMEM;
    if (m->max > 0)
        v->until_ms =
            d->now_ms + (m->wait_ms < DESK_WAIT_MS ? m->wait_ms : DESK_WAIT_MS);
    return SL_OK;
}

// Adds an ended task to the reply; *bytes grows by its size there.
static enum sl_err tasks_append_ended(struct desk *d, struct visit *v,
                                      const struct book_task *t,
                                      Sluice__V1__TaskEndedReply *reply,
                                      size_t *space, size_t *bytes)
{
    Sluice__V1__TaskEnded *one =
        reply_more((void ***)&reply->tasks, &reply->n_tasks, space,
                   &sluice__v1__task_ended__descriptor);
    enum sl_err rc;

    if (one == NULL)
        return visit_no_memory(v);
    one->number = t->number;
    one->ended = t->ended;
    one->state = (Sluice__V1__TaskState)t->state;
    one->losses = t->losses;
    rc = store_read(d->store, t->id, &one->result, &one->error, &v->err);
    if (rc == SL_OK)
        *bytes += one->result.len + strlen(one->error);
    return rc == SL_OK || rc == SL_ENOMEM ? rc : desk_failed(d, rc, &v->err);
}

enum sl_err visit_ended_look(struct desk *d, struct visit *v, bool *ready)
{
    const Sluice__V1__TaskEndedRequest *m =
        (const Sluice__V1__TaskEndedRequest *)v->request;
    Sluice__V1__TaskEndedReply *reply = (Sluice__V1__TaskEndedReply *)v->reply;
    struct book_client *c = NULL;
    size_t bytes = 0, space = 0;
    enum sl_err rc = find_client(d, v, m->queue, m->incarnation, m->client, &c);

    if (rc != SL_OK)
        return rc; // the queue was deleted meanwhile
    // The list is in the order of `ended`: nothing is walked for a caller that
    // knows the last one.
    if (list_empty(&c->ended) ||
        list_entry(list_last(&c->ended), struct book_task, node)->ended <=
            m->after)
        return SL_OK;
    list_for(n, &c->ended)
    {
        struct book_task *t = list_entry(n, struct book_task, node);

        if (t->ended <= m->after)
            continue;
        if (reply->n_tasks >= m->max || bytes > DESK_REPLY_BYTES)
            break;
        rc = tasks_append_ended(d, v, t, reply, &space, &bytes);
        if (rc != SL_OK)
            return rc;
    }
    *ready = reply->n_tasks > 0;
    return SL_OK;
}

// ---- Cancel, Delete

enum sl_err visit_cancel(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskCancel *m =
        (const Sluice__V1__TaskCancel *)v->request;
    const ProtobufCBinaryData nothing = {0, NULL};
    Sluice__V1__TaskCancelReply *reply =
        visit_reply(v, &sluice__v1__task_cancel_reply__descriptor);
    struct book_client *c = NULL;
    enum sl_err rc = reply == NULL ? SL_ENOMEM
                                   : find_client(d, v, m->queue, m->incarnation,
                                                 m->client, &c);

    for (size_t i = 0; rc == SL_OK && i < m->n_numbers; i++) {
        struct book_task *t = map_get(&c->tasks, m->numbers[i]);

        if (t == NULL || t->ended != 0)
            continue;
        book_end(&d->book, t, BOOK_CANCELLED, 0);
        rc = store_end(d->store, t, BOOK_CANCELLED, &nothing, "", &v->err);
        if (rc != SL_OK)
            return desk_failed(d, rc, &v->err);
        reply->cancelled++;
    }
    return rc;
}

enum sl_err visit_delete(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskDelete *m =
        (const Sluice__V1__TaskDelete *)v->request;
    struct book_queue *q =
        book_queue_find(&d->book, desk_tenant(v, m->tenant), m->queue);
    Sluice__V1__TaskDeleteReply *reply;
    enum sl_err rc;

    v->changes = access_audit_name(WIRE_TASK_DELETE);
    v->queue = m->queue;
    if (q == NULL)
        return no_queue(v, m->queue);
    reply = visit_reply(v, &sluice__v1__task_delete_reply__descriptor);
    if (reply == NULL)
        return SL_ENOMEM;
    rc = store_queue_remove(d->store, q->id, &v->err);
    if (rc != SL_OK)
        return desk_failed(d, rc, &v->err);
    reply->tasks = book_queue_tasks(q);
    book_queue_remove(&d->book, q);
    return SL_OK;
}
