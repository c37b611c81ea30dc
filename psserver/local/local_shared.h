// SPDX-License-Identifier: Apache-2.0
// psserver/local/local_shared.h -- memory that workers of this host share with
// us.
//
// A private unix socket on which a worker hands over sealed memory
// (proto/local.h). Mapped memory is a region, under a random number; calls
// refer to ranges of it (wire_shm). It stays mapped until the worker drops it
// or its connection ends, and then until the last call that uses it is done.
//
// Over the same socket a worker may hand us one end of another socket, for its
// small calls (local_serve).
//
// The worker may write to a region at any moment: bytes are copied before they
// are checked and used.
//
// Threads  local_take, local_give, local_about: any. The rest: the loop.
// Memory   local_free after the last call was answered, and every use given
//          back. At most LOCAL_BYTES are mapped, LOCAL_PEER_BYTES and
//          LOCAL_PEER_REGIONS of one connection.
// Units    bytes.
// Errors   a worker that breaks the protocol loses its connection. A call that
//          fails leaves its outputs as they were. `err` may be NULL; SL_ENOMEM
//          may come without a text.
#ifndef PSSERVER_LOCAL_LOCAL_SHARED_H
#define PSSERVER_LOCAL_LOCAL_SHARED_H

#include <stdbool.h>

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "common/base/status.h"
#include "proto/wire.h"

#define LOCAL_BYTES ((size_t)16 << 30)
#define LOCAL_PEER_BYTES ((size_t)4 << 30)
#define LOCAL_PEER_REGIONS 4096
#define LOCAL_PEERS 256 // connections; one more is closed at once

struct local;
struct local_region;

// Listens at `path`, a socket of this user's alone; `name` is this psserver's.
// Both are copied; `loop` is borrowed until local_free. A file at `path`, as a
// process that was killed leaves one, is replaced, and may be gone after a
// failure: the caller knows that nothing answers there. Returns SL_OK;
// SL_ENOTSUP: this host has no boot id to tell; SL_ERANGE: `path` is too long;
// SL_EIO: the kernel gives no random number; SL_ENOMEM; else what the system
// says of the socket. Without a text: SL_EIO, and SL_ENOMEM perhaps. local_free
// removes the socket.
enum sl_err local_new(struct local **out, struct loop *loop, const char *path,
                      const char *name, struct sl_error *err);
// Ends all connections, unmaps their regions, removes the socket and frees `l`,
// with no use left (above). NULL is allowed.
void local_free(struct local *l);

// Sets the server that answers calls over sockets that are handed to us from
// here on; NULL: none, and the sockets are refused, so that the worker calls
// over the network. `server` is borrowed until the next local_serve, or
// local_free; sockets that it has got stay its own. Does nothing if `l` is
// NULL.
void local_serve(struct local *l, struct rpc_server *server);

// Sets *out to the answer of Shards/Local: where workers of this host hand
// memory over. It borrows from `l`, which may be NULL: then it says that no
// memory is shared.
void local_about(const struct local *l, Sluice__V1__LocalReply *out);

// A range of a region, for one call.
struct local_use {
    struct local_region *region; // a reference; NULL: none
    void *at;
};

// Takes the range that `ref` names for one call, until local_give: out->at are
// bytes that may be read and written, and that the worker may change meanwhile.
// They stay mapped if the worker drops the region. Returns SL_OK; SL_ENOENT: no
// such region, or `l` is NULL; SL_ERANGE: not within it.
enum sl_err local_take(struct local *l, const struct wire_shm *ref,
                       struct local_use *out, struct sl_error *err);
// Gives a use back, which may unmap its region, and leaves it all zeroes, which
// is allowed too.
void local_give(struct local_use *use);

// Returns the bytes that are mapped now; `l` is not NULL. For tests.
size_t local_bytes(const struct local *l);

#endif
