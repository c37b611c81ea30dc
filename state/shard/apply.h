// SPDX-License-Identifier: Apache-2.0
// state/shard/apply.h -- from the bytes of the wire to new parameters.
//
// A payload is checked as a whole before any value is changed: its size must be
// the shard's and every element finite. Then it is applied run by run, straight
// from the transport's slices; the result does not depend on where these are
// cut. A payload of 16 bits is widened, some thousand elements at a time, and
// then treated like any f32.
//
// Trainable runs go through the optimizer; a moving statistic becomes
// momentum * w + (1 - momentum) * pushed, in f32 as Keras computes it. A push
// that stands for k micro-batches moves it k times: momentum^k * w +
// (1 - momentum^k) * pushed, where the pushed value is weighted so that the
// result is that of k pushes in turn.
//
// A piece without a gradient in an update is left unchanged, with its slots,
// and has its own count of updates, as frameworks treat a parameter with the
// gradient None.
//
// A piece that is a whole variable of an optimizer that looks at all of one is
// gathered first, from slices or from a mean, and then updated (optim_whole).
//
// Threads  pure, except for the memory of *to: under the lock of the shard that
//          it is of.
// Memory   everything is borrowed.
// Units    elements; `type` is that of payload and `fresh`.
// Errors   see apply_check; apply_update cannot fail. `err` may be NULL.
#ifndef STATE_SHARD_APPLY_H
#define STATE_SHARD_APPLY_H

#include <stdint.h>

#include "common/base/slices.h"
#include "plan/rates.h"
#include "common/base/status.h"
#include "state/shard/freeze.h"
#include "state/shard/mean.h"
#include "state/shard/plan.h"

// The memory that an update changes: plan.elements values, and as many of each
// slot: arrays that need not lie together.
struct apply_memory {
    float *values;
    float *slots[OPTIM_SLOTS_MAX];
    struct freeze *freeze; // image to save blocks for before a change; or NULL
    float *space;          // apply_space() floats; NULL if that is 0
};

// Returns the floats that updates of a plan need beside its memory: what they
// gather of a variable that is updated as a whole, and its matrices; 0 if none
// is.
size_t apply_space(const struct plan *plan);

// Checks a payload, all of it, of a type that is no code. Returns SL_OK;
// SL_EINVAL: its size is wrong; SL_ENUMERIC: an element is not finite; the text
// names the first.
enum sl_err apply_check(const struct plan *plan, enum wire_type type,
                        const struct sl_slices *payload, struct sl_error *err);

// Numbers of one update.
struct apply_step {
    uint64_t t;        // its number, from 1
    double rate;       // learning rate, scheduled
    double lambda;     // with `read`: see stale_compensate
    const float *read; // values of the gradient's version; NULL: the present
    float *keep;       // copy of the values before the update; NULL: none
    uint32_t moves;    // micro-batches, for moving statistics; at least 1
    // Pieces without a gradient (wire_absent), which stay unchanged; and the
    // number of updates without each piece before: it is at t - passed[i].
    const uint8_t *absent;
    size_t absent_bytes;
    const uint64_t *passed; // NULL: none
};

// Origin of an update that makes `version` + 1, from a gradient over `samples`
// samples at the values of version `based_on`. `closure` is the first of its
// closures and decides the rate where callbacks have reduced it (D1).
struct apply_of {
    const struct rates *rates;
    uint64_t closure, version, based_on, samples;
};

// Sets *out for an update in which every piece has a gradient, as in all
// earlier updates. `versions` keeps the values of of->version from now on, so
// the update must follow: it copies them; one of zeroes keeps none. out->read
// and out->keep point into it, or are NULL; out->read is NULL also if there is
// no delay, or the version is not kept. out->absent and out->passed are of no
// piece: the caller sets them.
void apply_step_init(struct apply_step *out, const struct plan *plan,
                     struct stale_versions *versions,
                     const struct apply_of *of);

// Sets *out to the constants with which update `step` changes the elements of
// `run`, for a device that applies it (kernels/kern.h, optim): those of its
// group, or of a moving statistic. step->passed is not looked at.
void apply_consts(struct optim_consts *out, const struct plan *plan,
                  const struct plan_run *run, const struct apply_step *step);

// Applies one update of a payload that apply_check has passed; it may be empty
// if all pieces are absent, and else has elements of absent ones, too, which
// are not used. Saves frozen blocks before it changes them (freeze_touch), and
// copies the values from before to step->keep. Also copies all values behind it
// to `fresh` (NULL allowed), as elements of `type`, run by run while they are
// in the cache.
void apply_update(const struct plan *plan, const struct apply_memory *to,
                  enum wire_type type, const struct sl_slices *payload,
                  const struct apply_step *step, void *fresh);

// Applies one update of a mean of plan->elements that is finite, from its first
// element (mean_begin), as apply_update does, without a copy; every piece has a
// gradient.
void apply_mean(const struct plan *plan, const struct apply_memory *to,
                struct mean *mean, const struct apply_step *step);

// Applies an update to the first `elements` alone, at most plan->elements; *to
// has only these, and so has `gradient`, which is finite. The bits are the same
// as in an update of all. `step` neither reads nor keeps versions, `to` has no
// freeze, and no variable is updated as a whole (apply_space is 0).
void apply_front(const struct plan *plan, const struct apply_memory *to,
                 const float *gradient, uint64_t elements,
                 const struct apply_step *step);

#endif
