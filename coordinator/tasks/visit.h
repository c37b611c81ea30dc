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
#include "coordinator/tasks/store.h"
#include "proto/access.h"

#define DESK_REPLY_BYTES ((size_t)2 << 20) // and one more task
#define DESK_WAIT_MS 30000

// What the calls work on.
struct desk {
    struct book book;
    struct store *store;
    uint64_t now_ms;
    uint32_t lease_ms;
    enum sl_err failed; // the store, in this round
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
    uint64_t until_ms;       // it waits; 0: it does not
    const char *changes;     // what is told of it (tasks.h); NULL: nothing
    const char *queue;       // then
    enum sl_err rc;
    struct sl_error err;
};

struct visit_method {
    enum sl_err (*decode)(ProtobufCMessage **out, struct wire_arena *arena,
                          const struct sl_slices *bytes, struct sl_error *err);
    // Sets the reply.
    enum sl_err (*decide)(struct desk *d, struct visit *v);
    // Of a call that may wait: its answer is worth giving. Then `decide` has
    // set until_ms, and this adds to the reply. NULL: it never waits.
    enum sl_err (*look)(struct desk *d, struct visit *v, bool *ready);
};

// tasks_calls.c: of clients.
enum sl_err visit_schedule(struct desk *d, struct visit *v);
enum sl_err visit_ended(struct desk *d, struct visit *v);
enum sl_err visit_ended_look(struct desk *d, struct visit *v, bool *ready);
enum sl_err visit_cancel(struct desk *d, struct visit *v);
enum sl_err visit_delete(struct desk *d, struct visit *v);
// tasks_list.c
enum sl_err visit_queues(struct desk *d, struct visit *v);
// tasks_work.c: of workers.
enum sl_err visit_work(struct desk *d, struct visit *v);
enum sl_err visit_work_look(struct desk *d, struct visit *v, bool *ready);
// Leases that are over.
void visit_expire(struct desk *d);

// ---- for these

// The store said so: remembered for the round.
enum sl_err desk_failed(struct desk *d, enum sl_err rc,
                        const struct sl_error *err);

// Whose queue a call is about: the caller's tenant, or what one without says.
const char *desk_tenant(const struct visit *v, const char *said);

// An empty reply; NULL: no memory, which v->err says.
void *visit_reply(struct visit *v, const ProtobufCMessageDescriptor *of);

// One more of a reply's repeated messages. NULL: no memory.
void *reply_more(void ***list, size_t *count, size_t *space,
                 const ProtobufCMessageDescriptor *of);

#endif
