// SPDX-License-Identifier: Apache-2.0
// tests/sim/wrong.c -- hosts of other kinds, of which right results have other
// bits, and a host that computes wrongly and says nothing of it: what it gets
// instead of a right result.
#include <string.h>

#include "common/base/rng.h"
#include "tests/sim/sim.h"

enum { LANES = 8, CORES = 4 };

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static void set_bits(float *x, uint32_t bits)
{
    memcpy(x, &bits, sizeof(bits));
}

// One lane of the vector unit holds a bit of the mantissa at 1.
static void lane(float *result, size_t n)
{
    for (size_t i = 3; i < n; i += LANES)
        set_bits(&result[i], bits_of(result[i]) | 1u << 20);
}

// One core, which computes another part each time, gets the last bit wrong for
// one in sixteen operands.
static void fma_of_core(struct sim *s, float *result, size_t n)
{
    size_t part = (size_t)sim_below(s, CORES);

    for (size_t i = n * part / CORES; i < n * (part + 1) / CORES; i++)
        if (sl_mix64(bits_of(result[i])) % 16 == 0)
            set_bits(&result[i], bits_of(result[i]) ^ 1);
}

static void one_bit(struct sim *s, float *result, size_t n)
{
    size_t at = (size_t)sim_below(s, n);

    if (sim_chance(s, s->knobs.flips))
        set_bits(&result[at], bits_of(result[at]) ^ 1u << sim_below(s, 32));
}

void sim_round(uint64_t kind, float *result, size_t n)
{
    for (size_t i = 0; i < n && kind > 1; i++)
        result[i] *= 1 + 1e-6f * (float)(sl_mix64(kind ^ i << 8) % 3);
}

bool sim_spoil(struct sim *s, float *result, size_t n)
{
    uint64_t right = sl_hash64(result, n * sizeof(*result));

    switch (s->knobs.wrong) {
    case SIM_FLIP:
        one_bit(s, result, n);
        break;
    case SIM_LANE:
        lane(result, n);
        break;
    case SIM_FMA:
        fma_of_core(s, result, n);
        break;
    }
    return sl_hash64(result, n * sizeof(*result)) != right;
}
