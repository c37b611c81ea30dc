// SPDX-License-Identifier: Apache-2.0
// worker/lease/contribution.h -- the gradient of one step, micro-batch by
// micro-batch.
//
// A step is train.accumulate micro-batches of train.batch samples; the last one
// of an epoch may have fewer, and the last of those may be short. The program
// of the first writes the gradient, that of the others adds to it, in order.
// Each gives the gradient of its share of the mean over all samples of the
// step, so their sum is the step's, whatever their sizes. A step of one
// micro-batch is what it would be without all this, to the bit. In mode local
// each micro-batch is a step of the worker's own (inner.h).
//
//   begin(step)
//     get        the samples of the next micro-batch
//       start    its program may run
//       loss     when it is known
//     put        when its ops were run; then the caller adds 1 to `at`
//
// The caller that runs the ops decides what is waited for and what is sent, and
// when: the gradient is whole, in the vector of the struct step, behind the ops
// of the last micro-batch that write it. Before, no reader may use any of it.
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's; a run, from begin to the
//          last put. A batch is held from get to put.
// Units    steps count within the closure.
// Errors   those of reading (data.h), of making a program (job.h) and of the
//          device (step.h). After one the step is given up: contribution_put,
//          step_stop. `err` may be NULL.
#ifndef WORKER_LEASE_CONTRIBUTION_H
#define WORKER_LEASE_CONTRIBUTION_H

#include "worker/device/step.h"
#include "worker/lease/job.h"

struct contribution {
    // Set by the caller before the first begin.
    struct input *input;
    struct worker_job *job;
    struct step *device; // memory and device of the ops
    // Mode local: the gradient of each micro-batch is its own mean, and whole.
    bool apart;

    // The step. Digest and sums are whole when the last micro-batch was got and
    // its loss is known.
    struct input_run *run;
    uint64_t closure;
    uint32_t step;
    uint32_t first, count; // its micro-batches in the run
    // The micro-batches computed here: [from, end) of `count`.
    uint32_t from, end;
    uint64_t samples, digest;
    double loss_sum, right_sum;
    // In an audited round: number of the kernels that computed it so far (A1).
    bool audited; // set by the caller between begin, which clears it, and get
    uint64_t kernels;

    // The micro-batch under way.
    uint32_t at; // its index in the step; moved on by the caller, behind put
    struct batch batch;
    bool held; // `batch` is to be put back
    struct job_program *p;
};

// Looks for a sample of the step that makes its loss or gradient not finite,
// and names it in `out`, a string that is empty before; leaves `out` as it is
// if no sample is to blame, or it names one already. Reads the step's samples
// again, so it looks only the first few times of a job. Between
// contribution_begin and the end of the run.
void contribution_strange(const struct contribution *c, char *out, size_t size);

// Returns true if right gradients of the job have the same bits on every host
// of a kind (kind.h). A team adds up its parts in the order of its devices, so
// it is of a kind, too.
bool contribution_repeatable(const struct worker_job *job);

// Sets `c` to all micro-batches of step `step` of `closure`. `run`, which reads
// micro-batches and has the whole step (job_run), need not be open yet: nothing
// is read. No batch may be held before. Digest and sums are 0 then, and
// `audited` is false.
void contribution_begin(struct contribution *c, struct input_run *run,
                        uint64_t closure, uint32_t step);

// Restricts `c` to the share of member `self` of `members` that compute the
// step together, consecutive micro-batches; to be called before the first
// contribution_get. Gradients, digests and sums of all members add up to the
// step's. Returns false if the share is empty: then contribution_get is not
// called.
bool contribution_share(struct contribution *c, uint32_t members,
                        uint32_t self);

// Returns true if the micro-batch under way is the first one computed here.
static inline bool contribution_is_first(const struct contribution *c)
{
    return c->at == c->from;
}

// Returns true if the micro-batch under way is the last one computed here.
static inline bool contribution_is_last(const struct contribution *c)
{
    return c->at + 1 == c->end;
}

// Takes the samples of the next micro-batch, and waits until they are read;
// contribution_put gives them back. Adds their digest to c->digest. On failure
// none are held. Calls env->found if bad samples were found since the last
// time.
enum sl_err contribution_get(struct contribution *c, struct sl_error *err);
// Sets c->p to the program for the micro-batch (job_program), which may be
// compiled for that. A batch must be held. contribution_start does this as
// well.
enum sl_err contribution_choose(struct contribution *c, struct sl_error *err);
// Chooses the micro-batch's program, sets its numbers (samples, step, in f16
// the loss scale), and begins it on c->device (step_begin), held unless it is
// the last, or `apart`. A batch is held.
enum sl_err contribution_start(struct contribution *c, struct sl_error *err);
// Adds the loss of the micro-batch, summed over samples, to c->loss_sum, and
// its right answers, if the job's loss counts them, to c->right_sum. Once per
// micro-batch, when its loss is known (step_stats).
void contribution_loss(struct contribution *c);
// Returns the number of the kind of this contribution (kind_of): of all that
// decides the bits of a right gradient, the kernel of every op included. To be
// called when all micro-batches of an audited contribution have started.
uint64_t contribution_kind(const struct contribution *c);
// Waits until no device reads the micro-batch's samples, and gives them back
// (step_put); to be called after a failure, too. Does nothing if no batch is
// held. c->at stays: the caller adds 1 to it before the next contribution_get.
void contribution_put(struct contribution *c);

#endif
