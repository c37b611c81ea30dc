// SPDX-License-Identifier: Apache-2.0
// lib/tasks_inner.h -- a client of a queue from inside: what its two halves
// share. tasks.c is what the user calls, tasks_loop.c what the loop does.
//
//   user's threads   schedule -> unsent;  results -> ended
//   loop's thread    unsent -> Schedule -> alive;  Ended -> results, forget
//
// A task is in `alive` from schedule until its end was received. What Schedule
// did not accept stays in front of `unsent` and is sent again under the same
// numbers, whether the call arrived or not.
//
// Threads  as said of each part; `shared` under its lock.
// Memory   a task belongs to `alive`, a result to the list that it is in.
// Errors   without memory nothing has changed.
#ifndef LIB_TASKS_INNER_H
#define LIB_TASKS_INNER_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "lib/link.h"
#include "lib/tasks.h"

struct queued_task {
    struct list_node node; // unsent, until it is accepted
    uint64_t number;
    size_t bytes;
    bool accepted;
    bool told;        // its cancellation was sent
    const char *name; // behind the body
    uint8_t body[];
};

struct result {
    struct list_node node;
    struct sluice_task_ended ended;
    uint8_t bytes[]; // result, and behind it the error: `ended` points there
};

struct numbers { // numbers of tasks that a call will name
    uint64_t *at;
    size_t count, space;
};

struct sluice_tasks {
    struct link link;
    char *queue; // owned
    uint64_t client;
    uint64_t session;    // 0: the client has no name
    uint32_t said_limit; // limit in the options, which calls send; 0: none

    // The loop's.
    struct link_line schedule, ended, cancel, forgetting;
    struct loop_timer *again;
    uint64_t incarnation, after;
    uint64_t sending; // the first of the call under way
    struct numbers forget;
    bool full; // the queue is, with others' tasks too: the timer tries again
    bool late; // a call failed: nothing is started before the timer

    // The thread's that calls sluice_tasks_ended.
    struct list handed;  // struct result that its last call gave
    struct numbers left; // left by an earlier process; set before `resumed`

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list unsent, results;
        struct map alive; // number -> struct queued_task, owned
        struct numbers to_cancel, to_forget;
        size_t forgetting; // numbers of to_forget that are being sent
        bool resumed;      // `left` is known, or the client has no name
        uint64_t last;
        size_t unsent_bytes, accepted;
        uint32_t limit;
        bool kicked;           // the kick is posted
        bool closing, settled; // settled: nothing is left to be forgotten
        struct loop_task kick;
        enum sl_err broken; // we are refused
        struct sl_error why;
    } shared;
};

// Takes t->shared.lock, which the thread does not hold; waits.
static inline void tasks_lock(struct sluice_tasks *t)
{
    pthread_mutex_lock(&t->shared.lock);
}

// Gives t->shared.lock back.
static inline void tasks_unlock(struct sluice_tasks *t)
{
    pthread_mutex_unlock(&t->shared.lock);
}

// Appends `number` to *n; the owner frees n->at (sl_free). Returns false
// without memory; *n is then unchanged.
bool numbers_add(struct numbers *n, uint64_t number);
// Returns a new task with copies of `name` and body[bytes], in no list and
// without a number, for sl_free; NULL: no memory. `body` may be NULL if `bytes`
// is 0.
struct queued_task *asked_new(const char *name, const void *body, size_t bytes);

// ---- tasks_loop.c

// Sets the methods and callbacks of the four lines, before the link is opened.
// Cannot fail.
void tasks_loop_init(struct sluice_tasks *t);

// Starts the calls that are due, after a pause that followed a failure or a
// full queue. Callback of t->again, on the loop; `tasks` is a struct
// sluice_tasks.
void tasks_loop_again(void *tasks);

// Has the loop start the calls that are due, soon; any thread, with
// t->shared.lock held. Does nothing while an earlier kick waits.
void tasks_loop_kick(struct sluice_tasks *t);

#endif
