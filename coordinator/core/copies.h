// SPDX-License-Identifier: Apache-2.0
// coordinator/core/copies.h -- slots of a round that two workers have
// (train.backup).
//
// A copy is a second lease of a slot, as the same attempt: so neither fences
// the other (I4), and whoever contributes second changes nothing (Y1). The
// first one's completion takes the slot from the other, which gets nothing
// until it has let go of it. A slot whose first lease ends badly is not leased
// anew while its copy is.
//
// A worker that no slot of a round is for is given a copy at once. Others may
// be wanted for the next round, so what they get a copy of is late already.
//
// Threads  the loop.
// Memory   a copy belongs to what it is a copy of; leases_settle frees it.
// Units    milliseconds.
// Errors   without memory there is no copy, and the next pass tries again.
#ifndef COORDINATOR_CORE_COPIES_H
#define COORDINATOR_CORE_COPIES_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Late: out for so many times what a contribution takes lately, and no less
// than this.
#define COPIES_LATE_TIMES 2
#define COPIES_LATE_MS 20

// The slot of the open round that has been out for longest, of those that have
// no copy; NULL: none may have one now.
struct work *copies_next(struct coord *c, const struct job *job);

// A copy to be leased; NULL: no memory.
struct work *copies_new(struct work *of);

// A slot was contributed by this lease, which has ended: if another worker has
// the slot as well, it is taken from that one. Settles both.
void copies_first(struct coord *c, struct work *w);

#endif
