// SPDX-License-Identifier: Apache-2.0
// state/rows/rowset.h -- the rows of one sparse table on one shard.
//
// A row comes to be in the update that admits its id, and is one record: id,
// the version of its last update, the number of its updates, its values, and
// the slots of its optimizer. Records lie in slabs and have numbers; an index
// of 64-byte groups with one-byte tags finds the number of an id. Ids that are
// counted and have no row yet are *waiting*: records without values, in a store
// of the same kind.
//
// What an update does depends on the records, the update and its version alone
// (T5): not on where records lie, on reads, or on time. So a shard that loads a
// snapshot and is pushed the lost steps again comes to the same rows.
//
//   eviction    Once per update, one bucket (version mod the shard's buckets)
//               is examined for rows that were unused for `unused_steps`
//               versions, or have a norm below `least_norm`. A new row that
//               finds the table full takes the place of the row that was unused
//               for longest among about 16 with the hashes that follow its own.
//               No row that the same update changes is evicted.
//   admission   An id without a row is counted once per update (T4). It is
//               admitted by the update that is its `min_count`-th, which
//               also applies its gradient, and where its coin, hash(seed,
//               table, id, closure, step), falls below `probability`; otherwise
//               its gradient changes no value. A waiting id above the limit of
//               rows takes the place of another one as a row does.
//
// An update:
//
//     rowset_check     of each table, before the step is counted
//     rowset_reserve   of each table
//     rowset_fill      of each table; the last that can fail (S4)
//     rowset_apply     of each table, also of those of which the step touches
//                      no row (n = 0), at the version that the update makes
//
// Threads  one at a time, under the lock of the shard; rowset_check: any.
// Memory   ids and gradients are borrowed, and may lie at any address: they
//          point into a message.
// Units    versions count the shard's updates, from 1; elements are f32 in
//          memory; ids are u64, little-endian in messages; _bytes.
// Errors   a call that fails has changed no row. `err` may be NULL.
#ifndef STATE_ROWS_ROWSET_H
#define STATE_ROWS_ROWSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "plan/tables.h"
#include "proto/wire.h"
#include "state/base/initial.h"
#include "state/rows/row_memory.h"
#include "state/rows/row_rule.h"

// A record, as it is in memory and in snapshots: this header, `dim` values,
// slots, zeroes up to a multiple of 8 bytes. A waiting id is the header alone.
struct row_header {
    uint64_t id;
    uint32_t changed; // version of its last update
    uint32_t score;   // number of its updates, saturating; at least 1
};

struct rowset_spec {
    uint32_t table; // its number in the job
    uint32_t dim;   // values of a row; 1 to TABLE_DIM_MOST
    // buckets: 1 to TABLE_BUCKETS_MOST; shard is below shards
    uint32_t buckets, shard, shards;
    uint64_t seed;          // the job's
    struct initial initial; // values of an id without a row
    struct row_rule rule;
    double scale;       // factor of the learning rate
    uint32_t min_count; // 0, 1: the first update admits an id
    double probability; // 1: every id; above 0
    // Of the table on all shards (a shard may have its part, but one row at
    // least); 0: TABLE_ROWS_MOST on each shard.
    uint64_t max_rows;
    uint64_t unused_steps;       // 0: never
    double least_norm;           // L2 norm; 0: never
    struct row_account *account; // pays for the memory; borrowed; NULL: none
};

struct rowset;

// Checks the numbers of a spec. Returns SL_OK; SL_EINVAL says which is out of
// range.
enum sl_err rowset_check_spec(const struct rowset_spec *spec,
                              struct sl_error *err);

// Makes an empty set of rows, which may go to a file if the process has a
// folder for files (row_disk.h), the set an account, and a record more than
// ROW_COLD_BYTES (row_tier.h). The spec is copied; its account is open as
// long as the set is there. Returns SL_OK; SL_EINVAL says which number of the
// spec is out of range; SL_ENOMEM, also if rows may not take so much. *out is
// untouched then.
enum sl_err rowset_new(struct rowset **out, const struct rowset_spec *spec,
                       struct sl_error *err);
