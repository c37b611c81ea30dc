// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/recount.h -- shards' counts of closures that look
// like poison: asked for before a job is failed for one of them.
//
// A worker that dies takes its knowledge of its last steps with it, so a
// closure that got on each time can look as if it had not. Every shard says
// hello once more (HelloWanted), and with that its whole counted set (C2): once
// when a closure has half of the blame that makes it poison, and once when it
// has all. If more of its steps are counted then, on every shard, it is
// forgiven; poison does not get past its bad step.
//
// Threads  the loop.
// Memory   a flag per shard. No pointer is NULL.
// Units    *_ms monotonic.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_LEASES_RECOUNT_H
#define COORDINATOR_CORE_LEASES_RECOUNT_H

#include "coordinator/core/coord_inner.h"

// Shards of a job that are asked for their counted sets and have not answered.
struct job_recount {
    uint32_t missing;
    uint64_t since_ms;
};

// The longest wait for shards that do not answer, while all are served.
#define RECOUNT_MS 10000

// Asks the shards of w's job for their counted sets, if w's new blame calls for
// it: once as it has half of what makes it poison, and once more as it has all
// and has FAILED, provided that all shards have answered the first question
// (w->judged), and raises job->changes then. A question that is under way
// begins anew. w is a training closure of a placed job, and no copy. Returns
// true if w has FAILED and what becomes of it is decided when the shards have
// answered; false if the caller decides now, also where shards were asked for a
// closure that has not FAILED.
bool recount_blamed(struct coord *c, struct work *w);

// Asks all shards of the placed job to say hello again, with their counted sets
// (one without a server answers with its next hello), and raises job->changes;
// does nothing if they are being asked already.
void recount_ask(struct coord *c, struct job *job);

// Returns true if the shard was asked and has not answered.
bool recount_waits(const struct job *job, uint32_t shard);

// Notes that the shard has answered and its evidence is what it said; does
// nothing if it was not asked. Once all have, a closure that FAILED is
// forgiven, which is journalled, if more of its steps are counted than at the
// first question; else it ends the job as FAILED.
void recount_heard(struct coord *c, struct job *job, uint32_t shard);

// Ends the wait for answers after RECOUNT_MS, with a judgement by what is
// known, which may end the job. Does nothing if no answer is missing; while the
// job is not served (job_served) the wait begins anew. Called once per tick.
void recount_check(struct coord *c, struct job *job);

// Ends the job as FAILED for the poison w, of any kind but a range, and counts
// a failed closure (figures_failed); the reason names the workers in the story
// of `of`, which is w or, if w is a copy, its original. Both may be gone then.
void recount_fail(struct coord *c, struct work *w, const struct work *of);

// Writes the name of the work with its samples, for people, into `out`, cut to
// `size` bytes, and returns `out`.
const char *recount_name(const struct work *w, char *out, size_t size);

#endif
