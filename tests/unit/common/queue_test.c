// SPDX-License-Identifier: Apache-2.0
#include "common/base/queue.h"

#include <pthread.h>
#include <sched.h>

#include "tests/harness/t.h"

#define THREADS 4
#define EACH 20000

struct item {
    struct queue_node node;
    unsigned who, n;
};

static struct queue queue;
static struct item items[THREADS][EACH];

TEST(queue, first_in_first_out)
{
    struct item a, b;
    struct queue_node *n;

    queue_init(&queue);
    T_TRUE(queue_drain(&queue) == NULL);
    T_TRUE(queue_push(&queue, &a.node));  // was empty: wake
    T_FALSE(queue_push(&queue, &b.node)); // was not
    n = queue_drain(&queue);
    T_PTR(n, &a.node);
    T_PTR(n->next, &b.node);
    T_TRUE(n->next->next == NULL);
    T_TRUE(queue_empty(&queue));
    T_TRUE(queue_push(&queue, &a.node));
}

static void *produce(void *arg)
{
    unsigned who = *(unsigned *)arg;

    for (unsigned i = 0; i < EACH; i++) {
        items[who][i] = (struct item){{NULL}, who, i};
        queue_push(&queue, &items[who][i].node);
    }
    return NULL;
}

// Nothing is lost or doubled, and each producer's order holds.
TEST(queue, many_producers)
{
    pthread_t threads[THREADS];
    unsigned who[THREADS], next[THREADS] = {0}, total = 0;

    queue_init(&queue);
    for (unsigned i = 0; i < THREADS; i++) {
        who[i] = i;
        T_EQ(pthread_create(&threads[i], NULL, produce, &who[i]), 0);
    }
    while (total < THREADS * EACH) {
        struct queue_node *n = queue_drain(&queue);

        if (n == NULL)
            sched_yield();
        for (; n != NULL; n = n->next) {
            struct item *item = sl_container_of(n, struct item, node);

            T_EQ(item->n, next[item->who]);
            next[item->who]++;
            total++;
        }
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    T_TRUE(queue_empty(&queue));
}
