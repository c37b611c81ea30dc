// SPDX-License-Identifier: Apache-2.0
// client/files/table_delta.h -- what of a table changed between two cuts, as
// one file; and a whole table as such a file.
//
// A delta has the tensors `ids` (U64, [n]) and `values` (F32, [n, dim]) of the
// rows that are new or differ in a bit of their values, and `gone` (U64), the
// ids that have no row any more. The file of a whole table (a base) has `ids`
// and `values` alone. Ids are in rising order of their hash. The metadata says
// of which job, table and cut it is, and what the table then has: its rows and
// its digest.
//
// Threads  one at a time. table_delta_make reads both tables once, and waits
//          for their files.
// Memory   8 bytes for each id that changed or went. Values are not copied:
//          they are read once more when the file is written.
// Errors   those of the two sources and of tensorfile.h. *d is released by the
//          caller in any case.
#ifndef CLIENT_FILES_TABLE_DELTA_H
#define CLIENT_FILES_TABLE_DELTA_H

#include "client/files/cut_rows.h"

// The number of rows, and their digest: the sum over all rows, modulo 2^64, of
// a hash of id and values. It does not depend on the order of rows, and a
// reader of deltas can carry it on: less the hash of the old row, plus that of
// the new one.
struct table_sum {
    uint64_t rows, digest;
};

struct table_delta {
    uint32_t dim;
    const uint8_t **changed; // owned: values of the new table
    uint64_t *gone;          // owned: ids
    size_t changed_count, changed_room, gone_count, gone_room;
    struct table_sum before, after; // of the whole tables
};

#define TABLE_DELTA_GONE "gone" // beside the tensors of proto/table_rows.h

// What a file is called in its metadata.
struct table_delta_name {
    const char *job, *table;
    uint64_t from, cut; // number of the older cut, of the newer one
    bool base;          // the whole table: no `from`, and no id is gone
};

// Fills *d, all zeroes before, with what changed from `old` to `new`, two
// tables with rows of `dim` numbers, and with the sums of both; reads both to
// their end. `old` NULL: all rows are new. `new` is one of cut_rows_init, which
// may be released then; its table_export must outlive *d. After a failure *d
// means nothing.
enum sl_err table_delta_make(struct table_delta *d, struct row_stream *old,
                             struct row_stream *new, uint32_t dim,
                             struct sl_error *err);
void table_delta_release(struct table_delta *d); // all zeroes is allowed

// Writes *d to the file `path` of this host, with what `name` says in its
// metadata and with checksums; a file of that name is replaced. Sets *bytes
// (NULL: unwanted) to the file's size. A failure leaves no file `path` that is
// half written.
enum sl_err table_delta_write(const struct table_delta *d, const char *path,
                              const struct table_delta_name *name,
                              uint64_t *bytes, struct sl_error *err);

// Fills *d as table_delta_make does, from a table in the older cut `before`
// (NULL: no rows) and in the newer one `after`, each with all shards named.
// Rows that psservers have are first fetched (table_export_fetch) by way of
// `folder`. `after` must outlive *d.
enum sl_err table_delta_of_cuts(struct table_delta *d,
                                struct table_export *before,
                                struct table_export *after, const char *folder,
                                struct sl_error *err);

#endif
