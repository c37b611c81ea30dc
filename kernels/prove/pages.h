// SPDX-License-Identifier: Apache-2.0
// kernels/prove/pages.h -- memory that goes back to the host when it is freed,
// and large arrays in little memory: their pages are a few, mapped again and
// again.
//
// Threads  any.
// Memory   what is returned is the caller's until pages_free. Only a little of
//          it comes from the heap, which would keep it.
// Units    bytes.
// Errors   NULL or false: the host has no memory, or refuses.
#ifndef KERNELS_PROVE_PAGES_H
#define KERNELS_PROVE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

// After so many bytes the contents of pages_new_repeated repeat: 31 pages of 64
// KiB, and 496 of 4 KiB. It is no power of two, as rows and tiles are, so that
// neighbours differ.
#define PAGES_PERIOD ((size_t)31 << 16)

// Returns `bytes` bytes of undefined contents, aligned to a cache line, for
// pages_free; NULL: no memory.
void *pages_new(size_t bytes);

// Returns an array of `bytes` bytes, more than PAGES_PERIOD, that takes no more
// than PAGES_PERIOD of memory: byte i and all bytes i + k PAGES_PERIOD are one
// byte. For pages_free; NULL: no memory, or the host refuses. VmRSS counts each
// page as often as it is mapped; a limit of a control group counts it once.
void *pages_new_repeated(size_t bytes);

// Gives bytes [from, to) of the array `base` of pages_new_repeated, `bytes`
// long, and the pages that they lie in, memory of their own with the same
// contents, and returns true. Returns false if there is none: contents are as
// they were, and may still be shared.
bool pages_own(void *base, size_t bytes, size_t from, size_t to);

// Frees an array of pages_new or pages_new_repeated; `bytes` is the number that
// it was made with. NULL is allowed.
void pages_free(void *base, size_t bytes);

#endif
