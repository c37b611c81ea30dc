// SPDX-License-Identifier: Apache-2.0
// state/rows/row_pool.h -- within state/rows only: numbered records of one
// size.
//
// Slab k has 2^k times the records of slab 0, so a number's place is found
// without a table of slabs, and nothing ever moves. Pages that no record has
// touched are not resident. A number that is given back is the head of a chain
// through the records themselves; what it holds of the last record is kept
// until it is taken again.
//
// Threads  one at a time.
// Memory   row_pool_release frees all. A record is at one place for as long as
//          its number is in use.
// Units    numbers count from 0, below `used`; bytes of a record, a multiple of
//          8.
// Errors   SL_ENOMEM of row_pool_reserve, and those of row_account_take
//          (SL_ERANGE: too little memory is left; SL_EBUSY: so it is until a
//          snapshot is written); a call that fails has changed no record.
#ifndef STATE_ROWS_ROW_POOL_H
#define STATE_ROWS_ROW_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "state/rows/row_memory.h"

#define ROW_NONE UINT32_MAX // no number
#define ROW_SLABS 33

struct row_pool {
    size_t stride;               // bytes of a record
    size_t pays;                 // and what the account pays for it
    bool alone;                  // it takes free memory alone (row_account_try)
    unsigned shift;              // slab 0 has 2^shift records
    uint32_t used;               // numbers that were ever taken: 0 to used - 1
    uint32_t free_count;         // numbers below `used` that are not in use
    uint32_t free_first;         // ROW_NONE: none
    uint32_t most;               // limit of numbers
    uint32_t taken;              // numbers that the account has memory for
    struct row_account *account; // borrowed; NULL: none
    uint8_t *slab[ROW_SLABS];    // owned; NULL: not needed yet
};

// Makes an empty pool for `most` records (at most ROW_NONE) of `stride` bytes.
// The account pays for them when they are reserved; now nothing is taken.
void row_pool_init(struct row_pool *p, size_t stride, uint32_t most,
                   struct row_account *account);
// Frees the slabs, and gives back their memory; row_pool_init makes it anew.
// All zeroes is allowed.
void row_pool_release(struct row_pool *p);

// Takes the memory for the next n numbers that row_pool_take returns, or for as
// many as the limit allows, and keeps it until row_pool_trim. Returns SL_OK,
// SL_ENOMEM, or an error of row_account_take.
enum sl_err row_pool_reserve(struct row_pool *p, uint64_t n);

// Takes the memory of all numbers below `end`, or of as many as the limit
// allows. Returns as row_pool_reserve does.
enum sl_err row_pool_hold(struct row_pool *p, uint64_t end);

// Returns how many numbers row_pool_take can return now without
// row_pool_reserve.
static inline uint64_t row_pool_ready(const struct row_pool *p)
{
    return p->free_count + (uint64_t)(p->taken - p->used);
}

// Gives back the memory of the numbers from `end` on, of which none is in use;
// row_pool_take returns none of them until they are reserved again.
void row_pool_trim(struct row_pool *p, uint32_t end);

// Returns a number that was not in use, a given-back one first. Its memory must
// be reserved, and the limit not reached; what the record holds is not defined.
uint32_t row_pool_take(struct row_pool *p);

// Takes a number back, which is not in use from then on.
void row_pool_give(struct row_pool *p, uint32_t number);

// Returns the memory of a number that was reserved.
static inline void *row_pool_at(const struct row_pool *p, uint32_t number)
{
    uint64_t x = (uint64_t)number + (UINT64_C(1) << p->shift);
    unsigned k = 63 - (unsigned)__builtin_clzll(x);

    return p->slab[k - p->shift] + (x - (UINT64_C(1) << k)) * p->stride;
}

#endif
