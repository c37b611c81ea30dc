// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync_ps_inner.h -- shared by sync_ps*.c only.
//
// A shard is at rest, or wants a call (`want`), which is then in flight
// (`calling`) until the compute thread has taken its answer. Each arrow is a
// call of ps_move by the function that it names:
//
//   at rest --ps_send, all_known, ps_pull_cut--> wanted --ps_start--> in flight
//      ^       all_pulled, ps_want_rows           |  ^                   |
//      +---- rest (answered), abandon (given up) -+  +- ps_absorb_locked -+
//
// A call whose outcome is unknown leaves its shard wanted, due after a pause.
//
// In a job with tables a shard has a second struct ps_shard, its *lane of
// rows*, which wants nothing but PS_ROWS: so rows are pulled while the shard's
// other calls are in flight. What it has to do with evidence is the first
// one's.
//
// Fields under `shared` are guarded by the lock; the rest of a shard is the
// compute thread's. While a call is in flight, the I/O thread owns the shard's
// range of the target vector.
#ifndef TRAINER_PUSH_SYNC_PS_INNER_H
#define TRAINER_PUSH_SYNC_PS_INNER_H

#include <pthread.h>

#include "common/base/rng.h"
#include "common/run/spans.h"
#include "trainer/push/evidence.h"
#include "trainer/push/peer.h"
#include "trainer/push/sync_ps.h"

enum ps_want {
    PS_NOTHING,
    PS_ASK,
    PS_PULL,
    PS_PUSH,    // PushPull
    PS_CUT,     // Pull of a snapshot
    PS_ROWS,    // Pull of rows; of a lane of rows alone
    PS_MOMENTS, // Pull of the moments that the shard keeps
    PS_NEXT, // Pull of the parameters after a round: the last closure's round,
             // or the round before that of the open closure
};

struct ps_answer {
    enum sl_err rc; // outcome of the call
    struct sl_error err;
    uint64_t incarnation, version, staleness;
    uint64_t open_first;
    uint32_t open_count;
    enum wire_push_result result;
    struct wire_refused refused;
    size_t values_bytes; // bytes of parameters
    uint64_t moments_t;
    size_t counted_bytes;
    uint8_t counted[WIRE_COUNTED_BYTES];
};

struct ps_shard {
    struct sync_ps *s;
    uint32_t number;
    size_t first, count;
    struct peer peer;

    enum ps_want want; // set by ps_move only, as `calling` is
    bool calling;
    size_t pushing;  // bytes of the gradient that was sent last
    uint64_t due_ms; // a wanted call starts no earlier
    unsigned tries;
    struct wire_tag tag; // PS_CUT
    // Parameters that lie at `target` of a pull, bit by bit: version plus 1; 0:
    // not known. `asked`: what the pull under way says of it.
    struct {
        uint64_t incarnation, version, asked;
    } has;
    float *target; // where an answer's payload goes

    struct step_evidence evidence;
    bool have_params; // the range's parameters are in the vector, fresh enough
    // Incarnation and version that they are of, and when they came.
    uint64_t params_incarnation, version, fresh_ms;
    // Mode sync: closure (plus 1; 0: none) at which a round began of which no
    // step was counted when these parameters came.
    uint64_t open_first;
    uint32_t open_count;
    uint64_t waits_for; // PS_NEXT: the round of this closure
    bool waited; // the open closure has waited for the round before its own

    // In a lane of rows: what was asked for has come, or nothing was; `version`
    // is that of the rows then.
    bool have_rows;
    // Version of the rows that the next step to be sent was computed from;
    // UINT64_MAX: it has none.
    uint64_t rows_version;

    struct { // the call in flight, for spans.h
        uint64_t began;
        struct span_of of;
    } span;
    struct sync_step step; // PS_PUSH: what is sent
    uint64_t based_on;     // version that it was computed from
    bool skip;
    uint8_t *coded; // the contribution, if it is coded
    size_t coded_bytes;
    enum wire_type coded_as;
    bool held;         // waits to start until its parameters are read no more
    bool round_closed; // our push made the round whole, and counted
    bool contribution_held; // the shard holds our push, not counted yet
    // Step that was refused for its delay `stale_times` times.
    uint32_t stale_step;
    unsigned stale_times;
    bool counted_new; // `counted_step` was counted by our push
    uint32_t counted_step;

