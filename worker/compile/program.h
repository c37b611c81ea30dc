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
// The args say which op reads or writes which elements of the two vectors:
// overlap.h finds by them when a shard must be fresh and when it may be sent.
//
// Threads  the compute thread: that of the kern_dev.
// Memory   program_free. The dev outlives it. Activations and workspace lie in
//          a program_memory that the programs of a job share; programs that
//          share one do not run interleaved.
// Units    offsets are bytes; ops are counted from 0.
// Errors   of running: those of kern_run. `err` may be NULL.
#ifndef WORKER_COMPILE_PROGRAM_H
#define WORKER_COMPILE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "kernels/kern.h"
#include "trainer/base/pulse.h"

enum program_place {
    PROGRAM_NOWHERE,
    PROGRAM_ARENA,
    PROGRAM_PARAMS,
    PROGRAM_GRADS,
    PROGRAM_X,
    PROGRAM_LABELS,
    PROGRAM_CONSTANTS, // the program's own: ones, zeroes, a causal mask
    PROGRAM_SCALE,     // f32[heads]: factors of the losses' gradients
    PROGRAM_STATS,     // f64[heads, 2] of the losses
    PROGRAM_OUTPUTS,   // f32[batch, outputs] that the loss reads; optional
    PROGRAM_KEYS,      // i64[2] per dropout: {seed, step}
    PROGRAM_UNSCALE,   // f32[1]: 1 / loss scale
    PROGRAM_ROWS,      // f32[batch, dim] by layer with rows of a table
    PROGRAM_ROW_GRADS, // likewise their gradients, if it trains
    PROGRAM_PLACES
};

struct program_arg {
    enum program_place place;
    size_t offset; // bytes from the place's start to the tensor, or view of it
    size_t bytes;  // bytes from there to the tensor's end
};

struct program_op {
    struct kern_plan *plan; // owned by the program; equal ops share one
    enum kern_op op;
    uint32_t node;         // model's node, for errors
    uint32_t args, inputs; // the first `inputs` are read, the others written
    struct program_arg arg[KERN_IO];
};

// Memory shared by the programs of a job, as large as the largest one needs.
struct program_memory {
    struct kern_dev *dev;
    struct kern_mem arena, workspace;
    uint64_t moved; // how often an address has changed
};
// Frees the arena and the workspace. The caller has waited for what was
// enqueued with them (kern_backend.stream_sync), and programs that share *m
// must not run any more. Counts as a move (`moved`). m->dev stays, so that *m
// may be given to compile() or released again. All zeroes is allowed.
void program_memory_release(struct program_memory *m);

// A layer with rows of a table (model_node.table): what it reads of them, one
// vector per sample, and the gradient of that.
struct program_rows {
    uint32_t dim;
    size_t offset; // bytes, in program.rows and program.row_grads
};

// Kernels that were left out, as wrong or as they refused to run, when a
// program's ops were planned.
struct program_left_out {
    uint64_t set; // number that is equal where the same are left out; 0: none
    unsigned count;
    char first[256]; // one of them in words; empty: none
};

// A part of the loss: that of an output, or, behind those of several outputs,
// the penalties.
struct program_head {
    double rows;   // rows per sample that its stats sum over
    double weight; // its factor in the loss
};
#define PROGRAM_HEADS_MAX 17 // outputs, and the penalties

struct program {
    struct kern_dev *dev;
    struct program_memory *memory; // shared
    struct program_op *ops;
    uint32_t count, capacity;
    struct kern_plan **plans; // owned
    uint32_t plans_count, plans_capacity;
    uint32_t forward; // ops [0, forward): forward pass and loss
    uint32_t batch;
    bool train, add;         // from the options of compile()
    enum kern_dtype compute; // type of activations and products
    size_t real; // bytes of a real number: 4; 8 in tests of gradients
    struct program_head head[PROGRAM_HEADS_MAX];
    uint32_t heads;     // how many
    uint8_t *constants; // owned
    size_t constants_bytes;
    uint64_t *seeds; // owned; by dropout
    int64_t *keys;   // owned; {seed, step} by dropout
    uint32_t dropouts;
    double loss_scale;
    // By head, as f32 or f64: the factor of its loss's gradient.
    _Alignas(8) uint8_t scale_space[8 * PROGRAM_HEADS_MAX];
    float unscale; // 1 / loss_scale
    double stats[2 * PROGRAM_HEADS_MAX];
    float *outputs;      // owned; NULL: not wanted
    uint32_t per_sample; // outputs per sample
    bool logits;         // outputs are logits; else the model's own output
    struct program_rows *tables; // owned; by model_node.table
    uint32_t tables_count;
    uint8_t *rows, *row_grads; // owned; real numbers
    size_t rows_bytes;
    uint64_t samples, number; // as set last, for other programs
    size_t arena_bytes, workspace_bytes;
    struct program_left_out left_out;
};

