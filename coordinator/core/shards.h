// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards.h -- shards of a job: hellos, admission, the map.
//
// On a ShardHello: K5; live and newest: renew; else K7, commit the incarnation
// (I1), Admit, evidence := what the hello has counted (C2), void the shard's
// unpublished report; closures are then issued again by C3.
//
// Threads  the loop.
// Memory   a hello that waits for a manifest is the shard's.
// Errors   A journal that is behind what a shard shows (I7) is fatal.
#ifndef COORDINATOR_CORE_SHARDS_H
#define COORDINATOR_CORE_SHARDS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Returns the job if advance_job has to look at it, else NULL.
struct job *shards_hello(struct coord *c, struct member *m,
                         const Sluice__V1__ShardHello *hello);

void shards_report(struct coord *c, struct member *m,
                   const Sluice__V1__ShardReport *report);

// K5 is over: answers the hellos that waited.
void shards_retry(struct coord *c, struct job *job);

// The psserver is silent or gone: nobody serves its shards. `lost`: for good.
void shards_down(struct coord *c, struct member *m, bool lost);

// It was only slow: its memory is what it was.
void shards_back(struct coord *c, struct member *m);

// All changes of the map since the last time leave as one message per worker.
void shards_flush_map(struct coord *c, struct job *job);

#endif
