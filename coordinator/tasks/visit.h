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
#include "coordinator/tasks/tasks.h"
#include "proto/access.h"

#define DESK_REPLY_BYTES ((size_t)2 << 20) // and one more task
#define DESK_WAIT_MS 30000                 // longest wait of a client's call

// The state that the calls work on.
struct desk {
    struct book book;
    struct task_store *store;
    const struct tasks_home *home; // NULL: the store is a file
    uint64_t now_ms;               // time of this round
    uint32_t lease_ms;
    // the store's failure in this round, as callers are told it; after the
    // round it stays until the store is opened again
    enum sl_err failed;
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
    // what `changed` of tasks.h is told once the call is decided: its name
    // (NULL: it changes no queue), and the queue
    const char *changes;
    const char *queue;
    enum sl_err rc; // the call's result, with `err`
    struct sl_error err;
};

struct visit_method {
    // Reads the request of a call into the arena. SL_ECORRUPT and others of
    // wire.h, which are the call's result then.
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
// visit_method. A queue is one of the caller's tenant (desk_tenant). SL_ENOENT:
// there is no such queue, or it has another incarnation than the call names, or
// it has no such client (but of visit_schedule). SL_ENOMEM: no memory for the
// answer. Each change is in the book and in the store's transaction when the
// function returns, also if it fails later; the round's commit makes it
// durable.

// Adds tasks to a queue, which is made if it is missing and the call names no
// incarnation of it (v->changes says so then, also if it may not be made), and
// its client, and sets the client's session, which the store has once a task
// was added or the client resumes; sets the queue's limit if the call names
// one, and forgets a client without a task if there are too many.
// Tasks that the queue has no room for are left out: the reply says how many
// were accepted, those known before included, and why no more. A call that
// resumes is also told the numbers of the client's tasks that are left.
// SL_EBUSY: no queue may be made, or the client has too many tasks to resume;
// SL_ESTALE: another session of this client goes on, and the call does not
// resume.
enum sl_err visit_schedule(struct desk *d, struct visit *v);

// Forgets the tasks that the client names as received (those that have not
// ended stay), makes the reply, and sets until_ms: how long the call waits for
// tasks to end, at most DESK_WAIT_MS; a call that asks for none (max 0) does
// not wait.
enum sl_err visit_ended(struct desk *d, struct visit *v);

// Adds tasks that ended behind request->after, with their results, to the
// reply: at most request->max, and no more once they have DESK_REPLY_BYTES.
// Sets *ready, which is false before, to true if there are some. SL_ENOENT: the
// queue or the client is gone meanwhile.
enum sl_err visit_ended_look(struct desk *d, struct visit *v, bool *ready);

// Ends the named tasks of the client as CANCELLED, unless they have ended or
// are unknown; the reply counts them.
enum sl_err visit_cancel(struct desk *d, struct visit *v);

// Deletes a queue with all its tasks; the reply counts them. Sets v->changes
// and v->queue, also if it fails.
enum sl_err visit_delete(struct desk *d, struct visit *v);

// Lists the queues that the caller may see, perhaps none; or the one that the
// call names, with its oldest tasks (request->limit of them; 0: 100; fewer if
// the reply would exceed DESK_REPLY_BYTES). A caller without a tenant is also
// told how many workers there are.
enum sl_err visit_queues(struct desk *d, struct visit *v);

// ---- the workers' call (tasks_work.c)

// Takes results, extends the worker's lease, and compares the tasks that it
// holds with those leased to it (those that it does not hold are given back,
// and the reply names those that it is not to go on with); then sets until_ms
// if the worker asks for tasks, at most half of a lease ahead, or frees the
// worker if it leaves. A result of a task that has ended, is unknown or, of a
// worker with a tenant, is of another tenant is passed over. SL_EINVAL: it
// names more than BOOK_KINDS handlers, and nothing was taken; SL_ENOMEM, after
// which results may be taken and the lease extended.
enum sl_err visit_work(struct desk *d, struct visit *v);

// Leases tasks that fit the worker's offer, no more than it asks for, than its
// share (book_share) and than DESK_REPLY_BYTES allow, adds them to the reply,
// and extends its lease if there are some; sets *ready to whether there are, or
// to true if the worker has left or has called again. SL_ENOMEM: the task at
// hand is given back.
enum sl_err visit_work_look(struct desk *d, struct visit *v, bool *ready);

// Frees the workers whose leases have ended by d->now_ms, gives their tasks
// back to the queues, and writes the losses (book_expire). A failure of the
// store is in d->failed.
void visit_expire(struct desk *d);

// ---- helpers of these

// Keeps a copy of a failure of the store in d->failed and d->why, unless there
// was one before in this round. Returns rc. `err` is not NULL.
enum sl_err desk_failed(struct desk *d, enum sl_err rc,
                        const struct sl_error *err);

// Returns the tenant of the queue that a call means: the caller's own; or
// `said`, unless that is NULL, if the caller may see all tenants. Borrowed from
// the argument that it is of.
const char *desk_tenant(const struct visit *v, const char *said);

// Sets v->err to say that there is no memory for the answer, and returns
// SL_ENOMEM.
enum sl_err visit_no_memory(struct visit *v);

// Makes an empty reply, sets v->reply, which was NULL, to it, and returns it;
// NULL: no memory, with v->err set.
void *visit_reply(struct visit *v, const ProtobufCMessageDescriptor *of);

// Appends an empty message of type `of` to a repeated field of a reply, which
// owns it, and returns it. *list and *count are the field's array and its
// length; *space, how many entries it has room for, is 0 at first. NULL: no
// memory.
void *reply_more(void ***list, size_t *count, size_t *space,
                 const ProtobufCMessageDescriptor *of);

#endif
