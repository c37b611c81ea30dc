// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/window_same.h -- TensorFlow's padding SAME.
#ifndef TESTS_UNIT_KERNELS_WINDOW_SAME_H
#define TESTS_UNIT_KERNELS_WINDOW_SAME_H

#include "kernels/kern.h"

// Sets the pads of *w along one axis (0 or 1) for an input of `in` elements, by
// its size, stride and dilation: output is ceil(in / stride), the odd element
// goes behind.
static inline void window_same(struct kern_window *w, int axis, int64_t in)
{
    int64_t reach = (int64_t)w->dilation[axis] * (w->size[axis] - 1) + 1;
    int64_t out = (in + w->stride[axis] - 1) / w->stride[axis];
    int64_t pad = (out - 1) * w->stride[axis] + reach - in;

    if (pad < 0)
        pad = 0;
    w->pad_before[axis] = (int32_t)(pad / 2);
    w->pad_after[axis] = (int32_t)(pad - pad / 2);
}

#endif
