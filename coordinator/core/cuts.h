// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts.h -- the cut that a job makes: when, and from which
// snapshots.
//
//   cuts_check: due -> SnapshotRequest to every shard
//   cuts_report: one by one; publishable (K4)? -> publish.h
//
// Threads  the loop.
// Memory   job->cut, while one is made.
// Units    *_ms monotonic.
// Errors   A cut that does not come about is given up and tried again.
#ifndef COORDINATOR_CORE_CUTS_H
#define COORDINATOR_CORE_CUTS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Begins a cut that is due, publishes one that can be, gives up a late one.
void cuts_check(struct coord *c, struct job *job);

// There is something that a cut would save, and shards that can be asked for
// it.
bool cuts_worth(const struct job *job);

// The wish for a cut that holds what is counted by now. While shards have not
// said what that is, it is the next one.
struct cut_wish cuts_wish_now(const struct job *job);

// Has it made, besides what is wanted already. False: as much was.
bool cuts_want(struct job *job, const struct cut_wish *wish);

// Takes a snapshot that a psserver has written, or could not write. Returns the
// job if advance_job has to look at it, else NULL.
struct job *cuts_report(struct coord *c, struct member *m,
                        const Sluice__V1__SnapshotReport *report);

// Asks a shard that was admitted for its part (again), if a cut is being made.
void cuts_admitted(struct coord *c, struct job *job, uint32_t shard,
                   bool renewed);

// Gives up a cut that is not being written yet; for a while none is begun.
void cuts_give_up(struct coord *c, struct job *job, const char *why);

// The same, but another is begun as soon as one is due.
void cuts_begin_again(struct coord *c, struct job *job, const char *why);

#endif
