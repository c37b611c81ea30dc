// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_rows.c -- see job_rows.h.
#include "worker/lease/job_rows.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"

// A layer; its place in job_rows.layer is the number of its table.
struct rows_layer {
    uint32_t dim, column; // of the bags
    enum model_combiner combiner;
};

struct job_rows {
    struct job_tables *tables;
    struct rows_layer *layer;
    uint32_t count, shards;
    enum wire_type wire, dense; // of rows, and of parameters
    float *rows; // of all ids of a column, and later their gradients
    size_t rows_capacity;
    struct hybrid_ids *ids;    // of a batch, by table
    struct hybrid_rows *group; // NULL: the job's workers are in no groups
    bool asked;                // rows of `asked_step` were asked for ahead
    uint32_t asked_step;       // of the open closure
};

// ---- making and freeing

static enum sl_err rows_column(uint32_t *out, const Sluice__V1__JobSpec *spec,
                               const char *column, struct sl_error *err)
{
    const Sluice__V1__SourceSpec *s = spec->data->train;

    *out = (uint32_t)spec_ids_column(s, column);
    if (*out < s->n_ids)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "data.train.ids has no column '%.60s'; coordinator and "
                   "worker differ in version?",
                   column);
}

static enum sl_err rows_layers(struct job_rows *r,
                               const Sluice__V1__JobSpec *spec,
                               const struct model *model, struct sl_error *err)
{
    for (uint32_t i = 0; i < model->nodes_count; i++) {
        const struct model_node *node = &model->nodes[i];
        struct rows_layer layer = {.combiner = node->combiner};
        enum sl_err rc;

        if (node->column == NULL)
            continue;
        rc = rows_column(&layer.column, spec, node->column, err);
        if (rc != SL_OK)
            return rc;
        layer.dim = (uint32_t)node->out.dim[0];
        if (layer.dim != job_tables_dim(r->tables, node->table))
            return sl_fail(err, SL_EINVAL,
                           "layer '%s' has another length than its table",
                           node->name);
        r->layer[node->table] = layer;
    }
    return SL_OK;
}

static enum sl_err rows_fill_in(struct job_rows *r,
                                const Sluice__V1__JobSpec *spec,
                                const struct model *model, struct sl_error *err)
{
    enum sl_err rc = job_tables_new(&r->tables, spec->model, r->shards, err);

    if (rc != SL_OK)
        return rc;
    if (job_tables_count(r->tables) != model->tables)
        return sl_fail(err, SL_EINVAL,
                       "model.tables: %u, but %u layers have rows of one; "
                       "coordinator and worker differ in version?",
                       job_tables_count(r->tables), model->tables);
    r->count = model->tables;
    r->wire = spec_rows_wire(spec);
    r->dense = spec_wire(spec);
    r->layer = sl_calloc(r->count, sizeof(*r->layer));
    r->ids = sl_calloc(r->count, sizeof(*r->ids));
    if (r->layer == NULL || r->ids == NULL)
        return sl_no_memory(err);
    if (spec_hybrid(spec))
        rc = hybrid_rows_new(&r->group, r->tables, r->shards, r->wire, err);
    return rc == SL_OK ? rows_layers(r, spec, model, err) : rc;
}

enum sl_err job_rows_new(struct job_rows **out, const Sluice__V1__JobSpec *spec,
                         const struct model *model, uint32_t shards,
                         struct sl_error *err)
{
    struct job_rows *r = NULL;
    enum sl_err rc = SL_OK;

    if (model->tables > 0) {
        r = sl_calloc(1, sizeof(*r));
        if (r == NULL)
            return sl_no_memory(err);
        r->shards = shards;
        rc = rows_fill_in(r, spec, model, err);
    }
    if (rc == SL_OK)
        *out = r;
    else
        job_rows_free(r);
    return rc;
}

void job_rows_free(struct job_rows *r)
{
    if (r == NULL)
        return;
    hybrid_rows_free(r->group);
    job_tables_free(r->tables);
    sl_free(r->layer);
    sl_free(r->ids);
    sl_free(r->rows);
    sl_free(r);
}

struct hybrid_rows *job_rows_group(struct job_rows *r)
{
    return r != NULL ? r->group : NULL;
}

uint64_t job_rows_bytes(const struct job_rows *r)
{
    return r == NULL ? 0 : r->rows_capacity * sizeof(float);
}

// ---- bags

static uint32_t bag_size(const struct id_bag *bag, uint32_t sample)
{
    return bag->offsets[sample + 1] - bag->offsets[sample];
}

// Returns the bags of `n` samples from `first` on. Their first row is row
// offsets[0] of all.
static struct id_bag bags_part(const struct id_bag *bag, uint32_t first,
                               uint32_t n)
{
    return (struct id_bag){
        .ids = bag->ids, .offsets = bag->offsets + first, .samples = n};
}

// Returns the factor of each of n rows in what the layer reads.
static float bag_weight(enum model_combiner combiner, uint32_t n)
{
    return combiner == MODEL_MEAN    ? 1 / (float)n
           : combiner == MODEL_SQRTN ? 1 / sqrtf((float)n)
                                     : 1;
}

