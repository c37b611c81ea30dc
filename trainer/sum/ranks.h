// SPDX-License-Identifier: Apache-2.0
// trainer/sum/ranks.h -- the Ranks service: a rank's answers to other ranks.
//
//   ranks_new -> ranks_table, for the worker's rpc_server
//     ranks_add | ranks_remove     a lane that takes pieces (sum_group.c)
//     ranks_serve_state | ranks_stop_state   a state that newcomers copy
//     ranks_serve_feed | ranks_stop_feed     a state that they follow
//   ranks_free, after the server
//
// A generation has up to two lanes, rows of sums that do not wait for each
// other, each added and removed by itself; its state and feed serve both. A
// message of a generation, or of a lane of it, that is not here is answered
// SL_EUNAVAIL: it may come. A message of a generation that is older than the
// newest of its job is answered SL_ESTALE. Where the generation has a token
// (RingBegin), a call without a token is answered SL_EAUTH, a call with another
// one SL_EDENIED, before anything is done for it: so each caller is a rank, or
// was told to follow.
//
// Threads  any; not from a ranks_state_fn or ranks_feed_fn, which run under the
//          lock that all of these take. ranks_remove and ranks_stop_* wait
//          until no call uses what they take away.
// Memory   what is added is borrowed until it is removed; ranks_of are copied.
// Units    bytes.
// Errors   SL_EEXIST: the lane, the state or the feed is here already;
//          SL_ENOMEM. `err` may be NULL.
#ifndef TRAINER_SUM_RANKS_H
#define TRAINER_SUM_RANKS_H

#include "common/net/rpc.h"
#include "trainer/sum/inbox.h"

// Most bytes of one call of State.
#define RANKS_STATE_BYTES ((size_t)4 << 20)

// Memory of ours that processes of this host may map; see ShareReply.
struct ranks_share {
    int fd; // -1: none; a call for it is answered SL_EUNAVAIL then
    uint64_t bytes, token; // size; secret that the memory holds
};

// Copies `bytes` bytes at `offset` of the state; SL_ERANGE outside of it.
// Called on an I/O thread.
typedef enum sl_err (*ranks_state_fn)(void *arg, uint64_t offset, size_t bytes,
                                      void *to);

// A generation, as the coordinator began it.
struct ranks_of {
    uint64_t job, generation;
    struct wire_token token; // zeros: calls need none
};

struct ranks;

// Makes a service without generations. SL_ENOMEM leaves *out as it was.
enum sl_err ranks_new(struct ranks **out);
// Frees the service, after its server; all that was added was taken away. NULL
// is allowed.
void ranks_free(struct ranks *r);
// Returns the service's methods, for the worker's server; their table is
// static, and `r` outlives the server.
struct rpc_table ranks_table(struct ranks *r);

// Adds lane `lane` (below WIRE_LANES) of a generation: its pieces go to
// `inbox`, and ranks of this host are told of `share`, whose fd stays the
// caller's.
enum sl_err ranks_add(struct ranks *r, const struct ranks_of *of, uint32_t lane,
                      struct inbox *inbox, struct ranks_share share);
// Takes a lane away; waits until no call uses it. Does nothing for a lane that
// was not added.
void ranks_remove(struct ranks *r, uint64_t job, uint64_t generation,
                  uint32_t lane);

// Serves the state of a generation by `fn` until ranks_stop_state.
enum sl_err ranks_serve_state(struct ranks *r, const struct ranks_of *of,
                              ranks_state_fn fn, void *arg);
// Ends ranks_serve_state; waits until no call is in `fn`. Does nothing if no
// state is served.
void ranks_stop_state(struct ranks *r, uint64_t job, uint64_t generation);

// Answers a request that names a follower (StateRequest): copies m->bytes bytes
// to `to`. Called on an I/O thread.
typedef enum sl_err (*ranks_feed_fn)(void *arg,
                                     const Sluice__V1__StateRequest *m,
                                     void *to, struct sl_error *err);
// Serves the feed of a generation by `fn` until ranks_stop_feed.
enum sl_err ranks_serve_feed(struct ranks *r, const struct ranks_of *of,
                             ranks_feed_fn fn, void *arg);
// Ends ranks_serve_feed; waits until no call is in `fn`. Does nothing if no
// feed is served.
void ranks_stop_feed(struct ranks *r, uint64_t job, uint64_t generation);

#define RANKS_HOST_BYTES 128
// Writes a text to `out` that is equal for processes that may share memory:
// made of boot, user, and the numbering of processes. With `alone`, or if the
// system does not tell these, the text is one that no other process has.
// Returns SL_OK; SL_EIO: no random number for that.
enum sl_err ranks_host(char out[RANKS_HOST_BYTES], bool alone);

// Returns the address that other ranks dial, as an allocated string:
// `advertise` if it is not NULL, else `listen` with the port in use, or as it
// is if it has none ("unix:..."). SL_EINVAL: `advertise` is no address; one
// that cannot be dialled is found out in a ring of several. SL_ENOMEM. *out is
// for sl_free; NULL on failure.
enum sl_err ranks_address(char **out, const char *listen, const char *advertise,
                          int port, struct sl_error *err);

// Copies `bytes` bytes, 1 to RANKS_STATE_BYTES, at `offset` of the state of
// another rank to `to`, which is undefined after a failure. Waits, at most
// timeout_ms. SL_ETIMEDOUT; SL_ECORRUPT: not so many came; what the other rank
// answers (SL_EUNAVAIL, SL_ESTALE, SL_ERANGE, ...); SL_ENOMEM.
enum sl_err ranks_fetch(struct rpc_channel *from, const struct ranks_of *of,
                        uint64_t offset, size_t bytes, void *to,
                        uint32_t timeout_ms, struct sl_error *err);

// A request that names a follower, to one rank.
struct ranks_ask {
    struct rpc_channel *from;
    const Sluice__V1__StateRequest *m; // borrowed until ranks_ask returns
    void *to;                          // m->bytes: 1 to RANKS_STATE_BYTES
    enum sl_err rc;                    // set by ranks_ask
};
// Sends `count` requests at the same time, to any ranks, and waits until all
// have ended, each with its own `rc` (the errors of ranks_fetch), after
// `timeout_ms` at the latest. Returns the first error in their order, with its
// *err, SL_EBUSY only if there is no other; SL_ENOMEM, in each `rc` too, if
// none was sent.
enum sl_err ranks_ask(struct ranks_ask *asks, size_t count, uint32_t timeout_ms,
                      struct sl_error *err);

#endif
