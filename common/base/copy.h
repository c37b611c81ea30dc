// SPDX-License-Identifier: Apache-2.0
// common/base/copy.h -- memcpy for payloads.
//
// glibc up to 2.38, so Debian 12's too, copies a few KiB and more with `rep
// movsb` where the processor recommends it. On AMD's Zen 3 and 4 that takes
// sixteen times as long if the target begins up to 63 bytes beyond the source,
// modulo 4096 (glibc's bug 30994): 3.4 instead of 54 GB/s, measured from 4 to
// 256 KiB. Payloads that came over a wire begin anywhere, so some always meet
// it. This one copies with plain vectors, which are as fast in every position.
//
// Threads  any.
// Memory   the ranges must not overlap; any alignment.
// Units    bytes.
#ifndef COMMON_BASE_COPY_H
#define COMMON_BASE_COPY_H

#include <stddef.h>

// Copies `bytes` bytes (0 is allowed) from `from` to `to`.
void sl_copy(void *to, const void *from, size_t bytes);

// Copies as sl_copy does what is not read soon: past the caches, so that the
// lines of `to` need not be fetched first. No other thread may read `to` before
// sl_copy_settle.
void sl_copy_away(void *to, const void *from, size_t bytes);
// Waits until all threads see what this one has copied away. To be called
// before a lock is let go.
void sl_copy_settle(void);

#endif
