// SPDX-License-Identifier: Apache-2.0
// state/snap/archive.h -- snapshots of shards that this server no longer
// serves.
//
// When a job has ended its shards are closed, but its checkpoints stay, and
// users export them: a Pull that names a tag of a shard which is not served
// here is answered from the file. That is no exception to S5: the answer is
// from a file that never changes, not from a shard.
//
// Threads  any; reads and verifies the whole file, so not on an I/O thread.
// Memory   *out is a reference of the caller's (tagged_file_unref).
// Errors   SL_ENOENT: no such file here. SL_ESTATE: two jobs of that number
//          (from different coordinators) have one; the text names both.
//          SL_ECORRUPT: the file is damaged. *out is untouched then. Those of
//          `fs` besides, and SL_ENOMEM. `err` may be NULL.
#ifndef STATE_SNAP_ARCHIVE_H
#define STATE_SNAP_ARCHIVE_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/tagged.h"

// Finds, verifies and maps the values of snapshot `tag` of a shard.
enum sl_err archive_values(struct fs *fs, const char *store, uint64_t job,
                           uint32_t shard, struct wire_tag tag,
                           struct tagged_file **out, struct sl_error *err);

#endif
