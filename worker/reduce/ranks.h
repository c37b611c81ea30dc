// SPDX-License-Identifier: Apache-2.0
// worker/reduce/ranks.h -- what a rank answers to others: the Ranks service.
//
//   ranks_new -> ranks_table, for the worker's rpc_server
//     ranks_add | ranks_remove     a lane that takes pieces (group.c)
//     ranks_serve_state | ranks_stop_state   a state that newcomers copy
//     ranks_serve_feed | ranks_stop_feed     one that they follow
//   ranks_free, after the server
//
// A generation has up to two lanes, each added and removed by itself; its
// states are of all of it. A message of a generation, or of a lane of it, that
// is not here is answered SL_EUNAVAIL: it may come. One that is older than the
// newest of its job, SL_ESTALE. Where the generation has a token (RingBegin) a
// call without it is answered SL_EAUTH, one with another SL_EDENIED, before
// anything is done for it: who calls is a rank, or was told to follow.
//
// Threads  any. ranks_remove and ranks_stop_* wait until no call uses what
//          they take away.
// Memory   what is added is borrowed until it is removed.
// Units    bytes.
// Errors   SL_EEXIST: the lane, or the state, is here already; SL_ENOMEM.
#ifndef WORKER_REDUCE_RANKS_H
#define WORKER_REDUCE_RANKS_H

#include "common/net/rpc.h"
#include "worker/reduce/inbox.h"

// Of one call of State.
#define RANKS_STATE_BYTES ((size_t)4 << 20)

// Where processes of this host find memory of ours; see ShareReply.
struct ranks_share {
    int fd; // -1: none
    uint64_t bytes, token;
};

// Copies a range of the state; SL_ERANGE outside of it. On an I/O thread.
typedef enum sl_err (*ranks_state_fn)(void *arg, uint64_t offset, size_t bytes,
                                      void *to);

// A generation, as the coordinator began it.
struct ranks_of {
    uint64_t job, generation;
    struct wire_token token; // zeros: nobody asks for one
};

struct ranks;

enum sl_err ranks_new(struct ranks **out);
void ranks_free(struct ranks *r); // NULL is allowed
struct rpc_table ranks_table(struct ranks *r);

// One lane; below WIRE_LANES.
enum sl_err ranks_add(struct ranks *r, const struct ranks_of *of, uint32_t lane,
                      struct inbox *inbox, struct ranks_share share);
void ranks_remove(struct ranks *r, uint64_t job, uint64_t generation,
                  uint32_t lane);

enum sl_err ranks_serve_state(struct ranks *r, const struct ranks_of *of,
                              ranks_state_fn fn, void *arg);
void ranks_stop_state(struct ranks *r, uint64_t job, uint64_t generation);

// Answers a request that names a follower (StateRequest). On an I/O thread.
typedef enum sl_err (*ranks_feed_fn)(void *arg,
                                     const Sluice__V1__StateRequest *m,
                                     void *to, struct sl_error *err);
enum sl_err ranks_serve_feed(struct ranks *r, const struct ranks_of *of,
                             ranks_feed_fn fn, void *arg);
void ranks_stop_feed(struct ranks *r, uint64_t job, uint64_t generation);

// What processes that may share memory have in common: boot, user, and the
// numbering of processes. With `alone` it is a text that nobody else has.
#define RANKS_HOST_BYTES 128
enum sl_err ranks_host(char out[RANKS_HOST_BYTES], bool alone);

// What other ranks dial, into an allocated string: `advertise` if it is said,
// else `listen` with the port in use. One that nobody could dial is told so
// when it is in a ring of several.
enum sl_err ranks_address(char **out, const char *listen, const char *advertise,
                          int port, struct sl_error *err);

// A range of the state of another rank: at most RANKS_STATE_BYTES. Waits.
enum sl_err ranks_fetch(struct rpc_channel *from, const struct ranks_of *of,
                        uint64_t offset, size_t bytes, void *to,
                        uint32_t timeout_ms, struct sl_error *err);

// Any requests at the same time, of any ranks. Waits until all have ended; each
// has its own end. Returns the first error, SL_EBUSY only if there is no other.
struct ranks_ask {
    struct rpc_channel *from;
    const Sluice__V1__StateRequest *m;
    void *to;
    enum sl_err rc;
};
enum sl_err ranks_ask(struct ranks_ask *asks, size_t count, uint32_t timeout_ms,
                      struct sl_error *err);

#endif
