// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_figures.h -- how many calls a server answered, how, and how
// fast; and what this process refused.
//
// Threads  counting: any, without a lock. rpc_server_measure: any, while the
//          server lives.
// Memory   part of the server; refusals are the process's.
// Units    calls, bytes, microseconds.
// Errors   those of the expo.
#ifndef COMMON_NET_RPC_FIGURES_H
#define COMMON_NET_RPC_FIGURES_H

#include <stdatomic.h>

#include "common/base/histogram.h"
#include "common/run/expo.h"

struct rpc_server;

enum rpc_refusal {
    RPC_REFUSED_SIZE,      // a message over a limit of bytes or fields
    RPC_REFUSED_DEPTH,     // messages nested too deep
    RPC_REFUSED_AUTH,      // a call that its peer may not make
    RPC_REFUSED_QUOTA,     // one call too many (rpc_limit.h)
    RPC_REFUSED_FENCED,    // an update of an older attempt or incarnation
    RPC_REFUSED_MALFORMED, // no message of its type, or an unknown method
    RPC_REFUSALS
};

// Counts one refusal of this process, by its reason.
void rpc_refused(enum rpc_refusal why);

#define RPC_CODES 17 // status codes of gRPC

// Figures of one method.
struct rpc_figures {
    _Atomic uint64_t code[RPC_CODES]; // calls answered, by gRPC's status, and
                                      // streams opened, as OK
    struct histogram took;            // times that handlers took
};

// Payload bytes of one server.
struct rpc_traffic {
    _Atomic uint64_t sent_bytes, received_bytes;
};

// Sets the bounds of the histogram, before the first count; the rest of *f must
// be zeroes. Nothing is to be released.
void rpc_figures_init(struct rpc_figures *f);
// Counts a call that was answered with `code`, and the time since `begun_us`
// (0: its handler did not run), on the monotonic clock.
void rpc_figures_answered(struct rpc_figures *f, enum sl_err code,
                          uint64_t begun_us);

// Writes the server's calls, times and traffic, and this process's refusals, to
// `e`; no row for a status other than OK that a method never gave.
void rpc_server_measure(struct rpc_server *s, struct expo *e);

#endif
