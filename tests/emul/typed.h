// SPDX-License-Identifier: Apache-2.0
// tests/emul/typed.h -- elements of any of the three dtypes, for the stand-ins
// of NVIDIA's libraries.
#ifndef TESTS_EMUL_TYPED_H
#define TESTS_EMUL_TYPED_H

#include <string.h>

#include "kernels/half.h"
#include "kernels/kern.h"

static inline float typed_get(enum kern_dtype t, const void *at, int64_t i)
{
    return t == KERN_F16    ? half_from_f16(((const uint16_t *)at)[i])
           : t == KERN_BF16 ? half_from_bf16(((const uint16_t *)at)[i])
                            : ((const float *)at)[i];
}

static inline void typed_put(enum kern_dtype t, void *at, int64_t i, float x)
{
    if (t == KERN_F16)
        ((uint16_t *)at)[i] = half_to_f16(x);
    else if (t == KERN_BF16)
        ((uint16_t *)at)[i] = half_to_bf16(x);
    else
        ((float *)at)[i] = x;
}

// What a tensor core reads of an f32: so that a strict op that went through
// one is found out by its error.
static inline float typed_tf32(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    u &= ~UINT32_C(0x1fff);
    memcpy(&x, &u, sizeof(u));
    return x;
}

#endif
