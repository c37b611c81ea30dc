// SPDX-License-Identifier: Apache-2.0
// coordinator/core/classes.h -- which folder of images is which output of a
// job that does not name them (data.classes), as its first worker found them.
//
// Threads  the loop.
// Memory   messages are the caller's, and own what is put into them.
// Units    names of folders; the first is that of output 0.
// Errors   without memory, or where the journal cannot be read, none are known.
#ifndef COORDINATOR_CORE_CLASSES_H
#define COORDINATOR_CORE_CLASSES_H

#include "coordinator/core/coord_inner.h"

// Journals what a worker said. Names that no folder can have are left out: the
// worker is wrong, and nothing else depends on them. Fails if the journal does.
enum sl_err classes_take(struct coord *c, const struct job *job,
                         const Sluice__V1__DataFacts *facts);

// Puts the names into a list that is empty, which a message owns.
void classes_put(const struct coord *c, const struct job *job, size_t *count,
                 char ***list);

#endif
