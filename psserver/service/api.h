// SPDX-License-Identifier: Apache-2.0
// psserver/service/api.h -- the calls of workers: Ask, Push, Pull, PushPull,
// Local; and Follow, of a psserver that feeds a shard of this one.
//
// A handler runs to its end on the I/O thread that received the call: decode,
// find the shard, let it decide, answer once; but for calls that wait, for a
// round, a replica or a file, and are answered later. Refusals of the protocol
// are answers (Refused); a message that is wrong, or a shard that is not
// admitted here, is an error of the call. The tensor stays where the wire put
// it.
//
//   PushPull  api -> wire_read_push -> store_find -> pool_take
//             -> shard_push: check outside the lock; then apply, count and
//                copy the fresh parameters under it
//             -> rpc_answer: header, and the copy, which goes back to its pool
//                when the transport has sent it
//   Pull{tag} api -> tagged_find -> (first: loop -> pool thread: snap_values)
//             -> rpc_answer with a slice of the mapped file
//   Push of memory that is shared: exchange_push copies and checks it first;
//             the parameters then go straight where the caller wants them
//
// Threads  shards_api_table's handlers: any I/O thread. shards_api_acked: any.
//          The rest: the loop.
// Memory   what setup points at outlives the api, which copies the setup.
#ifndef PSSERVER_SERVICE_API_H
#define PSSERVER_SERVICE_API_H

#include "common/base/fs.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "psserver/local/local_shared.h"
#include "psserver/service/figures.h"
#include "psserver/service/tokens.h"
#include "state/shard/shard_store.h"

#define API_SERVICE "sluice.v1.Shards"

struct shards_api;

struct shards_api_setup {
    struct loop *loop;
    struct fs *fs;
    struct shard_table *store;
    const char *folder;    // folder of snapshots
    const char *name;      // the psserver's, in texts
    struct local *local;   // NULL: no memory is shared
    struct tokens *tokens; // NULL: calls need no tokens
};

// Makes the service; it takes no calls before shards_api_table is served.
// Returns SL_OK; SL_ENOMEM leaves *out as it was.
enum sl_err shards_api_new(struct shards_api **out,
                           const struct shards_api_setup *setup);

// Returns the methods for rpc_server_new, static ones with `api` as their
// argument.
struct rpc_table shards_api_table(struct shards_api *api);

// Answers the pulls that wait for a round of the shard, as one was applied by a
// message of the coordinator. `api` is a struct shards_api.
void shards_api_applied(void *api, struct shard *shard);

// Answers the calls to the shard that waited for its replica, as that has
// acknowledged or is out of the set. `api` is a struct shards_api. Any thread.
void shards_api_acked(void *api, struct shard *shard);

// Writes the figures of calls to *e (figures.h).
void shards_api_measure(const struct shards_api *api, struct expo *e);

// Opens no more files (later calls for them get SL_EUNAVAIL), answers the calls
// that wait for rounds (with the parameters as they are) or for replicas
// (SL_EUNAVAIL), and runs the loop until those for files being opened are
// answered; other calls are served on. Before rpc_server_free, which waits for
// answers. Not from a handler of the loop.
void shards_api_stop(struct shards_api *api);

// Frees the service, after shards_api_stop and rpc_server_free. NULL is
// allowed.
void shards_api_free(struct shards_api *api);

#endif
