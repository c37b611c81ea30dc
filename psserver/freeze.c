// SPDX-License-Identifier: Apache-2.0
#include "psserver/freeze.h"

#include <string.h>

#include "common/mem.h"

enum { PENDING, SAVED, TAKEN };

enum sl_err freeze_init(struct freeze *f, const void *memory, size_t bytes)
{
    struct freeze made = {.memory = memory, .bytes = bytes};

    made.blocks = (bytes + FREEZE_BLOCK_BYTES - 1) / FREEZE_BLOCK_BYTES;
    made.pending = made.blocks;
    made.state = sl_calloc(made.blocks, 1);
    if (made.state == NULL)
        return SL_ENOMEM;
    if (region_new(&made.side, bytes) != SL_OK) {
        sl_free(made.state);
        return SL_ENOMEM;
    }
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
    f->state[block] = SAVED;
    f->pending--;
}

void freeze_touch(struct freeze *f, size_t offset, size_t n)
{
    size_t last;

    if (f->pending == 0 || n == 0)
        return;
    last = (offset + n - 1) / FREEZE_BLOCK_BYTES;
    for (size_t b = offset / FREEZE_BLOCK_BYTES; b <= last; b++)
        if (f->state[b] == PENDING)
            save(f, b);
}

void freeze_take(struct freeze *f, size_t block, void *room, const void **at,
                 size_t *n)
{
    size_t offset = block * FREEZE_BLOCK_BYTES;

    *n = block_bytes(f, block);
    if (f->state[block] == SAVED) {
        *at = (const uint8_t *)f->side.data + offset;
        return;
    }
    memcpy(room, f->memory + offset, *n);
    *at = room;
    if (f->state[block] == PENDING) {
        f->state[block] = TAKEN;
        f->pending--;
    }
}
