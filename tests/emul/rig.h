// SPDX-License-Identifier: Apache-2.0
// tests/emul/rig.h -- a small net and its steps, on any device: what a worker
// does, without leases.
//
// In place of the sync, gradients are applied as they are taken, and everything
// that a step must not read any more is spoilt. Data and parameters are the
// same for every device.
#ifndef TESTS_EMUL_RIG_H
#define TESTS_EMUL_RIG_H

#include "tests/harness/t.h"
#include "worker/compile/compile.h"
#include "worker/device/step.h"

// examples/imagenette.yaml, of images of 8 x 8: the same ops and variables.
extern const char rig_imagenette[];

#define RANGES 3
#define PROGRAMS 3
#define LARGEST 6

// Of the rigs that are opened next: NULL is a net of even sizes, and 0 is f32.
extern const char *rig_net;
extern enum kern_dtype rig_compute;
extern bool rig_bytes;  // x is bytes, of which the first op makes numbers
extern bool rig_proves; // products prove themselves first; slow
extern bool rig_pinned; // batches come in the device's host memory
extern double rig_clipnorm, rig_global_clipnorm; // 0: not clipped

struct placed {
    struct program *program;
    uint32_t batch;
    struct overlap overlap;
    struct device_program *at;
    struct team_program *mates;
};

struct rig {
    struct kern_dev *dev;
    struct team *team;
    struct model *model;
    struct program_memory memory;
    struct elements ranges[RANGES];
    uint32_t ranges_count;
    struct placed placed[PROGRAMS];
    struct step step;
    float *own; // both vectors, in host memory
    // Of a batch and the next; spoilt when they are not needed any more.
    float *x[2];
    int32_t *labels[2];
    struct kern_mem pinned[4]; // they lie there, with rig_pinned
    size_t features;
    struct input_run run; // only its address counts
    double loss;          // of the last step
    uint32_t bad;         // ranges of it whose gradient is not finite
    struct sl_error err;
};

// The same for every device.

// `device` as kern_open has it, or several as team.h has them; parameters in so
// many ranges. Also one that was not opened is to be closed.
enum sl_err rig_open(struct rig *r, const char *device, uint32_t ranges);
void rig_close(struct rig *r);

// The program for such batches, made when first wanted.
enum sl_err rig_place(struct rig *r, bool train, uint32_t batch,
                      struct placed **out);
struct batch rig_batch(struct rig *r, uint32_t step, uint32_t n);
struct step_program rig_step_program(const struct placed *p);
// All ops of the step that has begun.
enum sl_err rig_run_all(struct rig *r, const struct placed *p);
// A whole step. next_n: samples of the one after it, if that is to be staged.
enum sl_err rig_train(struct rig *r, uint32_t step, uint32_t n,
                      uint32_t next_n);
// With the parameters `w`, which have this name.
enum sl_err rig_evaluate(struct rig *r, const float *w, uint64_t name);

#endif
