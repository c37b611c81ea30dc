// SPDX-License-Identifier: Apache-2.0
// worker/data/data_ids.h -- an id column that lies in arrays of an npz.
//
// Array NAME of shape (n) or (n, k): each sample has one id, or k. If there is
// an array NAME.offsets too, of n + 1 numbers that do not fall, NAME is flat,
// and the ids of sample i are those from offsets[i] to offsets[i + 1] - 1; the
// first offset is 0 and the last one the number of ids. All are of 32 or 64
// bits, with or without a sign.
//
// Threads  one at a time.
// Memory   id_array_release frees; all zeroes is allowed.
// Units    samples and ids.
// Errors   name file, array and sample. `err` may be NULL. Opening: those of
//          array_open_npz, and SL_EINVAL for shapes, types and offsets.
#ifndef WORKER_DATA_DATA_IDS_H
#define WORKER_DATA_DATA_IDS_H

#include "common/base/buf.h"
#include "worker/data/data_array.h"

struct id_array {
    struct array values;
    struct array offsets; // path NULL: each sample has as many ids
    char *name;           // owned
};

// Opens column `name` of the npz at `path`, which has `samples` samples, and
// fills *out, of which only the `stay` of both arrays is read, and which is as
// it was after a failure. Offsets that are in memory are checked; of others the
// first and last, and the rest when they are read. SL_EINVAL also: k is 0 or
// over IDS_BAG_MAX. `pulse` may be NULL.
enum sl_err id_array_open(struct id_array *out, const struct roots *roots,
                          const char *path, const char *name, uint64_t samples,
                          struct pulse *pulse, struct sl_error *err);

// Replaces *out by the ids of a sample below `samples`, as words of 64 bits.
// `scratch` may be any buffer but `out`. *out is undefined on failure.
// SL_EINVAL: its offsets fall or point beyond the ids, or are over IDS_BAG_MAX
// apart; SL_ENOMEM; else as array_rows.
enum sl_err id_array_read(const struct id_array *a, uint64_t sample,
                          struct buf *scratch, struct buf *out,
                          struct sl_error *err);

// Frees both arrays and the name.
void id_array_release(struct id_array *a);

#endif
