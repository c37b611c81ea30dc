// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/place.h -- the psserver of each shard.
//
// A job is placed once: rows are cut into shards (plan/part.h), each
// shard is given to a psserver by *name*, and both are journalled. From then on
// a psserver is asked to take its shards whenever it attaches.
//
// Threads  the loop.
// Memory   specs and messages are borrowed for the call. No pointer but `err`
//          may be NULL. A spec has passed spec_check.
// Errors   a job that cannot be placed fails. The functions that answer for a
//          spec change nothing: SL_EINVAL with a reason: its model cannot be
//          made or cut; SL_ENOMEM, also without a text.
#ifndef COORDINATOR_CORE_SHARDS_PLACE_H
#define COORDINATOR_CORE_SHARDS_PLACE_H

#include "common/base/buf.h"
#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Checks that a job of this spec fits into messages and the journal, on any
// number of psservers. SL_EINVAL: it does not, and why.
enum sl_err place_possible(const Sluice__V1__JobSpec *spec,
                           struct sl_error *err);

// Cuts the model into shards, names their psservers, journals both and asks for
// the shards; does nothing while that is not possible, and for a placed job.
// May end the job.
void place_job(struct coord *c, struct job *job);

// Sends a psserver that was attached which jobs are gone, and which shards it
// has to take, as far as this turn of the loop allows. May hold a job that its
// losses speak against (memory.h).
void place_member(struct coord *c, struct member *m);

// Asks psservers that are heard of again for the shards that they were not
// asked to take meanwhile.
void place_look(struct coord *c);

// Asks for the shards of a job that goes on and that no psserver serves, also
// for those that were asked for before.
void place_missing(struct coord *c, struct job *job);

// Notes since when a psserver is there, after a member has come or gone.
void place_note_psservers(struct coord *c);

// Shards that psservers are asked to take between two ticks, of all jobs
// together; and one more for each that says hello. So 20,000 shards hold the
// loop no longer than others do, whether their job is new, their psserver is,
// or they could not be loaded.
#define PLACE_AHEAD 256

// Lets `more` shards be asked for, PLACE_AHEAD at most, and asks for shards
// that were not asked for and have their psservers there.
void place_more(struct coord *c, uint32_t more);

// Lets the next place_more ask again for shards that could not load what is
// needed and were asked for a while ago. Called once per tick.
void place_again(struct coord *c, struct job *job);

// Appends how a job of this spec would be placed now, for people; without a
// psserver as if there were one. A failure may leave a part of it.
enum sl_err place_explain(struct coord *c, const Sluice__V1__JobSpec *spec,
                          struct buf *out, struct sl_error *err);

// Sets *shards and *elements to what a job of this spec would have now; leaves
// both alone on failure.
enum sl_err place_measure(struct coord *c, const Sluice__V1__JobSpec *spec,
                          uint32_t *shards, uint64_t *elements,
                          struct sl_error *err);

// Checks that a job of this spec may start from the cut `from`, with the shards
// that it would have on the present psservers; from->even and from->apart are
// set. Also SL_EINVAL: its variables or
// samples are not those of the cut, or its mode cannot go on from it;
// SL_ESTATE: the cut is uneven and its rows would move (cut_fits.h). The latter
// is left to place_job while there is no psserver; other keys to
// resume_check_spec.
enum sl_err place_check(struct coord *c, const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__ResumeSource *from,
                        struct sl_error *err);

#endif
