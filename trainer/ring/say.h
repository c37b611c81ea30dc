// SPDX-License-Identifier: Apache-2.0
// trainer/ring/say.h -- a rank's messages to the coordinator. Each say_X makes
// the message RingX (docs/protocol.md). A state's tag is (generation, rounds
// that it has had).
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

// Makes a RingJoin: asks to join the ring of a lease, the attempt of which is
// `attempt`.
Sluice__V1__AttendUp *say_join(struct say_job j, struct wire_attempt attempt,
                               const struct ring_env *env);
// Makes a RingAnswer to the opening of `generation`, with the tag of r's state;
// (0, 0) if it has none.
Sluice__V1__AttendUp *say_answer(struct say_job j, uint64_t generation,
                                 const struct rank *r);
// Makes a RingReady: the base is in place, with all that it has counted. `r`
// has a state, here and in say_step.
Sluice__V1__AttendUp *say_ready(struct say_job j, const struct rank *r);
// Makes a RingReady of a ring that has no state on its ranks.
Sluice__V1__AttendUp *say_ready_bare(struct say_job j, uint64_t generation);
// Makes a RingCopied: our copy, with this tag, is level with that generation,
// or will not get nearer to it.
Sluice__V1__AttendUp *say_copied(struct say_job j, uint64_t generation,
                                 struct wire_tag tag);
// What a RingStep tells beside the state's counts; NULL and 0: nothing.
struct say_beside {
    Sluice__V1__StepMetrics *metrics;
    Sluice__V1__Repeat **repeats; // results of an audited round
    size_t repeats_count;
};

// Makes a RingStep: a round was applied. It tells the counts of r's state, but
// for those by epoch.
Sluice__V1__AttendUp *say_step(struct say_job j, const struct rank *r,
                               struct say_beside beside);
// Makes a RingStep with what a member of a group computed of shares of an
// audited step: `n` results, which are copied.
Sluice__V1__AttendUp *say_shares(struct say_job j, uint64_t generation,
                                 Sluice__V1__Repeat **repeats, size_t n);
// Returns true if the coordinator has to be told (say_broken) that this rank
// left a generation for the error `why`. False if no rank is suspected
// (RING_NO_SUSPECT) and the coordinator knows already: another rank has left
// first, or the next generation was opened (SL_ESTALE); or this rank's lease or
// generation ends, or it drains (SL_ECANCELED).
bool say_is_broken(uint32_t suspect, enum sl_err why);
// Makes a RingBroken: we left `generation` for the reason `why`, and suspect a
// rank (its index), or RING_NO_SUSPECT.
Sluice__V1__AttendUp *say_broken(struct say_job j, uint64_t generation,
                                 uint32_t suspect, const char *why);

// Makes a SnapshotReport of the file *w in `folder`, written for request `r`.
Sluice__V1__AttendUp *say_snapshot(struct say_job j,
                                   const struct seat_request *r,
                                   const struct snap_written *w,
                                   const char *folder);
// Makes a SnapshotReport that says why there is no file for request `r`; `at`
// is the state's tag.
Sluice__V1__AttendUp *say_no_snapshot(struct say_job j,
                                      const struct seat_request *r,
                                      struct wire_tag at, const char *why);

#endif
