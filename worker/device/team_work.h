// SPDX-License-Identifier: Apache-2.0
// worker/device/team_work.h -- a job's memory, programs and steps on the mates
// of a team.
//
// A batch is cut by samples, a run for each member in order. Each computes the
// gradient of its part's share of the mean, as if the part were a micro-batch
// (contribution.h): so their sum is the step's, and the bits are those of as
// many micro-batches on one device. Where devices reach each other the sums are
// made on them (device_sum.c). Else, and in a step of which one member has no
// part, they are made in host memory, in the order of the members:
//
//   the first   its gradient of a range -> the host's vector
//   a mate      its gradient of a range -> a vector of its own
//   take        vector += each mate's, mate by mate
//
//   begin    the parts begin, each with its numbers of the front's program
//     fresh    a range of the host's parameters
//     run      as far as its own ops may, with the ranges that are fresh
//     stats    losses and right ones are added to the front's
//     take     of a range; twice is once
//   stop     nothing is under way
//
// Batch norm knows only a part of the batch: each part is normalized by its own
// statistics, and the mean of these, weighted by samples, is pushed
// (compile_options.share). Dropout's masks are those of the whole batch. A mate
// that has an empty part does nothing.
//
// Threads  the compute thread; what is posted runs on the mates'.
// Memory   team_job_free and team_program_free wait. The vectors are the
//          host's, pinned for a device; batches are borrowed until
//          team_free_batch, but for those that a device copies at once: those
//          only for the call.
// Units    elements of the flat vectors; samples; ops.
// Errors   as step.h, of any mate; *out is untouched then. A failure in a call
//          that returns none is that of the next call that waits. `err` may be
//          NULL.
#ifndef WORKER_DEVICE_TEAM_WORK_H
#define WORKER_DEVICE_TEAM_WORK_H

#include "proto/model.h"
#include "worker/compile/compile.h"
#include "worker/compile/overlap.h"
#include "worker/data/input.h"
#include "worker/device/team.h"

struct team_job;
struct team_program;

// Makes the mates' vectors for a job. `model` and the first member's device are
// borrowed; the device is NULL in host memory, and freed after this. *out is
// NULL without a team. `t` may be NULL.
enum sl_err team_job_new(struct team_job **out, struct team *t,
                         const struct model *model, struct device *first,
                         struct sl_error *err);
// Frees the mates' memory, after the job's programs, and waits for them. NULL
// is allowed.
void team_job_free(struct team_job *j);

// Returns the bytes of memory that the mates have for the job; 0 for NULL.
uint64_t team_job_bytes(const struct team_job *j);

// Compiles the mates' programs for a batch, with the options of the whole
// batch, and waits for them. `ranges` is NULL for a program that does not
// train, and borrowed until team_job_free: with the first program that trains,
// sums on the devices are prepared for them; where these have no room, sums are
// made in host memory, which is logged and no failure. `j` is not NULL.
enum sl_err team_program_new(struct team_program **out, struct team_job *j,
                             const struct compile_options *options,
                             const struct elements *ranges, uint32_t count,
                             struct pulse *pulse, struct sl_error *err);
// Frees the mates' programs, and waits for the mates. No step is under way, and
// no mate has a failure that was not taken (team_stop takes it): it would be
// forgotten here, and that mate's program would not be freed. NULL is allowed.
void team_program_free(struct team_program *p);

// Returns mate k's program, for the samples behind the parts of the members
// before it, as many as its batch. NULL: the mate has no part of such a batch,
// or k is not below the number of mates. No step of the programs may be under
// way, unless what is read of it was waited for.
struct program *team_member(const struct team_program *p, unsigned k);

// Adds the kernels that are left out of the mates' programs to *to, which has
// those of the first member's. `p` NULL: adds none.
void team_left_out(struct program_left_out *to, const struct team_program *p);

// Changes *o, the options for the whole batch, to those for the part of member
// `member` (batch, first, share); its batch is 0 if the part is empty. Leaves
// them without a team (`j` NULL).
void team_cut(const struct team_job *j, unsigned member,
              struct compile_options *o);

// Returns how many samples of a batch of `batch` samples are the first
// member's; without a team (`j` NULL) all.
uint32_t team_own(const struct team_job *j, uint32_t batch);

