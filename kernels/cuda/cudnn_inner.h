// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_inner.h -- what the files behind cudnn_graph.h share.
//
// Threads  one at a time for a target, and all that is made with it.
// Errors   SL_OK is success. On failure outputs are untouched. `err` may be
//          NULL.
#ifndef KERNELS_CUDA_CUDNN_INNER_H
#define KERNELS_CUDA_CUDNN_INNER_H

#include "kernels/cuda/cudnn_graph.h"

// 9.19 marks the handle's two attributes as deprecated in favour of describing
// the device. A description can be used to plan; whether such plans run is
// not documented, so a real device goes by its handle, as in every release
// before. Their numbers are part of cuDNN's ABI.
#define CUDNN_GRAPH_HANDLE ((cudnnBackendAttributeName_t)800)
#define CUDNN_PLAN_HANDLE ((cudnnBackendAttributeName_t)400)

// Returns what cuDNN's `rc` means: SL_OK, SL_ELOST for a launch that failed,
// SL_ENOMEM, SL_ENOTSUP, else SL_EINTERNAL.
enum sl_err cudnn_code(cudnnStatus_t rc);

// Returns SL_OK, or cudnn_code's error with what cuDNN says about it in *err;
// `what` is what was tried.
enum sl_err cudnn_fail(cudnnStatus_t rc, const char *what,
                       struct sl_error *err);
// Sets attribute `name` of descriptor `d` to the n values of `type` at
// `values`; fails as cudnn_fail does.
enum sl_err cudnn_set(cudnnBackendDescriptor_t d,
                      cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t n,
                      const void *values, struct sl_error *err);

// Fills *out with the engines that one heuristics mode of cuDNN offers and the
// rules allow, for graph_choices_release; there may be none (SL_OK).
enum sl_err graph_ask(struct graph_choices *out, const struct graph *g,
                      const struct graph_target *t, cudnnBackendHeurMode_t mode,
                      const struct graph_rules *rules, struct sl_error *err);
// Fills *err with the words for an op without any engine that may run, and
// returns SL_ENOTSUP. `offered` is how many there were before the rules.
enum sl_err graph_none(const struct graph_rules *rules, unsigned offered,
                       struct sl_error *err);

#endif
