// SPDX-License-Identifier: Apache-2.0
// trainer/lease/ring_round.h -- one round of a rank: its contributions, the sum
// over all ranks, the update.
//
// Which steps a round averages is what the state has not counted (R4;
// plan/round.h); this rank has those of its slots computed, in order
// (contributor.h), and adds them up. While the last one is computed, buckets
// leave as they become whole. When all ranks' sums are in, each rank applies
// the same average.
//
// The sums of the first layers overtake those of the others (sum.h). What they
// make of these layers' parameters is known before the round is over, and with
// it the next round's forward pass begins (ahead), while the link is busy with
// the others. The state is not touched by that: it changes when all of the
// round is there. If the round is torn or skipped, the pass is begun again.
//
// A round of which any contribution is not finite is skipped by every rank: its
// steps are counted, nothing is applied.
//
// In an audited round the slots of the next ranks are computed before our own,
// and nothing of them enters the sum (A1, A3).
//
// Threads  the compute thread.
// Memory   round_release; a round that was left is closed by round_leave.
// Units    samples; milliseconds.
// Errors   ROUND_LEFT: the generation has ended here, *err says why. A failed
//          round has changed nothing of the state, or the state is given up.
//          round_run wants an `err`: it may not be NULL.
#ifndef TRAINER_LEASE_RING_ROUND_H
#define TRAINER_LEASE_RING_ROUND_H

#include "trainer/lease/contributor.h"
#include "trainer/lease/lease.h"
#include "trainer/lease/ring_repeats.h"

enum round_result {
    ROUND_DONE,
    ROUND_OVER, // every step is counted: no round is left
    ROUND_LEFT, // a rank does not answer, or the generation was ended
    ROUND_FAILED,
};

struct ring_round {
    struct contributor *by;
    struct lease *lease;
    struct lease_metrics m;

    // The generation.
    uint32_t ranks, self, contributions;
    uint64_t early;  // elements of the buckets that overtake; 0: none
    float *foreseen; // these parameters after the round, and space; owned
    float *wrote;    // part of `foreseen`: the gradient that `ahead` wrote
    bool ahead;      // `wrote` is to be put back

    // The round: its keys, then those of the next round as far as they are
    // known.
    struct round_key *keys;      // 2 * contributions; owned
    struct once_step *steps;     // contributions; owned
    uint32_t keys_count, count;  // keys known; those of this round
    uint32_t first, slots, slot; // our keys; the slot under way
    uint64_t samples;
    bool bad;                   // a contribution of ours is not finite
    bool bad_loss;              // a loss of ours is not finite
    double loss_sum, right_sum; // sums of our contributions; NAN: not known
    float *average;             // average of all ranks' contributions
    bool finite;                // its buckets so far are finite
    // By variable, how many contributions have a gradient, summed over all
    // ranks; owned. NULL: all contributions have one.
    float *present;
    struct ring_repeats audit; // results, if the round is audited
};

// Begins the rounds of a ring lease; round_release ends them. Both are borrowed
// until then. *r need not be zeroed; `by` has a ring, `lease` a placed record.
// No generation is joined yet.
void round_init(struct ring_round *r, struct contributor *by,
                struct lease *lease);
// Leaves the generation, and frees. Also after round_leave; nothing but
// round_init may follow.
void round_release(struct ring_round *r);

// Begins a generation of `ranks` ranks, of which this one is number `self`; the
// state is in place. A round has `contributions` keys. The sums of the first
// `early` elements overtake the others; `marks`: the ranks also sum which
// variables have a gradient. Leaves the generation before, and calls the
// contributor's `place`. Returns SL_OK, or the error of that or SL_ENOMEM,
// after which only round_join, round_leave or round_release may follow. `err`
// may be NULL if `place` allows that.
enum sl_err round_join(struct ring_round *r, uint32_t ranks, uint32_t self,
                       uint32_t contributions, uint64_t early, bool marks,
                       struct sl_error *err);

// Runs one round: has our slots computed, sums over the ranks, and applies the
// average. Waits for the other ranks. A generation was joined (round_join). A
// round that was applied or skipped is added to the lease's progress
// (lease_set_progress); one that is not finite by a slot of ours is judged
// (nonfinite.h), and may fail the lease. *err is set for ROUND_LEFT and
// ROUND_FAILED, after which only round_join, round_leave or round_release may
// follow.
enum round_result round_run(struct ring_round *r, struct sl_error *err);

// Leaves the generation: calls the contributor's `leave`, which gives up what
// was read ahead. May be called again.
void round_leave(struct ring_round *r);

// ---- the slot under way, for the contributor

// Adds bucket number `bucket` of the slot's gradient, which is whole, `finite`
// or not, to our sum; if it is the last slot, starts the bucket's sum over the
// ranks (that of bucket 0 after `compute`, if by->beside). One that is not
// finite spoils the round (round_is_spoilt). In a repeat only its digest is
// taken. To be called from the last bucket to the first, each once per slot.
// `batches`: how many micro-batches have moved its statistics. SL_OK or
// SL_ENOMEM; `err` may be NULL.
enum sl_err round_whole(struct ring_round *r, uint32_t bucket, bool finite,
                        uint32_t batches, struct sl_error *err);

// Notes which variables have no gradient in a slot of ours that is whole, once
// per slot, and not in a repeat: absent[i] for each variable i of the model.
// Not read, and may be NULL, in a generation without marks.
void round_absent(struct ring_round *r, const bool *absent);

// Returns, for `ahead`, the first r->early parameters as this round leaves
// them, valid until the round goes on; space that the caller may write to. Once
// in a call of `ahead`, which may then write to the first r->early elements of
// ring->grads, and to no others: they are kept, and put back when the next
// round begins. NULL: they cannot be had, without memory or where the state is
// on a device.
float *round_foresee(struct ring_round *r);

// Notes that the gradient of the slot is not finite, and with `loss` its loss
// neither; the rest of the gradient is not wanted. In a repeat the round stays
// as it was.
void round_spoilt(struct ring_round *r, bool loss);

// Returns true if a part of our contributions to the round is not finite so
// far, of whichever slot; in a repeat, a part of that slot.
bool round_is_spoilt(const struct ring_round *r);

// Says whether the round is audited, and its results are wanted.
static inline bool round_audited(const struct ring_round *r)
{
    return r->audit.on;
}

// Notes the result of a slot that was computed, as far as it was wanted; `kind`
// is equal where the same inputs give the same bits. Does nothing if the round
// is not audited.
void round_result(struct ring_round *r, struct round_key key, uint64_t kind);

#endif
