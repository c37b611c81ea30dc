// SPDX-License-Identifier: Apache-2.0
// trainer/ring/buckets.h -- buckets: ranges of the flat vector that ranks sum
// one by one.
//
// A bucket leaves when the last of its gradients is there, so it holds the
// variables of neighbouring layers, and a large layer shares none: the rest of
// it would wait for layers that have their gradients much later. All ranks have
// the same buckets on any device: they follow from the model and `most`.
//
// Threads  pure.
// Memory   *out is the caller's (sl_free).
// Units    elements.
// Errors   SL_ENOMEM.
#ifndef TRAINER_RING_BUCKETS_H
#define TRAINER_RING_BUCKETS_H

#include "proto/model.h"
#include "trainer/base/elements.h"

// Cuts all elements of the model's vector into *count buckets, ascending and
// without gaps, of at most `most` elements (above 0) each, and sets *out to
// them, for sl_free. A layer of more than half of `most` has buckets of its
// own, in about equal parts. Returns SL_OK, or SL_ENOMEM with outputs
// untouched.
enum sl_err buckets_make(struct elements **out, uint32_t *count,
                         const struct model *model, uint64_t most);

#define BUCKETS_EARLY_PART 16
#define BUCKETS_EARLY_MOST ((uint64_t)1 << 20)
#define BUCKETS_EARLY_LEAST ((uint64_t)1 << 18) // elements of the vector

// Returns how many of the first buckets should have a lane of their own, past
// those behind them: with their sums the next forward pass can begin, and they
// hardly hold the others up. They have at most a BUCKETS_EARLY_PART-th of all
// elements, and BUCKETS_EARLY_MOST, since a rank keeps some vectors of them; 0
// for a vector below BUCKETS_EARLY_LEAST, as its sum takes little time. All
// ranks get the same number. `buckets` come from buckets_make; `count` is above
// 0.
uint32_t buckets_early(const struct elements *buckets, uint32_t count);

#endif
