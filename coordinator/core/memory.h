// SPDX-License-Identifier: Apache-2.0
// coordinator/core/memory.h -- what a job needs of its members' memory, and
// members that their kernel may have killed for want of it: such a kill leaves
// no word, so what is known here is all that people learn of it.
//
// Threads  the loop.
// Units    bytes; MiB in texts, rounded up.
// Errors   without memory a text is shorter.
#ifndef COORDINATOR_CORE_MEMORY_H
#define COORDINATOR_CORE_MEMORY_H

#include "common/base/buf.h"
#include "coordinator/core/job.h"

// Appends, to why a work failed, that its workers may have been killed for want
// of memory, what the job needs of theirs and where to look. Appends nothing if
// any attempt ended otherwise than by a lost worker.
void memory_vanished(struct buf *out, const struct work *w);

#endif
