// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/book.h -- queues, their tasks and their workers: decisions
// alone, without a disk, a clock or a network.
//
//   PENDING --book_take--> LEASED --book_end--> DONE, FAILED --book_forget-->
//      ^                     |                  CANCELLED
//      +----- given back, or its worker was lost
//
// The first end counts: book_end of an ended task is the caller's mistake, and
// a task that is not in the book any more cannot end. A task is known by its id
// to workers, by (client, number) to its client. Numbers rise: one that is not
// above `last` of its client was accepted before.
//
// A worker does its tasks in the order in which it was given them. When it is
// lost, that counts against the first of them alone: at BOOK_LOSSES losses a
// task fails.
//
// A queue belongs to a tenant; its tasks come from clients, and each names the
// handler that is to do it (a kind in the book). A worker is a process with
// handlers; its lease, renewed by book_heard, is how long it may be silent.
//
// Threads  one at a time.
// Memory   the book's, until a task is forgotten or its queue removed. Names
//          are copied. Nodes are in one list at a time: of their kind's
//          pending, of their worker's leased, of their client's ended tasks.
//          No pointer may be NULL but where it is said; `err` may be.
// Units    milliseconds, monotonic, passed in; bytes of payloads and results.
// Errors   without memory, NULL: nothing has changed.
#ifndef COORDINATOR_TASKS_BOOK_H
#define COORDINATOR_TASKS_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "proto/access.h"
#include "proto/wire.h"

#define BOOK_LOSSES 3               // workers that a task may take down
#define BOOK_LIMIT 10000            // tasks of a queue that names no limit
#define BOOK_BYTES (256ull << 20)   // payloads and results of a queue
#define BOOK_ALL_TASKS 1000000      // of all queues
#define BOOK_ALL_BYTES (1ull << 30) // likewise, unless bytes_most is set
#define BOOK_QUEUES 1000
#define BOOK_KINDS 1000   // names of handlers in a queue
#define BOOK_CLIENTS 1000 // of a queue; the oldest without a task goes

enum book_state { // as in tasks.proto
    BOOK_PENDING = 1,
    BOOK_LEASED,
    BOOK_DONE,
    BOOK_FAILED,
    BOOK_CANCELLED,
    BOOK_STATES
};

struct book_kind { // tasks of one name
    struct list_node node;
    struct list pending;
    uint32_t tasks;
    char name[];
};

struct book_client {
    struct list_node node; // the newest last
    struct book_queue *queue;
    uint64_t id, last; // last: highest number of a task that was accepted
    uint64_t session;  // the only session that schedules for this client
    struct map tasks;  // by number
    struct list ended;
};

struct book_task {
    struct list_node node;
    uint64_t id, number;
    uint64_t ended; // order in which tasks ended; 0: it has not
    enum book_state state;
    uint32_t losses;
    size_t bytes; // bytes of its payload, or of its result
    struct book_client *client;
    struct book_kind *kind;
    struct book_worker *worker; // LEASED
};

// What one tenant has of the book. The tenant "" (queues without a tenant, and
// callers that may do everything) is counted, but has no limit of its own.
struct book_tenant {
    uint32_t queues; // freed with its last queue
    uint64_t tasks, bytes;
    char name[ACCESS_TENANT];
};

struct book_queue {
    struct list_node node;
    struct list_node busy; // link in book.busy while a task is pending
    uint64_t id;
    struct book_tenant *tenant;
    char name[WIRE_NAME_BYTES + 1];
    uint32_t limit;
    struct list kinds, clients;
    uint32_t kinds_count, clients_count;
    uint64_t count[BOOK_STATES], bytes;
};

struct book_worker {
    struct list_node node;
    uint64_t process, expires_ms;
    struct list leased; // its tasks, in the order in which it was given them
    const void *call;   // its newest call, to compare with
    char name[WIRE_NAME_BYTES + 1];
};

struct book {
    struct list queues, busy, workers;
    uint32_t queues_count, workers_count;
    struct map tasks, processes; // id -> book_task; process -> book_worker
    // highest numbers drawn; pending tasks and bytes of all queues
    uint64_t last_id, last_ended, pending, bytes;
    uint64_t bytes_most; // of all queues: BOOK_ALL_BYTES, or its owner's limit
};

// Sets *b to an empty book, with bytes_most BOOK_ALL_BYTES.
void book_init(struct book *b);

// Frees all queues, tasks and workers, and leaves *b empty with its bytes_most.
// All pointers into the book are invalid then.
void book_release(struct book *b);

// ---- queues and clients

// Returns the tenant's queue of that name, or NULL.
struct book_queue *book_queue_find(struct book *b, const char *tenant,
                                   const char *name);

// Returns SL_OK if a tenant may have one more queue; SL_EBUSY, with what it
// has, if not. As with tasks and bytes (book_room) a tenant may have as much as
// it leaves free: so a new tenant always finds room, and a single one may have
// half of all. The tenant "" may have all that there are (BOOK_QUEUES).
enum sl_err book_queue_room(const struct book *b, const char *tenant,
                            struct sl_error *err);

// Adds a queue under an id that the caller has drawn or loaded, of up to
// `limit` tasks; 0: BOOK_LIMIT. The tenant has no queue of that name, and room
// (book_queue_room): neither is looked at. NULL: no memory.
struct book_queue *book_queue_add(struct book *b, uint64_t id,
                                  const char *tenant, const char *name,
                                  uint32_t limit);

