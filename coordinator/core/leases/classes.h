// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/classes.h -- the folder of images of each output of a
// job that does not name them (data.classes), as its first worker found them.
//
// Threads  the loop.
// Memory   messages are the caller's, and own what is put into them. No pointer
//          is NULL.
// Units    names of folders; the first is that of output 0.
// Errors   classes_put: without memory, or where the journal cannot be read,
//          none are known.
#ifndef COORDINATOR_CORE_LEASES_CLASSES_H
#define COORDINATOR_CORE_LEASES_CLASSES_H

#include "coordinator/core/coord_inner.h"

// Journals the names of classes in the facts that a worker found, if the spec
// names none. Names that no folder can have are logged and ignored: the worker
// is wrong, and nothing else depends on them. Returns SL_OK, also where there
// was nothing to write; or SL_ENOMEM or the journal's error, with its text in
// c->err, for coord_wrote.
enum sl_err classes_take(struct coord *c, const struct job *job,
                         const Sluice__V1__DataFacts *facts);

// Sets *list and *count to the names of the job's classes, which the caller's
// message owns from then on. Leaves both if *count is above 0, or no names are
// known.
void classes_put(const struct coord *c, const struct job *job, size_t *count,
                 char ***list);

#endif
