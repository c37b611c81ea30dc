// SPDX-License-Identifier: Apache-2.0
// trainer/lease/closures.h -- the closures of one contribution in mode local,
// each with a lease of its own.
//
// A worker may take the steps of several closures before it meets the others
// (train.inner.closure). One push then counts all of them (L5). The first
// lease is the task's; the others are taken from those that wait. What becomes
// of the push becomes of each lease.
//
//   begin
//     add      the steps of a closure were taken
//     next     another lease, the steps of which follow
//     undo     its steps are not to be pushed
//   fill       what the push counts
//   end        the outcome of all leases but the first
//
// In a stream (L8) closures follow each other without an end, and each fragment
// of the parameters is pushed by itself: a closure ends when all of them have
// counted it.
//
// Threads  the thread that computes.
// Memory   leases are the caller's, from `next` until closures_end. A lease
//          that gets its outcome here has its reading ended (env->put).
// Units    closures, of one step each.
// Errors   a lease that cannot be begun gets its outcome, and there is none.
#ifndef TRAINER_LEASE_CLOSURES_H
#define TRAINER_LEASE_CLOSURES_H

#include "plan/fragments.h"
#include "trainer/lease/lease.h"
#include "trainer/push/sync.h"

// Where further leases come from, and go to.
struct closures_env {
    const struct sl_clock *clock;
    // Takes the next waiting lease, if it trains the same job; NULL if none
    // does. NULL: a contribution is of the task's lease alone.
    struct lease *(*next)(void *arg);
    // Starts reading the batches of a lease of `next`, and ends it. NULL: the
    // caller reads them itself.
    enum sl_err (*get)(void *arg, struct lease *l, struct sl_error *err);
    void (*put)(void *arg, struct lease *l);
    // Gives a lease of `next`, which has its outcome, back at once. NULL if
    // `next` is.
    void (*give)(void *arg, struct lease *l);
    void *arg;
};

// What was computed of a closure.
struct closures_steps {
    uint32_t count; // steps of its worker
    uint64_t samples, digest;
    double loss_sum, right_sum; // NAN: not known
};

struct closures {
    struct closures_env env;
    struct lease *first; // the task's
    uint32_t *alone;     // contributions that are to be of one closure (L6)
    bool streams;
    uint32_t most;  // closures that one push may count
    uint32_t taken; // leases since closures_begin
    uint32_t added; // closures since closures_begin
    uint32_t count; // closures of which the steps were taken
    uint32_t steps; // steps of these closures
    struct closures_one {
        struct lease *lease;
        uint32_t number; // in the order of closures_add, from 0
        bool skipped;    // a step was not finite, and it changed nothing
        struct closures_steps of;
    } one[WIRE_KEYS_MAX + 1]; // a last closure may have failed
    // closures_fill uses the first row, closures_cover that of its fragment.
    struct wire_push_key keys[FRAGMENTS_MOST][WIRE_KEYS_MAX];
    uint64_t *incarnations; // of the shards that the push goes to; owned
};

// Begins with the lease of a task, `first`. Does nothing but that for a job of
// which the contributions are of one closure. *env is copied; *alone, which the
// caller keeps between tasks of the job, is 0 at first.
void closures_init(struct closures *c, const struct closures_env *env,
                   struct lease *first, uint32_t *alone);

// Begins a contribution. Leases that an earlier one left, but the task's, are
// handed back at once (env->give).
void closures_begin(struct closures *c);

// Adds a closure, of which the steps *of were taken. Its lease, unless it is
// the task's, only waits for the push from now on, and does not count as
// running.
void closures_add(struct closures *c, struct lease *l,
                  const struct closures_steps *of);

// Returns the next lease of the contribution, which is read; it counts as
// running, and its beats are those of `first`, too; NULL if it has the closures
// that `first`, the task's lease, or the job says, or has one alone
// (c->alone, which this counts down); if no lease waits, or env->next is
// NULL; if `first` or another of its leases is to end; or if the next one
// cannot be read: that has its outcome then.
struct lease *closures_next(struct closures *c, struct lease *first);

// Returns true if lease `l`, of closures_next, is over or to end, but the
// contribution goes on without it; then its outcome is set, and its reading
// ended. False where nothing would be left of the contribution: no closure was
// added to it (in a stream that may be), or `first` is over; and for `first`.
bool closures_undo(struct closures *c, struct lease *first, struct lease *l);

// Sets samples, digest and further closures of *step, which is to be pushed,
// and, if there are further ones, notes the incarnations that it is pushed to
// (closures_note). *step borrows from c. Does nothing if no closure was added.
void closures_fill(struct closures *c, const struct sync *sync,
                   struct sync_step *step);

// Notes what the contribution changed, as lease_change of its first lease does.
// Returns true if it is not to be pushed but handed back. If it has several
// closures, any of them could be why: then the outcome does not say that it was
// too large, and the next contributions, as many as one may have closures, have
// one closure each.
bool closures_change(struct closures *c, const struct model *model,
                     float *grads, bool finite);

// Sets the outcome of all leases but the first, the task of which ended with
// `result`: what it is believed to be, if the shards are those that were pushed
// to; else, and with SYNC_FAILED, they are handed back (W1). Adds what was
// counted to their progress. After SYNC_PARTLY the next contributions have one
// closure each. `skipped`: the push was not applied. Frees what c owns.
void closures_end(struct closures *c, const struct sync *sync,
                  enum sync_result result, bool skipped);

// ---- a stream (L8): pushes of fragments, each of which counts what it has not
// counted before

// Notes the incarnations that all pushes of the stream go to; a further call
// does nothing until closures_begin. Without memory for them no lease but the
// first completes: closures_counted and closures_end hand them back.
void closures_note(struct closures *c, const struct sync *sync);

// Sets the closures of *step, a push of `fragment`: those from number `since`
// on. *step borrows from c. Returns false if there are none.
bool closures_cover(struct closures *c, uint32_t fragment, uint32_t since,
                    struct sync_step *step);

// Ends the oldest closure, of which there must be one: every fragment was
// pushed with it, and answered. Its lease gets its outcome and progress, and
// goes back at once (env->give); the task's lease does not.
void closures_counted(struct closures *c, const struct sync *sync);

// Hands all leases but the task's back, after a push with another result than
// SYNC_OK: what was pushed of them is done again, after SYNC_PARTLY one by one
// (L6). They go back at once after SYNC_AGAIN, else with the task.
void closures_drop(struct closures *c, enum sync_result result);

#endif
