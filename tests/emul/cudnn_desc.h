// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudnn_desc.h -- what the parts of the stand-in for cuDNN share.
//
// cudnn.c keeps descriptors and answers questions, cudnn_rules.c refuses what
// the real one refuses, cudnn_run.c computes.
#ifndef TESTS_EMUL_CUDNN_DESC_H
#define TESTS_EMUL_CUDNN_DESC_H

#include <cudnn_graph.h>

#include "kernels/kern.h"
#include "tests/emul/products.h"

#define CUDNN_ATTRS 12

struct attr {
    cudnnBackendAttributeName_t name;
    bool parts; // data holds descriptors, each counted once more
    int64_t count;
    char data[64];
};

struct desc {
    cudnnBackendDescriptorType_t type;
    int refs;
    bool sealed;
    unsigned count;
    struct attr attr[CUDNN_ATTRS];
    int64_t engine; // of a configuration, an engine or a plan
};

const struct attr *cudnn_find(const struct desc *d,
                              cudnnBackendAttributeName_t name);
// A descriptor that is an attribute of another; or NULL.
const struct desc *cudnn_part(const struct desc *d,
                              cudnnBackendAttributeName_t name);
void cudnn_drop(struct desc *d);
// Where a handle enqueues; false if that stream has ended.
bool cudnn_stream(cudaStream_t *out, cudnnHandle_t h);
// The graph of a configuration or of heuristics.
static inline const struct desc *cudnn_graph_of(const struct desc *d)
{
    return cudnn_part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

struct tensor {
    enum kern_dtype t;
    bool between;
    int64_t dim[4], stride[4], uid, align;
    void *at;
};

void cudnn_tensor(struct tensor *out, const struct desc *d);
// Elements from the first to the last.
int64_t cudnn_extent(const struct tensor *t);

// The three directions: the same attributes under other names.
struct direction {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, shape, x, w, y;
};
// NULL if d is no convolution.
const struct direction *cudnn_direction(const struct desc *d);

// ---- Engines ---------------------------------------------------------------

enum {
    CUDNN_PLAIN = 2,     // no tensor cores; turns its tensors into NCHW
    CUDNN_SCATTERED = 5, // adds in any order
    CUDNN_TENSOR = 7,    // tensor cores; reads f32 as TF32
    CUDNN_REDUCED = 9,   // tensor cores; sums in 16 bits
};

#define CUDNN_TENSORS 16

// The tensors of a graph, op by op, the written one of each last; those between
// two ops are named twice.
unsigned cudnn_tensors(struct tensor to[CUDNN_TENSORS],
                       const struct desc *graph);

// True if the engine has kernels for the graph.
bool cudnn_engine_has(int64_t engine, const struct desc *graph);
int64_t cudnn_workspace(int64_t engine, const struct desc *graph);

// ---- Refusing --------------------------------------------------------------

// CUDNN_STATUS_SUCCESS, or why a descriptor cannot be sealed.
cudnnStatus_t cudnn_judge(const struct desc *d);
// Is `name` an attribute of d, and of this type?
cudnnStatus_t cudnn_judge_attribute(const struct desc *d,
                                    cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type);

// Notes the reason and returns rc.
cudnnStatus_t cudnn_refuse(cudnnStatus_t rc, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
