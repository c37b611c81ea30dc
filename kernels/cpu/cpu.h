// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu.h -- the host backend: oneDNN for products, own loops for
// the rest.
//
// Threads  As kern.h: one thread owns a dev. Inside run() chunks are shared
//          among `threads` OpenMP threads, which belong to that thread.
// Memory   A plan owns its primitives; the dev outlives its plans.
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/cpu/loops.h"

extern const struct kern_backend kern_cpu;

struct cpu_onednn; // oneDNN's engine and stream, or nothing

enum cpu_direct {
    DIRECT_OFF,
    DIRECT_RULE,   // where they are faster
    DIRECT_ALWAYS, // wherever they can: for tests and measurements
};

struct cpu_dev {
    struct kern_dev base;
    int threads;
    bool winograd;          // allowed
    enum cpu_direct direct; // our direct convolutions
    char without[32];       // oneDNN implementations to leave out; ""
    bool capped;            // to isa, by the caller
    const char *isa;        // of our loops
    const struct loop_op *const *loops; // [KERN_OP_COUNT]
    const struct loops_products *products;
    const struct loops_half *half;
    struct cpu_onednn *onednn; // owned; NULL: built without
};

struct cpu_plan {
    struct kern_plan base;
    struct cpu_dev *dev;
    struct kern_desc desc;
    const struct loop_op *loop; // of plans of one of our loops
    enum sl_err (*run)(struct cpu_plan *plan, void *const *io, void *workspace);
    void (*free)(struct cpu_plan *plan);
};

// Runs fn(arg, chunk) for every chunk in [0, chunks), on up to `threads`
// threads, and returns when all have returned.
void cpu_for(int threads, int64_t chunks, void (*fn)(void *arg, int64_t chunk),
             void *arg);

// Returns the number of the calling thread in cpu_for, from 0.
int cpu_thread(void);

// Runs one op of our loops at once: for plans that need a small piece beside
// a product. `workspace` is what loop_bytes() says.
void cpu_loop(const struct cpu_dev *dev, const struct loop_op *op,
              const struct kern_desc *d, void *const *io, void *workspace);
size_t cpu_loop_bytes(const struct cpu_dev *dev, const struct loop_op *op,
                      const struct kern_desc *d);

// Ops of f32: own loops, or products. As the vtable's.
int cpu_f32_score(struct cpu_dev *dev, const struct kern_desc *d);
enum sl_err cpu_f32_plan(struct cpu_plan **out, size_t *workspace_bytes,
                         struct cpu_dev *dev, const struct kern_desc *d,
                         struct sl_error *err);

// ---- Convolutions: rules.c -------------------------------------------------

// Our own loop for a product where it is better than oneDNN, or there is none.
// By the device's options and instruction set and by the shape alone. NULL: no.
const struct loop_op *cpu_own_product(const struct cpu_dev *dev,
                                      const struct kern_desc *d);

// ---- 16 bits: mixed.c ------------------------------------------------------

#define CPU_MIXED_SCORE 90 // oneDNN's own is better, where there is one

// Of an op that has 16-bit tensors and a twin of f32 which this backend has.
int cpu_mixed_score(struct cpu_dev *dev, const struct kern_desc *d);
enum sl_err cpu_mixed_plan(struct cpu_plan **out, size_t *workspace_bytes,
                           struct cpu_dev *dev, const struct kern_desc *d,
                           struct sl_error *err);

// ---- Products: onednn_*.c, or none.c in a build without oneDNN -------------

// Returns "oneDNN 2.6.3", or why oneDNN is missing.
const char *cpu_onednn_name(void);
// `isa`: the widest instructions that it may use, NULL: all. oneDNN takes that
// once per process, before anything else; a later device has the first one's.
enum sl_err cpu_onednn_open(struct cpu_onednn **out, int threads,
                            const char *isa, struct sl_error *err);
void cpu_onednn_close(struct cpu_onednn *o); // NULL is allowed

// True if this host and oneDNN have instructions for products of that dtype.
bool cpu_product_knows(enum kern_dtype t);

// As the vtable's, for MATMUL and the convolutions. Of 16 bits: SL_ENOTSUP, or
// a score of 0, if another way does as well.
int cpu_product_score(struct cpu_dev *dev, const struct kern_desc *d);
enum sl_err cpu_product_plan(struct cpu_plan **out, size_t *workspace_bytes,
                             struct cpu_dev *dev, const struct kern_desc *d,
                             struct sl_error *err);

#endif
