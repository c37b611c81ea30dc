// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/tasks_work.c -- the workers' call: one for results, leases
// and tasks.
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/tasks/visit.h"

// Says whether the worker may do the task: a worker of a tenant does that
// tenant's tasks alone.
static bool may_do(const struct visit *v, const struct book_task *t)
{
    return v->who.tenant[0] == '\0' ||
           strcmp(v->who.tenant, t->client->queue->tenant->name) == 0;
}

// Takes a result. The first one counts, of whichever attempt; a task that has
// ended or is unknown is passed over.
static enum sl_err take_result(struct desk *d, struct visit *v,
                               const Sluice__V1__TaskResult *r)
{
    static const ProtobufCBinaryData nothing = {0, NULL};
    struct book_task *t = book_find(&d->book, r->id);
    const ProtobufCBinaryData *result = r->failed ? &nothing : &r->result;
    enum book_state state = r->failed ? BOOK_FAILED : BOOK_DONE;
    enum sl_err rc;

    if (t == NULL || t->ended != 0 || !may_do(v, t))
        return SL_OK;
    book_end(&d->book, t, state, result->len);
    rc = store_end(d->store, t, state, result, r->failed ? r->error : "",
                   &v->err);
    return rc == SL_OK ? rc : desk_failed(d, rc, &v->err);
}

// Compares the leases with what the worker holds. A task that it holds is
// leased to it; a task that is leased to it and not held was in an answer that
// it never got.
static enum sl_err tasks_compare_leases(struct desk *d, struct visit *v,
                                        struct book_worker *w,
                                        const Sluice__V1__TaskWork *m,
                                        Sluice__V1__TaskWorkReply *reply)
{
    struct list kept;
    struct list_node *n;

    list_init(&kept);
    reply->gone = sl_malloc_array(m->n_held, sizeof(*reply->gone));
    if (reply->gone == NULL)
        return visit_no_memory(v);
    for (size_t i = 0; i < m->n_held; i++) {
        struct book_task *t = book_find(&d->book, m->held[i]);

        if (t == NULL || !may_do(v, t) ||
            !book_holds(&d->book, w, m->held[i])) {
            reply->gone[reply->n_gone++] = m->held[i];
            continue;
        }
        list_remove(&t->node);
        list_push_back(&kept, &t->node);
    }
    while ((n = list_last(&w->leased)) != NULL)
        book_give_back(&d->book, list_entry(n, struct book_task, node));
    list_take_all(&w->leased, &kept);
    return SL_OK;
}

enum sl_err visit_work(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskWork *m = (const Sluice__V1__TaskWork *)v->request;
    Sluice__V1__TaskWorkReply *reply =
        visit_reply(v, &sluice__v1__task_work_reply__descriptor);
    struct book_worker *w = NULL;
    enum sl_err rc = reply == NULL ? SL_ENOMEM : SL_OK;

    if (m->n_handlers > BOOK_KINDS)
        return sl_fail(
            &v->err, SL_EINVAL,
            "the answer names %zu handlers; a queue may ask for at most %d",
            m->n_handlers, BOOK_KINDS);
    for (size_t i = 0; rc == SL_OK && i < m->n_ended; i++)
        rc = take_result(d, v, m->ended[i]);
    if (rc != SL_OK)
        return rc;
    w = book_heard(&d->book, m->process, m->worker, d->now_ms, d->lease_ms);
    if (w == NULL)
        return visit_no_memory(v);
    w->call = v;
    reply->lease_ms = d->lease_ms;
    rc = tasks_compare_leases(d, v, w, m, reply);
    if (m->leave)
        book_leave(&d->book, w);
    else if (rc == SL_OK && m->take > 0) {
        // The worker must call again before its lease ends.
        uint32_t most = d->lease_ms / 2;

        v->until_ms = d->now_ms + (m->wait_ms < most ? m->wait_ms : most);
    }
    return rc;
}

static enum sl_err tasks_append_given(struct desk *d, struct visit *v,
                                      const struct book_task *t,
                                      Sluice__V1__TaskWorkReply *reply,
                                      size_t *space)
{
    Sluice__V1__TaskGiven *one =
        reply_more((void ***)&reply->tasks, &reply->n_tasks, space,
                   &sluice__v1__task_given__descriptor);
    enum sl_err rc;

    if (one == NULL)
        return visit_no_memory(v);
    one->id = t->id;
    one->attempt = t->losses + 1;
    one->name = sl_strdup(t->kind->name);
    one->queue = sl_strdup(t->client->queue->name);
    if (one->name == NULL || one->queue == NULL)
        return visit_no_memory(v);
    rc = store_read(d->store, t->id, &one->body, NULL, &v->err);
    return rc == SL_OK || rc == SL_ENOMEM ? rc : desk_failed(d, rc, &v->err);
}

enum sl_err visit_work_look(struct desk *d, struct visit *v, bool *ready)
{
    const Sluice__V1__TaskWork *m = (const Sluice__V1__TaskWork *)v->request;
    Sluice__V1__TaskWorkReply *reply = (Sluice__V1__TaskWorkReply *)v->reply;
    const struct book_offer offer = {
        .queue = m->queue,
        .tenant = v->who.tenant[0] != '\0' ? v->who.tenant : NULL,
        .handlers = (const char *const *)m->handlers,
        .handlers_count = m->n_handlers,
    };
    struct book_worker *w = map_get(&d->book.processes, m->process);
    uint64_t most = book_share(&d->book);
    size_t bytes = 0, space = 0;

    // the worker has left, or has called again
    *ready = w == NULL || w->call != v;
    if (*ready)
        return SL_OK;
    while (reply->n_tasks < m->take && reply->n_tasks < most &&
           bytes <= DESK_REPLY_BYTES) {
        struct book_task *t = book_take(&d->book, w, &offer);
        enum sl_err rc;

        if (t == NULL)
            break;
        bytes += t->bytes;
        rc = tasks_append_given(d, v, t, reply, &space);
        if (rc != SL_OK) {
            book_give_back(&d->book, t);
            return rc;
        }
    }
    *ready = reply->n_tasks > 0;
    if (*ready)
        w->expires_ms = d->now_ms + d->lease_ms;
    return SL_OK;
}

// ---- silence

static void tasks_on_lost(void *arg, struct book_task *t)
{
    static const ProtobufCBinaryData nothing = {0, NULL};
    struct desk *d = arg;
    struct sl_error err = SL_ERROR_INIT;
    char why[512];
    enum sl_err rc;

    if (t->losses < BOOK_LOSSES) {
        rc = store_lost(d->store, t, &err);
    } else {
        snprintf(why, sizeof(why),
                 "took down %u workers, %s the last: each fell silent while it "
                 "did this task",
                 t->losses, t->worker->name);
        rc = store_end(d->store, t, BOOK_FAILED, &nothing, why, &err);
    }
    if (rc != SL_OK)
        desk_failed(d, rc, &err);
}

void visit_expire(struct desk *d)
{
    book_expire(&d->book, d->now_ms, tasks_on_lost, d);
}
