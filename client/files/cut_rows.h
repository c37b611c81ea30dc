// SPDX-License-Identifier: Apache-2.0
// client/files/cut_rows.h -- the rows of a table, one after another in rising
// order of their hash: of a cut here, of a feed in table_feed.h.
//
// Each shard of a job has a range of the hashes (plan/tables.h), so the rows of
// one shard at a time are sorted.
//
// Threads  one at a time. Reading rows that lie in files waits for the disk.
// Memory   16 bytes for each row of a shard, and as much while it is sorted;
//          cut_rows_release frees. A row's values hold until its source, the
//          table_export, is released.
// Errors   SL_ECORRUPT: an id stands twice, or in the wrong shard; SL_ENOMEM.
#ifndef CLIENT_FILES_CUT_ROWS_H
#define CLIENT_FILES_CUT_ROWS_H

#include "client/files/table_export.h"

struct table_row {
    uint64_t hash, id;
    const uint8_t *values; // dim numbers at any address; NULL: no row is left
};

// A source of rows. `next` fills *row with the next one, or sets row->values to
// NULL behind the last. After an error of it nothing more is to be asked.
struct row_stream {
    enum sl_err (*next)(struct row_stream *s, struct table_row *row,
                        struct sl_error *err);
};

struct cut_row; // place of a row

struct cut_rows {
    struct row_stream stream;
    const struct table_export *x;
    struct cut_row *sorted; // owned: rows of a shard
    uint64_t at, count;     // next one of them; their number
    uint32_t shard;         // next to be sorted
    uint64_t least;         // hash that the next row must have at least
};

// Sets *r, which need not be zeroed, to the first row of `x`, which is
// borrowed; all its rows must be on this host (table_export_fetch).
// r->stream.next(&r->stream, ...) then gives one row after another, with the
// errors above; a call that comes to a new shard sorts it.
void cut_rows_init(struct cut_rows *r, const struct table_export *x);
void cut_rows_release(struct cut_rows *r); // all zeroes is allowed

#endif
