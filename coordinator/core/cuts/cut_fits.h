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
//          the cut is uneven and its shards would not stay as they are. No
//          pointer is NULL but `err`, which may be.
#ifndef COORDINATOR_CORE_CUTS_CUT_FITS_H
#define COORDINATOR_CORE_CUTS_CUT_FITS_H

#include <stdbool.h>

#include "coordinator/journal/journal_manifest.h"
#include "proto/wire.h"

#define RESUME_APART_BYTES 160 // size of resume_even's text, with the 0

// Returns true if all `shards` shards, with these counts, have counted the same
// steps, and sets `apart` to "". Else returns false, with a text in `apart`
// that says how far they are apart. Compares numbers, and digests per epoch;
// the shards, which have the sets themselves, compare those later.
bool resume_even(Sluice__V1__ShardCounts *const *counts, size_t shards,
                 char apart[RESUME_APART_BYTES]);

// Checks that `spec`, which spec_check accepts, continues the training of the
// cut's job: the same model.type, tables (name, dim, buckets, type of
// optimizer), samples per step, steps per closure, seed and shuffle, the same
// kind of optimizer of the shards with the same slots, torch_epsilon and
// torch_momentum, and no fewer epochs. Rates, train.mode and all else may
// differ; resume_fits compares variables. Returns SL_OK or SL_EINVAL.
enum sl_err resume_check_spec(const struct manifest_found *from,
                              const Sluice__V1__JobSpec *spec,
                              struct sl_error *err);

// Checks that shards with this `layout` may start from the cut `from`, for
// which from->even and from->apart are set (resume_even). `samples`: samples in
// an epoch of the new job; 0: not known yet. Returns SL_OK; SL_EINVAL if the
// variables, or known samples, are not those of the cut; SL_ESTATE if the cut
// is uneven and not resume_same_shards.
enum sl_err resume_fits(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *layout,
                        uint64_t samples, struct sl_error *err);

// Returns true if `layout` cuts the model into the same shards as the cut had,
// so that each shard needs one file, its own.
bool resume_same_shards(const Sluice__V1__ResumeSource *from,
                        const Sluice__V1__CheckpointsReply *layout);

// Sets needed[i] for each shard i of the cut `from`: true if its file has
// elements of shard `shard` of the new `layout`. resume_fits has allowed the
// layout: both have the same variables.
void resume_needs(const Sluice__V1__ResumeSource *from,
                  const Sluice__V1__CheckpointsReply *layout, uint32_t shard,
                  bool *needed);

// Sets needed[i] to true, and leaves the others, for each shard of the cut that
// has rows of the model's tables in its file which belong to shard `shard` of
// `shards` with rows now. To be called after resume_needs.
void resume_needs_rows(const Sluice__V1__ResumeSource *from,
                       const Sluice__V1__ModelSpec *model, uint32_t shard,
                       uint32_t shards, bool *needed);

#endif
