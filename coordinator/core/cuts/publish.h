// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/publish.h -- a cut that is complete becomes a file and
// then exists.
//
//   journal: intent | pool thread: manifest, durable | journal: outcome
//   -> an event, old cuts dropped, Keep to those that have files of the job,
//   and c->cut_settled, unless the job has ended
//
// Whether a failed write left a file is only known once the store was looked
// at: if it does not answer it is asked again every CUT_RETRY_MS, and meanwhile
// the cut has no outcome. A file that is there after all publishes the cut.
// Training goes on.
//
// A cut that is being written belongs to the job until its outcome is in the
// journal, also if the job ends meanwhile.
//
// Threads  the loop; the file is written, and looked for, on a pool thread.
// Memory   writes under way outlive the coord, if they must. No pointer is
//          NULL.
// Errors   A manifest that cannot be written is an outcome: aborted. A journal
//          that cannot be written is fatal, and so is want of memory for the
//          row of the intent, or once there is a manifest: callers look at
//          c->dead.
#ifndef COORDINATOR_CORE_CUTS_PUBLISH_H
#define COORDINATOR_CORE_CUTS_PUBLISH_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Journals the intent of job->cuts.now and begins to write its manifest on a
// pool thread. The cut must be publishable and not being written. Returns
// SL_OK, also where the journal failed, which is fatal; SL_ENOMEM: nothing was
// begun. The outcome may be there before it returns, with job->cuts.now another
// cut or NULL, or the job ended (c->cut_settled).
enum sl_err publish_cut(struct coord *c, struct job *job);

// Asks the store again, every CUT_RETRY_MS, for the outcomes of cuts that it
// did not answer for; what follows may be done before it returns, as in
// publish_cut. To be called once per tick.
void publish_tick(struct coord *c);

// Returns true while a pool thread writes a cut's manifest or looks for one;
// false while cuts without an outcome only wait for the next publish_tick.
bool publish_at_work(const struct coord *c);

// Detaches the writes under way from c, which is about to be freed, without
// waiting for them, and frees those that only wait for a publish_tick; the next
// coord settles them all (K6), once coord_writes is false.
void publish_release(struct coord *c);

#endif
