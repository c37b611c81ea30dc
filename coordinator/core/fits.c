// SPDX-License-Identifier: Apache-2.0
// coordinator/core/fits.c -- sizes of a job's messages, before there is one.
#include "coordinator/core/fits.h"

#define SHARD_FIELDS 64 // of a shard, with its tag and its file, without epochs
#define EPOCH_FIELDS 5
// Of a report what is left for the closures that are not below its watermark.
#define EPOCHS_MAX (WIRE_MAX_FIELDS * 3 / 4 / EPOCH_FIELDS)

enum sl_err fits_counts(const Sluice__V1__JobSpec *spec, uint32_t shards,
                        struct sl_error *err)
{
    uint64_t epochs = spec->train->epochs;
    uint64_t each = SHARD_FIELDS + epochs * EPOCH_FIELDS;

    if (epochs > EPOCHS_MAX)
        return sl_fail(err, SL_EINVAL,
                       "train.epochs is %llu: a shard reports every epoch in "
                       "one message, which holds %zu",
                       (unsigned long long)epochs, (size_t)EPOCHS_MAX);
    if (shards * each > WIRE_LOAD_FIELDS)
        return sl_fail(err, SL_EINVAL,
                       "%u shards of %llu epochs: a checkpoint counts every "
                       "epoch of every shard, which are at most %llu; take "
                       "fewer shards or epochs",
                       shards, (unsigned long long)epochs,
                       (unsigned long long)(WIRE_LOAD_FIELDS / EPOCH_FIELDS));
    return SL_OK;
}

enum sl_err fits_layout(const struct buf *packed, uint32_t shards,
                        struct sl_error *err)
{
    if (wire_scan(&sluice__v1__checkpoints_reply__descriptor, packed->data,
                  packed->len, NULL, err) != SL_OK)
        return sl_fail(err, SL_EINVAL,
                       "a layout of %u shards is larger than a message may be "
                       "(4 MiB, %zu fields); take fewer shards",
                       shards, WIRE_MAX_FIELDS);
    return SL_OK;
}
