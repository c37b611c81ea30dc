// SPDX-License-Identifier: Apache-2.0
// worker/device/step.h -- a step, in host memory or on devices.
//
//   begin   a batch; scale, samples and number of the program are set before
//     fresh   parameters of a range are in the host's vector now
//     run     the next ops
//     stats   then the program's loss is known
//     take    then the gradient of a range is in the host's vector
//     finite  whether that gradient is; a device has counted while it computed
//   stop    after a step that is given up, and before any other code writes to
//           the vectors that it read; staged batches are forgotten
//
// With a team (team_work.h) each member computes its part of the batch, and the
// sum of their gradients is made when it is taken: the host looks whether it is
// finite, and clips it.
//
// In host memory run() has computed when it returns, and the rest does nothing.
// On a device run() enqueues, and gradients are on their way as soon as the
// last op of their range is done; so the caller runs ahead: all ops first, then
// take() by take(), while earlier layers still compute.
//
// A step of several micro-batches is as many of these. All but the last are
// `held`: their gradients are not taken, since the next one's are added.
// A step that is clipped by a norm is `kept` whole until clip(), before any
// take(); finite() of its ranges is known with its loss.
//
// Threads  the compute thread.
// Memory   The batch is borrowed from begin to the end of the step, that is to
//          step_put; but on a device a batch that is not pinned is borrowed
//          only for the call. A range of the vectors is the step's from its
//          fresh() to its take().
// Units    ops; shards.
// Errors   as device.h; in host memory those of running. After a failure the
//          step is given up: step_stop. `err` may be NULL.
#ifndef WORKER_DEVICE_STEP_H
#define WORKER_DEVICE_STEP_H

#include "worker/device/device.h"
#include "worker/device/resident.h"
#include "worker/device/team_work.h"

struct step {
    struct device *device; // NULL: computes in host memory
    struct team_job *team; // devices that compute parts of it; NULL: none
    float *params, *grads; // vectors in host memory
    // Set: ops read its parameters, on the device. NULL: those that are fresh.
    struct resident *resident;
    struct pulse *pulse;
    bool held, kept; // apply to the next step_begin

    // The step under way.
    struct program *program;
    struct program_io io; // addresses, of a step in host memory
};

// Returns true if all ops are run first, and the loss and gradients taken then.
static inline bool step_runs_ahead(const struct step *s)
{
    return s->device != NULL || s->team != NULL;
}

// The program that a step runs. `placed` is NULL in host memory, `mates`
// without a team; with a team `program` is that of the first member's part
// (team_own).
struct step_program {
    struct program *program;
    struct device_program *placed;
    struct team_program *mates;
};

// Returns the program of member k for its part of the batch, as many samples as
// its own batch has; the parts lie one behind the other. NULL: there are no
// more. Its rows of tables are written before step_begin, and their gradients
// read after step_take_rows.
struct program *step_member(const struct step_program *p, unsigned k);

// Begins a step of program `p` with a batch. The batch is that of step_get. On
// failure step_stop and step_put follow.
enum sl_err step_begin(struct step *s, const struct step_program *p,
                       const struct batch *batch, struct sl_error *err);
// Tells that the parameters of a range are in s->params. Called in a step, for
// ranges in any order, each before the ops that read it are run.
enum sl_err step_fresh(struct step *s, uint32_t range, struct sl_error *err);
// Makes all of s->params fresh, unless the device holds the vector `name` (not
// 0) already.
enum sl_err step_vector(struct step *s, uint64_t name, struct sl_error *err);
// Sets s->params: ops, of this step and of those to come, read their parameters
// at `params` from now on. Called only if step_runs_ahead is false, since
// devices copy from s->params. The caller sets the old vector again before
// `params` goes.
void step_read_from(struct step *s, float *params);
// Runs ops [first, end), or enqueues them on a device. Called in order, from op
// 0 on.
enum sl_err step_run(struct step *s, uint32_t first, uint32_t end,
                     struct sl_error *err);
// Waits until the program's loss is known. Called after all ops of the forward
// pass were run; where the step runs ahead, after all ops.
enum sl_err step_stats(struct step *s, struct sl_error *err);
// Returns, after step_stats, the program that has the outputs of part `k` of
// the batch; parts lie one behind the other. NULL: there are no more.
const struct program *step_part(const struct step *s, unsigned k);
// Waits until the gradient of a range is in s->grads, summed over the team. May
// be called again. Not called in a step that is held.
enum sl_err step_take(struct step *s, uint32_t range, struct sl_error *err);
// Waits until the gradients of all members' rows of tables are in their
// programs' program_row_grads. Called after all ops were run.
enum sl_err step_take_rows(struct step *s, struct sl_error *err);
// Returns true if a range's gradient is finite: of a range that was taken; or
// of a step that is kept, when all ops were run and the loss is known.
bool step_finite(const struct step *s, uint32_t range,
                 const struct elements *r);
// Clips a step that is kept, and finite. Its program was placed with `model`.
// Called once per step, after step_stats and before the first step_take. A norm
// of 0 is none.
enum sl_err step_clip(struct step *s, const struct model *model,
                      double clipnorm, double global_clipnorm,
                      struct sl_error *err);
// Waits until no op uses the vectors, and forgets what was staged. May be
// called without a step. A failure of the device is dropped.
void step_stop(struct step *s);

// Starts copying the next step's batch to a device; does nothing in host memory
// (s->device NULL). The batch is the caller's again when this returns, unless
// it is pinned: then it is kept, and given back to `in` if no step begins with
// it. Only after all ops of the step under way were run.
enum sl_err step_stage(struct step *s, const struct input_run *run,
                       struct input *in, const struct batch *batch,
                       struct sl_error *err);
// Returns true if the batch of that step was staged: then the step begins with
// it. out->x is NULL if its memory was given back. It stays staged until
// step_begin, so this may be called again. *out is untouched on false.
bool step_staged(struct step *s, const struct input_run *run, uint32_t step,
                 struct batch *out);

// Gets the batch of a step, the one that was staged or the input's; step_put
// puts it back when the step is over. Waits for a batch that has to be read.
// Errors as input_get's; on failure there is nothing to put back.
enum sl_err step_get(struct step *s, struct input *in, struct input_run *run,
                     uint32_t step, struct batch *out, struct sl_error *err);
// Waits until no device reads the batch, and gives it back to `in`; does
// nothing for one that was given back before (x is NULL). Called once per batch
// of step_get.
void step_put(struct step *s, struct input *in, const struct batch *batch);
// Stages the batch of `step` (step_stage) if it has been read; does not wait
// for it. SL_OK, and nothing is staged, in host memory, if a mate has no part
// of the step under way, past the end of the run, and if the batch was staged,
// or could not be read: step_get returns that error. If staging fails the batch
// is put back.
enum sl_err step_look_ahead(struct step *s, struct input *in,
                            struct input_run *run, uint32_t step,
                            struct sl_error *err);

#endif