    struct {
        bool answered; // the call has ended; `answer` holds
        // Calls of which the transport still reads our gradient or ids: one
        // that was given up may outlast the next.
        unsigned lent;
        bool read; // the compute thread still reads the old parameters: an
                   // answer is not taken before that ends
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
    struct ps_shard *shards; // by range; behind them their lanes of rows
    uint32_t lanes;          // of `shards`, with those of rows
    void *wire_grads;  // gradients rounded to 16 bits, sent as bytes; NULL: f32
    uint8_t *coded;    // contributions of all shards; NULL: not coded
    float *rest;       // what topk2 has left out; NULL: another code
    struct ps_map map; // the compute thread's
    bool moved;        // calls in flight have not been compared with `map`
    struct rng rng;

    // The open closure.
    struct sync_closure closure;
    bool open;
    bool again, fenced, early, partly, failed;
    uint32_t pull_end;     // end of the ranges that ps_pull wants
    struct sync_rows rows; // what was asked for last
    bool asked;            // ps_rows has not taken it yet
    struct sl_error err;   // reason for `failed`
    struct sync_seen seen;
    uint64_t map_asked_ms; // when a newer map was asked for last
    bool map_wanted;       // a newer map is wanted

    // A call that returned SYNC_BUSY.
    bool busy;         // it has not ended
    uint64_t asked_ms; // when the caller was asked last whether to wait on
    uint64_t next_ms;  // when the next call to a shard is due
    bool cutting;      // it is ps_pull_cut, or ps_moments
    struct sync_moments moments;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct ps_map newer; // entries NULL: no newer map
        bool has_newer;
        bool stirred; // something came since the shards were looked through
    } shared;
};

// Returns the first closure of the shard's push.
static inline uint64_t ps_closure(const struct ps_shard *p)
{
    return p->step.first != NULL ? p->step.first->closure
                                 : p->s->closure.closure;
}

// Returns the lane of a shard's rows, in a job with tables.
static inline struct ps_shard *ps_rows_of(struct sync_ps *s, uint32_t range)
{
    return &s->shards[s->sync.ranges_count + range];
}

// Sets what the shard wants and whether its call is in flight; no other
// function does (sync_ps_call.c). Only a wanted call is started, as what is
// wanted, and only one in flight ends; any other change is a fault of the
// caller (asserted).
void ps_move(struct ps_shard *p, enum ps_want want, bool calling);
// Starts the call that the shard wants. Returns true; false if it cannot be
// made now: it is due again after a pause, and without an address of the shard,
// or a connection to it, a newer map is wanted. May wait as peer_connect does.
// Called without the lock; the shard wants a call and has none in flight.
bool ps_start(struct ps_shard *p);
// Cancels the call in flight, if there is one. It still has to be absorbed.
// Without the lock.
void ps_cancel(struct ps_shard *p);
// Sets due_ms: the shard's call is started after a pause, which doubles with
// each of p->tries, which this counts, up to about a second.
void ps_pause(struct ps_shard *p);

// Wakes the compute thread, as something has come. With the lock.
void ps_stir_locked(struct sync_ps *s);

// Takes the answers that have come to calls in flight, and moves their shards
// (sync_ps_absorb.c). With the lock.
void ps_absorb_locked(struct sync_ps *s);
// Makes the newest map the one in force, if one has come; evidence of
// incarnations that it does not name is void (s->again), pauses are over, and
// no newer map is wanted. Calls in flight are left to their answers, or to be
// cancelled (s->moved). With the lock.
void ps_adopt_locked(struct sync_ps *s);

// Fails the open closure with a copy of *err, the code of which becomes `rc`.
// Only the first failure counts.
void ps_fail(struct sync_ps *s, enum sl_err rc, const struct sl_error *err);
#endif
