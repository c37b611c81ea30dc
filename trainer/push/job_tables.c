// SPDX-License-Identifier: Apache-2.0
// trainer/push/job_tables.c -- see job_tables.h.
#include "trainer/push/job_tables.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/base/element.h"
#include "trainer/base/grad.h"
#include "trainer/push/distinct.h"
#include "trainer/push/kept_rows.h"
#include "trainer/sum/add.h"

struct job_table {
    const char *name; // the model's
    uint32_t dim, buckets;
    // Of this step, in the order in which they were added.
    uint64_t *ids;
    float *grads;
    size_t count, capacity;
    float *merged; // takes the place of `grads` (job_tables_merge)
    size_t merged_capacity;
    struct distinct distinct; // of `ids`, since job_tables_pack
    struct distinct wanted;   // ids that are pulled,
    float *values;            // and their rows
    size_t values_capacity;
    // Whether `wanted` was asked for ahead: by the step that began last, by the
    // one before it, or not.
    enum { ASKED_NOT, ASKED_BEFORE, ASKED_NOW } asked;
};

// Blocks of rows (table_rows.h).
struct job_blocks {
    uint8_t *at;
    size_t bytes, capacity;
};

// What is pushed and pulled of all tables with one shard.
struct job_tables_part {
    struct job_blocks grads;
    bool strange; // a gradient is not finite
    struct job_blocks ids;
    size_t values_bytes; // of the rows of `ids`, as they travel
};

struct job_tables {
    uint32_t count, shards;
    struct job_table *table;
    struct job_tables_part *part;
    struct sync_rows_table *wanted; // tables whose rows are wanted
    uint32_t wanted_count;
    enum wire_type wanted_type;
    struct sync_rows_ids *wanted_ids;
    struct kept_rows kept;
    float sum[TABLE_DIM_MOST]; // of a row that is not sent in f32
};

static enum sl_err job_table_read(struct job_table *t,
                                  const Sluice__V1__TableSpec *spec,
                                  struct sl_error *err)
{
    *t = (struct job_table){
        .name = spec->name, .dim = spec->dim, .buckets = spec->buckets};
    if (t->name == NULL || t->dim == 0 || t->dim > TABLE_DIM_MOST ||
        t->buckets == 0)
        return sl_fail(err, SL_EINVAL,
                       "table %s has %u buckets and rows of %u elements; "
                       "coordinator and program differ in version?",
                       t->name != NULL ? t->name : "", t->buckets, t->dim);
    return SL_OK;
}

enum sl_err job_tables_new(struct job_tables **out,
                           const Sluice__V1__ModelSpec *model, uint32_t shards,
                           struct sl_error *err)
{
    struct job_tables *t = NULL;
    enum sl_err rc = SL_OK;

    if (model->n_tables > 0) {
        t = sl_calloc(1, sizeof(*t));
        if (t == NULL)
            return sl_no_memory(err);
        t->shards = shards;
        t->table = sl_calloc(model->n_tables, sizeof(*t->table));
        t->part = sl_calloc(shards, sizeof(*t->part));
        t->wanted = sl_calloc(model->n_tables, sizeof(*t->wanted));
        t->wanted_ids = sl_calloc(shards, sizeof(*t->wanted_ids));
        if (t->table == NULL || t->part == NULL || t->wanted == NULL ||
            t->wanted_ids == NULL)
            rc = sl_no_memory(err);
    }
    for (size_t i = 0; rc == SL_OK && i < model->n_tables; i++) {
        rc = job_table_read(&t->table[i], model->tables[i], err);
        t->count++;
    }
    if (rc != SL_OK) {
        job_tables_free(t);
        return rc;
    }
    *out = t;
    return SL_OK;
}

