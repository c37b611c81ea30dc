// SPDX-License-Identifier: Apache-2.0
// lib/tasks.c -- a client of a queue, as its user sees it: schedule, receive,
// cancel, forget; open and close.
#include "lib/tasks.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/base/deadline.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "lib/tasks_inner.h"

#define LIMIT 10000
#define UNSENT_BYTES ((size_t)64 << 20)
#define GOODBYE_MS 2000

// ---- the user's

static bool tasks_has_room(const struct sluice_tasks *t)
{
    return t->shared.resumed && t->shared.alive.len < t->shared.limit &&
           t->shared.unsent_bytes < UNSENT_BYTES;
}

// Under the lock: there is room, or an error.
static enum sl_err wait_for_room(struct sluice_tasks *t, int64_t wait_ms,
                                 struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_or_never(&d, wait_ms);

    while (t->shared.broken == SL_OK && !tasks_has_room(t))
        if (!deadline_wait(until, &t->shared.changed, &t->shared.lock))
            return t->shared.resumed
                       ? sl_fail(err, SL_ETIMEDOUT,
                                 "queue '%s' is full: %zu tasks have not ended",
                                 t->queue, t->shared.alive.len)
                       : sl_fail(err, SL_ETIMEDOUT,
                                 "no coordinator has said where the client of "
                                 "queue '%s' was",
                                 t->queue);
    if (t->shared.broken != SL_OK && err != NULL)
        *err = t->shared.why;
    return t->shared.broken;
}

enum sl_err sluice_tasks_schedule(struct sluice_tasks *t, const char *name,
                                  const void *body, size_t bytes,
                                  int64_t wait_ms, uint64_t *number,
                                  struct sl_error *err)
{
    struct queued_task *a;
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
    tasks_lock(t);
    rc = wait_for_room(t, wait_ms, err);
    if (rc == SL_OK &&
        map_put(&t->shared.alive, t->shared.last + 1, a) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for a task");
    if (rc == SL_OK) {
        *number = a->number = ++t->shared.last;
        t->shared.unsent_bytes += bytes;
        list_push_back(&t->shared.unsent, &a->node);
        tasks_loop_kick(t);
    }
    tasks_unlock(t);
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
    const struct deadline *until = deadline_or_never(&d, wait_ms);
    enum sl_err rc = SL_OK;
    size_t n = 0;

    free_results(&t->handed);
    tasks_lock(t);
    while (list_empty(&t->shared.results) && t->shared.broken == SL_OK)
        if (!deadline_wait(until, &t->shared.changed, &t->shared.lock))
            break;
    while (n < max && !list_empty(&t->shared.results)) {
        struct list_node *node = list_pop_front(&t->shared.results);

        out[n++] = list_entry(node, struct result, node)->ended;
        list_push_back(&t->handed, node);
    }
    // Nothing more will come to a client that is refused.
    if (n == 0 && t->shared.broken != SL_OK)
        rc = sl_fail(err, t->shared.broken, "%s", t->shared.why.text);
    else if (n == 0)
        rc = sl_fail(err, SL_ETIMEDOUT, "no task has ended");
    else
        *count = n;
    tasks_unlock(t);
    return rc;
}

enum sl_err sluice_tasks_cancel(struct sluice_tasks *t, uint64_t number,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    tasks_lock(t);
    if (map_get(&t->shared.alive, number) != NULL &&
        !numbers_add(&t->shared.to_cancel, number))
        rc = sl_fail(err, SL_ENOMEM, "no memory for a wish to cancel");
    tasks_loop_kick(t);
    tasks_unlock(t);
    return rc;
}

enum sl_err sluice_tasks_left(struct sluice_tasks *t, int64_t wait_ms,
                              uint64_t *out, size_t max, size_t *count,
                              struct sl_error *err)
{
    struct deadline d;
    const struct deadline *until = deadline_or_never(&d, wait_ms);
    enum sl_err rc = SL_OK;

