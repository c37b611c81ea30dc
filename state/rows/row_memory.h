// SPDX-License-Identifier: Apache-2.0
// state/rows/row_memory.h -- the memory that the rows of all sparse tables take
// in this process, and its limit.
//
// A table without max_rows grows as far as programs name new ids. The kernel
// would end the process for that, and with it the shards of all other jobs. So
// each shard has an account, memory is taken from the limit before it is used,
// and what asks for more is refused before it has changed a row.
//
// The last eighth of the limit is for accounts that hold less than an equal
// part of it: of two jobs, the one that fills the memory is refused first.
//
// Copies that a snapshot under way keeps are taken as `passing`. As they go
// when the snapshot is written, a refusal that they cause is one to wait for.
//
// Threads  any; an account: one at a time, under the lock of its shard.
// Memory   an account is the caller's.
// Units    bytes.
// Errors   of row_account_take. It has taken nothing then.
#ifndef STATE_ROWS_ROW_MEMORY_H
#define STATE_ROWS_ROW_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

// Sets the limit: to `rows`, or if that is 0 to four fifths of `process`, the
// memory that the process may use, less what row_memory_add_dense was told.
// Both 0, and before the call: no limit. Before the first account.
void row_memory_set(uint64_t rows, uint64_t process);

// Returns the limit; UINT64_MAX: none.
uint64_t row_memory_limit(void);

// Counts memory that is not of rows, in and out.
void row_memory_add_dense(uint64_t bytes);
void row_memory_drop_dense(uint64_t bytes);

struct row_account {
    uint64_t bytes;   // taken
    uint64_t passing; // a part of them
};

// Counts an account in, and out: all that it took must be given back.
void row_account_open(struct row_account *a);
void row_account_close(struct row_account *a);

// Takes memory; `a` may be NULL: then it is not counted. SL_ERANGE: too little
// is left. SL_EBUSY: so it is, but more will be when a snapshot is written.
enum sl_err row_account_take(struct row_account *a, uint64_t bytes,
                             bool passing);

// Gives back what was taken with the same `passing`, also in other portions.
void row_account_give(struct row_account *a, uint64_t bytes, bool passing);

// Writes a text for a refusal `rc`, also for SL_ENOMEM, and returns it.
enum sl_err row_memory_refuse(enum sl_err rc, struct sl_error *err);

#endif
