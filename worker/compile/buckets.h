// SPDX-License-Identifier: Apache-2.0
// worker/compile/buckets.h -- what ranks sum at one time: ranges of the flat
// vector.
//
// A bucket leaves when the last of its gradients is there, so it holds the
// variables of neighbouring layers, and a large layer shares none: the rest of
// it would wait for layers whose gradients come much later. All ranks have the
// same buckets, whatever their devices: they follow from the model and `most`.
//
// Threads  pure.
// Memory   *out is the caller's (sl_free).
// Units    elements.
// Errors   SL_ENOMEM.
#ifndef WORKER_COMPILE_BUCKETS_H
#define WORKER_COMPILE_BUCKETS_H

#include "proto/model.h"
#include "worker/compile/overlap.h"

// Ascending, without gaps, of all elements; none has more than `most`, which
// is above 0. A layer of more than half of that is alone, cut into equal
// parts.
enum sl_err buckets_make(struct overlap_range **out, uint32_t *count,
                         const struct model *model, uint64_t most);

// How many of the first buckets are worth a way of their own past those behind
// them: with their sums the next forward pass can begin, and they hardly hold
// the others up. They are at most a BUCKETS_EARLY_PART of all elements and
// BUCKETS_EARLY_MOST, since a rank keeps some vectors of them; 0 where all of
// it travels in no time. All ranks have the same answer.
#define BUCKETS_EARLY_PART 16
#define BUCKETS_EARLY_MOST ((uint64_t)1 << 20)
#define BUCKETS_EARLY_LEAST ((uint64_t)1 << 18) // elements of all
uint32_t buckets_early(const struct overlap_range *buckets, uint32_t count);

#endif
