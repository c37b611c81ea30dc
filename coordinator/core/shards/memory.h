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
// A replica needs what its shard does. A psserver that is killed for its
// replicas is named in the warning; the job goes on without it, so that is no
// loss for nothing.
//
// Threads  the loop.
// Memory   what is passed is borrowed for the call. No pointer is NULL.
// Units    bytes; MiB in texts, rounded up.
// Errors   without memory a text is shorter. A journal that cannot be written
//          is fatal in memory_came.
#ifndef COORDINATOR_CORE_SHARDS_MEMORY_H
#define COORDINATOR_CORE_SHARDS_MEMORY_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

#define MEMORY_LOSSES 3

// Appends to `out`, the reason why w failed, that its workers may have been
// killed for want of memory, how much the job needs, and where to look. Appends
// nothing unless each attempt ended with a worker that was lost without a word.
void memory_vanished(struct buf *out, const struct work *w);

// Compares the needs of a job that was just placed with the memory of its
// psservers: the first that has too little is named in a warning and an event;
// the warning is removed if none has. A psserver that has not said its memory
// has enough. Begins to count losses of these psservers anew. Without memory
// does nothing.
void memory_placed(struct coord *c, struct job *job);

// Compares the needs of a job whose replicas are on other psservers than before
// with their memory, and warns as memory_placed does. Without memory does
// nothing.
void memory_replicas(struct coord *c, struct job *job);

// Counts, for each job with shards on psserver m, which was just attached, that
// an earlier process of m was lost, if it was another one; not for a job that
// is held or paused by I7. If there were MEMORY_LOSSES of them for nothing,
// holds the job that needs most of m (pause_hold), with an event, provided that
// m has said its memory and all shards there need more than a fourth of it; and
// forgets the losses of all jobs on m in any case. Renews the warnings of jobs
// with shards or replicas on m. Without memory does nothing.
void memory_came(struct coord *c, const struct member *m);

// Forgets the losses of psserver m, which has left in order.
void memory_left(struct coord *c, const struct member *m);

// Returns true if the coordinator holds the job for want of memory: no shard of
// it is placed then.
bool memory_holds(const struct job *job);

// Forgets the losses of all the job's psservers, as a client sets it going
// again.
void memory_resumed(struct job *job);

#endif
