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

#endif
