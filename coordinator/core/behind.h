// SPDX-License-Identifier: Apache-2.0
// coordinator/core/behind.h -- I7: what shows that this journal is a copy of
// an older one, and what is no longer done then.
//
// Every number of a job (incarnation, generation, cut) is the job's own. So
// what lies above the journal pauses the one job that shows it: nothing of it
// is leased, admitted or cut, and what its psservers keep is left as it is. A
// job that the journal has never given is kept on a list, and its number and
// those below are not given to others.
//
// Threads  the loop.
// Memory   the list is the coord's: behind_release.
#ifndef COORDINATOR_CORE_BEHIND_H
#define COORDINATOR_CORE_BEHIND_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// A job that the journal does not know, on one psserver.
struct behind_job {
    uint64_t job, uid; // uid 0: the psserver does not say it
    char psserver[WIRE_NAME_BYTES + 1];
};

// Nothing is done with the job any more in this term; `why` says what was
// seen. One that has ended, or is paused, stays what it is.
void behind_pause(struct coord *c, struct job *job, const struct sl_error *why);

// The number was never given by this journal, though somebody shows it.
bool behind_knows_not(struct coord *c, uint64_t job);

// At the start: no number of a job that has a folder in the store is given
// again, whether or not its psserver is back by then.
enum sl_err behind_skip_stored(struct coord *c, struct sl_error *err);

// A shard of such a job: it is listed, and left alone. No number at or below
// this one is given any more, which is committed first. What lies absurdly far
// above is refused.
void behind_list(struct coord *c, const struct member *m,
                 const Sluice__V1__ShardHello *hello);

// Somebody gives up such a job: psservers delete it. SL_ENOENT: none is listed
// under this id.
enum sl_err behind_delete(struct coord *c, const char *id,
                          struct sl_error *err);

void behind_release(struct coord *c);

#endif
