// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/copies.h -- slots of a round that two workers have
// (train.backup).
//
// A slot is one closure of a round, which becomes one contribution to it.
// A copy is a second lease of a slot, as the same attempt: so neither fences
// the other (I4), and the second contribution changes nothing (Y1). The first
// completion takes the slot from the other worker, which gets nothing until it
// has let go of it. If the first lease of a slot ends badly, the slot is not
// leased anew while its copy is.
//
// A worker that no slot of a round is left for is given a copy at once. Others
// may be wanted for the next round, so they are given copies of late slots
// alone.
//
// Threads  the loop.
// Memory   a copy belongs to its original; leases_settle frees it. An original
//          is the job's. No pointer may be NULL.
// Units    milliseconds.
// Errors   without memory there is no copy, and the next pass tries again.
//          copies_first may write the journal (leases_settle); a failure is
//          fatal (c->dead).
#ifndef COORDINATOR_CORE_MODES_COPIES_H
#define COORDINATOR_CORE_MODES_COPIES_H

#include "coordinator/core/coord_inner.h"

struct work;

// Copies of a job's slots, in mode sync.
struct job_copies {
    uint32_t leased;
    double slot_ms; // recent time of a contribution; 0: not known
};

// A slot is late once it is out for this many times what a contribution takes
// lately, and for no less than COPIES_LATE_MS.
#define COPIES_LATE_TIMES 2
#define COPIES_LATE_MS 20

// Returns the slot of the open round of a placed job that should have a copy:
// the one that has been out for longest, has no copy and is not contributed
// yet. NULL: there is no such slot; or as many copies are leased as
// train.backup allows (0 outside mode sync); or the slot is not late, and the
// cluster has no worker beyond those that the slots of a round and the copies
// take.
struct work *copies_next(struct coord *c, const struct job *job);

// Makes a copy of the work `of`, which must be LEASED (asserted) and have no
// copy yet, and returns it; `of` owns it, and it counts in job->copies.leased
// from now on. The caller leases it to another worker, or gives it to
// leases_settle. NULL: no memory.
struct work *copies_new(struct work *of);

// Settles a slot after its lease w contributed and ended (w is DONE, and has no
// holder), and notes how long it took. If another worker has the slot as well,
// that lease ends too: the worker is sent a Revoke, without blame, and gets no
// lease until it has answered, or MEMBER_DEBT_MS have passed. An original that
// waits is DONE by its copy. w and its copy or original may be gone then
// (leases_settle).
void copies_first(struct coord *c, struct work *w);

#endif
