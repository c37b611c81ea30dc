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
// Errors   name the cut, the shard, the file or the tensor. The shard's range
//          of `flat` is undefined after a failure; `err` may be NULL.
#ifndef CLIENT_FILES_ASSEMBLE_H
#define CLIENT_FILES_ASSEMBLE_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/slices.h"
#include "common/base/status.h"
#include "common/base/tensorfile.h"
#include "proto/layout.h"
#include "proto/wire.h"

// Checks that `cut` names each shard of the layout once, in any order. Returns
// SL_OK; SL_ECORRUPT if not, since a range that no shard fills would stay
// zeroes; SL_ENOMEM.
enum sl_err assemble_names_all(const Sluice__V1__Checkpoint *cut,
                               const struct layout *layout,
                               struct sl_error *err);

// Copies a shard's payload, as a psserver answers a pull, to the shard's range
// of `flat`. SL_ECORRUPT: the length is wrong, or the layout has no such shard.
enum sl_err assemble_payload(float *flat, const struct layout *layout,
                             uint32_t shard, const struct sl_slices *payload,
                             struct sl_error *err);

// Copies a shard's values from the snapshot file `path` of `fs` to the shard's
// range of `flat`. Compares the file's SHA-256 with `sha256` (32 bytes) unless
// that is NULL, and its own checksums in any case. SL_ECORRUPT: one of these
// differs, a tensor of the shard is missing or has another size or type, or the
// layout has no such shard; else those of tensorfile_open, as SL_ENOENT.
enum sl_err assemble_snapshot(float *flat, const struct layout *layout,
                              uint32_t shard, struct fs *fs, const char *path,
                              const uint8_t *sha256, struct sl_error *err);

// Writes the file `path` with all variables by name, as F32 in Keras' layout,
// and with the texts meta[meta_count]. Sets *bytes to the file's size, unless
// `bytes` is NULL. A file `path` is replaced, or left as it was by a failure
// (but see tensorfile_finish); errors as of tensorfile.h, and SL_ENOMEM.
enum sl_err assemble_write(struct fs *fs, const char *path,
                           const struct layout *layout, const float *flat,
                           const struct tensor_meta *meta, size_t meta_count,
                           uint64_t *bytes, struct sl_error *err);

#endif
