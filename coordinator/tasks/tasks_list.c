// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/tasks_list.c -- queues and tasks, for people.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/tasks/visit.h"

#define USUAL 100

static enum sl_err add_queue(struct visit *v, const struct book_queue *q,
                             Sluice__V1__TaskQueuesReply *reply, size_t *space)
{
    Sluice__V1__TaskQueue *one =
        reply_more((void ***)&reply->queues, &reply->n_queues, space,
                   &sluice__v1__task_queue__descriptor);

    if (one == NULL)
        return visit_no_memory(v);
    one->name = sl_strdup(q->name);
    one->tenant = sl_strdup(q->tenant->name);
    if (one->name == NULL || one->tenant == NULL)
        return visit_no_memory(v);
    one->limit = q->limit;
    one->pending = q->count[BOOK_PENDING];
    one->leased = q->count[BOOK_LEASED];
    one->done = q->count[BOOK_DONE];
    one->failed = q->count[BOOK_FAILED];
    one->cancelled = q->count[BOOK_CANCELLED];
    one->bytes = q->bytes;
    return SL_OK;
}

static enum sl_err add_task(struct visit *v, const struct book_task *t,
                            Sluice__V1__TaskQueuesReply *reply, size_t *space)
{
    Sluice__V1__TaskLine *one =
        reply_more((void ***)&reply->tasks, &reply->n_tasks, space,
                   &sluice__v1__task_line__descriptor);

    if (one == NULL)
        return visit_no_memory(v);
    one->id = t->id;
    one->name = sl_strdup(t->kind->name);
    one->worker = sl_strdup(t->worker != NULL ? t->worker->name : "");
    if (one->name == NULL || one->worker == NULL)
        return visit_no_memory(v);
    one->state = (Sluice__V1__TaskState)t->state;
    one->losses = t->losses;
    return SL_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct book_task *x = *(struct book_task *const *)a;
    const struct book_task *y = *(struct book_task *const *)b;

    return (x->id > y->id) - (x->id < y->id);
}

// Adds the oldest tasks, at most `most`, and as many as an answer can hold.
static enum sl_err add_tasks(struct desk *d, struct visit *v,
                             const struct book_queue *q, size_t most,
                             Sluice__V1__TaskQueuesReply *reply)
{
    size_t count = 0, space = 0, at = 0, bytes = 0;
    struct book_task **all =
        sl_malloc_array(d->book.tasks.len, sizeof(struct book_task *));
    enum sl_err rc = SL_OK;
    uint64_t id;
    void *task;

    if (all == NULL)
        return visit_no_memory(v);
    while (map_next(&d->book.tasks, &at, &id, &task)) {
        struct book_task *t = task;

        if (t->client->queue == q)
            all[count++] = t;
    }
    qsort(all, count, sizeof(*all), by_id);
    for (size_t i = 0; rc == SL_OK && i < count && i < most; i++) {
        rc = add_task(v, all[i], reply, &space);
        bytes += strlen(all[i]->kind->name) + 2 * WIRE_NAME_BYTES;
        if (bytes > DESK_REPLY_BYTES)
            break;
    }
    sl_free(all);
    return rc;
}

enum sl_err visit_queues(struct desk *d, struct visit *v)
{
    const Sluice__V1__TaskQueuesRequest *m =
        (const Sluice__V1__TaskQueuesRequest *)v->request;
    Sluice__V1__TaskQueuesReply *reply =
        visit_reply(v, &sluice__v1__task_queues_reply__descriptor);
    const char *tenant = desk_tenant(v, m->tenant);
    bool all = m->queue[0] == '\0' && !access_of_tenant(&v->who);
    enum sl_err rc = reply == NULL ? SL_ENOMEM : SL_OK;
    size_t space = 0;

    list_for(n, &d->book.queues)
    {
        struct book_queue *q = list_entry(n, struct book_queue, node);
        bool named = strcmp(q->name, m->queue) == 0;

        if (rc != SL_OK || (!all && strcmp(q->tenant->name, tenant) != 0) ||
            (m->queue[0] != '\0' && !named))
            continue;
        rc = add_queue(v, q, reply, &space);
        if (rc == SL_OK && named)
            rc = add_tasks(d, v, q, m->limit != 0 ? m->limit : USUAL, reply);
    }
    if (rc == SL_OK && m->queue[0] != '\0' && reply->n_queues == 0)
        rc = sl_fail(&v->err, SL_ENOENT, "there is no queue '%s'", m->queue);
    if (rc == SL_OK && !access_of_tenant(&v->who))
        reply->workers = d->book.workers_count;
    return rc;
}
