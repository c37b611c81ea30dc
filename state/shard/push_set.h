// SPDX-License-Identifier: Apache-2.0
// state/shard/push_set.h -- the closures that one push counts.
//
// A push counts one step; or, of closures of one step each, several closures
// that were computed together (L5). Then it is taken if none of them is
// counted or held here, and counts all of them at once; if all are, it is a
// repeat; and if some are, it is refused as a whole, since what it changes
// holds what those have changed already.
//
// Threads  the shard's lock.
// Memory   none of its own.
// Units    closures.
// Errors   as each function says; a call that fails has counted nothing. `err`
//          may be NULL.
#ifndef STATE_SHARD_PUSH_SET_H
#define STATE_SHARD_PUSH_SET_H

#include "state/shard/once.h"
#include "state/shard/open_round.h"
#include "proto/wire.h"

struct push_set {
    size_t count; // 1 to WIRE_KEYS_MAX
    struct once_step steps[WIRE_KEYS_MAX];
    uint64_t samples; // of all steps
};

enum push_set_here {
    PUSH_SET_NEW,     // none of its closures is counted or held
    PUSH_SET_COUNTED, // all are counted
    PUSH_SET_HELD,    // all are held
    PUSH_SET_PARTLY,  // anything else
};

// Sets *out to the steps of a push, unchecked; `staleness` of each is the
// version that the push is based on, and `late` is false.
void push_set_of(struct push_set *out, const struct wire_push *push);

// Checks that the job has each step, and that each is the whole closure if
// there are several. Returns SL_OK; SL_ERANGE: the job has no such step;
// SL_EINVAL: a closure has several.
enum sl_err push_set_keys(const struct push_set *set, const struct once *once,
                          struct sl_error *err);

// Says what is here of the set, which push_set_keys has checked: counted in
// `once`, or held in `open`.
enum push_set_here push_set_here(const struct push_set *set,
                                 const struct once *once,
                                 const struct open_round *open);

// Reserves memory in which once_add_round counts the set, also with the epochs
// of what is held in `open`. Returns SL_OK or SL_ENOMEM.
enum sl_err push_set_reserve(const struct push_set *set, struct once *once,
                             const struct open_round *open);

#endif
