// SPDX-License-Identifier: Apache-2.0
// client/show/shards.h -- the shards of a job for people, all in two lines.
// Each in a row of a table: LIST_SHARDS (client/cli/listing.h).
//
// Threads  pure.
// Memory   text is appended to the caller's buffer, a part of it on SL_ENOMEM;
//          what is returned is a constant.
#ifndef CLIENT_SHOW_SHARDS_H
#define CLIENT_SHOW_SHARDS_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

// Most shards that a table lists: people read no longer ones.
#define SHARDS_LISTED 16

// Returns the staleness, in updates, that half of the updates did not exceed,
// as the upper bound of its bucket: "4", or ">256". "-": there was no update.
const char *shards_median(const Sluice__V1__ShardCounts *c);

// Returns the staleness that no update exceeded, in the same way.
const char *shards_most(const Sluice__V1__ShardCounts *c);

// Appends "2,560 shards, 156.3 MiB, counted 1,200 to 1,204; --shards lists
// them", and how many wait for a psserver, if any does: a line each. A shard
// without counts has counted 0. Appends nothing for a job without shards.
enum sl_err shards_text(struct buf *out, const Sluice__V1__JobStatus *s);

#endif
