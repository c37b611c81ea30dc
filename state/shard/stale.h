// SPDX-License-Identifier: Apache-2.0
// state/shard/stale.h -- the rule for late gradients: some are refused, others
// are applied with a change.
//
// The delay d of an update is the number of updates applied after the version
// of its gradient's parameters and before it. With a limit R (max_delay) it is
// applied iff d < R (Ringmaster ASGD, arXiv 2501.16168): with R = 1 updates are
// strictly sequential. The rule for updates that are applied:
//
//   inverse  learning rate / max(1, d)            (Zhang et al. 2015)
//   dc       g + lambda g g (w - w_read), element by element, where w_read are
//            the parameters at the version that was read, before clipping,
//            decay and the update                  (arXiv 1609.08326)
//
// An update at or over the limit that says it was refused before is applied at
// learning rate / d, so that a worker that is slower than R updates gets its
// samples counted too.
//
// For dc, and for rounds with R = 1, the values of the last R versions are
// kept: each update copies, run by run, the values that it is about to change.
//
// Threads  the shard's lock.
// Memory   stale_release frees; R times the values of the shard, of which the
//          system provides only pages that were written.
// Units    updates; elements of the shard.
// Errors   SL_ENOMEM.
#ifndef STATE_SHARD_STALE_H
#define STATE_SHARD_STALE_H

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

// Limit of versions kept for dc.
#define STALE_VERSIONS_MAX 64

struct stale_rule {
    uint64_t max_delay; // 0: no limit
    enum stale_kind kind;
    double lambda; // factor of dc
    bool keeps;    // keeps the values of the last max_delay versions
};

// Returns the number of updates applied since `based_on`; 0 if a shard fell
// back by a reload, and the gradient is of a version that it has yet to reach.
static inline uint64_t stale_delay(uint64_t version, uint64_t based_on)
{
    return version > based_on ? version - based_on : 0;
}

// Returns true if an update of this delay is refused; `late`: the update says
// that it was refused before.
static inline bool stale_refuses(const struct stale_rule *r, uint64_t delay,
                                 bool late)
{
    return r->max_delay > 0 && delay >= r->max_delay && !late;
}

// Returns the factor of the learning rate for an update of this delay: 1 /
// delay with STALE_INVERSE, or at or over a max_delay that is not 0; else, and
// for a delay of 0, it is 1.
double stale_scale(const struct stale_rule *r, uint64_t delay);

// Writes g + lambda g g (w - read) to `out`, which may be g, element by
// element, in f32. The n elements of g, f32, are at any address.
void stale_compensate(double lambda, size_t n, const void *g, const float *w,
                      const float *read, float *out);

// Kept values of the versions on which a gradient may still be based.
struct stale_versions {
    size_t count, elements; // count 0: no version is kept
    float *values;          // version v at (v % count) * elements
    uint64_t *version;      // version in each place, plus 1; 0: empty
};

// Allocates room for the versions that `r` keeps, r->max_delay of them, which
// is not 0 then, of `elements` values each; *s becomes zeroes if it keeps none.
// Returns SL_OK; SL_ENOMEM, with *s zeroes.
enum sl_err stale_init(struct stale_versions *s, const struct stale_rule *r,
                       size_t elements);
// Frees the versions, and zeroes *s; a zeroed one is allowed.
void stale_release(struct stale_versions *s);

// Returns the kept values of a version, valid until stale_keep gives their
// place away; NULL if it is not kept.
const float *stale_find(const struct stale_versions *s, uint64_t version);

// Returns the place for the caller to copy the values of `version` to, which
// are about to be changed, and counts them as kept from now on, in place of
// those of version - s->count; NULL: no versions are kept.
float *stale_keep(struct stale_versions *s, uint64_t version);

#endif
