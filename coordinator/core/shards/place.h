// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/place.h -- the psserver of each shard.
//
// A job is placed once: rows are cut into shards (plan/part.h), each
// shard is given to a psserver by *name*, and both are journalled. From then on
// a psserver is asked to take its shards whenever it attaches. A shard may get
// another psserver later (move.h).
//
// Threads  the loop.
// Memory   specs and messages are borrowed for the call. No pointer but `err`
//          may be NULL. A spec has passed spec_check.
// Errors   a job that cannot be placed fails. A journal that fails is fatal in
//          the functions without a result: callers look at c->dead. The
//          functions that answer for a spec change nothing: SL_EINVAL with a
//          reason: its model cannot be made or cut; SL_ENOMEM, also without a
//          text.
#ifndef COORDINATOR_CORE_SHARDS_PLACE_H
#define COORDINATOR_CORE_SHARDS_PLACE_H

#include "common/base/buf.h"
#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Checks that a job of this spec fits into messages and the journal, however
// many psservers there are, and that on those that there are now a push to each
// of its shards does. Returns SL_OK, SL_EINVAL with the reason, or SL_ENOMEM.
enum sl_err place_possible(struct coord *c, const Sluice__V1__JobSpec *spec,
                           struct sl_error *err);

// Cuts the model of the job into shards, chooses a psserver for each, of the
// READY ones that are new enough (job_shard_able) and have least, or as the cut
// had them that the job resumes, journals both, adds an event, warns of too
// little memory (memory_placed), and asks the psservers to take them, as far as
// PLACE_AHEAD allows now. Does nothing for a placed job, or while it cannot be
// done yet: samples or psservers are not known (options.settle_ms), or memory
// is short. Ends the job as FAILED for any other reason for which it cannot be
// placed, such as an uneven cut that does not fit these psservers.
void place_job(struct coord *c, struct job *job);

// Tells psserver m, which was attached, which of its jobs were deleted. Holds a
// job that m's losses speak against (memory.h). Then looks at all shards, as
// place_look does: asks m for those that it has to take, and other psservers
// for what they were not asked for yet.
void place_member(struct coord *c, struct member *m);

// Looks at all shards once more, and asks psservers for those that they were
// not asked to take while they were silent, as far as PLACE_AHEAD allows now.
void place_look(struct coord *c);

// Asks for all shards of the job that no psserver serves, also for those that
// were asked for before: now as far as PLACE_AHEAD allows, the others later.
void place_missing(struct coord *c, struct job *job);

// Sets c->first_psserver_ms, since when a psserver is attached; 0: none is. To
// be called after a member has come or gone.
void place_note_psservers(struct coord *c);

// Shards that psservers are asked to take between two ticks, of all jobs
// together; and one more for each that says hello. So 20,000 shards hold the
// loop no longer than others do, whether their job is new, their psserver is,
// or they could not be loaded.
#define PLACE_AHEAD 256

// Allows `more` further shards to be asked for, up to PLACE_AHEAD, and asks for
// shards that were not asked for and have their psservers attached, and new
// enough (job_shard_able), oldest job first; passes over jobs that are held
// (memory_holds) or paused by I7. Goes on from where the last call stopped, and
// looks at each shard once, some thousands in a call: one that cannot be asked
// for at its turn is passed over until place_look, place_member, place_missing,
// place_moved or place_again.
void place_more(struct coord *c, uint32_t more);

// Asks for a shard that has another psserver now, or lost its memory: now, if
// PLACE_AHEAD allows one more and it is its turn, or later.
void place_moved(struct coord *c, struct job *job, uint32_t shard);

// Marks those shards of the job as not asked for which could not load what they
// need and were asked for, or said so, 10 s ago or more, so that the next
// place_more asks again. Does nothing for a job that is held (memory_holds) or
// paused by I7. To be called once per tick.
void place_again(struct coord *c, struct job *job);

// Appends to `out`, for people, how a job of this spec would be placed on the
// present psservers, or on one if there is none. A failure may leave a part of
// the text.
enum sl_err place_explain(struct coord *c, const Sluice__V1__JobSpec *spec,
                          struct buf *out, struct sl_error *err);

// Sets *shards (on psservers) and *elements (of all parameters) to what a job
// of this spec would have now; a failure leaves both alone.
enum sl_err place_measure(struct coord *c, const Sluice__V1__JobSpec *spec,
                          uint32_t *shards, uint64_t *elements,
                          struct sl_error *err);

// Checks that a job of this spec may start from the cut `from`, with the shards
// that it would have on the present psservers; from->even and from->apart are
// set (resume_even). Returns SL_OK; SL_EINVAL if its variables or samples are
// not those of the cut, or its mode cannot go on from it; SL_ESTATE if the cut
// is uneven and its rows would move (cut_fits.h), which is checked by place_job
// instead while there is no psserver. Other keys of the spec:
// resume_check_spec.
enum sl_err place_check(struct coord *c, const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__ResumeSource *from,
                        struct sl_error *err);

#endif
