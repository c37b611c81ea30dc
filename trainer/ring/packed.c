// SPDX-License-Identifier: Apache-2.0
// trainer/ring/packed.c -- two messages, one behind the other.
#include "trainer/ring/packed.h"

#include <string.h>

#include "common/base/mem.h"
#include "state/shard/counts.h"

enum sl_err packed_once(struct buf *to, const struct once *once,
                        uint64_t *passed, size_t pieces, uint64_t *set_bytes,
                        uint64_t *counts_bytes)
{
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    size_t first = to->len;
    enum sl_err rc = wire_counted_init(&set, &once->counted);

    if (rc == SL_OK)
        rc = wire_pack(&set.msg.base, to);
    *set_bytes = to->len - first;
    if (rc == SL_OK)
        rc = counts_of_once(&counts, once);
    counts.msg.passed = passed;
    counts.msg.n_passed = passed == NULL ? 0 : pieces;
    if (rc == SL_OK)
        rc = wire_pack(&counts.msg.base, to);
    *counts_bytes = to->len - first - *set_bytes;
    wire_counted_release(&set);
    counts_release(&counts);
    return rc;
}

static enum sl_err take_passed(struct once *o, size_t pieces,
                               const Sluice__V1__ShardCounts *counts,
                               struct sl_error *err)
{
    if (counts->n_passed == 0)
        return SL_OK;
    if (counts->n_passed != pieces)
        return sl_fail(err, SL_ECORRUPT, "counts of %zu pieces, not %zu",
                       counts->n_passed, pieces);
    if (once_reserve_passed(o, pieces) != SL_OK)
        return sl_no_memory(err);
    memcpy(o->passed, counts->passed, pieces * sizeof(*o->passed));
    return once_check(o, err);
}

enum sl_err packed_read(struct once *out, const struct schedule *schedule,
                        size_t pieces, const uint8_t *packed,
                        uint64_t set_bytes, uint64_t counts_bytes,
                        struct sl_error *err)
{
    struct wire_arena *arena = sl_malloc(sizeof(*arena));
    struct sl_slice one = {packed, set_bytes};
    struct sl_slices all = slices_one(&one);
    Sluice__V1__ShardCounts *counts;
    Sluice__V1__CountedSet *set;
    enum sl_err rc;

    if (arena == NULL)
        return sl_no_memory(err);
    wire_arena_init(arena);
    rc = wire_unpack_counted_set(&set, arena, &all, err);
    if (rc == SL_OK) {
        one = (struct sl_slice){packed + set_bytes, counts_bytes};
        all = slices_one(&one);
        rc = wire_unpack_shard_counts(&counts, arena, &all, err);
    }
    if (rc == SL_OK)
        rc = counts_read(out, schedule, set, counts, err);
    if (rc == SL_OK) {
        rc = take_passed(out, pieces, counts, err);
        if (rc != SL_OK)
            once_release(out);
    }
    wire_arena_release(arena);
    sl_free(arena);
    return rc;
}
