// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/vendor.h -- products and convolutions by NVIDIA's libraries.
//
// Behind cuda.h's seam: a vendor hangs on dev->vendor and has the handles of
// cuBLASLt and cuDNN, the options, and the plans kept on disk. Handles are made
// when the first op wants them: cuBLASLt takes 75 ms and 150 MB.
//
// Precision  f32 tensors: TF32 products if the op or the device's option says
//            so (kern_desc.math, tf32=), else f32 as it is. f16, bf16: sums
//            in f32.
// Bits       With deterministic=1 (default) the same plan gives the same bits
//            every time. Which plan is taken is cuDNN's and cuBLASLt's advice;
//            with autotune=1 it is a measurement, and another run may take
//            another plan unless plans=FILE keeps them.
// Memory     Tensors start at multiples of KERN_ALIGN; workspaces at 64.
// Threads    that of the dev.
// Errors     SL_OK is success; SL_ELOST: the device is lost, then and ever
//            after; SL_ENOMEM; SL_EINTERNAL: another error of the device. A
//            plan that cannot be made leaves *out and *workspace_bytes as they
//            were. `err` may be NULL.
#ifndef KERNELS_CUDA_VENDOR_H
#define KERNELS_CUDA_VENDOR_H

#include <cublasLt.h>

#include "kernels/cuda/conv_graph.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/judge.h"
#include "kernels/plans.h"

#define VENDOR_TRIES 8 // algorithms of cuBLASLt that are looked at
#define VENDOR_TOLD 64 // ops without tensor cores that are kept in mind

#define VENDOR_WORKSPACE_AUTO SIZE_MAX // a quarter of the device's memory

struct vendor_options {
    bool tf32, deterministic, autotune, nccl;
    bool prove;             // candidates prove themselves (judge.h)
    size_t workspace_bytes; // most for a library's kernel in one plan, or
                            // VENDOR_WORKSPACE_AUTO
    char *plans;            // file, or NULL; owned
};

struct vendor {
    struct vendor_options options;
    cublasLtHandle_t blas;   // NULL until wanted
    cudnnHandle_t dnn;       // likewise
    cudaStream_t dnn_stream; // where it enqueues now
    bool dnn_streamed;       // `dnn_stream` is set, on the handle as well
    struct plans plans;
    struct judge_book book;
    uint64_t told[VENDOR_TOLD]; // hashes of ops
    unsigned told_count;
};

// Reads tf32=, deterministic=, autotune=, nccl=, prove= (0 or 1), workspace=
// (MiB) and plans= (a path without commas) from `text`; NULL: all defaults. The
// last of several words with one key counts. out->plans is for vendor_new,
// which takes it. SL_EINVAL names what it does not know; SL_ENOMEM. Either
// leaves *out as it was.
enum sl_err vendor_options_read(struct vendor_options *out, const char *text,
                                struct sl_error *err);

// Returns true if this version (as cudnnGetVersion() says it) may be used.
// Another major one is another library; within one, what an older minor lacks
// it says op by op.
bool vendor_dnn_fits(size_t version);

// Makes dev->vendor, with the workspace that one plan may have settled, reads
// the file of plans, and sets dev->stream_ends; vendor_free frees it. An older
// cuDNN than that of the build is one log line. Opens no library yet. Takes
// options->plans, also on failure. SL_ENOTSUP: another major version of cuDNN
// is installed; SL_ENOMEM. dev->vendor stays NULL then.
enum sl_err vendor_new(struct cuda_dev *dev, struct vendor_options *options,
                       struct sl_error *err);
// Frees dev->vendor, if there is one, and sets it and dev->stream_ends to NULL;
// before cuda_close. A lost device's handles are left alone.
void vendor_free(struct cuda_dev *dev);

// Returns what vendor_new made for the dev; NULL before it, and after
// vendor_free.
static inline struct vendor *vendor(struct cuda_dev *dev)
{
    return dev->vendor;
}

// Returns true if f32 tensors of `d` may go through tensor cores: the op says
// so or, if it does not say, the option.
bool vendor_tf32(const struct vendor *v, const struct kern_desc *d);

// Returns the key that a kept plan is found by: a hash of the op, how it may
// compute and how it was chosen, the most workspace that it had, the libraries,
// the device.
uint64_t vendor_key(struct cuda_dev *dev, const struct kern_desc *d,
                    size_t cap_bytes);

// Opens cuBLASLt for the device with the first call; later ones do nothing.
// SL_ENOMEM or SL_EINTERNAL if it does not open.
enum sl_err vendor_blas(struct cuda_dev *dev, struct sl_error *err);
// Opens cuDNN for the device with the first call; later ones do nothing.
// SL_EINTERNAL if it does not open.
enum sl_err vendor_dnn(struct cuda_dev *dev, struct sl_error *err);

// Returns what a library's refusal to run on `s` means. `rc` is the library's
// own verdict, not SL_OK. If it is SL_ELOST, a kernel that failed, waits for
// the stream. If CUDA has an error, returns that (cuda_result), and SL_ELOST
// only then. Otherwise returns `rc`, or SL_EINTERNAL for SL_ELOST, with a text
// in dev->fault: something else may be tried (vendor_try_next). `what` is what
// was tried, for the text.
enum sl_err vendor_refused(struct cuda_dev *dev, cudaStream_t s, enum sl_err rc,
                           const char *what);

// Returns true if another way may be tried after the error `rc`; false on a
// lost device, while a step is recorded on `s` (the recording is spoilt, and
// the step is run without), and if `rc` is SL_OK.
bool vendor_try_next(cudaStream_t s, enum sl_err rc);

// Logs one line: `impl` refused to compute `d`, and another way is tried. The
// reason is that of vendor_refused, which was called before.
void vendor_tell_next(struct cuda_dev *dev, const struct kern_desc *d,
                      const char *impl);

