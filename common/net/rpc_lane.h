// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_lane.h -- the connections of one channel: core's channels,
// dialled anew when there are new certificates, and the methods that they know.
//
// The express lane (rpc_window.h) is dialled when it is first asked for, and
// used only while it stands: what it is for goes the usual way until then.
//
// Threads  under the channel's lock; rpc_lanes_open and _close run while no
//          other thread has the channel.
// Memory   names and addresses are copied; a call that is made is the caller's.
#ifndef COMMON_NET_RPC_LANE_H
#define COMMON_NET_RPC_LANE_H

#include "common/net/rpc_inner.h"
#include "common/net/rpc_window.h"

#define RPC_METHODS_MAX 64
#define RPC_NO_METHOD RPC_METHODS_MAX // number of a name beyond the limit

struct rpc_lane {
    grpc_channel *channel;             // NULL: not dialled
    unsigned files_serial;             // serial of its certificates
    void *registered[RPC_METHODS_MAX]; // core's handles, by method's number
    unsigned methods;                  // number of registered methods
};

struct rpc_lanes {
    char *address, *server_name; // owned; server_name NULL: the address's
    char target[RPC_TARGET_MAX]; // core's name of the address
    struct rpc_tuning tuning;
    struct tls_files *files;        // NULL: no certificates
    struct rpc_guard *guard;        // NULL: none
    char *methods[RPC_METHODS_MAX]; // core wants names that outlive a channel
    unsigned methods_count;
    struct rpc_lane lane[RPC_LANES];
};

// Makes the usual lane to `address`, without waiting for a connection;
// l->tuning must be set before, and the rest of *l be zeroes. `allow` is that
// of rpc_channel_options. SL_EINVAL: it is no address; SL_EDENIED: `tls` is
// NULL, and the address is not local; those of tls_load; SL_ENOMEM. On failure
// there is nothing to close, and *l cannot be used.
enum sl_err rpc_lanes_open(struct rpc_lanes *l, const char *address,
                           const struct rpc_tls *tls, rpc_allow_fn allow,
                           struct sl_error *err);

// Destroys the connections of both lanes and frees what rpc_lanes_open made;
// once, and nothing may follow. Calls in flight keep their connection.
void rpc_lanes_close(struct rpc_lanes *l);

// Has both lanes connect at once where they wait before another attempt; with
// new certificates, if there are any. Does not wait.
void rpc_lanes_hurry(struct rpc_lanes *l);

// Returns true if the express lane is connected. Else returns false and begins
// to connect it, without waiting.
bool rpc_lanes_express(struct rpc_lanes *l);

// Returns the number of the method `name`, which gets one if it is new;
// RPC_NO_METHOD if RPC_METHODS_MAX others have all numbers.
unsigned rpc_lanes_method(struct rpc_lanes *l, const char *name);

// Returns a new call of core's, of `method` (a number of rpc_lanes_method) on
// `lane`, for the caller to start and to unref; on the express lane only after
// rpc_lanes_express returned true. With RPC_NO_METHOD the call goes by `name`,
// on the usual lane (it asserts); else `name` may be NULL. A lane that is not
// connected is dialled anew before if there are new certificates.
grpc_call *rpc_lanes_call(struct rpc_lanes *l, enum rpc_lane_kind lane,
                          unsigned method, const char *name,
                          gpr_timespec deadline, grpc_completion_queue *cq);

#endif
