// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/ring_rows.h -- the shards beside a ring: they have the
// rows of the job's tables, on psservers, and its ranks have the rest.
//
//   a generation is opened -> all ranks answered -> HelloWanted to each shard
//   -> all said hello: the base is chosen (ring_rows_fit) -> Admit with the
//   base; or, if that is a file, Refuse with the cut, hello, Admit
//   -> the ring runs; a round is counted -> CloseRound to each shard
//
// A hello from a process or stream that the generation has not seen makes
// another generation due (R9).
//
// Threads  the loop.
// Memory   as job.h. No pointer is NULL. In a job without tables there are no
//          such shards: then ring_rows_known and ring_rows_fit return true,
//          ring_rows_due and ring_rows_waits false, and all do nothing.
// Errors   none is returned. The journal is only read, as a shard is admitted
//          (send_admit): if that fails, c is dead.
#ifndef COORDINATOR_CORE_MODES_RING_ROWS_H
#define COORDINATOR_CORE_MODES_RING_ROWS_H

#include "coordinator/core/coord_inner.h"
#include "proto/wire.h"

struct job;

// Takes the hello of a shard, which the caller has put into job_shard.waiting:
// while a generation is opened only notes that it came. Afterwards settles the
// shard, and frees the hello, if the shard was to load the base's file; else
// makes another generation due.
void ring_rows_hello(struct coord *c, struct job *job, uint32_t shard);

// Begins a generation: no shard is admitted to it, or was asked.
void ring_rows_opened(struct job *job);

// Asks each shard of which no hello waits, or only one of a live memory that
// came before all ranks had answered, what it has: once in a generation. To be
// called when all ranks have answered. Returns true if all shards have said it.
// Drops a hello that waits from a psserver that has gone.
bool ring_rows_known(struct coord *c, struct job *job);

// Returns true if every shard has `base`, the highest state of a rank, or can
// make it of what it holds: then it may be the base of the generation. To be
// called right after ring_rows_known has returned true.
bool ring_rows_fit(const struct job *job, struct wire_tag base);

// Admits the shards that have the base which ring_choose has chosen
// (shards_settle), and has the others load the cut; frees their hellos. Passes
// over shards that are settled.
void ring_rows_settle(struct coord *c, struct job *job);

// Tells the shards that the round which was counted last, and begins with
// `closure`, is decided (R8).
void ring_rows_decide(struct coord *c, struct job *job, uint64_t closure);

// Returns true if a shard came anew that the present generation does not have.
bool ring_rows_due(const struct job *job);

// Writes which shard a generation waits for. Returns false, with `out` as it
// was, if none. `out` has `size` bytes.
bool ring_rows_waits(const struct coord *c, const struct job *job, char *out,
                     size_t size);

#endif
