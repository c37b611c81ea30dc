// SPDX-License-Identifier: Apache-2.0
// tests/emul/emul.h -- runs a grid of device code on the CPU.
//
// Blocks run one after another; the threads of a block are fibers. A warp runs
// as far as it can before the next one starts: fair turns would hide what is
// overwritten while others still read it. The order of lanes, warps and blocks
// is a schedule; results must be the same under all.
//
// Threads  one.
// Memory   Device memory is emul_alloc(); it is filled with 0xff, NaN in every
//          float type, as shared memory is before each block.
// Errors   A kernel that does what it must not is reported on stderr (kernel,
//          block, thread, line), and the launch fails.
#ifndef TESTS_EMUL_EMUL_H
#define TESTS_EMUL_EMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMUL_SCHEDULES 6
#define EMUL_WARP 32
#define EMUL_THREADS 1024 // of a block, at most

enum emul_op {
    EMUL_SYNCWARP = 1,
    EMUL_SHFL,
    EMUL_SHFL_XOR,
    EMUL_SHFL_DOWN,
    EMUL_BALLOT,
};

typedef void (*emul_function)(void);

// One line of kernels.def. `enter` calls `kernel` with *args.
struct emul_kernel {
    const char *name;
    emul_function kernel;
    void (*enter)(emul_function kernel, const void *args);
    size_t args_bytes;
    uint64_t launches; // how often it has run
    uint64_t blocks;   // of the last time
};

// Ends with a NULL name.
extern struct emul_kernel emul_table[];

// 0: all forward; 1: all backward; then lanes, warps or all of them at random.
void emul_schedule(unsigned schedule);

// True if the grid has run to its end.
bool emul_launch(struct emul_kernel *k, struct dim3 grid, struct dim3 block,
                 const void *args);

// What was reported last; "" before the first.
const char *emul_last_report(void);

// ---- Called by device code -------------------------------------------------

void emul_sync_block(const char *file, int line);
uint64_t emul_warp_op(enum emul_op op, uint32_t mask, uint64_t value, int arg,
                      const char *file, int line);

// ---- Device memory ---------------------------------------------------------

// Exactly `bytes`, at an address that 256 divides.
void *emul_alloc(size_t bytes);
bool emul_free(void *at); // false: no such allocation
bool emul_is_device(const void *at);
// The host, or a copy, has written [at, at + bytes). False: not in one
// allocation, and said so.
bool emul_written(const void *at, size_t bytes, const char *what);
bool emul_readable(const void *at, size_t bytes, const char *what);

#ifdef __cplusplus
}
#endif
#endif
