// SPDX-License-Identifier: Apache-2.0
// trainer/lease/score.h -- sums over the outputs of an evaluation, from which
// the coordinator makes the job's metrics (evaluate.metrics; ScoreSums).
//
// Counts of several workers add up in any order; so do the two sums of
// distances, but for the rounding of doubles.
//
// Threads  pure.
// Memory   values. Nothing is kept of the outputs.
// Units    an output is one number of a sample's prediction; as a probability
//          where the loss knows those.
// Errors   SL_ENOMEM.
#ifndef TRAINER_LEASE_SCORE_H
#define TRAINER_LEASE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/spec.h"

// Counts of metrics that a job does not want stay 0.
struct score {
    uint64_t top; // samples, the class of which is among the top_k
    // Outputs above 0.5 are told as positive; labels other than 0 are positive.
    uint64_t true_positives, false_positives, false_negatives;
    double absolute, squared; // sums of samples' means over their outputs
    // Outputs with a positive label, and with a negative one, by bucket: the
    // number of thresholds (0, 1/199, ... 1) below the output, less one.
    uint64_t positives[WIRE_SCORE_BUCKETS], negatives[WIRE_SCORE_BUCKETS];
};

struct score_rule {
    enum spec_loss loss;
    uint32_t metrics; // wanted metrics, as bits (spec_metrics)
    uint32_t top_k;
    uint32_t outputs; // numbers per prediction
    uint32_t rows;    // predictions per sample; top_k wants 1
    bool logits;      // outputs are logits; else probabilities, or values
    bool weighted;    // a weight, which is not looked at, is behind each label
};

// Adds the sums of `samples` samples (0: none) to *s. `outputs` has rule->rows
// rows of rule->outputs numbers for each; `labels` are as the loss wants them:
// a class (int32) per row if it is sparse, else as many floats as outputs, with
// four bytes more for each row if rule->weighted. Both are read during the
// call. Returns SL_OK, or SL_ENOMEM with *s as it was.
enum sl_err score_add(struct score *s, const struct score_rule *rule,
                      const float *outputs, const void *labels,
                      uint64_t samples);

#endif
