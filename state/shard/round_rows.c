// SPDX-License-Identifier: Apache-2.0
// state/shard/round_rows.c -- a merge of the contributions' ids, by hash and
// then by slot.
#include "state/shard/round_rows.h"

#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "state/base/element.h"
#include "state/base/finite.h"

static enum sl_err round_rows_alloc(struct round_rows *out,
                                    const struct tables *t, size_t bytes)
{
    enum sl_err rc;

    *out = (struct round_rows){0};
    if (bytes == 0)
        return SL_OK;
    rc = row_account_take(t->account, bytes, false);
    if (rc != SL_OK)
        return rc;
    out->taken = bytes;
    out->blocks.bytes = out->blocks.owned = sl_malloc(bytes);
    if (out->blocks.owned != NULL)
        return SL_OK;
    round_rows_release(out, t);
    return SL_ENOMEM;
}

void round_rows_release(struct round_rows *r, const struct tables *t)
{
    row_account_give(t->account, r->taken, false);
    tables_push_release(&r->blocks);
    *r = (struct round_rows){0};
}

// ---- the merge

// A contribution's block of the table under way, and its next id in it.
struct round_source {
    struct table_rows_at at;
    struct table_rows block;
    bool more; // `block` is one that the merge has not come to the end of
    float weight;
    uint32_t next;
    uint64_t hash; // of the next id
};

struct round_merge {
    const struct tables *t;
    struct round_source *sources; // in the order of slots
    uint32_t *heap;               // sources with a next id, the first on top
    uint32_t count, heaped;
    float unweight; // 1 / samples
    uint8_t *to;    // where the next block goes
    float *wide;    // one row
};

static bool comes_first(const struct round_merge *m, uint32_t a, uint32_t b)
{
    uint64_t x = m->sources[a].hash, y = m->sources[b].hash;

    return x < y || (x == y && a < b);
}

static void heap_swap(struct round_merge *m, uint32_t i, uint32_t j)
{
    uint32_t was = m->heap[i];

    m->heap[i] = m->heap[j];
    m->heap[j] = was;
}

static void heap_sink(struct round_merge *m, uint32_t at)
{
    for (;;) {
        uint32_t least = at, child = 2 * at + 1;

        for (uint32_t k = child; k < child + 2 && k < m->heaped; k++)
            if (comes_first(m, m->heap[k], m->heap[least]))
                least = k;
        if (least == at)
            return;
        heap_swap(m, at, least);
        at = least;
    }
}

static void source_look(struct round_source *s)
{
    s->hash = table_hash(table_id(s->block.ids, s->next));
}

// Steps over the first id, also over the end of its block.
static void merge_step(struct round_merge *m)
{
    struct round_source *s = &m->sources[m->heap[0]];

    if (++s->next < s->block.count) {
        source_look(s);
    } else {
        s->more = tables_next(m->t, &s->at, true, &s->block);
        m->heap[0] = m->heap[--m->heaped];
    }
    heap_sink(m, 0);
}

// Puts on the heap what has ids of a table; returns the sum of their numbers.
static size_t merge_begin_table(struct round_merge *m, uint32_t table)
{
    size_t ids = 0;

    m->heaped = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        struct round_source *s = &m->sources[i];

        if (!s->more || s->block.table != table)
            continue;
        s->next = 0;
        source_look(s);
        m->heap[m->heaped++] = i;
        ids += s->block.count;
    }
    for (uint32_t i = m->heaped / 2; i-- > 0;)
        heap_sink(m, i);
    return ids;
}

// Adds the gradient of the first id to `sum`, or begins it with that.
static void merge_add(struct round_merge *m, float *sum, uint32_t dim,
                      bool begin)
{
    const struct round_source *s = &m->sources[m->heap[0]];
    size_t row = table_rows_row_bytes(dim, s->block.type);

    element_read_row(s->block.type, dim, m->wide,
                     s->block.elements + s->next * row);
    for (uint32_t d = 0; d < dim; d++)
        sum[d] =
            begin ? m->wide[d] * s->weight : sum[d] + s->weight * m->wide[d];
}

static void merge_divide(const struct round_merge *m, float *sum, uint32_t dim)
{
    for (uint32_t d = 0; d < dim; d++)
        sum[d] *= m->unweight;
}

// Writes the block of a table: its elements first lie behind the place for as
// many ids as there may be.
static void merge_table(struct round_merge *m, uint32_t table)
{
    uint32_t dim = m->t->dims[table], n = 0;
    size_t most = merge_begin_table(m, table), bytes;
    uint8_t *ids = m->to + TABLE_ROWS_HEAD;
    float *sums = (float *)(void *)(ids + most * 8);

    if (most == 0)
        return;
    while (m->heaped > 0) {
        const struct round_source *s = &m->sources[m->heap[0]];
        uint64_t hash = s->hash;
        float *sum = sums + (size_t)n * dim;

        memcpy(ids + (size_t)n++ * 8, s->block.ids + (size_t)s->next * 8, 8);
        merge_add(m, sum, dim, true);
        for (merge_step(m);
             m->heaped > 0 && m->sources[m->heap[0]].hash == hash;
             merge_step(m))
            merge_add(m, sum, dim, false);
        merge_divide(m, sum, dim);
    }
    (void)table_rows_head(m->to, table, n, WIRE_F32);
    bytes = (size_t)n * dim * sizeof(float);
    memmove(ids + (size_t)n * 8, sums, bytes);
    m->to = ids + (size_t)n * 8;
    memset(m->to + bytes, 0,
           table_rows_elements_bytes(n, dim, WIRE_F32) - bytes);
    m->to += table_rows_elements_bytes(n, dim, WIRE_F32);
}