void job_tables_free(struct job_tables *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->count; i++) {
        sl_free(t->table[i].ids);
        sl_free(t->table[i].grads);
        sl_free(t->table[i].merged);
        distinct_release(&t->table[i].distinct);
        distinct_release(&t->table[i].wanted);
        sl_free(t->table[i].values);
    }
    for (uint32_t i = 0; t->part != NULL && i < t->shards; i++) {
        sl_free(t->part[i].grads.at);
        sl_free(t->part[i].ids.at);
    }
    kept_rows_clear(&t->kept);
    sl_free(t->wanted);
    sl_free(t->wanted_ids);
    sl_free(t->table);
    sl_free(t->part);
    sl_free(t);
}

uint32_t job_tables_count(const struct job_tables *t)
{
    return t != NULL ? t->count : 0;
}

const char *job_tables_name(const struct job_tables *t, uint32_t table)
{
    return t->table[table].name;
}

uint32_t job_tables_dim(const struct job_tables *t, uint32_t table)
{
    return t->table[table].dim;
}

void job_tables_begin(struct job_tables *t)
{
    for (uint32_t i = 0; i < job_tables_count(t); i++) {
        t->table[i].count = 0;
        t->table[i].asked -= t->table[i].asked != ASKED_NOT;
    }
    for (uint32_t i = 0; t != NULL && i < t->shards; i++) {
        t->part[i].grads.bytes = 0;
        t->part[i].strange = false;
    }
}

// Makes space for `bytes` bytes in all; those that are there stay.
static enum sl_err blocks_reserve(struct job_blocks *b, size_t bytes,
                                  struct sl_error *err)
{
    uint8_t *at;

    if (bytes <= b->capacity)
        return SL_OK;
    at = sl_realloc_array(b->at, bytes, 1);
    if (at == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %zu bytes of rows",
                       bytes);
    b->at = at;
    b->capacity = bytes;
    return SL_OK;
}

// ---- pulls

void job_tables_forget(struct job_tables *t)
{
    t->wanted_count = 0;
    for (uint32_t i = 0; i < t->shards; i++)
        t->part[i].ids.bytes = t->part[i].values_bytes = 0;
}

static uint32_t wanted_of(const struct job_table *table, uint32_t shard)
{
    return table->wanted.first[shard + 1] - table->wanted.first[shard];
}

static size_t wanted_bytes(uint32_t n)
{
    return n == 0 ? 0 : TABLE_ROWS_HEAD + n * sizeof(uint64_t);
}

// Makes space for the ids of a table and for its rows, if they fit behind those
// of other tables.
static enum sl_err want_reserve(struct job_tables *t, struct job_table *table,
                                uint32_t shard, enum wire_type wire,
                                struct sl_error *err)
{
    struct job_tables_part *part = &t->part[shard];
    uint32_t n = wanted_of(table, shard);
    size_t ids = part->ids.bytes + wanted_bytes(n);
    size_t bytes = ids + part->values_bytes +
                   table_rows_elements_bytes(n, table->dim, wire);

    // The gradients of these rows go into one push, which has the same limit.
    if (n > 0 && bytes > SYNC_ROWS_BYTES)
        return sl_fail(err, SL_ERANGE,
                       "table %s: %u rows of shard %u make a pull of %zu "
                       "bytes; at most %zu: pull fewer ids at once, or set "
                       "placement.shards",
                       table->name, n, shard, bytes, SYNC_ROWS_BYTES);
    return blocks_reserve(&part->ids, ids, err);
}

static enum sl_err values_reserve(struct job_table *table, struct sl_error *err)
{
    size_t elements = (size_t)table->wanted.count * table->dim;

    if (elements <= table->values_capacity)
        return SL_OK;
    sl_free(table->values);
    table->values_capacity = 0;
    table->values = sl_malloc_array(elements, sizeof(float));
    if (table->values == NULL)
        return sl_fail(err, SL_ENOMEM,
                       "table %s: no memory for %zu elements of rows",
                       table->name, elements);
    table->values_capacity = elements;
    return SL_OK;
}

// Appends the block of a table's ids to what is asked of a shard.
static void want_append(struct job_tables *t, uint32_t table, uint32_t shard,
                        enum wire_type wire)
{
    const struct job_table *of = &t->table[table];
    struct job_tables_part *part = &t->part[shard];
    uint32_t n = wanted_of(of, shard);
    uint8_t *to = part->ids.at + part->ids.bytes;

