// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/tasks.h -- the Tasks service: its thread, and its calls.
//
//   call -> I/O thread -> queue -> the thread: all that wait are decoded and
//   decided in one transaction, then committed, then answered
//
// It shares nothing with the training jobs but the port: a thread, a book and a
// file of its own. So neither its load nor its disk delays the loop. A file
// that cannot be written ends calls with an error (SL_EUNAVAIL where the rows
// are in etcd), and is opened again with a call that comes half a second later;
// the log says so once. The coordinator goes on.
//
// The file is made with the first call: a coordinator without tasks has none.
// For coordinators that stand by for each other the rows are in etcd instead,
// and the one that leads reads them with the first call (tasks_home).
//
// Threads  handlers: I/O threads; the rest: the loop.
// Memory   what the options name is borrowed until tasks_free; a change, until
//          `changed` returns. `err` may be NULL.
// Units    milliseconds, monotonic.
// Errors   of a call, to its caller.
#ifndef COORDINATOR_TASKS_TASKS_H
#define COORDINATOR_TASKS_TASKS_H

#include "common/base/clock.h"
#include "common/net/rpc.h"
#include "proto/access.h"

#define TASKS_FILE "tasks.sqlite"

struct journal;
struct tasks;

// The news that a queue was made or deleted, or that this was refused.
struct tasks_change {
    const struct access_who *who;
    const char *call; // "MakeQueue", "DeleteQueue"
    const char *queue;
    enum sl_err result;
    const struct sl_error *why; // error of a failure; else not read
};

// Where the tasks are kept by a coordinator that others stand by for.
struct tasks_home {
    uint64_t bytes_most; // payloads and results that the queues may keep in all
    // Returns true if this coordinator only stands by, and sets *err to what
    // its callers are told then; on I/O threads.
    bool (*away)(void *arg, struct sl_error *err);
    // The others run on the thread of tasks. Reads the rows of task_store_kind
    // as the coordinator that leads; the journal is the caller's. Waits.
    enum sl_err (*open)(void *arg, struct journal **out, struct sl_error *err);
    // Returns true if new tasks have to wait for space, and says why.
    bool (*crowded)(void *arg, struct sl_error *err);
    // Ends the process if it leads no longer (H4): before answers.
    void (*check)(void *arg);
    void *arg;
};

struct tasks_options {
    const struct sl_clock *clock;
    const char *folder;            // folder of the file; not NULL
    uint32_t lease_ms;             // how long a worker may be silent
    const struct tasks_home *home; // copied; NULL: the file is all there is

    // Called on the thread of tasks when a change is durable, or was refused,
    // before the call is answered; not if the store failed, or the service was
    // closed first. NULL: no receiver.
    void (*changed)(void *arg, const struct tasks_change *change);
    void *arg;
};

// Makes the service, *out, and starts its thread; opens no file yet. SL_ENOMEM,
// also if no thread can be had.
enum sl_err tasks_new(struct tasks **out, const struct tasks_options *options,
                      struct sl_error *err);

// Returns the methods of the service, for the server; they borrow t, which must
// outlive the server.
struct rpc_table tasks_table(struct tasks *t);

// Has calls that wait answered with SL_EUNAVAIL, and so every later one; does
// not wait for that. What was committed stays. Again: does nothing. NULL is
// allowed.
void tasks_close(struct tasks *t);

// Closes, waits for the thread, which may be at a commit, and frees t; after
// the server was freed, and not from `changed`. NULL is allowed.
void tasks_free(struct tasks *t);

#endif
