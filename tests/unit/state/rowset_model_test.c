// SPDX-License-Identifier: Apache-2.0
// Whole lives of a set, against a model that is a sorted array and loops over
// it. A row is the constant minus the sum of its gradients, and everything is
// compared with ==.
#include "tests/unit/state/rowset_kit.h"

#define IDS 1500 // ids are below

struct entry {
    bool row, waiting; // at most one of them
    uint32_t changed, score;
    float w[KIT_DIM];
};

struct model {
    struct rowset_spec spec;
    uint64_t by_hash[IDS]; // ids in the order of their hashes
    struct entry at[IDS];  // by id
    uint32_t version, rows, waiting;
    struct rowset_counts sums;
};

static void model_init(struct model *m, const struct rowset_spec *spec)
{
    memset(m, 0, sizeof(*m));
    m->spec = *spec;
    for (uint64_t id = 0; id < IDS; id++)
        m->by_hash[id] = id;
    qsort(m->by_hash, IDS, sizeof(uint64_t), kit_by_hash);
}

static bool is_there(const struct model *m, uint64_t id, bool row)
{
    return row ? m->at[id].row : m->at[id].waiting;
}

static uint32_t bucket_of(const struct model *m, uint64_t id)
{
    return table_bucket(table_hash(id), m->spec.buckets);
}

// The rule of row_store_victim, by going over all ids. Returns IDS for none.
static uint64_t model_victim(const struct model *m, uint64_t id, bool row)
{
    uint32_t bucket = bucket_of(m, id), low = (uint32_t)table_hash(id);
    unsigned tries = 0, passed = 0;

    while (tries < 64 && passed <= m->spec.buckets) {
        uint64_t n = 0, high = UINT32_MAX, best = IDS;

        for (uint64_t i = 0; i < IDS; i++)
            n += is_there(m, i, row) && bucket_of(m, i) == bucket;
        if (n > 16)
            high = sl_min(low + (UINT64_C(1) << 32) / n * 16, UINT32_MAX);
        for (size_t i = 0; i < IDS && n > 0; i++) {
            uint64_t x = m->by_hash[i], last = (uint32_t)table_hash(x);

            if (is_there(m, x, row) && bucket_of(m, x) == bucket &&
                last >= low && last <= high && m->at[x].changed != m->version &&
                (best == IDS || m->at[x].changed < m->at[best].changed))
                best = x;
        }
        if (best != IDS)
            return best;
        tries += n > 0;
        if (n > 0 && high < UINT32_MAX) {
            low = (uint32_t)high + 1;
            continue;
        }
        low = 0;
        bucket = (bucket + 1) % m->spec.buckets;
        passed++;
    }
    return IDS;
}

static bool model_place(struct model *m, uint64_t id, bool row)
{
    uint32_t *count = row ? &m->rows : &m->waiting;
    uint64_t victim;

    if (m->spec.max_rows == 0 || *count < m->spec.max_rows)
        return true;
    victim = model_victim(m, id, row);
    if (victim == IDS)
        return false;
    m->at[victim].row = m->at[victim].waiting = false;
    --*count;
    if (row)
        m->sums.evicted_full++;
    else
        m->sums.forgotten++;
    return true;
}

static void model_apply(struct model *m, uint64_t id)
{
    struct entry *e = &m->at[id];

    for (unsigned k = 0; k < KIT_DIM; k++)
        e->w[k] -= kit_gradient(id, m->version, k);
    e->score++;
    e->changed = m->version;
}

// True if the id gets a row.
static bool model_admit(struct model *m, uint64_t id)
{
    struct entry *e = &m->at[id];

    if (m->spec.min_count > 1) {
        if (!e->waiting) {
            if (!model_place(m, id, false))
                return false;
            *e = (struct entry){.waiting = true};
            m->waiting++;
        }
        e->score++;
        e->changed = m->version;
        if (e->score < m->spec.min_count)
            return false;
    }
    if (!model_place(m, id, true))
        return false;
    m->waiting -= e->waiting;
    *e = (struct entry){.row = true, .w = {7, 7, 7}};
    m->rows++;
    m->sums.admitted++;
    return true;
}

static void model_sweep(struct model *m)
{
    for (uint64_t id = 0; id < IDS; id++) {
        struct entry *e = &m->at[id];
        float norm = 0;

        if (bucket_of(m, id) != m->version % m->spec.buckets ||
            (!e->row && !e->waiting))
            continue;
        for (unsigned k = 0; k < KIT_DIM; k++)
            norm += e->w[k] * e->w[k];
        if (m->spec.unused_steps != 0 &&
            m->version - e->changed > m->spec.unused_steps) {
            m->sums.evicted_unused += e->row;
            m->sums.forgotten += e->waiting;
        } else if (e->row && e->changed != m->version &&
                   norm < m->spec.least_norm * m->spec.least_norm) {
            m->sums.evicted_small++;
        } else {
            continue;
        }
        m->rows -= e->row;
        m->waiting -= e->waiting;
        e->row = e->waiting = false;
    }
}

