// SPDX-License-Identifier: Apache-2.0
// client/shards.h -- the shards of a job for people: each in a row of a table,
// or all in two lines.
//
// Threads  pure.
// Memory   text is appended to the caller's buffer.
#ifndef CLIENT_SHARDS_H
#define CLIENT_SHARDS_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

// More than these are no table that somebody reads.
#define SHARDS_LISTED 16

// All of a status that was asked for with its shards; nothing if it has none.
enum sl_err shards_table(struct buf *out, const Sluice__V1__JobStatus *s);

// "2,560 shards, 156.3 MiB, counted 1,200 to 1,204; --shards lists them", and
// how many wait for a psserver, if any does.
enum sl_err shards_text(struct buf *out, const Sluice__V1__JobStatus *s);

#endif