// Frees all rows, and gives their memory back to the account, which is still
// open. The set may be frozen; NULL is allowed.
void rowset_free(struct rowset *r);

// Returns the bytes of the record of a row, a multiple of 8.
size_t rowset_stride(const struct rowset *r);
// The two parts of a set: rows, and waiting ids.
enum rowset_part { ROWSET_ROWS, ROWSET_WAITING };
#define ROWSET_PARTS 2
// Returns the bytes of a record of a part, as rowset_part_stride, from the
// settings alone.
size_t rowset_record_bytes(const struct rowset_spec *spec,
                           enum rowset_part part);

// A row that rowset_look has found to lie in a file (row_tier.h): where, and
// its checksum then.
struct rowset_miss {
    uint32_t place; // index of its id among the ids
    uint32_t slot, check;
};

// Writes the rows of n ids that are in memory to values[i * dim], f32, aligned;
// those of an id without a row are a function of (seed, table, id). Ids in any
// order, also twice, of any shard (a caller that wants only this shard's checks
// them: rowset_check). Returns how many rows lie in a file: these are listed in
// `miss`, which has room for n (NULL only if the process has no folder for
// files), and their values are not written (rowset_fetch does). Makes no row
// (T2), does not fail, and allocates nothing; with files it counts hits and
// misses.
size_t rowset_look(struct rowset *r, size_t n, const void *ids, float *values,
                   struct rowset_miss *miss);

// Reads the n rows in `miss`, from rowset_look, from the file into the same
// `values`. To be called with or without the lock of the shard. Sets *left to
// how many rows were not as they were looked for, and moves these to the front
// of `miss`: without the lock they may lie elsewhere by now, and the caller
// looks again. n may be 0. Returns SL_OK; SL_ENOMEM; SL_ECORRUPT: the file
// cannot be read. After these *left means nothing, and some values may be
// written.
enum sl_err rowset_fetch(const struct rowset *r, size_t n,
                         struct rowset_miss *miss, float *values, size_t *left,
                         struct sl_error *err);

// Calls rowset_look and rowset_fetch, under the lock: writes the values of all
// n ids. Does not fail for a set without files. Returns SL_OK; SL_ENOMEM;
// SL_ECORRUPT: a row cannot be read, or is not as it was written; some values
// may be written then.
enum sl_err rowset_read(struct rowset *r, size_t n, const void *ids,
                        float *values, struct sl_error *err);

// Writes the dim values that an id without a row has to `values`, whether it
// has one or not. Any thread.
void rowset_first(const struct rowset *r, uint64_t id, float *values);

// Checks the rows of a push as a whole: SL_EINVAL if the ids do not rise in the
// order of their hashes (so also if one stands twice), or one is of another
// shard (T3); SL_ENUMERIC if a gradient is not finite. The text names table and
// id. `grads`: n rows of dim elements of `type`; NULL: only ids are checked. n
// may be 0. Else returns SL_OK.
enum sl_err rowset_check(const struct rowset *r, size_t n, const void *ids,
                         enum wire_type type, const void *grads,
                         struct sl_error *err);

// Takes the memory that rowset_apply needs for these ids, which rowset_check
// has passed (perhaps none: an update without ids may evict), and changes no
// row. Returns SL_OK; SL_ENOMEM; SL_ERANGE: too little memory is left, or a
// file cannot be written; SL_EBUSY: there is too little until a snapshot is
// written; row_memory_refuse has the text. The memory is held until the next
// rowset_apply, rowset_freeze or rowset_put. Where memory is short, rows of all
// sets of the account may go to files, and the ids that rowset_gone_begin notes
// be given up.
enum sl_err rowset_reserve(struct rowset *r, size_t n, const void *ids);

