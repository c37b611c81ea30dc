// SPDX-License-Identifier: Apache-2.0
// state/rows/row_index.c -- groups of tags: adding, removing, growing.
#include "state/rows/row_index.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

const struct row_group row_group_none;

// Entries of so many groups at the highest load, 0.9; one group may be full.
static uint64_t room_of(uint64_t groups)
{
    return groups == 1 ? ROW_GROUP : groups * ROW_GROUP * 9 / 10;
}

void row_bucket_init(struct row_bucket *b)
{
    *b = (struct row_bucket){.group = (struct row_group *)&row_group_none,
                             .groups = 1};
}

static bool is_own(const struct row_bucket *b)
{
    return b->group != &row_group_none;
}

void row_bucket_release(struct row_bucket *b, struct row_arena *arena)
{
    if (b->packed)
        row_arena_give(arena, b->group);
    else if (is_own(b))
        sl_free(b->group);
    row_bucket_init(b);
}

size_t row_bucket_bytes(const struct row_bucket *b)
{
    return is_own(b) ? b->groups * sizeof(*b->group) : 0;
}

void row_bucket_add(struct row_bucket *b, uint64_t hash, uint32_t number)
{
    uint32_t at = row_group_of(hash, b->groups), empty;

    assert(b->room > 0);
    while ((empty = row_group_match(&b->group[at], 0)) == 0) {
        b->group[at].overflow |= row_overflow_bit(hash);
        at = at + 1 == b->groups ? 0 : at + 1;
    }
    b->group[at].tag[__builtin_ctz(empty)] = row_tag(hash);
    b->group[at].row[__builtin_ctz(empty)] = number;
    b->rows++;
    b->room--;
}

void row_bucket_clear(struct row_bucket *b, uint32_t group, unsigned slot,
                      uint64_t hash)
{
    struct row_group *g = &b->group[group];

    g->tag[slot] = 0;
    b->rows--;
    if ((g->overflow & row_overflow_bit(hash)) == 0)
        b->room++;
}

// Returns the entry of a number that is there; *group is its group.
static unsigned row_entry_of(const struct row_bucket *b, uint64_t hash,
                             uint32_t number, uint32_t *group)
{
    uint32_t at = row_group_of(hash, b->groups), match;

    for (;; at = at + 1 == b->groups ? 0 : at + 1) {
        match = row_group_match(&b->group[at], row_tag(hash));
        for (; match != 0; match &= match - 1) {
            unsigned slot = (unsigned)__builtin_ctz(match);

            if (b->group[at].row[slot] == number) {
                *group = at;
                return slot;
            }
        }
    }
}

void row_bucket_remove(struct row_bucket *b, uint64_t hash, uint32_t number)
{
    uint32_t group;
    unsigned slot = row_entry_of(b, hash, number, &group);

    row_bucket_clear(b, group, slot, hash);
}

void row_bucket_renumber(struct row_bucket *b, uint64_t hash, uint32_t number,
                         uint32_t to)
{
    uint32_t group;
    unsigned slot = row_entry_of(b, hash, number, &group);

    b->group[group].row[slot] = to;
}

// A bucket that is nearly full grows by a quarter, one with its bits used up
// is built anew as it is. Between the two lies a tenth of it, so that a bucket
// is not built again at once while rows come and go.
static uint64_t groups_for(const struct row_bucket *b, uint64_t more)
{
    uint64_t need = b->rows + more, groups = b->groups;

    if (need * 10 > (groups == 1 ? 10 : 8) * groups * ROW_GROUP) {
        groups = sl_ceil_div(need * 10, UINT64_C(9) * ROW_GROUP);
        groups = groups == 1 ? 1 : sl_ceil_div(groups * 5, 4);
    }
    return groups;
}

enum sl_err row_bucket_grow(struct row_bucket *out, const struct row_bucket *b,
                            uint64_t more, struct row_account *account,
                            struct row_arena *arena, uint32_t owner)
{
    uint64_t groups = groups_for(b, more), bytes;
    size_t all = groups * sizeof(*out->group);
    enum sl_err rc;

    if (groups > UINT32_MAX)
        return SL_ENOMEM;
    bytes = all - row_bucket_bytes(b);
    rc = row_account_take(account, bytes, false);
    if (rc != SL_OK)
        return rc;
    *out = (struct row_bucket){
        .group = arena == NULL ? sl_aligned(64, all)
                               : row_arena_take(arena, all, owner),
        .groups = (uint32_t)groups,
        .room = (uint32_t)sl_min(room_of(groups), UINT32_MAX),
        .packed = arena != NULL,
    };
    if (out->group == NULL) {
        row_account_give(account, bytes, false);
        return SL_ENOMEM;
    }
    memset(out->group, 0, all);
    return SL_OK;
}
