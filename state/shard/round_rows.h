// SPDX-License-Identifier: Apache-2.0
// state/shard/round_rows.h -- the rows of a round (train.mode sync): one
// message, made of those of its contributions.
//
// A round is one update (T7). Its gradient of an id is the mean over the
// round's samples: sum n_i g_i / sum n_i, over the contributions that have the
// id, in the order of slots, divided by the samples of all. It is computed in
// f32, as that of values is (contributions.h), and ids come in the order of
// their hashes.
//
// The rows of these ids as they were before are kept until the next round: a
// worker that computes a slot again reads them (T8).
//
// Threads  the shard's lock.
// Memory   round_rows_release frees; it is taken from the account of the
//          shard's rows (row_memory.h).
// Units    blocks of f32 elements, as in proto/table_rows.h.
// Errors   SL_ENOMEM, and those of row_account_take (SL_ERANGE: too little
//          memory is left; SL_EBUSY: so it is until a snapshot is written);
//          *out is zeroes then.
#ifndef STATE_SHARD_ROUND_ROWS_H
#define STATE_SHARD_ROUND_ROWS_H

#include "state/shard/contributions.h"
#include "state/shard/shard_tables.h"

struct round_rows {
    struct tables_push blocks; // `owned` is always its memory
    size_t taken;              // bytes of the account
};

// Sets *out to the means of the rows' gradients in the held contributions of
// `c`, of which none is to be skipped; they need not be finite. Returns SL_OK,
// and *out is for round_rows_release, without blocks if there are no ids; or
// the errors above; SL_ERANGE also for 2^32 ids or more.
enum sl_err round_rows_mean(struct round_rows *out, const struct tables *t,
                            const struct contributions *c);

// Returns true if all elements of the blocks are finite.
bool round_rows_finite(const struct round_rows *r, const struct tables *t);

// Sets *out to the values of the rows of the ids that `of` has, as they are in
// the tables now, for round_rows_release; reads files where they lie there.
// Returns SL_OK, or the errors above; SL_ECORRUPT, with a text in *err: a row
// lies in a file that cannot be read.
enum sl_err round_rows_read(struct round_rows *out, const struct tables *t,
                            const struct round_rows *of, struct sl_error *err);

// Overwrites values[i * dim] and what follows, for each of n ids (u64,
// little-endian, in any order) of a table that *r has, by the dim values in *r;
// leaves the others.
void round_rows_find(const struct round_rows *r, const struct tables *t,
                     uint32_t table, size_t n, const uint8_t *ids,
                     float *values);

// Frees the memory, gives it back to the account of `t`, and leaves *r all
// zeroes, which is allowed, too.
void round_rows_release(struct round_rows *r, const struct tables *t);

#endif
