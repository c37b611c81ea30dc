// SPDX-License-Identifier: Apache-2.0
// trainer/push/kept_rows.h -- rows that the micro-batches of a step were given,
// kept so that they can be computed from the same rows once more (A1, A5).
//
// Psservers change rows at any time: what is pulled again is another row.
//
// Threads  the compute thread.
// Memory   all is copied; kept_rows_clear frees.
// Units    micro-batches, in the order in which they were kept; ids of rising
//          hash, each once; elements.
// Errors   SL_ENOMEM; then the micro-batch is kept in part, and only good for
//          kept_rows_clear.
#ifndef TRAINER_PUSH_KEPT_ROWS_H
#define TRAINER_PUSH_KEPT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

// The rows of a table in a micro-batch.
struct kept_table {
    uint32_t count, dim; // rows; 0: it had none
    uint64_t *ids;       // little-endian; owned, as are `values`
    float *values;
};

// All zeroes keeps nothing.
struct kept_rows {
    uint32_t tables; // of each micro-batch
    uint32_t count, space;
    struct kept_table *table; // owned: count * tables
};

// Forgets all rows, and frees their memory: *k is zeroes then.
void kept_rows_clear(struct kept_rows *k);

// Begins another micro-batch, which has no rows yet, of a job with `tables`
// tables: always as many.
enum sl_err kept_rows_next(struct kept_rows *k, uint32_t tables);
// Keeps n rows of a table, n not 0, with the micro-batch that was begun last;
// once. `ids` are little-endian; `values`: n * dim elements.
enum sl_err kept_rows_put(struct kept_rows *k, uint32_t table, uint32_t n,
                          const uint64_t *ids, uint32_t dim,
                          const float *values);

// Copies the rows of n ids, which are in the host's byte order here, and in any
// order, of a table in micro-batch `at`, which was kept, to rows[n][dim].
// Returns false, with `rows` undefined, if it had no row of one of them.
bool kept_rows_get(const struct kept_rows *k, uint32_t at, uint32_t table,
                   size_t n, const uint64_t *ids, float *rows);

// Returns a digest of `before` and of the values of all rows, but not of their
// ids; `before` itself if no row is kept.
uint64_t kept_rows_digest(const struct kept_rows *k, uint64_t before);

#endif
