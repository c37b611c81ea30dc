// SPDX-License-Identifier: Apache-2.0
#include "state/shard/freeze.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define BLOCK_WORDS (FREEZE_BLOCK_BYTES / sizeof(uint32_t))

// Two blocks and a bit, all words 1 at the instant.
struct memory {
    struct freeze freeze;
    uint32_t *words, *space;
    size_t count;
};

static void begin(struct memory *m)
{
    m->count = 2 * BLOCK_WORDS + 3;
    m->words = sl_malloc(m->count * sizeof(uint32_t));
    m->space = sl_malloc(FREEZE_BLOCK_BYTES);
    for (size_t i = 0; i < m->count; i++)
        m->words[i] = 1;
    T_OK(freeze_init(&m->freeze, (const void *const[]){m->words}, 1,
                     m->count * sizeof(uint32_t)));
}

static void end(struct memory *m)
{
    freeze_release(&m->freeze);
    sl_free(m->words);
    sl_free(m->space);
}

static void change(struct memory *m, size_t word)
{
    freeze_touch(&m->freeze, word * sizeof(uint32_t), sizeof(uint32_t));
    m->words[word] = 2;
}

// All words of a block are those of the instant; `*at` is where they are.
static void is_as_it_was(struct memory *m, size_t block, const void **at)
{
    size_t n;

    freeze_take(&m->freeze, block, m->space, at, &n);
    T_EQ(n, block < 2 ? FREEZE_BLOCK_BYTES : 3 * sizeof(uint32_t));
    for (size_t i = 0; i < n / sizeof(uint32_t); i++)
        T_EQ(((const uint32_t *)*at)[i], 1);
}

TEST(freeze, a_block_that_changes_between_copy_and_take_is_read_aside)
{
    struct memory m;
    const void *at;

    begin(&m);
    change(&m, 0); // before the copy
    memset(m.space, 9, FREEZE_BLOCK_BYTES);
    freeze_copy(&m.freeze, 0, m.space);
    is_as_it_was(&m, 0, &at);
    T_TRUE(at != m.space);

    freeze_copy(&m.freeze, 1, m.space);
    change(&m, BLOCK_WORDS + 7); // between
    memset(m.space, 9, FREEZE_BLOCK_BYTES);
    is_as_it_was(&m, 1, &at);
    T_TRUE(at != m.space);

    freeze_copy(&m.freeze, 2, m.space);
    is_as_it_was(&m, 2, &at);
    T_TRUE(at == m.space);
    change(&m, 2 * BLOCK_WORDS); // after: nothing is saved any more
    T_EQ(m.freeze.pending, 0);
    end(&m);
}

TEST(freeze, what_lies_over_two_blocks_saves_both)
{
    struct memory m;

    begin(&m);
    freeze_touch(&m.freeze, FREEZE_BLOCK_BYTES - 4, 8);
    T_EQ(m.freeze.pending, 1);
    freeze_touch(&m.freeze, 0, 0);
    T_EQ(m.freeze.pending, 1);
    end(&m);
}

// The second block has the end of the first array, the second one, and the
// beginning of the third.
TEST(freeze, a_block_that_lies_in_several_arrays_is_one)
{
    enum { EACH = BLOCK_WORDS * 2 / 3 + 5, ARRAYS = 3, ALL = ARRAYS * EACH };
    uint32_t *array[ARRAYS], *space = sl_malloc(FREEZE_BLOCK_BYTES);
    struct freeze f;

    for (unsigned k = 0; k < ARRAYS; k++)
        array[k] = sl_malloc(EACH * sizeof(uint32_t));
    for (unsigned changed = 0; changed < 2; changed++) {
        size_t seen = 0, n;

        for (uint32_t i = 0; i < ALL; i++)
            array[i / EACH][i % EACH] = i;
        T_OK(freeze_init(&f, (const void *const *)array, ARRAYS,
                         EACH * sizeof(uint32_t)));
        if (changed) {
            freeze_touch(&f, 0, f.bytes);
            for (unsigned k = 0; k < ARRAYS; k++)
                memset(array[k], 0xff, EACH * sizeof(uint32_t));
        }
        for (size_t b = 0; b < f.blocks; b++, seen += n) {
            const void *at;

            freeze_copy(&f, b, space);
            freeze_take(&f, b, space, &at, &n);
            for (size_t i = 0; i < n / sizeof(uint32_t); i++)
                T_EQ(((const uint32_t *)at)[i], seen / sizeof(uint32_t) + i);
        }
        T_EQ(seen, ALL * sizeof(uint32_t));
        freeze_release(&f);
    }
    for (unsigned k = 0; k < ARRAYS; k++)
        sl_free(array[k]);
    sl_free(space);
}
