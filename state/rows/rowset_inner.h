// SPDX-License-Identifier: Apache-2.0
// state/rows/rowset_inner.h -- within rowset*.c only: the fields of a set.
//
// Threads  one at a time, under the lock of the shard.
// Memory   pointers to records hold until the next call that may move them.
// Units    elements are f32; versions count the shard's updates, from 1.
// Errors   none.
#ifndef STATE_ROWS_ROWSET_INNER_H
#define STATE_ROWS_ROWSET_INNER_H

#include <string.h>

#include "state/rows/row_store.h"
#include "state/rows/rowset.h"

struct rowset {
    struct rowset_spec spec;
    struct row_store rows, waiting; // `waiting` has no bucket if none waits
    uint64_t seed;                  // of this table's first values
    float *gradient;                // dim f32: a gradient that is not as it is
    uint32_t *absent; // owned: places of a push's ids, without a row or cold
    uint32_t *number; // behind them: the numbers of its ids
    size_t places;    // ids that have room there
    uint32_t looked;  // numbers are those at this tier->moved; 0: not known
    struct rowset_counts counts; // the sums
};

// Returns the values of a record; its slots follow them.
static inline float *rowset_values(struct row_header *h)
{
    return (float *)(void *)(h + 1);
}

// Returns true if an id may have to wait for its row.
static inline bool rowset_waits(const struct rowset *r)
{
    return r->spec.min_count > 1;
}

// Puts a record that has more updates than the last of r->counts.hot into its
// place among them; the last one is left out, unless the record was among them.
void rowset_take_hot(struct rowset *r, const struct row_header *h);

// Notes a record that has changed, or was added, among r->counts.hot if it
// belongs there.
static inline void rowset_note_hot(struct rowset *r, const struct row_header *h)
{
    if (h->score > r->counts.hot[TABLE_HOT - 1].updates)
        rowset_take_hot(r, h);
}

#endif
