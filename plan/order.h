// SPDX-License-Identifier: Apache-2.0
// plan/order.h -- the keyed permutation of an epoch.
//
// Position p of epoch e is sample order_at(p). A Feistel network over the
// smallest power of two that is not below n, with cycle walking: a value that
// falls outside [0, n) is put through again. So any process can draw any range
// of positions from (seed, epoch, n) alone, a retry sees the same samples, each
// sample occurs exactly once, and no process holds a shuffle buffer.
// The result crosses machines and versions: never change the arithmetic.
//
// Threads  a value, read-only after order_init.
// Memory   the caller's struct; nothing is allocated.
// Units    positions and samples count from 0.
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define ORDER_MAX_SAMPLES (UINT64_C(1) << 40)
#define ORDER_ROUNDS 8

struct order {
    uint64_t n;                     // samples of the epoch
    unsigned left_bits, right_bits; // widths of the network's two halves
    uint64_t key[ORDER_ROUNDS];     // key of each round
};

// Sets up the order of epoch `epoch` (from 0) of n samples: the same for the
// same three numbers. SL_EINVAL unless 1 <= n <= 2^40, and *o is then
// untouched.
enum sl_err order_init(struct order *o, uint64_t seed, uint64_t epoch,
                       uint64_t n);

// Returns the number of the sample, below n, that stands at `position`; asserts
// that `position` is below n.
uint64_t order_at(const struct order *o, uint64_t position);

// Returns true if `sample` is held out of training with a set of which the
// share `part`, of 0 to below 1, is: the same for the same three numbers,
// whatever the size of the set. With a larger part the same samples are, and
// more.
bool order_held_out(uint64_t seed, uint64_t sample, double part);

#endif
