// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/conv_nets.h -- the convolutions of nets that people train,
// as a worker asks for them.
#ifndef TESTS_UNIT_KERNELS_CONV_NETS_H
#define TESTS_UNIT_KERNELS_CONV_NETS_H

#include "common/base/status.h"
#include "kernels/kern.h"
#include "tests/unit/kernels/window_same.h"

// The first of a net needs no gradient of its input; `bias`: with bias and
// ReLU in its epilogue.
struct conv_layer {
    const char *name;
    int64_t h, ci, co;
    int32_t k, stride;
    bool same, first, bias;
};

static const struct conv_layer fashion[] = {
    {"fashion conv1", 28, 1, 32, 3, 1, false, true, true},
    {"fashion conv2", 13, 32, 64, 3, 1, false, false, true},
    {"fashion conv2 without pools", 26, 32, 64, 3, 1, false, false, true},
};

// In 16 bits a worker pads the images to 8 channels.
static const struct conv_layer imagenette[] = {
    {"imagenette conv1", 256, 3, 32, 5, 2, true, true, true},
    {"imagenette conv1 of 8", 256, 8, 32, 5, 2, true, true, true},
    {"imagenette conv2", 128, 32, 64, 7, 2, true, false, true},
    {"imagenette conv3", 64, 64, 128, 11, 2, true, false, true},
};

// ResNet-50: every shape that it has, with the stride in the 3x3.
static const struct conv_layer resnet[] = {
    {"resnet stem", 224, 3, 64, 7, 2, true, true, false},
    {"resnet stem of 8", 224, 8, 64, 7, 2, true, true, false},
    {"resnet 2 64-64", 56, 64, 64, 1, 1, true, false, false},
    {"resnet 2 3x3", 56, 64, 64, 3, 1, true, false, false},
    {"resnet 2 64-256", 56, 64, 256, 1, 1, true, false, false},
    {"resnet 2 256-64", 56, 256, 64, 1, 1, true, false, false},
    {"resnet 3 256-512 by 2", 56, 256, 512, 1, 2, true, false, false},
    {"resnet 3 256-128", 56, 256, 128, 1, 1, true, false, false},
    {"resnet 3 3x3 by 2", 56, 128, 128, 3, 2, true, false, false},
    {"resnet 3 3x3", 28, 128, 128, 3, 1, true, false, false},
    {"resnet 3 128-512", 28, 128, 512, 1, 1, true, false, false},
    {"resnet 3 512-128", 28, 512, 128, 1, 1, true, false, false},
    {"resnet 4 512-1024 by 2", 28, 512, 1024, 1, 2, true, false, false},
    {"resnet 4 512-256", 28, 512, 256, 1, 1, true, false, false},
    {"resnet 4 3x3 by 2", 28, 256, 256, 3, 2, true, false, false},
    {"resnet 4 3x3", 14, 256, 256, 3, 1, true, false, false},
    {"resnet 4 256-1024", 14, 256, 1024, 1, 1, true, false, false},
    {"resnet 4 1024-256", 14, 1024, 256, 1, 1, true, false, false},
    {"resnet 5 1024-2048 by 2", 14, 1024, 2048, 1, 2, true, false, false},
    {"resnet 5 1024-512", 14, 1024, 512, 1, 1, true, false, false},
    {"resnet 5 3x3 by 2", 14, 512, 512, 3, 2, true, false, false},
    {"resnet 5 3x3", 7, 512, 512, 3, 1, true, false, false},
    {"resnet 5 512-2048", 7, 512, 2048, 1, 1, true, false, false},
    {"resnet 5 2048-512", 7, 2048, 512, 1, 1, true, false, false},
};

static const enum kern_op conv_ops[] = {KERN_CONV_FWD, KERN_CONV_DGRAD,
                                        KERN_CONV_WGRAD};

// Returns true if the layer needs this op of a convolution.
static inline bool conv_layer_has(const struct conv_layer *l, enum kern_op op)
{
    return op != KERN_CONV_DGRAD || !l->first;
}

// Sets *d to the op of the layer for `batch` images of type t, as the first
// micro-batch of a step has it: nothing is added to.
static inline void conv_layer_desc(struct kern_desc *d,
                                   const struct conv_layer *l, enum kern_op op,
                                   int64_t batch, enum kern_dtype t)
{
    struct kern_window w = kern_window(l->k, l->k, l->stride, l->stride);
    bool bias = op == KERN_CONV_FWD && l->bias;

    if (l->same) {
        window_same(&w, 0, l->h);
        window_same(&w, 1, l->h);
    }
    kern_desc_conv(d, op, (int64_t[]){batch, l->h, l->h, l->ci}, l->co, &w, 1,
                   bias ? KERN_BIAS | KERN_RELU : 0);
    kern_desc_dtype(d, t);
}

#endif
