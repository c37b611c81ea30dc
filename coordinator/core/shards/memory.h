// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/memory.h -- the memory that a job needs of its
// members, and members that their kernel may have killed for want of it: such a
// kill leaves no word, so the texts made here are all that people learn of it.
//
// A psserver that the kernel kills as soon as it has a job's shards would be
// started, given them and killed for ever. So after MEMORY_LOSSES processes in
// a row that were lost for nothing, the job that needs most of it is held: a
// pause of the coordinator's own, in which no lost shard is placed, until a
// client sets the job going again. "For nothing" means: if the shards cannot
// fit, that no checkpoint was made in between, for a snapshot uses most memory;
// if they need a good part of the memory, that no step was. If they need less,
// something else ends the psserver.
//
// Threads  the loop.
// Memory   what is passed is borrowed for the call.
// Units    bytes; MiB in texts, rounded up.
// Errors   without memory a text is shorter.
#ifndef COORDINATOR_CORE_SHARDS_MEMORY_H
#define COORDINATOR_CORE_SHARDS_MEMORY_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

#define MEMORY_LOSSES 3

// Appends to `out`, the reason why a work failed, that its workers may have
// been killed for want of memory, how much the job needs and where to look.
// Appends nothing if any attempt ended otherwise than by a lost worker.
void memory_vanished(struct buf *out, const struct work *w);

// Looks at the psservers of a job that was placed, and names the first that has
// too little memory for its shards in a warning and an event; removes the
// warning if none has. A psserver whose memory is not known has enough. Counts
// their losses for the job anew.
void memory_placed(struct coord *c, struct job *job);

// Counts, as a psserver comes (it is attached), that an earlier process of it
// was lost, and may hold a job for it. Without memory counts nothing.
void memory_came(struct coord *c, const struct member *m);

// Notes that a psserver has gone in order, which is no loss.
void memory_left(struct coord *c, const struct member *m);

// Says whether the job is held for want of memory. Then no shard of it is
// placed.
bool memory_holds(const struct job *job);

// Forgets the losses of a job that goes on.
void memory_resumed(struct job *job);

#endif
