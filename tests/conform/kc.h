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

#include "common/base/rng.h"
#include "kernels/desc.h"

#define KC_CASES 160
#define KC_GUARD 256 // bytes of canary before a tensor; at least as many behind

// The tensors of one op, each between canaries, `shift` bytes off a cache
// line.
struct kc_bufs {
    struct kern_desc d;
    void *io[KERN_IO];
    char *base[KERN_IO];
    size_t bytes[KERN_IO], whole[KERN_IO]; // of the tensor; of base
};

void kc_bufs_new(struct kc_bufs *b, const struct kern_desc *d, size_t shift);
void kc_bufs_free(struct kc_bufs *b);
bool kc_canaries_hold(const struct kc_bufs *b);
void kc_bufs_copy(struct kc_bufs *to, const struct kc_bufs *from);

// Inputs as the op wants them, from rng; outputs full of NaN, but for those
// that the op adds to.
void kc_fill(struct kc_bufs *b, struct rng *rng);

// True if the op reads what its outputs held.
bool kc_adds(const struct kern_desc *d);

double kc_get(const struct kern_shape *s, const void *at, int64_t i);

// Runs the op with ref (mixed precision and f64 included) on io.
void kc_run_ref(const struct kern_desc *d, void *const *io);

// Runs the plan on a device with memory of its own: b's tensors go there and
// come back.
enum sl_err kc_device_run(struct kern_dev *dev, struct kern_plan *plan,
                          struct kc_bufs *b, size_t workspace_bytes);

// False: the backend is a device's, which has no fallback, and lacks this op.
bool kc_knows(struct kern_dev *dev, const struct kern_desc *d);

// The optimizers of a backend that has them. Returns failures, and has said
// them.
unsigned kc_optim(struct kern_dev *dev);

// The backend of this name that only this program has, or NULL; and what is to
// be looked at after a run of it (`everything`: all ops, shapes and dtypes).
// Returns failures, and has said them.
const struct kern_backend *kc_extra_backend(const char *name);
unsigned kc_extra_finish(struct kern_dev *dev, bool everything);

// For output `out` of an op whose tensors, before it ran, were `before` and
// are `ref` after ref ran: how far each element may be off. The bound is
// 4 (u sqrt(K) + u) S + v |y| with u = 2^-24, K the length of the sum and S
// the same op on absolute values (kernels/README.md); v is u, and of a 16-bit
// output twice its rounding, as both sides round. 0: equal bits. A product
// that may read f32 as TF32 gets what cutting off 13 bits costs on top.
// The caller frees the array.
double *kc_bound(const struct kc_bufs *before, const struct kc_bufs *ref,
                 unsigned out);

// Descriptors that every backend has to pass; returns how many. KC_CASES
// suffice.
unsigned kc_cases(enum kern_op op, struct kern_desc *out);
// The input that the op's first output may replace; -1: none.
int kc_in_place(const struct kern_desc *d);
// A random descriptor of the op that kern_desc_check accepts.
void kc_random(enum kern_op op, struct kern_desc *out, struct rng *rng);

// "conv_fwd x[2,5,5,3] ... epilogue 3"
const char *kc_text(const struct kern_desc *d);

// The gradient of every pair by central differences; returns failures.
int kc_grad(struct rng *rng);

// NULL, or what was wrong with the op: on three streams and in a recording
// (device backends only); taken apart. kc_fuses: there is something to take
// apart.
const char *kc_async(struct kern_dev *dev, const struct kern_desc *d,
                     struct rng *rng);
bool kc_fuses(const struct kern_desc *d);
const char *kc_fuse(struct kern_dev *dev, const struct kern_desc *d,
                    struct rng *rng);
// So many threads, each with a device of its own, at once; returns failures.
unsigned kc_threads(const char *backend, const char *options, int64_t most,
                    unsigned count);
// What a device must survive; returns failures.
int kc_fail(struct kern_dev *dev);

// Prints times of the fashion net's ops in this dtype.
int kc_perf(struct kern_dev *dev, int batch, enum kern_dtype dtype);

#endif
