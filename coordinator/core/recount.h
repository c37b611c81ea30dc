// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recount.h -- what shards have counted of closures that look
// like poison: asked before a job is failed for one of them.
//
// A worker that dies takes what it knew of its last steps with it, so a closure
// that got on each time can look as if it had not. Every shard says hello once
// more (HelloWanted), and with that its whole counted set (C2): once when a
// closure has half of the blame that makes it poison, and once when it has all.
// If more of its steps are counted then, on every shard, it is forgiven; poison
// does not get past its bad step.
//
// Threads  the loop.
// Memory   a flag per shard.
// Units    *_ms monotonic.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_RECOUNT_H
#define COORDINATOR_CORE_RECOUNT_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Shards that do not answer are not waited for longer, while all are served.
#define RECOUNT_MS 10000

// The training closure has more blame than before: asks, if that is due. True:
// it has FAILED, and what becomes of it is found out.
bool recount_blamed(struct coord *c, struct work *w);

// Asks all shards what they have counted, unless they are asked already.
void recount_ask(struct coord *c, struct job *job);

// The shard is asked, and has not said it.
bool recount_waits(const struct job *job, uint32_t shard);

// The evidence of the shard is what it said. Once all have said it, closures
// that FAILED are forgiven, or the job ends.
void recount_heard(struct coord *c, struct job *job, uint32_t shard);

// Now and then.
void recount_check(struct coord *c, struct job *job);

// The job ends with this poison; `of`: whose story is told.
void recount_fail(struct coord *c, struct work *w, const struct work *of);

// What work is, for people.
const char *recount_name(const struct work *w, char *out, size_t size);

#endif
