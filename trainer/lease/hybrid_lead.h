// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_lead.h -- the steps of a training lease, computed by a
// group that its holder leads.
//
// Threads  the compute thread; both wait for other members.
// Errors   SYNC_AGAIN: the group did not get to the end of the step, and the
//          generation was left (hybrid_broken): the step is computed again with
//          the next one. SYNC_STOPPED: a gate, or `parted`.
#ifndef TRAINER_LEASE_HYBRID_LEAD_H
#define TRAINER_LEASE_HYBRID_LEAD_H

#include "trainer/lease/hybrid_step.h"
#include "trainer/lease/steps.h"

// Waits until the group runs and this worker leads it: SYNC_OK. SYNC_STOPPED if
// the gate of the training lease l closes, as a drain makes it here; or if this
// worker cannot lead any more, as it follows, has failed, or its ring lease
// ends: then *parted is true. *parted is set in any case. `h` has a ring lease
// (hybrid_enter), whose news it takes (hybrid_look).
enum sync_result hybrid_meet(struct hybrid *h, struct lease *l,
                             const struct sl_clock *clock, bool *parted);

// Prepares the step that the driver `t` is at, for a leader that computes once
// all parameters are there: waits for the group (hybrid_meet) and for fresh
// parameters, and sets *s for hybrid_lead, with the contributor `by`. *s
// borrows all of them. SYNC_OK; else the result of hybrid_meet or
// steps_fresh_wait, with *s undefined.
enum sync_result hybrid_lead_begin(struct hybrid_step *s, struct hybrid *h,
                                   struct contributor *by, struct steps *t,
                                   bool *parted);

// Announces and computes a step of which the leader has all parameters. A
// result of sync_rows, of the step's rows: the group has let go of the step.
// SYNC_OK: the gradient in the vector, and s->sums, are the whole group's.
// *err, which is not NULL, is set for SYNC_FAILED: then the group goes on
// without this worker; its ring lease is to be ended (hybrid_fail). Called
// after hybrid_meet returned SYNC_OK; the caller has set s->head. With
// SYNC_AGAIN *err is empty again.
enum sync_result hybrid_lead(struct hybrid_step *s, struct sl_error *err);

#endif
