// SPDX-License-Identifier: Apache-2.0
// common/base/queue.c -- a linked stack that producers push and the consumer
// takes whole and turns round.
#include "common/base/queue.h"

void queue_init(struct queue *q)
{
    atomic_init(&q->top, NULL);
}

// ABA cannot happen: the consumer takes the whole stack and never one node, so
// a `top` that is compared equal is a stack that `n` may go on.
bool queue_push(struct queue *q, struct queue_node *n)
{
    struct queue_node *top =
        atomic_load_explicit(&q->top, memory_order_relaxed);

    do {
        n->next = top;
    } while (!atomic_compare_exchange_weak_explicit(
        &q->top, &top, n, memory_order_release, memory_order_relaxed));
    // `n` may be gone by now; `top` is only compared.
    return top == NULL;
}

struct queue_node *queue_drain(struct queue *q)
{
    struct queue_node *n =
        atomic_exchange_explicit(&q->top, NULL, memory_order_acquire);
    struct queue_node *oldest = NULL;

    while (n != NULL) {
        struct queue_node *next = n->next;

        n->next = oldest;
        oldest = n;
        n = next;
    }
    return oldest;
}

bool queue_empty(struct queue *q)
{
    return atomic_load_explicit(&q->top, memory_order_acquire) == NULL;
}
