// SPDX-License-Identifier: Apache-2.0
// lib/space.h -- a vector of which only what was written takes memory.
//
// Threads  as of any memory.
// Units    bytes; whole pages are given back.
// Errors   space_new: NULL, there is not so much address space.
#ifndef LIB_SPACE_H
#define LIB_SPACE_H

#include <stddef.h>

// Returns `bytes` (above 0) bytes of zeros that begin at a page, for
// space_free; NULL if the kernel gives no such address space. A page takes
// memory once it is written to.
void *space_new(size_t bytes);
// Frees a vector of space_new and its memory; `bytes` is the number that
// space_new was given. NULL is allowed.
void space_free(void *space, size_t bytes);

// Gives the memory of the whole pages within the `bytes` bytes at `at`, a part
// of a vector of space_new, back to the kernel: they read as zeros again. Bytes
// that share a page with what lies before or behind stay as they are. Cannot
// fail.
void space_drop(void *at, size_t bytes);

#endif
