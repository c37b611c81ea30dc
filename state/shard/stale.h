// SPDX-License-Identifier: Apache-2.0
// state/shard/stale.h -- late gradients: which are refused, and what the
// delay of the others changes.
//
// The delay d of an update is the number of updates that were applied between
// the version of the parameters that its gradient is of, and it. With a limit
// R (max_delay) it is applied iff d < R (Ringmaster ASGD, arXiv 2501.16168):
// R = 1 is one after the other. The rule for those that are applied:
//
//   inverse  learning rate / max(1, d)            (Zhang et al. 2015)
//   dc       g + lambda g g (w - w_read), element by element, where w_read are
//            the parameters at the version that was read, before clipping,
//            decay and the update                  (arXiv 1609.08326)
//
// One that comes at or over the limit and says that it was refused before is
// applied at learning rate / d, so that a worker that is slower than R updates
// gets its samples counted too.
//
// For dc, and for rounds with R = 1, the values of the last R versions are
// kept: each update copies, run by run, what it is about to change.
//
// Threads  the shard's lock.
// Memory   stale_release frees; R times the values of the shard, of which the
//          system gives what was written.
// Units    updates; elements of the shard.
// Errors   SL_ENOMEM.
#ifndef PSSERVER_SHARD_STALE_H
#define PSSERVER_SHARD_STALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum stale_kind { // numbers as in StalenessRule
    STALE_NONE,
    STALE_INVERSE,
    STALE_DC,
    STALE_KINDS,
};

// Most versions that are kept for dc.
#define STALE_VERSIONS_MAX 64

struct stale_rule {
    uint64_t max_delay; // 0: no limit
    enum stale_kind kind;
    double lambda; // dc
    bool keeps;    // the values are kept, as for dc: of the last max_delay
};

// Updates that were applied since `based_on`. A shard that was reloaded went
// back: a gradient may be based on a version that it does not have yet again.
static inline uint64_t stale_delay(uint64_t version, uint64_t based_on)
{
    return version > based_on ? version - based_on : 0;
}

// Whether an update of this delay is refused; `late` as it says itself.
static inline bool stale_refuses(const struct stale_rule *r, uint64_t delay,
                                 bool late)
{
    return r->max_delay > 0 && delay >= r->max_delay && !late;
}

// What its learning rate is multiplied by.
double stale_scale(const struct stale_rule *r, uint64_t delay);

// g + lambda g g (w - read), to `out`, which may be g. In f32; n elements at
// any address.
void stale_compensate(double lambda, size_t n, const void *g, const float *w,
                      const float *read, float *out);

// The values of the versions that an update may still be of.
struct stale_versions {
    size_t count, elements; // count 0: none are kept
    float *values;          // version v at (v % count) * elements
    uint64_t *version;      // that each holds, plus 1; 0: none
};

enum sl_err stale_init(struct stale_versions *s, const struct stale_rule *r,
                       size_t elements);
void stale_release(struct stale_versions *s); // all zeroes is allowed

// What is known of a version, or NULL.
const float *stale_find(const struct stale_versions *s, uint64_t version);

// Where the values of `version` go, which are about to be changed; NULL: they
// are not kept.
float *stale_keep(struct stale_versions *s, uint64_t version);

#endif
