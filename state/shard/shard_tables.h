// SPDX-License-Identifier: Apache-2.0
// state/shard/shard_tables.h -- the sparse tables of a shard, and the rows of a
// push.
//
// A step's rows come with its push, are checked with it, and are applied and
// counted under the same lock (T1, S1). An update applies every table, also
// those of which the step touches no row: eviction is a part of it (T5).
//
// Threads  tables_init, tables_release: one. tables_flatten, tables_check,
//          tables_push_release, tables_next, tables_row_bytes and
//          tables_answer_bytes: any; the rest: under the shard's lock.
// Memory   tables_release frees the sets. The bytes of a push are borrowed, or
//          owned by struct tables_push if they came in pieces.
// Units    versions count the shard's updates, from 1; elements; ids are u64.
//          Rows come and go in blocks, one for each table (proto/table_rows.h).
// Errors   say what does not fit; a call that fails has changed no row. `err`
//          may be NULL.
#ifndef STATE_SHARD_SHARD_TABLES_H
#define STATE_SHARD_SHARD_TABLES_H

#include "common/base/slices.h"
#include "proto/table_rows.h"
#include "state/shard/plan.h"

struct tables {
    struct rowset **sets; // owned, by the table's number
    uint32_t *dims;       // owned
    size_t count;
    struct row_account *account; // of all; owned
};

// Makes an empty set of rows for each table of the plan, which all are of one
// account, the plan's tenant's; a plan without tables makes *out zeroes,
// without an account. Returns SL_OK; SL_EINVAL: a number of a table's spec is
// out of range; SL_ENOMEM, also if rows may not take so much. *out is zeroes
// after a failure.
enum sl_err tables_init(struct tables *out, const struct plan *plan,
                        struct sl_error *err);
// Frees the sets and the account, and gives free memory of the whole process
// back to the system; *t is all zeroes then. All zeroes is allowed.
void tables_release(struct tables *t);

// The blocks of one message, as bytes in one piece.
struct tables_push {
    const uint8_t *bytes;
    size_t n;
    uint8_t *owned; // NULL: the bytes are borrowed
};

// Sets *out to the bytes of a message's blocks in one piece: borrowed if they
// lie so, else copied. Zeroes for a message without any. Returns SL_OK;
// SL_ENOMEM: *out is zeroes.
enum sl_err tables_flatten(struct tables_push *out,
                           const struct sl_slices *rows);
// Frees what tables_flatten has made; *p is all zeroes then. All zeroes is
// allowed.
void tables_push_release(struct tables_push *p);

// Checks all blocks. `elements`: they have gradients behind their ids, as in a
// push; false: ids alone, as in a pull. No bytes at all are right. Returns
// SL_OK; SL_EINVAL: they are no blocks, or no rows of this shard in their order
// (T3); SL_ENUMERIC: a gradient is not finite.
enum sl_err tables_check(const struct tables *t, const struct tables_push *p,
                         bool elements, struct sl_error *err);

// Takes the memory that tables_apply needs for a push that tables_check has
// passed (S4), and brings its rows that lie in a file into memory; holds until
// the next change, reserve or freeze of the tables. Returns SL_OK; SL_ENOMEM;
// SL_ERANGE or SL_EBUSY: too little memory is left, or a file cannot be
// written; SL_ECORRUPT: a file cannot be read. *err names the table, whose name
// is in `plan`. Where memory is short it may write rows to files, and give up
// the ids that tables_follow notes, also if it fails.
enum sl_err tables_reserve(struct tables *t, const struct plan *plan,
                           const struct tables_push *p, struct sl_error *err);

// Applies an update to every table, with the rows of a push that tables_check
// has passed, after tables_reserve (rowset_apply); `p` may be NULL: no rows.
// Does not fail.
void tables_apply(struct tables *t, const struct rowset_step *step,
                  const struct tables_push *p);

// Reads the block at *at of a message that tables_check has passed, with
// `elements` as there, steps over it and returns true; false at the end. The
// block borrows from the message.
static inline bool tables_next(const struct tables *t, struct table_rows_at *at,
                               bool elements, struct table_rows *block)
{
    return at->left > 0 && table_rows_next(block, at, t->dims, t->count,
                                           elements, NULL) == SL_OK;
}

// Returns the bytes of the values (f32) of the longest row of all tables; 0
// without tables.
size_t tables_row_bytes(const struct tables *t);

// Returns the bytes of the answer to a pull of the ids in *p, which
// tables_check has passed (without `elements`).
size_t tables_answer_bytes(const struct tables *t, const struct tables_push *p);

// Sets *sum to the sums of the figures of all tables (but not `largest` and
// `hot`, which stay 0), and each[i] to those of table i, unless `each` is NULL.
void tables_counts(const struct tables *t, struct rowset_counts *sum,
                   struct rowset_counts *each);

// Begins an instant of all tables, the state after update `version`, the newest
// (0: none was), until tables_thaw: rows that updates change meanwhile are
// saved first (rowset_freeze). No instant is under way, here and below. Does
// nothing slow, and does not fail.
void tables_freeze(struct tables *t, uint64_t version);
// Begins an instant of the records alone that changed after update `since`
// (rowset_freeze_changed), and sets the ids apart that went (rowset_gone_seal),
// until tables_gone_end.
void tables_freeze_changed(struct tables *t, uint64_t version, uint64_t since);
// Forgets the ids that were set apart, if the snapshot that has them is
// `durable`; else the next one is to have them, too (rowset_gone_end).
void tables_gone_end(struct tables *t, bool durable);

// Notes the ids that go from now on, of all tables, and forgets those noted, or
// set apart, before (rowset_gone_begin): called at each instant that has all
// records. Where memory is short a table's ids are given up (tables_followed is
// false then).
void tables_follow(struct tables *t);
// Returns true if all ids that went since the last tables_follow are known
// (rowset_gone_known); false before the first, and without tables.
bool tables_followed(const struct tables *t);

// Ends the instant (rowset_thaw). A table without one is left alone.
void tables_thaw(struct tables *t);

#endif
