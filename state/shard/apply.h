// SPDX-License-Identifier: Apache-2.0
// state/shard/apply.h -- from the bytes of the wire to new parameters.
//
// A payload is looked at as a whole before anything is changed: its size must
// be the shard's and every element finite. Then it is applied run by run,
// straight from the transport's slices, which are cut anywhere. The result
// does not depend on where. What comes in 16 bits is widened, some thousand
// elements at a time, and then treated like any f32.
//
// Trainable runs go through the optimizer; a moving statistic becomes
// momentum * w + (1 - momentum) * pushed, in f32 as Keras computes it. A push
// that stands for k micro-batches moves it k times: momentum^k * w +
// (1 - momentum^k) * pushed, where what is pushed is weighted so that this is
// what each of them in turn would have made of it.
//
// A piece without a gradient in an update is left alone, with its slots, and
// counts its updates by itself: what a framework makes of a parameter whose
// gradient is None.
//
// Threads  pure, but for the memory of *to.
// Memory   everything is borrowed.
// Units    elements; `type` is that of payload and `fresh`.
// Errors   see apply_check; apply_update cannot fail.
#ifndef STATE_SHARD_APPLY_H
#define STATE_SHARD_APPLY_H

#include <stdint.h>

#include "common/base/slices.h"
#include "common/plan/rates.h"
#include "common/base/status.h"
#include "state/shard/freeze.h"
#include "state/shard/plan.h"

// The memory that an update changes: plan.elements values, then as many of
// each slot, in one contiguous piece.
struct apply_memory {
    float *values;
    float *slots[OPTIM_SLOTS_MAX];
    struct freeze *freeze; // NULL, or what must be saved first
};

// SL_EINVAL for a wrong size, SL_ENUMERIC naming the first element that is not
// finite.
enum sl_err apply_check(const struct plan *plan, enum wire_type type,
                        const struct sl_slices *payload, struct sl_error *err);

// One update, numbered from 1.
struct apply_step {
    uint64_t t;
    double rate;       // the learning rate, scheduled
    double lambda;     // with `read`: see stale_compensate
    const float *read; // the values that the gradient is of; NULL: as they are
    float *keep;       // where the values go that are changed; NULL: nowhere
    uint32_t moves;    // of a moving statistic, at least 1
    // Pieces that have no gradient (wire_absent), which are left alone; and how
    // many updates passed over each before: it is at update t - passed[i].
    const uint8_t *absent;
    size_t absent_bytes;
    const uint64_t *passed; // NULL: none
};

// The update that makes version + 1 of `version`, with a gradient over so many
// samples of the values at `based_on`; of the first closure of those that are
// in it, which says the rate where callbacks have reduced it (D1).
struct apply_of {
    const struct rates *rates;
    uint64_t closure, version, based_on, samples;
};

// `versions` keeps the values of of->version from now on. Every piece has a
// gradient, and had one always.
void apply_step_init(struct apply_step *out, const struct plan *plan,
                     struct stale_versions *versions,
                     const struct apply_of *of);

// The constants with which that update changes a run, for who does it elsewhere
// (kernels/kern.h, optim).
void apply_consts(struct optim_consts *out, const struct plan *plan,
                  const struct plan_run *run, const struct apply_step *step);

// Applies one update of a payload that apply_check has passed; it may be empty
// if all pieces are absent. With `fresh`
// (NULL allowed) the new values are also copied there, run by run while they
// are in the cache.
void apply_update(const struct plan *plan, const struct apply_memory *to,
                  enum wire_type type, const struct sl_slices *payload,
                  const struct apply_step *step, void *fresh);

// The same of the first `elements` alone, at most plan->elements, which are all
// that *to has; `gradient` is of them, finite. The bits are those that an
// update of all makes of them. `step` neither reads nor keeps versions.
void apply_front(const struct plan *plan, const struct apply_memory *to,
                 const float *gradient, uint64_t elements,
                 const struct apply_step *step);

#endif