// Writes the weighted sums of the bags' rows; zeroes for an empty bag.
static void bags_combine(float *to, const float *rows, const struct id_bag *bag,
                         const struct rows_layer *layer)
{
    for (uint32_t i = 0; i < bag->samples; i++, to += layer->dim) {
        uint32_t n = bag_size(bag, i);
        float weight = bag_weight(layer->combiner, n);

        memset(to, 0, layer->dim * sizeof(*to));
        for (uint32_t k = 0; k < n; k++, rows += layer->dim)
            for (uint32_t d = 0; d < layer->dim; d++)
                to[d] += rows[d];
        for (uint32_t d = 0; n > 1 && d < layer->dim; d++)
            to[d] *= weight;
    }
}

// Writes the gradients of the bags' rows; `from` is that of their sums.
static void bags_spread(float *rows, const float *from, float unscale,
                        const struct id_bag *bag,
                        const struct rows_layer *layer)
{
    for (uint32_t i = 0; i < bag->samples; i++, from += layer->dim) {
        uint32_t n = bag_size(bag, i);
        float weight = unscale * bag_weight(layer->combiner, n);

        for (uint32_t k = 0; k < n; k++, rows += layer->dim)
            for (uint32_t d = 0; d < layer->dim; d++)
                rows[d] = from[d] * weight;
    }
}

static enum sl_err rows_reserve(struct job_rows *r, uint32_t table, size_t n,
                                struct sl_error *err)
{
    size_t elements = n * r->layer[table].dim;

    if (elements <= r->rows_capacity)
        return SL_OK;
    sl_free(r->rows);
    r->rows_capacity = 0;
    r->rows = sl_malloc_array(elements, sizeof(float));
    if (r->rows == NULL)
        return sl_fail(err, SL_ENOMEM,
                       "table %s: no memory for the rows of %zu ids of a "
                       "batch; take a smaller train.batch",
                       job_tables_name(r->tables, table), n);
    r->rows_capacity = elements;
    return SL_OK;
}

// ---- a step

// Wants the rows of tables [first, end).
static enum sl_err rows_want(struct job_rows *r, const struct rows_from *from,
                             const struct id_bag *bags, uint32_t first,
                             uint32_t end, struct sl_error *err)
{
    enum wire_type wire = from->tags != NULL ? WIRE_F32 : r->wire;
    enum sl_err rc = SL_OK;

    job_tables_forget(r->tables);
    for (uint32_t i = first; rc == SL_OK && i < end; i++) {
        const struct id_bag *bag = &bags[r->layer[i].column];
        size_t n = bag->offsets[bag->samples];

        if (n > 0)
            rc = job_tables_want(r->tables, i, n, bag->ids, wire, err);
    }
    return rc;
}

// Where the rows of a batch lie: with the group, or with those that are kept of
// micro-batch `at`; else they were pulled.
struct rows_source {
    const struct hybrid_rows *group;
    bool kept;
    uint32_t at;
};

static enum sl_err rows_copy(struct job_rows *r, uint32_t table,
                             const struct rows_source *from,
                             const struct id_bag *bag, struct sl_error *err)
{
    size_t n = bag->offsets[bag->samples];

    if (n > 0 && from->kept)
        return job_tables_kept_rows(r->tables, from->at, table, n, bag->ids,
                                    r->rows, err);
    if (n > 0 && from->group != NULL)
        hybrid_rows_copy(from->group, table, r->rows);
    else if (n > 0)
        job_tables_rows(r->tables, table, r->rows);
    return SL_OK;
}

// Writes what a layer reads.
static enum sl_err rows_combine(struct job_rows *r, uint32_t table,
                                const struct rows_source *from,
                                const struct step_program *p,
                                const struct id_bag *bag, struct sl_error *err)
{
    const struct rows_layer *layer = &r->layer[table];
    size_t n = bag->offsets[bag->samples];
    enum sl_err rc = rows_reserve(r, table, n, err);
    struct program *member;
    uint32_t first = 0;

    if (rc == SL_OK)
        rc = rows_copy(r, table, from, bag, err);
    if (rc != SL_OK)
        return rc;
    for (unsigned k = 0; (member = step_member(p, k)) != NULL; k++) {
        struct id_bag part = bags_part(bag, first, member->batch);

        bags_combine(program_rows(member, table),
                     r->rows + (size_t)part.offsets[0] * layer->dim, &part,
                     layer);
        first += member->batch;
    }
    return SL_OK;
}

static enum sync_result rows_come(struct job_rows *r,
                                  const struct rows_from *from,
                                  struct sl_error *err)
{
    return job_tables_pull_cut(r->tables, from->sync, from->tags, from->gate,
                               err);
}

void job_rows_begin(struct job_rows *r)
{
    if (r != NULL)
        job_tables_begin(r->tables);
}

