// SPDX-License-Identifier: Apache-2.0
// state/shard/shard_tables.c -- see shard_tables.h.
#include "state/shard/shard_tables.h"

#include "common/base/mem.h"

static struct row_account *account_new(const char *tenant)
{
    struct row_account *a = sl_calloc(1, sizeof(*a));

    if (a == NULL || row_account_open(a, tenant) == SL_OK)
        return a;
    sl_free(a);
    return NULL;
}

enum sl_err tables_init(struct tables *out, const struct plan *plan,
                        struct sl_error *err)
{
    struct tables made = {.count = plan->table_count};
    enum sl_err rc = SL_OK;

    *out = (struct tables){0};
    if (made.count == 0)
        return SL_OK;
    made.sets = sl_calloc(made.count, sizeof(struct rowset *));
    made.dims = sl_calloc(made.count, sizeof(*made.dims));
    made.account = account_new(plan->tenant);
    if (made.sets == NULL || made.dims == NULL || made.account == NULL)
        rc = sl_no_memory(err);
    for (size_t i = 0; i < made.count && rc == SL_OK; i++) {
        struct rowset_spec spec = plan->tables[i].spec;

        made.dims[i] = spec.dim;
        spec.account = made.account;
        rc = rowset_new(&made.sets[i], &spec, err);
    }
    if (rc == SL_OK)
        *out = made;
    else
        tables_release(&made);
    return rc;
}

void tables_release(struct tables *t)
{
    for (size_t i = 0; t->sets != NULL && i < t->count; i++)
        rowset_free(t->sets[i]);
    if (t->account != NULL) {
        row_account_close(t->account);
        // The limit has this memory free again, so it must be: indexes and
        // copies are small pieces, which malloc would keep.
        sl_mem_trim();
    }
    sl_free(t->account);
    sl_free(t->sets);
    sl_free(t->dims);
    *t = (struct tables){0};
}

// ---- the rows of a message

enum sl_err tables_flatten(struct tables_push *out,
                           const struct sl_slices *rows)
{
    struct slices_cursor cursor;
    struct tables_push made = {.n = rows->bytes};
    size_t n = 0;

    *out = (struct tables_push){0};
    if (rows->bytes == 0)
        return SL_OK;
    slices_cursor_init(&cursor, rows);
    made.bytes = slices_next(&cursor, rows->bytes, &n);
    if (n < rows->bytes) {
        made.bytes = made.owned = sl_malloc(rows->bytes);
        if (made.owned == NULL)
            return SL_ENOMEM;
        slices_copy(made.owned, rows);
    }
    *out = made;
    return SL_OK;
}

void tables_push_release(struct tables_push *p)
{
    sl_free(p->owned);
    *p = (struct tables_push){0};
}

enum sl_err tables_check(const struct tables *t, const struct tables_push *p,
                         bool elements, struct sl_error *err)
{
    struct table_rows_at at = {p->bytes, p->n, 0};
    struct table_rows b;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && at.left > 0) {
        rc = table_rows_next(&b, &at, t->dims, t->count, elements, err);
        if (rc == SL_OK)
            rc = rowset_check(t->sets[b.table], b.count, b.ids, b.type,
                              b.elements, err);
    }
    return rc;
}

// Calls `part` for every table: one that the push has no rows for may lose
// rows, too, and a snapshot under way saves them.
static enum sl_err reserve_each(struct tables *t, const struct plan *plan,
                                const struct tables_push *p,
                                enum sl_err (*part)(struct rowset *r, size_t n,
                                                    const void *ids),
                                struct sl_error *err)
{
    struct table_rows_at at = {p->bytes, p->n, 0};
    struct table_rows b = {0};
    enum sl_err rc = SL_OK;
    bool more = tables_next(t, &at, true, &b), here;

