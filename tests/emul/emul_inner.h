// SPDX-License-Identifier: Apache-2.0
// tests/emul/emul_inner.h -- what the parts of the emulator share.
//
// emul.c runs fibers; memory.c knows allocations; check.c (in the check build)
// judges each access.
#ifndef TESTS_EMUL_EMUL_INNER_H
#define TESTS_EMUL_EMUL_INNER_H

#include "tests/emul/emul.h"

enum emul_state {
    EMUL_READY = 1, // may run; a new one has no stack yet
    EMUL_AT_BLOCK,  // waits in __syncthreads
    EMUL_AT_WARP,   // waits in a warp operation
    EMUL_DONE,
};

struct emul_thread {
    enum emul_state state;
    void *sp; // NULL: has not started
    int stack;
    const char *file; // where it waits
    int line;
    enum emul_op op;
    uint32_t mask;
    uint64_t value;
    int arg;
};

// What runs now. Counts are those that order accesses.
struct emul_now {
    struct emul_kernel *kernel;
    uint32_t launch, block; // numbers
    struct dim3 grid, blocks;
    uint32_t thread; // number in its block
    uint32_t threads, barriers;
    uint32_t warp_syncs[EMUL_THREADS / EMUL_WARP];
    bool inside; // a fiber runs
};

extern struct emul_now emul_now;

// Fiber stacks: accesses there are not judged.
extern char *emul_stacks, *emul_stacks_end;

// Prints "kernel: block (x,y,z): text" and abandons the launch. Returns only
// outside of one.
void emul_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// "(x,y,z)" of a thread's number; four at a time.
const char *emul_thread_text(uint32_t thread);

struct emul_mem {
    char *at;
    size_t bytes;
    void *shadow; // check.c's
};

// The allocation that holds `at`, or NULL.
struct emul_mem *emul_find(const void *at);
// The one that ends or begins nearest to it, for texts.
const struct emul_mem *emul_nearest(const void *at);

// ---- The check build; elsewhere they do nothing -----------------------------

void emul_check_alloc(struct emul_mem *m);
void emul_check_free(struct emul_mem *m);
void emul_check_written(struct emul_mem *m, size_t from, size_t bytes);
void emul_check_block(void); // shared memory is new

#endif
