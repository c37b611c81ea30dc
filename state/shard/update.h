// SPDX-License-Identifier: Apache-2.0
// state/shard/update.h -- one update of a shard that counts many keys.
//
// A push is one key and one update. Where the gradients of several keys are
// averaged first, what comes of them is one update, and all keys are counted
// with it, under the one lock of the shard (S1).
//
// Threads  any; update_shard holds the lock of the shard.
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
    size_t count; // at least 1
};

// With `fresh` (space for all elements, or NULL) the new values are copied
// there. SL_EUNAVAIL: the shard is closed, or not admitted (S5). SL_ESTATE: a
// key is counted already (S2). SL_ENOMEM.
enum sl_err update_shard(struct shard *s, const struct update *u, float *fresh,
                         struct sl_error *err);

#endif
