// SPDX-License-Identifier: Apache-2.0
// coordinator/core/pause.h -- a job lies still because a client wants it to.
//
//   NONE -> WANTED: a cut is made first -> HOLDS -> NONE
//     \______________ --now _______________/
//
// A job in a pause that holds gives no work to any worker, and its workers let
// go of all that they have of it, without blame. Its shards stay where they
// are: they are admitted, asked and cut as ever. A ring has its state on its
// workers alone, and begins again from the last cut: a cut of it that is not
// being written yet is given up. The pause is in the journal before any member
// is notified. What begins or ends a pause, or a wish for one, adds an event
// and raises job->changes.
//
// (I7's job.behind.paused is another thing: such a job is not touched at all.)
//
// Threads  the loop.
// Memory   texts are copied and cut to 200 bytes. No pointer is NULL but `err`,
//          which may be.
// Units    *_ms monotonic.
// Errors   A journal that cannot be written is fatal: then the pause may be in
//          memory, and the coord ends (c->dead).
#ifndef COORDINATOR_CORE_PAUSE_H
#define COORDINATOR_CORE_PAUSE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/cut.h"

// A pause that a client or the coordinator wants.
struct job_pause {
    struct journal_pause row; // as it is journalled
    uint64_t from_ms; // since when it holds, in this term; 0: it does not hold
    // JOURNAL_PAUSE_WANTED: the wish for the cut before it
    struct cut_wish wish;
};

// Returns SL_OK if the job may be paused, after a cut (`checkpoint`) or at
// once; SL_ESTATE if not: it has ended, is paused by I7, or, at once, would
// lose all its steps, as its state is on workers alone and it has no cut.
enum sl_err pause_judge(const struct job *job, bool checkpoint,
                        struct sl_error *err);

// Pauses the job, which pause_judge allows: at once, or with
// request->checkpoint when there is a cut of all that is counted now, if such a
// cut would save anything. Journals that, and tells the job's workers once it
// holds. A paused job stays so; a job that waits for that cut waits on, unless
// request->checkpoint is false. advance_job, called next, begins the cut. A
// request->who that is empty or PAUSE_BY_US is kept as "somebody".
void pause_ask(struct coord *c, struct job *job,
               const Sluice__V1__PauseRequest *request);

// The name shown for a pause of the coordinator's own (memory.h).
#define PAUSE_BY_US "the coordinator"

// Pauses a job that has not ended at once, for the coordinator itself; journals
// that and tells the job's workers, as pause_ask does. Replaces a client's
// pause, or the wish for one, and its texts, and looks at no state that would
// be lost. `why` is the reason, `note` what people should do about it.
void pause_hold(struct coord *c, struct job *job, const char *why,
                const char *note);

// Ends the pause of a job, also one of the coordinator, or the wish for one,
// and journals that; does nothing without either. A cut that was wished for is
// still made. The caller then calls memory_resumed; place_missing, if
// memory_holds was true of the job before; and, unless c->dead, advance_job and
// serve_workers, which gives the work: this function calls none of them.
void pause_end(struct coord *c, struct job *job);

// Begins a WANTED pause once its cut is made, or cannot be made. advance_job
// calls it after cuts_check: for a job with its state on psservers, a cut that
// is not being made by then (job->cuts.now NULL) counts as one that cannot be,
// unless a shard moves (job_is_moving); a ring waits. Does nothing unless a
// pause is WANTED.
void pause_check(struct coord *c, struct job *job);

// Wishes again for the cut before a WANTED pause, after the job was loaded;
// once. Does nothing for a job without such a pause.
void pause_revive(struct job *job);

// Tells worker m, which was attached, to let go of all that it may have of
// paused jobs from before a restart of the coordinator; does nothing for a
// psserver.
void pause_attached(struct coord *c, const struct member *m);

#endif
