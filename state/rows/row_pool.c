// SPDX-License-Identifier: Apache-2.0
// state/rows/row_pool.c -- slabs, and the chain of numbers that are free.
#include "state/rows/row_pool.h"

#include <string.h>

#include "common/base/huge.h"
#include "common/base/num.h"

#define FIRST_BYTES ((size_t)1 << 20) // of slab 0, at most twice as many

void row_pool_init(struct row_pool *p, size_t stride, uint32_t most,
                   struct row_account *account)
{
    *p = (struct row_pool){.stride = stride,
                           .pays = stride,
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
    row_account_give(p->account, p->taken * (uint64_t)p->pays, false);
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

    p->slab[k] = k == 0 ? sl_aligned(64, bytes) : sl_huge(bytes);
    return p->slab[k] != NULL ? SL_OK : SL_ENOMEM;
}

// Takes memory for numbers below `end`: of slabs only touched pages count.
static enum sl_err row_pool_pay(struct row_pool *p, uint32_t end)
{
    enum sl_err rc;

    if (end <= p->taken)
        return SL_OK;
    rc = (p->alone ? row_account_try : row_account_take)(
        p->account, (end - p->taken) * (uint64_t)p->pays, false);
    if (rc == SL_OK)
        p->taken = end;
    return rc;
}

enum sl_err row_pool_hold(struct row_pool *p, uint64_t end)
{
    uint64_t first = UINT64_C(1) << p->shift;
    enum sl_err rc;
    unsigned last;

    end = sl_min(end, p->most);
    if (end == 0)
        return SL_OK;
    rc = row_pool_pay(p, (uint32_t)end);
    if (rc != SL_OK)
        return rc;
    last = 63 - (unsigned)__builtin_clzll(end - 1 + first) - p->shift;
    for (unsigned k = 0; k <= last; k++)
        if (p->slab[k] == NULL && row_pool_grow(p, k) != SL_OK)
            return SL_ENOMEM;
    return SL_OK;
}

enum sl_err row_pool_reserve(struct row_pool *p, uint64_t n)
{
    if (n <= p->free_count || p->used == p->most)
        return SL_OK;
    return row_pool_hold(p, (uint64_t)p->used + n - p->free_count);
}

// Takes the numbers from `end` on out of the chain of free ones.
static void row_pool_unchain(struct row_pool *p, uint32_t end)
{
    uint32_t number = p->free_first, next;

    p->free_first = ROW_NONE;
    p->free_count = 0;
    for (; number != ROW_NONE; number = next) {
        memcpy(&next, row_pool_at(p, number), sizeof(next));
        if (number < end)
            row_pool_give(p, number);
    }
}

// Gives the pages of numbers [from, to), which are of one slab, to the system:
// also the page in which the last one ends, as all behind it is free, too. Slab
// 0 need not end where a page does.
static void row_pool_drop_pages(struct row_pool *p, uint32_t from, uint32_t to)
{
    uint8_t *first = row_pool_at(p, from), *last = row_pool_at(p, to - 1);
    bool small = from < UINT64_C(1) << p->shift;
    size_t page = small ? 4096 : SL_HUGE_PAGE, up = page - 1;
    uintptr_t low = ((uintptr_t)first + up) / page * page;
    uintptr_t high =
        ((uintptr_t)(last + p->stride) + (small ? 0 : up)) / page * page;

    if (low < high)
        (void)madvise((void *)low, high - low, MADV_DONTNEED);
}

void row_pool_trim(struct row_pool *p, uint32_t end)
{
    uint32_t from = end, to = p->taken;

    if (end >= to)
        return;
    row_pool_unchain(p, end);
    p->used = (uint32_t)sl_min(p->used, end);
    while (from < to) {
        uint64_t x = (uint64_t)from + (UINT64_C(1) << p->shift);
        uint64_t next = (UINT64_C(2) << (63 - __builtin_clzll(x))) -
                        (UINT64_C(1) << p->shift);

        row_pool_drop_pages(p, from, (uint32_t)sl_min(next, to));
        from = (uint32_t)sl_min(next, to);
    }
    p->taken = end;
    row_account_give(p->account, (to - end) * (uint64_t)p->pays, false);
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
