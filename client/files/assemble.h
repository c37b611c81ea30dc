// SPDX-License-Identifier: Apache-2.0
// client/files/assemble.h -- from the shards of a cut to one file of variables.
//
// The model is one flat vector and a shard is a range of it (proto/layout.h),
// so assembling is copying ranges. What Python users want are variables by
// name in the layout of Keras: the transposition happens here and nowhere
// else.
//
// Threads  any. Those of files read or write them, and wait.
// Memory   the flat vector has layout->elements floats and is the caller's.
// Errors   name the file or the tensor; no file is left half written. The
//          shard's range of `flat` is undefined after a failure; `err` may be
//          NULL.
#ifndef CLIENT_FILES_ASSEMBLE_H
#define CLIENT_FILES_ASSEMBLE_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/slices.h"
#include "common/base/status.h"
#include "common/base/tensorfile.h"
#include "proto/layout.h"
#include "proto/wire.h"

// Checks that a cut names each shard once, in any order: SL_ECORRUPT for
// others. A range that no shard fills would leave as zeroes. SL_ENOMEM.
enum sl_err assemble_names_all(const Sluice__V1__Checkpoint *cut,
                               const struct layout *layout,
                               struct sl_error *err);

// Copies a shard's payload, as the wire has it, to its range of `flat`.
// SL_ECORRUPT: the length is wrong.
enum sl_err assemble_payload(float *flat, const struct layout *layout,
                             uint32_t shard, const struct sl_slices *payload,
                             struct sl_error *err);

// Copies a shard's values from snapshot file `path` to its range of `flat`.
// sha256 (32 bytes) NULL: only the file's own checksums are compared.
enum sl_err assemble_snapshot(float *flat, const struct layout *layout,
                              uint32_t shard, struct fs *fs, const char *path,
                              const uint8_t *sha256, struct sl_error *err);

// Writes file `path` with all variables by name, F32, in Keras' layout, and
// meta[meta_count]. *bytes (may be NULL) is the file's size.
enum sl_err assemble_write(struct fs *fs, const char *path,
                           const struct layout *layout, const float *flat,
                           const struct tensor_meta *meta, size_t meta_count,
                           uint64_t *bytes, struct sl_error *err);

#endif
