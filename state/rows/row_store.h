// SPDX-License-Identifier: Apache-2.0
// state/rows/row_store.h -- within state/rows only: records by id, in buckets,
// with one instant that a walk reads while they change.
//
// The instant (row_store_freeze) is the state at a version. A record is of the
// instant if it was changed at that version or before, so a record that has
// changed since tells so itself. A caller that is about to change or remove one
// calls row_store_touch before; it saves a record of the instant that the walk
// has not come to. The walk goes over the numbers, then over what was saved.
//
// Threads  one at a time.
// Memory   row_store_release frees all. A record stays at its place until it is
//          removed.
// Units    versions count the shard's updates, from 1; ids are u64; buckets
//          count from the shard's first.
// Errors   SL_ENOMEM of the reserving calls, and those of row_account_take
//          (SL_ERANGE: too little memory is left; SL_EBUSY: so it is until a
//          snapshot is written). A call that fails has changed no record.
#ifndef STATE_ROWS_ROW_STORE_H
#define STATE_ROWS_ROW_STORE_H

#include <stdbool.h>

#include "plan/tables.h"
#include "state/rows/row_gone.h"
#include "state/rows/row_index.h"
#include "state/rows/row_pool.h"
#include "state/rows/row_tier.h"
#include "state/rows/rowset.h"

struct row_saved; // a piece of the list of saved records

struct row_store {
    struct row_pool pool;
    uint32_t batch;               // ids that are looked up together
    struct row_tier *tier;        // owned; NULL: all records are in memory
    struct row_account *account;  // borrowed; NULL: none
    struct row_bucket *bucket;    // owned: `own` of them
    struct row_arena arena;       // where the groups of large ones lie
    uint32_t first, own, buckets; // the shard's range, of so many
    uint32_t count, limit;        // present number of records, and its limit
    uint32_t largest;             // most records that a bucket ever had
    uint64_t index_bytes;         // of the buckets' groups

    bool frozen;
    uint32_t version;   // of the instant
    uint32_t least;     // records changed before it are left out of the walk
    uint32_t next, end; // numbers: the walk's place, and its end
    uint64_t total;     // records of the instant, also those left out
    // Saved records in order: the first piece, the one that is being filled,
    // and the last one, which may be empty.
    struct row_saved *head, *tail, *last;
    uint64_t saved_room; // records that can be saved without memory

    struct row_gone gone; // ids of removed records, for the next snapshot
};

// Makes an empty store for buckets [first, first + own) of `buckets`, with
// records of `stride` bytes, at most `limit`. All its memory is taken from the
// account (NULL: none). *s must not move afterwards. Returns SL_OK, SL_ENOMEM,
// or an error of row_account_take, which leave *s zeroed.
enum sl_err row_store_init(struct row_store *s, size_t stride, uint32_t first,
                           uint32_t own, uint32_t buckets, uint32_t limit,
                           struct row_account *account);
// Frees all, also of an instant under way, and gives the memory back to the
// account. All zeroes is allowed.
void row_store_release(struct row_store *s);

// Returns true if the record of a number in use lies in a file: then its header
// alone is in memory.
static inline bool row_store_is_cold(const struct row_store *s, uint32_t number)
{
    return s->tier != NULL && number >= ROW_COLD;
}

// Returns the record of a number in use; of a cold one its header alone.
static inline struct row_header *row_store_at(const struct row_store *s,
                                              uint32_t number)
{
    if (row_store_is_cold(s, number))
        return &row_tier_at(s->tier, number)->header;
    return (struct row_header *)row_pool_at(&s->pool, number);
}

// Returns the bucket of a hash; `own` or more: it is another shard's.
static inline uint32_t row_store_bucket(const struct row_store *s,
                                        uint64_t hash)
{
    return table_bucket(hash, s->buckets) - s->first;
}

// Returns the number of the record of `id`, hot or cold, of which `hash` is the
// table_hash; ROW_NONE: it has none, or is of another shard.
uint32_t row_store_find(const struct row_store *s, uint64_t hash, uint64_t id);

// ---- look-ups of many ids, which overlap

#define ROW_BATCH 8 // most ids that are at one stage
#define ROW_STAGES 4

struct row_batch {
    size_t n;
    const uint8_t *ids;
    const struct row_bucket *bucket[ROW_BATCH];
    uint64_t hash[ROW_BATCH];
    uint32_t group[ROW_BATCH];  // the next one to look at; `groups`: none
    uint32_t number[ROW_BATCH]; // ROW_NONE: not found so far
};

// Looks up ids, batch by batch: while a batch is used, the records of the next
// one, the second groups of the one after it, and the groups of a fourth are on
// their way from memory.
struct row_finder {
    const struct row_store *store;
    const uint8_t *ids; // borrowed
    size_t left;        // ids that no batch has yet
    unsigned turn;
    struct row_batch batch[ROW_STAGES];
};

// Begins to look up n ids, for row_finder_next. `ids` are u64, little-endian,
// and borrowed as long as *f is used.
void row_finder_init(struct row_finder *f, const struct row_store *s, size_t n,
                     const void *ids);

// Goes on to the next ids, and returns how many there are, at most
// row_store.batch; 0: no more. Sets *number to their numbers, in the order of
// the ids and valid until the next call: ROW_NONE for an id that has no record,
// or is of another shard. No record may be added, removed or renumbered before
// the last batch.
size_t row_finder_next(struct row_finder *f, const uint32_t **number);

#define ROW_LINE 64 // bytes that come together

// Begins to load a line into the second cache: the first one has few lines on
// their way, and the core waits where there are more.
#define ROW_LINE_SOON(at) __builtin_prefetch((at), 0, 2)

