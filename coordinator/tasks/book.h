// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/book.h -- queues, their tasks, and who does them: what is
// decided, without a disk, a clock or a network.
//
//   PENDING --book_take--> LEASED --book_end--> DONE, FAILED --book_forget-->
//      ^                     |                  CANCELLED
//      +----- given back, or its worker was lost
//
// The first end counts: book_end of an ended task is the caller's mistake, and
// what is not in the book any more cannot end. A task is known by its id to
// workers, by (client, number) to its client. Numbers rise: one that is not
// above `last` of its client was accepted before.
//
// A worker does what it holds in the order in which it was given. One that is
// lost is held against the first of its tasks alone: at BOOK_LOSSES it fails.
//
// Threads  one at a time.
// Memory   the book's, until a task is forgotten or its queue removed. Nodes
//          are in one list at a time: of their kind's pending, of their
//          worker's leased, of their client's ended tasks.
// Units    milliseconds, monotonic, passed in; bytes of payloads and results.
// Errors   SL_ENOMEM: nothing has changed.
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
#define BOOK_LIMIT 10000            // tasks of a queue, where nobody says
#define BOOK_BYTES (256ull << 20)   // of payloads and results of a queue
#define BOOK_ALL_TASKS 1000000      // of all queues
#define BOOK_ALL_BYTES (1ull << 30) // likewise
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
    uint64_t id, last;
    uint64_t session; // the only one that schedules for it
    struct map tasks; // by number
    struct list ended;
};

struct book_task {
    struct list_node node;
    uint64_t id, number;
    uint64_t ended; // rises; 0: it has not
    enum book_state state;
    uint32_t losses;
    size_t bytes; // of its payload, or of its result
    struct book_client *client;
    struct book_kind *kind;
    struct book_worker *worker; // LEASED
};

// What one tenant has of the book. "" is nobody's, and of who may do
// everything: it is counted, and not limited for itself.
struct book_tenant {
    uint32_t queues; // goes with the last one
    uint64_t tasks, bytes;
    char name[ACCESS_TENANT];
};

struct book_queue {
    struct list_node node;
    struct list_node busy; // while something is pending
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
    struct list leased; // in the order in which they were given
    const void *call;   // its newest one, to compare with
    char name[WIRE_NAME_BYTES + 1];
};

struct book {
    struct list queues, busy, workers;
    uint32_t queues_count, workers_count;
    struct map tasks, processes;
    uint64_t last_id, last_ended, pending, bytes;
};

void book_init(struct book *b);
void book_release(struct book *b);

// ---- queues and clients

struct book_queue *book_queue_find(struct book *b, const char *tenant,
                                   const char *name);
// Whether a tenant may have one queue more. As with tasks and bytes (book_room)
// it has no more than it leaves free: so whoever comes finds room, and who is
// alone may have half. SL_EBUSY says what it has.
enum sl_err book_queue_room(const struct book *b, const char *tenant,
                            struct sl_error *err);
// NULL: no memory.
struct book_queue *book_queue_add(struct book *b, uint64_t id,
                                  const char *tenant, const char *name,
                                  uint32_t limit);
void book_queue_remove(struct book *b, struct book_queue *q);
uint64_t book_queue_tasks(const struct book_queue *q);

struct book_client *book_client_find(struct book_queue *q, uint64_t id);
// With `last` of 0. NULL: no memory.
struct book_client *book_client_add(struct book_queue *q, uint64_t id);
void book_client_remove(struct book_client *c); // it has no task
// The oldest client without a task, if there are too many; NULL: nobody.
struct book_client *book_client_surplus(struct book_queue *q);

// ---- tasks

// SL_EBUSY: the queue keeps as many tasks or bytes as it may, or as many names
// of handlers, or its tenant's do, or all queues; the text says which.
enum sl_err book_room(const struct book *b, const struct book_queue *q,
                      const char *name, size_t bytes, struct sl_error *err);

// Pending, under an id that the caller has drawn (above last_id) or loaded.
// NULL: no memory.
struct book_task *book_add(struct book *b, struct book_client *c, uint64_t id,
                           uint64_t number, const char *name, size_t bytes);
struct book_task *book_find(const struct book *b, uint64_t id);

// One that has not ended: its payload goes, its result is so long. Its
// `ended` is drawn.
void book_end(struct book *b, struct book_task *t, enum book_state state,
              size_t result_bytes);
// One that was loaded, as it was.
void book_ended(struct book *b, struct book_task *t, enum book_state state,
                uint64_t ended, size_t result_bytes);
void book_forget(struct book *b, struct book_task *t); // and frees

// ---- workers

// Whoever was heard of: new, or with a lease until now + lease_ms. NULL: no
// memory.
struct book_worker *book_heard(struct book *b, uint64_t process,
                               const char *name, uint64_t now_ms,
                               uint32_t lease_ms);

struct book_offer {     // what a worker would do
    const char *queue;  // "": any
    const char *tenant; // NULL: whoever's
    const char *const *handlers;
    size_t handlers_count;
};

// The next task for it, leased: of the queue that was served longest ago, the
// oldest one; not of one whose results are twice what it may keep, until they
// are received. NULL: there is none.
struct book_task *book_take(struct book *b, struct book_worker *w,
                            const struct book_offer *offer);

// So many at once leave something for the other workers: at least 1.
uint64_t book_share(const struct book *b);

// Whether a worker that says that it holds a task shall go on with it. One that
// nobody has is leased to it again (this coordinator has begun anew).
bool book_holds(struct book *b, struct book_worker *w, uint64_t id);

// Back to the front of its queue; nothing is held against it.
void book_give_back(struct book *b, struct book_task *t);

// Those whose lease is over are lost. `lost` learns of each task that this is
// held against, still leased to its worker, with its new count; it is pending
// or has failed afterwards.
typedef void (*book_lost_fn)(void *arg, struct book_task *t);
void book_expire(struct book *b, uint64_t now_ms, book_lost_fn lost, void *arg);
void book_leave(struct book *b, struct book_worker *w); // gives all back

// We were away ourselves: nobody is lost for that.
void book_forgive(struct book *b, uint64_t now_ms, uint32_t lease_ms);

// When the next lease is over; UINT64_MAX: there is none.
uint64_t book_next_ms(const struct book *b);

#endif
