// SPDX-License-Identifier: Apache-2.0
// tests/unit/state/rowset_kit.h -- sets of rows with gradients that are whole
// numbers, and what is in them.
//
// Threads  one.
// Memory   KIT_IDS ids of a push at most; a kit_dump is the test's, static.
// Errors   fail the test.
#ifndef TESTS_UNIT_STATE_ROWSET_KIT_H
#define TESTS_UNIT_STATE_ROWSET_KIT_H

#include "plan/tables.h"
#include "state/rows/rowset.h"

#include "tests/harness/t.h"

#define KIT_DIM 3
#define KIT_IDS 4096
#define KIT_RECORD (sizeof(struct row_header) + 16) // 3 f32, and zeroes

// Returns a spec of SGD at a rate of 1 from a constant: a row is the constant
// minus the sum of its gradients.
static inline struct rowset_spec kit_spec(uint32_t buckets)
{
    struct rowset_spec spec = {
        .table = 3,
        .dim = KIT_DIM,
        .buckets = buckets,
        .shards = 1,
        .seed = 11,
        .initial = {SLUICE__V1__INIT_KIND__INIT_CONSTANT, 7, 0},
        .scale = 1,
        .probability = 1,
    };

    row_rule_defaults(&spec.rule, ROW_RULE_OPTIM, OPTIM_SGD);
    return spec;
}

// Makes an empty set, for rowset_free.
static inline struct rowset *kit_new(const struct rowset_spec *spec)
{
    struct rowset *r;

    T_OK(rowset_new(&r, spec, t_err()));
    return r;
}

// Compares two ids by their hashes, for qsort.
static inline int kit_by_hash(const void *a, const void *b)
{
    uint64_t x = table_hash(*(const uint64_t *)a);
    uint64_t y = table_hash(*(const uint64_t *)b);

    return x < y ? -1 : x > y;
}

// Returns element k of the gradient of an id in an update: -4 to 4.
static inline float kit_gradient(uint64_t id, uint32_t version, unsigned k)
{
    return (float)((id * 31 + version * 7 + k) % 9) - 4;
}

// Sorts the ids, and pushes them as update `version`, which is also the step's
// number. They lie at odd addresses, as in a message.
static inline void kit_push(struct rowset *r, uint32_t version, size_t n,
                            uint64_t *ids)
{
    static uint8_t id_bytes[8 * KIT_IDS + 1];
    static uint8_t grad_bytes[4 * KIT_DIM * KIT_IDS + 1];
    struct rowset_step step = {
        .step = version, .version = version, .rate = 1, .factor = 1};

    T_TRUE(n <= KIT_IDS);
    qsort(ids, n, sizeof(*ids), kit_by_hash);
    memcpy(id_bytes + 1, ids, 8 * n);
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < KIT_DIM; k++) {
            float g = kit_gradient(ids[i], version, k);

            memcpy(grad_bytes + 1 + 4 * (i * KIT_DIM + k), &g, 4);
        }
    T_OK(rowset_check(r, n, id_bytes + 1, WIRE_F32, grad_bytes + 1, t_err()));
    T_OK(rowset_reserve(r, n, id_bytes + 1));
    rowset_apply(r, &step, n, id_bytes + 1, WIRE_F32, grad_bytes + 1);
}

// Pushes ids first, first + 1, ... last.
static inline void kit_push_range(struct rowset *r, uint32_t version,
                                  uint64_t first, uint64_t last)
{
    static uint64_t ids[KIT_IDS];
    size_t n = 0;

    for (uint64_t id = first; id <= last; id++)
        ids[n++] = id;
    kit_push(r, version, n, ids);
}

// Pushes an update that touches no row.
static inline void kit_push_none(struct rowset *r, uint32_t version)
{
    kit_push_range(r, version, 1, 0);
}

// ---- what is in a set

struct kit_dump {
    size_t count[ROWSET_PARTS];
    uint8_t rows[KIT_IDS][KIT_RECORD];
    uint8_t waiting[KIT_IDS][sizeof(struct row_header)];
};

// Compares two records by their ids, for qsort.
static inline int kit_by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct row_header *)a)->id;
    uint64_t y = ((const struct row_header *)b)->id;

    return x < y ? -1 : x > y;
}

// Returns the records of a part in *d.
static inline void *kit_records(struct kit_dump *d, enum rowset_part part)
{
    return part == ROWSET_ROWS ? (void *)d->rows : (void *)d->waiting;
}

// Walks on in a set that is frozen, at most `most` records, which are added to
// *d; returns false at the end of both parts.
static inline bool kit_walk(struct rowset *r, struct kit_dump *d, size_t most)
{
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        size_t n, stride = rowset_part_stride(r, part);
        uint8_t *at = (uint8_t *)kit_records(d, part) + d->count[part] * stride;

        if (rowset_walk(r, part, most, at, &n)) {
            d->count[part] += n;
            T_TRUE(d->count[part] + most <= KIT_IDS);
            return true;
        }
        T_EQ(n, 0);
    }
    return false;
}

// Sorts what was walked, by id, and checks that it is all that was frozen.
static inline void kit_sort(struct kit_dump *d, const struct rowset *r)
{
    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        T_EQ(d->count[part], rowset_frozen(r, part));
        qsort(kit_records(d, part), d->count[part], rowset_part_stride(r, part),
              kit_by_id);
    }
}

// Sets *d to copies of all records of a set, by id; freezes and thaws it.
static inline void kit_dump(struct kit_dump *d, struct rowset *r)
{
    memset(d, 0, sizeof(*d));
    rowset_freeze(r, UINT32_MAX);
    while (kit_walk(r, d, 16))
        ;
    kit_sort(d, r);
    rowset_thaw(r);
}

// Checks that two sets have the same records, byte by byte.
static inline void kit_same(const struct kit_dump *a, const struct kit_dump *b)
{
    T_EQ(a->count[ROWSET_ROWS], b->count[ROWSET_ROWS]);
    T_EQ(a->count[ROWSET_WAITING], b->count[ROWSET_WAITING]);
    T_MEM(a, b, sizeof(*a));
}

// Makes a set of the records of *d, the last first, so that they lie elsewhere
// in it; for rowset_free.
static inline struct rowset *kit_load(const struct rowset_spec *spec,
                                      struct kit_dump *d)
{
    struct rowset *r = kit_new(spec);

    for (enum rowset_part part = 0; part < ROWSET_PARTS; part++) {
        size_t stride = rowset_part_stride(r, part);

        for (size_t i = d->count[part]; i-- > 0;)
            T_OK(rowset_put(r, part, UINT32_MAX, 1,
                            (uint8_t *)kit_records(d, part) + i * stride,
                            t_err()));
    }
    return r;
}

#endif
