// SPDX-License-Identifier: Apache-2.0
// state/rows/row_pool.c -- slabs, and the chain of numbers that are free.
#include "state/rows/row_pool.h"

#include <string.h>
#include <sys/mman.h>

#include "common/base/mem.h"
#include "common/base/num.h"

#define FIRST_BYTES ((size_t)1 << 20) // of slab 0, at most twice as many
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void row_pool_init(struct row_pool *p, size_t stride, uint32_t most,
                   struct row_account *account)
{
    *p = (struct row_pool){.stride = stride,
                           .free_first = ROW_NONE,
                           .most = most,
                           .account = account};
    while ((stride << p->shift) < FIRST_BYTES)
        p->shift++;
}

void row_pool_release(struct row_pool *p)
{
    for (unsigned k = 0; k < ROW_SLABS; k++)
        sl_free(p->slab[k]);
    row_account_give(p->account, p->taken * (uint64_t)p->stride, false);
    *p = (struct row_pool){.free_first = ROW_NONE};
}

// The last slab ends at the limit. Small tables stay in small pages: a huge one
// would be resident as a whole.
static enum sl_err row_pool_grow(struct row_pool *p, unsigned k)
{
    uint64_t first =
        (UINT64_C(1) << (p->shift + k)) - (UINT64_C(1) << p->shift);
    uint64_t records = UINT64_C(1) << (p->shift + k);
    size_t bytes = sl_min(records, p->most - first) * p->stride;
    size_t align = k == 0 ? 64 : HUGE_PAGE_BYTES;

    p->slab[k] = sl_aligned(align, (bytes + align - 1) / align * align);
    if (p->slab[k] == NULL)
        return SL_ENOMEM;
    // A wish: without huge pages it is slower and just as right.
    if (k > 0)
        (void)madvise(p->slab[k], (bytes + align - 1) / align * align,
                      MADV_HUGEPAGE);
    return SL_OK;
}

// Takes memory for numbers below `end`: of slabs only touched pages count.
static enum sl_err row_pool_pay(struct row_pool *p, uint32_t end)
{
    enum sl_err rc;

    if (end <= p->taken)
        return SL_OK;
    rc = row_account_take(p->account, (end - p->taken) * (uint64_t)p->stride,
                          false);
    if (rc == SL_OK)
        p->taken = end;
    return rc;
}

enum sl_err row_pool_reserve(struct row_pool *p, uint64_t n)
{
    uint64_t end, first = UINT64_C(1) << p->shift;
    enum sl_err rc;
    unsigned last;

    if (n <= p->free_count || p->used == p->most)
        return SL_OK;
    end = sl_min((uint64_t)p->used + n - p->free_count, p->most);
    rc = row_pool_pay(p, (uint32_t)end);
    if (rc != SL_OK)
        return rc;
    last = 63 - (unsigned)__builtin_clzll(end - 1 + first) - p->shift;
    for (unsigned k = 0; k <= last; k++)
        if (p->slab[k] == NULL && row_pool_grow(p, k) != SL_OK)
            return SL_ENOMEM;
    return SL_OK;
}

uint32_t row_pool_take(struct row_pool *p)
{
    uint32_t number = p->free_first;

    if (number == ROW_NONE)
        return p->used++;
    memcpy(&p->free_first, row_pool_at(p, number), sizeof(p->free_first));
    p->free_count--;
    return number;
}

void row_pool_give(struct row_pool *p, uint32_t number)
{
    memcpy(row_pool_at(p, number), &p->free_first, sizeof(p->free_first));
    p->free_first = number;
    p->free_count++;
}
