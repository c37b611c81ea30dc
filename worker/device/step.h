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

// Returns true if the caller is to run all ops before it takes the loss and the
// gradients: the step computes on a device, or with a team.
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

// Returns the program of member k of the team (0: this worker's own device) for
// its part of the batch; its own batch is as large as that part, and the parts
// lie one behind the other. NULL: there are no more. The rows of tables that it
// reads are written before step_begin, and their gradients read after
// step_take_rows.
struct program *step_member(const struct step_program *p, unsigned k);

// Begins a step of program `p` with the batch of step_get. On failure the
// caller calls step_stop and step_put.
enum sl_err step_begin(struct step *s, const struct step_program *p,
                       const struct batch *batch, struct sl_error *err);
// Notes that the parameters of a range in s->params are those of this step, and
// copies them to devices. Called in a step, for ranges in any order, each
// before the ops that read it are run.
enum sl_err step_fresh(struct step *s, uint32_t range, struct sl_error *err);
// Copies all of s->params to the devices, unless they hold the vector with this
// `name` (a number, not 0, for these contents) already. In a step, before its
// ops are run, in place of step_fresh; with a team only of a program that does
// not train.
enum sl_err step_vector(struct step *s, uint64_t name, struct sl_error *err);
// Sets s->params to `params`, where the ops of this step and of later ones read
// their parameters from now on. Only if step_runs_ahead is false, since devices
// copy from s->params. The caller sets the old vector again before `params` is
// freed.
void step_read_from(struct step *s, float *params);
// Runs ops [first, end) or, on a device, enqueues them. To be called in order,
// from op 0 on; on a device `first` and `end` are as for device_run.
enum sl_err step_run(struct step *s, uint32_t first, uint32_t end,
                     struct sl_error *err);
// Waits until the program's loss (program_loss_sum) is known, with a team that
// of the whole batch; of a step of a team that is kept also for all gradients
// (step_take). Once per step, after all ops of the forward pass were run; if
// step_runs_ahead, after all ops.
enum sl_err step_stats(struct step *s, struct sl_error *err);
// Returns the program that has the outputs of part `k` of the batch, to be
// called after step_stats; the parts lie one behind the other. NULL: there are
// no more.
const struct program *step_part(const struct step *s, unsigned k);
// Waits until the gradient of a range, summed over the team, is in s->grads,
// and beats s->pulse if step_runs_ahead. May be called again. Not in a step
// that is held.
enum sl_err step_take(struct step *s, uint32_t range, struct sl_error *err);
// Waits until the gradients of all members' rows of tables are in their
// programs' program_row_grads. Called after all ops were run.
enum sl_err step_take_rows(struct step *s, struct sl_error *err);
// Returns true if the gradient of range number `range`, with the elements *r,
// is finite. The range was taken; or the step is kept, all its ops were run,
// and its loss is known.
bool step_finite(const struct step *s, uint32_t range,
                 const struct elements *r);
// Clips the gradient of a step that is kept, and finite, by the two norms; a
// norm of 0 is none. On a device without a team it also begins the copies that
// step_take waits for. The program was placed with `model`. Called once per
// step, after step_stats and before the first step_take.
enum sl_err step_clip(struct step *s, const struct model *model,
                      double clipnorm, double global_clipnorm,
                      struct sl_error *err);
// Waits until no op uses the vectors, gives up a step that is under way, and
// gives staged batches back. May be called without a step. An error of the
// device is ignored; if it is lost, the devices of a team wait for each other
// no more (team_break).
void step_stop(struct step *s);

// Begins to copy the next step's batch to the devices; does nothing in host
// memory (s->device NULL). Only after all ops of the step under way were run.
// The batch is the caller's again when this returns, unless it is pinned: then
// the step keeps it, and gives it back to `in` if no step begins with it. After
// a failure it is the caller's in any case.
enum sl_err step_stage(struct step *s, const struct input_run *run,
                       struct input *in, const struct batch *batch,
                       struct sl_error *err);
// Returns true, with the batch in *out, if the batch of step `step` of `run` is
// staged, so that the step begins with it; false, with *out untouched, if not.
// It stays staged until step_begin, so this may be called again. out->x is NULL
// if its memory was given back.
bool step_staged(struct step *s, const struct input_run *run, uint32_t step,
                 struct batch *out);

// Gets the batch of a step, the one that was staged or the input's; step_put
// puts it back when the step is over. Waits for a batch that has to be read.
// Errors as input_get's; on failure there is nothing to put back.
enum sl_err step_get(struct step *s, struct input *in, struct input_run *run,
                     uint32_t step, struct batch *out, struct sl_error *err);
// Waits until no device reads the batch, and gives it back to `in`; does
// nothing for one that was given back before (x is NULL). Called once per batch
// of step_get, after step_stats or step_stop: failures of a team's mates that
// were not taken by then are forgotten.
void step_put(struct step *s, struct input *in, const struct batch *batch);
// Stages the batch of step `step` (step_stage) if that has been read; does not
// wait for it. Returns SL_OK also if nothing is staged: in host memory; if a
// mate has no part of the step under way; past the end of the run; if the batch
// has ids and is not pinned; if it is staged already, or could not be read,
// which step_get will say. If staging fails, the batch is put back.
enum sl_err step_look_ahead(struct step *s, struct input *in,
                            struct input_run *run, uint32_t step,
                            struct sl_error *err);

#endif
