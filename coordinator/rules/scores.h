// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/scores.h -- the metrics of an evaluation, from the sums
// that workers tell of ranges (ScoreSums).
//
// Threads  pure; nothing fails.
// Memory   values; messages are borrowed for the call. No pointer is NULL but
//          where it is said.
// Units    metrics are bits, as spec_metrics has them.
#ifndef COORDINATOR_RULES_SCORES_H
#define COORDINATOR_RULES_SCORES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/coord.pb-c.h"
#include "proto/spec.h"

// Counts, which add up in any order; all zeroes: none. Distances are doubles:
// those of a range stay apart until the results of all ranges are there.
struct scores {
    // top: samples with their class among the first k outputs
    uint64_t top, true_positives, false_positives, false_negatives;
    // outputs of each bucket of their value, by what their target is
    uint64_t positives[WIRE_SCORE_BUCKETS], negatives[WIRE_SCORE_BUCKETS];
};

// Sums of the distances between outputs and targets.
struct scores_distances {
    double absolute, squared;
};

// Returns true if `m` can be the sums of a range of `samples` samples, and
// holds what the metrics in `metrics` (a bit for each enum spec_metric) need.
// True for `metrics` 0, whatever the other arguments are; else false if `m` is
// NULL or `samples` is 0.
bool scores_fit(const Sluice__V1__ScoreSums *m, uint32_t metrics,
                uint64_t samples);

// Adds the counts of `m` to *s; scores_fit must hold for `m`. Its distances are
// not added.
void scores_add(struct scores *s, const Sluice__V1__ScoreSums *m);

// Returns one metric over all `samples` samples (> 0): from the counts *s, and
// from *sums, which is not NULL, for the metrics of distances. A share of
// nothing, such as the precision without a positive output, is 0, as in Keras.
// NAN for SPEC_METRIC_ACCURACY, which is not made of scores.
double scores_value(const struct scores *s, enum spec_metric metric,
                    const struct scores_distances *sums, uint64_t samples);

#endif
