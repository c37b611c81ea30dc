// SPDX-License-Identifier: Apache-2.0
// client/progress.h -- how a running job reads in one line.
//
// Threads  pure.
// Memory   text is appended to the caller's buffer.
#ifndef CLIENT_PROGRESS_H
#define CLIENT_PROGRESS_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

// "epoch 2/5  step 1,860/4,690 (39 %, 2m04s left)  loss 0.4123  acc 0.8530
//  8,123 samples/s  3 workers  staleness 1", without a line end; what matters
// most comes first, since a narrow terminal shows no more. A job that waits
// says for what.
enum sl_err progress_line(struct buf *out, const Sluice__V1__JobStatus *s);

// Bytes of such a line that fit so many columns: whole fields from the left.
size_t progress_fit(const char *line, size_t columns);

// "epoch 1: test accuracy 0.8712, loss 0.3561, auc 0.9412 (10,000 samples)".
// By its steps instead, where those or callbacks count; and by both where it is
// not of the epoch's end.
enum sl_err progress_evaluation(struct buf *out, const Sluice__V1__JobStatus *s,
                                const Sluice__V1__Evaluation *e);

// "step 1,860", "epoch 2", "epoch 2 at step 2,001": of which parameters it is.
enum sl_err progress_evaluated(struct buf *out, const Sluice__V1__JobStatus *s,
                               const Sluice__V1__Evaluation *e);

// A rate that callbacks have reduced; it is there.
enum sl_err progress_rate(struct buf *out, const Sluice__V1__JobStatus *s,
                          size_t rate);

// ", auc 0.9412, recall 0.8": metrics of an evaluation beside those two.
enum sl_err progress_metrics(struct buf *out, const Sluice__V1__Evaluation *e);

// False where a prediction is not right or wrong (mean squared or absolute
// error).
bool progress_has_accuracy(const Sluice__V1__JobStatus *s);

// Finished, failed or stopped.
bool progress_ended(Sluice__V1__JobState state);
const char *progress_state(Sluice__V1__JobState state); // "running"
// The same, or "unreadable", or "paused".
const char *progress_word(const Sluice__V1__JobStatus *s);

#endif
