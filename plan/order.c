// SPDX-License-Identifier: Apache-2.0
// plan/order.c -- a Feistel network over the sample numbers, with cycle
// walking.
#include "plan/order.h"

#include <assert.h>

#include "common/base/rng.h"

enum sl_err order_init(struct order *o, uint64_t seed, uint64_t epoch,
                       uint64_t n)
{
    unsigned bits = 2; // two halves of at least one bit
    uint64_t state = sl_mix64(sl_mix64(seed) ^ sl_mix64(~epoch));

    if (n < 1 || n > ORDER_MAX_SAMPLES)
        return SL_EINVAL;
    while ((UINT64_C(1) << bits) < n)
        bits++;
    o->n = n;
    o->left_bits = bits / 2;
    o->right_bits = bits - bits / 2;
    for (unsigned round = 0; round < ORDER_ROUNDS; round++) {
        state = sl_mix64(state + round);
        o->key[round] = state;
    }
    return SL_OK;
}

static uint64_t mask(unsigned bits)
{
    return (UINT64_C(1) << bits) - 1;
}

// One round changes one half by a function of the other: it undoes itself, so
// the network is a bijection.
static void order_apply_round(const struct order *o, unsigned round,
                              uint64_t *left, uint64_t *right)
{
    if (round % 2 == 0)
        *left ^= sl_mix64(*right ^ o->key[round]) & mask(o->left_bits);
    else
        *right ^= sl_mix64(*left ^ o->key[round]) & mask(o->right_bits);
}

static uint64_t order_permute(const struct order *o, uint64_t x)
{
    uint64_t left = x >> o->right_bits, right = x & mask(o->right_bits);

    for (unsigned round = 0; round < ORDER_ROUNDS; round++)
        order_apply_round(o, round, &left, &right);
    return left << o->right_bits | right;
}

// Cycle walking: the domain is below 2n (4 for n < 4), so two rounds through
// the network are the average; and since the cycle returns to x < n, it ends.
uint64_t order_at(const struct order *o, uint64_t position)
{
    uint64_t x = position;

    assert(position < o->n);
    do {
        x = order_permute(o, x);
    } while (x >= o->n);
    return x;
}

#define HELD_OUT UINT64_C(0x68656c64206f7574) // a seed of orders is another

bool order_held_out(uint64_t seed, uint64_t sample, double part)
{
    uint64_t hash = sl_mix64(sl_mix64(seed ^ HELD_OUT) ^ sample);

    return hash < (uint64_t)(part * 0x1p64);
}
