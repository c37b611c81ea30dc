// SPDX-License-Identifier: Apache-2.0
// common/base/rng.c -- the Philox generator, and draws of ranges and
// distributions from it.
#include "common/base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define ROUNDS 10
#define BLOCK_MAX (UINT64_C(1) << 46) // 2^48 elements of a fill

void philox4x32(uint32_t out[4], const uint32_t counter[4],
                const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3],
             k0 = key[0], k1 = key[1];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// `draw` counts the redraws of the truncated normal; it lies in the 16 bits
// above the block number.
static void block_at(uint32_t out[4], uint64_t seed, uint64_t stream,
                     uint64_t block, uint32_t draw)
{
    uint64_t low = block | (uint64_t)draw << 48;
    uint32_t counter[4] = {(uint32_t)low, (uint32_t)(low >> 32),
                           (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    philox4x32(out, counter, key);
}

static float unit_float(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

// Box-Muller: two words in, two normals out. The half keeps log away from 0.
static void normal_pair(double out[2], uint32_t a, uint32_t b)
{
    double radius = sqrt(-2.0 * log(((double)a + 0.5) * 0x1p-32));
    double angle = 2.0 * M_PI * ((double)b * 0x1p-32);

    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

static void normal_block(double out[4], uint64_t seed, uint64_t stream,
                         uint64_t block, uint32_t draw)
{
    uint32_t words[4];

    block_at(words, seed, stream, block, draw);
    normal_pair(out, words[0], words[1]);
    normal_pair(out + 2, words[2], words[3]);
}

typedef void (*lanes_fn)(float lanes[4], uint64_t seed, uint64_t stream,
                         uint64_t block);

static void uniform_lanes(float lanes[4], uint64_t seed, uint64_t stream,
                          uint64_t block)
{
    uint32_t words[4];

    block_at(words, seed, stream, block, 0);
    for (int i = 0; i < 4; i++)
        lanes[i] = unit_float(words[i]);
}

static void normal_lanes(float lanes[4], uint64_t seed, uint64_t stream,
                         uint64_t block)
{
    double normal[4];

    normal_block(normal, seed, stream, block, 0);
    for (int i = 0; i < 4; i++)
        lanes[i] = (float)normal[i];
}

// A lane is redrawn with the same lane of the next draw, so that one element's
// luck does not move its neighbours. Each draw fails with probability 0.046.
static void truncated_lanes(float lanes[4], uint64_t seed, uint64_t stream,
                            uint64_t block)
{
    bool have[4] = {false};
    int left = 4;

    for (uint32_t draw = 0; left > 0; draw++) {
        double normal[4];

        normal_block(normal, seed, stream, block, draw);
        for (int i = 0; i < 4; i++) {
            if (have[i] || fabs(normal[i]) >= 2.0)
                continue;
            lanes[i] = (float)normal[i];
            have[i] = true;
            left--;
        }
    }
}

static void rng_fill_lanes(float *out, uint64_t seed, uint64_t stream,
                           uint64_t first, size_t count, lanes_fn lanes_of)
{
    assert(first / 4 + count / 4 + 2 < BLOCK_MAX);
    while (count > 0) {
        unsigned lane = (unsigned)(first % 4);
        size_t n = 4 - lane < count ? 4 - lane : count;
        float lanes[4];

        lanes_of(lanes, seed, stream, first / 4);
        memcpy(out, lanes + lane, n * sizeof(*out));
        out += n;
        first += n;
        count -= n;
    }
}

void rng_fill_uniform(float *out, uint64_t seed, uint64_t stream,
                      uint64_t first, size_t count)
{
    rng_fill_lanes(out, seed, stream, first, count, uniform_lanes);
}

void rng_fill_normal(float *out, uint64_t seed, uint64_t stream, uint64_t first,
                     size_t count)
{
    rng_fill_lanes(out, seed, stream, first, count, normal_lanes);
}

void rng_fill_truncated(float *out, uint64_t seed, uint64_t stream,
                        uint64_t first, size_t count)
{
    rng_fill_lanes(out, seed, stream, first, count, truncated_lanes);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
    *r = (struct rng){.seed = seed, .stream = stream, .used = 4};
}

uint32_t rng_u32(struct rng *r)
{
    if (r->used == 4) {
        block_at(r->words, r->seed, r->stream, r->block++, 0);
        r->used = 0;
    }
    return r->words[r->used++];
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t low = rng_u32(r);

    return low | (uint64_t)rng_u32(r) << 32;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    // Values below `skip` = 2^64 mod n would make the small results likelier.
    uint64_t skip, x;

    assert(n > 0);
    skip = -n % n;
    do {
        x = rng_u64(r);
    } while (x < skip);
    return x % n;
}

uint64_t sl_hash64(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return sl_mix64(h);
}
