// SPDX-License-Identifier: Apache-2.0
// state/shard/mirror.h -- the parameters as the workers of a shard have them,
// where these are sent what changed (train.inner.down).
//
// A code is coarse, so what workers have is not what the shard has. All of them
// and the mirror have the same bits: each update moves the mirror towards the
// values by a coded change, and a worker that has the version before adds that
// change. Any other is sent the mirror whole. What the code leaves out is the
// difference between values and mirror, which the next change is of; so it is
// never lost.
//
// A mirror is in no snapshot: a shard that is loaded begins with one that is
// equal to its values.
//
// Threads  the shard's lock.
// Memory   mirror_release frees: the values once more, and the last change.
// Units    elements of the shard; versions.
// Errors   SL_ENOMEM.
#ifndef STATE_SHARD_MIRROR_H
#define STATE_SHARD_MIRROR_H

#include "state/shard/plan.h"

struct mirror {
    const struct plan *plan; // borrowed; NULL: the shard has none
    float *values;           // owned
    uint8_t *change;         // leads to `values` from the version before
    size_t change_bytes;
    uint64_t version; // that `change` leads to; 0: there is no change
};

// Prepares the mirror of a shard, if plan->down is a code; else *m becomes
// zeroes. Its values are set by mirror_begin. `plan` is borrowed until release.
// Returns SL_OK or SL_ENOMEM, after which *m is for mirror_release.
enum sl_err mirror_init(struct mirror *m, const struct plan *plan);
// Frees the memory, and zeroes *m; a zeroed one is allowed.
void mirror_release(struct mirror *m);

// Returns what workers have of `values`, those of the shard: the mirror's; or
// `values`, if there is no mirror.
static inline const float *mirror_of(const struct mirror *m,
                                     const float *values)
{
    return m->values != NULL ? m->values : values;
}

// Makes the mirror equal to the values of a shard that begins, and forgets the
// last change. Does nothing without one, here and below.
void mirror_begin(struct mirror *m, const float *values);
// Copies what workers have before an update to `keep` (space for the values;
// NULL: nothing is kept), and returns NULL. Without a mirror it copies nothing
// and returns `keep`: the update itself is to copy the values there.
float *mirror_keep(const struct mirror *m, float *keep);
// Moves the mirror after an update that has made `values` those of `version`,
// and keeps the change for mirror_change. If one of them is not finite there is
// no change to send: workers get the whole mirror.
void mirror_follow(struct mirror *m, const float *values, uint64_t version);
// Returns the bytes to be sent to a worker that has version `have` - 1 (`have`
// 0: none) and is to get those of `version`, *bytes of them; 0: it has that
// version (the pointer is not NULL then). Borrowed until the next
// mirror_follow. Returns NULL if it needs the whole mirror, or there is no
// mirror; *bytes means nothing then.
const uint8_t *mirror_change(const struct mirror *m, uint64_t have,
                             uint64_t version, size_t *bytes);

#endif