// Logs one line for an op that could use tensor cores and does not, with the
// reason; once per op, and for the first VENDOR_TOLD of them alone.
void vendor_tell_cores(struct cuda_dev *dev, const struct kern_desc *d,
                       const struct graph_picks *p, size_t cap_bytes);

// Writes to out[n], for people: the most workspace, how many ops go without
// tensor cores, and how many kernels were found wrong.
void vendor_about(char *out, size_t n, struct cuda_dev *dev);

// Returns the most workspace that a library's kernel may have, given the
// caller's limit.
static inline size_t vendor_cap(struct cuda_dev *dev, size_t cap_bytes)
{
    size_t own = vendor(dev)->options.workspace_bytes;

    return own < cap_bytes ? own : cap_bytes;
}

// Returns true if all n addresses are multiples of KERN_ALIGN.
bool vendor_aligned(unsigned n, void *const *at);

// ---- Ops ------------------------------------------------------------------

// Returns 100 if cuBLASLt computes the MATMUL `d`, else 0: dtypes that it does
// not mix, BGRAD without trans_a, a bias over an empty product.
int gemm_score(struct cuda_dev *dev, const struct kern_desc *d);
// Makes the plan, for cuda_plan_free, of a MATMUL with a gemm_score above 0;
// copies *d. `cap_bytes` is the most workspace; an algorithm gets no more than
// vendor_cap and 32 MiB of it, sums of rows and a product apart may want more.
// Tries a kept algorithm, else candidates of cuBLASLt (judge.h), and keeps its
// choice in the file of plans if judge_sure; if all are wrong, one for the
// product alone, before a bias of ours; our own loops take over from that. A
// run that is refused goes on with the next way, which is logged. An empty one
// is nothing_plan's. SL_ENOTSUP: no algorithm; SL_ENOMEM; SL_ELOST;
// SL_EINTERNAL: all else.
enum sl_err gemm_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err);

// Returns 100 if cuDNN has an engine for the convolution `d` that may run, or
// if `d` is empty and no bias is due, else 0. Opens cuDNN, and may ask it:
// slow.
int conv_score(struct cuda_dev *dev, const struct kern_desc *d);
// Makes the plan, for cuda_plan_free, of a convolution with a score
// (conv_score) above 0; copies *d. `cap_bytes` is the most workspace, of which
// an engine gets vendor_cap. Takes a kept plan, or runs and compares cuDNN's
// engines first (judge.h), and keeps its choice in the file of plans if
// judge_sure; our own loops take over if all are wrong. One without tensor
// cores is logged (vendor_tell_cores). A run that is refused goes on with the
// next way, which is logged. An empty one is nothing_plan's. SL_ENOTSUP: no
// engine; SL_ENOMEM: also if none fits `cap_bytes`; SL_ELOST; SL_EINTERNAL: all
// else.
enum sl_err conv_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err);
// Makes cuDNN's handle forget `s`: a later stream may have its address. Does
// nothing if the handle has another.
void conv_stream_ends(struct cuda_dev *dev, cudaStream_t s);

// A plan that needs its op's descriptor alone, and no workspace.
struct desc_plan {
    struct cuda_plan base;
    struct kern_desc desc;
};

// Makes a plan, for cuda_plan_free, that keeps a copy of *d for `run` and wants
// no workspace; `impl` is a literal. SL_ENOMEM.
enum sl_err
desc_plan_new(struct kern_plan **out, size_t *workspace_bytes,
              struct cuda_dev *dev, const struct kern_desc *d, const char *impl,
              enum sl_err (*run)(struct cuda_plan *p, cudaStream_t s,
                                 void *const *io, void *workspace),
              struct sl_error *err);

// Makes the plan, for cuda_plan_free, of a product over no elements: outputs
// become 0, or stay as they are if the op has ACCUM. SL_ENOMEM.
enum sl_err nothing_plan(struct kern_plan **out, size_t *workspace_bytes,
                         struct cuda_dev *dev, const struct kern_desc *d,
                         struct sl_error *err);

// Makes a plan, for cuda_plan_free, that sums the rows of a matrix, as bias
// gradients want it: x [..., c] -> f32 [c], which is added to with `accum`.
// SL_ENOMEM: also for more workspace than `cap_bytes`.
enum sl_err rows_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_shape *x,
                      bool accum, size_t cap_bytes, struct sl_error *err);

// ---- Comparing candidates -------------------------------------------------

// Runs candidate i once on s. Addresses are of the bench's own buffers.
typedef enum sl_err (*tune_run)(void *arg, unsigned i, cudaStream_t s,
                                void *const *io, void *workspace);

// Returns how many runs of an op that takes `ms` milliseconds go between two
// events: 20, or fewer, so that they take about 10 ms; 1 at least.
unsigned tune_runs(float ms);

// Returns true if a candidate that ran once in `ms` needs no more runs: it took
// more than a millisecond, and more than twice as long as `best`.
bool tune_hopeless(float ms, float best);

// Returns the number of the fastest of n candidates by running them with
// run(arg, i, ...) on zeroed buffers made for it, one for each tensor of `d`,
// and a workspace of workspace_bytes, which is enough for each of them: two
// runs to warm up, and three times tune_runs unless it is hopeless. A candidate
// that fails is left out. Returns 0 (the libraries' advice) if n is below 2,
// there is no space or nothing runs. A device that is lost ends it early: look
// at dev->lost. Waits for the device. Beats (kernels/beat.h) with every round.
unsigned tune_fastest(struct cuda_dev *dev, const struct kern_desc *d,
                      unsigned n, size_t workspace_bytes, tune_run run,
                      void *arg);

#endif
