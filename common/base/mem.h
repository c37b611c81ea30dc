// SPDX-License-Identifier: Apache-2.0
// common/base/mem.h -- the allocator, with a point of failure for tests.
//
// Out of memory is an answer (NULL), never an exit: a daemon that cannot take
// one more request still has others to serve. Tests raise the point of
// failure until a call succeeds, and so visit every unwinding path:
//
//     for (uint64_t n = 1;; n++) {
//         sl_mem_fail_at(n);
//         rc = thing_new(&t, &err);
//         if (!sl_mem_failed()) break;
//         T_EQ(rc, SL_ENOMEM);
//     }
//
// Threads  any; only sl_mem_trim waits, and each may be called under a lock.
// Memory   what these return is freed with sl_free only; texts are not NULL.
#ifndef COMMON_BASE_MEM_H
#define COMMON_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

// These allocate as in C and return NULL when out of memory, except that size 0
// gives a pointer that is not NULL, and that count * size is checked for
// overflow (NULL).

// Allocates `bytes` bytes of unknown content.
void *sl_malloc(size_t bytes);
// Allocates `count` elements of `size` bytes, all zeroes.
void *sl_calloc(size_t count, size_t size);
// Resizes `old` (NULL: allocates); it may move. On NULL `old` is still valid.
void *sl_realloc(void *old, size_t bytes);
// Allocates `count` elements of `size` bytes, of unknown content.
void *sl_malloc_array(size_t count, size_t size);
// Resizes `old` to `count` elements of `size` bytes, as sl_realloc does.
void *sl_realloc_array(void *old, size_t count, size_t size);
// Frees what a function of this header returned. NULL is allowed.
void sl_free(void *p);

// Returns a copy of `text`, which the caller frees (sl_free); NULL when out of
// memory.
char *sl_strdup(const char *text);
// Returns a copy of the first `len` bytes of `text`, or fewer if it ends
// before, and a 0; the same otherwise.
char *sl_strndup(const char *text, size_t len);

// Allocates `bytes` rounded up to whole cache lines of 64 bytes, at least one,
// aligned to `align` (a power of two, at least 64), of unknown content, for
// parameters and activations. sl_free frees it; sl_realloc would lose the
// alignment. NULL when out of memory.
void *sl_aligned(size_t align, size_t bytes);

// Returns the pages of freed memory to the kernel. Takes milliseconds for each
// GiB of it, in which other threads that allocate wait.
void sl_mem_trim(void);

// Makes the n-th allocation from now (1: the next; resizes count), and every
// later one, fail until the next call of this or of sl_mem_failed; 0: none
// fails. Process-wide, for tests.
void sl_mem_fail_at(uint64_t n);

// Returns true if an allocation was refused since sl_mem_fail_at(n > 0), and
// switches the point of failure off.
bool sl_mem_failed(void);

// Keeps freed pages in the process: freed tensors are allocated again at once,
// and giving their pages back and faulting them in anew costs more than the
// copy. Process-wide; a second call has no effect.
void sl_mem_keep_freed(void);

// Returns the number of allocations not freed yet; for tests.
uint64_t sl_mem_live(void);

// Returns the number of successful allocations since the start of the process,
// resizes included; for tests.
uint64_t sl_mem_calls(void);

#endif
