// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/behind.h -- I7: the signs that this journal is a
// copy of an older one, and the pause of jobs that show one.
//
// Every number of a job (incarnation, generation, cut) is the job's own. So a
// number above the journal pauses the one job that shows it: none of its work
// is leased, admitted or cut, and the memory and files of its psservers are
// left as they are. A job that the journal has never given is kept on a list,
// and its number and those below are not given to others.
//
// Threads  the loop.
// Memory   the list is the coord's: behind_release. Texts are copied. No
//          pointer is NULL, `err` neither.
// Errors   a journal that cannot be written or read is fatal (c->dead), but in
//          behind_skip_stored; without memory a job is not listed, or its `why`
//          is missing.
#ifndef COORDINATOR_CORE_RECOVERY_BEHIND_H
#define COORDINATOR_CORE_RECOVERY_BEHIND_H

#include "coordinator/core/coord_inner.h"

// Says of a job whether a member shows more of it than the journal knows (I7).
struct job_behind {
    bool paused;
    char *why; // the sign that was seen; owned, may be NULL
};

// A job that the journal does not know, on one psserver.
struct behind_job {
    uint64_t job, uid; // uid 0: the psserver does not say it
    char psserver[WIRE_NAME_BYTES + 1];
};

// Pauses the job until the coordinator is started anew; *why says what was
// seen. Takes its leases back, gives up its cut unless that is being written,
// and no shard counts as served from then on, so the map changes
// (shards_flush_map); adds an event. Journals nothing. A job that has ended, or
// is paused by I7 already, stays as it is.
void behind_pause(struct coord *c, struct job *job, const struct sl_error *why);

// Returns true if this journal never gave the job number, which a psserver
// shows: it is above all, or was skipped. False for one that it gave, also of a
// job that was deleted since. Reads the journal; false means nothing if that
// fails: the caller looks at c->dead before it tells anyone that the job is
// over.
bool behind_knows_not(struct coord *c, uint64_t job);

// Skips, at the start, the numbers up to the highest one of a job that has a
// folder in the store (c->stored), so that no new job gets them, whether or not
// psservers show these jobs by then; logs and journals that. A number more than
// 65536 above all is ignored. Returns SL_OK, or an error of the store or the
// journal, which is not fatal here.
enum sl_err behind_skip_stored(struct coord *c, struct sl_error *err);

// Lists the job of m's hello, which the journal does not know, once for each
// psserver; its shard is left alone, without an answer. Numbers up to the job's
// are not given to new jobs any more; that is committed first, also where the
// list is full (256 entries). A number more than 65536 above all that were
// given is refused (send_refuse, so m drops the shard) and not listed.
void behind_list(struct coord *c, const struct member *m,
                 const Sluice__V1__ShardHello *hello);

// Takes the listed job `id` ("j-7") off the list at a client's wish, and tells
// the psservers that showed it, if they are attached, to delete it; one that is
// not keeps its files, and lists it again with its next hello. Journals
// nothing: its number stays skipped. Returns SL_OK; SL_ENOENT if none is listed
// under this id; or SL_EUNAVAIL, with the job on the list, if the coordinator
// is stopping.
enum sl_err behind_delete(struct coord *c, const char *id,
                          struct sl_error *err);

// Frees the list of unknown jobs, once, as the coord is freed.
void behind_release(struct coord *c);

#endif
