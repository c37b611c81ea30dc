// SPDX-License-Identifier: Apache-2.0
// Queues, tasks and workers as values: who gets what, what ends when, and what
// is held against whom.
#include "coordinator/tasks/book.h"

#include <string.h>

#include "common/base/rng.h"
#include "tests/harness/t.h"

#define LEASE 1000

static const char *const both[] = {"a", "b"};

struct hall {
    struct book b;
    struct book_queue *q;
    struct book_client *c;
    uint64_t number, now;
};

static void hall_open(struct hall *h)
{
    memset(h, 0, sizeof(*h));
    book_init(&h->b);
    h->q = book_queue_add(&h->b, 1, "", "q", 0);
    T_ASSERT(h->q != NULL);
    h->c = book_client_add(h->q, 7);
    T_ASSERT(h->c != NULL);
}

static struct book_task *ask(struct hall *h, const char *name)
{
    struct book_task *t =
        book_add(&h->b, h->c, h->b.last_id + 1, ++h->number, name, 10);

    T_ASSERT(t != NULL);
    return t;
}

static struct book_worker *hear(struct hall *h, uint64_t process)
{
    struct book_worker *w = book_heard(&h->b, process, "w", h->now, LEASE);

    T_ASSERT(w != NULL);
    return w;
}

static struct book_task *take(struct hall *h, uint64_t process)
{
    const struct book_offer offer = {
        .queue = "", .handlers = both, .handlers_count = 2};

    return book_take(&h->b, hear(h, process), &offer);
}

static unsigned lost_calls;
static void count_lost(void *arg, struct book_task *t)
{
    lost_calls++;
    T_ASSERT(t->worker != NULL);
}

static void silence(struct hall *h)
{
    h->now += LEASE;
    lost_calls = 0;
    book_expire(&h->b, h->now, count_lost, NULL);
}

TEST(book, tasks_are_taken_in_order_by_who_has_a_handler)
{
    static const char *const only[] = {"b"};
    const struct book_offer offer = {
        .queue = "q", .handlers = only, .handlers_count = 1};
    struct hall h;

    hall_open(&h);
    ask(&h, "a");
    ask(&h, "b");
    ask(&h, "a");
    T_EQ(book_take(&h.b, hear(&h, 1), &offer)->id, 2);
    T_PTR(book_take(&h.b, hear(&h, 1), &offer), NULL);
    T_EQ(take(&h, 2)->id, 1);
    T_EQ(take(&h, 2)->id, 3);
    T_PTR(take(&h, 2), NULL);
    book_release(&h.b);
}

TEST(book, queues_are_served_in_turn_and_by_tenant)
{
    struct hall h;
    const struct book_offer hers = {
        .queue = "", .tenant = "alice", .handlers = both, .handlers_count = 2};
    struct book_queue *other;

    hall_open(&h);
    for (int i = 0; i < 3; i++)
        ask(&h, "a");
    other = book_queue_add(&h.b, 2, "alice", "q", 0);
    h.c = book_client_add(other, 9);
    ask(&h, "a");
    ask(&h, "a");
    T_EQ(take(&h, 1)->id, 1);
    T_EQ(take(&h, 1)->id, 4);
    T_EQ(take(&h, 1)->id, 2);
    T_EQ(book_take(&h.b, hear(&h, 2), &hers)->id, 5);
    T_PTR(book_take(&h.b, hear(&h, 2), &hers), NULL);
    T_PTR(book_queue_find(&h.b, "bob", "q"), NULL);
    T_PTR(book_queue_find(&h.b, "alice", "q"), other);
    book_release(&h.b);
}

TEST(book, a_silent_worker_answers_for_its_first_task_alone)
{
    struct hall h;
    struct book_task *first, *second;

    hall_open(&h);
    first = ask(&h, "a");
    second = ask(&h, "a");
    for (unsigned i = 1; i <= BOOK_LOSSES; i++) {
        T_PTR(take(&h, i), first);
        T_PTR(take(&h, i), second);
        silence(&h);
        T_EQ(lost_calls, 1);
        T_EQ(first->losses, i);
    }
    T_EQ(first->state, BOOK_FAILED);
    T_EQ(first->ended, 1);
    T_EQ(second->losses, 0);
    T_EQ(second->state, BOOK_PENDING);
    T_EQ(h.b.workers_count, 0);
    book_release(&h.b);
}

TEST(book, who_is_heard_of_keeps_its_leases)
{
    struct hall h;
    struct book_task *t;

    hall_open(&h);
    t = ask(&h, "a");
    take(&h, 1);
    h.now += LEASE - 1;
    hear(&h, 1);
    T_EQ(book_next_ms(&h.b), h.now + LEASE);
    h.now += LEASE - 1;
    book_expire(&h.b, h.now, count_lost, NULL);
    T_EQ(t->state, BOOK_LEASED);
    // We were away: the silence was not the worker's.
    h.now += LEASE;
    book_forgive(&h.b, h.now, LEASE);
    book_expire(&h.b, h.now, count_lost, NULL);
    T_EQ(t->state, BOOK_LEASED);
    book_release(&h.b);
}

