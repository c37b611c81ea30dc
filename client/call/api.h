// SPDX-License-Identifier: Apache-2.0
// client/call/api.h -- calls to the coordinator, and to psservers for an
// export.
//
// Threads  main; the transport's I/O thread is inside.
// Memory   replies live in the api until api_close; requests are read only
//          during the call.
// Units    the deadline of each call is --timeout.
// Errors   SL_EUNAVAIL and SL_ETIMEDOUT name the address, the cause and what
//          to try. *out is untouched after a failure; `err` may be NULL.
#ifndef CLIENT_CALL_API_H
#define CLIENT_CALL_API_H

#include <stdbool.h>

#include "common/run/conf.h"
#include "common/net/rpc.h"
#include "common/base/status.h"
#include "proto/wire.h"

struct api_client;

// Reads --coordinator (if it is not set: where a cluster of this user listens,
// ownsock_find), --timeout, --tls-*. Connects with the first call. Signals that
// the process blocks before this are blocked in its threads. `conf` is borrowed
// until api_close. It starts gRPC: after it the process must not fork without
// exec. SL_EINVAL: the address; SL_EDENIED: it is not local, and no --tls-* is
// given; those of the certificate files and of rpc_io_new; SL_ENOMEM.
enum sl_err api_open(struct api_client **out, const struct conf *conf,
                     struct sl_error *err);
// Frees the client with its replies, and waits for its threads; no stream or
// channel made by it is left. NULL is allowed.
void api_close(struct api_client *a);

// Frees all replies so far, which must not be used any more; for callers that
// make calls without end.
void api_forget(struct api_client *a);

// Returns the coordinator's address, as the user or a default gave it.
const char *api_address(const struct api_client *a);
// Returns that address, or the one of a list which answered last; lives until
// api_close.
const char *api_answered(const struct api_client *a);
// Returns the channel to the coordinator; it lives until api_close.
struct rpc_channel *api_channel(const struct api_client *a);
// Returns the I/O threads, for further channels; they end with api_close.
struct rpc_io *api_io(const struct api_client *a);
// Returns the certificates for further channels, which live until api_close;
// NULL: no --tls-* is given, and connections are plain.
const struct rpc_tls *api_tls(const struct api_client *a);
// Returns the deadline of each call in milliseconds, as --timeout has it.
int64_t api_timeout_ms(const struct api_client *a);

// X(function, METHOD of wire.h, Request, Reply, reply as in wire_unpack_*)
#define API_MAP(X)                                                             \
    WIRE_JOBS_CALLS(X)                                                         \
    X(task_queues, TASK_QUEUES, TaskQueuesRequest, TaskQueuesReply,            \
      task_queues_reply)                                                       \
    X(task_delete, TASK_DELETE, TaskDelete, TaskDeleteReply, task_delete_reply)

// Each makes one call, waits for its answer, and sets *out to it, its strings
// plain (wire_plain) unless stdout is data (out_is_data). All addresses
// of a list are tried. If the connection failed, though a process listens at
// one, the call is made again in the rest of --timeout; if none listens, it
// fails at once (SL_EUNAVAIL). SL_EAUTH: certificates that do not fit;
// SL_EINVAL: also a server that is no coordinator; SL_ECORRUPT and others of
// wire_unpack_*: an answer that cannot be read; else the coordinator's own
// errors.
#define API_PROTOTYPE(name, METHOD, Request, Reply, reply)                     \
    enum sl_err api_##name(struct api_client *a,                               \
                           const Sluice__V1__##Request *request,               \
                           Sluice__V1__##Reply **out, struct sl_error *err);
API_MAP(API_PROTOTYPE)
#undef API_PROTOTYPE

// Replaces the text of a transport error (SL_EUNAVAIL, SL_ETIMEDOUT) by one
// with the address, the cause and what a user can do about it; other errors
// stay as they are. The code stays. `err` is not NULL.
void api_explain(struct sl_error *err, const char *address, int64_t timeout_ms);

#endif
