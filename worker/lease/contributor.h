// SPDX-License-Identifier: Apache-2.0
// worker/lease/contributor.h -- who computes a rank's contributions.
//
// A ring lease (task_ring.h) keeps the state, sums over the ranks and applies
// the average; whose gradients those are it does not know. Ours are those of a
// model of layers (contributor_job.c), or of a program of the user's (lib).
// Nor does a member of a group (hybrid_member.h), which has no state: of these
// the last part is, and `place`, `between`, `leave` and `hurry`.
//
//   place        a state has come into place
//   per round
//     choose     our slots of it, and of the next one
//     compute    each of them: ring_round_whole bucket by bucket
//     ahead      what can be of the next round, while this one's sums travel
//     scaled     what became of the round
//     forget     what was done ahead was in vain
//   leave        the generation is over
//
// Threads  the compute thread, but for `hurry`.
// Memory   a contributor outlives the ring lease that it computes for.
// Units    slots of a round, from 0: those of this rank; elements.
// Errors   end the lease, but for SL_ECANCELED of `compute`: the generation is
//          left.
#ifndef WORKER_LEASE_CONTRIBUTOR_H
#define WORKER_LEASE_CONTRIBUTOR_H

#include "common/base/clock.h"
#include "common/plan/round.h"
#include "proto/spec.h"
#include "worker/lease/job_ring.h"

struct contributor;
struct hybrid_step;
struct ring_round;

// Those that may be NULL do nothing then.
struct contributor_ops {
    // Parameters are those of the state from now on (ring->fresh); no slot is
    // under way.
    enum sl_err (*place)(struct contributor *c, struct sl_error *err);

    // The keys of our slots of a round, and of the round behind it as far as
    // they are known: `rounds[i]` are `counts[i]`.
    enum sl_err (*choose)(struct contributor *c,
                          const struct round_key *const rounds[2],
                          const uint32_t counts[2], struct sl_error *err);

    // The gradient of a slot, into ring->grads, and its loss into the round.
    // One that is not finite need not be computed to its end (round_spoilt).
    enum sl_err (*compute)(struct contributor *c, struct ring_round *r,
                           uint32_t slot, struct sl_error *err);

    // The first r->early parameters as this round leaves them can be had
    // (round_foresee), unless it is torn or skipped: the next round's first
    // slot may be begun with them, as far as it reads no others. They are lent
    // for the call; then the round goes on, and by the next `compute` they are
    // in place. What fails here is in vain. May be NULL.
    void (*ahead)(struct contributor *c, struct ring_round *r);

    // The round was skipped: its parameters are what they were. Not NULL with
    // `ahead`.
    void (*forget)(struct contributor *c);

    // The round was finite; or a contribution of ours was not: true if what it
    // was scaled by may be why, and is less from now on. May be NULL.
    bool (*scaled)(struct contributor *c, struct ring_round *r, bool finite);

    // Which sample is why, into `out`, if one is. May be NULL.
    void (*strange)(struct contributor *c, char *out, size_t size);

    // The vector of the gradient is to be written, though no step was begun.
    // May be NULL.
    enum sl_err (*settle)(struct contributor *c, struct sl_error *err);

    // Of a state that is away: so much of the average is in the vector of the
    // gradient. NULL: no state ever is.
    enum sl_err (*averaged)(struct contributor *c, uint64_t first,
                            uint64_t count, struct sl_error *err);

    // A part of a cut is about to be written: an evaluation may come that wants
    // these parameters. May be NULL.
    void (*keep)(struct contributor *c);

    // Between rounds: what else there is to do of the job. May be NULL.
    void (*between)(struct contributor *c);

    // What was read ahead is given up.
    void (*leave)(struct contributor *c);

    // On the loop, under a lock: the generation is over, a `compute` that waits
    // for somebody is to return. May be NULL.
    void (*hurry)(struct contributor *c);

    // ---- of a group

    // The gradient of our micro-batches of a step, range by range
    // (hybrid_fresh, hybrid_whole), and its sums. SL_ECANCELED with
    // hybrid->lost: we let go of it, the generation is left.
    enum sl_err (*share)(struct contributor *c, struct hybrid_step *s,
                         struct sl_error *err);

    // A step of the group: hybrid_compute, and what belongs around it. NULL:
    // nothing does.
    enum sl_err (*step)(struct contributor *c, struct hybrid_step *s,
                        struct sl_error *err);
};

struct contributor {
    const struct contributor_ops *ops;
    const struct sl_clock *clock;
    struct job_ring *ring; // NULL: of a group
    const struct model *model;
    const struct spec_optimizer *optimizer; // clipping
    bool skip_nonfinite;
    uint32_t max_nonfinite; // rounds in a row; 0: no limit
    uint32_t *nonfinite;    // so many by now: the job's
};

#endif
