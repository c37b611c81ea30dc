// SPDX-License-Identifier: Apache-2.0
// worker/lease/inner.h -- a worker's own optimizer in mode local, and what it
// changed of the parameters in a contribution.
//
//   begin      the parameters of the round are in the vector
//     update   by the gradient of a batch; per step of the contribution
//   finish     the vector has the round's parameters again, and the gradient's
//              what is to be pushed
//
// A stream (L8) has no common beginning: the base of a shard is what came for
// it last, and lies with the sync, while steps compute in other vectors. Its
// shards are dealt out to fragments, each of which is pushed at a time of its
// own.
//
//   mark       behind each closure
//     change   a shard leaves: what is pushed of it
//     merge    the shard's new base has come
//
// The update is that of a shard (state/shard/apply.h) with the job's optimizer.
// What is pushed of a variable is the change with the sign reversed, so that
// the shard's optimizer goes where the worker went. A moving statistic is
// pushed as it has become.
//
// The moments of the optimizer, its slots, die with the worker. So where the
// job stores them (train.inner.moments), the push of a contribution brings
// those that it left, now and then, and an optimizer that is new asks for them
// (L9).
//
// The rate of a step depends on its closure and its place there alone (D1): a
// schedule counts the steps that one worker would take which had a slot of each
// round.
//
// Threads  the compute thread.
// Memory   One more vector, or two if a contribution is of several closures,
//          and the slots of the optimizer, which exist twice if the job stores
//          them; for a stream one, and two that steps compute in. All vectors
//          of a call are the caller's, of all elements, in host memory.
// Units    elements of the flat vector; steps within the contribution.
// Errors   only inner_new can fail.
#ifndef WORKER_LEASE_INNER_H
#define WORKER_LEASE_INNER_H

#include "trainer/lease/record.h"
#include "trainer/push/sync.h"

struct inner;

// Makes the optimizer of a job in mode local, from its record, which is
// borrowed as long; its shards are placed. Sets *out to NULL, and returns
// SL_OK, for a job in another mode. SL_ENOMEM; SL_EINVAL for a plan that is
// wrong. *out is untouched on failure. `on_device`: the vectors that steps
// compute in are a device's, so a stream makes none.
enum sl_err inner_new(struct inner **out, const struct record *record,
                      bool on_device, struct sl_error *err);
// Frees it. NULL is allowed.
void inner_free(struct inner *in);
// Returns the bytes of its vectors, in a stream on a device those of the sync
// in place of the two that steps compute in; 0 for NULL.
uint64_t inner_bytes(const struct inner *in);

// Returns true if the optimizer has taken no step and is to begin with moments
// that the shards keep; then sets *m, but for its closure and its gate, to what
// is to be pulled: for each closure again, until a step of one is taken, since
// a closure may turn out to be counted. m->to are its own slots: before a step
// is taken inner_go_on has to follow. False for NULL.
bool inner_asks(const struct inner *in, struct sync_moments *m);
// Goes on with the moments that were pulled as inner_asks said, and have seen
// `t` updates; 0: there are none, and the slots begin anew.
void inner_go_on(struct inner *in, uint64_t t);
// Returns true if the push that counts `closure` brings moments. `in` is not
// NULL.
bool inner_leaves(const struct inner *in, uint64_t closure);
// Adds the moments as they are now to a push of one shard, unless one of them
// is not finite, or they have seen no update. *step borrows them until the next
// call for the shard. Only where inner_leaves returned true.
void inner_leave(struct inner *in, uint32_t shard, struct sync_step *step);

// Begins a contribution with the parameters of its round, which are copied.
// Resets the slots, unless the job keeps them. Not in a stream, as
// inner_finish.
void inner_begin(struct inner *in, const float *params);
// Notes the parameters behind the steps of a closure; does nothing in a job of
// which a contribution is of one closure.
void inner_mark(struct inner *in, const float *params);
// Takes back the steps since inner_mark: writes the parameters that it noted to
// `params`. The slots stay as they are. Not in a job of which a contribution is
// of one closure.
void inner_undo(const struct inner *in, float *params);
// Updates `params` by the gradient of step `at` of closure `closure`. The
// gradient is finite.
void inner_update(struct inner *in, uint64_t closure, uint32_t at,
                  const float *grads, float *params);
// Ends the contribution: writes what is to be pushed to `grads`, and the
// parameters that it began with to `params`. After inner_begin.
void inner_finish(struct inner *in, float *params, float *grads);
// Writes what is to be pushed of one shard, which began with `base`, to
// `grads`.
void inner_change(const struct inner *in, uint32_t shard, const float *base,
                  const float *params, float *grads);
// Returns the vectors that steps of a stream compute in, which are *in's: [0]
// the parameters, which the caller sets first, [1] the gradient, at first 0.
// Both are NULL if they are a device's, or *in is not of a stream.
float *const *inner_own(const struct inner *in);
// Returns the fragment that a shard leaves with, in a stream.
uint32_t inner_fragment(const struct inner *in, uint32_t shard);
// Takes the new base of a shard: moves its parameters there, but for the share
// that the job lets a worker keep (train.inner.blend); those that inner_mark
// noted as well. Only in a stream.
void inner_merge(const struct inner *in, uint32_t shard, const float *base,
                 float *params);
// Ends a contribution that is not to be pushed: writes the parameters that it
// began with to `params`. Does nothing for NULL, and if none is under way.
void inner_cancel(struct inner *in, float *params);

#endif
