// SPDX-License-Identifier: Apache-2.0
// lib/space.h -- a vector of which only what was written takes memory.
//
// Threads  as of any memory.
// Units    bytes; whole pages are given back.
// Errors   space_new: NULL, there is not so much address space.
#ifndef LIB_SPACE_H
#define LIB_SPACE_H

#include <stddef.h>

// Returns a vector of zeros, `bytes` (above 0) long, that begins with a page.
void *space_new(size_t bytes);
void space_free(void *space, size_t bytes); // as in space_new; NULL is allowed

// Gives back the memory of `bytes` bytes at `at`, but for what shares a page
// with what lies before or behind them; what is given back is zeros again.
void space_drop(void *at, size_t bytes);

#endif
