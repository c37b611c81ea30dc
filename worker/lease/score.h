// SPDX-License-Identifier: Apache-2.0
// worker/lease/score.h -- sums over the outputs of an evaluation, of which the
// coordinator makes the job's metrics (evaluate.metrics; ScoreSums).
//
// Counts add up whoever evaluated what, in any order; so do the two sums of
// distances, but for the rounding of doubles.
//
// Threads  pure.
// Memory   values. Nothing is kept of the outputs.
// Units    an output is one number of a sample's prediction; as a probability
//          where the loss knows those.
#ifndef WORKER_LEASE_SCORE_H
#define WORKER_LEASE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/spec.h"

struct score {
    uint64_t top, true_positives, false_positives, false_negatives;
    double absolute, squared;
    uint64_t positives[WIRE_SCORE_BUCKETS], negatives[WIRE_SCORE_BUCKETS];
};

struct score_rule {
    enum spec_loss loss;
    uint32_t metrics; // bits, of spec_metrics
    uint32_t top_k;
    uint32_t outputs; // of a sample
    bool logits;      // they are; else probabilities, or values
};

// Adds `samples` samples. `labels` as the loss wants them: a class (int32) of
// each sparse one, else as many floats as outputs. SL_ENOMEM.
enum sl_err score_add(struct score *s, const struct score_rule *rule,
                      const float *outputs, const void *labels,
                      uint64_t samples);

#endif
