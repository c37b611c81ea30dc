// SPDX-License-Identifier: Apache-2.0
// coordinator/core/pause.h -- a job lies still because a client wants it to.
//
//   NONE -> WANTED: a cut is made first -> HOLDS -> NONE
//     \______________ --now _______________/
//
// Nothing of a job whose pause holds is given to anybody, and whoever worked
// for it lets go of all that it has of it, without blame. Its shards stay where
// they are: they are admitted, asked and cut as ever. A ring has its state on
// its workers alone, and begins again from the last cut. The pause is in the
// journal before anybody is notified.
//
// (I7's job.paused is another thing: there nothing at all is done any more.)
//
// Threads  the loop.
// Units    *_ms monotonic.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_PAUSE_H
#define COORDINATOR_CORE_PAUSE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// May it be paused, with or without a cut? SL_ESTATE: it may not, and why.
enum sl_err pause_judge(const struct job *job, bool checkpoint,
                        struct sl_error *err);

// Pauses it: at once, or when there is a cut of what is counted by now. One
// that is paused stays so; `checkpoint` false does not wait for a cut any more.
void pause_ask(struct coord *c, struct job *job,
               const Sluice__V1__PauseRequest *request);

// Who pauses a job that the coordinator itself holds (memory.h).
#define PAUSE_BY_US "the coordinator"

// Pauses it at once, of the coordinator's own accord; a client's pause becomes
// such a one. `note`: what people should do.
void pause_hold(struct coord *c, struct job *job, const char *why,
                const char *note);

// It goes on, if it is paused or is to be.
void pause_end(struct coord *c, struct job *job);

// The cut that comes first is there, or cannot be made: then it holds.
void pause_check(struct coord *c, struct job *job);

// A job that was loaded: its cut is wanted again.
void pause_revive(struct job *job);

// A worker may hold what it was given before a restart of ours.
void pause_attached(struct coord *c, const struct member *m);

#endif
