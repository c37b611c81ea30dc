// SPDX-License-Identifier: Apache-2.0
// worker/compile/program.h -- a model made into a list of kernel calls.
//
// compile() makes a program for one batch size: the ops of the forward pass
// with the loss, then (for training) those of the backward pass. An argument
// is a place and an offset; the addresses of the places are given when it
// runs, so one program works on any parameter vector. Gradients are written
// straight into the flat gradient vector, at the offset that the variable has
// in the flat parameter vector; batch norm's statistics of the batch are
// written there likewise.
//
// Which op reads or writes which elements of the two vectors is in the args:
// overlap.h makes of it when a shard must be fresh and when it may be sent.
//
// Threads  the compute thread: that of the kern_dev.
// Memory   program_free. The dev outlives it. Activations and workspace lie in
//          a program_memory that the programs of a job share; programs that
//          share one do not run interleaved.
// Units    offsets are bytes; ops are counted from 0.
// Errors   of running: those of kern_run.
#ifndef WORKER_COMPILE_PROGRAM_H
#define WORKER_COMPILE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "kernels/kern.h"
#include "worker/data/pulse.h"

enum program_place {
    PROGRAM_NOWHERE,
    PROGRAM_ARENA,
    PROGRAM_PARAMS,
    PROGRAM_GRADS,
    PROGRAM_X,
    PROGRAM_LABELS,
    PROGRAM_CONSTANTS, // the program's own: ones, zeroes, a causal mask
    PROGRAM_SCALE,     // f32[1]: what the loss's gradient is multiplied by
    PROGRAM_STATS,     // f64[2] of the loss
    PROGRAM_OUTPUTS,   // f32[batch, outputs] that the loss reads; if asked for
    PROGRAM_KEYS,      // i64[2] per dropout: {seed, step}
    PROGRAM_UNSCALE,   // f32[1]: 1 / loss scale
    PROGRAM_PLACES
};

struct program_arg {
    enum program_place place;
    size_t offset; // of the tensor
    size_t bytes;  // of the tensor
};

struct program_op {
    struct kern_plan *plan; // the program's; equal ops share one
    enum kern_op op;
    uint32_t node;         // of the model, for errors
    uint32_t args, inputs; // the first `inputs` are read, the others written
    struct program_arg arg[KERN_IO];
};

// Grown to what the largest program of a job needs.
struct program_memory {
    struct kern_dev *dev;
    struct kern_mem arena, workspace;
    uint64_t moved; // how often an address here has changed
};
void program_memory_release(struct program_memory *m); // zeroes are allowed

struct program {
    struct kern_dev *dev;
    struct program_memory *memory; // shared
    struct program_op *ops;
    uint32_t count, capacity;
    struct kern_plan **plans; // owned
    uint32_t plans_count, plans_capacity;
    uint32_t forward; // ops [0, forward): forward pass and loss
    uint32_t batch;
    bool train, add;    // as compile() was told
    size_t real;        // bytes of a real number: 4; 8 in tests of gradients
    double loss_rows;   // rows that stats sums over, per sample
    uint8_t *constants; // owned
    size_t constants_bytes;
    uint64_t *seeds; // owned: of each dropout
    int64_t *keys;   // owned: {seed, step} of each
    uint32_t dropouts;
    double scale; // of the loss's gradient, before the loss scale
    double loss_scale;
    _Alignas(8) uint8_t scale_space[8]; // both multiplied, as f32 or f64
    float unscale;                      // 1 / loss_scale
    double stats[2];
    float *outputs;           // owned; NULL: nobody asked for them
    uint32_t per_sample;      // so many of each
    bool logits;              // they are; else what the model says
    uint64_t samples, number; // as they were set last, for other programs
    size_t arena_bytes, workspace_bytes;
};

struct program_io {
    void *params; // flat vectors
    void *grads;  // NULL for one that does not train
    const void *x;
    const void *labels;
    struct pulse *pulse; // beats with every op; NULL: nobody looks
};

// Runs ops [first, end), on a host backend.
enum sl_err program_run(struct program *p, const struct program_io *io,
                        uint32_t first, uint32_t end, struct sl_error *err);

// Enqueues ops [first, end) with the places at these addresses, all in the
// dev's own memory. `stream` is NULL on a host backend.
enum sl_err program_enqueue(struct program *p, struct kern_stream *stream,
                            uint8_t *const at[PROGRAM_PLACES], uint32_t first,
                            uint32_t end, struct pulse *pulse,
                            struct sl_error *err);

// What the program itself holds in host memory for a place: constants, scale,
// keys, and space for stats and outputs. A device has a copy. Nothing for the
// others.
struct kern_mem program_own(struct program *p, enum program_place place);

// Why a call of this dev failed: its own words, or what the code means.
const char *program_fault(struct kern_dev *dev, enum sl_err rc);

// For dropout: masks are a function of (seed, this number, layer, element). The
// number of a step, or where steps have several micro-batches, of that.
void program_set_step(struct program *p, uint64_t number);

// The loss is the mean over so many samples: the batch's own at first; of a
// step of several micro-batches, all of the step's, so that their gradients'
// sum is the step's.
void program_set_samples(struct program *p, uint64_t samples);

// Of a program in f16: its loss's gradient is multiplied by this before it goes
// back through the layers, and what comes out is divided by it. 1 at first; a
// program in another precision keeps that.
void program_set_loss_scale(struct program *p, double loss_scale);

// After the forward pass: the sum over the batch's samples of their losses,
// and of what the loss counts as right (classes hit; shares of bits right;
// for mean squares, absolute errors).
double program_loss_sum(const struct program *p);
double program_right_sum(const struct program *p);

void program_free(struct program *p); // NULL is allowed

#endif
