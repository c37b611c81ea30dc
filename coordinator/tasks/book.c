// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/book.c -- queues, clients and tasks.
#include "coordinator/tasks/book.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

void book_init(struct book *b)
{
    memset(b, 0, sizeof(*b));
    list_init(&b->queues);
    list_init(&b->busy);
    list_init(&b->workers);
    b->bytes_most = BOOK_ALL_BYTES;
}

void book_release(struct book *b)
{
    uint64_t most = b->bytes_most;
    struct list_node *n;

    while ((n = list_first(&b->queues)) != NULL)
        book_queue_remove(b, list_entry(n, struct book_queue, node));
    while ((n = list_pop_front(&b->workers)) != NULL)
        sl_free(list_entry(n, struct book_worker, node));
    map_release(&b->tasks);
    map_release(&b->processes);
    book_init(b);
    b->bytes_most = most;
}

struct book_queue *book_queue_find(struct book *b, const char *tenant,
                                   const char *name)
{
    list_for(n, &b->queues)
    {
        struct book_queue *q = list_entry(n, struct book_queue, node);

        if (strcmp(q->name, name) == 0 && strcmp(q->tenant->name, tenant) == 0)
            return q;
    }
    return NULL;
}

// ---- tenants

// Returns the tenant, or NULL if it has no queue.
static struct book_tenant *tenant_find(const struct book *b, const char *name)
{
    for (struct list_node *n = b->queues.head.next; n != &b->queues.head;
         n = n->next) {
        struct book_tenant *t = list_entry(n, struct book_queue, node)->tenant;

        if (strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

static struct book_tenant *tenant_make(const struct book *b, const char *name)
{
    struct book_tenant *t = tenant_find(b, name);

    if (t == NULL)
        t = sl_calloc(1, sizeof(*t));
    if (t != NULL)
        snprintf(t->name, sizeof(t->name), "%s", name);
    return t;
}

// Says whether tenant t, holding `has` of the `all` taken places, leaves as
// many of the `most` free for other tenants: half of them if it is alone, and
// each that comes finds half of what is left. So no share lies idle or has to
// be configured.
static bool leaves(const struct book_tenant *t, uint64_t has, uint64_t all,
                   uint64_t most)
{
    return t == NULL || t->name[0] == '\0' ||
           (all <= most && has <= most - all);
}

enum sl_err book_queue_room(const struct book *b, const char *tenant,
                            struct sl_error *err)
{
    const struct book_tenant *t = tenant_find(b, tenant);

    if (b->queues_count >= BOOK_QUEUES)
        return sl_fail(err, SL_EBUSY,
                       "there are %u queues: delete one (`sluice tasks "
                       "--delete QUEUE`)",
                       b->queues_count);
    if (t != NULL &&
        !leaves(t, t->queues + 1, b->queues_count + 1, BOOK_QUEUES))
        return sl_fail(err, SL_EBUSY,
                       "tenant %s has %u queues of %u, and one more would "
                       "leave fewer to all others: delete one (`sluice tasks "
                       "--delete QUEUE`)",
                       tenant, t->queues, b->queues_count);
    return SL_OK;
}

// ---- queues and clients

struct book_queue *book_queue_add(struct book *b, uint64_t id,
                                  const char *tenant, const char *name,
                                  uint32_t limit)
{
    struct book_tenant *t = tenant_make(b, tenant);
    struct book_queue *q = t == NULL ? NULL : sl_calloc(1, sizeof(*q));

    if (q == NULL) {
        if (t != NULL && t->queues == 0)
            sl_free(t);
        return NULL;
    }
    q->id = id;
    q->limit = limit != 0 ? limit : BOOK_LIMIT;
    q->tenant = t;
    t->queues++;
    snprintf(q->name, sizeof(q->name), "%s", name);
    list_init(&q->kinds);
    list_init(&q->clients);
    list_push_back(&b->queues, &q->node);
    b->queues_count++;
    return q;
}

// Frees a task and its places, but for the place among those of its client.
static void book_drop_task(struct book *b, struct book_task *t);

static void drop_all(struct book *b, struct book_client *c)
{
    size_t at = 0;
    uint64_t number;
    void *task;

    while (map_next(&c->tasks, &at, &number, &task))
        book_drop_task(b, task);
}

void book_queue_remove(struct book *b, struct book_queue *q)
{
    struct list_node *n;

    while ((n = list_first(&q->clients)) != NULL) {
        struct book_client *c = list_entry(n, struct book_client, node);

        drop_all(b, c);
        book_client_remove(c);
    }
    list_remove(&q->node);
    b->queues_count--;
    if (--q->tenant->queues == 0)
        sl_free(q->tenant);
    sl_free(q);
}

uint64_t book_queue_tasks(const struct book_queue *q)
{
    uint64_t n = 0;

    for (int i = 0; i < BOOK_STATES; i++)
        n += q->count[i];
    return n;
}

struct book_client *book_client_find(struct book_queue *q, uint64_t id)
{
    list_for(n, &q->clients)
    {
        struct book_client *c = list_entry(n, struct book_client, node);

        if (c->id == id)
            return c;
    }
    return NULL;
}

struct book_client *book_client_add(struct book_queue *q, uint64_t id)
{
    struct book_client *c = sl_calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->queue = q;
    c->id = id;
    list_init(&c->ended);
    list_push_back(&q->clients, &c->node);
    q->clients_count++;
    return c;
}

void book_client_remove(struct book_client *c)
{
    list_remove(&c->node);
    c->queue->clients_count--;
    map_release(&c->tasks);
    sl_free(c);
}

struct book_client *book_client_surplus(struct book_queue *q)
{
    if (q->clients_count <= BOOK_CLIENTS)
        return NULL;
    list_for(n, &q->clients)
    {
        struct book_client *c = list_entry(n, struct book_client, node);

        if (c->tasks.len == 0)
            return c;
    }
    return NULL;
}

// ---- kinds

static struct book_kind *kind_find(const struct book_queue *q, const char *name)
{
    for (struct list_node *n = q->kinds.head.next; n != &q->kinds.head;
         n = n->next) {
        struct book_kind *k = list_entry(n, struct book_kind, node);

        if (strcmp(k->name, name) == 0)
            return k;
    }
    return NULL;
}

static struct book_kind *kind_make(struct book_queue *q, const char *name)
{
    size_t n = strlen(name) + 1;
    struct book_kind *k = kind_find(q, name);

    if (k != NULL)
        return k;
    k = sl_calloc(1, sizeof(*k) + n);
    if (k == NULL)
        return NULL;
    memcpy(k->name, name, n);
    list_init(&k->pending);
    list_push_back(&q->kinds, &k->node);
    q->kinds_count++;
    return k;
}

static void kind_drop(struct book_queue *q, struct book_kind *k)
{
    if (k->tasks > 0)
        return;
    list_remove(&k->node);
    q->kinds_count--;
    sl_free(k);
}

// ---- tasks

static enum sl_err room_of_tenant(const struct book *b,
                                  const struct book_tenant *t, size_t bytes,
                                  struct sl_error *err)
{
    if (!leaves(t, t->tasks + 1, b->tasks.len + 1, BOOK_ALL_TASKS))
        return sl_fail(err, SL_EBUSY,
                       "the queues of tenant %s keep %" PRIu64 " tasks, and "
                       "one more would leave fewer to all others: fetch "
                       "results",
                       t->name, t->tasks);
    if (t->bytes > 0 &&
        !leaves(t, t->bytes + bytes, b->bytes + bytes, b->bytes_most))
        return sl_fail(err, SL_EBUSY,
                       "the queues of tenant %s keep %" PRIu64 " bytes, and "
                       "more would leave fewer to all others: fetch results",
                       t->name, t->bytes);
    return SL_OK;
}

static enum sl_err room_in_all(const struct book *b, size_t bytes,
                               struct sl_error *err)
{
    if (b->tasks.len >= BOOK_ALL_TASKS)
        return sl_fail(err, SL_EBUSY,
                       "all queues together keep %zu tasks, and may keep no "
                       "more",
                       b->tasks.len);
    if (b->bytes + bytes > b->bytes_most && b->bytes > 0)
        return sl_fail(err, SL_EBUSY,
                       "all queues together keep %" PRIu64 " bytes, and may "
                       "keep %" PRIu64,
                       b->bytes, b->bytes_most);
    return SL_OK;
}

enum sl_err book_room(const struct book *b, const struct book_queue *q,
                      const char *name, size_t bytes, struct sl_error *err)
{
    enum sl_err rc;

    if (book_queue_tasks(q) >= q->limit)
        return sl_fail(err, SL_EBUSY,
                       "queue '%s' keeps %" PRIu64 " tasks, and may keep %u: "
                       "fetch results, or raise its limit",
                       q->name, book_queue_tasks(q), q->limit);
    if (q->bytes + bytes > BOOK_BYTES && q->bytes > 0)
        return sl_fail(err, SL_EBUSY,
                       "queue '%s' keeps %" PRIu64 " bytes of payloads and "
                       "results, and may keep %llu: fetch results",
                       q->name, q->bytes, BOOK_BYTES);
    if (q->kinds_count >= BOOK_KINDS && kind_find(q, name) == NULL)
        return sl_fail(err, SL_EBUSY,
                       "queue '%s' has tasks for %u handlers, and may have no "
                       "more",
                       q->name, q->kinds_count);
    rc = room_in_all(b, bytes, err);
    return rc == SL_OK ? room_of_tenant(b, q->tenant, bytes, err) : rc;
}

// Adds `more` bytes to all counts; modulo 2^64, so it subtracts as well.
static void count_bytes(struct book *b, struct book_queue *q, uint64_t more)
{
    q->bytes += more;
    q->tenant->bytes += more;
    b->bytes += more;
}

// The one place where a task's state changes.
static void book_set_state(struct book *b, struct book_task *t,
                           enum book_state state)
{
    struct book_queue *q = t->client->queue;

    list_remove(&t->node);
    q->count[t->state]--;
    q->count[state]++;
    b->pending -= t->state == BOOK_PENDING;
    b->pending += state == BOOK_PENDING;
    t->state = state;
    if (q->count[BOOK_PENDING] == 0)
        list_remove(&q->busy);
    else if (!list_on(&q->busy))
        list_push_back(&b->busy, &q->busy);
}

struct book_task *book_add(struct book *b, struct book_client *c, uint64_t id,
                           uint64_t number, const char *name, size_t bytes)
{
    struct book_task *t = sl_calloc(1, sizeof(*t));
    struct book_kind *k = kind_make(c->queue, name);

    if (t == NULL || k == NULL || map_put(&b->tasks, id, t) != SL_OK ||
        map_put(&c->tasks, number, t) != SL_OK) {
        if (t != NULL)
            map_remove(&b->tasks, id);
        if (k != NULL)
            kind_drop(c->queue, k);
        sl_free(t);
        return NULL;
    }
    *t = (struct book_task){
        .id = id, .number = number, .bytes = bytes, .client = c, .kind = k};
    k->tasks++;
    count_bytes(b, c->queue, bytes);
    c->queue->tenant->tasks++;
    c->queue->count[0]++;
    book_set_state(b, t, BOOK_PENDING);
    list_push_back(&k->pending, &t->node);
    if (id > b->last_id)
        b->last_id = id;
    if (number > c->last)
        c->last = number;
    return t;
}

struct book_task *book_find(const struct book *b, uint64_t id)
{
    return map_get(&b->tasks, id);
}

void book_ended(struct book *b, struct book_task *t, enum book_state state,
                uint64_t ended, size_t result_bytes)
{
    book_set_state(b, t, state);
    t->worker = NULL;
    count_bytes(b, t->client->queue, result_bytes - t->bytes);
    t->bytes = result_bytes;
    t->ended = ended;
    if (ended > b->last_ended)
        b->last_ended = ended;
    list_push_back(&t->client->ended, &t->node);
}

void book_end(struct book *b, struct book_task *t, enum book_state state,
              size_t result_bytes)
{
    book_ended(b, t, state, b->last_ended + 1, result_bytes);
}

static void book_drop_task(struct book *b, struct book_task *t)
{
    struct book_queue *q = t->client->queue;

    book_set_state(b, t, 0);
    q->count[0]--;
    count_bytes(b, q, 0 - t->bytes);
    q->tenant->tasks--;
    map_remove(&b->tasks, t->id);
    t->kind->tasks--;
    kind_drop(q, t->kind);
    sl_free(t);
}

void book_forget(struct book *b, struct book_task *t)
{
    map_remove(&t->client->tasks, t->number);
    book_drop_task(b, t);
}

void book_give_back(struct book *b, struct book_task *t)
{
    book_set_state(b, t, BOOK_PENDING);
    t->worker = NULL;
    list_push_front(&t->kind->pending, &t->node);
}

// ---- tasks and the workers that do them

// Says whether a queue keeps too many results that were not received: its tasks
// wait until they are. A tenant's own results do not keep other tenants' tasks
// waiting.
static bool book_queue_is_full(const struct book *b, const struct book_queue *q)
{
    const struct book_tenant *t = q->tenant;

    return q->bytes >= 2 * BOOK_BYTES || b->bytes >= 2 * b->bytes_most ||
           (t->name[0] != '\0' && t->bytes >= b->bytes_most);
}

static bool serves(const struct book_offer *o, const struct book_queue *q)
{
    return (o->queue[0] == '\0' || strcmp(o->queue, q->name) == 0) &&
           (o->tenant == NULL || strcmp(o->tenant, q->tenant->name) == 0);
}

static bool has_handler(const struct book_offer *o, const char *name)
{
    for (size_t i = 0; i < o->handlers_count; i++)
        if (strcmp(o->handlers[i], name) == 0)
            return true;
    return false;
}

// Returns the oldest pending task of q that the offer has a handler for.
static struct book_task *book_oldest_pending(struct book_queue *q,
                                             const struct book_offer *o)
{
    struct book_task *best = NULL;

    list_for(n, &q->kinds)
    {
        struct book_kind *k = list_entry(n, struct book_kind, node);
        struct list_node *first = list_first(&k->pending);
        struct book_task *t;

        if (first == NULL || !has_handler(o, k->name))
            continue;
        t = list_entry(first, struct book_task, node);
        if (best == NULL || t->id < best->id)
            best = t;
    }
    return best;
}

static void lease(struct book *b, struct book_task *t, struct book_worker *w)
{
    book_set_state(b, t, BOOK_LEASED);
    t->worker = w;
    list_push_back(&w->leased, &t->node);
}

struct book_task *book_take(struct book *b, struct book_worker *w,
                            const struct book_offer *offer)
{
    list_for(n, &b->busy)
    {
        struct book_queue *q = list_entry(n, struct book_queue, busy);
        struct book_task *t = serves(offer, q) && !book_queue_is_full(b, q)
                                  ? book_oldest_pending(q, offer)
                                  : NULL;

        if (t == NULL)
            continue;
        list_remove(&q->busy);
        list_push_back(&b->busy, &q->busy);
        lease(b, t, w);
        return t;
    }
    return NULL;
}

uint64_t book_share(const struct book *b)
{
    uint64_t n = b->workers_count > 0
                     ? b->pending / (2 * (uint64_t)b->workers_count)
                     : b->pending;

    return n > 1 ? n : 1;
}

bool book_holds(struct book *b, struct book_worker *w, uint64_t id)
{
    struct book_task *t = book_find(b, id);

    if (t != NULL && t->state == BOOK_PENDING)
        lease(b, t, w);
    return t != NULL && t->state == BOOK_LEASED && t->worker == w;
}

// ---- workers

struct book_worker *book_heard(struct book *b, uint64_t process,
                               const char *name, uint64_t now_ms,
                               uint32_t lease_ms)
{
    struct book_worker *w = map_get(&b->processes, process);

    if (w == NULL) {
        w = sl_calloc(1, sizeof(*w));
        if (w == NULL || map_put(&b->processes, process, w) != SL_OK) {
            sl_free(w);
            return NULL;
        }
        w->process = process;
        list_init(&w->leased);
        list_push_back(&b->workers, &w->node);
        b->workers_count++;
    }
    snprintf(w->name, sizeof(w->name), "%s", name);
    w->expires_ms = now_ms + lease_ms;
    return w;
}

void book_leave(struct book *b, struct book_worker *w)
{
    struct list_node *n;

    // The last one first: each goes before the one behind it.
    while ((n = list_last(&w->leased)) != NULL)
        book_give_back(b, list_entry(n, struct book_task, node));
    list_remove(&w->node);
    map_remove(&b->processes, w->process);
    b->workers_count--;
    sl_free(w);
}

void book_expire(struct book *b, uint64_t now_ms, book_lost_fn lost, void *arg)
{
    list_for_safe(n, &b->workers)
    {
        struct book_worker *w = list_entry(n, struct book_worker, node);
        struct list_node *first = list_first(&w->leased);

        if (w->expires_ms > now_ms)
            continue;
        if (first != NULL) {
            struct book_task *t = list_entry(first, struct book_task, node);

            t->losses++;
            if (t->losses >= BOOK_LOSSES)
                t->ended = b->last_ended + 1;
            lost(arg, t);
            if (t->losses >= BOOK_LOSSES)
                book_end(b, t, BOOK_FAILED, 0);
        }
        book_leave(b, w);
    }
}

void book_forgive(struct book *b, uint64_t now_ms, uint32_t lease_ms)
{
    list_for(n, &b->workers)
    {
        struct book_worker *w = list_entry(n, struct book_worker, node);

        if (w->expires_ms < now_ms + lease_ms)
            w->expires_ms = now_ms + lease_ms;
    }
}

uint64_t book_next_ms(const struct book *b)
{
    uint64_t next = UINT64_MAX;

    for (struct list_node *n = b->workers.head.next; n != &b->workers.head;
         n = n->next) {
        const struct book_worker *w = list_entry(n, struct book_worker, node);

        if (w->expires_ms < next)
            next = w->expires_ms;
    }
    return next;
}
