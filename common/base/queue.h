// SPDX-License-Identifier: Apache-2.0
// common/base/queue.h -- many producers, one consumer, no lock.
//
// Producers push on a stack; the consumer takes the whole stack at once and
// turns it round, so that what it sees is first in, first out (per producer,
// and in the order of the pushes). Nodes are never popped one by one: a wake-up
// may stand for many pushes, so the consumer has to drain all.
//
// Threads  queue_push: any. queue_drain: one at a time.
// Memory   nodes are the caller's and must live until they were drained.
#ifndef COMMON_BASE_QUEUE_H
#define COMMON_BASE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

struct queue_node {
    struct queue_node *next;
};

struct queue {
    struct queue_node *_Atomic top;
};

// Makes `q` empty, before any thread pushes.
void queue_init(struct queue *q);

// Pushes a node that is in no queue; it may be drained, and gone, before this
// returns. Returns true if the queue was empty: then wake the consumer. Never
// waits.
bool queue_push(struct queue *q, struct queue_node *n);

// Takes all nodes, oldest first, linked by `next` (NULL: the last); NULL if the
// queue is empty. Read `next` before the node is freed or pushed again. Nothing
// is to be released but the nodes, which the caller does.
struct queue_node *queue_drain(struct queue *q);

// Returns true if no node waits; any thread, and true only for the moment.
bool queue_empty(struct queue *q);

#endif
