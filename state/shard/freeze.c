// SPDX-License-Identifier: Apache-2.0
// state/shard/freeze.c -- copy on write by block: what is changed during a
// snapshot is copied first.
#include "state/shard/freeze.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

enum { PENDING, SAVED, TAKEN };

static uint8_t state_of(const struct freeze *f, size_t block)
{
    return __atomic_load_n(&f->state[block], __ATOMIC_RELAXED);
}

// The only function that changes a block's state; each changes once.
static void leave_pending(struct freeze *f, size_t block, uint8_t state)
{
    assert(state_of(f, block) == PENDING);
    __atomic_store_n(&f->state[block], state, __ATOMIC_RELAXED);
    f->pending--;
}

enum sl_err freeze_init(struct freeze *f, const void *memory, size_t bytes)
{
    struct freeze made = {.memory = memory, .bytes = bytes};

    made.blocks = sl_ceil_div(bytes, FREEZE_BLOCK_BYTES);
    made.pending = made.blocks;
    made.state = sl_calloc(made.blocks, 1);
    if (made.state == NULL)
        return SL_ENOMEM;
    if (region_new(&made.side, bytes) != SL_OK) {
        sl_free(made.state);
        return SL_ENOMEM;
    }
    region_populate(&made.side);
    *f = made;
    return SL_OK;
}

void freeze_release(struct freeze *f)
{
    region_release(&f->side);
    sl_free(f->state);
    *f = (struct freeze){0};
}

static size_t block_bytes(const struct freeze *f, size_t block)
{
    size_t left = f->bytes - block * FREEZE_BLOCK_BYTES;

    return left < FREEZE_BLOCK_BYTES ? left : FREEZE_BLOCK_BYTES;
}

static void save(struct freeze *f, size_t block)
{
    size_t offset = block * FREEZE_BLOCK_BYTES;

    memcpy((uint8_t *)f->side.data + offset, f->memory + offset,
           block_bytes(f, block));
    leave_pending(f, block, SAVED);
}

void freeze_touch(struct freeze *f, size_t offset, size_t n)
{
    size_t last;

    if (f->pending == 0 || n == 0)
        return;
    last = (offset + n - 1) / FREEZE_BLOCK_BYTES;
    for (size_t b = offset / FREEZE_BLOCK_BYTES; b <= last; b++)
        if (state_of(f, b) == PENDING)
            save(f, b);
}

// Somebody may be changing the words: then they are not used. So each is
// loaded as it is, and the thread sanitizer is not told.
__attribute__((no_sanitize("thread"))) static void
copy_words(uint32_t *to, const uint32_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void freeze_copy(const struct freeze *f, size_t block, void *space)
{
    const void *from = f->memory + block * FREEZE_BLOCK_BYTES;

    if (state_of(f, block) == PENDING)
        copy_words(space, from, block_bytes(f, block) / sizeof(uint32_t));
}

void freeze_take(struct freeze *f, size_t block, void *space, const void **at,
                 size_t *n)
{
    size_t offset = block * FREEZE_BLOCK_BYTES;

    *n = block_bytes(f, block);
    *at = space;
    if (state_of(f, block) == SAVED)
        *at = (const uint8_t *)f->side.data + offset;
    else if (state_of(f, block) == PENDING)
        leave_pending(f, block, TAKEN);
}
