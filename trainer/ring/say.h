// SPDX-License-Identifier: Apache-2.0
// trainer/ring/say.h -- a rank's messages to the coordinator. Each say_X makes
// the message RingX (docs/protocol.md).
//
// Threads  any.
// Memory   each returns a message on the heap (wire_free(&up->base)), or NULL
//          without memory; it keeps nothing of its arguments. Pointers are not
//          NULL, but for those beside a RingStep.
// Errors   none but that.
#ifndef TRAINER_RING_SAY_H
#define TRAINER_RING_SAY_H

#include "state/snap/snap.h"
#include "trainer/ring/rank.h"
#include "trainer/ring/seat.h"

#define RING_NO_SUSPECT UINT32_MAX

struct say_job {
    uint64_t job, job_incarnation;
};

// Asks to join the ring of a lease.
Sluice__V1__AttendUp *say_join(struct say_job j, struct wire_attempt attempt,
                               const struct ring_env *env);
// Answers that a generation was opened, with the tag of our state. One without
// a state has (0, 0).
Sluice__V1__AttendUp *say_answer(struct say_job j, uint64_t generation,
                                 const struct rank *r);
// Tells that the base is in place, with all that it has counted. `r` has a
// state, here and in say_step.
Sluice__V1__AttendUp *say_ready(struct say_job j, const struct rank *r);
// Makes a RingReady of a ring that has no state on its ranks.
Sluice__V1__AttendUp *say_ready_bare(struct say_job j, uint64_t generation);
// Says that our copy is level with that generation, or that there is no use in
// waiting for it.
Sluice__V1__AttendUp *say_copied(struct say_job j, uint64_t generation,
                                 struct wire_tag tag);
// What a RingStep tells beside the state's counts; NULL and 0: nothing.
struct say_beside {
    Sluice__V1__StepMetrics *metrics;
    Sluice__V1__Repeat **repeats; // results of an audited round
    size_t repeats_count;
};

// Reports a round that was applied.
Sluice__V1__AttendUp *say_step(struct say_job j, const struct rank *r,
                               struct say_beside beside);
// Tells what a member of a group computed of shares of an audited step: `n`
// results.
Sluice__V1__AttendUp *say_shares(struct say_job j, uint64_t generation,
                                 Sluice__V1__Repeat **repeats, size_t n);
// Says whether the coordinator is to hear (say_broken) that a rank left a
// generation because of `why`, an error. It knows already where no rank is
// suspected (RING_NO_SUSPECT) and another one has left first or the next
// generation was opened (SL_ESTALE), or this rank's own lease or generation
// ends (SL_ECANCELED), as that of one that drains. Any other error is this
// rank's own trouble.
bool say_is_broken(uint32_t suspect, enum sl_err why);
// Tells that we left a generation, and which rank is suspected, or
// RING_NO_SUSPECT.
Sluice__V1__AttendUp *say_broken(struct say_job j, uint64_t generation,
                                 uint32_t suspect, const char *why);

// Reports the file of a part that was written for request `r`, in `folder`.
Sluice__V1__AttendUp *say_snapshot(struct say_job j,
                                   const struct seat_request *r,
                                   const struct snap_written *w,
                                   const char *folder);
// Reports why there is no file for request `r`; `at` is the state's tag.
Sluice__V1__AttendUp *say_no_snapshot(struct say_job j,
                                      const struct seat_request *r,
                                      struct wire_tag at, const char *why);

#endif
