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
//          sluice_serving_end; both at most until the close.
// Units    bytes, at most SLUICE_TASK_BYTES; milliseconds, -1: no limit, 0: a
//          look without waiting. `body` and `result` may be NULL if bytes is 0.
//          Names of queues, handlers, clients and workers have 1 to 200 bytes
//          of UTF-8 that can be shown, without blanks at their ends.
// Errors   as sluice.h has them; a call that fails leaves its outputs as they
//          were. A coordinator that is away is waited for.
#ifndef SLUICE_TASKS_H
#define SLUICE_TASKS_H

#include "sluice.h" // beside it, here and where both are installed

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_TASK_BYTES (1 << 20)

// ---- the client: schedules tasks and receives their results

struct sluice_tasks;

struct sluice_tasks_options {
    size_t size;             // sizeof(struct sluice_tasks_options)
    const char *coordinator; // as of struct sluice_options
    const char *queue;       // 1 to 200 bytes; made when it is first used
    // Most tasks that the queue keeps, at most 1,000,000. 0: a new queue keeps
    // 10,000, and an existing queue keeps its limit.
    uint32_t limit;
    const char *tls_ca, *tls_cert, *tls_key; // all three or none
    const char
        *client; // a name, 1 to 200 bytes: a later process may resume under
                 // it, and results stay until sluice_tasks_forget; NULL: no
                 // process resumes, and received results are forgotten
};

enum sluice_task_state { // numbers of proto/tasks.proto
    SLUICE_TASK_DONE = 3,
    SLUICE_TASK_FAILED = 4,
    SLUICE_TASK_CANCELLED = 5,
};

struct sluice_task_ended {
    uint64_t number;
    int state;          // enum sluice_task_state
    const void *result; // DONE
    size_t bytes;       // bytes of the result
    const char *error;  // FAILED; else ""
    uint32_t losses;    // workers that were lost while they ran this task
};

// Opens a client of queue `o->queue` and returns at once: it does not wait for
// the coordinator. *out is the caller's to close with sluice_tasks_close.
// SL_EINVAL: an option is wrong; SL_EAUTH, SL_ENOENT: a certificate is;
// SL_EDENIED: an address that is not local, without TLS; SL_EBUSY: the system
// gives no thread; SL_ENOMEM; SL_EIO.
SLUICE_API enum sl_err sluice_tasks_open(struct sluice_tasks **out,
                                         const struct sluice_tasks_options *o,
                                         struct sl_error *err);

// Schedules a task for handler `name` with the payload body[bytes], both of
// which are copied, and sends it soon, together with others. *number is the
// task's number, from 1. Waits up to wait_ms while as many of this client's
// tasks have not ended as options.limit says (0: 10,000), or 64 MiB of payloads
// are not sent yet, and with a client name until the coordinator has answered
// first, else SL_ETIMEDOUT. Tasks that a queue full of others' has no space for
// wait here, unsent, without an error. SL_EINVAL: the payload is too large,
// or `name` is no name; SL_ENOMEM. SL_EDENIED, SL_EAUTH or another error: the
// coordinator refuses this client, now and in every later call.
SLUICE_API enum sl_err sluice_tasks_schedule(struct sluice_tasks *t,
                                             const char *name, const void *body,
                                             size_t bytes, int64_t wait_ms,
                                             uint64_t *number,
                                             struct sl_error *err);

// Lists the tasks that an earlier process under this client's name left and did
// not forget; their results arrive here like this process's own. Writes up to
// `max` numbers into `out`; *count is how many tasks there are, which may be
// more. A client without a name has none. Waits up to wait_ms for the
// coordinator, else SL_ETIMEDOUT; any other error: it refuses this client. From
// then on the earlier process, if it still lives, is refused.
SLUICE_API enum sl_err sluice_tasks_left(struct sluice_tasks *t,
                                         int64_t wait_ms, uint64_t *out,
                                         size_t max, size_t *count,
                                         struct sl_error *err);

// Forgets the result of task `number`, which was received; the coordinator
// hears of it soon, and this call does not wait. For a client with a name,
// where results count against the queue's limit until they are forgotten;
// without a name it does nothing, SL_OK. An unknown number is no error.
// SL_ESTATE: the task has not ended; SL_ENOMEM.
SLUICE_API enum sl_err sluice_tasks_forget(struct sluice_tasks *t,
                                           uint64_t number,
                                           struct sl_error *err);