    if (n == 0)
        return;
    to = table_rows_head(to, table, n, wire);
    memcpy(to, of->wanted.ids + of->wanted.first[shard], n * sizeof(uint64_t));
    part->ids.bytes += wanted_bytes(n);
    part->values_bytes += table_rows_elements_bytes(n, of->dim, wire);
}

enum sl_err job_tables_want(struct job_tables *t, uint32_t table, size_t n,
                            const uint64_t *ids, enum wire_type wire,
                            struct sl_error *err)
{
    struct job_table *of = &t->table[table];
    enum sl_err rc;

    assert(n > 0); // a wanted table is known by its values, which 0 ids lack
    rc = distinct_make(&of->wanted, n, ids, of->buckets, t->shards, err);
    for (uint32_t s = 0; rc == SL_OK && s < t->shards; s++)
        rc = want_reserve(t, of, s, wire, err);
    if (rc == SL_OK)
        rc = values_reserve(of, err);
    of->asked = ASKED_NOT;
    if (rc != SL_OK)
        return rc;
    for (uint32_t s = 0; s < t->shards; s++)
        want_append(t, table, s, wire);
    t->wanted_type = wire;
    t->wanted[t->wanted_count++] = (struct sync_rows_table){
        .dim = of->dim, .first = of->wanted.first, .values = of->values};
    return SL_OK;
}

static struct sync_rows rows_wanted(struct job_tables *t)
{
    for (uint32_t s = 0; s < t->shards; s++)
        t->wanted_ids[s] =
            (struct sync_rows_ids){t->part[s].ids.at, t->part[s].ids.bytes};
    return (struct sync_rows){.ids = t->wanted_ids,
                              .tables = t->wanted,
                              .count = t->wanted_count,
                              .type = t->wanted_type};
}

void job_tables_ask(struct job_tables *t, struct sync *sync)
{
    const struct sync_rows wanted = rows_wanted(t);

    sync->ops->ask_rows(sync, &wanted);
    for (uint32_t i = 0; i < t->count; i++)
        for (uint32_t k = 0; k < t->wanted_count; k++)
            if (t->wanted[k].values == t->table[i].values)
                t->table[i].asked = ASKED_NOW;
}

enum sync_result job_tables_pull(struct job_tables *t, struct sync *sync,
                                 struct sl_error *err)
{
    return job_tables_pull_cut(t, sync, NULL, NULL, err);
}

enum sync_result job_tables_pull_cut(struct job_tables *t, struct sync *sync,
                                     const struct wire_tag *tags,
                                     struct gate *gate, struct sl_error *err)
{
    struct sync_rows wanted = rows_wanted(t);

    wanted.tags = tags;
    wanted.gate = gate;
    return sync_rows(sync, &wanted, err);
}

void job_tables_rows(const struct job_tables *t, uint32_t table, float *rows)
{
    const struct job_table *of = &t->table[table];

    distinct_spread(&of->wanted, 0, of->wanted.count, of->dim, of->values,
                    rows);
}

bool job_tables_take(struct job_tables *t, uint32_t table, size_t n,
                     const uint64_t *ids, float *rows)
{
    struct job_table *of = &t->table[table];

    if (of->asked != ASKED_BEFORE || !distinct_is_of(&of->wanted, n, ids))
        return false;
    of->asked = ASKED_NOT;
    job_tables_rows(t, table, rows);
    return true;
}

float *job_tables_wanted(struct job_tables *t, uint32_t table, size_t *elements)
{
    const struct job_table *of = &t->table[table];

    *elements = (size_t)of->wanted.count * of->dim;
    return of->values;
}

void job_tables_part(const struct job_tables *t, uint32_t table, size_t first,
                     size_t n, float *rows)
{
    const struct job_table *of = &t->table[table];
    const struct distinct *d = &of->wanted;

    for (uint32_t k = 0; k < d->count; k++)
        for (uint32_t i = d->from[k]; i < d->from[k + 1]; i++)
            if (d->sorted[i].at - first < n)
                memcpy(rows + (d->sorted[i].at - first) * of->dim,
                       of->values + (size_t)k * of->dim,
                       of->dim * sizeof(*rows));
}

