// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/cuts.h -- the cut that a job makes: when, and from
// which snapshots.
//
//   cuts_check: due -> SnapshotRequest to every shard
//   cuts_report: one by one; publishable (K4)? -> publish.h
//
// Threads  the loop.
// Memory   job->cuts.now, while one is made. Texts are copied, messages
//          borrowed for the call.
// Units    *_ms monotonic.
// Errors   A cut that cannot be made is given up and tried again.
#ifndef COORDINATOR_CORE_CUTS_CUTS_H
#define COORDINATOR_CORE_CUTS_CUTS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/cut.h"
#include "proto/wire.h"

// A published cut that was not dropped.
struct job_cut {
    uint64_t n;
    uint32_t epochs;                    // whole epochs in every file
    char *path;                         // owned
    Sluice__V1__Checkpoint *checkpoint; // owned
    Sluice__V1__JobStatus *counts;      // owned: counts of its files, by epoch
};

// The cut under way, and the published cuts of a job.
struct job_cuts {
    struct cut *now;   // being made, or NULL
    uint64_t after_ms; // no cut is begun before (after a failure)
    char *why;         // why the last cut was given up; owned; NULL: it was not
    uint64_t round;    // ring: the round that it is of; 0: the present one
    uint32_t misses;   // ring: cuts missed in a row,
    uint64_t seen;     // and the round of a rank at the last miss
    uint64_t last_ms;  // when the last cut was published or the job ran
    uint64_t last;     // highest number used
    struct job_cut *list; // those that are kept, oldest first; owned
    size_t count;
    uint64_t published; // ever
    // The wishes of clients: a cut; after it, the end. Not journalled: the
    // client waits for it, and asks again.
    struct cut_wish wish;
    bool stop_after;
};

// Publishes a cut that can be, asks again for a late one or gives it up, or
// begins one that is due. Does nothing while a cut is being written; begins
// none while the job is not served, or before job->cuts.after_ms. For a job
// that is placed and goes on.
void cuts_check(struct coord *c, struct job *job);

// Says whether a cut would save anything, and there are shards to ask for it.
bool cuts_worth(const struct job *job);

// Returns the wish for a cut that holds all that is counted now. While shards
// have not reported that, it is the wish for the next cut.
struct cut_wish cuts_wish_now(const struct job *job);

// Adds `wish`, which is copied, to the wishes of the job; cuts_check begins the
// cut. Returns false if as much was wished already.
bool cuts_want(struct job *job, const struct cut_wish *wish);

// Takes a report of a psserver, or a rank, of a snapshot that it has written,
// or could not write. Returns the job if advance_job has to look at it, else
// NULL.
struct job *cuts_report(struct coord *c, struct member *m,
                        const Sluice__V1__SnapshotReport *report);

// Asks an admitted shard for its part (again), if a cut is being made;
// `renewed`: it kept its memory.
void cuts_admitted(struct coord *c, struct job *job, uint32_t shard,
                   bool renewed);

// Gives up the cut that is made, job->cuts.now, which must be there and not
// being written yet, and frees it; the next one waits CUT_RETRY_MS.
void cuts_give_up(struct coord *c, struct job *job, const char *why);

// Gives up a cut likewise, but the next one is begun as soon as it is due.
void cuts_begin_again(struct coord *c, struct job *job, const char *why);

#endif