// GCC takes a function that does nothing else for one without effect, and drops
// its calls, unless this is in it.
#define ROW_KEEP_CALLS(p) __asm__ volatile("" : : "r"(p))

// Begins to load the records of n numbers from memory, from byte `from` of each
// on; ROW_NONE, and those that lie in a file, are passed over. The loop over
// lines does not end at an address: that comes from memory, so a guess that it
// goes on would be found wrong late.
static inline void row_store_soon(const struct row_store *s, size_t n,
                                  const uint32_t *number, size_t from)
{
    size_t stride = s->pool.stride;

    for (size_t i = 0; i < n; i++) {
        const char *at;

        if (number[i] == ROW_NONE || row_store_is_cold(s, number[i]))
            continue;
        at = (const char *)row_store_at(s, number[i]);
        for (size_t k = from; k < stride; k += ROW_LINE)
            ROW_LINE_SOON(at + k);
        ROW_LINE_SOON(at + stride - 1);
    }
    ROW_KEEP_CALLS(number);
}

// Begins to load the groups of the index in which n records are; all numbers
// are in use.
static inline void row_store_groups_soon(const struct row_store *s, size_t n,
                                         const uint32_t *number)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = table_hash(row_store_at(s, number[i])->id);
        const struct row_bucket *b = &s->bucket[row_store_bucket(s, hash)];

        ROW_LINE_SOON(&b->group[row_group_of(hash, b->groups)]);
    }
    ROW_KEEP_CALLS(number);
}

// Takes the memory that is needed to add these n ids (u64, little-endian),
// which are of the shard and rise by hash, and to save `touched` records
// (row_store_touch): index, copies for a walk, and records up to the limit. The
// memory stays the store's. With a tier it may make records cold: numbers
// change. Returns SL_OK, SL_ENOMEM, or an error of row_account_take, and with a
// tier also SL_ERANGE or SL_ECORRUPT: its file cannot be written, or read.
enum sl_err row_store_reserve(struct row_store *s, size_t n, const void *ids,
                              uint64_t touched);

// Takes the memory of row_store_reserve except that of the records themselves.
// Numbers in the account's stores with a tier may change (row_account_take),
// also after a failure. Returns SL_OK, SL_ENOMEM, or an error of
// row_account_take.
enum sl_err row_store_reserve_index(struct row_store *s, size_t n,
                                    const void *ids, uint64_t touched);

// Adds an id that is not in the store, of which `hash` is the table_hash, and
// returns its number. The record is hot, has this id, and is otherwise not set:
// the caller sets the rest at once. Memory was reserved (row_store_reserve),
// and the limit is not reached.
uint32_t row_store_add(struct row_store *s, uint64_t hash, uint64_t id);

// Removes the record of a number in use, hot or cold, and notes its id as gone
// (row_gone_add); if the walk needs it, saves it before (row_store_touch:
// memory was reserved), or leaves its slot.
void row_store_remove(struct row_store *s, uint32_t number);

// Returns the number of the record that is to make place for a new id with this
// hash: the one that was changed longest ago among about 16 with the hashes
// that follow; of two, the one with the lower hash. Records changed at
// `version` are passed over, in about 1000 that follow at most. ROW_NONE: these
// have no other.
uint32_t row_store_victim(const struct row_store *s, uint64_t hash,
                          uint32_t version);

// Removes the records of bucket number `bucket` for which gone(ctx, h, cold)
// returns true, as row_store_remove does. `cold`: only the header at `h` is in
// memory, as a part of struct row_cold; else the whole record is. Returns how
// many they were.
uint64_t row_store_sweep(struct row_store *s, uint32_t bucket,
                         bool (*gone)(void *ctx, const struct row_header *h,
                                      bool cold),
                         void *ctx);

// Changes the number of a record, which lies elsewhere now, to `to` in the
// index; the record must still be at `number`, too.
static inline void row_store_renumber(struct row_store *s, uint32_t number,
                                      uint32_t to)
{
    uint64_t hash = table_hash(row_store_at(s, number)->id);

    row_bucket_renumber(&s->bucket[row_store_bucket(s, hash)], hash, number,
                        to);
}

// Returns the bytes of memory of the store: records, free ones in slabs
// included, headers of cold ones, and index.
uint64_t row_store_bytes(const struct row_store *s);

// ---- the instant

// Takes the instant after update `version`; the walk leaves out records that
// were changed before update `least` (0: none). The store must not be frozen.
// Allocates nothing.
void row_store_freeze(struct row_store *s, uint32_t version, uint32_t least);
// Ends the instant and frees the saved records; nothing if there is none.
void row_store_thaw(struct row_store *s);

// Copies a record of the instant to the saved ones, for which there is memory
// (row_store_reserve). For row_store_touch, which says when.
void row_store_save(struct row_store *s, const struct row_header *h);

// Saves the hot record of a number that is about to change, if the walk needs
// it; memory was reserved then. Does nothing for a cold one.
static inline void row_store_touch(struct row_store *s, uint32_t number)
{
    const struct row_header *h;

    if (!s->frozen || number < s->next || number >= s->end ||
        row_tier_walked(s->tier, number))
        return;
    h = row_store_at(s, number);
    if (h->changed <= s->version && h->changed >= s->least)
        row_store_save(s, h);
}

// Goes on with the walk over the instant: copies at most `most` records (not 0)
// to `out`, sets *n to how many, perhaps 0, and returns true while there may be
// more (rowset_walk). It ends early if a file cannot be read:
// s->tier->walk_error then says why.
bool row_store_walk(struct row_store *s, size_t most, void *out, size_t *n);

#endif
