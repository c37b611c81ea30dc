// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/cut_fits.h -- whether a new job may start from a cut,
// and which files hold what its shards need.
//
// A shard has one counted set for all its rows. If the shards of a cut have
// counted the same steps (it is *even*: as at the end of an epoch in which
// nothing ran ahead, or at a job's end), rows may move to any number of shards.
// Else each shard must stay as it was cut, with its own set, and the steps that
// some of them lack are issued again (C3). Rows with different sets are never
// merged under one.
//
// Threads  pure.
// Memory   messages are borrowed for the call.
// Errors   SL_EINVAL: the spec trains something else, with the key; SL_ESTATE:
//          the cut is uneven and its shards would not stay as they are. `err`
//          may be NULL.
#ifndef COORDINATOR_CORE_CUTS_CUT_FITS_H
#define COORDINATOR_CORE_CUTS_CUT_FITS_H

#include <stdbool.h>

#include "coordinator/journal/journal_manifest.h"
#include "proto/wire.h"

#define RESUME_APART_BYTES 160 // room for the text of resume_even

// Says whether all shards have counted the same; else `apart` says how far they
// are apart; "" if they are not. Sets are compared by numbers and digests per
// epoch; the shards, which see the sets themselves, compare those.
bool resume_even(Sluice__V1__ShardCounts *const *counts, size_t shards,
                 char apart[RESUME_APART_BYTES]);

// Checks that a spec, with a model, an optimizer and train, which spec_check
// accepts, continues the training of the cut's job.
enum sl_err resume_check_spec(const struct manifest_found *from,
                              const Sluice__V1__JobSpec *spec,
                              struct sl_error *err);

// Checks that shards with this layout may start from the cut, for which
// from->even and from->apart are set (resume_even). `samples` in an epoch; 0:
// not known yet.
enum sl_err resume_fits(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint64_t samples, struct sl_error *err);

// Says whether the shards are cut as they were, so that each needs one file,
// its own.
bool resume_same_shards(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *layout);

// Sets needed[i], for each shard i of the cut: whether it holds elements of
// this shard of the layout, which resume_fits allows: both have the same
// variables.
void resume_needs(const Sluice__V1__ResumeSource *from,
                  const Sluice__V1__CheckpointsReply *layout, uint32_t shard,
                  bool *needed);

// Sets needed[i] too for each of `shards_then` shards of the cut that has rows
// of the model's tables for shard `shard` of `shards`.
void resume_needs_rows(const Sluice__V1__ModelSpec *model, uint32_t shard,
                       uint32_t shards, uint32_t shards_then, bool *needed);

#endif
