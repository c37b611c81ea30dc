// SPDX-License-Identifier: Apache-2.0
// coordinator/tasks/visit.h -- a call on its way through the thread, and what
// the calls decide. For this room only.
//
// Threads  the thread of tasks.c, which owns the desk.
// Memory   a visit is scratch of its call; its request lives in its arena, its
//          reply is a heap message.
// Errors   of a visit: to its caller. SL_EIO, SL_ECORRUPT and SL_EUNAVAIL of
//          the store: the whole round has failed.
#ifndef COORDINATOR_TASKS_VISIT_H
#define COORDINATOR_TASKS_VISIT_H

#include "coordinator/tasks/book.h"
#include "coordinator/tasks/task_store.h"
#include "proto/access.h"

#define DESK_REPLY_BYTES ((size_t)2 << 20) // and one more task
#define DESK_WAIT_MS 30000                 // longest wait of a client's call

// The state that the calls work on.
struct desk {
    struct book book;
    struct task_store *store;
    uint64_t now_ms; // time of this round
    uint32_t lease_ms;
    enum sl_err failed; // the store's failure in this round
    struct sl_error why;
};

struct visit {
    struct list_node node;
    struct rpc_call *call;
    const struct visit_method *method;
    struct tasks *owner;
    struct access_who who;
    struct wire_arena arena;
    ProtobufCMessage *request;
    ProtobufCMessage *reply; // owned
    uint64_t until_ms;       // end of its wait; 0: it does not wait
    const char *changes;     // the call's name in tasks_change; NULL: none
    const char *queue;       // then
    enum sl_err rc;          // the call's result, with `err`
    struct sl_error err;
};

struct visit_method {
    enum sl_err (*decode)(ProtobufCMessage **out, struct wire_arena *arena,
                          const struct sl_slices *bytes, struct sl_error *err);
    // Decides the call and sets its reply.
    enum sl_err (*decide)(struct desk *d, struct visit *v);
    // Looks again at a call that waits, and adds to its reply; *ready: its
    // answer is worth giving. `decide` has set until_ms. NULL: the call never
    // waits.
    enum sl_err (*look)(struct desk *d, struct visit *v, bool *ready);
};

// ---- clients' calls (tasks_calls.c, tasks_list.c): `decide` and `look` of
// visit_method. SL_ENOENT: there is no such queue.

// Adds tasks to a queue, which is made if the call names no incarnation of it.
enum sl_err visit_schedule(struct desk *d, struct visit *v);

// Forgets the ended tasks that the client has received, and waits for others.
enum sl_err visit_ended(struct desk *d, struct visit *v);

// Adds tasks that ended behind request->after, with their results.
enum sl_err visit_ended_look(struct desk *d, struct visit *v, bool *ready);

// Ends the named tasks as CANCELLED, unless they have ended or are unknown.
enum sl_err visit_cancel(struct desk *d, struct visit *v);

// Deletes a queue with all its tasks.
enum sl_err visit_delete(struct desk *d, struct visit *v);

// Lists the queues that the caller may see, or one with its tasks.
enum sl_err visit_queues(struct desk *d, struct visit *v);

// ---- the workers' call (tasks_work.c)

// Takes results, extends the worker's lease, and compares the tasks that it
// holds with those leased to it; then waits for tasks if it asks for some.
enum sl_err visit_work(struct desk *d, struct visit *v);

// Leases tasks to the worker; *ready also if it has left or has called again.
enum sl_err visit_work_look(struct desk *d, struct visit *v, bool *ready);

// Drops workers after their leases have ended.
void visit_expire(struct desk *d);

// ---- helpers of these

// Remembers a copy of a failure of the store, unless there was one before in
// this round, and returns rc. `err` is not NULL.
enum sl_err desk_failed(struct desk *d, enum sl_err rc,
                        const struct sl_error *err);

// Returns the tenant of the queue that a call names: the caller's tenant, or
// `said`, unless that is NULL, if the caller may see all tenants. Borrowed from
// its argument.
const char *desk_tenant(const struct visit *v, const char *said);

// Returns SL_ENOMEM; v->err says that there is no memory for the answer.
enum sl_err visit_no_memory(struct visit *v);

// Makes an empty reply, which v, without one until now, owns, and returns it;
// NULL: no memory, which v->err says.
void *visit_reply(struct visit *v, const ProtobufCMessageDescriptor *of);

// Adds an empty message to a repeated field of a reply, which owns it, and
// returns it; *space is the field's, 0 at first. NULL: no memory.
void *reply_more(void ***list, size_t *count, size_t *space,
                 const ProtobufCMessageDescriptor *of);

#endif
