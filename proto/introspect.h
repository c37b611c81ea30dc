// SPDX-License-Identifier: Apache-2.0
// proto/introspect.h -- the standard services every daemon answers.
//
// grpc.health.v1.Health (Check, Watch) and gRPC server reflection (v1alpha,
// and the same under v1), so that probes, grpcurl and clients in any language
// find their way. Descriptors come from the set that the build embeds.
//
// Names that health knows: "" and "readiness" and each service of the list
// follow introspect_set_serving; "liveness" is SERVING while we answer at all.
// Any other name is SL_ENOENT for Check, and SERVICE_UNKNOWN for Watch. A
// watcher gets the present state first.
//
// Threads  any.
// Memory   Keeps the array `services` and its names, which it borrows, until
//          free. The server with this table must be freed first.
// Errors   SL_ENOMEM, with *out untouched; `err` may be NULL.
#ifndef PROTO_INTROSPECT_H
#define PROTO_INTROSPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/net/rpc.h"
#include "common/base/status.h"

struct introspect;

// Makes the services, which say that the daemon is not serving. `services` are
// the `count` full names that this daemon answers, "sluice.v1.Shards" (NULL if
// `count` is 0); those of the two standard services are added. Reflection lists
// them all, and describes those that the embedded set has. *out is for
// introspect_free.
enum sl_err introspect_new(struct introspect **out, const char *const *services,
                           size_t count, struct sl_error *err);

// Returns the table of the services' methods, to hand to rpc_server_new beside
// the daemon's own; it belongs to `in`.
struct rpc_table introspect_table(struct introspect *in);

// Sets whether the daemon's services are SERVING or NOT_SERVING, and queues a
// message to all watchers if that is a change; waits for no peer, and a watcher
// with a full queue misses the message.
void introspect_set_serving(struct introspect *in, bool serving);

// Frees it, after the server, so that no watcher is left. NULL is allowed.
void introspect_free(struct introspect *in);

#endif
