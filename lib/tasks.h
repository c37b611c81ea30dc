// SPDX-License-Identifier: Apache-2.0
// lib/tasks.h -- tasks: work of your own, as bytes, on programs that have a
// handler of its name (docs/tasks.md).
//
//     struct sluice_tasks_options o = {.size = sizeof(o), .queue = "eval"};
//     sluice_tasks_open(&t, &o, &err);
//     sluice_tasks_schedule(t, "square", &x, sizeof(x), -1, &number, &err);
//     sluice_tasks_ended(t, -1, ended, 16, &count, &err);
//
// and in a worker:
//
//     const char *handlers[] = {"square"};
//     struct sluice_serving_options o = {.size = sizeof(o), .queue = "eval",
//                                        .handlers = handlers,
//                                        .handlers_count = 1};
//     sluice_serving_open(&s, &o, &err);
//     while (sluice_serving_take(s, -1, &task, &err) == SL_OK)
//         sluice_serving_end(s, task.id, result, bytes, NULL, NULL);
//     sluice_serving_close(s);
//
// Tasks are bytes, never code. A task that was accepted is durable; its first
// result counts, whichever worker it is of and however many were lost before.
//
// Threads  of sluice_tasks: any, but sluice_tasks_ended and _close: one at a
//          time. A sluice_serving belongs to one thread, which does tasks one
//          after the other, in the order in which it gets them; its _drain:
//          any. Threads of their own send, receive and renew leases.
// Memory   What is passed in is copied. What sluice_tasks_ended gives holds
//          until its next call; what sluice_serving_take gives, until
//          sluice_serving_end.
// Units    bytes, at most SLUICE_TASK_BYTES; milliseconds, -1: no limit.
// Errors   as sluice.h has them. A coordinator that is away is waited for.
#ifndef SLUICE_TASKS_H
#define SLUICE_TASKS_H

#include "lib/sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_TASK_BYTES (1 << 20)

// ---- whoever wants something done

struct sluice_tasks;

struct sluice_tasks_options {
    size_t size;             // sizeof(struct sluice_tasks_options)
    const char *coordinator; // as of struct sluice_options
    const char *queue;       // 1 to 200 bytes; made when it is first used
    uint32_t limit;          // tasks that it may keep; 0: 10,000, or as it is
    const char *tls_ca, *tls_cert, *tls_key; // all three or none
    const char
        *client; // a name, 1 to 200 bytes: another process may go on under
                 // it, and results stay until sluice_tasks_forget; NULL:
                 // nobody goes on, and what is received is forgotten
};

enum sluice_task_state { // numbers of proto/tasks.proto
    SLUICE_TASK_DONE = 3,
    SLUICE_TASK_FAILED = 4,
    SLUICE_TASK_CANCELLED = 5,
};

struct sluice_task_ended {
    uint64_t number;
    int state;          // of enum sluice_task_state
    const void *result; // DONE
    size_t bytes;
    const char *error; // FAILED; else ""
    uint32_t losses;   // workers that were lost while they did it
};

// Does not wait for the coordinator.
SLUICE_API enum sl_err sluice_tasks_open(struct sluice_tasks **out,
                                         const struct sluice_tasks_options *o,
                                         struct sl_error *err);

// Takes a task, which is sent soon, with what else waits: *number counts
// from 1. Waits while so many of ours have not ended as the queue may keep, or
// others' fill it; SL_ETIMEDOUT then. SL_EINVAL: too large, or no name.
// SL_EDENIED, SL_EAUTH: we may not; every later call says so, too.
SLUICE_API enum sl_err sluice_tasks_schedule(struct sluice_tasks *t,
                                             const char *name, const void *body,
                                             size_t bytes, int64_t wait_ms,
                                             uint64_t *number,
                                             struct sl_error *err);

// Of a client with a name: which tasks an earlier process left, of those that
// were not forgotten. They end here like ours. Up to `max` numbers into `out`;
// *count says how many there are. Waits for the coordinator; SL_ETIMEDOUT. From
// then on that process, if it still lives, is refused.
SLUICE_API enum sl_err sluice_tasks_left(struct sluice_tasks *t,
                                         int64_t wait_ms, uint64_t *out,
                                         size_t max, size_t *count,
                                         struct sl_error *err);

// Of a client with a name: the result of a task that was received is not needed
// any more. Until then it counts against the queue's limit.
SLUICE_API enum sl_err sluice_tasks_forget(struct sluice_tasks *t,
                                           uint64_t number,
                                           struct sl_error *err);

// Tasks that have ended, up to `max` of them, each once. SL_ETIMEDOUT: none
// has. The coordinator forgets what is received here, if the client has no
// name.
SLUICE_API enum sl_err sluice_tasks_ended(struct sluice_tasks *t,
                                          int64_t wait_ms,
                                          struct sluice_task_ended *out,
                                          size_t max, size_t *count,
                                          struct sl_error *err);

// One that has not ended ends soon, and comes as CANCELLED unless it has ended
// otherwise before.
SLUICE_API enum sl_err sluice_tasks_cancel(struct sluice_tasks *t,
                                           uint64_t number,
                                           struct sl_error *err);

// How many were scheduled here and have not been received.
SLUICE_API uint64_t sluice_tasks_open_count(struct sluice_tasks *t);

// Sends what was scheduled and what was received, for two seconds at most, and
// frees. NULL is
// allowed.
SLUICE_API void sluice_tasks_close(struct sluice_tasks *t);

// ---- whoever does it

struct sluice_serving;

struct sluice_serving_options {
    size_t size; // sizeof(struct sluice_serving_options)
    const char *coordinator;
    const char *queue; // the only one; NULL: any
    const char *name;  // in reports; NULL: host and pid
    const char *const *handlers;
    size_t handlers_count; // 1 to 1000
    const char *tls_ca, *tls_cert, *tls_key;
};

struct sluice_task {
    uint64_t id;
    uint32_t attempt; // from 1
    const char *name; // of the handler
    const void *body;
    size_t bytes;
};

SLUICE_API enum sl_err
sluice_serving_open(struct sluice_serving **out,
                    const struct sluice_serving_options *o,
                    struct sl_error *err);

// The next task. SL_ETIMEDOUT: there was none; SL_ECANCELED: draining; else
// what the coordinator refuses us for.
SLUICE_API enum sl_err sluice_serving_take(struct sluice_serving *s,
                                           int64_t wait_ms,
                                           struct sluice_task *out,
                                           struct sl_error *err);

// The task that was taken last is done: with a result, or, if `error` is not
// NULL, failed. It is sent soon, and again until it has arrived. SL_EINVAL: the
// result is too large, and the task has failed with those words.
SLUICE_API enum sl_err sluice_serving_end(struct sluice_serving *s, uint64_t id,
                                          const void *result, size_t bytes,
                                          const char *error,
                                          struct sl_error *err);

// Takes nothing more; what was not begun goes back at once.
SLUICE_API void sluice_serving_drain(struct sluice_serving *s);

// Drains, waits two seconds at most until the results have arrived, and frees.
// NULL is allowed.
SLUICE_API void sluice_serving_close(struct sluice_serving *s);

#ifdef __cplusplus
}
#endif

#endif
