// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_inner.h -- what the files behind cudnn_graph.h share.
//
// Threads, memory, errors  as cudnn_graph.h; `err` may be NULL.
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
// Sets attribute `name` of a descriptor to n values of `type`.
enum sl_err cudnn_set(cudnnBackendDescriptor_t d,
                      cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t n,
                      const void *values, struct sl_error *err);

// cudnn_choose.c: fills in what one mode of cuDNN has to offer after the rules;
// that may be nothing.
enum sl_err graph_ask(struct graph_choices *out, const struct graph *g,
                      const struct graph_target *t, cudnnBackendHeurMode_t mode,
                      const struct graph_rules *rules, struct sl_error *err);
// Returns the error that no mode had an engine that may run (SL_ENOTSUP).
enum sl_err graph_none(const struct graph_rules *rules, unsigned offered,
                       struct sl_error *err);

#endif
