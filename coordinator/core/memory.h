// SPDX-License-Identifier: Apache-2.0
// coordinator/core/memory.h -- what a job needs of its members' memory, and
// members that their kernel may have killed for want of it: such a kill leaves
// no word, so what is known here is all that people learn of it.
//
// A psserver that the kernel kills as soon as it has a job's shards would be
// started, given them and killed for ever. So after MEMORY_LOSSES processes in
// a row that were lost for nothing, the job that needs most of it is held: a
// pause of the coordinator's own, in which no lost shard is placed, until a
// client sets the job going again. For nothing means without a checkpoint
// between where the shards cannot fit, for it is in the snapshot that most
// memory is used; without a step where they need a good part of what there is.
// Where they need less, something else ends the psserver.
//
// Threads  the loop.
// Units    bytes; MiB in texts, rounded up.
// Errors   without memory a text is shorter.
#ifndef COORDINATOR_CORE_MEMORY_H
#define COORDINATOR_CORE_MEMORY_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

#define MEMORY_LOSSES 3

// Appends, to why a work failed, that its workers may have been killed for want
// of memory, what the job needs of theirs and where to look. Appends nothing if
// any attempt ended otherwise than by a lost worker.
void memory_vanished(struct buf *out, const struct work *w);

// A job has been placed: its psservers are looked at, and who cannot have its
// shards is told in a warning and an event.
void memory_placed(struct coord *c, struct job *job);

// A psserver has come: counts that an earlier process of it was lost, and may
// hold a job for it.
void memory_came(struct coord *c, const struct member *m);

// A psserver has gone in order, which is no loss.
void memory_left(struct coord *c, const struct member *m);

// Is the job held for want of memory? Then no shard of it is placed.
bool memory_holds(const struct job *job);

// Forgets the losses of a job that goes on.
void memory_resumed(struct job *job);

#endif
