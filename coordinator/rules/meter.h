// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/meter.h -- the numbers of a job that move: rate, loss,
// counts.
//
// Rates come from what shards report to have counted, over a sliding window,
// so a job that stands still shows it within seconds. Losses are sums that
// workers report for steps they saw counted, kept per epoch. A status shows the
// lowest epoch that is not finished; while it has no steps yet, the one before.
//
// Threads  the loop.
// Memory   values; nothing is allocated or fails. No pointer is NULL.
// Units    *_ms monotonic; samples and steps are counted.
#ifndef COORDINATOR_RULES_METER_H
#define COORDINATOR_RULES_METER_H

#include <stdint.h>

#define METER_POINTS 12     // points of the rate's window,
#define METER_EVERY_MS 1000 // their least distance
#define METER_EPOCHS 4      // epochs with remembered losses

// Sums over steps, as StepMetrics has them: samples, correct and loss_sum are
// of steps that were applied.
struct meter_sums {
    uint64_t steps, samples, correct, skipped, refused;
    double loss_sum;
};

struct meter_point {
    uint64_t at_ms, samples;
};

struct meter {
    struct meter_point point[METER_POINTS]; // a ring, oldest overwritten
    uint32_t points;                        // ever taken
    struct {
        uint32_t epoch; // from 0
        struct meter_sums sums;
    } epoch[METER_EPOCHS]; // at index epoch % METER_EPOCHS
};

// Sets *m to a meter without points and sums. A struct of zeroes is not one.
void meter_init(struct meter *m);

// Notes that `samples` samples are counted in all at now_ms; keeps a point of
// that at most once per METER_EVERY_MS, in place of the oldest if there are
// METER_POINTS. If there are fewer samples than at the newest point (a shard
// fell back), drops all older points and begins with this one.
void meter_rate_add(struct meter *m, uint64_t now_ms, uint64_t samples);

// Returns the samples per second from the window's oldest point until now_ms,
// when `samples` are counted in all; 0 if there is no point, no time has passed
// since, or there are fewer samples than then. Keeps no point.
double meter_rate(const struct meter *m, uint64_t now_ms, uint64_t samples);

// Returns by how much each sum of `now` exceeds that of `*seen`, and sets *seen
// to `now`. If any sum but the loss is lower than before, returns zeroes and
// leaves *seen.
struct meter_sums meter_delta(struct meter_sums *seen,
                              const struct meter_sums *now);

// Adds `sums` to the sums of `epoch` (from 0). Epochs that are METER_EPOCHS, or
// a multiple of it, apart have one place: those of another epoch that are there
// are forgotten, a later one's too (an add for an old epoch that comes late).
void meter_loss_add(struct meter *m, uint32_t epoch,
                    const struct meter_sums *sums);

// Returns the sums to show in a status: those of `epoch` (from 0), or of the
// epoch before if `epoch` has no steps yet; zeroes if neither has any, or both
// were forgotten.
struct meter_sums meter_loss(const struct meter *m, uint32_t epoch);

// Returns loss_sum / samples, the mean per sample; NAN if there are no samples,
// so no applied step.
double meter_mean_loss(const struct meter_sums *sums);

// Returns correct / samples, 0 to 1; NAN if there are no samples.
double meter_mean_accuracy(const struct meter_sums *sums);

// Takes the samples of skipped steps out of *sums, as workers of an older
// version count them: lowers samples and correct to what the applied steps can
// have, at `step_samples` samples a step. Sums of a newer worker stay as they
// are.
void meter_of_applied(struct meter_sums *sums, uint64_t step_samples);

#endif
