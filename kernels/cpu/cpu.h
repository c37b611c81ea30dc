// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu.h -- the host backend: oneDNN for products, own loops for
// the rest.
//
// Threads  As kern.h: one thread owns a dev. Inside run() chunks are shared
//          among `threads` OpenMP threads, which belong to that thread.
// Memory   A plan owns its primitives and a copy of its descriptor; the dev
//          outlives its plans.
// Errors   On failure outputs are untouched, unless it says otherwise. `err`
//          may be NULL.
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/cpu/loops.h"
#include "kernels/prove/prove.h"

extern const struct kern_backend kern_cpu;

struct cpu_onednn; // oneDNN's engine and stream, or nothing

enum cpu_direct {
    DIRECT_OFF,
    DIRECT_RULE,   // where they are faster
    DIRECT_ALWAYS, // wherever they can: for tests and measurements
};

#define CPU_LOOPS 3 // instruction sets

// Our loops for an instruction set.
struct cpu_loops {
    const char *name;
    const struct loop_op *const *loops; // [KERN_OP_COUNT]
};

struct cpu_plan;

struct cpu_dev {
    struct kern_dev base;
    int threads;
    bool winograd;          // allowed
    enum cpu_direct direct; // our direct convolutions
    char without[32];       // oneDNN implementations to leave out; ""
    bool capped;            // the caller has limited the instructions to isa
    const char *isa;        // instruction set of our loops
    char wino_name[24], direct_name[24]; // names of our loops for products
    const struct loop_op *const *loops;  // [KERN_OP_COUNT]
    struct cpu_loops own[CPU_LOOPS];     // those, then narrower ones
    unsigned own_count;
    const struct loops_products *products;
    const struct loops_half *half;
    struct cpu_onednn *onednn; // owned; NULL: built without
    bool autotune;             // time the ways to compute products in 16 bits
    struct cpu_half {          // owned: which was faster
        uint64_t desc;         // hash of the op
        bool by_f32;
    } * halves;
    size_t halves_count;
    // Times a plan: cpu_half_time, or a test's.
    enum sl_err (*time_half)(double *us, struct cpu_plan *plan, void *const *io,
                             void *workspace);
};

struct cpu_plan {
    struct kern_plan base;
    struct cpu_dev *dev;
    struct kern_desc desc;
    const struct loop_op *loop; // our loop that the plan runs; else NULL
    // Computes the op before it returns. SL_OK, or SL_EINTERNAL: oneDNN
    // refuses.
    enum sl_err (*run)(struct cpu_plan *plan, void *const *io, void *workspace);
    void (*free)(struct cpu_plan *plan); // not NULL
};

// Runs fn(arg, chunk) for every chunk in [0, chunks), on up to `threads`
// threads, in any order, and returns when all have returned. No chunks: fn is
// not called. `fn` does not call cpu_for.
void cpu_for(int threads, int64_t chunks, void (*fn)(void *arg, int64_t chunk),
             void *arg);

// Returns the number of the calling thread in cpu_for, from 0; 0 outside of it.
int cpu_thread(void);

// Runs one op of our loops at once, on dev->threads threads, and returns when
// it is done. `op` can do `d` (loop_op.can). `workspace` has cpu_loop_bytes
// bytes.
void cpu_loop(const struct cpu_dev *dev, const struct loop_op *op,
              const struct kern_desc *d, void *const *io, void *workspace);
// Returns the bytes of workspace that cpu_loop wants for this op: what its
// threads share, and the scratch of each of dev->threads.
size_t cpu_loop_bytes(const struct cpu_dev *dev, const struct loop_op *op,
                      const struct kern_desc *d);

// Returns our loop for an op that is no product: that for the widest
// instructions of the device for which it was not found wrong (prove.h). *impl
// (not NULL) gets its name, which the device owns. Returns NULL, and *impl
// stays, if there is none.
const struct loop_op *cpu_own_loop(const struct cpu_dev *dev,
                                   const struct kern_desc *d,
                                   const char **impl);

// Returns the score of an op of f32 (kern_backend.score): 100, or 0 if neither
// our loops nor oneDNN compute it, or those that would were found wrong. `d` is
// checked, here and below. May make a plan to find out: slow.
int cpu_f32_score(struct cpu_dev *dev, const struct kern_desc *d);
// Makes the plan of an op of f32. Returns SL_OK; the caller then sets
// (*out)->base.backend, dev and desc, checks *workspace_bytes against the cap,
// and frees the plan by (*out)->free. SL_ENOTSUP: neither our loops nor oneDNN
// compute it; SL_ENOMEM; SL_EINTERNAL as cpu_product_plan. On failure *out and
// *workspace_bytes are untouched.
enum sl_err cpu_f32_plan(struct cpu_plan **out, size_t *workspace_bytes,
                         struct cpu_dev *dev, const struct kern_desc *d,
                         struct sl_error *err);