    for (size_t i = 0; i < t->count; i++) {
        here = more && b.table == i;
        rc = part(t->sets[i], here ? b.count : 0, b.ids);
        if (rc != SL_OK)
            return sl_prefix(err, row_memory_refuse(t->account, rc, err),
                             "table %s", plan->tables[i].name);
        if (here)
            more = tables_next(t, &at, true, &b);
    }
    return SL_OK;
}

// Memory of all tables comes first: one of them may give it to another.
enum sl_err tables_reserve(struct tables *t, const struct plan *plan,
                           const struct tables_push *p, struct sl_error *err)
{
    enum sl_err rc = reserve_each(t, plan, p, rowset_reserve, err);

    return rc == SL_OK ? reserve_each(t, plan, p, rowset_fill, err) : rc;
}

void tables_apply(struct tables *t, const struct rowset_step *step,
                  const struct tables_push *p)
{
    struct table_rows_at at = {0};
    struct table_rows b = {0};
    bool more;

    if (p != NULL)
        at = (struct table_rows_at){p->bytes, p->n, 0};
    more = tables_next(t, &at, true, &b);
    for (size_t i = 0; i < t->count; i++) {
        if (!more || b.table != i) {
            rowset_apply(t->sets[i], step, 0, NULL, WIRE_F32, NULL);
            continue;
        }
        rowset_apply(t->sets[i], step, b.count, b.ids, b.type, b.elements);
        more = tables_next(t, &at, true, &b);
    }
}

size_t tables_row_bytes(const struct tables *t)
{
    size_t most = 0;

    for (size_t i = 0; i < t->count; i++)
        most = t->dims[i] > most ? t->dims[i] : most;
    return most * sizeof(float);
}

size_t tables_answer_bytes(const struct tables *t, const struct tables_push *p)
{
    struct table_rows_at at = {p->bytes, p->n, 0};
    struct table_rows b;
    size_t bytes = 0;

    while (tables_next(t, &at, false, &b))
        bytes += table_rows_elements_bytes(b.count, t->dims[b.table], b.type);
    return bytes;
}

void tables_counts(const struct tables *t, struct rowset_counts *sum,
                   struct rowset_counts *each)
{
    *sum = (struct rowset_counts){0};
    for (size_t i = 0; i < t->count; i++) {
        struct rowset_counts one;

        rowset_counts(t->sets[i], &one);
        sum->rows += one.rows;
        sum->waiting += one.waiting;
        sum->bytes += one.bytes;
        sum->admitted += one.admitted;
        sum->evicted_full += one.evicted_full;
        sum->evicted_unused += one.evicted_unused;
        sum->evicted_small += one.evicted_small;
        sum->forgotten += one.forgotten;
        sum->unadmitted += one.unadmitted;
        sum->cold += one.cold;
        sum->file_bytes += one.file_bytes;
        sum->hits += one.hits;
        sum->misses += one.misses;
        sum->cooled += one.cooled;
        sum->gradients += one.gradients;
        if (each != NULL)
            each[i] = one;
    }
}

// ---- one instant

void tables_freeze(struct tables *t, uint64_t version)
{
    for (size_t i = 0; i < t->count; i++)
        rowset_freeze(t->sets[i], (uint32_t)version);
}

void tables_freeze_changed(struct tables *t, uint64_t version, uint64_t since)
{
    for (size_t i = 0; i < t->count; i++) {
        rowset_freeze_changed(t->sets[i], (uint32_t)version, (uint32_t)since);
        rowset_gone_seal(t->sets[i]);
    }
}

void tables_follow(struct tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        rowset_gone_begin(t->sets[i]);
}

bool tables_followed(const struct tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (!rowset_gone_known(t->sets[i]))
            return false;
    return t->count > 0;
}

void tables_gone_end(struct tables *t, bool durable)
{
    for (size_t i = 0; i < t->count; i++)
        rowset_gone_end(t->sets[i], durable);
}

void tables_thaw(struct tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        rowset_thaw(t->sets[i]);
}