    tasks_lock(t);
    while (t->shared.broken == SL_OK && !t->shared.resumed)
        if (!deadline_wait(until, &t->shared.changed, &t->shared.lock))
            break;
    if (t->shared.broken != SL_OK) {
        rc = t->shared.broken;
        if (err != NULL)
            *err = t->shared.why;
    } else if (!t->shared.resumed) {
        rc = sl_fail(err, SL_ETIMEDOUT, "no coordinator has said what is left");
    } else {
        for (size_t i = 0; i < t->left.count && i < max; i++)
            out[i] = t->left.at[i];
        *count = t->left.count;
    }
    tasks_unlock(t);
    return rc;
}

enum sl_err sluice_tasks_forget(struct sluice_tasks *t, uint64_t number,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (t->session == 0)
        return SL_OK; // it is
    tasks_lock(t);
    if (map_get(&t->shared.alive, number) != NULL)
        rc = sl_fail(err, SL_ESTATE, "task %" PRIu64 " has not ended", number);
    else if (!numbers_add(&t->shared.to_forget, number))
        rc = sl_fail(err, SL_ENOMEM, "no memory for a wish to forget");
    tasks_loop_kick(t);
    tasks_unlock(t);
    return rc;
}

uint64_t sluice_tasks_open_count(struct sluice_tasks *t)
{
    uint64_t n;

    tasks_lock(t);
    n = t->shared.alive.len;
    list_for(node, &t->shared.results) n++;
    tasks_unlock(t);
    return n;
}

// ---- life

// The same name is the same client.
static enum sl_err name_client(struct sluice_tasks *t, const char *name,
                               struct sl_error *err)
{
    uint8_t digest[SHA256_BYTES];

    if (!link_is_name(name))
        return sl_fail(err, SL_EINVAL,
                       "a client's name has 1 to %d bytes of UTF-8, no control "
                       "characters, no blanks at its ends",
                       WIRE_NAME_BYTES);
    t->session = t->client; // random
    if (sha256_bytes(digest, name, strlen(name)) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "no memory for a hash");
    memcpy(&t->client, digest, sizeof(t->client));
    t->client |= 1; // not 0
    return SL_OK;
}

static enum sl_err tasks_start(struct sluice_tasks *t,
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
    t->shared.resumed = o->client == NULL;
    rc = o->client != NULL ? name_client(t, o->client, err) : SL_OK;
    if (rc != SL_OK)
        return rc;
    rc = link_open(&t->link, &link, err);
    if (rc == SL_OK)
        rc = loop_timer_new(&t->again, t->link.loop, tasks_loop_again, t);
    if (rc == SL_OK)
        rc = link_start(&t->link, err);
    if (rc != SL_OK)
        return rc;
    tasks_lock(t);
    if (!t->shared.resumed)
        tasks_loop_kick(t); // asks what is left
    tasks_unlock(t);
    return SL_OK;
}

static void tasks_free_client(struct sluice_tasks *t)
{
    link_stop(&t->link);
    loop_timer_free(t->again);
    link_release(&t->link);
    line_release(&t->schedule);
    line_release(&t->ended);
    line_release(&t->cancel);
    line_release(&t->forgetting);
    free_results(&t->handed);
    free_results(&t->shared.results);
    map_release_owned(&t->shared.alive);
    sl_free(t->forget.at);
    sl_free(t->shared.to_cancel.at);
    sl_free(t->shared.to_forget.at);
    sl_free(t->left.at);
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
        return sl_no_memory(err);
    list_init(&t->handed);
    list_init(&t->shared.unsent);
    list_init(&t->shared.results);
    pthread_mutex_init(&t->shared.lock, NULL);
    pthread_cond_init(&t->shared.changed, NULL);
    tasks_loop_init(t);
    rc = tasks_start(t, &all, err);
    if (rc != SL_OK) {
        tasks_free_client(t);
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
    tasks_lock(t);
    t->shared.closing = true;
    tasks_loop_kick(t);
    while ((!list_empty(&t->shared.unsent) || !t->shared.settled) &&
           t->shared.broken == SL_OK &&
           deadline_wait(&until, &t->shared.changed, &t->shared.lock))
        ;
    tasks_unlock(t);
    tasks_free_client(t);
}