// ---- pushes

static enum sl_err job_table_grow(struct job_table *t, size_t n)
{
    size_t more =
        t->count + n > 2 * t->capacity ? t->count + n : 2 * t->capacity;
    uint64_t *ids;
    float *grads;

    if (t->count + n <= t->capacity)
        return SL_OK;
    ids = sl_realloc_array(t->ids, more, sizeof(*ids));
    if (ids != NULL)
        t->ids = ids;
    grads = sl_realloc_array(t->grads, more, t->dim * sizeof(*grads));
    if (grads != NULL)
        t->grads = grads;
    if (ids == NULL || grads == NULL)
        return SL_ENOMEM;
    t->capacity = more;
    return SL_OK;
}

static enum sl_err add_reserve(struct job_table *t, size_t n,
                               struct sl_error *err)
{
    if (n > UINT32_MAX - t->count)
        return sl_fail(err, SL_ERANGE,
                       "table %s: more than %u gradients in one step", t->name,
                       UINT32_MAX);
    if (job_table_grow(t, n) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "table %s: no memory for %zu gradients",
                       t->name, n);
    return SL_OK;
}

enum sl_err job_tables_add(struct job_tables *tables, uint32_t table, size_t n,
                           const uint64_t *ids, const float *grads,
                           struct sl_error *err)
{
    struct job_table *t = &tables->table[table];
    enum sl_err rc = add_reserve(t, n, err);

    if (rc != SL_OK)
        return rc;
    memcpy(t->ids + t->count, ids, n * sizeof(*ids));
    memcpy(t->grads + t->count * t->dim, grads, n * t->dim * sizeof(*grads));
    t->count += n;
    return SL_OK;
}

static enum sl_err add_zeros(struct job_table *t, uint32_t n,
                             const uint64_t *ids, struct sl_error *err)
{
    enum sl_err rc = add_reserve(t, n, err);

    if (rc != SL_OK)
        return rc;
    for (uint32_t k = 0; k < n; k++)
        t->ids[t->count + k] = le64toh(ids[k]);
    memset(t->grads + t->count * t->dim, 0,
           (size_t)n * t->dim * sizeof(*t->grads));
    t->count += n;
    return SL_OK;
}

enum sl_err job_tables_add_wanted(struct job_tables *tables, uint32_t table,
                                  struct sl_error *err)
{
    const struct distinct *d = &tables->table[table].wanted;

    return add_zeros(&tables->table[table], d->count, d->ids, err);
}

// Returns the bytes of a block with the gradients of n ids; 0 for none.
static size_t rows_block_bytes(const struct job_table *t, uint32_t n,
                               enum wire_type wire)
{
    return n == 0 ? 0
                  : TABLE_ROWS_HEAD + n * sizeof(uint64_t) +
                        table_rows_elements_bytes(n, t->dim, wire);
}

static enum sl_err part_reserve(struct job_tables *t, uint32_t shard,
                                enum wire_type wire, size_t dense,
                                struct sl_error *err)
{
    struct job_tables_part *part = &t->part[shard];
    const char *largest = "";
    size_t bytes = 0, most = 0;

    for (uint32_t i = 0; i < t->count; i++) {
        const struct distinct *d = &t->table[i].distinct;
        size_t block = rows_block_bytes(
            &t->table[i], d->first[shard + 1] - d->first[shard], wire);

        if (block > most)
            largest = t->table[i].name;
        most = block > most ? block : most;
        bytes += block;
    }
    if (bytes > 0 && bytes + dense > SYNC_ROWS_BYTES)
        return sl_fail(err, SL_ERANGE,
                       "shard %u: %zu bytes of rows, %zu of them of table %s, "
                       "and %zu of other parameters in one push of at most %zu "
                       "bytes: compute fewer samples in a step (train.batch), "
                       "or set placement.shards",
                       shard, bytes, most, largest, dense, SYNC_ROWS_BYTES);
    part->grads.bytes = 0;
    return blocks_reserve(&part->grads, bytes, err);
}

