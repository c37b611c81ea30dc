// SPDX-License-Identifier: Apache-2.0
// client/show/summary.h -- what a job did, and whether each step counted once.
//
// The two checks are made from the shards' own numbers, not from what the
// coordinator concluded:
//   once   on every shard applied + skipped = counted = steps asked; where a
//          callback ended the job, the steps that the job counted by then are
//          asked
//   cover  on every shard, for every epoch: as many samples were counted as
//          there are, and the digest of their numbers is that of all samples
//
// Threads  pure. The digest of an epoch takes time in its samples.
// Memory   a status is borrowed for the call.
// Errors   SL_ENOMEM: *out is untouched, a text may be there in part.
#ifndef CLIENT_SHOW_SUMMARY_H
#define CLIENT_SHOW_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/jobs.pb-c.h"

// 2: samples_per_epoch is a number, as in a status; 1: what samples_counted is.
#define SUMMARY_SCHEMA_VERSION 2

// Returns true if the check `once` holds. False for a job that was stopped or
// failed on its way, though not for one that a callback ended, and for a status
// that was asked for without its shards.
bool summary_once(const Sluice__V1__JobStatus *s);
// Returns true if the check `cover` holds; an epoch in which a callback ended
// the job is left out. False for a status without shards, epochs or geometry,
// for a geometry of other samples than samples_per_epoch, and without memory.
bool summary_cover(const Sluice__V1__JobStatus *s);

// Returns how many samples of `epoch` (from 0) every shard has counted: the
// lowest number of all; 0 for a status without shards.
uint64_t summary_samples(const Sluice__V1__JobStatus *s, uint32_t epoch);

// Returns counted samples per second of the time in which the job ran, without
// its pauses; of a resumed job only the samples that it counted itself, for
// which the status needs its geometry. 0 while no sample was counted or no time
// has passed, and for a status without shards.
double summary_rate(const Sluice__V1__JobStatus *s);

// Makes the object that --summary writes. *out is a new reference, the
// caller's. SL_ENOMEM.
enum sl_err summary_json(json_t **out, const Sluice__V1__JobStatus *s);

// Appends the table that is shown when a job has ended, with the results of the
// two checks if it is finished. SL_ENOMEM.
enum sl_err summary_text(struct buf *out, const Sluice__V1__JobStatus *s);

#endif
