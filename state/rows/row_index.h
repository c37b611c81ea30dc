// SPDX-License-Identifier: Apache-2.0
// state/rows/row_index.h -- within state/rows only: from an id to the number
// of its record.
//
// Each bucket is a table of groups, and a group is one cache line: 12 tags of
// one byte, 12 numbers, and 32 overflow bits. A hash begins at one group and
// goes on to the next only where the bit of its class is set: an entry of that
// class found this group full once. So a removed entry leaves no mark, as in
// boost::unordered_flat_map. Bits that outlive their entries make look-ups
// longer; a bucket has room for so many insertions, of which a removal gives
// back only those that left no bit, and is then built anew.
//
// A bucket grows by a quarter at a load of 0.9: 6 to 7.5 bytes for an entry.
//
// The index does not know the records, so a caller compares ids: a tag is a
// hint.
//
// Threads  one at a time.
// Memory   a bucket without entries has no group of its own.
// Units    buckets count from 0, the first of the shard's; hashes are
//          table_hash's.
// Errors   SL_ENOMEM of row_bucket_grow, and those of row_account_take
//          (SL_ERANGE: too little memory is left; SL_EBUSY: so it is until a
//          snapshot is written); a call that fails has changed nothing.
#ifndef STATE_ROWS_ROW_INDEX_H
#define STATE_ROWS_ROW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/base/status.h"
#include "state/rows/row_arena.h"
#include "state/rows/row_memory.h"

#define ROW_GROUP 12 // entries of a group

struct row_group {
    uint8_t tag[ROW_GROUP]; // 0: empty
    uint32_t overflow;
    uint32_t row[ROW_GROUP];
} __attribute__((aligned(64)));

struct row_bucket {
    struct row_group *group; // owned, unless `room` and `rows` are 0
    uint32_t groups;         // at least 1
    uint32_t rows;
    uint32_t room; // entries that may be added
    bool packed;   // its groups lie in an arena
};

// The group of all buckets that have none: never written.
extern const struct row_group row_group_none;

// Returns the group at which a hash begins.
static inline uint32_t row_group_of(uint64_t hash, uint32_t groups)
{
    return (uint32_t)((uint64_t)(uint32_t)hash * groups >> 32);
}

// Returns the tag of a hash, never 0.
static inline uint8_t row_tag(uint64_t hash)
{
    uint8_t low = (uint8_t)hash;

    return low + (low == 0);
}

// Returns the bit in row_group.overflow of the class that a hash belongs to.
static inline uint32_t row_overflow_bit(uint64_t hash)
{
    return UINT32_C(1) << (hash >> 8 & 31);
}

// Returns a mask with bit i set if entry i of the group has the tag; with tag
// 0, if it is empty.
static inline uint32_t row_group_match(const struct row_group *g, uint8_t tag)
{
#ifdef __SSE2__
    __m128i tags = _mm_load_si128((const __m128i *)(const void *)g);

    return (uint32_t)_mm_movemask_epi8(
               _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) &
           ((1 << ROW_GROUP) - 1);
#else
    uint32_t mask = 0;

    for (unsigned i = 0; i < ROW_GROUP; i++)
        mask |= (uint32_t)(g->tag[i] == tag) << i;
    return mask;
#endif
}

// Makes a bucket without entries.
void row_bucket_init(struct row_bucket *b);
// Frees the groups, which may lie in the arena, and makes *b a bucket without
// entries. The caller gives their bytes back to the account. All zeroes is
// allowed.
void row_bucket_release(struct row_bucket *b, struct row_arena *arena);

// Returns the bytes of the bucket's own groups; 0: it has none.
size_t row_bucket_bytes(const struct row_bucket *b);

// Adds an entry, for which the bucket has room (asserted).
void row_bucket_add(struct row_bucket *b, uint64_t hash, uint32_t number);

// Removes the entry with this hash and number, which must be there.
void row_bucket_remove(struct row_bucket *b, uint64_t hash, uint32_t number);

// Changes the number of the entry with this hash and number, which must be
// there, to `to`.
void row_bucket_renumber(struct row_bucket *b, uint64_t hash, uint32_t number,
                         uint32_t to);

// Removes the entry at place `slot` of group number `group`, which must have
// this hash.
void row_bucket_clear(struct row_bucket *b, uint32_t group, unsigned slot,
                      uint64_t hash);

// Makes *out a bucket without entries that has room for `more` entries beyond
// those of `b`. The caller adds the entries, releases *b and puts *out in its
// place. Its groups lie in the arena, for `owner`, or by themselves (NULL).
// Takes the bytes by which it is larger than `b` from the account (NULL: none),
// at which numbers in `b` may change (row_account_take); the caller gives them
// back when it frees it. Returns SL_OK, or the errors above; *out owns nothing
// then, and is not for use.
enum sl_err row_bucket_grow(struct row_bucket *out, const struct row_bucket *b,
                            uint64_t more, struct row_account *account,
                            struct row_arena *arena, uint32_t owner);

#endif
