// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases.h -- closures in work: who has which, as which
// attempt.
//
// A worker's leases are listed by it, oldest first, and counted by their job.
// What became of an attempt is closure.h's matter; here the holder and the
// lease part.
//
// Threads  the loop.
// Memory   a training closure's struct is the job's, while it is leased or
//          carries blame.
// Errors   without memory nothing is leased, and the next pass tries again.
#ifndef COORDINATOR_CORE_LEASES_H
#define COORDINATOR_CORE_LEASES_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/feed/traces.h"

// Returns the closure that is leased, or remembered for its blame; makes it if
// there is none. NULL: no memory.
struct work *leases_work(struct job *job, uint64_t closure);

// Returns it, or NULL: neither leased nor remembered.
struct work *leases_get(const struct job *job, uint64_t closure);

// It is a worker's place in a group of a hybrid job, within which it holds
// whatever it computes.
bool leases_is_place(const struct work *w);

// Leases it as a new attempt, after JobOpen; send_leases sends it.
bool leases_give(struct coord *c, struct member *m, struct work *w);

// Finds the lease of this attempt that the member holds; NULL: there is none.
struct work *leases_find(struct member *m, uint64_t job,
                         const Sluice__V1__Attempt *attempt);

// Takes one lease away, for people as one that ended so: closure and holder no
// longer know each other.
void leases_end(struct coord *c, struct work *w, enum lease_span_end how);

// Sync: it is of a round behind the open one. Its worker has nothing to compute
// before that is open.
bool leases_is_early(const struct work *w);

// Sync: takes back what is of a later round than the open one, if a slot of
// that is nobody's: who waits for the round could be the one to make it (Y4).
void leases_revoke_early(struct coord *c, struct job *job);

// Takes a lease back; nobody is blamed. A copy is freed.
void leases_revoke(struct coord *c, struct member *m, struct work *w,
                   const char *why);

// As above, what waits behind another one: it is not run twice for that.
void leases_take_back(struct coord *c, struct member *m, struct work *w,
                      const char *why);

// Takes from a worker all that it has of a job that ends.
void leases_cancel(struct coord *c, struct member *m, struct job *job);

// Frees a training closure that needs no memory any more: a copy whose lease
// has ended, one that is over and has no copy. A range of an evaluation waits
// to be leased again, or is freed with its result taken.
void leases_settle(struct coord *c, struct work *w);

// Takes from a worker all that it has of the job, without blame.
void leases_revoke_job(struct coord *c, struct member *m, struct job *job,
                       const char *why);

#endif
