// SPDX-License-Identifier: Apache-2.0
// state/rows/row_memory.c -- one count for the process, and its refusals.
#include "state/rows/row_memory.h"

#include <assert.h>
#include <stdatomic.h>

#include "common/base/bytes.h"

#define SPARE_PART 8 // one part in so many is for accounts that hold little

static struct {
    uint64_t rows, process; // settings
    struct {
        _Atomic uint64_t used, passing; // `passing` is a part of `used`
        _Atomic uint64_t dense;
        _Atomic uint64_t accounts;
    } _shared;
} memory;

void row_memory_set(uint64_t rows, uint64_t process)
{
    memory.rows = rows;
    memory.process = process;
}

uint64_t row_memory_limit(void)
{
    uint64_t most = memory.process / 5 * 4;
    uint64_t dense = atomic_load(&memory._shared.dense);

    if (memory.rows != 0)
        return memory.rows;
    if (memory.process == 0)
        return UINT64_MAX;
    return dense < most ? most - dense : 0;
}

void row_memory_add_dense(uint64_t bytes)
{
    atomic_fetch_add(&memory._shared.dense, bytes);
}

void row_memory_drop_dense(uint64_t bytes)
{
    atomic_fetch_sub(&memory._shared.dense, bytes);
}

void row_account_open(struct row_account *a)
{
    *a = (struct row_account){0};
    atomic_fetch_add(&memory._shared.accounts, 1);
}

void row_account_close(struct row_account *a)
{
    assert(a->bytes == 0);
    (void)a;
    atomic_fetch_sub(&memory._shared.accounts, 1);
}

// Returns the limit for an account that asks for `more`, which stays.
static uint64_t limit_for(const struct row_account *a, uint64_t more)
{
    uint64_t limit = row_memory_limit();

    return a->bytes - a->passing + more >
                   limit / atomic_load(&memory._shared.accounts)
               ? limit - limit / SPARE_PART
               : limit;
}

enum sl_err row_account_take(struct row_account *a, uint64_t bytes,
                             bool passing)
{
    uint64_t limit, used;

    if (a == NULL || bytes == 0)
        return SL_OK;
    limit = limit_for(a, passing ? 0 : bytes);
    used = atomic_load(&memory._shared.used);
    do {
        if (bytes > limit || used > limit - bytes)
            return passing || used + bytes - limit <=
                                  atomic_load(&memory._shared.passing)
                       ? SL_EBUSY
                       : SL_ERANGE;
    } while (!atomic_compare_exchange_weak(&memory._shared.used, &used,
                                           used + bytes));
    a->bytes += bytes;
    a->passing += passing ? bytes : 0;
    if (passing)
        atomic_fetch_add(&memory._shared.passing, bytes);
    return SL_OK;
}

void row_account_give(struct row_account *a, uint64_t bytes, bool passing)
{
    if (a == NULL)
        return;
    a->bytes -= bytes;
    a->passing -= passing ? bytes : 0;
    // In this order: what was counted as passing is always a part of `used`.
    if (passing)
        atomic_fetch_sub(&memory._shared.passing, bytes);
    atomic_fetch_sub(&memory._shared.used, bytes);
}

enum sl_err row_memory_refuse(enum sl_err rc, struct sl_error *err)
{
    char used[BYTES_TEXT], most[BYTES_TEXT];

    if (rc == SL_ENOMEM)
        return sl_no_memory(err);
    bytes_text(used, atomic_load(&memory._shared.used));
    bytes_text(most, row_memory_limit());
    return sl_fail(
        err, rc, "no memory for another row: rows of all jobs take %s of %s%s",
        used, most,
        rc == SL_EBUSY ? ", more is free when a snapshot is written"
                       : "; submit the job with evict.max_rows or with more "
                         "psservers, or give this one more (--rows-memory)");
}
