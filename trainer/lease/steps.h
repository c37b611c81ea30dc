// SPDX-License-Identifier: Apache-2.0
// trainer/lease/steps.h -- the driver of a training lease: which step is next,
// this range of its gradient is whole, skip it, and the end.
//
//   ASK ---> STEP ---> STEP ... ---> SETTLE      ASK ---> DONE
//    ^         |                        |
//    +-- again +------------------------+
//
// ASK asks the shards where the closure stands. STEP: the caller computes
// `step` and sends each range of its gradient when it is whole; then it moves
// on. SETTLE waits for the last answers, and the shards are asked once more.
// DONE: every shard has counted every step. If what was known of a shard does
// not hold any more (SYNC_AGAIN), the step counts for nothing, and the shards
// are asked again (W1). A lease that drains ends behind the step under way.
//
// The caller decides how a gradient comes about and on which thread: a model of
// layers (worker), a program of the user's (lib), or a group (hybrid_lead.h).
// The driver has no thread and no clock and never waits: a call that is not
// done returns SYNC_BUSY and is made again when the sync has news (`await`).
//
// Threads  one: that of the sync.
// Memory   lease, sync and rule are the caller's and outlive the driver.
// Units    steps of the closure; ranges of the sync; milliseconds in `m`.
// Errors   as sync.h; with SYNC_FAILED s->err is set. After a result that is
//          not SYNC_OK, SYNC_BUSY or SYNC_AGAIN only steps_conclude follows.
#ifndef TRAINER_LEASE_STEPS_H
#define TRAINER_LEASE_STEPS_H

#include "trainer/base/nonfinite.h"
#include "trainer/lease/lease.h"
#include "trainer/lease/tally.h"
#include "trainer/push/sync.h"

enum steps_at { STEPS_ASK, STEPS_STEP, STEPS_SETTLE, STEPS_DONE };

struct steps {
    struct lease *lease;
    struct sync *sync;
    struct nonfinite *nonfinite; // the job's rule
    struct lease_metrics m;      // the caller adds its times
    struct tally tally;
    struct sl_error err;
    enum steps_at at;
    uint32_t step;  // step to compute; STEPS_DONE: the number of steps
    uint32_t fresh; // ranges that steps_fresh has found fresh
    bool skipped;   // part of the step under way is not applied
};

// Begins training lease `l`, with the metrics that it has so far. The sync is
// not opened yet. *s need not be zeroed; there is nothing to free.
void steps_init(struct steps *s, struct lease *l, struct sync *sync,
                struct nonfinite *nonfinite);

// Opens the closure at the sync; the caller closes it in any case. Called once,
// after steps_init.
enum sync_result steps_open(struct steps *s);

// Makes one move towards the next step; s->at and s->step say how far it came.
// In STEPS_STEP the step under way was sent before. SYNC_OK; SYNC_BUSY: not
// done yet, call it again; SYNC_STOPPED: the gate is closed, or the lease
// drains and is not done, and its gate is closed now. Never SYNC_AGAIN: it asks
// the shards again by itself. In STEPS_DONE it does nothing.
enum sync_result steps_move(struct steps *s);

// Returns true while further moves follow before there is a step or the end.
static inline bool steps_between(const struct steps *s)
{
    return s->at == STEPS_ASK || s->at == STEPS_SETTLE;
}

// Makes one move as steps_move does, but waits until it is done.
enum sync_result steps_go(struct steps *s);

// Gives up the step under way after a call has returned SYNC_AGAIN: the next
// steps_move asks the shards again. Reports as steps_report does: what
// steps_note said of the step is added if shard 0 has counted it, else dropped.
void steps_again(struct steps *s);

// Checks that all ranges are fresh: their parameters are in the vector, and
// their gradients may be written; then adds what was counted to the lease's
// progress. SYNC_BUSY: not yet, call it again. In STEPS_STEP, before the first
// range is sent; may be called again.
enum sync_result steps_fresh(struct steps *s);

// Makes all ranges fresh as steps_fresh does, but waits until they are.
enum sync_result steps_fresh_wait(struct steps *s);

// Sends range number `range`, the gradient of which is whole in the vector, and
// `finite` or not. The first range of a step that is not finite is judged
// (nonfinite.h): the range is then counted and not applied, or the job fails.
// So is each further one, without judging; finite ranges of the step are
// applied. Each range once per step, after steps_fresh; *step is copied. The
// result is that of the sync's `send`, or SYNC_FAILED.
enum sync_result steps_whole(struct steps *s, uint32_t range,
                             const struct sync_step *step, bool finite);

// Sends range `range` of a step that is skipped, without judging it: its shard
// counts it and applies nothing. Marks the step as skipped. The result is that
// of the sync's `send`.
enum sync_result steps_skip(struct steps *s, uint32_t range,
                            const struct sync_step *step);

// Judges the step under way, which is not finite, and marks it as skipped;
// once. s->m.strange names a sample to blame, or is "". SYNC_OK; SYNC_FAILED:
// the job fails.
enum sync_result steps_judge(struct steps *s);

// Notes what the lease's progress gets of the step under way when shard 0 has
// counted it: its samples and sums, which are left out if the step is skipped.
// Once per step, in STEPS_STEP; before steps_end. A sum that is NAN is not
// known.
void steps_note(struct steps *s, uint64_t samples, double loss_sum,
                double right_sum);

// Ends the step under way: all of it was sent. A step that is not skipped ends
// the row of those that are not finite. Before the next steps_move.
void steps_end(struct steps *s);

// Adds what the shards have counted meanwhile to the lease's progress. What
// steps_note said is used up by that, counted or not.
void steps_report(struct steps *s);

// Sets the lease's outcome for `result`, with which the steps have ended.
// SYNC_OK: they are done. Once, before the sync opens another closure.
// SYNC_BUSY is no end: it does nothing.
void steps_conclude(struct steps *s, enum sync_result result);

#endif
