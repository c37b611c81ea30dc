// SPDX-License-Identifier: Apache-2.0
// worker/data/ids.h -- ids of samples: whole numbers of 64 bits, in bags.
//
// An id column of the data gives each sample a bag: ids in the order of the
// file, repeats included, or none. An id is 64 bits; a negative number of a
// file stands for its two's complement: -1 is 2^64 - 1. In a table of text a
// bag is one cell with '|' between its elements, none of them empty, and an
// empty cell is an empty bag. An element is a decimal number from -2^63 to
// 2^64 - 1, without '+', with blanks around it or not; or, in a column that is
// hashed, text (with its blanks) of which the id is the XXH64: the same id on
// every host and in every program.
//
// A struct ids gathers the bags of a batch, column by column: the ids of
// sample i of the batch are ids[offsets[i]] .. ids[offsets[i + 1] - 1].
//
// Threads  one at a time per struct ids; any may read bags that do not change.
// Memory   ids_release frees; all zeroes is an empty struct. Bags lie in the
//          struct ids until it next changes, which keeps its memory.
// Units    offsets count ids.
// Errors   SL_EINVAL: a cell is no bag; SL_ERANGE: too many ids; SL_ENOMEM.
//          Cells are never quoted. `err` may be NULL.
#ifndef WORKER_DATA_IDS_H
#define WORKER_DATA_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/status.h"

#define IDS_COLUMNS_MAX 256
#define IDS_BAG_MAX 1000000               // most ids in the bag of one sample
#define IDS_BATCH_MAX ((uint32_t)1 << 24) // most ids of a column in one batch
#define IDS_SEPARATOR '|'

// A column, and how its cells become ids.
struct id_column {
    // csv: as in the header, or a number from 0; npz: member; tfrecord: key
    const char *name;
    bool hashed;   // csv, tfrecord: elements are text, and XXH64 gives the ids
    uint64_t seed; // of XXH64
};

// The ids of one column for the samples of a batch.
struct id_bag {
    const uint64_t *ids;     // offsets[samples] of them, flat
    const uint32_t *offsets; // samples + 1 of them, from 0, never falling
    uint32_t samples;
};

// Bags that are gathered. The fields are ids.c's own.
struct ids {
    struct ids_column *columns;
    struct id_bag *bags;
    size_t count, capacity; // columns in use, and made
};

// Empties *s, which then gathers the bags of `columns` columns, maybe none.
// SL_ENOMEM: it has no columns then.
enum sl_err ids_begin(struct ids *s, size_t columns, struct sl_error *err);
// Adds the bag of the next sample to a column: n ids, which are copied. Called
// for each column in turn before the next sample. SL_ERANGE: the column would
// have over IDS_BATCH_MAX ids. SL_ENOMEM. After a failure the columns may hold
// different numbers of samples: *s is for ids_begin or ids_release.
enum sl_err ids_add(struct ids *s, size_t column, const uint64_t *ids, size_t n,
                    struct sl_error *err);
// Returns the bags of all columns, in the order of the columns; NULL if there
// are no columns. Each column has the bags of the same samples by now.
const struct id_bag *ids_bags(struct ids *s);
// Frees all memory of *s.
void ids_release(struct ids *s);

// Appends the ids of a cell, as words of 64 bits, to `out`. The error says
// which element of the bag is wrong, from 0; *out has those before it then.
enum sl_err ids_parse(struct buf *out, const struct id_column *how,
                      const char *cell, struct sl_error *err);

// Returns the id of n bytes of text in a column that is hashed.
uint64_t ids_hash(const struct id_column *how, const void *text, size_t n);

#endif
