// SPDX-License-Identifier: Apache-2.0
// worker/compile/overlap.c -- for each shard, the op that first reads its
// parameters and the one that ends its gradient.
#include "worker/compile/overlap.h"

#include <stdlib.h>

#include "common/base/mem.h"

// Returns the first shard that ends behind element `at`.
static uint32_t overlap_find_shard(const struct elements *shards,
                                   uint32_t count, uint64_t at)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (shards[mid].first + shards[mid].count <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void overlap_note_arg(struct overlap *o, const struct program *p,
                             uint32_t op, const struct program_arg *arg,
                             const struct elements *shards)
{
    uint64_t first = arg->offset / p->real;
    uint64_t end = first + arg->bytes / p->real;

    for (uint32_t s = overlap_find_shard(shards, o->shards, first);
         s < o->shards && shards[s].first < end; s++) {
        if (op < o->wait_before[s])
            o->wait_before[s] = op;
        if (arg->place == PROGRAM_GRADS && op > o->send_after[s])
            o->send_after[s] = op;
        if (arg->place == PROGRAM_PARAMS)
            o->read_until[s] = op + 1; // ops come in order
    }
}

struct overlap_op_shard {
    uint32_t op, shard;
};

static int by_op(const void *a, const void *b)
{
    const struct overlap_op_shard *x = a, *y = b;

    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

static void overlap_sort_shards(uint32_t *out, const uint32_t *op,
                                uint32_t count, struct overlap_op_shard *space)
{
    for (uint32_t i = 0; i < count; i++)
        space[i] = (struct overlap_op_shard){op[i], i};
    qsort(space, count, sizeof(*space), by_op);
    for (uint32_t i = 0; i < count; i++)
        out[i] = space[i].shard;
}

enum sl_err overlap_make(struct overlap *out, const struct program *p,
                         const struct elements *shards, uint32_t count,
                         struct sl_error *err)
{
    struct overlap o = {.shards = count};
    struct overlap_op_shard *space = sl_malloc_array(count, sizeof(*space));

    o.wait_before = sl_malloc_array((size_t)count * 5, sizeof(uint32_t));
    if (space == NULL || o.wait_before == NULL) {
        sl_free(space);
        sl_free(o.wait_before);
        return sl_no_memory(err);
    }
    o.send_after = o.wait_before + count;
    o.read_until = o.send_after + count;
    o.by_wait = o.read_until + count;
    o.by_send = o.by_wait + count;
    for (uint32_t s = 0; s < count; s++) {
        o.wait_before[s] = p->count;
        o.send_after[s] = p->forward > 0 ? p->forward - 1 : 0;
        o.read_until[s] = 0;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t k = 0; k < p->ops[i].args; k++) {
            const struct program_arg *arg = &p->ops[i].arg[k];

            if (arg->place == PROGRAM_PARAMS || arg->place == PROGRAM_GRADS)
                overlap_note_arg(&o, p, i, arg, shards);
        }
    }
    overlap_sort_shards(o.by_wait, o.wait_before, count, space);
    overlap_sort_shards(o.by_send, o.send_after, count, space);
    sl_free(space);
    *out = o;
    return SL_OK;
}

void overlap_release(struct overlap *o)
{
    sl_free(o->wait_before);
    *o = (struct overlap){.shards = 0};
}

static bool overlap_op_is_within(const struct program_op *op, uint64_t bytes)
{
    for (uint32_t k = 0; k < op->args; k++) {
        const struct program_arg *arg = &op->arg[k];

        if ((arg->place == PROGRAM_GRADS || arg->place == PROGRAM_PARAMS) &&
            arg->offset + arg->bytes > bytes)
            return false;
    }
    return true;
}

uint32_t overlap_reach(const struct program *p, uint64_t elements)
{
    uint32_t op = 0;

    while (op < p->forward &&
           overlap_op_is_within(&p->ops[op], elements * p->real))
        op++;
    return op;
}
