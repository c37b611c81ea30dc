// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc.h -- the parts of kernels-conformance.
//
// Threads  one. Memory  kc_bufs own their tensors. Errors  a check that does
// not hold prints the op, the shapes and both values, and counts.
#ifndef TESTS_CONFORM_KC_H
#define TESTS_CONFORM_KC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rng.h"
#include "kernels/desc.h"

#define KC_CASES 160

// The tensors of one op, each between canaries, `shift` bytes off a cache
// line.
struct kc_bufs {
    struct kern_desc d;
    void *io[KERN_IO];
    char *base[KERN_IO];
    size_t bytes[KERN_IO];
};

void kc_bufs_new(struct kc_bufs *b, const struct kern_desc *d, size_t shift);
void kc_bufs_free(struct kc_bufs *b);
bool kc_canaries_hold(const struct kc_bufs *b);
void kc_bufs_copy(struct kc_bufs *to, const struct kc_bufs *from);

// Inputs as the op wants them, from rng; outputs full of NaN, but for those
// that the op adds to.
void kc_fill(struct kc_bufs *b, struct rng *rng);

// Elements from the first to the last that a (strided) shape touches.
int64_t kc_extent(const struct kern_shape *s);
double kc_get(const struct kern_shape *s, const void *at, int64_t i);

// Runs the op with ref (or its f64 twin) on b.
void kc_run_ref(const struct kern_desc *d, void *const *io);

// For output `out` of an op whose tensors, before it ran, were `before` and
// are `ref` after ref ran: how far each element may be off. The bound is
// 4 (u sqrt(K) + u) S + u |y| with u = 2^-24, K the length of the sum and S
// the same op on absolute values (kernels/README.md). 0: equal bits.
// The caller frees the array.
double *kc_bound(const struct kc_bufs *before, const struct kc_bufs *ref,
                 unsigned out);

// Descriptors that every backend has to pass; returns how many. KC_CASES
// suffice.
unsigned kc_cases(enum kern_op op, struct kern_desc *out);
// A random descriptor of the op that kern_desc_check accepts.
void kc_random(enum kern_op op, struct kern_desc *out, struct rng *rng);

// "conv_fwd x[2,5,5,3] ... epilogue 3"
const char *kc_text(const struct kern_desc *d);

// The gradient of every pair by central differences; returns failures.
int kc_grad(struct rng *rng);
// Prints times of the fashion net's ops.
int kc_perf(struct kern_dev *dev, int batch);

#endif
