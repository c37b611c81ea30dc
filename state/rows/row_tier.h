// SPDX-License-Identifier: Apache-2.0
// state/rows/row_tier.h -- within state/rows only: the records of a store that
// lie in a file, since memory is short.
//
// A record is *hot* (in memory, as without a tier) or *cold*: its header and a
// checksum are in memory, and the record is in slot k of the table's file.
// Numbers of cold records are ROW_COLD + k. What needs headers alone (look-ups,
// eviction, growth of the index) does not see the difference, and reads no
// file.
//
// An update changes records in memory alone. A cold one becomes hot if updates
// meet it so often that the hand of CLOCK would not have come to it between
// them; else it is *lent* the memory of a hot number until it has changed, and
// goes back into its slot. Numbers that were lent are free for the next update.
//
// A record becomes cold when memory is short:
//
//   - a hot record makes place for another: those are chosen by CLOCK: its
//     hand passes over records that updates have met since it was there, and
//     once more for each further time, up to ROW_MET_MOST;
//   - the account is short: the highest numbers go, and their memory with them,
//     for index, cold headers, copies, other tables of the shard.
//
// Where a record lies changes no number (T9): its bytes are the same, and
// nothing that decides looks at it.
//
// A walk of an instant goes over the hot numbers, over the cold ones, and then
// over what was saved. A record that becomes cold behind the walk is marked as
// walked. One that becomes hot, or is removed, before the walk has come to it
// leaves its slot as it is until then (*left*).
//
// Threads  one at a time. The store of a call has a tier, unless it says
//          otherwise.
// Memory   row_tier_free frees all; the account pays ROW_COLD_BYTES for a cold
//          record, and two bytes more for a hot one.
// Units    versions count the shard's updates, from 1; bytes; slots count from
//          0.
// Errors   SL_ENOMEM; those of row_account_take (SL_ERANGE: too little memory
//          is left; SL_EBUSY: so it is until a snapshot is written); SL_ERANGE
//          and SL_ECORRUPT of files, with the reason in the account (a->why). A
//          call that fails has changed no record.
#ifndef STATE_ROWS_ROW_TIER_H
#define STATE_ROWS_ROW_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/rows/row_disk.h"
#include "state/rows/row_pool.h"
#include "state/rows/rowset.h"

#define ROW_COLD (UINT32_C(1) << 31)

struct row_store;

struct row_cold {
    struct row_header header;
    uint32_t check; // CRC-32C of the record
    uint32_t marks; // ROW_SMALL, ROW_LEFT, and the walk that has passed it
};
#define ROW_COLD_BYTES sizeof(struct row_cold)
#define ROW_SMALL 1u // the norm of its values is below the least
#define ROW_LEFT 2u  // only the walk needs it
#define ROW_WALK 4u  // the unit of a walk's number

// What a hot number's 16 bits say.
// The lowest ones count the updates that met the record, less the passes of the
// hand since; at most ROW_MET_MOST.
#define ROW_MET_MOST 3u
#define ROW_WALKED 4u // the walk has passed its record
#define ROW_TURN 8u   // the unit of the last turn that needs it

// A cold record that an update changes in a hot number's memory.
struct row_lent {
    uint32_t cold, hot; // numbers
};

struct row_tier {
    struct row_pool cold;  // struct row_cold, by slot
    struct row_file *file; // owned; NULL: no record was cold yet
    uint16_t *heat;        // owned: of each hot number
    uint32_t heat_room;
    uint16_t turn;         // of updates, times ROW_TURN; begins again
    uint32_t swept;        // hot numbers below have no turn of the last round
    uint32_t hand;         // of CLOCK: the next hot number to look at
    uint32_t version;      // of the last update
    uint32_t round;        // updates that the hand's last round took
    uint32_t begun;        // version at which this one began
    uint32_t moved;        // grows when a record's number changes; never 0
    struct row_lent *lent; // owned: those of the update under way, in order
    size_t lent_room, lent_count, lent_used;
    uint32_t floor;     // hot numbers that keep their memory
    uint32_t walk;      // number of the walk, times ROW_WALK
    uint32_t next, end; // slots: the walk's place, and its end
    uint32_t left;      // records that only the walk needs
    uint64_t cooled;    // hot records that became cold, since it was made
    uint32_t dim;       // for norms
    double least_norm;
    struct sl_error walk_error;
    struct row_store *other; // of the same account
};

// Adds a tier to an empty store of rows that has an account. Norms are of the
// first `dim` values of a record. From then on the account gets memory back
// from its stores with a tier (row_account_relieve), and the store has at most
// ROW_COLD - 1 hot records. Opens no file yet. Returns SL_OK; SL_ENOMEM leaves
// the store as it was.
enum sl_err row_tier_new(struct row_store *s, uint32_t dim, double least_norm);
// Frees the store's tier with its file, gives the account back what cold
// records paid, and takes the store off the account's list; does nothing
// without a tier.
void row_tier_free(struct row_store *s);

// Returns the record of a cold number.
static inline struct row_cold *row_tier_at(const struct row_tier *t,
                                           uint32_t number)
{
    return row_pool_at(&t->cold, number - ROW_COLD);
}