// ---- Convolutions: rules.c -------------------------------------------------

// Returns our own loop for a product where it is better than oneDNN, or there
// is no oneDNN; NULL: none. It goes by the device's options and instruction set
// and by the shape alone, and leaves out loops that were found wrong (prove.h).
// *impl (NULL allowed) gets the loop's name, which the device owns.
const struct loop_op *cpu_own_product(const struct cpu_dev *dev,
                                      const struct kern_desc *d,
                                      const char **impl);

// ---- 16 bits: cpu_mixed.c ---------------------------------------------------

#define CPU_MIXED_SCORE 90 // oneDNN's own is better, where there is one

// Returns true if one of our own loops computes the f32 twin of this product of
// 16-bit tensors, and was not found wrong for it: f32 is then faster than what
// oneDNN has for 16 bits.
bool cpu_mixed_is_own(struct cpu_dev *dev, const struct kern_desc *d);
// Returns the score of an op with 16-bit tensors by its twin of f32: 100 for a
// cast, CPU_MIXED_SCORE if this backend has the twin, else 0. As slow as
// cpu_f32_score.
int cpu_mixed_score(struct cpu_dev *dev, const struct kern_desc *d);
// Makes the plan of an op with 16-bit tensors: they are widened to f32, its
// twin of f32 runs, and its outputs are rounded. The caller does with it what
// cpu_f32_plan says. Fails as cpu_f32_plan does.
enum sl_err cpu_mixed_plan(struct cpu_plan **out, size_t *workspace_bytes,
                           struct cpu_dev *dev, const struct kern_desc *d,
                           struct sl_error *err);

// Returns true if a product of 16-bit tensors is to be computed by its twin of
// f32, also where oneDNN has it in 16 bits: if cpu_mixed_is_own; or, with
// autotune=1 and where there are both ways, if that was faster when they were
// timed, now or at an earlier start. Timing runs the op by each way for some 8
// ms, or 4 times if it takes longer, and beats (kernels/beat.h). What was
// faster is logged, and kept by the device and in its file of proofs; a failure
// is not.
bool cpu_half_by_f32(struct cpu_dev *dev, const struct kern_desc *d);

// Sets *us to the microseconds of one run of a plan on io[], the mean of up to
// 2 ms of runs or 20. Returns SL_OK, or the error of a run, which ends it: *us
// is then the mean up to there.
enum sl_err cpu_half_time(double *us, struct cpu_plan *plan, void *const *io,
                          void *workspace);

// ---- Products: onednn_*.c, or none.c in a build without oneDNN -------------

// Returns "oneDNN 2.6.3", or "without oneDNN" in a build without it; static
// text.
const char *cpu_onednn_name(void);
// Opens oneDNN for a device with `threads` threads, which becomes the number of
// OpenMP threads of the calling thread; cpu_onednn_close closes *out, which is
// NULL (SL_OK) in a build without it. `isa` ("base", "avx2") is the widest
// instructions that it may use, NULL: all. oneDNN takes that once per process,
// before anything else; a later device has the first one's. Returns SL_OK,
// SL_ENOMEM, or SL_ENOTSUP or SL_EINTERNAL: oneDNN refuses.
enum sl_err cpu_onednn_open(struct cpu_onednn **out, int threads,
                            const char *isa, struct sl_error *err);
// Destroys oneDNN's engine and stream and frees `o`; plans of its device were
// freed before. NULL is allowed.
void cpu_onednn_close(struct cpu_onednn *o);

// Returns true for f32, without oneDNN too; for bf16 and f16 if this host and
// oneDNN have instructions for such products, as far as the `isa` of
// cpu_onednn_open permits; else false. Not before the first cpu_onednn_open:
// oneDNN would settle on all instructions. Any thread.
bool cpu_product_knows(enum kern_dtype t);

// Returns the score of a MATMUL or convolution by oneDNN (kern_backend.score):
// 100, or 0 where cpu_product_plan says SL_ENOTSUP. Makes a plan to find out,
// which is slow; 100, too, if that fails otherwise.
int cpu_product_score(struct cpu_dev *dev, const struct kern_desc *d);
// Makes the plan of a MATMUL or convolution by oneDNN; the caller does with it
// what cpu_f32_plan says. Returns SL_OK, or SL_ENOTSUP: oneDNN cannot, has only
// its reference code or such as is left out (product.h), or has no instructions
// for these 16 bits (cpu_product_knows), nor BGRAD and ACCUM in them;
// SL_ENOMEM; SL_EINTERNAL: oneDNN failed otherwise. On failure *out and
// *workspace_bytes are untouched.
enum sl_err cpu_product_plan(struct cpu_plan **out, size_t *workspace_bytes,
                             struct cpu_dev *dev, const struct kern_desc *d,
                             struct sl_error *err);

#endif