// Ids are sorted by hash.
static void model_push(struct model *m, uint32_t version, size_t n,
                       const uint64_t *ids)
{
    bool was[IDS];

    m->version = version;
    for (uint64_t id = 0; id < IDS; id++)
        was[id] = m->at[id].row;
    for (size_t i = 0; i < n; i++)
        if (was[ids[i]])
            model_apply(m, ids[i]);
    for (size_t i = 0; i < n; i++) {
        if (was[ids[i]])
            continue;
        if (model_admit(m, ids[i]))
            model_apply(m, ids[i]);
        else
            m->sums.unadmitted++;
    }
    model_sweep(m);
}

static void model_dump(const struct model *m, struct kit_dump *d)
{
    memset(d, 0, sizeof(*d));
    for (uint64_t id = 0; id < IDS; id++) {
        const struct entry *e = &m->at[id];
        struct row_header h = {id, e->changed, e->score};

        if (e->row) {
            memcpy(d->rows[d->count[0]], &h, sizeof(h));
            memcpy(d->rows[d->count[0]++] + sizeof(h), e->w, sizeof(e->w));
        } else if (e->waiting) {
            memcpy(d->waiting[d->count[1]++], &h, sizeof(h));
        }
    }
}

// ---- one life

static struct kit_dump want, got, instant;
static struct model model;

static void compare(struct rowset *r)
{
    static float values[IDS][KIT_DIM];
    static uint64_t all[IDS];
    struct rowset_counts c;

    model_dump(&model, &want);
    kit_dump(&got, r);
    kit_same(&want, &got);
    rowset_counts(r, &c);
    T_EQ(c.rows, model.rows);
    T_EQ(c.waiting, model.waiting);
    for (uint64_t id = 0; id < IDS; id++)
        all[id] = id;
    T_OK(rowset_read(r, IDS, all, values[0], t_err()));
    for (uint64_t id = 0; id < IDS; id++)
        for (unsigned k = 0; k < KIT_DIM; k++)
            T_TRUE(values[id][k] == (model.at[id].row ? model.at[id].w[k] : 7));
}

static void compare_sums(const struct rowset *r)
{
    struct rowset_counts c;

    rowset_counts(r, &c);
    T_EQ(c.admitted, model.sums.admitted);
    T_EQ(c.evicted_full, model.sums.evicted_full);
    T_EQ(c.evicted_unused, model.sums.evicted_unused);
    T_EQ(c.evicted_small, model.sums.evicted_small);
    T_EQ(c.forgotten, model.sums.forgotten);
    T_EQ(c.unadmitted, model.sums.unadmitted);
}

static struct rowset_spec draw_spec(void)
{
    struct rowset_spec spec = kit_spec(1 + (uint32_t)t_below(6));

    spec.min_count = (uint32_t)t_below(4);
    spec.max_rows = t_below(3) == 0 ? 0 : spec.buckets + t_below(500);
    spec.unused_steps = t_below(2) * (2 + t_below(20));
    spec.least_norm = t_below(2) == 0 ? 0 : 5;
    return spec;
}

static void push_some(struct rowset *r, uint64_t range)
{
    uint64_t ids[120], first = t_below(range);
    uint32_t version = model.version + 1 + (uint32_t)(t_below(9) == 0);
    size_t n = t_below(SL_COUNT(ids));

    // Hot ones and a stretch of others, none twice.
    for (size_t i = 0; i < n; i++)
        ids[i] = i % 2 == 0 ? i * i % (range / 3)
                            : range / 3 + (first + i) % (range - range / 3);
    qsort(ids, n, sizeof(*ids), kit_by_hash);
    for (size_t i = 1; i < n; i++)
        if (ids[i] == ids[i - 1])
            memmove(&ids[i], &ids[i + 1], (--n - i) * sizeof(*ids)), i--;
    kit_push(r, version, n, ids);
    model_push(&model, version, n, ids);
}

// Walks the instant to its end, with pushes between.
static void walk_to_end(struct rowset *r, uint64_t range)
{
    static struct kit_dump walked;

    model_dump(&model, &instant);
    memset(&walked, 0, sizeof(walked));
    rowset_freeze(r, model.version);
    while (kit_walk(r, &walked, 1 + t_below(60)))
        if (t_below(3) == 0)
            push_some(r, range);
    kit_sort(&walked, r);
    rowset_thaw(r);
    kit_same(&instant, &walked);
}

static void live(uint64_t range, unsigned pushes)
{
    struct rowset_spec spec = draw_spec();
    struct rowset *r = kit_new(&spec);
    bool loaded = false;

    model_init(&model, &spec);
    for (unsigned i = 0; i < pushes; i++) {
        push_some(r, range);
        if (t_below(10) == 0)
            walk_to_end(r, range);
        if (t_below(10) != 0)
            continue;
        // A psserver is lost, and another one loads what it had.
        compare(r);
        rowset_free(r);
        r = kit_load(&spec, &got);
        loaded = true;
    }
    compare(r);
    if (!loaded)
        compare_sums(r);
    rowset_free(r);
}

// The sanitizers look at the code, not at chance.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SMALL 400
#define LARGE 8
#else
#define SMALL 3000
#define LARGE 40
#endif

TEST(rowset_model, T5_small_tables_live_as_the_model)
{
    for (unsigned i = 0; i < SMALL; i++)
        live(60, 25);
}

TEST(rowset_model, T5_tables_of_many_groups_live_as_the_model)
{
    for (unsigned i = 0; i < LARGE; i++)
        live(IDS, 40);
}
