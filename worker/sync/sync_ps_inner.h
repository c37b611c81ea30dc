// SPDX-License-Identifier: Apache-2.0
// worker/sync/sync_ps_inner.h -- shared by sync_ps*.c only.
//
// A shard is at rest, or there is a call to be made (`want`), which is then
// in flight (`calling`) until the compute thread has taken its answer. Each
// arrow is a call of ps_move by the function that it names:
//
//   at rest --ps_send, all_known, ps_pull_cut--> wanted --ps_start--> in flight
//      ^                                          |  ^                   |
//      +---- rest (answered), abandon (given up) -+  +- ps_absorb_locked -+
//
// A call whose outcome is unknown leaves its shard wanted, due after a pause.
//
// Fields under `shared` are guarded by the lock; the rest of a shard is the
// compute thread's. While a call is in flight, the I/O thread owns the shard's
// range of the target vector.
#ifndef WORKER_SYNC_SYNC_PS_INNER_H
#define WORKER_SYNC_SYNC_PS_INNER_H

#include <pthread.h>

#include "common/base/rng.h"
#include "common/run/spans.h"
#include "worker/sync/evidence.h"
#include "worker/sync/peer.h"
#include "worker/sync/sync_ps.h"

enum ps_want {
    PS_NOTHING,
    PS_ASK,
    PS_PULL,
    PS_PUSH, // PushPull
    PS_CUT,  // Pull of a snapshot
    PS_NEXT, // Pull of what comes after a round: that of the last closure, or
             // the one before that of the open closure
};

struct ps_answer {
    enum sl_err rc; // of the call
    struct sl_error err;
    uint64_t incarnation, version, staleness;
    uint64_t open_first;
    uint32_t open_count;
    enum wire_push_result result;
    struct wire_refused refused;
    size_t counted_bytes;
    uint8_t counted[WIRE_COUNTED_BYTES];
};

struct ps_shard {
    struct sync_ps *s;
    uint32_t number;
    size_t first, count;
    struct peer peer;

    enum ps_want want; // these two are ps_move's
    bool calling;
    uint64_t due_ms; // not before
    unsigned tries;
    struct wire_tag tag; // PS_CUT
    float *target;       // where an answer's payload goes

    struct evidence evidence;
    bool have_params;
    uint64_t params_incarnation, version, fresh_ms;
    // Sync: nothing of the round that begins at this closure (plus 1; 0: none)
    // was counted when these parameters came.
    uint64_t open_first;
    uint32_t open_count;
    uint64_t waits_for; // PS_NEXT: the round of this closure
    bool waited;        // by the open closure, for the round before its own

    struct { // of the call in flight, for spans.h
        uint64_t began;
        struct span_of of;
    } span;
    struct sync_step step; // PS_PUSH: what is sent
    bool skip;
    bool held;         // not started before its parameters are read no more
    bool round_closed; // by our push: all of it is counted there
    bool contribution_held; // there, by the last answer: not counted yet
    uint32_t stale_step;    // refused so often for its delay
    unsigned stale_times;
    bool counted_new; // `counted_step` was counted by our push
    uint32_t counted_step;

    struct {
        bool answered;   // the call has ended; `answer` holds
        bool referenced; // the transport still reads our gradient
        bool read; // the compute thread still reads its parameters: an answer
                   // is not taken before it has done with them
        struct ps_answer answer;
    } shared;
};

struct ps_map {
    uint64_t version;
    struct sync_map_entry *entries; // one block with its addresses
    size_t count;
};

struct sync_ps {
    struct sync sync;
    struct sync_ps_options o;
    struct ps_shard *shards;
    void *wire_grads;  // of 16 bits, for what is sent as bytes; NULL: f32
    struct ps_map map; // the compute thread's
    bool moved;        // calls in flight have not been compared with it
    struct rng rng;

    // The open closure.
    struct sync_closure closure;
    bool open;
    bool again, fenced, early, failed;
    uint32_t pull_end;   // of the ranges that are pulled
    struct sl_error err; // failed
    struct sync_seen seen;
    uint64_t map_asked_ms;
    bool map_wanted;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct ps_map newer; // entries NULL: none
        bool has_newer;
    } shared;
};

// sync_ps_call.c: the one function that changes the state of a shard. Only a
// wanted call is started, as what is wanted; only one in flight ends.
void ps_move(struct ps_shard *p, enum ps_want want, bool calling);
// Starts what the shard wants; false if it cannot be called
// now (it is then due later). Without the lock.
bool ps_start(struct ps_shard *p);
void ps_cancel(struct ps_shard *p);
void ps_pause(struct ps_shard *p); // sets due_ms, doubling

// sync_ps_absorb.c: takes the answers that are there. With the lock.
void ps_absorb_locked(struct sync_ps *s);
// The newest map, if one has come. With the lock.
void ps_adopt_locked(struct sync_ps *s);

void ps_fail(struct sync_ps *s, enum sl_err rc, const struct sl_error *err);
#endif