// Brings those rows of these ids into memory that lie in a file (row_tier.h),
// and makes place for new ones; nothing for a set without files. To be called
// after rowset_reserve of all sets of the account, as each of them may give
// memory to another; it holds until the next rowset_reserve of any of them.
// Counts hits and misses, also where it fails; but not as long as no row lies
// in a file and all new ones fit into memory. Returns SL_OK; SL_ENOMEM;
// SL_ERANGE: this update needs more rows in memory at once than may be, or a
// file cannot be written; SL_ECORRUPT: a file cannot be read. The account has
// the reason (row_memory_refuse).
enum sl_err rowset_fill(struct rowset *r, size_t n, const void *ids);

// An update of the shard.
struct rowset_step {
    uint64_t closure;
    uint32_t step;    // of the closure
    uint32_t version; // that the update makes; above every earlier one
    double rate;      // learning rate, scheduled, before the table's scale
    float factor;     // the gradient is multiplied by it first
};

// Applies an update to ids that rowset_check has passed, after rowset_reserve
// and rowset_fill for the same ids: changes their rows, counts ids without one
// and admits some, evicts rows of one bucket, saves what a walk needs, and
// notes ids that went. `grads` are of `type`, as there, and not NULL unless n
// is 0: then `ids` may be NULL, too. Does not fail.
void rowset_apply(struct rowset *r, const struct rowset_step *step, size_t n,
                  const void *ids, enum wire_type type, const void *grads);

// Figures of a set: the present ones, and sums since it was made.
struct rowset_counts {
    uint64_t rows, waiting;
    // Memory of records, waiting ones too, headers of cold ones, and index;
    // with free places among them.
    uint64_t bytes;
    uint64_t admitted;       // rows that updates made
    uint64_t evicted_full;   // that gave their place to new ones
    uint64_t evicted_unused; // for unused_steps
    uint64_t evicted_small;  // for least_norm
    // Waiting ids that gave their place to others, or went for unused_steps.
    uint64_t forgotten;
    uint64_t unadmitted;   // gradients that changed nothing
    uint64_t largest;      // most rows that one bucket ever had
    uint64_t cold;         // of `rows`: those that lie in a file
    uint64_t file_bytes;   // that the file has taken
    uint64_t hits, misses; // rows found in memory, and in the file
    uint64_t cooled;       // rows that went to the file
    uint64_t gradients;    // that came; `unadmitted` is a part of them
    // The rows with most updates, the most first; 0 updates: no more are
    // known, as rows went and too few others have changed since.
    struct rowset_hot {
        uint64_t id, updates;
    } hot[TABLE_HOT];
};

// Returns the number of rows that went, for whatever reason.
static inline uint64_t rowset_evicted(const struct rowset_counts *c)
{
    return c->evicted_full + c->evicted_unused + c->evicted_small;
}

// Sets *out to the figures of the set.
void rowset_counts(const struct rowset *r, struct rowset_counts *out);

// ---- one instant, for a snapshot (T6)

// Returns the bytes of a record of a part: rowset_stride of ROWSET_ROWS, 16 of
// ROWSET_WAITING.
size_t rowset_part_stride(const struct rowset *r, enum rowset_part part);

// Takes the instant: the state after update `version`, the newest (0: none
// was). Updates go on, and save the records that they change before the walk
// has come to them. Does nothing slow. The set must not be frozen.
void rowset_freeze(struct rowset *r, uint32_t version);

// Takes the instant, as rowset_freeze does, of those records alone that were
// changed after update `since`, which is below UINT32_MAX: the walk leaves out
// all others (T10).
void rowset_freeze_changed(struct rowset *r, uint32_t version, uint32_t since);

// Returns true between rowset_freeze and rowset_thaw.
bool rowset_is_frozen(const struct rowset *r);

// Returns the number of records that the walk of a part gives in all, from its
// beginning to its end; of rowset_freeze_changed, a number that they do not
// exceed. The set is frozen.
uint64_t rowset_frozen(const struct rowset *r, enum rowset_part part);

// Goes on with the walk over a part of the instant: examines at most `most`
// records (not 0), copies those that are of the instant to `out`, which has
// room for `most`, and sets *n to how many they are, perhaps 0; may read a
// file. Each record of the instant comes once, in no order. Returns true while
// there may be more; false, with *n 0, after the last one, or when a file
// cannot be read (rowset_walked). The lock may be given up between two calls.
bool rowset_walk(struct rowset *r, enum rowset_part part, size_t most,
                 void *out, size_t *n);

