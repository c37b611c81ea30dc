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

enum sl_err freeze_init(struct freeze *f, const void *const *arrays,
                        unsigned count, size_t each)
{
    struct freeze made = {.each = each, .bytes = count * each};

    assert(count <= FREEZE_ARRAYS);
    for (unsigned i = 0; i < count; i++)
        made.array[i] = arrays[i];
    made.blocks = sl_ceil_div(made.bytes, FREEZE_BLOCK_BYTES);
    made.pending = made.blocks;
    made.state = sl_calloc(made.blocks, 1);
    if (made.state == NULL)
        return SL_ENOMEM;
    if (region_new(&made.side, made.bytes) != SL_OK) {
        sl_free(made.state);
        return SL_ENOMEM;
    }
    // Else the first push behind the instant would fault in the whole side, and
    // hold the shard's lock meanwhile.
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

    return sl_min(left, FREEZE_BLOCK_BYTES);
}

// Where the memory at an offset lies, and how many of the n bytes from there
// lie together.
static const uint8_t *memory_at(const struct freeze *f, size_t offset, size_t n,
                                size_t *together)
{
    size_t in = offset % f->each;

    *together = sl_min(n, f->each - in);
    return f->array[offset / f->each] + in;
}

static void save(struct freeze *f, size_t block)
{
    size_t at = block * FREEZE_BLOCK_BYTES, end = at + block_bytes(f, block), n;

    for (; at < end; at += n) {
        const uint8_t *from = memory_at(f, at, end - at, &n);

        memcpy((uint8_t *)f->side.data + at, from, n);
    }
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

// Copies words that a push may be changing; freeze_take then rejects the copy.
// So each word is an atomic load, and the thread sanitizer is not told.
__attribute__((no_sanitize("thread"))) static void
copy_words(uint32_t *to, const uint32_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void freeze_copy(const struct freeze *f, size_t block, void *space)
{
    size_t at = block * FREEZE_BLOCK_BYTES, end = at + block_bytes(f, block), n;
    uint32_t *to = space;

    if (state_of(f, block) != PENDING)
        return;
    for (; at < end; at += n, to += n / sizeof(*to)) {
        const uint8_t *from = memory_at(f, at, end - at, &n);

        copy_words(to, (const void *)from, n / sizeof(*to));
    }
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