// Writes the sum of the gradients of ids[k] to `sum`.
static void sum_row(const struct job_table *t, uint32_t k, float *sum)
{
    const struct distinct *d = &t->distinct;
    uint32_t i = d->from[k];

    memcpy(sum, t->grads + (size_t)d->sorted[i].at * t->dim,
           t->dim * sizeof(float));
    while (++i < d->from[k + 1])
        add_two(t->dim, sum, t->grads + (size_t)d->sorted[i].at * t->dim, sum,
                NULL);
}

// Makes space for one gradient of each distinct id.
static enum sl_err merge_reserve(struct job_table *t, struct sl_error *err)
{
    // The two arrays change places, so they are of one size.
    if (t->merged_capacity == t->capacity)
        return SL_OK;
    sl_free(t->merged);
    t->merged_capacity = 0;
    t->merged = sl_malloc_array(t->capacity, t->dim * sizeof(*t->merged));
    if (t->merged == NULL)
        return sl_fail(err, SL_ENOMEM, "table %s: no memory for %zu gradients",
                       t->name, t->capacity);
    t->merged_capacity = t->capacity;
    return SL_OK;
}

enum sl_err job_tables_merge(struct job_tables *tables, uint32_t table,
                             float **sums, size_t *elements,
                             struct sl_error *err)
{
    struct job_table *t = &tables->table[table];
    struct distinct *d = &t->distinct;
    enum sl_err rc =
        distinct_make(d, t->count, t->ids, t->buckets, tables->shards, err);

    if (rc == SL_OK && t->count > 0)
        rc = merge_reserve(t, err);
    if (rc != SL_OK)
        return rc;
    for (uint32_t k = 0; k < d->count; k++) {
        sum_row(t, k, t->merged + (size_t)k * t->dim);
        t->ids[k] = le64toh(d->ids[k]);
    }
    *sums = t->merged;
    if (t->count > 0) {
        t->merged = t->grads;
        t->grads = *sums;
    }
    t->count = d->count;
    *elements = t->count * t->dim;
    return SL_OK;
}

// Writes the sums of n ids from ids[first] on as elements of a block; false:
// one is not finite.
static bool write_sums(struct job_tables *t, const struct job_table *of,
                       uint32_t first, uint32_t n, enum wire_type wire,
                       uint8_t *to)
{
    // Aligned: what lies before the elements is a multiple of 8.
    float *sums = (void *)to;
    bool finite = true;

    for (uint32_t i = 0; wire == WIRE_F32 && i < n; i++)
        sum_row(of, first + i, sums + (size_t)i * of->dim);
    if (wire == WIRE_F32)
        return grad_finite(sums, (size_t)n * of->dim);
    for (uint32_t i = 0; i < n; i++) {
        sum_row(of, first + i, t->sum);
        finite &= grad_finite(t->sum, of->dim);
        element_write_rows(wire, 1, of->dim, to, t->sum);
        to += table_rows_row_bytes(of->dim, wire);
    }
    return finite;
}

// Appends the block of a table to what is pushed with a shard.
static void part_append(struct job_tables *t, uint32_t shard, uint32_t table,
                        enum wire_type wire)
{
    const struct job_table *of = &t->table[table];
    const struct distinct *d = &of->distinct;
    uint32_t first = d->first[shard], n = d->first[shard + 1] - first;
    struct job_tables_part *part = &t->part[shard];
    size_t bytes = rows_block_bytes(of, n, wire);
    uint8_t *to = part->grads.at + part->grads.bytes;

    if (n == 0)
        return;
    part->grads.bytes += bytes;
    memset(to + bytes - sizeof(uint64_t), 0, sizeof(uint64_t)); // fills it up
    to = table_rows_head(to, table, n, wire);
    memcpy(to, d->ids + first, n * sizeof(uint64_t));
    to += n * sizeof(uint64_t);
    part->strange |= !write_sums(t, of, first, n, wire, to);
}