// Returns SL_OK; or, when rowset_walk over the rows has returned false before
// the last one, SL_ECORRUPT: a file cannot be read, or a row in it is not as it
// was written.
enum sl_err rowset_walked(const struct rowset *r, struct sl_error *err);

// Ends the instant, also before the walk's end, and frees saved records. A set
// that is not frozen is left alone.
void rowset_thaw(struct rowset *r);

// Notes the ids of records that go from now on, for a snapshot of what changed,
// and forgets those noted or set apart before: a snapshot that is taken at this
// moment has all others. They cost 8 bytes each, and are given up, rather than
// a push, where memory or the list's limit is short.
void rowset_gone_begin(struct rowset *r);

// Returns true if all ids that went since rowset_gone_begin are known; false
// before it.
bool rowset_gone_known(const struct rowset *r);

// Sets the ids apart that went since rowset_gone_begin or the last seal,
// whichever was later; at an instant. The seal before must have been ended
// (rowset_gone_end).
void rowset_gone_seal(struct rowset *r);
// Ends what rowset_gone_seal began: forgets these ids if the snapshot that has
// them is durable; else the next one is to have them, too.
void rowset_gone_end(struct rowset *r, bool durable);

// Returns the number of ids of a part that were set apart. An id may be among
// them twice, and may have a record again.
uint64_t rowset_gone(const struct rowset *r, enum rowset_part part);

// Place in a list of ids; all zeroes at the beginning.
struct rowset_gone_at {
    bool begun;
    const struct row_gone_piece *piece;
    uint64_t next;
};

// Copies the next ids of a part that were set apart, at most `most`; returns
// their number, 0 behind the last one. Without the lock, between
// rowset_gone_seal and rowset_gone_end.
size_t rowset_gone_read(const struct rowset *r, enum rowset_part part,
                        struct rowset_gone_at *at, size_t most, uint64_t *ids);

// Takes memory for n records that rowset_put is to add; nothing where rows may
// lie in a file. Returns as rowset_reserve does.
enum sl_err rowset_expect(struct rowset *r, enum rowset_part part, uint64_t n);

// Adds n records of a snapshot, of rowset_part_stride bytes each, to a set that
// is not frozen, before its first update. `records` may lie at any address.
// Returns SL_OK; SL_ECORRUPT names the first record that is not of this shard,
// stands there twice, has a score of 0 or a value that is not finite, was
// changed after `version`, or is above the limit of rows. Other errors as of
// rowset_reserve. After a failure the set is only good for rowset_free.
enum sl_err rowset_put(struct rowset *r, enum rowset_part part,
                       uint32_t version, size_t n, const void *records,
                       struct sl_error *err);

// Adds those records of another job's snapshot that are of this shard, as
// rowset_put does. One that is above the limit takes the place that the row of
// an update would take, if the row there was not changed later than it, or is
// left out: shards that are more than before have uneven parts of a full table.
enum sl_err rowset_take(struct rowset *r, enum rowset_part part,
                        uint32_t version, size_t n, const void *records,
                        struct sl_error *err);

// ---- rows that a job begins with

// Returns how many of n ids (u64, little-endian) are of this shard, with a row
// or without.
uint64_t rowset_own(const struct rowset *r, size_t n, const void *ids);

// Returns how many rows may still be added until the shard's part of max_rows,
// or without that TABLE_ROWS_MOST, is reached.
uint64_t rowset_room(const struct rowset *r);

// Adds rows that a job begins with to a set before its first update: those of n
// rows that are of this shard, with new slots, `changed` 0 and `score` 1 (T2:
// no update has made them, and all loads of the file give the same). `values`:
// n * dim f32, at any address. Errors as rowset_put: so SL_ECORRUPT for an id
// that stands there twice or has a row, for a value that is not finite, and
// above the limit of rows.
enum sl_err rowset_start(struct rowset *r, size_t n, const void *ids,
                         const void *values, struct sl_error *err);

#endif
