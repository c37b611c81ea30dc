// SPDX-License-Identifier: Apache-2.0
// state/rows/row_gone.h -- within state/rows only: the ids of records that went
// since the last snapshot, for the next one to name (T10).
//
//   begin --> add ... --> seal --> read --> drop    the snapshot is durable
//                           \-------------> undo    it is not: all still count
//
// The list is no reason for a push to fail: without memory, or where it would
// become too long, it is lost: what was not set apart is freed, later ids are
// not added, and the next snapshot has to be a whole one.
//
// Threads  one at a time; row_gone_read: any, between seal and drop or undo.
// Memory   taken from the account; row_gone_release frees.
// Units    ids.
// Errors   none.
#ifndef STATE_ROWS_ROW_GONE_H
#define STATE_ROWS_ROW_GONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/rows/row_memory.h"
#include "state/rows/rowset.h"

struct row_gone_piece; // a piece of a list of ids

struct row_gone {
    struct row_account *account; // borrowed; NULL: none
    // Ids since the seal: the first piece, the one that is being filled, and
    // the last one, which may be empty.
    struct row_gone_piece *first, *fill, *last;
    struct row_gone_piece *sealed; // ids before the seal
    uint64_t count, sealed_count;
    uint64_t room; // ids that can be added without memory
    bool follows;  // ids are added
    bool lost;     // some were not
};

// Frees all ids, also those that were set apart; all zeroes is allowed.
void row_gone_release(struct row_gone *g);

// Forgets all ids, also those that were set apart, and a loss; row_gone_add
// adds those that go from now on.
void row_gone_begin(struct row_gone *g);

// Takes memory so that n more ids can be added; loses the list (g->lost) if it
// has more than `most` ids, those set apart included, or there is no memory.
// Does nothing if ids are not followed, or the list is lost.
void row_gone_reserve(struct row_gone *g, uint64_t n, uint64_t most);

// Adds an id, if ids are followed and the list is not lost; loses it if no
// memory was reserved.
void row_gone_add(struct row_gone *g, uint64_t id);

// Sets all ids apart for a snapshot; those of later adds are the next one's.
// What was set apart before must have been dropped or put back.
void row_gone_seal(struct row_gone *g);
// Frees the ids that were set apart, if any are.
void row_gone_drop(struct row_gone *g);
// Puts the ids that were set apart back, before the later ones; frees them if
// the list was lost.
void row_gone_undo(struct row_gone *g);

// Copies the next ids that were set apart, at most `most` (not 0), to `ids`,
// and moves *at, all zeroes at first, behind them; returns their number, 0
// behind the last one.
size_t row_gone_read(const struct row_gone *g, struct rowset_gone_at *at,
                     size_t most, uint64_t *ids);

#endif