enum sl_err job_tables_pack(struct job_tables *t, enum wire_type wire,
                            enum wire_type dense, const struct elements *ranges,
                            struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < job_tables_count(t); i++) {
        struct job_table *table = &t->table[i];

        rc = distinct_make(&table->distinct, table->count, table->ids,
                           table->buckets, t->shards, err);
    }
    for (uint32_t s = 0; rc == SL_OK && t != NULL && s < t->shards; s++)
        rc = part_reserve(t, s, wire, ranges[s].count * wire_type_bytes(dense),
                          err);
    for (uint32_t s = 0; rc == SL_OK && t != NULL && s < t->shards; s++) {
        for (uint32_t i = 0; i < t->count; i++)
            part_append(t, s, i, wire);
    }
    return rc;
}

bool job_tables_fill(const struct job_tables *t, uint32_t shard,
                     struct sync_step *step)
{
    if (t == NULL)
        return true;
    step->rows = t->part[shard].grads.at;
    step->rows_bytes = t->part[shard].grads.bytes;
    return !t->part[shard].strange;
}

bool job_tables_finite(const struct job_tables *t)
{
    bool finite = true;

    for (uint32_t i = 0; t != NULL && i < t->shards; i++)
        finite = finite && !t->part[i].strange;
    return finite;
}

// ---- audited steps

enum sl_err job_tables_keep(struct job_tables *t, struct sl_error *err)
{
    enum sl_err rc = kept_rows_next(&t->kept, t->count);

    for (uint32_t i = 0, k = 0; rc == SL_OK && i < t->wanted_count; i++, k++) {
        const struct distinct *d;

        while (t->table[k].values != t->wanted[i].values)
            k++; // which tables are wanted: they rise
        d = &t->table[k].wanted;
        rc = kept_rows_put(&t->kept, k, d->count, d->ids, t->table[k].dim,
                           t->table[k].values);
    }
    return rc == SL_OK ? rc : sl_no_memory(err);
}

void job_tables_unkeep(struct job_tables *t)
{
    if (t != NULL)
        kept_rows_clear(&t->kept);
}

enum sl_err job_tables_kept_rows(const struct job_tables *t, uint32_t at,
                                 uint32_t table, size_t n, const uint64_t *ids,
                                 float *rows, struct sl_error *err)
{
    if (at < t->kept.count && kept_rows_get(&t->kept, at, table, n, ids, rows))
        return SL_OK;
    return sl_fail(
        err, SL_EINVAL,
        "table %s: micro-batch %u of an audited step has an id whose "
        "row was not pulled for it",
        t->table[table].name, at);
}

enum sl_err job_tables_again(struct job_tables *t, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    job_tables_begin(t);
    for (size_t i = 0;
         rc == SL_OK && i < (size_t)t->kept.count * t->kept.tables; i++) {
        const struct kept_table *of = &t->kept.table[i];

        rc = add_zeros(&t->table[i % t->count], of->count, of->ids, err);
    }
    return rc;
}

uint64_t job_tables_inputs(const struct job_tables *t, uint64_t before)
{
    return t == NULL ? before : kept_rows_digest(&t->kept, before);
}

uint64_t job_tables_output(const struct job_tables *t, uint64_t before)
{
    for (uint32_t i = 0; t != NULL && i < t->shards; i++) {
        const struct job_blocks *b = &t->part[i].grads;

        before = sl_mix64(before ^ sl_hash64(b->at, b->bytes));
    }
    return before == 0 ? 1 : before;
}

// Hosts of different kinds add the same rows in the same order.
void job_tables_sketch(const struct job_tables *t, struct sketch *s,
                       uint64_t seed, uint64_t first)
{
    for (uint32_t i = 0; i < job_tables_count(t); i++) {
        const struct job_table *of = &t->table[i];

        sketch_add(s, seed, first, of->grads, of->count * of->dim);
        first += of->count * of->dim;
    }
}
