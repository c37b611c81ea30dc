// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc.h -- the parts of kernels-conformance.
//
// Threads  one. Memory  trials own their tensors. Errors  a check that does
// not hold prints the op, the shapes and both values, and counts.
#ifndef TESTS_CONFORM_KC_H
#define TESTS_CONFORM_KC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/prove/bound.h"

#define KC_CASES 160

// Runs the plan on a device with memory of its own: b's tensors go there and
// come back.
enum sl_err kc_device_run(struct kern_dev *dev, struct kern_plan *plan,
                          struct trial *b, size_t workspace_bytes);

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

// Has each implementation that a host backend may take for *d compute it, tells
// those that are wrong, and counts.
void kc_raw(struct kern_dev *dev, const struct kern_desc *d);
// Prints the counts of kc_raw by implementation.
void kc_raw_print(void);

// Descriptors that every backend has to pass; returns how many. KC_CASES
// suffice.
unsigned kc_cases(enum kern_op op, struct kern_desc *out);
// Whether no input or output has more than `most` elements (0: any number).
bool kc_within(const struct kern_desc *d, int64_t most);
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
// What a device must survive, with cases of at most so many elements (0: of any
// number); returns failures.
int kc_fail(struct kern_dev *dev, int64_t most);

// Prints times of the fashion net's ops in this dtype.
int kc_perf(struct kern_dev *dev, int batch, enum kern_dtype dtype);

#endif
