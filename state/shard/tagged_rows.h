// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged_rows.h -- rows of ids as they are in a snapshot.
//
// The records of a snapshot are in no order and it has no index, so a pull
// walks all records of the tables that it names, once. That is for
// evaluations, which ask for the rows of a whole batch at once.
//
// Threads  any; no lock is held. The sets are asked for the first values of
//          rows alone, which never change.
// Memory   *out is the caller's, sl_free.
// Units    bytes; ids.
// Errors   SL_ECORRUPT: the file has no such table, or one of other records;
//          SL_ENOMEM. *out is untouched then. `err` may be NULL.
#ifndef STATE_SHARD_TAGGED_ROWS_H
#define STATE_SHARD_TAGGED_ROWS_H

#include "state/shard/shard_tables.h"
#include "state/shard/tagged.h"

// Makes the answer to a pull of `ids`, which tables_check has passed (without
// elements): sets *out to `bytes` bytes (tables_answer_bytes), for sl_free:
// their rows, in the order and types of the blocks. `file` has been through
// tagged_file_tables. An id without a record in the snapshot reads as an id
// without a row. Returns SL_OK or the errors above.
enum sl_err tagged_rows(const struct tables *t, const struct plan *plan,
                        const struct tagged_file *file,
                        const struct tables_push *ids, size_t bytes,
                        uint8_t **out, struct sl_error *err);

#endif
