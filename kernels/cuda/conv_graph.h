// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv_graph.h -- a convolution of kern.h as a graph of cuDNN.
//
// Also what the check without a GPU builds (tests/unit/kernels), so that it
// judges the very graphs that a device is given.
//
// Threads  one at a time for a target, and all that is made with it.
// Memory   graph_release frees a graph.
// Errors   SL_OK is success; SL_ENOTSUP: cuDNN does not do it; SL_ENOMEM;
//          SL_ELOST: the device failed; SL_EINTERNAL: all else. `err` may be
//          NULL.
#ifndef KERNELS_CUDA_CONV_GRAPH_H
#define KERNELS_CUDA_CONV_GRAPH_H

#include "kernels/cuda/cudnn_graph.h"

// Tensor i of the op has uid i + 1.
#define CONV_UID(i) ((int64_t)(i) + 1)

// Returns true if conv_graph can describe `d`: a convolution with one dtype
// throughout, f32, f16 or bf16 (cuDNN has no engine that reads 16 bits and
// writes f32), and ACCUM for f32 alone. Says nothing of what cuDNN has.
bool conv_graph_has(const struct kern_desc *d);

// Returns true if the graph of `d` computes RELU as well. cuDNN fuses it behind
// a bias only; else it is a step of our own, in place.
bool conv_graph_relu(const struct kern_desc *d);

// Makes *g the sealed graph of `d`, for which conv_graph_has returns true, for
// the device and library of `t`, whose handle outlives *g, and returns what
// graph_seal does. BIAS, RELU (see conv_graph_relu) and ACCUM, as adding to dw,
// are in it; BGRAD is not (a sum over dy of our own). Call graph_release in any
// case; `err` is borrowed for the call.
enum sl_err conv_graph(struct graph *g, const struct kern_desc *d,
                       const struct graph_target *t, struct sl_error *err);

// Returns how many tensors of io[], from the first on, the graph reads or
// writes; dw of a wgrad is io[2].
unsigned conv_graph_tensors(const struct kern_desc *d);

#endif
