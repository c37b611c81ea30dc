// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/cuts.h -- the cut that a job makes: when, and from
// which snapshots.
//
//   cuts_check: due -> SnapshotRequest to every shard
//   cuts_report: one by one; publishable (K4)? -> publish.h
//
// Threads  the loop.
// Memory   job->cuts.now, while one is made. Texts are copied, messages
//          borrowed for the call. No pointer is NULL.
// Units    *_ms monotonic.
// Errors   A cut that cannot be made is given up and tried again. A journal
//          that cannot be written is fatal in cuts_check: callers look at
//          c->dead.
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
    uint64_t after_ms; // no cut is begun before (after a failure),
    uint64_t turn_ms;  // no cut for which no stop or pause waits (cuts_wait)
    // Why the last cut was given up, or is late; owned; NULL: neither. A
    // published cut clears it.
    char *why;
    uint64_t round;       // ring: the round that it is of; 0: the present one
    uint32_t misses;      // ring: cuts missed in a row,
    uint64_t seen;        // and the round of a rank at the last miss
    uint64_t last_ms;     // when the last cut was published or the job ran
    uint64_t last;        // highest number used
    struct job_cut *list; // those that are kept, oldest first; owned
    size_t count;
    uint64_t published; // ever
    // The wishes of clients: a cut; after it, the end. Not journalled: the
    // client waits for it, and asks again.
    struct cut_wish wish;
    bool stop_after;
};

// Moves the job's cut forward: publishes it if it can be, asks shards again
// that are late (job->cuts.why says which) or, in allreduce or without memory,
// gives it up, or begins one that is due. Does nothing while the cut is being
// written; begins none while the job is PLACING or not served, before
// job->cuts.after_ms, or while a move has its turn (cuts_wait). The job must be
// placed and not have ended; it may have ended afterwards (publish_cut).
void cuts_check(struct coord *c, struct job *job);

// Returns true if a cut would hold more steps than the last one, and can be
// made now: the job is RUNNING or FINISHING, is not paused by I7, and every
// shard is served.
bool cuts_worth(const struct job *job);

// Returns the wish for a cut that holds all that is counted now, which any cut
// grants that is begun later (cut_grants). While some shard is not served, what
// it has counted is not known: then it is the wish for the next cut.
struct cut_wish cuts_wish_now(const struct job *job);

// Adds `wish`, which is copied, to the wishes of the job; the next cuts_check
// begins the cut. Returns false if the job's wish asked for as much already.
bool cuts_want(struct job *job, const struct cut_wish *wish);

// Takes a report of m, a psserver or a rank, about a snapshot that it has
// written, or could not write: then the cut under way is given up, if it asked
// for this one. Takes the shard's counts with it, and warns of values that are
// not finite. A file that holds less than was believed corrects the evidence.
// Returns the job if the caller has to call advance_job for it; NULL if the
// report was ignored, as where m does not serve the shard, no cut is being
// made, or the file is older than that of the last cut.
struct job *cuts_report(struct coord *c, struct member *m,
                        const Sluice__V1__SnapshotReport *report);

// Asks a shard that was admitted for its part of the cut under way, if it has
// not reported it. `renewed`: it kept its memory; if not, its report is dropped
// before (cut_void). Does nothing if no cut is being made, or that is being
// written.
void cuts_admitted(struct coord *c, struct job *job, uint32_t shard,
                   bool renewed);

// Returns true if the job's stop or pause waits for a cut.
bool cuts_awaited(const struct job *job);

// Begins no cut of the job for the next `ms`, unless cuts_awaited: a shard is
// to move first.
void cuts_wait(struct coord *c, struct job *job, uint64_t ms);

// Sets out to job->cuts.why behind words that say of which checkpoint it is:
// the last one, which was given up, or the one under way, which is late. "":
// there is no reason. What does not fit is cut off.
void cuts_trouble(const struct job *job, char *out, size_t size);

// Gives up job->cuts.now, which must be there and not being written yet, and
// frees it; `why` is kept as job->cuts.why, logged, and an event. Counts it
// (FIGURES_GIVEN_UP), and raises job->changes. The next cut waits CUT_RETRY_MS;
// wishes for one stay, and a ring's misses are forgotten.
void cuts_give_up(struct coord *c, struct job *job, const char *why);

// Gives up job->cuts.now as cuts_give_up does, but the next cut may begin at
// once, and a ring's misses still count.
void cuts_begin_again(struct coord *c, struct job *job, const char *why);

#endif