TEST(book, what_is_held_is_leased_again_after_a_restart)
{
    struct hall h;
    struct book_task *t;

    hall_open(&h);
    t = ask(&h, "a"); // pending, as after a load
    T_TRUE(book_holds(&h.b, hear(&h, 1), t->id));
    T_EQ(t->state, BOOK_LEASED);
    T_FALSE(book_holds(&h.b, hear(&h, 2), t->id));
    T_FALSE(book_holds(&h.b, hear(&h, 1), 99));
    book_end(&h.b, t, BOOK_CANCELLED, 0);
    T_FALSE(book_holds(&h.b, hear(&h, 1), t->id));
    book_release(&h.b);
}

TEST(book, a_worker_that_leaves_gives_back_in_order)
{
    struct hall h;

    hall_open(&h);
    for (int i = 0; i < 4; i++)
        ask(&h, "a");
    take(&h, 1);
    take(&h, 1);
    take(&h, 1);
    book_leave(&h.b, hear(&h, 1));
    for (uint64_t id = 1; id <= 4; id++) {
        struct book_task *t = take(&h, 2);

        T_EQ(t->id, id);
        T_EQ(t->losses, 0);
    }
    book_release(&h.b);
}

TEST(book, a_queue_is_bounded_until_results_are_forgotten)
{
    struct hall h;
    struct sl_error err = SL_ERROR_INIT;
    struct book_task *t;

    hall_open(&h);
    h.q->limit = 2;
    t = ask(&h, "a");
    T_OK(book_room(&h.b, h.q, "a", 10, t_err()));
    ask(&h, "a");
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", 10, &err));
    T_HAS(err.text, "queue 'q' keeps 2 tasks");
    book_end(&h.b, t, BOOK_DONE, 5);
    T_EQ(h.q->bytes, 15);
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", 10, &err));
    book_forget(&h.b, t);
    T_EQ(h.q->bytes, 10);
    T_OK(book_room(&h.b, h.q, "a", 10, t_err()));
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", BOOK_BYTES, &err));
    T_HAS(err.text, "bytes of payloads and results");
    book_release(&h.b);
}

TEST(book, results_beyond_the_bound_wait_to_be_received)
{
    struct hall h;
    struct sl_error err = SL_ERROR_INIT;
    struct book_task *t;

    hall_open(&h);
    t = ask(&h, "a");
    ask(&h, "a");
    book_end(&h.b, t, BOOK_DONE, 2 * BOOK_BYTES);
    T_PTR(take(&h, 1), NULL);
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", 1, &err));
    book_forget(&h.b, t);
    T_EQ(take(&h, 1)->id, 2);
    T_OK(book_room(&h.b, h.q, "a", 1, t_err()));
    book_release(&h.b);
}

TEST(book, all_queues_together_are_bounded)
{
    struct hall h;
    struct sl_error err = SL_ERROR_INIT;
    struct book_queue *other;

    hall_open(&h);
    book_end(&h.b, ask(&h, "a"), BOOK_DONE, BOOK_ALL_BYTES);
    other = book_queue_add(&h.b, 2, "alice", "q", 0);
    T_FAILS(SL_EBUSY, book_room(&h.b, other, "a", 1, &err));
    T_HAS(err.text, "all queues together");
    book_queue_remove(&h.b, h.q);
    T_OK(book_room(&h.b, other, "a", 1, t_err()));
    T_EQ(h.b.bytes, 0);
    book_release(&h.b);
}

static void add_queues(struct book *b, const char *tenant, unsigned wanted)
{
    struct sl_error err = SL_ERROR_INIT;
    char name[32];
    unsigned n = 0;

    while (book_queue_room(b, tenant, &err) == SL_OK) {
        snprintf(name, sizeof(name), "%s-%u", tenant, n++);
        T_ASSERT(book_queue_add(b, b->queues_count + 1, tenant, name, 0) !=
                 NULL);
    }
    T_EQ(err.code, SL_EBUSY);
    T_EQ(n, wanted);
}

TEST(book, a_tenant_leaves_as_many_queues_as_it_has)
{
    struct book b;

    book_init(&b);
    add_queues(&b, "alice", BOOK_QUEUES / 2);
    add_queues(&b, "bob", BOOK_QUEUES / 4);
    add_queues(&b, "alice", 0);
    add_queues(&b, "carol", BOOK_QUEUES / 8);
    book_release(&b);
    book_init(&b);
    add_queues(&b, "", BOOK_QUEUES); // who may do everything
    book_release(&b);
}