// Returns true if the walk has passed the record of a hot number. A `t` that is
// NULL, here and down to row_tier_file_bytes, is no tier: false, or 0.
static inline bool row_tier_walked(const struct row_tier *t, uint32_t number)
{
    return t != NULL && number < t->heat_room &&
           (t->heat[number] & ROW_WALKED) != 0;
}

// Returns the number of cold records, with those that are left.
static inline uint32_t row_tier_count(const struct row_tier *t)
{
    return t == NULL ? 0 : t->cold.used - t->cold.free_count;
}

// Returns the bytes of memory of cold records.
uint64_t row_tier_bytes(const struct row_tier *t);
// Returns the bytes that the file has taken.
uint64_t row_tier_file_bytes(const struct row_tier *t);

// Returns true if the L2 norm of `dim` values is below `least`.
bool row_is_small(const float *values, uint32_t dim, double least);

// Returns the checksum of a record, the CRC-32C of its `stride` bytes, a
// multiple of 8.
uint32_t row_check(const void *record, size_t stride);

// ---- an update of n ids: pay, then look which records it needs, then fill

// Begins the turn of an update: no record is needed so far.
void row_tier_turn(struct row_store *s);

// Notes that the update of this turn needs the record of a hot number, after
// row_tier_pay: row_tier_fill leaves it in memory. Counts it as met once more.
static inline void row_tier_need(struct row_tier *t, uint32_t number)
{
    uint16_t heat = t->heat[number] & (ROW_TURN - 1);

    heat += (heat & ROW_MET_MOST) < ROW_MET_MOST;
    t->heat[number] = t->turn | heat;
}

// Gives back what an update was lent that was not applied, and takes the memory
// that is needed for n records to be hot at once, and for as many others to
// become cold. If it is short, stores of the account, also this one, are asked
// to give some (row_account_relieve): no record changes, but numbers do. From
// then on the store gives no memory that so many hot records need (`floor`).
// Returns SL_OK, SL_ENOMEM, or an error of row_account_take.
enum sl_err row_tier_pay(struct row_store *s, uint64_t n);

// Takes memory for n new hot records from what is free; makes no record cold.
// Returns SL_OK; SL_ERANGE or SL_EBUSY: too little is free, and the caller
// makes place by row_tier_fill; SL_ENOMEM.
enum sl_err row_tier_grow(struct row_store *s, uint64_t n);

// Reads the n cold records with the numbers number[at[0..n)] into memory, and
// makes place for `more` new ones; where memory is short, makes records cold
// that this turn of updates does not need. Sets number[at[i]] of each record
// that became hot; the others are lent memory until row_tier_settle, or the
// next row_tier_pay. n + more is at most the n of row_tier_pay. Takes no memory
// that another store has to give. Returns SL_OK; SL_ENOMEM; SL_ERANGE: this
// turn needs all hot records, or a file cannot be written; SL_ECORRUPT: one
// cannot be read, or a record is not as it was written. Some records may have
// moved then.
enum sl_err row_tier_fill(struct row_store *s, size_t n, const uint32_t *at,
                          uint32_t *number, uint64_t more);

// Returns the record of a cold number, which row_tier_fill has lent memory, for
// the update to change. Sets *wanted to whether the walk needs it as it is:
// then save it (row_store_save). To be called for all of them, once, in the
// order of `at` (asserted).
struct row_header *row_tier_lent(struct row_store *s, uint32_t number,
                                 bool *wanted);

// Ends what row_tier_lent began, which was called for all of them (asserted):
// the records go back into their slots, with new checksums, and the lent
// numbers are free. If the file cannot be written they become hot.
void row_tier_settle(struct row_store *s);

// Takes memory and makes place for n new records: row_tier_pay, and then
// row_tier_fill if they do not fit. Begins a turn, which needs no record: any
// may become cold. Returns SL_OK, or the errors of these two.
enum sl_err row_store_reserve_tier(struct row_store *s, uint64_t n);

// Removes the cold record of a number that is not in the index any more; its
// slot is free when the walk, if there is one, has passed it.
void row_tier_drop(struct row_store *s, uint32_t number);

// ---- the instant

// Begins a walk over the slots; those of the instant that row_store_freeze
// takes are wanted. Clears walk_error. `t` may be NULL.
void row_tier_freeze(struct row_tier *t);
// Ends the walk, also before its end; frees slots that were left for it. Does
// nothing without a tier.
void row_tier_thaw(struct row_store *s);

// Returns true until the walk has passed the last slot; false without a tier.
bool row_tier_walk_left(const struct row_tier *t);

// Goes on with the walk over at most `most` slots: copies their records of the
// instant to `out`, which has room for `most`, and sets *n, which was 0, to how
// many they are. Returns SL_OK; SL_ECORRUPT: the file cannot be read, or a
// record is not as it was written. After a failure, with its reason in
// walk_error, the walk over slots has ended.
enum sl_err row_tier_walk(struct row_store *s, size_t most, void *out,
                          size_t *n);

#endif
