// SPDX-License-Identifier: Apache-2.0
// worker/device/step.h -- a step, wherever it computes.
//
//   begin   a batch; scale, samples and number of the program are set before
//     fresh   these parameters are in the host's vector now
//     run     ops that follow those before
//     stats   then the program's loss is known
//     take    then the gradient of a range is in the host's vector
//     finite  is that; a device has counted while it computed
//   stop    of a step that is given up, and before anybody else writes to the
//           vectors that it read; what was staged is forgotten
//
// With a team (team_work.h) each member computes its part of the batch, and the
// sum of their gradients is made when it is taken: it is the host that looks
// whether it is finite, and clips it.
//
// In host memory run() has computed when it returns, and the rest is nothing.
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
//          step_put; on a device one that is not pinned only for the call. A
//          range of the vectors is
//          the step's from its fresh() to its take().
// Units    ops; shards.
// Errors   as device.h; in host memory those of running.
#ifndef WORKER_DEVICE_STEP_H
#define WORKER_DEVICE_STEP_H

#include "worker/device/device.h"
#include "worker/device/resident.h"
#include "worker/device/team_work.h"

struct step {
    struct device *device; // NULL: in host memory
    struct team_job *team; // others that compute parts of it; NULL: none
    float *params, *grads; // the host's
    // The device's own parameters are read; NULL: those that are fresh.
    struct resident *resident;
    struct pulse *pulse;
    bool held, kept; // the next to begin is

    // Of the step under way.
    struct program *program;
    struct program_io io; // in host memory
};

// True if all is run first and taken then.
static inline bool step_runs_ahead(const struct step *s)
{
    return s->device != NULL || s->team != NULL;
}

// What a step runs. `placed` is NULL in host memory, `mates` without a team;
// with one the program is that of the first member's part (team_own).
struct step_program {
    struct program *program;
    struct device_program *placed;
    struct team_program *mates;
};

enum sl_err step_begin(struct step *s, const struct step_program *p,
                       const struct batch *batch, struct sl_error *err);
enum sl_err step_fresh(struct step *s, uint32_t range, struct sl_error *err);
// All of s->params; once for a name, until a range is fresh. Not 0.
enum sl_err step_vector(struct step *s, uint64_t name, struct sl_error *err);
// In host memory: the ops of the step under way, and of those to come, read
// their parameters here from now on.
void step_read_from(struct step *s, float *params);
enum sl_err step_run(struct step *s, uint32_t first, uint32_t end,
                     struct sl_error *err);
enum sl_err step_stats(struct step *s, struct sl_error *err);
// Then, of programs that tell outputs: that of part k of the batch, which is
// what lies behind the parts before it; NULL: there are no more.
const struct program *step_part(const struct step *s, unsigned k);
enum sl_err step_take(struct step *s, uint32_t range, struct sl_error *err);
// Of a range that was taken; or of a step that is kept, when all ops were run
// and the loss is known.
bool step_finite(const struct step *s, uint32_t range,
                 const struct overlap_range *r);
// Of a step that is kept, and finite. `program` was placed with `model`.
enum sl_err step_clip(struct step *s, const struct model *model,
                      double clipnorm, double global_clipnorm,
                      struct sl_error *err);
void step_stop(struct step *s);

// On a device: starts copying the next step's batch, which is not needed any
// more when this returns; unless it is pinned: then it is kept, and given back
// to `in` if it is not begun with. Only after all ops of the step under way
// were run.
enum sl_err step_stage(struct step *s, const struct input_run *run,
                       struct input *in, const struct batch *batch,
                       struct sl_error *err);
// True if that batch was staged: then it is begun with. Its x is NULL if it was
// given back.
bool step_staged(struct step *s, const struct input_run *run, uint32_t step,
                 struct batch *out);

// The batch of a step: that which was staged, or the input's; put back when the
// step is over.
enum sl_err step_get(struct step *s, struct input *in, struct input_run *run,
                     uint32_t step, struct batch *out, struct sl_error *err);
void step_put(struct step *s, struct input *in, const struct batch *batch);
// Stages that batch if it has been read: nobody waits for it here.
enum sl_err step_look_ahead(struct step *s, struct input *in,
                            struct input_run *run, uint32_t step,
                            struct sl_error *err);

#endif
