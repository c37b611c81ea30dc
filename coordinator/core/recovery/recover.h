// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/recover.h -- from the journal to a coordinator that
// may serve members and clients.
//
// Threads  the loop, before it runs. It waits for the disk.
// Memory   what was loaded is the coord's, also after a failure.
// Errors   SL_ECORRUPT, SL_EIO, SL_EUNAVAIL, as in journal.h; SL_ENOMEM; those
//          of cluster.h and stored.h. A job that cannot be read is no error: it
//          is put aside (ended_unreadable). `err` is not NULL.
#ifndef COORDINATOR_CORE_RECOVERY_RECOVER_H
#define COORDINATOR_CORE_RECOVERY_RECOVER_H

#include "coordinator/core/coord_inner.h"

// Takes the next term, tells it the feed (feed_begin_term) where others stand
// by, then loads c->cluster, drained members, what suspects contributed,
// records of ended jobs, and all others, which are PLACING then, with one
// restart more in their counters, in the journal; settles open intents (K6),
// pauses jobs by I7, and skips numbers of jobs that only the store knows. Once,
// for a coord that is otherwise empty, with c->stored there. After a failure c
// can only be freed, and the term may be taken.
enum sl_err recover_coord(struct coord *c, struct sl_error *err);

#endif
