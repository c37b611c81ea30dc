// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_step.h -- what one member of a group computes of a step.
//
// The step's micro-batches are dealt out as runs, in the order of members; the
// number of members and their places alone decide which member computes which.
// A share is part of the mean over all samples of the step, so the sum over the
// group is the step's gradient, whichever member computes which part.
//
//   hybrid_compute
//     contributor's share: hybrid_fresh, ... hybrid_whole from the last range
//       with tables: hybrid_rows_pull for each micro-batch, then the rest
//     tail
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's. When hybrid_compute
//          returns no other thread touches the vectors, unless h->lost: then
//          once the generation was left.
// Units    elements of the flat vectors; micro-batches of the step, from 0;
//          milliseconds in the metrics.
// Errors   those of the contributor, and of hybrid.h with h->lost. After one
//          the vectors are undefined. `err` may be NULL.
#ifndef TRAINER_LEASE_HYBRID_STEP_H
#define TRAINER_LEASE_HYBRID_STEP_H

#include "trainer/lease/hybrid.h"
#include "trainer/push/sync.h"

struct hybrid_step {
    struct hybrid *hybrid;
    struct contributor *by;
    const struct sl_clock *clock;
    struct lease_metrics *m;
    struct pulse *pulse;
    struct sync *sync; // its ranges and its vectors in host memory
    struct hybrid_head head;

    // For the contributor: our share is micro-batches [from, end) of `count`;
    // `sums` are what it has computed.
    uint32_t count, from, end;
    struct hybrid_sums sums;

    // In a job with tables (hybrid_rows.h).
    uint32_t met;            // micro-batches of each member that have rows
    enum sync_result pulled; // how the leader's last pull ended
    bool dropped; // the leader has given the step up; the generation goes on

    uint64_t first; // number of the sum that spreads the first range
};

// Runs a step of the group: by the contributor's `step` or, if that is NULL, by
// hybrid_compute.
enum sl_err hybrid_run(struct hybrid_step *s, struct sl_error *err);

// Spreads the leader's parameters, computes our share and sums: afterwards the
// gradient, and `sums`, are those of the whole step, on all members. The caller
// has set the fields up to `head`; it sets the rest, forgets the rows and marks
// of the step before (hybrid_rows_begin), and adds times and bytes to *s->m.
// Waits for the other members.
enum sl_err hybrid_compute(struct hybrid_step *s, struct sl_error *err);

// Returns true if the job has the closure and step that `head`, which another
// member sent, names.
bool hybrid_known(const struct lease *l, const struct hybrid_head *head);

// ---- a share's ranges, for the contributor

// Waits until the parameters of a range, which the leader spreads, are in the
// vector; returns at once on the leader.
enum sl_err hybrid_fresh(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err);
// Begins the sum over the group of a range, the gradient of which is whole in
// the vector. To be called from the last range to the first.
enum sl_err hybrid_whole(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err);

#endif
