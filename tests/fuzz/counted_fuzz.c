// SPDX-License-Identifier: Apache-2.0
// Counted sets: a schedule, then a plain set, as a snapshot or a hello brings
// them.
//
//     u16 samples, u8 batch, u8 epochs, u16 steps per closure, u16 low,
//     u8 count, count * { u16 closure, u16 nbits, bits }
#include "plan/counted.h"
#include "common/base/mem.h"
#include "tests/fuzz/fuzz.h"

#define CLOSURES_MOST 32

static bool same_plain(const struct counted_plain *a,
                       const struct counted_plain *b)
{
    if (a->low != b->low || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct counted_closure *x = &a->sparse[i], *y = &b->sparse[i];

        if (x->closure != y->closure || x->nbits != y->nbits ||
            memcmp(x->bits, y->bits, (x->nbits + 7) / 8) != 0)
            return false;
    }
    return true;
}

// The decoded set says what the plain one said, bit for bit.
static void check_members(const struct counted *c,
                          const struct counted_plain *plain)
{
    uint64_t steps = 0;

    FUZZ_TRUE(counted_low(c) >= plain->low);
    for (uint64_t id = 0; id < plain->low; id++)
        steps += schedule_closure_steps(&c->schedule, id);
    for (size_t i = 0; i < plain->count; i++) {
        const struct counted_closure *one = &plain->sparse[i];

        for (uint32_t s = 0; s < one->nbits; s++) {
            bool bit = one->bits[s / 8] >> s % 8 & 1;

            FUZZ_TRUE(counted_has(c, one->closure, s) == bit);
            steps += bit;
        }
    }
    FUZZ_TRUE(counted_steps(c) == steps);
}

static void check_accepted(const struct counted *c,
                           const struct counted_plain *plain)
{
    struct counted_plain out;
    struct counted back;

    check_members(c, plain);
    FUZZ_TRUE(counted_encode(c, &out) == SL_OK);
    if (counted_low(c) == plain->low)
        FUZZ_TRUE(same_plain(&out, plain));
    FUZZ_TRUE(counted_decode(&back, &c->schedule, &out, NULL) == SL_OK);
    FUZZ_TRUE(counted_equal(c, &back));
    counted_release(&back);
    counted_plain_release(&out);
}

static size_t read_closures(struct fuzz_bytes *in, struct counted_closure *out)
{
    static const uint8_t zeroes[8192];
    size_t count = fuzz_take(in, 1) % (CLOSURES_MOST + 1);

    for (size_t i = 0; i < count; i++) {
        size_t bytes;

        out[i].closure = fuzz_take(in, 2);
        out[i].nbits = (uint32_t)fuzz_take(in, 2);
        bytes = (out[i].nbits + 7) / 8;
        out[i].bits = bytes <= in->left ? in->at : zeroes;
        if (bytes <= in->left) {
            in->at += bytes;
            in->left -= bytes;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes in = {data, size};
    struct counted_closure sparse[CLOSURES_MOST];
    struct sl_error err = SL_ERROR_INIT;
    struct counted_plain plain = {.sparse = sparse};
    struct schedule s;
    struct counted c;
    enum sl_err rc;

    s.samples = fuzz_take(&in, 2);
    s.batch = fuzz_take(&in, 1);
    s.epochs = fuzz_take(&in, 1);
    s.steps_per_closure = fuzz_take(&in, 2);
    plain.low = fuzz_take(&in, 2);
    plain.count = read_closures(&in, sparse);
    if (plain.low > 4096) // a wild one: all 64 bits
        plain.low *= UINT64_C(0x10001000100);
    fuzz_budget(65536 + 8 * size);
    rc = counted_decode(&c, &s, &plain, &err);
    fuzz_budget(SIZE_MAX);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        return 0;
    }
    check_accepted(&c, &plain);
    counted_release(&c);
    return 0;
}
