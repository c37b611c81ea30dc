// SPDX-License-Identifier: Apache-2.0
// state/shard/update.h -- one update of a shard that counts many keys.
//
// A push is one key and one update. Where the gradients of several keys are
// averaged first, the result is one update, and all keys are counted with it,
// under the one lock of the shard (S1).
//
// An update may be applied elsewhere: on a device where values and slots are
// resident (worker/device/resident.h). Then the shard counts it, and its memory
// is behind until update_bring copies the values back. Memory that is behind is
// never read by a pull or a snapshot, so each sees one instant all the same
// (S1).
//
// Threads  any; each call holds the lock of the shard.
// Memory   everything is borrowed for the call.
// Units    elements of the shard, f32; samples.
// Errors   a call that fails has changed nothing, outputs included, but for
//          update_bring. `err` may be NULL.
#ifndef STATE_SHARD_UPDATE_H
#define STATE_SHARD_UPDATE_H

#include "state/shard/shard.h"

struct update {
    const float *gradient; // all elements, finite; not read if skipped
    // Keys of the update, all of one epoch, none of them counted; all or none
    // are skipped.
    const struct once_step *steps;
    size_t count;          // number of steps, at least 1
    bool elsewhere;        // a device has applied it; the shard only counts it
    const uint8_t *absent; // pieces without a gradient (wire_absent); not
                           // looked at, nor counted, if `elsewhere` or skipped
    size_t absent_bytes;
};

// Applies and counts an update; a skipped one is only counted. Also copies the
// values that the shard has then to `fresh` (space for all elements, or NULL),
// but not if u->elsewhere: then the memory is behind from now on, unless the
// update is skipped. A feed does not get it, and tables are not updated.
// Returns SL_OK; SL_EUNAVAIL: the shard is closed, or not admitted (S5).
// SL_ERANGE: the job has no such step. SL_ESTATE: a key is counted already
// (S2), or the memory is behind and the update is not elsewhere. SL_ENOMEM.
enum sl_err update_shard(struct shard *s, const struct update *u, float *fresh,
                         struct sl_error *err);

// Computes the first `elements` values, at most the shard's, as update_shard
// would leave them, bit by bit, into `values`. Applies and counts no update.
// The optimizer updates no whole variables. u->gradient needs only `elements`
// elements; `slots` is space for as many of each slot of the optimizer. Returns
// SL_OK; SL_ESTATE: the memory is behind.
enum sl_err update_foresee(struct shard *s, const struct update *u,
                           uint64_t elements, float *values, float *slots,
                           struct sl_error *err);

// Copies all elements of the values (array 0) or a slot (1 and up), after all
// counted updates, to `into`, the shard's memory. Returns SL_OK or an error.
typedef enum sl_err (*update_read_fn)(void *arg, unsigned array, float *into,
                                      struct sl_error *err);

// Reads all arrays into memory that is behind, with read(arg, ...), which is
// called under the lock and must not call the shard; does nothing if the memory
// is not behind. Saves frozen blocks first. Returns SL_OK; if `read` fails its
// error, and the memory stays behind, and is undefined.
enum sl_err update_bring(struct shard *s, update_read_fn read, void *arg,
                         struct sl_error *err);
// Returns true if the memory lacks counted updates.
bool update_is_behind(struct shard *s);

#endif