enum sync_result job_rows_pull(struct job_rows *r, const struct rows_from *from,
                               const struct step_program *p,
                               const struct id_bag *bags, struct sl_error *err)
{
    static const struct rows_source pulled;
    bool ahead = r->asked && r->asked_step == from->step;
    enum sync_result result = SYNC_OK;

    if (r->asked && !ahead)
        result = rows_come(r, from, err); // of another step: in vain
    r->asked = false;
    for (uint32_t i = 0; result == SYNC_OK && i < r->count;) {
        // In f32 a cut's rows of all tables may be more than a message has.
        uint32_t end = from->tags != NULL ? i + 1 : r->count;

        if (!ahead && rows_want(r, from, bags, i, end, err) != SL_OK)
            return SYNC_FAILED;
        result = rows_come(r, from, err);
        for (; result == SYNC_OK && i < end; i++) {
            if (rows_combine(r, i, &pulled, p, &bags[r->layer[i].column],
                             err) != SL_OK)
                return SYNC_FAILED;
        }
    }
    return result;
}

enum sl_err job_rows_foresee(struct job_rows *r, struct hybrid_step *s,
                             const struct id_bag *bags, struct sl_error *err)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct id_bag *bag = &bags[r->layer[i].column];

        r->ids[i] = (struct hybrid_ids){bag->ids, bag->offsets[bag->samples]};
    }
    return hybrid_rows_pull(s, r->ids, err);
}

static enum sl_err rows_combine_all(struct job_rows *r,
                                    const struct rows_source *from,
                                    const struct step_program *p,
                                    const struct id_bag *bags,
                                    struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++)
        rc = rows_combine(r, i, from, p, &bags[r->layer[i].column], err);
    return rc;
}

enum sl_err job_rows_meet(struct job_rows *r, struct hybrid_step *s,
                          const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err)
{
    const struct rows_source from = {.group = s->hybrid->rows};
    enum sl_err rc = job_rows_foresee(r, s, bags, err);

    return rc == SL_OK ? rows_combine_all(r, &from, p, bags, err) : rc;
}

enum sl_err job_rows_keep(struct job_rows *r, struct sl_error *err)
{
    return job_tables_keep(r->tables, err);
}

void job_rows_unkeep(struct job_rows *r)
{
    if (r != NULL)
        job_tables_unkeep(r->tables);
}

enum sl_err job_rows_kept(struct job_rows *r, uint32_t at,
                          const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err)
{
    const struct rows_source from = {.kept = true, .at = at};

    return rows_combine_all(r, &from, p, bags, err);
}

enum sl_err job_rows_again(struct job_rows *r, struct sl_error *err)
{
    return job_tables_again(r->tables, err);
}

void job_rows_ahead(struct job_rows *r, const struct rows_from *from,
                    const struct id_bag *bags)
{
    // What cannot be wanted fails in its step, which says why.
    if (r->asked || rows_want(r, from, bags, 0, r->count, NULL) != SL_OK)
        return;
    job_tables_ask(r->tables, from->sync);
    r->asked = true;
    r->asked_step = from->step;
}

void job_rows_forget(struct job_rows *r)
{
    if (r != NULL)
        r->asked = false;
}

static enum sl_err rows_take_layer(struct job_rows *r, uint32_t table,
                                   const struct step_program *p,
                                   const struct id_bag *bag,
                                   struct sl_error *err)
{
    const struct rows_layer *layer = &r->layer[table];
    size_t n = bag->offsets[bag->samples];
    enum sl_err rc = rows_reserve(r, table, n, err);
    const struct program *member;
    uint32_t first = 0;

    if (rc != SL_OK || n == 0)
        return rc;
    for (unsigned k = 0; (member = step_member(p, k)) != NULL; k++) {
        struct id_bag part = bags_part(bag, first, member->batch);

        bags_spread(r->rows + (size_t)part.offsets[0] * layer->dim,
                    program_row_grads(member, table), member->unscale, &part,
                    layer);
        first += member->batch;
    }
    return job_tables_add(r->tables, table, n, bag->ids, r->rows, err);
}

enum sl_err job_rows_take(struct job_rows *r, const struct step_program *p,
                          const struct id_bag *bags, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; r != NULL && rc == SL_OK && i < r->count; i++)
        rc = rows_take_layer(r, i, p, &bags[r->layer[i].column], err);
    return rc;
}

enum sl_err job_rows_pack(struct job_rows *r, const struct elements *ranges,
                          bool *finite, struct sl_error *err)
{
    enum sl_err rc;

    if (r == NULL)
        return SL_OK;
    rc = job_tables_pack(r->tables, r->wire, r->dense, ranges, err);
    if (rc == SL_OK)
        *finite &= job_tables_finite(r->tables);
    return rc;
}

struct job_tables *job_rows_tables(const struct job_rows *r)
{
    return r == NULL ? NULL : r->tables;
}

void job_rows_fill(const struct job_rows *r, uint32_t range,
                   struct sync_step *step)
{
    if (r != NULL)
        (void)job_tables_fill(r->tables, range, step);
}