TEST(book, a_tenant_leaves_as_many_bytes_as_it_has)
{
    const struct book_offer all = {
        .queue = "", .handlers = both, .handlers_count = 2};
    struct sl_error err = SL_ERROR_INIT;
    struct book_queue *bobs;
    struct hall h;

    memset(&h, 0, sizeof(h));
    book_init(&h.b);
    for (uint64_t i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), '\0'};

        h.q = book_queue_add(&h.b, i + 1, "alice", name, 0);
        h.c = book_client_add(h.q, 7);
        ask(&h, "a");
        book_end(&h.b, take(&h, 1), BOOK_DONE, BOOK_ALL_BYTES / 4);
    }
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", 1, &err));
    ask(&h, "a"); // was let in before the results came
    T_PTR(take(&h, 1), NULL);
    bobs = book_queue_add(&h.b, 9, "bob", "q", 0);
    h.c = book_client_add(bobs, 7);
    ask(&h, "a");
    T_PTR(book_take(&h.b, hear(&h, 1), &all)->client, h.c);
    book_queue_remove(&h.b, h.q);
    book_queue_remove(&h.b, book_queue_find(&h.b, "alice", "a"));
    T_OK(book_room(&h.b, bobs, "a", BOOK_ALL_BYTES / 4 - 10, t_err()));
    h.q = book_queue_add(&h.b, 10, "alice", "new", 0);
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "a", BOOK_BYTES, &err));
    T_HAS(err.text, "tenant alice");
    book_release(&h.b);
}

TEST(book, names_of_handlers_are_bounded)
{
    struct hall h;
    struct sl_error err = SL_ERROR_INIT;
    char name[16];

    hall_open(&h);
    for (int i = 0; i < BOOK_KINDS; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        ask(&h, name);
    }
    T_OK(book_room(&h.b, h.q, "n5", 1, t_err()));
    T_FAILS(SL_EBUSY, book_room(&h.b, h.q, "other", 1, &err));
    T_HAS(err.text, "handlers");
    book_release(&h.b);
}

TEST(book, old_clients_go_when_they_have_no_task)
{
    struct hall h;

    hall_open(&h);
    ask(&h, "a"); // client 7 has one
    for (uint64_t i = 0; i < BOOK_CLIENTS; i++)
        T_ASSERT(book_client_add(h.q, 100 + i) != NULL);
    T_EQ(book_client_surplus(h.q)->id, 100);
    book_client_remove(book_client_surplus(h.q));
    T_PTR(book_client_surplus(h.q), NULL);
    book_release(&h.b);
}

TEST(book, some_are_left_for_the_others)
{
    struct hall h;

    hall_open(&h);
    for (int i = 0; i < 40; i++)
        ask(&h, "a");
    hear(&h, 1);
    hear(&h, 2);
    T_EQ(book_share(&h.b), 10);
    book_release(&h.b);
}

// What counts say, counted.
static void check(struct hall *h, uint64_t alive)
{
    uint64_t count[BOOK_STATES] = {0}, bytes = 0, id;
    size_t at = 0;
    void *task;

    while (map_next(&h->b.tasks, &at, &id, &task)) {
        struct book_task *t = task;

        count[t->state]++;
        bytes += t->bytes;
        T_EQ(t->state == BOOK_LEASED, t->worker != NULL);
        T_EQ(t->state > BOOK_LEASED, t->ended != 0);
    }
    for (int i = 0; i < BOOK_STATES; i++)
        T_EQ(h->q->count[i], count[i]);
    T_EQ(h->q->bytes, bytes);
    T_EQ(h->b.bytes, bytes);
    T_EQ(h->b.pending, count[BOOK_PENDING]);
    T_EQ(book_queue_tasks(h->q), alive);
    T_EQ(list_on(&h->q->busy), count[BOOK_PENDING] > 0);
}

TEST(book, counts_hold_whatever_happens)
{
    struct hall h;
    struct rng r;
    uint64_t alive = 0;

    hall_open(&h);
    rng_init(&r, 11, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t what = rng_below(&r, 6), id = rng_below(&r, h.b.last_id + 2);
        struct book_task *t = book_find(&h.b, id);

        if (what == 0)
            ask(&h, both[rng_below(&r, 2)]), alive++;
        else if (what == 1)
            take(&h, 1 + rng_below(&r, 4));
        else if (what == 2 && t != NULL && t->ended == 0)
            book_end(&h.b, t, BOOK_DONE + (int)rng_below(&r, 3), id % 50);
        else if (what == 3 && t != NULL && t->ended != 0)
            book_forget(&h.b, t), alive--;
        else if (what == 4 && rng_below(&r, 20) == 0)
            silence(&h);
        else if (what == 5)
            book_holds(&h.b, hear(&h, 1 + rng_below(&r, 4)), id);
        if (i % 100 == 0)
            check(&h, alive);
    }
    check(&h, alive);
    book_release(&h.b);
}
