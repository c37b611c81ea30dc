// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/tainted.h -- what each worker contributed to a job
// since an audit found a result of it right; of a worker that is suspect, that
// is in doubt, and is listed until it is undrained.
//
// The records are volatile, by the worker's name: they begin with the
// coordinator. Those of a worker that becomes suspect are journalled.
//
// Threads  the loop.
// Memory   a record per worker and job, made with its first contribution, of
//          TAINTED_WORKERS per job; then that of the worker takes its place
//          which contributed longest ago. job->audit and c->tainted own them.
//          What is listed is made anew, for wire_free. Names are borrowed for
//          the call. No pointer is NULL but where it is said.
// Errors   without memory a contribution is not recorded, or a list is cut
//          short; a journal that fails is fatal (c->dead).
#ifndef COORDINATOR_CORE_LEASES_TAINTED_H
#define COORDINATOR_CORE_LEASES_TAINTED_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/contributed.h"

#define TAINTED_WORKERS 1024

// Records `steps` steps that the holder of w, which must be there, contributed
// to w's closure; does nothing unless w is of kind WORK_TRAIN.
void tainted_contributed(const struct work *w, uint64_t steps);

// Notes that an audit found m's result of `closure` right: what m contributed
// up to there is not in doubt, but for a rough range that goes on beyond it
// (contributed_clean); the job's last cut is noted with it. An older closure
// than that of the last call changes nothing.
void tainted_clean(struct job *job, const struct member *m, uint64_t closure);

// Returns the record of what a worker contributed to the job, valid until the
// next tainted_contributed or tainted_clean, or the job's end; NULL: there is
// none.
const struct contributed *tainted_of(const struct job *job, const char *name);

// Lists and journals what the worker of that name, which became suspect,
// contributed to all jobs that have not ended, in place of what is listed of
// it, which is dropped first (tainted_drop).
void tainted_keep(struct coord *c, const char *name);
// Removes what is listed of the worker, also from the journal: it was
// undrained.
void tainted_drop(struct coord *c, const char *name);

// Appends what suspects contributed to (*list)[*count], as messages of the
// caller's: of the worker `name` alone, unless that is NULL, and to the job
// with the id `job` ("j-7") alone, unless that is NULL. An empty *list is NULL.
void tainted_list(const struct coord *c, const char *name, const char *job,
                  Sluice__V1__TaintedWork ***list, size_t *count);

// Reads the list of what suspects contributed from the journal, once after a
// start. Returns SL_OK, SL_ENOMEM, the journal's error, or that of wire_load
// for a row that cannot be read; none is fatal here.
enum sl_err tainted_load(struct coord *c, struct sl_error *err);
// Frees the list, in memory alone.
void tainted_release(struct coord *c);

#endif
