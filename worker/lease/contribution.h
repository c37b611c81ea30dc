// SPDX-License-Identifier: Apache-2.0
// worker/lease/contribution.h -- the gradient of one step, micro-batch by
// micro-batch.
//
// A step is train.accumulate micro-batches of train.batch samples; the last one
// of an epoch may have fewer, and the last of those may be short. The program
// of the first writes the gradient, that of the others adds to it, in order.
// Each gives the gradient of its share of the mean over all samples of the
// step, so their sum is the step's, whatever their sizes. A step of one
// micro-batch is what it would be without all this, to the bit.
//
//   begin(step)
//     get        the samples of the next micro-batch
//       start    its program may run
//       loss     when it is known
//     put        when its ops were run
//
// Who runs the ops decides what is waited for and what is sent, and when: the
// gradient is whole behind the ops of the last micro-batch that write it, and
// in the vector of the struct step. Before, nobody needs to see any of it.
//
// Threads  the compute thread.
// Memory   What the fields point at is the caller's; a run, from begin to the
//          last put. A batch is held from get to put.
// Units    steps count within the closure.
// Errors   those of reading (data.h), of making a program (job.h) and of the
//          device (step.h).
#ifndef WORKER_LEASE_CONTRIBUTION_H
#define WORKER_LEASE_CONTRIBUTION_H

#include "worker/device/step.h"
#include "worker/lease/job.h"

struct contribution {
    // Whose; fill in before the first begin.
    struct input *input;
    struct job *job;
    struct step *device; // where it computes

    // Of the step: digest and sums are whole when the last micro-batch was got
    // and its loss is known.
    struct input_run *run;
    uint64_t closure;
    uint32_t step;
    uint32_t first, count; // its micro-batches in the run
    uint32_t from, end;    // of those, the ones that are computed here
    uint64_t samples, digest;
    double loss_sum, right_sum;

    // Of the micro-batch under way.
    uint32_t at; // from 0
    struct batch batch;
    bool held; // batch
    struct job_program *p;
};

// The loss or gradient is not finite: is a sample of the step why? Names it in
// `out` then; reads the step's samples again, the first few times of a job.
void contribution_strange(const struct contribution *c, char *out, size_t size);

// The run reads micro-batches and holds the step whole.
void contribution_begin(struct contribution *c, struct input_run *run,
                        uint64_t closure, uint32_t step);

// Before the first get: only the share of one of `members` that compute the
// step together, one run of its micro-batches each. What they compute adds up
// to the step: gradients, digests and sums. False: there is nothing left for
// this one.
bool contribution_share(struct contribution *c, uint32_t members,
                        uint32_t self);

static inline bool contribution_is_first(const struct contribution *c)
{
    return c->at == c->from;
}

static inline bool contribution_is_last(const struct contribution *c)
{
    return c->at + 1 == c->end;
}

enum sl_err contribution_get(struct contribution *c, struct sl_error *err);
enum sl_err contribution_start(struct contribution *c, struct sl_error *err);
void contribution_loss(struct contribution *c);
// Also of one that failed; nothing if no batch is held.
void contribution_put(struct contribution *c);

#endif