// Waits up to wait_ms for tasks that have ended and writes up to `max` (1 or
// more) of them into `out`, each task once; *count is how many. SL_ETIMEDOUT:
// no task has ended. Another error: the coordinator refuses this client; all
// that was open was received as FAILED before, with the reason, as it is when
// the queue is deleted. Without a client name the coordinator then forgets the
// results that were received.
SLUICE_API enum sl_err sluice_tasks_ended(struct sluice_tasks *t,
                                          int64_t wait_ms,
                                          struct sluice_task_ended *out,
                                          size_t max, size_t *count,
                                          struct sl_error *err);

// Cancels task `number`: it ends soon and is received as CANCELLED, unless it
// ended otherwise before. Does not wait for that. An unknown number is ignored,
// SL_OK. SL_ENOMEM.
SLUICE_API enum sl_err sluice_tasks_cancel(struct sluice_tasks *t,
                                           uint64_t number,
                                           struct sl_error *err);

// Returns the number of tasks that sluice_tasks_ended has not given yet. Those
// that an earlier process left count once the coordinator has named them: call
// sluice_tasks_left, which waits for that, before.
SLUICE_API uint64_t sluice_tasks_open_count(struct sluice_tasks *t);

// Sends scheduled tasks and pending acknowledgements, for two seconds at most,
// and frees the client: what was not sent then is lost. Wishes to cancel are
// not waited for. Accepted tasks are done all the same; those of a client
// without a name count against the queue's limit from then on. NULL is allowed.
SLUICE_API void sluice_tasks_close(struct sluice_tasks *t);

// ---- the worker: serves tasks with its handlers

struct sluice_serving;

struct sluice_serving_options {
    size_t size; // sizeof(struct sluice_serving_options)
    const char *coordinator;
    const char *queue; // the only queue to serve; NULL: any
    const char *name;  // this worker's, in reports; NULL: as a session's
    const char *const *handlers;
    size_t handlers_count; // 1 to 1000
    const char *tls_ca, *tls_cert, *tls_key;
};

struct sluice_task {
    uint64_t id;      // names the task to sluice_serving_end
    uint32_t attempt; // from 1
    const char *name; // handler to run
    const void *body; // payload
    size_t bytes;     // bytes of the payload
};

// Opens a worker that serves the tasks of the handlers in `o`, and does not
// wait for the coordinator. Errors as sluice_tasks_open's. Free with
// sluice_serving_close.
SLUICE_API enum sl_err
sluice_serving_open(struct sluice_serving **out,
                    const struct sluice_serving_options *o,
                    struct sl_error *err);

// Waits up to wait_ms for the next task and writes it to *out, which holds
// until sluice_serving_end; the task before it was ended. SL_ETIMEDOUT: no task
// came; SL_ECANCELED: the worker drains; any other error: why the coordinator
// refuses this worker.
SLUICE_API enum sl_err sluice_serving_take(struct sluice_serving *s,
                                           int64_t wait_ms,
                                           struct sluice_task *out,
                                           struct sl_error *err);

// Ends task `id`, which was taken last, with result[bytes], or as failed if
// `error` is not NULL (its text, cut after 4095 bytes). Both are copied, and
// sent soon, and again until they have arrived; this call does not wait. A
// result that is not wanted any more is dropped (SL_OK). SL_EINVAL: the result
// is too large, and the task has failed for that reason. SL_ESTATE: this task
// is not under way. SL_ENOMEM: it still is.
SLUICE_API enum sl_err sluice_serving_end(struct sluice_serving *s, uint64_t id,
                                          const void *result, size_t bytes,
                                          const char *error,
                                          struct sl_error *err);

// Begins the worker's end: sluice_serving_take says SL_ECANCELED from now on,
// and tasks that were not begun go back to the coordinator at once. The task
// under way may be ended. Does not wait. Any thread.
SLUICE_API void sluice_serving_drain(struct sluice_serving *s);

// Drains, waits two seconds at most until the results have arrived, and frees
// the worker. NULL is allowed.
SLUICE_API void sluice_serving_close(struct sluice_serving *s);

#ifdef __cplusplus
}
#endif

#endif
