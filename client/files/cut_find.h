// SPDX-License-Identifier: Apache-2.0
// client/files/cut_find.h -- which cut of a job is meant, and where its files
// are.
//
// Threads  main only; cut_file asks the disk or the store.
// Memory   what is found is part of the reply, or the caller's where it says
//          so. A struct fs is never freed.
// Errors   SL_ENOENT: there is no such cut, or no such file. `err` may be NULL.
#ifndef CLIENT_FILES_CUT_FIND_H
#define CLIENT_FILES_CUT_FIND_H

#include "common/base/fs.h"
#include "host/store/store_place.h"
#include "proto/jobs.pb-c.h"

// Sets *out to a cut of job `id` in `reply`: number `wanted`, or, if that is 0,
// the best one with `best`; without, the one that the job ended with, or else
// the last. `best` needs a `wanted` of 0. *out is part of the reply. SL_ENOENT:
// there is none; *out then means nothing.
enum sl_err cut_find(const Sluice__V1__Checkpoint **out,
                     const Sluice__V1__CheckpointsReply *reply, const char *id,
                     uint64_t wanted, bool best, struct sl_error *err);

// Sets *out to the file system that has `path`: that of this host or, for
// s3://, the store, with the access that `setup` has (NULL: the defaults).
// Fails for s3:// only, as store_fs does.
enum sl_err cut_fs(struct fs **out, const char *path,
                   const struct store_setup *setup, struct sl_error *err);

// Finds the snapshot file of a shard: sets *path, which is the caller's
// (sl_free), *fs, the file system that has it, and *sha256, which is the
// shard's, or NULL if it says none. SL_ENOENT: the file is not there for this
// host, or cut_fs failed; SL_ENOMEM. *path and *sha256 are then as they were,
// *fs means nothing.
enum sl_err cut_file(char **path, struct fs **fs, const uint8_t **sha256,
                     const Sluice__V1__CheckpointShard *shard,
                     const struct store_setup *setup, struct sl_error *err);

#endif
