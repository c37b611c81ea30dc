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
//          What is listed is made anew, for wire_free. No pointer is NULL.
// Errors   without memory a contribution is not recorded, or a list is cut
//          short; a journal that fails is fatal (c->dead).
#ifndef COORDINATOR_CORE_LEASES_TAINTED_H
#define COORDINATOR_CORE_LEASES_TAINTED_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/contributed.h"

#define TAINTED_WORKERS 1024

// Records steps that the worker of a training lease contributed.
void tainted_contributed(const struct work *w, uint64_t steps);

// Notes that an audit found m's result of a closure right.
void tainted_clean(struct job *job, const struct member *m, uint64_t closure);

// Returns what a worker contributed to a job; NULL: nothing is known.
const struct contributed *tainted_of(const struct job *job, const char *name);

// Keeps and journals what a suspect contributed to all jobs that have not
// ended.
void tainted_keep(struct coord *c, const char *name);
// Drops it from the journal, too: the worker was undrained.
void tainted_drop(struct coord *c, const char *name);

// Appends to (*list)[*count] what suspects contributed: those of the worker
// `name`, and of the job whose id is `job`; NULL: of any.
void tainted_list(const struct coord *c, const char *name, const char *job,
                  Sluice__V1__TaintedWork ***list, size_t *count);

// Reads what is kept, after a start. Errors of the journal, or SL_ENOMEM.
enum sl_err tainted_load(struct coord *c, struct sl_error *err);
void tainted_release(struct coord *c); // forgets what is kept

#endif
