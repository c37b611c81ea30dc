// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shards.h -- shards of a job: hellos, admission, the
// map.
//
// On a ShardHello: K5; live and newest: renew; else K7, commit the incarnation
// (I1), Admit, evidence := what the hello has counted (C2), void the shard's
// unpublished report; closures are then issued again by C3.
//
// Threads  the loop.
// Memory   a hello that waits for a manifest is copied, for the shard. Messages
//          are borrowed for the call.
// Errors   A number above the journal pauses its job (I7): behind.h. A journal
//          that cannot be written is fatal. No pointer is NULL.
#ifndef COORDINATOR_CORE_SHARDS_SHARDS_H
#define COORDINATOR_CORE_SHARDS_SHARDS_H

#include "coordinator/core/coord_inner.h"

// The version of a job's map.
struct job_map {
    uint64_t version;
    bool changed; // workers were not sent the last change
};

// Judges the hello of a shard of any job, also of one that is unknown: admits
// it, lets it wait, or sends it back. Returns the job if advance_job has to
// look at it, else NULL.
struct job *shards_hello(struct coord *c, struct member *m,
                         const Sluice__V1__ShardHello *hello);

// Takes a shard's report of its counts, of a live or an ended job; ignores one
// that is not of the shard's newest incarnation, or not from its psserver.
void shards_report(struct coord *c, struct member *m,
                   const Sluice__V1__ShardReport *report);

// Answers the hellos that waited for a manifest: K5 is over.
void shards_retry(struct coord *c, struct job *job);

// Notes that the shards of a psserver that is silent or gone are not served.
// `lost`: for good.
void shards_down(struct coord *c, struct member *m, bool lost);

// Notes that a psserver was only slow and serves its shards again, with the
// memory that it had.
void shards_back(struct coord *c, struct member *m);

// Sends all changes of the map since the last time, as one message per worker:
// at once if every shard is served, else with the tick.
void shards_flush_map(struct coord *c, struct job *job, bool tick);

// Answers a worker that has this version of the map.
void shards_send_map(struct coord *c, const struct member *m, struct job *job,
                     uint64_t have);

#endif
