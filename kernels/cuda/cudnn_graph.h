// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_graph.h -- cuDNN's graph API, as far as we use it, in C.
//
// A graph is one fused operation: tensors, a convolution in one of its three
// directions, pointwise steps behind it. cuDNN answers with choices: engines
// that can run it, best first by its own heuristics. We leave out those that
// the rules forbid, and make a plan of one that is left.
//
//     graph_init -> graph_tensor, graph_conv, graph_pointwise -> graph_seal
//     -> graph_choose -> graph_plan_make -> graph_plan_run, as often as wanted
//
// The target is a device, by its handle, or the description of one: the latter
// answers everything but graph_plan_run, on any host. So the build checks the
// graphs of our nets without a GPU.
//
// Threads  a target, and all that is made with it: one at a time.
// Memory   What these make is cuDNN's; released by the function of that name.
//          Plans are never released before the process ends (see
//          graph_plan_forget).
// Units    Dims and strides in elements, in the order n,c,h,w as cuDNN has it.
// Errors   The first error of a graph stays in it and graph_seal returns it;
//          all calls before may go unchecked. What fails to choose, to pick or
//          to make a plan leaves *out as it was. `err` may be NULL. SL_OK is
//          success. SL_ENOTSUP: cuDNN does not do it; SL_ENOMEM; SL_ELOST: the
//          device failed; SL_EINTERNAL: all else.
#ifndef KERNELS_CUDA_CUDNN_GRAPH_H
#define KERNELS_CUDA_CUDNN_GRAPH_H

#include <cudnn_graph.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "kernels/kern.h"

#define GRAPH_MADE 16    // descriptors in one graph
#define GRAPH_OPS 4      // operations in one graph
#define GRAPH_CHOICES 64 // engines looked at, over both ways of asking

struct graph_target {
    cudnnHandle_t handle;               // NULL: there is only
    cudnnBackendDescriptor_t described; // this
};

// Makes *out a target of the device that the text `json` describes, as cuDNN
// writes it; the text is not kept. It lives until the process ends. SL_ENOTSUP,
// SL_EINTERNAL: cuDNN does not take it; SL_ENOMEM.
enum sl_err graph_describe(struct graph_target *out, const char *json,
                           struct sl_error *err);

struct graph {
    cudnnBackendDescriptor_t made[GRAPH_MADE], ops[GRAPH_OPS], sealed;
    unsigned count, op_count;
    enum sl_err rc;
    struct sl_error *err;
};

// Makes an empty graph; `err` is borrowed until graph_seal and gets its first
// error.
void graph_init(struct graph *g, struct sl_error *err);
// Destroys the graph's descriptors, sealed or not; plans made of it stay. May
// be called again.
void graph_release(struct graph *g);

struct graph_tensor {
    int64_t uid;
    enum kern_dtype dtype;
    bool between; // lives only inside the graph
    int64_t dim[4], stride[4];
};

// Adds a tensor, aligned to KERN_ALIGN, and returns it for the calls below; it
// belongs to the graph. May be NULL after an error, which the calls below
// allow.
cudnnBackendDescriptor_t graph_tensor(struct graph *g,
                                      const struct graph_tensor *t);

// Adds the convolution of x with w to y, in the direction of `op`: forward
// writes y, dgrad x, wgrad w. What is written becomes the result plus `beta`
// times what it was. An error stays in the graph, for graph_seal.
void graph_conv(struct graph *g, enum kern_op op, const struct kern_window *win,
                cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                cudnnBackendDescriptor_t y, float beta);

// Adds the step y = x + b or, if `b` is NULL, y = relu(x). An error stays in
// the graph, for graph_seal.
void graph_pointwise(struct graph *g, cudnnBackendDescriptor_t x,
                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y);

// Finishes the graph for a target; then it can be chosen for. Called after 1 to
// GRAPH_OPS operations (graph_conv, graph_pointwise); SL_EINTERNAL for more,
// and for a second call. `t` is borrowed for the call, but its handle must
// outlive the graph. Returns the first error of all calls on `g`, which after
// one is only released.
enum sl_err graph_seal(struct graph *g, const struct graph_target *t);

// ---- Choosing -------------------------------------------------------------

// What may run. Engines that convert f32 inputs down or sum in less than f32
// never may.
struct graph_rules {
    enum kern_op op;    // the op: some engines are known to be wrong for it
    bool tensor_cores;  // false: f32 as it is; on f32 tensors these are TF32
    bool deterministic; // the same bits every time
};

