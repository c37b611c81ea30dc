// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/evaluation.h -- ranges of the test set, run against one
// cut.
//
// After every `every` epochs the model is evaluated, with the parameters of the
// first cut that holds all of that epoch on every shard; training goes on
// meanwhile. The test set is cut into ranges that are leased like closures, and
// each range's result is taken once, from whichever worker it comes first. One
// evaluation runs at a time; epochs that first appear in the same cut share
// one. An evaluation by steps counts marks instead of epochs: a mark is the end
// of the closure that holds so many steps, or in sync of its round.
//
// A range is made when it is offered, in order, and at most
// EVALUATION_WINDOW beyond the first one that has no result: however many a
// spec or a data set names, only those exist that are out, that wait to be out
// again, or that have a result which waits for one before it.
//
// Threads  the loop.
// Memory   evaluation_free frees. A range's work is there from the offer of it
//          until its result is taken and evaluation_settle is told. Messages
//          are borrowed for the call; the job is borrowed until the end. No
//          pointer is NULL but where it is said.
// Units    samples of the test set; epochs and marks from 1: "after so many".
#ifndef COORDINATOR_RULES_EVALUATION_H
#define COORDINATOR_RULES_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/status.h"
#include "plan/schedule.h"
#include "coordinator/rules/meter.h"
#include "coordinator/rules/scores.h"
#include "coordinator/rules/work.h"

// The cut that an evaluation reads, and the epochs that it is for.
struct evaluation_plan {
    uint64_t cut;
    uint32_t first_epoch, last_epoch; // or marks; multiples of `every`
};

struct evaluation_cut {
    uint64_t n;
    uint32_t epochs; // whole epochs (or marks) in it
};

// The rule that sets a mark every `every` steps.
struct evaluation_steps {
    const struct schedule *schedule;
    uint64_t every;
    uint32_t round; // sync: closures of a round; else 0
};

// Returns the closure below which all closures must be counted for mark number
// `mark`, from 1, to be reached; the number of all closures if the job has no
// such mark. s->every is not 0, here and below.
uint64_t evaluation_mark(const struct evaluation_steps *s, uint64_t mark);

// Returns how many marks are reached once the first `steps` steps of the job,
// those of the lowest closures, are counted.
uint32_t evaluation_marks(const struct evaluation_steps *s, uint64_t steps);

// Returns the closure below which all must be counted for `epochs` epochs; the
// number of all closures if the job has no more epochs than that.
uint64_t evaluation_epochs_end(const struct schedule *s, uint64_t epochs);

// Returns the number of steps in all closures below `closure`, which may lie
// beyond the last one.
uint64_t evaluation_steps_below(const struct schedule *s, uint64_t closure);

// Sets *out to the next evaluation that is due after `done_epoch`, the last
// epoch (or mark) evaluated, 0: none. `every`: epochs from one evaluation to
// the next. `cuts` are the job's `count` published cuts, oldest first: the
// first that holds the next epoch is read, for all epochs that are due in it.
// Returns true; false, with *out untouched, if no cut holds the next epoch yet
// or `every` is 0.
bool evaluation_next(struct evaluation_plan *out, uint32_t every,
                     uint32_t done_epoch, const struct evaluation_cut *cuts,
                     size_t count);

// Sets needed[i] for each of the `count` cuts, which are as in evaluation_next:
// true if an evaluation that is still to come will read cut i.
void evaluation_needs(bool *needed, uint32_t every, uint32_t done_epoch,
                      const struct evaluation_cut *cuts, size_t count);

// Most ranges that are made from the first range without a result on.
#define EVALUATION_WINDOW 4096

// Floating-point sums of one range. They are added in the ranges' order, each
// once all before it are there: so the result does not depend on the order of
// arrival.
struct evaluation_part {
    double loss;
    struct scores_distances distances;
};

struct evaluation {
    struct evaluation_plan plan;
    struct job *job;
    uint64_t samples, per_range;
    uint64_t count; // ranges in all
    // below low: all have results; from next on: none is made
    uint64_t low, next;
    uint32_t max_blamed;
    uint32_t metrics; // metrics (bits) that ranges have to report sums of
    struct map
        made; // range (low <= it < next) -> its struct evaluated_range, owned
    struct list waiting; // ranges that are not leased, in the order of offers
    struct meter_sums sums; // sums of all ranges, without the loss
    struct scores scores;
    struct evaluation_part total; // sums of the ranges below low
};

// Returns a new evaluation by *plan (copied), without a range, to be freed by
// evaluation_free. With 0 `samples` it is complete at once: only what was
// trained is judged. samples_per_range is not 0; max_blamed is that of each
// range's closure (closure_init). The caller sets e->metrics before the first
// result. NULL: no memory.
struct evaluation *evaluation_new(const struct evaluation_plan *plan,
                                  struct job *job, uint64_t samples,
                                  uint64_t samples_per_range,
                                  uint32_t max_blamed);

// Frees e with its ranges, which no worker may hold any more. NULL is allowed.
void evaluation_free(struct evaluation *e);

// Returns a WAITING range that may be leased to `worker` (its number as a
// witness), owned by e: first those that were leased before, then a new one,
// which is made. Ranges that blame the worker are passed over, unless
// `desperate` is true, and always those that closure_ready holds back for their
// suspected workers. NULL: no range is open, the window is full, or memory is
// short. The range is not leased by this: until it is, a second call may return
// it again. A range that was handed back repeatedly is not held back.
struct work *evaluation_offer(struct evaluation *e, uint64_t worker,
                              bool desperate);

// Returns the work of a range that was offered and not settled with its result
// (evaluation_settle) since. NULL: the range was settled, was not offered yet,
// or does not exist.
struct work *evaluation_range(const struct evaluation *e, uint64_t range);

// Updates e after the lease of w, a range of e, has ended. A WAITING range is
// offered again later. A DONE one, the result of which evaluation_take has, is
// freed, and w with it; its result is added to the totals once all ranges
// before it are settled. Does nothing in other states.
void evaluation_settle(struct evaluation *e, struct work *w);

// Calls fn(arg, w) for each range that is leased, in any order; `fn` may end
// that lease and settle the range.
void evaluation_each_leased(struct evaluation *e,
                            void (*fn)(void *arg, struct work *w), void *arg);

// Takes the result of the range of number `range` (from 0), once, whether it is
// leased or not. Returns SL_OK; SL_EEXIST if the range has a result; SL_ERANGE
// if it was not offered yet or does not exist; SL_EINVAL if `sums` is not of
// all samples of the range, or has more right than samples, or `scores` lacks
// what e->metrics want (scores_fit; if they want nothing, `scores` may be
// NULL). Of *sums only samples, correct and loss_sum are taken. A failure
// changes nothing. The range's closure stays as it is: the caller then makes it
// DONE and calls evaluation_settle.
enum sl_err evaluation_take(struct evaluation *e, uint64_t range,
                            const struct meter_sums *sums,
                            const Sluice__V1__ScoreSums *scores);

// Returns true if every range has a result and was settled.
bool evaluation_complete(const struct evaluation *e);

// ---- results of a complete evaluation

// Returns the mean loss over all samples; 0 without samples.
double evaluation_loss(const struct evaluation *e);

// Returns the share of samples that were classified right; 0 without samples.
double evaluation_accuracy(const struct evaluation *e);

// Returns one metric over all samples; 0 without samples. e->metrics must have
// asked for it, unless it is the accuracy.
double evaluation_metric(const struct evaluation *e, enum spec_metric metric);

#endif
