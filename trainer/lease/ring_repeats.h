// SPDX-License-Identifier: Apache-2.0
// trainer/lease/ring_repeats.h -- audited rounds of a ring: which slots a rank
// computes, and what is said of each (A1).
//
// In an audited round (plan/audited.h) a rank computes the slots of the next
// ranks before its own, from the parameters that every rank has then. For each
// slot it notes the digest of the gradient before anything is added to it, and
// its sketch. Where one rank has more slots than a message has results, its
// first ones are audited.
//
// Threads  the compute thread.
// Memory   ring_repeats_release frees; the messages of ring_repeats_say borrow
//          the sketches until the next call.
// Errors   without memory results are left out.
#ifndef TRAINER_LEASE_RING_REPEATS_H
#define TRAINER_LEASE_RING_REPEATS_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/audited.h"
#include "plan/round.h"
#include "proto/wire.h"
#include "trainer/lease/lease.h"

struct ring_repeats {
    bool on;                   // the round is audited
    uint64_t inputs;           // digest of what its gradients are computed from
    struct lease_repeat *list; // results; owned
    uint32_t count, space;
    // The slot under way.
    bool repeats; // it is another rank's
    bool finite;
    uint64_t digest; // of the buckets that are whole
    uint64_t seed;   // of the sketch
    struct sketch sketch;
};

// Begins a round, and forgets the results of the one before. `on`: the round
// is audited. `inputs`: the digest of all that its gradients depend on beside
// the slot. *r is zeroes before the first round.
void ring_repeats_begin(struct ring_repeats *r, bool on, uint64_t inputs);

// Begins slot `key` of job `job`. `repeats`: it is another rank's slot, which
// is computed only to be compared.
void ring_repeats_slot(struct ring_repeats *r, bool repeats, uint64_t job,
                       struct round_key key);

// Takes bucket number `bucket` of the slot's gradient as it is computed: `n`
// elements at `gradient`, which are those from number `first` of the vector on,
// `finite` or not. In any order, each once per slot. One that is not finite
// makes the slot's result so.
void ring_repeats_bucket(struct ring_repeats *r, uint32_t bucket,
                         uint64_t first, const float *gradient, size_t n,
                         bool finite);

// Notes the result of the slot. `kind` is equal where the same inputs give the
// same bits. Does nothing if the round is not audited, or WIRE_ROUND_MAX
// results are noted.
void ring_repeats_note(struct ring_repeats *r, struct round_key key,
                       uint64_t kind);

// Returns how many slots of a rank are audited, if it has `slots` slots in the
// round: all, up to what a message has space for.
uint32_t ring_repeats_most(uint32_t slots);

// Makes the messages of all results, a list of r->count that sl_free frees
// whole. NULL: there are none, or no memory.
Sluice__V1__Repeat **ring_repeats_say(const struct ring_repeats *r);

// Frees the results; *r is zeroes then. All zeroes is allowed.
void ring_repeats_release(struct ring_repeats *r);

#endif
