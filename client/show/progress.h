// SPDX-License-Identifier: Apache-2.0
// client/show/progress.h -- how a running job reads in one line.
//
// Threads  pure.
// Memory   text is appended to the caller's buffer; what is returned is a
//          constant.
// Errors   SL_ENOMEM; a part may have been appended.
#ifndef CLIENT_SHOW_PROGRESS_H
#define CLIENT_SHOW_PROGRESS_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

// Appends "epoch 2/5  step 1,860/4,690 (39 %, 2m04s left)  loss 0.4123  acc
// 0.8530  8,123 samples/s  3 workers  staleness 1", without a line end; what
// matters most comes first, since a narrow terminal shows no more. A job that
// waits says for what; loss and rates are left out for it, and for one that has
// ended. Nothing may be appended, and blanks at the end of `out` go, also the
// caller's. SL_ENOMEM.
enum sl_err progress_line(struct buf *out, const Sluice__V1__JobStatus *s);

// Returns how many bytes of a line of progress_line fit into `columns`: whole
// fields from the left, or a part of the first field if not even that fits.
size_t progress_fit(const char *line, size_t columns);

// Appends "epoch 1: test accuracy 0.8712, loss 0.3561, auc 0.9412 (10,000
// samples)" for evaluation `e` of job `s`, which begins as progress_evaluated;
// behind ": " "trained loss 0.4123" where there were training samples or no
// test samples, and "the evaluation failed" alone if it did. `s` needs its
// spec, as there.
enum sl_err progress_evaluation(struct buf *out, const Sluice__V1__JobStatus *s,
                                const Sluice__V1__Evaluation *e);

// Appends which parameters `e` evaluated: "epoch 2"; "step 1,860" where the job
// evaluates by steps or has callbacks; "epoch 2 at step 2,001" where it was not
// the epoch's end. `s` needs its spec: without it only `callbacks` can say that
// the job evaluates by steps. With e->steps or s->epochs 0 it is "epoch 2".
enum sl_err progress_evaluated(struct buf *out, const Sluice__V1__JobStatus *s,
                               const Sluice__V1__Evaluation *e);

// Appends "learning rate 0.001 from closure 40 on" for entry `rate` (from 0) of
// the rates that callbacks have reduced (s->callbacks->rates); it must be
// there.
enum sl_err progress_rate(struct buf *out, const Sluice__V1__JobStatus *s,
                          size_t rate);

// Appends ", auc 0.9412, recall 0.8000": the metrics of an evaluation beside
// accuracy and loss, "-" for one without a value; nothing if there are none.
enum sl_err progress_metrics(struct buf *out, const Sluice__V1__Evaluation *e);

// Returns false if the job's loss is mean squared or mean absolute error, so
// that accuracy means nothing. Else true: also for a status without its spec,
// and for an external model, whose accuracy may be unknown (known_accuracy).
bool progress_has_accuracy(const Sluice__V1__JobStatus *s);

// Returns true if a job is finished, failed or stopped.
bool progress_ended(Sluice__V1__JobState state);
// Returns the word of a state, "running"; "unknown" for a newer one.
const char *progress_state(Sluice__V1__JobState state);
// Returns the word for a job that people are shown: "unreadable", "paused" or
// "queued" if it is that, else the word of its state. A job that has ended is
// never "paused".
const char *progress_word(const Sluice__V1__JobStatus *s);

#endif
