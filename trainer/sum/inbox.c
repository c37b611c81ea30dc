// SPDX-License-Identifier: Apache-2.0
// trainer/sum/inbox.c -- the list of pieces that wait; see inbox.h.
#include "trainer/sum/inbox.h"

#include <assert.h>

void inbox_init(struct inbox *b)
{
    *b = (struct inbox){.bucket = 0};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    list_init(&b->pieces);
}

void inbox_release(struct inbox *b)
{
    assert(list_empty(&b->pieces));
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
}

static void inbox_enqueue_locked(struct inbox *b, struct inbox_piece *p)
{
    list_push_back(&b->pieces, &p->node);
    b->count++;
    pthread_cond_broadcast(&b->changed);
}

enum sl_err inbox_offer(struct inbox *b, struct rpc_call *call,
                        const struct wire_piece *m)
{
    struct inbox_piece *p = rpc_call_scratch(call, sizeof(*p));
    enum sl_err rc = SL_OK;
    bool done = false;

    if (p == NULL)
        return SL_ENOMEM;
    p->call = call;
    p->m = *m;
    pthread_mutex_lock(&b->lock);
    if (b->closed)
        rc = SL_ESTALE;
    else if (m->bucket < b->bucket)
        done = true; // the piece was sent again
    else if (b->count >= INBOX_MOST)
        rc = SL_EBUSY;
    else
        inbox_enqueue_locked(b, p);
    pthread_mutex_unlock(&b->lock);
    if (done)
        rpc_answer(call, SL_OK, NULL, NULL);
    return rc;
}

struct inbox_piece *inbox_take_locked(struct inbox *b, uint64_t bucket)
{
    list_for(n, &b->pieces)
    {
        struct inbox_piece *p = list_entry(n, struct inbox_piece, node);

        if (p->m.bucket == bucket) {
            list_remove(n);
            b->count--;
            return p;
        }
    }
    return NULL;
}

void inbox_answer(struct inbox_piece *p)
{
    if (p != NULL)
        rpc_answer(p->call, SL_OK, NULL, NULL);
}

// Acknowledges the pieces that came again while their bucket was under way.
void inbox_done(struct inbox *b, uint64_t below)
{
    struct list gone;
    struct list_node *n;

    list_init(&gone);
    pthread_mutex_lock(&b->lock);
    b->bucket = below;
    list_for_safe(at, &b->pieces)
    {
        if (list_entry(at, struct inbox_piece, node)->m.bucket < below) {
            list_remove(at);
            b->count--;
            list_push_back(&gone, at);
        }
    }
    pthread_mutex_unlock(&b->lock);
    while ((n = list_pop_front(&gone)) != NULL)
        inbox_answer(list_entry(n, struct inbox_piece, node));
}

void inbox_close(struct inbox *b)
{
    struct sl_error err = SL_ERROR_INIT;
    struct list gone;
    struct list_node *n;

    list_init(&gone);
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    b->count = 0;
    list_take_all(&gone, &b->pieces);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    sl_fail(&err, SL_ESTALE, "this rank has left the generation");
    while ((n = list_pop_front(&gone)) != NULL)
        rpc_answer(list_entry(n, struct inbox_piece, node)->call, SL_ESTALE,
                   &err, NULL);
}