// Sets *room to the bytes of all blocks as f32, as if no two had an id in
// common. SL_ERANGE: a block has no number for so many.
static enum sl_err merge_room(const struct round_merge *m, size_t *room)
{
    size_t bytes = 0, ids = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        struct table_rows_at at = m->sources[i].at;
        struct table_rows b;

        for (; tables_next(m->t, &at, true, &b); ids += b.count)
            bytes += TABLE_ROWS_HEAD + (size_t)b.count * 8 +
                     table_rows_elements_bytes(b.count, m->t->dims[b.table],
                                               WIRE_F32);
    }
    *room = bytes;
    return ids <= UINT32_MAX ? SL_OK : SL_ERANGE;
}

static enum sl_err merge_init(struct round_merge *m, const struct tables *t,
                              const struct contributions *c)
{
    uint64_t samples = 0;

    *m = (struct round_merge){.t = t};
    m->sources = sl_calloc(c->most, sizeof(*m->sources));
    m->heap = sl_malloc_array(c->most, sizeof(*m->heap));
    m->wide = sl_malloc(tables_row_bytes(t));
    if (m->sources == NULL || m->heap == NULL || m->wide == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < c->most; i++) {
        const struct contributions_slot *slot = &c->slots[i];

        if (!slot->held)
            continue;
        samples += slot->step.samples;
        m->sources[m->count++] =
            (struct round_source){.at = {slot->rows, slot->rows_bytes, 0},
                                  .weight = (float)slot->step.samples};
    }
    m->unweight = 1.0f / (float)samples;
    return SL_OK;
}

static void merge_release(struct round_merge *m)
{
    sl_free(m->sources);
    sl_free(m->heap);
    sl_free(m->wide);
}

enum sl_err round_rows_mean(struct round_rows *out, const struct tables *t,
                            const struct contributions *c)
{
    struct round_merge m;
    enum sl_err rc = merge_init(&m, t, c);
    size_t room = 0;

    *out = (struct round_rows){0};
    if (rc == SL_OK)
        rc = merge_room(&m, &room);
    if (rc == SL_OK)
        rc = round_rows_alloc(out, t, room);
    if (rc == SL_OK && out->taken > 0) {
        for (uint32_t i = 0; i < m.count; i++)
            m.sources[i].more =
                tables_next(t, &m.sources[i].at, true, &m.sources[i].block);
        m.to = out->blocks.owned;
        for (uint32_t table = 0; table < t->count; table++)
            merge_table(&m, table);
        out->blocks.n = (size_t)(m.to - out->blocks.owned);
    }
    merge_release(&m);
    return rc;
}

// ---- what was made

bool round_rows_finite(const struct round_rows *r, const struct tables *t)
{
    struct table_rows_at at = {r->blocks.bytes, r->blocks.n, 0};
    struct table_rows b;
    bool finite = true;

    while (finite && tables_next(t, &at, true, &b))
        finite = finite_find_row(b.type, b.elements, b.count,
                                 t->dims[b.table]) == b.count;
    return finite;
}

enum sl_err round_rows_read(struct round_rows *out, const struct tables *t,
                            const struct round_rows *of, struct sl_error *err)
{
    enum sl_err rc = round_rows_alloc(out, t, of->blocks.n);
    struct table_rows_at at;
    struct table_rows b;

    if (rc != SL_OK || of->blocks.n == 0)
        return rc;
    memcpy(out->blocks.owned, of->blocks.bytes, of->blocks.n);
    out->blocks.n = of->blocks.n;
    at = (struct table_rows_at){out->blocks.bytes, out->blocks.n, 0};
    while (tables_next(t, &at, true, &b))
        if (rc == SL_OK)
            rc = rowset_read(t->sets[b.table], b.count, b.ids,
                             (float *)(uintptr_t)b.elements, err);
    if (rc != SL_OK)
        round_rows_release(out, t);
    return rc;
}

// Returns the place of an id in a block; its count: it is not there.
static uint32_t block_find(const struct table_rows *b, uint64_t id)
{
    uint64_t hash = table_hash(id);
    uint32_t low = 0, high = b->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (table_hash(table_id(b->ids, mid)) < hash)
            low = mid + 1;
        else
            high = mid;
    }
    return low < b->count && table_id(b->ids, low) == id ? low : b->count;
}

void round_rows_find(const struct round_rows *r, const struct tables *t,
                     uint32_t table, size_t n, const uint8_t *ids,
                     float *values)
{
    struct table_rows_at at = {r->blocks.bytes, r->blocks.n, 0};
    size_t dim = t->dims[table], row = dim * sizeof(float);
    struct table_rows b = {.count = 0};

    while (tables_next(t, &at, true, &b) && b.table < table)
        ;
    if (b.count == 0 || b.table != table)
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t found = block_find(&b, table_id(ids, i));

        if (found < b.count)
            memcpy(values + i * dim, b.elements + found * row, row);
    }
}
