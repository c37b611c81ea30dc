// SPDX-License-Identifier: Apache-2.0
// trainer/lease/tally.h -- what a training attempt may say of itself: the
// metrics of its steps, and the evidence of its closure.
//
// A step's metrics are added when shard 0 says that our push counted it, and
// once: a step that only some shards took, or that shards lost when they came
// back from older snapshots, is computed again and adds nothing.
//
// Threads  the thread that computes.
// Memory   values; the evidence becomes the lease's.
// Errors   none are returned.
#ifndef TRAINER_LEASE_TALLY_H
#define TRAINER_LEASE_TALLY_H

#include "trainer/lease/lease.h"
#include "trainer/push/sync.h"

// The step that was sent last, as it will be added when it is counted.
struct tally {
    bool any;
    uint32_t step;
    uint64_t samples;
    // One that is not finite (NAN: not known) is not added; without the loss
    // neither is.
    double loss_sum, right_sum;
    bool skipped; // its loss or gradient is not finite
};

// Adds the step that *t holds to `m`, if shard 0 has counted it by our push,
// and copies the sync's times, bytes and refusals to `m` in any case. *t holds
// no step afterwards.
void tally_add(struct tally *t, const struct sync *sync,
               struct lease_metrics *m);

// Sets the evidence of a closure of which every step is counted, with which its
// lease is complete; without memory for it the lease is handed back. Once per
// lease, of which no outcome was set before: OUTCOME_COMPLETE is what it has
// then. The sync has not opened another closure since.
void tally_evidence(struct lease *l, const struct sync *sync);

// Sets the outcome of a closure that ended with `result`; `err` is read for
// SYNC_FAILED only. Only SYNC_OK completes the lease; SYNC_AGAIN hands it back.
// Does nothing for SYNC_BUSY.
void tally_conclude(struct lease *l, const struct sync *sync,
                    enum sync_result result, const struct sl_error *err);

#endif
