// SPDX-License-Identifier: Apache-2.0
// common/base/huge.h -- huge pages, for memory that is read all over.
//
// With small pages nearly every access would begin with a walk through the page
// tables. To ask for huge ones is a wish: without them it is slower and just as
// right.
//
// Threads  any.
// Memory   sl_free frees what sl_huge returns.
// Errors   NULL: no memory.
#ifndef COMMON_BASE_HUGE_H
#define COMMON_BASE_HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/base/mem.h"

#define SL_HUGE_PAGE ((size_t)2 << 20)

// Allocates whole huge pages, for `bytes` bytes of unknown content, and asks
// the system that they are.
static inline void *sl_huge(size_t bytes)
{
    size_t whole = (bytes + SL_HUGE_PAGE - 1) / SL_HUGE_PAGE * SL_HUGE_PAGE;
    void *at = whole < bytes ? NULL : sl_aligned(SL_HUGE_PAGE, whole);

    if (at != NULL)
        (void)madvise(at, whole, MADV_HUGEPAGE);
    return at;
}

#endif
