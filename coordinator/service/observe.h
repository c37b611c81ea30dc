// SPDX-License-Identifier: Apache-2.0
// coordinator/service/observe.h -- the curves of jobs that ask for them
// (JobSpec.observe), written where the operator allows it.
//
// The runs of a job lie in ROOT/[TENANT/]FOLDER/, as proto/curves.h says. A
// disk that is full or gone costs points of a curve: it is logged once, and
// tried again.
//
// Threads  the loop; files are written on the pool.
// Memory   observe_free after the loop has run what was posted; curves that the
//          pool still writes are freed when they come back. The root is copied;
//          loop, clock and coord are borrowed.
// Errors   of observe_new: the root cannot be made; SL_ENOMEM. `err` may be
//          NULL.
#ifndef COORDINATOR_SERVICE_OBSERVE_H
#define COORDINATOR_SERVICE_OBSERVE_H

#include "common/run/loop.h"
#include "coordinator/core/coord.h"

struct observe;

// Makes the observer, without a coord, and the folder `root` if it is missing;
// its ticks, once a second, begin at once.
enum sl_err observe_new(struct observe **out, struct loop *loop,
                        const struct sl_clock *clock, const char *root,
                        struct sl_error *err);

// Stops the ticks and frees o; what the pool is writing is still written. NULL
// is allowed.
void observe_free(struct observe *o);

// Begins to write the curves of this job, if it asks for them and is not
// observed yet; else does nothing. For coord_io.changed, which says that a job
// has changed, has ended or is gone; so it may be called within a call of the
// coord. May read the journal. Does nothing for a job that is not in memory, or
// without a coord; the ticks begin with the active jobs that are not observed,
// also after curves could not be begun. Points are written later. `o` may be
// NULL.
void observe_changed(struct observe *o, uint64_t job);

// Sets the coord with the jobs that are observed, borrowed until the next call;
// NULL: no coord runs. `o` may be NULL.
void observe_set_coord(struct observe *o, struct coord *c);

#endif
