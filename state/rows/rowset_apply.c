// SPDX-License-Identifier: Apache-2.0
// state/rows/rowset_apply.c -- an update: the rows that are there, then the ids
// without one, then the bucket that is next.
//
// In this order: a row that the push changes must be known as such before a new
// row takes a place.
#include <assert.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "state/base/element.h"
#include "state/rows/rowset.h"
#include "state/rows/rowset_inner.h"

// ---- memory

static enum sl_err reserve_places(struct rowset *r, size_t n)
{
    uint32_t *places;

    r->looked = 0;
    if (n <= r->places)
        return SL_OK;
    places = sl_realloc_array(r->absent, n, 2 * sizeof(*places));
    if (places == NULL)
        return SL_ENOMEM;
    r->absent = places;
    r->number = places + n;
    r->places = n;
    return SL_OK;
}

// Looks ids up for all that comes until the push is applied.
static void look_ids(struct rowset *r, size_t n, const void *ids)
{
    const struct row_tier *t = r->rows.tier;
    const uint32_t *number;
    struct row_finder f;
    size_t at = 0, part;

    row_finder_init(&f, &r->rows, n, ids);
    for (; (part = row_finder_next(&f, &number)) > 0; at += part)
        memcpy(r->number + at, number, part * sizeof(*number));
    r->looked = t == NULL ? 0 : t->moved;
}

// Returns the most records that an update of n ids saves for a snapshot under
// way: that of each id, that of the row that makes place for it, and those of
// the bucket whose turn it is.
static uint64_t touched_by(const struct row_store *s, size_t n)
{
    return s->frozen ? 2 * n + s->largest : 0;
}

// The ids of a push that may need a record in a store.
struct rowset_new_ids {
    size_t n;
    const void *ids;
};

static enum sl_err reserve_for(struct rowset *r, size_t n,
                               const struct rowset_new_ids of[ROWSET_PARTS])
{
    const struct rowset_new_ids *rows = &of[ROWSET_ROWS];
    const struct rowset_new_ids *waiting = &of[ROWSET_WAITING];
    uint64_t touched = touched_by(&r->rows, n);
    enum sl_err rc =
        r->rows.tier == NULL
            ? row_store_reserve(&r->rows, rows->n, rows->ids, touched)
            : row_store_reserve_index(&r->rows, rows->n, rows->ids, touched);

    if (rc == SL_OK && rowset_waits(r))
        rc = row_store_reserve(&r->waiting, waiting->n, waiting->ids,
                               touched_by(&r->waiting, n));
    return rc;
}

// Takes memory for ids without a row alone. One that waits may lose its place
// to another id of the push before its turn, and then waits anew.
static enum sl_err reserve_exactly(struct rowset *r, size_t n, const void *ids)
{
    uint64_t *rows = sl_malloc_array(n + 1, 2 * sizeof(*rows)), *waiting;
    struct rowset_new_ids of[ROWSET_PARTS];
    enum sl_err rc;

    if (rows == NULL)
        return SL_ENOMEM;
    waiting = rows + n;
    of[ROWSET_ROWS] = (struct rowset_new_ids){0, rows};
    of[ROWSET_WAITING] = (struct rowset_new_ids){0, waiting};
    look_ids(r, n, ids);
    for (size_t i = 0; i < n; i++) {
        uint64_t id = table_id(ids, i);

        if (r->number[i] != ROW_NONE)
            continue;
        waiting[of[ROWSET_WAITING].n++] = id;
        if (!rowset_waits(r) ||
            row_store_find(&r->waiting, table_hash(id), id) != ROW_NONE)
            rows[of[ROWSET_ROWS].n++] = id;
    }
    rc = reserve_for(r, n, of);
    sl_free(rows);
    return rc;
}

static bool rowset_evicts(const struct rowset_spec *s)
{
    return s->max_rows > 0 || s->unused_steps > 0 || s->least_norm > 0;
}

// A snapshot that names more ids than a part of the rows is no shorter than a
// whole one by much.
#define GONE_PART 4
#define GONE_LEAST 65536

// Takes memory for the ids that an update of n ids removes, at most: as in
// touched_by.
static void reserve_gone(struct rowset *r, size_t n)
{
    uint64_t records = (uint64_t)r->rows.count + r->waiting.count;
    uint64_t most = GONE_LEAST + records / GONE_PART;

    if (rowset_evicts(&r->spec))
        row_gone_reserve(&r->rows.gone, 2 * n + r->rows.largest, most);
    row_gone_reserve(&r->waiting.gone, 2 * n + r->waiting.largest, most);
}