// What the mates need to know of a step.
struct team_step {
    // The first member's program, with its numbers set.
    const struct program *front;
    const struct batch *batch; // the whole batch
    const float *params;       // the host's parameters
    struct pulse *pulse;
    bool held; // gradients are not taken
};
// Begins the mates' parts of a step of `p`, as *s says. Waits for the mates
// only if the batch is not pinned, as it is copied then.
enum sl_err team_begin(struct team_job *j, struct team_program *p,
                       const struct team_step *s, struct sl_error *err);
// Tells the mates that a range of the host's parameters is fresh (step_fresh).
void team_fresh(struct team_job *j, uint32_t range);
// Tells the mates that all of the host's parameters are fresh: the vector
// `name` (step_vector), which a device that holds it need not copy. The step's
// program does not train.
void team_vector(struct team_job *j, uint64_t name);
// Lets the mates run their ops as far as the fresh ranges allow. `all`: the
// first member runs to the end of its ops.
void team_run(struct team_job *j, bool all);
// Returns true if the gradients of the step that has begun are summed on the
// devices. Then team_sum is to be called when the first member has run all ops,
// before anything is taken.
bool team_sums(const struct team_job *j);
// Waits until all mates have done what was posted, then enqueues the sums of
// the step's gradients on all devices (device_sum), into `grads` of the host; a
// range of it is whole once it was taken. If that fails, with SL_ELOST whatever
// the reason is, the devices' waits for each other are ended (team_sever).
enum sl_err team_sum(struct team_job *j, float *grads, struct sl_error *err);
// Waits for the mates' losses, and adds them and the counts of right ones to
// those of `front`; so once per step.
enum sl_err team_stats(struct team_job *j, struct program *front,
                       struct sl_error *err);
// Returns mate k's program, with the outputs of the samples behind the parts of
// the members before it; to be called after team_stats. NULL: the mate has no
// part of the batch, or k is not below the number of mates. The outputs are
// valid until the next team_begin, the program until team_program_free. `j` is
// not NULL.
const struct program *team_outputs(const struct team_job *j, unsigned k);
// Waits for the mates' gradients of a range and adds them to `grads`, which has
// the first member's; where the devices have summed (team_sums), only waits for
// the mates' slices.
enum sl_err team_take(struct team_job *j, float *grads, uint32_t range,
                      struct sl_error *err);
// Waits until the gradients of rows are in the mates' programs.
enum sl_err team_take_rows(struct team_job *j, struct sl_error *err);
// Returns true if the gradient in `grads` of a range that was taken is finite.
bool team_finite(const struct team_job *j, const float *grads, uint32_t range);
// Returns the number of ranges of the step under way.
uint32_t team_ranges(const struct team_job *j);
// Tells the mates that the first member's device is lost, so that they do not
// wait for it.
void team_break(struct team_job *j);
// Waits for all mates and ends the step there; their failures are ignored.
void team_stop(struct team_job *j);

// Returns true if every mate has a part of the step under way, so that all can
// copy the next one's batch meanwhile.
bool team_is_whole(const struct team_job *j);
// Stages a batch on the mates as device_stage does. To be called only if
// team_is_whole. A pinned batch stays on loan from `in` until team_lender
// returns it, or a step begins with it (team_took); the call does not wait for
// its copy. Another batch is copied when the call returns.
enum sl_err team_stage(struct team_job *j, const void *run, struct input *in,
                       const struct batch *batch, struct sl_error *err);
// Returns the input that lent a batch with which no step has begun, and sets
// *out to the batch, which the caller gives back. NULL: there is none, and *out
// is undefined.
struct input *team_lender(struct team_job *j, struct batch *out);
// Returns true if `batch` is the batch on loan: it is not any more, and the
// caller, which begins a step with it, gives it back.
bool team_took(struct team_job *j, const struct batch *batch);
// Has the mates forget the batch that was staged; one that is on loan stays so
// (team_lender). Waits for them; their failures so far are forgotten, here and
// in the next one.
void team_unstage(struct team_job *j);
// Waits until no mate reads the batch, so that its memory may be overwritten.
void team_free_batch(struct team_job *j, const struct batch *batch);

#endif