struct program_io {
    void *params; // flat vectors
    void *grads;  // NULL for a program that does not train
    const void *x;
    const void *labels;
    struct pulse *pulse; // beats with every op; may be NULL
};

// Runs ops [first, end) on a host backend (else SL_ENOTSUP), and has computed
// them when it returns. `end` is at most p->count; the ops before `first` have
// run. After a failure what the ops write is undefined. Beats io->pulse with
// each op.
enum sl_err program_run(struct program *p, const struct program_io *io,
                        uint32_t first, uint32_t end, struct sl_error *err);

// Enqueues ops [first, end) on `stream`, NULL on a host backend; at[place] is
// the address of each place, in the dev's own memory. `at` and `pulse`, which
// may be NULL, are used during the call only. What was enqueued before a
// failure may still run.
enum sl_err program_enqueue(struct program *p, struct kern_stream *stream,
                            uint8_t *const at[PROGRAM_PLACES], uint32_t first,
                            uint32_t end, struct pulse *pulse,
                            struct sl_error *err);

// Returns the program's own host memory for a place, valid as long as the
// program lives: constants, scales, keys, rows, and the space for stats,
// outputs and gradients of rows; a device has a copy of it. 0 bytes where this
// program has none (no outputs wanted, not trained), and for other places.
struct kern_mem program_own(struct program *p, enum program_place place);

// Returns a text that says why a call of this dev failed: the device's own
// words, valid until its next call, or the text of `rc`; never NULL.
const char *program_fault(struct kern_dev *dev, enum sl_err rc);

// Sets the number that dropout's masks depend on, with seed, layer and element:
// the number of the step, or of the micro-batch if steps have several. Like the
// next two functions to be called before the step begins.
void program_set_step(struct program *p, uint64_t number);

// Sets the number of samples that the loss is a mean over: the batch's own at
// first; for a step of several micro-batches all of the step's, so that the sum
// of their gradients is the step's. `samples` is above 0.
void program_set_samples(struct program *p, uint64_t samples);

// Sets the loss scale of a program in f16: the loss's gradient is multiplied by
// it before it goes back through the layers, and the variables' gradients are
// divided by it. It is 1 at first, and has to stay that in a program in another
// precision. `loss_scale` is above 0.
void program_set_loss_scale(struct program *p, double loss_scale);

// Returns where the caller writes what a layer reads of its table, dim elements
// for each sample of the batch, before the step begins.
static inline float *program_rows(struct program *p, uint32_t table)
{
    return (float *)(void *)(p->rows + p->tables[table].offset);
}
// Returns the gradient of that, times the loss scale: in a program that trains,
// after all ops were run (on a device after step_take_rows).
static inline const float *program_row_grads(const struct program *p,
                                             uint32_t table)
{
    return (const float *)(const void *)(p->row_grads +
                                         p->tables[table].offset);
}

// Returns the sum over the batch's samples of their losses, of all outputs,
// each times its weight where samples have weights, and, once per sample, of
// the penalties on the variables' sizes. To be called after the forward pass,
// on a device after step_stats.
double program_loss_sum(const struct program *p);
// Returns the sum over the batch's samples of what the loss, the first if there
// are several, counts as right:
// classes hit, shares of bits right, or, for mean squares, absolute errors. To
// be called as program_loss_sum.
double program_right_sum(const struct program *p);

// Frees the program and its plans; none of its ops is under way. Its memory
// stays. NULL is allowed.
void program_free(struct program *p);

#endif