// A look for ids that have rows already would cost each push as much as its
// update, so it is made where memory is short.
static enum sl_err reserve_ids(struct rowset *r, size_t n, const void *ids)
{
    const struct rowset_new_ids all[ROWSET_PARTS] = {{n, ids}, {n, ids}};
    enum sl_err rc = SL_ERANGE;

    if (row_tier_count(r->rows.tier) == 0)
        rc = reserve_for(r, n, all);
    return rc == SL_ERANGE || rc == SL_EBUSY ? reserve_exactly(r, n, ids) : rc;
}

enum sl_err rowset_reserve(struct rowset *r, size_t n, const void *ids)
{
    enum sl_err rc = reserve_places(r, n);

    if (rc == SL_OK && r->rows.tier != NULL)
        rc = row_tier_pay(&r->rows, n);
    if (rc == SL_OK)
        rc = reserve_ids(r, n, ids);
    if (rc == SL_OK)
        reserve_gone(r, n);
    return rc;
}

// Marks the hot records of the ids as needed; returns the number of ids without
// a record, and gathers the places of those with cold ones in r->absent.
static size_t mark_needed(struct rowset *r, size_t n, const void *ids,
                          size_t *cold)
{
    struct row_store *s = &r->rows;
    size_t none = 0;

    *cold = 0;
    if (r->looked != s->tier->moved)
        look_ids(r, n, ids);
    for (size_t i = 0; i < n; i++) {
        if (r->number[i] == ROW_NONE)
            none++;
        else if (row_store_is_cold(s, r->number[i]))
            r->absent[(*cold)++] = (uint32_t)i;
        else
            row_tier_need(s->tier, r->number[i]);
    }
    return none;
}

enum sl_err rowset_fill(struct rowset *r, size_t n, const void *ids)
{
    struct row_store *s = &r->rows;
    size_t none, cold;
    enum sl_err rc;

    if (s->tier == NULL || n == 0)
        return SL_OK;
    if (row_tier_count(s->tier) == 0 && row_tier_grow(s, n) == SL_OK)
        return SL_OK;
    row_tier_turn(s);
    none = mark_needed(r, n, ids, &cold);
    rc = row_tier_fill(s, cold, r->absent, r->number, none);
    r->looked = rc == SL_OK ? s->tier->moved : 0;
    r->counts.hits += n - none - cold;
    r->counts.misses += cold;
    return rc;
}

// ---- one row

struct rowset_update {
    struct rowset *r;
    const struct rowset_step *step;
    struct row_rule_update rule;
    enum wire_type type;
    const uint8_t *ids, *grads;
};

// Returns true if gradients are as the rule wants them where they lie; others
// come one at a time.
static bool is_plain(const struct rowset_update *u)
{
    return u->type == WIRE_F32 && u->step->factor == 1;
}

// The gradient as the rule wants it.
static const void *gradient_of(const struct rowset_update *u, size_t i)
{
    uint32_t dim = u->r->spec.dim;
    const uint8_t *at = u->grads + i * table_rows_row_bytes(dim, u->type);
    float *wide = u->r->gradient;

    if (is_plain(u))
        return at;
    element_read_row(u->type, dim, wide, at);
    for (uint32_t k = 0; k < dim; k++)
        wide[k] *= u->step->factor;
    return wide;
}

static void count_row(const struct rowset_update *u, struct row_header *h)
{
    h->changed = u->step->version;
    h->score += h->score < UINT32_MAX;
    rowset_note_hot(u->r, h);
}

// ---- ids without a row

// Makes place for one more record; false if each that might go is of this
// update.
static bool make_place(struct row_store *s, uint64_t hash, uint32_t version,
                       uint64_t *gone)
{
    uint32_t victim;

    if (s->count < s->limit)
        return true;
    victim = row_store_victim(s, hash, version);
    if (victim == ROW_NONE)
        return false;
    row_store_remove(s, victim);
    ++*gone;
    return true;
}

static double admission_coin(const struct rowset_update *u, uint64_t id)
{
    uint64_t x = sl_mix64(u->r->seed ^ sl_mix64(id));

    x = sl_mix64(x ^ sl_mix64(u->step->closure));
    x = sl_mix64(x ^ u->step->step);
    return (double)(x >> 11) * 0x1p-53;
}

