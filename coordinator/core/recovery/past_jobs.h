// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/past_jobs.h -- jobs that have ended: a small record
// of each stays, all else is read from the journal on demand.
//
// For a while after its end a job stays as it was: its shards report what they
// had counted, and clients that wait for the end ask for its status.
//
// Threads  the loop.
// Memory   see ended_open; rows are borrowed for the call. No pointer may be
//          NULL but where it is said, `err` neither.
// Errors   SL_ENOENT: there is no such job; those of journal.h, which are
//          fatal; SL_ENOMEM. Rows that cannot be read are no error: the job is
//          then a stand-in (unreadable.h).
#ifndef COORDINATOR_CORE_RECOVERY_PAST_JOBS_H
#define COORDINATOR_CORE_RECOVERY_PAST_JOBS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/recovery/load.h"

// How long an ended job stays whole in memory.
#define ENDED_STAYS_MS 10000

// Opens a job by its number, whether it has ended or not: as it is in memory,
// or as much of it as `part` says. Valid until ended_close, which every job
// that was opened needs; a failure leaves *out untouched. May read the journal,
// and for a job in memory write what its shards reported last.
enum sl_err ended_open(struct coord *c, uint64_t id, enum load_part part,
                       struct job **out, struct sl_error *err);
// Frees a job that ended_open has read; leaves one that is in memory. NULL is
// allowed.
void ended_close(struct job *job);

// Keeps a record of a job that the journal has as ended: id, uid, state and
// name of the row.
enum sl_err ended_add(struct coord *c, const struct journal_job *row,
                      struct sl_error *err);

// Keeps a record of a job with unreadable rows, in whatever state, and `why`
// they are.
enum sl_err ended_unreadable(struct coord *c, const struct journal_job *row,
                             const struct sl_error *why, struct sl_error *err);

// Frees a job that was deleted, opened or not, and its record; ended_close is
// not called then.
void ended_forget(struct coord *c, struct job *job);

// Takes what a shard had counted of a job that was let go, from a member that
// was told to close it (member.h, `closing`).
void ended_report(struct coord *c, struct member *m,
                  const Sluice__V1__ShardReport *report);

// Journals shards' reports since the last call, and lets go of jobs that ended
// a while ago. Called once per tick.
void ended_check(struct coord *c);

// Frees all records; pointers from jobs_ended are invalid then.
void ended_release(struct coord *c);

#endif
