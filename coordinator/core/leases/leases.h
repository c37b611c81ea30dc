// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/leases.h -- closures in work: the holder and the
// attempt of each.
//
// A worker's leases are listed by it, oldest first, and counted by their job. A
// lease that begins or ends raises job->changes. closure.h decides what became
// of an attempt; here the holder and the lease part.
//
// Threads  the loop.
// Memory   the struct of a training closure, or of a place, is the job's while
//          it is leased or *remembered*: WAITING, after an attempt that ended
//          undone, or with blame, suspicions or hand-backs. A pointer to
//          another one is gone after leases_settle and what calls it
//          (leases_revoke, leases_take_back). Texts are borrowed for the call.
//          No pointer is NULL.
// Errors   without memory nothing is leased, and the next pass tries again.
//          leases_settle, and what calls it, may write the journal; a failure
//          is fatal (c->dead).
#ifndef COORDINATOR_CORE_LEASES_LEASES_H
#define COORDINATOR_CORE_LEASES_LEASES_H

#include "common/base/map.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/feed/traces.h"
#include "coordinator/rules/work.h"

// A job's closures in work, and the workers that hold them.
struct job_leases {
    struct work probe;  // the first look at its data
    struct map active;  // closure or place -> struct work: leased, remembered
    uint32_t held;      // leases
    struct map holders; // member -> leases it holds, as a number
    uint64_t end;       // the closure behind the highest leased one
    // Its `served` number of dispatch.h, and the worker that it was served last
    // by; 0: none.
    uint64_t served;
    uint64_t served_by;
    uint64_t freed; // rises when a closure may be issued again
};

// Returns the struct of a training closure, or of a place, that is leased or
// remembered (see Memory); makes one, WAITING and of kind WORK_TRAIN, if there
// is none. A new one must be leased next, or given to leases_settle. NULL: no
// memory.
struct work *leases_work(struct job *job, uint64_t closure);

// Returns the struct of a training closure, or of a place in a ring or group,
// that is leased or remembered; NULL: it is neither.
struct work *leases_get(const struct job *job, uint64_t closure);

// Returns true if w is a worker's place in a group of a hybrid job, which it
// keeps while it computes closures.
bool leases_is_place(const struct work *w);

// Leases w to worker m as a new attempt, a copy as its original's; sends it
// JobOpen first if it does not have the job, or has it from before it was
// placed. send_leases sends the lease itself. The caller has checked that m is
// ready, may hold one more and suits the job, and sets w->norm_most and
// w->closures afterwards; a training closure is of a placed job, and if an
// attempt of it was begun before, counts as retried, with an event. Returns
// true; false if memory is short or w is not WAITING: then w is not leased, but
// JobOpen may be sent and a place in a group taken; the caller gives w to
// leases_settle.
bool leases_give(struct coord *c, struct member *m, struct work *w);

// Returns the lease of this attempt of job `job` that the member holds; NULL:
// it holds none.
struct work *leases_find(struct member *m, uint64_t job,
                         const Sluice__V1__Attempt *attempt);

// Takes w from its holder, which it must have, and that out of the place in the
// ring or group that w is (mode.h, `rise`); adds the span of its attempt, that
// ended as `how`, to the history. Sends nothing. The caller sets the closure's
// state, best before this call: a closure that is not DONE counts as free to be
// leased again. w stays, for leases_settle.
void leases_end(struct coord *c, struct work *w, enum lease_span_end how);

// Returns true if w is a training closure of a round that comes after the open
// one, in a mode with rounds (mode.by_round): its worker has nothing to compute
// before that round is open.
bool leases_is_early(const struct work *w);

// Takes the lease w of m back without blame, as one that may have been begun,
// sends the worker a Revoke that says `why`, and adds an event unless the job
// rests. A copy is freed. w may be gone then.
void leases_revoke(struct coord *c, struct member *m, struct work *w,
                   const char *why);

// Returns the job, of any mode, that the worker holds a ring lease of, which
// may be a place in a group; NULL: it holds none.
struct job *leases_ring_job(const struct member *m);

// Takes the lease w of m back as leases_revoke does, but counts it as not
// begun, since it waits behind another lease.
void leases_take_back(struct coord *c, struct member *m, struct work *w,
                      const char *why);

// Takes from worker m all leases of a job that ends: their closures become
// CANCELED, and stay until job_release_work. Sends nothing: end_job does.
void leases_cancel(struct coord *c, struct member *m, struct job *job);

// Frees what is not needed any more of w; nothing while w is leased. A copy is
// freed, and so is a training closure or place that is neither leased nor
// remembered and has no copy: if it is DONE, its blame is removed from the
// journal. A range of the running evaluation waits to be leased again, or is
// freed if its result is taken. A probe stays. Afterwards w may be gone, and
// the closure that it is a copy of.
void leases_settle(struct coord *c, struct work *w);

// Takes from worker m all leases of the job, each as leases_revoke does: their
// works may be gone then. Does nothing if it holds none.
void leases_revoke_job(struct coord *c, struct member *m, struct job *job,
                       const char *why);

#endif
