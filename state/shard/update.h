// SPDX-License-Identifier: Apache-2.0
// state/shard/update.h -- one update of a shard that counts many keys.
//
// A push is one key and one update. Where the gradients of several keys are
// averaged first, what comes of them is one update, and all keys are counted
// with it, under the one lock of the shard (S1).
//
// An update may be applied elsewhere: on a device where values and slots are
// resident (worker/device/resident.h). Then the shard counts it, and its memory
// is behind until it is brought up to that. Memory that is behind is shown to
// nobody, so what is seen is one instant all the same (S1).
//
// Threads  any; each call holds the lock of the shard.
// Memory   everything is borrowed for the call.
// Units    elements of the shard, f32; samples.
// Errors   a call that fails has changed nothing.
#ifndef STATE_SHARD_UPDATE_H
#define STATE_SHARD_UPDATE_H

#include "state/shard/shard.h"

struct update {
    const float *gradient; // of all elements, finite; not read if skipped
    // The keys, all of one epoch, none of them counted; all skip, or none.
    const struct once_step *steps;
    size_t count;   // at least 1
    bool elsewhere; // applied there, unless skipped: it is only counted here
    const uint8_t *absent; // pieces without a gradient (wire_absent)
    size_t absent_bytes;
};

// With `fresh` (space for all elements, or NULL) the new values are copied
// there. SL_EUNAVAIL: the shard is closed, or not admitted (S5). SL_ESTATE: a
// key is counted already (S2), or the memory is behind. SL_ENOMEM.
enum sl_err update_shard(struct shard *s, const struct update *u, float *fresh,
                         struct sl_error *err);

// The first `elements` values, at most the shard's, as that update would leave
// them, into `values`: the bits that update_shard makes of them. Nothing is
// applied or counted. `gradient` may end there; `slots` is space for as many of
// each slot of the optimizer. SL_ESTATE: the memory is behind.
enum sl_err update_foresee(struct shard *s, const struct update *u,
                           uint64_t elements, float *values, float *slots,
                           struct sl_error *err);

// `read` gives values (array 0) and slots (1 and up), all elements, as of all
// updates that are counted. Where memory is behind it is given all of them; if
// that fails it stays behind.
typedef enum sl_err (*update_read_fn)(void *arg, unsigned array, float *into,
                                      struct sl_error *err);
enum sl_err update_bring(struct shard *s, update_read_fn read, void *arg,
                         struct sl_error *err);
bool update_is_behind(struct shard *s);

#endif
