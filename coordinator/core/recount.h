// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recount.h -- what shards have counted of closures that look
// like poison: asked before a job is failed for one of them.
//
// A worker that dies takes what it knew of its last steps with it, so a closure
// that got on each time can look as if it had not. Every shard says hello once
// more (HelloWanted), and with that its whole counted set (C2). A closure of
// which more steps are counted, on every shard, than when it was looked at last
// is forgiven; poison does not get past its bad step.
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

// A closure of the job has FAILED: asks all shards, from the beginning if they
// are being asked already.
void recount_begin(struct coord *c, struct job *job);

// The shard was admitted (again), and its evidence is what it said. Once all
// have said it, the closures that FAILED are forgiven, or the job ends.
void recount_heard(struct coord *c, struct job *job, uint32_t shard);

// Now and then.
void recount_check(struct coord *c, struct job *job);

// What work is, for people.
const char *recount_name(const struct work *w, char *out, size_t size);

#endif