// Frees a queue with its clients and its tasks, in whatever state these are;
// workers lose those that were leased to them.
void book_queue_remove(struct book *b, struct book_queue *q);

// Returns how many tasks the queue keeps, ended ones too.
uint64_t book_queue_tasks(const struct book_queue *q);

// Returns the queue's client of that id, or NULL.
struct book_client *book_client_find(struct book_queue *q, uint64_t id);

// Adds a client with `last` and `session` 0, as the newest; the queue has none
// of that id (not looked at). NULL: no memory.
struct book_client *book_client_add(struct book_queue *q, uint64_t id);

// Frees a client, which must have no task.
void book_client_remove(struct book_client *c);

// Returns the oldest client without a task, to be removed, if the queue has
// more than BOOK_CLIENTS clients; else NULL.
struct book_client *book_client_surplus(struct book_queue *q);

// ---- tasks

// Returns SL_OK if the queue may have one more task of `bytes` bytes for the
// handler `name`; SL_EBUSY if the queue, its tenant or all queues have as many
// tasks, bytes or handlers as they may; the text says which. Where nothing is
// kept yet, any number of bytes is allowed.
enum sl_err book_room(const struct book *b, const struct book_queue *q,
                      const char *name, size_t bytes, struct sl_error *err);

// Adds a pending task for the handler `name`, as the last one, under an id that
// the caller has drawn (above last_id) or loaded, and raises last_id and
// c->last to its id and number; no task has the id, and none of c the number
// (not looked at). book_room is not asked. NULL: no memory.
struct book_task *book_add(struct book *b, struct book_client *c, uint64_t id,
                           uint64_t number, const char *name, size_t bytes);

// Returns the task of that id, in whatever state, or NULL.
struct book_task *book_find(const struct book *b, uint64_t id);

// Ends a task that has not ended, as `state` (DONE, FAILED or CANCELLED),
// numbers its end (t->ended) and puts it last among its client's ended tasks; a
// worker that has it loses it. From now on t->bytes is result_bytes, the size
// of its result. The task stays in the book until book_forget.
void book_end(struct book *b, struct book_task *t, enum book_state state,
              size_t result_bytes);

// Restores the end of a task that was loaded as PENDING and had ended as
// `state`, with the number `ended` and a result of result_bytes. To be called
// for tasks in the order of `ended`; raises b->last_ended.
void book_ended(struct book *b, struct book_task *t, enum book_state state,
                uint64_t ended, size_t result_bytes);

// Takes a task, in whatever state, out of the book and frees it; its client
// stays.
void book_forget(struct book *b, struct book_task *t);

// ---- workers

// Returns the worker of this process, made if it is new, with this name and a
// lease until now_ms + lease_ms in place of its earlier ones; valid until
// book_leave or book_expire. NULL: no memory.
struct book_worker *book_heard(struct book *b, uint64_t process,
                               const char *name, uint64_t now_ms,
                               uint32_t lease_ms);

struct book_offer {     // the tasks that a worker would do
    const char *queue;  // "": any
    const char *tenant; // NULL: of any tenant
    const char *const *handlers;
    size_t handlers_count;
};

// Leases the next task that fits *offer to worker w and returns it: the oldest
// one of the queue that was served longest ago, which then is the one served
// last. Until results are received a queue is passed over that keeps twice
// BOOK_BYTES, or of which the tenant (not "") keeps bytes_most; and all are
// while they keep twice bytes_most. NULL: no task fits the offer.
struct book_task *book_take(struct book *b, struct book_worker *w,
                            const struct book_offer *offer);

// Returns how many tasks one worker may take at once so that others find some:
// half of the pending ones, divided among the workers, or all if there is no
// worker; at least 1.
uint64_t book_share(const struct book *b);

// Returns true if worker w, which reports to hold task `id`, is to go on with
// it. A task that no worker has is leased to w again, as after a restart of the
// coordinator. False if the task is unknown, has ended, or another worker has
// it.
bool book_holds(struct book *b, struct book_worker *w, uint64_t id);

// Puts a leased task back to the front of its queue's tasks for the same
// handler, without a loss: it is PENDING, and its worker does not have it any
// more.
void book_give_back(struct book *b, struct book_task *t);

// Receives a task that lost its worker, still leased, with its new count, and
// with its `ended` if it is to fail.
typedef void (*book_lost_fn)(void *arg, struct book_task *t);

// Removes the workers with leases that have ended by now_ms, and gives back
// their tasks as book_leave does. For the first task of each, the loss is
// counted and lost(arg, t) called, which must not change the book; if that is
// its BOOK_LOSSES-th loss, the task then becomes FAILED.
void book_expire(struct book *b, uint64_t now_ms, book_lost_fn lost, void *arg);

// Gives back all tasks of a worker, in their order, and frees the worker.
void book_leave(struct book *b, struct book_worker *w);

// Extends the leases of all workers to now_ms + lease_ms at least, as the
// coordinator itself was away and no worker is to be lost for that.
void book_forgive(struct book *b, uint64_t now_ms, uint32_t lease_ms);

// Returns when the next lease ends, on the clock of now_ms; UINT64_MAX: no
// worker has one.
uint64_t book_next_ms(const struct book *b);

#endif
