// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile.h -- from a model's layers to a program.
//
// Forward ops in the model's order, the loss, then backward ops in reverse.
// Fused where the backend is not worse for it: bias and ReLU into convolution
// and dense, bias gradients into weight gradients, ReLU's backward into the
// max pool or batch norm that follows it. Softmax or sigmoid at the end goes
// into the loss, unless the job says from_logits.
// In 16 bits an op reads and writes 16 bits and computes in f32. Parameters are
// cast once per step, and their gradients back; f16's are divided by the loss
// scale on the way (program_set_loss_scale).
// To evaluate: no backward, dropout left out, batch norm by its moving
// statistics.
// A step may be several micro-batches: the first one's program writes the
// gradient, that of the others (`add`) adds to it; program_set_samples makes
// the sum that of the step's mean. A variable's gradient is then computed in
// the arena and added as soon as it is whole. After k micro-batches the vector
// has the sum of momentum^(k - i) s_i of batch norm's statistics s_i.
//
// Threads  the compute thread.
// Memory   compile() keeps no pointer into the model. The memory grows to what
//          this program needs and is shared with those made before; on a
//          device, what was enqueued on it is done before the call
//          (step_settle).
//          A device that has no room for the workspace that its library likes
//          best, and two batches beside it, is asked for plans with half of it,
//          and so on, which is logged.
// Errors   SL_ENOTSUP: this model cannot be computed by this build, and why
//          (the job's fault); SL_ENOMEM; those of the device (kern_plan_new,
//          kern_backend.alloc), such as SL_ELOST. `err` may be NULL.
#ifndef WORKER_COMPILE_COMPILE_H
#define WORKER_COMPILE_COMPILE_H

#include "proto/model.h"
#include "proto/spec.h"
#include "worker/data/data.h"
#include "worker/compile/program.h"

struct compile_options {
    enum spec_loss loss;
    bool from_logits;
    double smoothing; // smoothing of crossentropies' labels, [0, 1)
    // One for each output, in place of the three above, for a model with a loss
    // for each; NULL: it has one output. Borrowed.
    const struct spec_head *heads;
    uint32_t top_k; // a class among the k largest is right; 0: 1
    bool weighted;  // labels come with weights (data.h)
    bool outputs;   // the program tells its predictions; not if it trains
    bool train;
    bool add; // adds to the gradient: micro-batches after a step's first
    uint32_t batch;
    // A part of a batch: samples before it, for dropout; and the weight of its
    // moving statistics in those of the batch (0: it is the whole batch).
    uint32_t first;
    double share;
    uint64_t seed; // the job's, mixed into each dropout's seed
    // Type of x: KERN_F32 (or 0), or KERN_U8: bytes that the first op turns
    // into numbers, input_scale * byte + input_offset.
    enum kern_dtype input;
    double input_scale, input_offset;
    // Type of activations and products: KERN_F32 (or 0), KERN_BF16, KERN_F16.
    // Sums, the loss, batch norm's statistics and all gradients that leave stay
    // f32.
    enum kern_dtype compute;
    // f32 in place of 16 bits, if the device computes most of the products no
    // slower in f32. The loss is scaled all the same.
    bool half_if_faster;
    enum kern_math math; // mathematics of f32 products
    // A dense layer's kernel of four times this many bytes is computed in parts
    // of at least this many: compile_dense.c. 0: 1 MiB.
    size_t part_bytes;
    bool f64; // reals are doubles; ref only, for checks by differences
    // For checks on a host, compiles as for a device: operands of products
    // aligned, 16-bit images padded.
    bool as_device;
};

// Compiles `model` to a program for options->batch samples on `dev`, and makes
// `memory`, which outlives the program, large enough for it. May take seconds.
// *out is for program_free. Logs and counts the kernels that were checked
// (compile_tell_kernels). On failure *out is untouched; the memory may have
// grown, or after SL_ENOMEM or an error of the device be gone in part: programs
// that were made before are only freed then. `options` is read during the call.
// *memory is zeroes before the first program; its addresses may have changed
// (`moved`), for the other programs, too.
enum sl_err compile(struct program **out, struct kern_dev *dev,
                    const struct model *model,
                    const struct compile_options *options,
                    struct program_memory *memory, struct sl_error *err);

// Logs how many plans of a device were compared with what is right since its
// kern_proofs were `before`, how many of them were wrong, and how long it took
// (nothing if none was compared), and adds both numbers to this worker's
// figures (figures_kernels). Shows in the status the first kernel that the
// device leaves out and how many others; leaves the status as it is if there is
// none. For plans that are not a program's: compile() calls it for its own.
void compile_tell_kernels(struct kern_dev *dev, const struct proofs *before);

// Sets *out to the form of samples that the model reads, with labels as the job
// wants them: as `loss` does, or as `heads`, one for each output, if that is
// not NULL. out->u8 and out->test are false. Returns SL_OK; SL_ENOTSUP if
// samples have more than DATA_RANK dimensions, with *out untouched.
enum sl_err compile_wants(struct data_want *out, const struct model *model,
                          enum spec_loss loss, const struct spec_head *heads,
                          struct sl_error *err);

#endif
