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
//          fatal; SL_EINTERNAL: its row is gone; SL_ENOMEM. Rows that cannot be
//          read are no error: the job is then a stand-in (unreadable.h).
#ifndef COORDINATOR_CORE_RECOVERY_PAST_JOBS_H
#define COORDINATOR_CORE_RECOVERY_PAST_JOBS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/recovery/load.h"

// How long an ended job stays whole in memory.
#define ENDED_STAYS_MS 10000

// Sets *out to the job of this number, whether it has ended or not: the job in
// memory, which is whole, or one that is made from the journal, as far as
// `part` says; if its rows cannot be read, that is noted (ended_unreadable).
// Every job that was opened needs ended_close, and is valid until then. A
// failure leaves *out untouched. SL_ENOENT: there is no such job; which tenant
// asks does not count. Of a job in memory that has ended, journals first what
// shards reported last; a failure of that shows in c->dead alone (SL_OK).
enum sl_err ended_open(struct coord *c, uint64_t id, enum load_part part,
                       struct job **out, struct sl_error *err);
// Frees a job that ended_open has read; leaves one that is in memory. NULL is
// allowed.
void ended_close(struct job *job);

// Adds a record of a job that the journal has as ended, and that has none yet:
// id, uid, state and name of the row. Returns SL_OK or SL_ENOMEM.
enum sl_err ended_add(struct coord *c, const struct journal_job *row,
                      struct sl_error *err);

// Adds a record of a job with rows that cannot be read, or marks the record
// that it has, once; whatever its state was, it counts as FAILED. `why` says
// why, is copied and logged. Returns SL_OK or SL_ENOMEM. Journals nothing.
enum sl_err ended_unreadable(struct coord *c, const struct journal_job *row,
                             const struct sl_error *why, struct sl_error *err);

// Frees a job that was deleted from the journal, and its record, and takes it
// out of the table and its list. ended_close must not be called for it then.
void ended_forget(struct coord *c, struct job *job);

// Takes the last report of a shard of a job of which only a record is left,
// from a member that was told to close it, which may report twice for each of
// its shards (member.h, `closing`); reads the job from the journal, and
// journals what it changes. Ignores any other report, and of a FINISHED or
// unreadable job each.
void ended_report(struct coord *c, struct member *m,
                  const Sluice__V1__ShardReport *report);

// Journals what shards of ended jobs reported since the last call, and frees
// jobs that ended ENDED_STAYS_MS ago, but for their records; without memory for
// its record, or while a cut of it is written, a job stays. To be called once
// per tick.
void ended_check(struct coord *c);

// Frees all records; pointers from jobs_ended are invalid then.
void ended_release(struct coord *c);

#endif