// Counts an id that waits, and makes its record if there is none yet. Returns
// its number, ROW_NONE if there was no place for one.
static uint32_t count_waiting(const struct rowset_update *u, uint64_t hash,
                              uint64_t id)
{
    struct row_store *s = &u->r->waiting;
    uint32_t number = row_store_find(s, hash, id);
    struct row_header *h;

    if (number != ROW_NONE) {
        row_store_touch(s, number);
        h = row_store_at(s, number);
        h->score += h->score < UINT32_MAX;
        h->changed = u->step->version;
        return number;
    }
    if (!make_place(s, hash, u->step->version, &u->r->counts.forgotten))
        return ROW_NONE;
    number = row_store_add(s, hash, id);
    h = row_store_at(s, number);
    h->score = 1;
    h->changed = u->step->version;
    return number;
}

// Decides about an id without a row: true if it has a place for one now.
static bool admit(const struct rowset_update *u, uint64_t hash, uint64_t id)
{
    struct rowset *r = u->r;
    uint32_t waiting = ROW_NONE;

    if (rowset_waits(r)) {
        waiting = count_waiting(u, hash, id);
        if (waiting == ROW_NONE ||
            row_store_at(&r->waiting, waiting)->score < r->spec.min_count)
            return false;
    }
    if (r->spec.probability < 1 && admission_coin(u, id) >= r->spec.probability)
        return false;
    if (!make_place(&r->rows, hash, u->step->version, &r->counts.evicted_full))
        return false;
    if (waiting != ROW_NONE)
        row_store_remove(&r->waiting, waiting);
    return true;
}

static void add_row(const struct rowset_update *u, uint64_t hash, uint64_t id,
                    size_t i)
{
    struct rowset *r = u->r;
    struct row_header *h =
        row_store_at(&r->rows, row_store_add(&r->rows, hash, id));
    float *values = rowset_values(h);
    uint32_t dim = r->spec.dim;
    const void *grad;

    // Zeroes behind the slots: a record goes into files as it is.
    memset((uint8_t *)h + r->rows.pool.stride - 4, 0, 4);
    rowset_first(r, id, values);
    row_rule_begin(&r->spec.rule, dim, values + dim);
    h->score = 0;
    grad = gradient_of(u, i);
    row_rule_apply(&u->rule, dim, 1, &grad, &values);
    count_row(u, h);
    r->counts.admitted++;
}

// ---- the bucket that is next

static bool unused(void *ctx, const struct row_header *h, bool cold)
{
    const struct rowset_update *u = ctx;

    (void)cold;
    return u->r->spec.unused_steps != 0 &&
           u->step->version - h->changed > u->r->spec.unused_steps;
}

// A cold record says what its values were when it left memory: they have not
// changed since (T9).
static bool small(void *ctx, const struct row_header *h, bool cold)
{
    const struct rowset_update *u = ctx;

    if (h->changed == u->step->version)
        return false;
    if (cold)
        return (((const struct row_cold *)h)->marks & ROW_SMALL) != 0;
    return row_is_small((const float *)(const void *)(h + 1), u->r->spec.dim,
                        u->r->spec.least_norm);
}

static void sweep(struct rowset_update *u)
{
    struct rowset *r = u->r;
    uint32_t bucket;

    if (r->rows.own == 0)
        return;
    bucket = u->step->version % r->rows.own;
    if (r->spec.unused_steps != 0) {
        r->counts.evicted_unused +=
            row_store_sweep(&r->rows, bucket, unused, u);
        if (rowset_waits(r))
            r->counts.forgotten +=
                row_store_sweep(&r->waiting, bucket, unused, u);
    }
    if (r->spec.least_norm > 0)
        r->counts.evicted_small += row_store_sweep(&r->rows, bucket, small, u);
}

void rowset_take_hot(struct rowset *r, const struct row_header *h)
{
    struct rowset_hot *hot = r->counts.hot;
    size_t at = 0;

    while (at < TABLE_HOT - 1 && (hot[at].id != h->id || hot[at].updates == 0))
        at++;
    for (; at > 0 && hot[at - 1].updates < h->score; at--)
        hot[at] = hot[at - 1];
    hot[at] = (struct rowset_hot){h->id, h->score};
}