struct graph_choice {
    cudnnBackendDescriptor_t config;
    int64_t engine;
    bool compiles; // at run time: making a plan takes seconds
    bool tensor_cores;
};

struct graph_choices {
    struct graph_choice at[GRAPH_CHOICES];
    unsigned count;   // choices that may run
    unsigned offered; // choices before the rules
};

// Fills *out with the engines that may run, in cuDNN's order: those of
// heuristics mode A, then what FALLBACK adds (for some shapes only that has
// engines without tensor cores); those of mode B if neither has any that may
// run. graph_choices_release frees them. SL_ENOTSUP if none is left.
enum sl_err graph_choose(struct graph_choices *out, const struct graph *g,
                         const struct graph_target *t,
                         const struct graph_rules *rules, struct sl_error *err);
// Destroys the choices' descriptors; plans made of them stay.
void graph_choices_release(struct graph_choices *c);

// ---- Plans ----------------------------------------------------------------

struct graph_plan {
    cudnnBackendDescriptor_t at;
    size_t workspace_bytes;
    int64_t engine;    // -1: not known, of a plan that was read
    bool tensor_cores; // likewise false
    bool ran;          // it stays until the process ends
};

// Makes a plan of choice *c, for graph_plan_forget. SL_ENOTSUP if the engine
// declines after all: try the next choice.
enum sl_err graph_plan_make(struct graph_plan *out,
                            const struct graph_target *t,
                            const struct graph_choice *c, struct sl_error *err);

// Frees a plan that never ran, and zeroes *p; zeroes are allowed. Plans that
// ran (p->ran) live until the process ends: engines share state that cuDNN does
// not count, and taking plans down has crashed others (pytorch leaks them too).
void graph_plan_forget(struct graph_plan *p);

// ---- Picking --------------------------------------------------------------

#define GRAPH_PICKS 8

// Does the first pick use tensor cores, and why not?
enum graph_cores {
    GRAPH_CORES_USED = 1,
    GRAPH_CORES_FORBIDDEN, // by the rules
    GRAPH_CORES_RANKED,    // cuDNN has such, and holds another for faster
    GRAPH_CORES_CAPPED,    // plans with tensor cores exceed the workspace cap
    GRAPH_CORES_NONE,      // cuDNN has none that may run
    GRAPH_CORES_SLOWER,    // they were slower, by trying
    GRAPH_CORES_WRONG,     // they compute wrongly here, by trying
};
// Returns the words for `c` in logs, "unknown" for any other number; static.
const char *graph_cores_name(enum graph_cores c);

struct graph_picks {
    struct graph_plan at[GRAPH_PICKS];
    unsigned count;      // plans in `at`
    size_t missed_bytes; // the least that tensor cores wanted beyond the cap
    enum graph_cores cores;
};

// Fills *out with plans that want at most `cap_bytes` of workspace, in cuDNN's
// order: with `compare` up to GRAPH_PICKS of them, else the first, and behind
// it what may stand in for it in the same workspace and is not compiled at run
// time. Mode A is asked, then FALLBACK if that was not enough. If none of those
// has tensor cores and the rules allow them, mode B is asked, and what it has
// goes first. graph_picks_forget frees them. SL_ENOTSUP: no engine may run;
// SL_ENOMEM: none fits the cap.
enum sl_err graph_pick(struct graph_picks *out, const struct graph *g,
                       const struct graph_target *t,
                       const struct graph_rules *rules, bool compare,
                       size_t cap_bytes, struct sl_error *err);
// Forgets the plans from number `first` on (graph_plan_forget); picks->count is
// then `first` at most.
void graph_picks_forget(struct graph_picks *picks, unsigned first);

// Appends a plan as text (JSON) to *out, for graph_plan_read with the same
// version of cuDNN and kind of device. A failure leaves *out as it was.
enum sl_err graph_plan_write(struct buf *out, const struct graph_plan *p,
                             struct sl_error *err);
// Makes a plan of such a text, for graph_plan_forget; its engine is not known
// then. Fails if cuDNN does not take the text.
enum sl_err graph_plan_read(struct graph_plan *out,
                            const struct graph_target *t, const char *json,
                            struct sl_error *err);

// Enqueues a plan on the handle's stream: at[n] are the addresses of the
// tensors uids[n], and `workspace` has p->workspace_bytes. The caller sets
// p->ran before. SL_ELOST if a launch failed, else the error that cuDNN's
// status means.
enum sl_err graph_plan_run(const struct graph_plan *p, cudnnHandle_t handle,
                           unsigned n, const int64_t *uids, void *const *at,
                           void *workspace);

#endif
