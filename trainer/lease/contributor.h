// SPDX-License-Identifier: Apache-2.0
// trainer/lease/contributor.h -- the calls that compute a rank's contributions.
//
// A ring lease (task_ring.h) keeps the state, sums over the ranks and applies
// the average, and does not know where gradients come from: from a model of
// layers (contributor_job.c), or from a program of the user's (lib). A member
// of a group (hybrid_member.h) has no state and does not know either; it uses
// the last part of the calls, and `place`, `between`, `leave` and `hurry`. In
// an audited round (A1) slots of other ranks are computed as well, so that the
// coordinator can compare the results of several ranks.
//
//   place        a state has come into place
//   per round
//     choose     our slots of the round, and of the next round
//     inputs     whether an audited round can be audited here
//     repeat     the gradient of one slot of another rank, likewise
//     compute    the gradient of one slot: round_whole bucket by bucket
//     ahead      begin the next round, while the sums of this one travel
//     scaled     whether the round was finite
//     forget     what was done ahead was in vain
//   leave        the generation is over
//
// Threads  the compute thread, but for `hurry`.
// Memory   a contributor outlives the ring lease that it computes for. What a
//          call is given is borrowed for the call.
// Units    slots of a round, from 0: those of this rank; elements.
// Errors   end the lease, but for SL_ECANCELED of `choose`, `compute`, `pass`
//          and `settle`, and those of `place` where another rank holds the base
//          (but SL_ENOMEM and SL_ELOST): then the generation is left. In a
//          group: as said there. `err` is not NULL.
#ifndef TRAINER_LEASE_CONTRIBUTOR_H
#define TRAINER_LEASE_CONTRIBUTOR_H

#include "common/base/clock.h"
#include "plan/round.h"
#include "proto/spec.h"
#include "trainer/base/nonfinite.h"
#include "trainer/lease/job_ring.h"

struct contributor;
struct hybrid_step;
struct ring_round;

// A call that may be NULL is then left out.
struct contributor_ops {
    // Takes the parameters of the state that came into place (ring->fresh). No
    // slot is under way. NULL for a member of a group only.
    enum sl_err (*place)(struct contributor *c, struct sl_error *err);

    // Takes the keys of our slots of a round, and of the round behind it as far
    // as they are known: `rounds[i]` has `counts[i]` keys.
    enum sl_err (*choose)(struct contributor *c,
                          const struct round_key *const rounds[2],
                          const uint32_t counts[2], struct sl_error *err);

    // Writes the gradient of a slot into ring->grads and its loss into the
    // round. A gradient that is not finite need not be computed to its end
    // (round_spoilt). In an audited round round_result follows.
    enum sl_err (*compute)(struct contributor *c, struct ring_round *r,
                           uint32_t slot, struct sl_error *err);

    // Gives up a slot that is not computed, as the round is in vain. NULL:
    // nobody else waits for it.
    enum sl_err (*pass)(struct contributor *c, struct ring_round *r,
                        uint32_t slot, struct sl_error *err);

    // Sets *inputs to a digest of the parameters, and of what else gradients of
    // all slots depend on (A1). Returns false if right ones differ between
    // hosts of one kind. NULL: nothing is known of that, and no round is
    // audited; so where the gradients are a program's.
    bool (*inputs)(struct contributor *c, uint64_t *inputs);

    // Computes, in an audited round, the gradient of a slot of another rank
    // likewise; nothing becomes of it but its result (round_result). Before
    // this rank's own slots. A failure leaves the result out. Not NULL if
    // `inputs` is not.
    enum sl_err (*repeat)(struct contributor *c, struct ring_round *r,
                          const struct round_key *key, struct sl_error *err);

    // Begins the first slot of the next round, as far as the first r->early
    // parameters are enough for it: round_foresee has these as this round
    // leaves them, unless it is torn or skipped, lent for the call. By the next
    // `compute` they are in place. What fails here is in vain. May be NULL.
    void (*ahead)(struct contributor *c, struct ring_round *r);

    // Gives up what `ahead` did, if anything: the round was skipped, its
    // parameters are what they were; or an audited round needs the memory. Not
    // NULL if `ahead` is not.
    void (*forget)(struct contributor *c);

    // Takes whether the round was finite, and adjusts the loss scale; not
    // called for a round of which only others' contributions were not. Returns
    // true if one of our contributions was not and the job need not judge that:
    // the scale may be why, and it is smaller from now on; or a program left
    // the step out. May be NULL.
    bool (*scaled)(struct contributor *c, struct ring_round *r, bool finite);

    // Names in `out` the sample that is not finite, if it finds one. May be
    // NULL.
    void (*strange)(struct contributor *c, char *out, size_t size);

    // Makes the vector of the gradient free to be written, though no step was
    // begun. May be NULL.
    enum sl_err (*settle)(struct contributor *c, struct sl_error *err);

    // Sends elements [first, first + count) of the average, which are in the
    // vector of the gradient, to the state's device. NULL: no state ever is on
    // a device.
    enum sl_err (*averaged)(struct contributor *c, uint64_t first,
                            uint64_t count, struct sl_error *err);

    // Keeps the parameters for an evaluation that may come: a part of a cut is
    // about to be written. May be NULL.
    void (*keep)(struct contributor *c);

    // Runs, between two rounds, the job's leases that wait (evaluations,
    // training leases of a leader). Also while the member waits for a
    // generation, before any state is in place. May be NULL.
    void (*between)(struct contributor *c);

    // Gives up the samples that were read ahead. Also called before the first
    // `place`, and twice in a row. NULL for a member of a group only.
    void (*leave)(struct contributor *c);

    // Makes a `compute` that waits for another process return: the generation
    // is over. Called under a lock, on the loop, or on the compute thread if
    // the generation is over when it is joined. May be NULL.
    void (*hurry)(struct contributor *c);

    // ---- calls of a group's member

    // Computes the gradient of our micro-batches of a step, range by range
    // (hybrid_fresh, hybrid_whole), and its sums. SL_ECANCELED with
    // hybrid->lost: the contributor let go of the generation, which is left.
    enum sl_err (*share)(struct contributor *c, struct hybrid_step *s,
                         struct sl_error *err);

    // Runs a step of the group: hybrid_compute and what belongs around it.
    // NULL: hybrid_compute alone.
    enum sl_err (*step)(struct contributor *c, struct hybrid_step *s,
                        struct sl_error *err);
};

struct contributor {
    const struct contributor_ops *ops;
    // Rows of tables go to psservers: the last bucket of our sum waits for the
    // end of the last `compute`, and reports wait for nothing.
    bool beside;
    const struct sl_clock *clock;
    struct job_ring *ring; // NULL for a member of a group
    const struct model *model;
    const struct spec_optimizer *optimizer; // the clipping is read from it
    struct nonfinite *nonfinite;            // the job's; it judges rounds
};

#endif