// Leaves out those of the hottest rows that went.
static void forget_hot(struct rowset *r)
{
    struct rowset_hot *hot = r->counts.hot;
    size_t kept = 0;

    for (size_t i = 0; i < TABLE_HOT && hot[i].updates > 0; i++)
        if (row_store_find(&r->rows, table_hash(hot[i].id), hot[i].id) !=
            ROW_NONE)
            hot[kept++] = hot[i];
    for (; kept < TABLE_HOT; kept++)
        hot[kept] = (struct rowset_hot){0, 0};
}

// ---- all of it

// Returns a record that is to change; if a walk needs it, it is saved.
static struct row_header *row_to_change(struct row_store *s, uint32_t number)
{
    struct row_header *h;
    bool wanted;

    if (!row_store_is_cold(s, number)) {
        row_store_touch(s, number);
        return row_store_at(s, number);
    }
    h = row_tier_lent(s, number, &wanted);
    if (wanted)
        row_store_save(s, h);
    return h;
}

// Changes the rows that are there of n ids, from number `at` on, which are a
// batch of the finder's; appends the numbers of those without one to absent.
static void change_batch(const struct rowset_update *u, size_t n,
                         const uint32_t *number, size_t at, size_t *absent)
{
    struct row_store *rows = &u->r->rows;
    size_t found = 0, most = is_plain(u) ? ROW_RULE_ROWS : 1;
    const void *grads[ROW_RULE_ROWS];
    float *values[ROW_RULE_ROWS];

    for (size_t i = 0; i < n; i++) {
        struct row_header *h;

        if (number[i] == ROW_NONE) {
            u->r->absent[(*absent)++] = (uint32_t)(at + i);
            continue;
        }
        h = row_to_change(rows, number[i]);
        count_row(u, h);
        grads[found] = gradient_of(u, at + i);
        values[found++] = rowset_values(h);
        if (found == most) {
            row_rule_apply(&u->rule, u->r->spec.dim, found, grads, values);
            found = 0;
        }
    }
    row_rule_apply(&u->rule, u->r->spec.dim, found, grads, values);
}

// Changes the rows of ids that were looked up before; returns the number of ids
// without one. Rows of the next batch are on their way meanwhile.
static size_t change_known(const struct rowset_update *u, size_t n)
{
    const uint32_t *number = u->r->number;
    size_t absent = 0, part, most = u->r->rows.batch;

    row_store_soon(&u->r->rows, sl_min(n, most), number, 0);
    for (size_t at = 0; at < n; at += part) {
        size_t next = at + sl_min(n - at, most);

        part = next - at;
        row_store_soon(&u->r->rows, sl_min(n - next, most), number + next, 0);
        change_batch(u, part, number + at, at, &absent);
    }
    row_tier_settle(&u->r->rows);
    return absent;
}

// Changes the rows that are there; returns the number of ids without one.
static size_t change_rows(const struct rowset_update *u, size_t n)
{
    size_t absent = 0, part;
    const uint32_t *number;
    struct row_finder f;

    row_finder_init(&f, &u->r->rows, n, u->ids);
    for (size_t at = 0; (part = row_finder_next(&f, &number)) > 0; at += part)
        change_batch(u, part, number, at, &absent);
    return absent;
}

void rowset_apply(struct rowset *r, const struct rowset_step *step, size_t n,
                  const void *ids, enum wire_type type, const void *grads)
{
    struct rowset_update u = {
        .r = r, .step = step, .type = type, .ids = ids, .grads = grads};
    uint64_t gone = rowset_evicted(&r->counts);
    size_t absent;

    row_rule_update_init(&u.rule, &r->spec.rule, step->version,
                         step->rate * r->spec.scale);
    r->counts.gradients += n;
    if (r->rows.tier != NULL)
        r->rows.tier->version = step->version;
    absent = n > 0 && r->looked != 0 ? change_known(&u, n) : change_rows(&u, n);
    r->looked = 0;
    for (size_t k = 0; k < absent; k++) {
        uint64_t id = table_id(ids, r->absent[k]), hash = table_hash(id);

        if (admit(&u, hash, id))
            add_row(&u, hash, id, r->absent[k]);
        else
            r->counts.unadmitted++;
    }
    sweep(&u);
    if (rowset_evicted(&r->counts) != gone)
        forget_hot(r);
}
