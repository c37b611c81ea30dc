// SPDX-License-Identifier: Apache-2.0
// proto/layout.c -- the layout of a job's variables and shards as messages,
// checked in both directions.
#include "proto/layout.h"

#include <string.h>

#include "common/base/map.h"
#include "common/base/mem.h"

enum sl_err layout_rows(const Sluice__V1__Variable *v, uint64_t *rows,
                        uint64_t *row_elements, struct sl_error *err)
{
    uint64_t all = 1, first = v->n_shape > 0 ? v->shape[0] : 1;

    for (size_t i = 0; i < v->n_shape; i++)
        if (v->shape[i] == 0 ||
            __builtin_mul_overflow(all, v->shape[i], &all) ||
            all > MODEL_VARIABLE_MAX)
            return sl_fail(err, SL_EINVAL,
                           "variable '%s': each axis must be at least 1, and "
                           "all together at most %llu elements",
                           v->name, (unsigned long long)MODEL_VARIABLE_MAX);
    *rows = first;
    *row_elements = all / first;
    return SL_OK;
}

// ---- reading

static enum sl_err layout_read_variable(struct layout *l,
                                        const Sluice__V1__Variable *v,
                                        struct sl_error *err)
{
    struct layout_variable *to = &l->variables[l->variables_count];
    enum sl_err rc;

    if (v->n_shape > MODEL_RANK_MAX || v->n_keras_order > v->n_shape)
        return sl_fail(err, SL_EINVAL, "variable '%s' has too many axes",
                       v->name);
    rc = layout_rows(v, &to->rows, &to->row_elements, err);
    if (rc != SL_OK)
        return rc;
    to->shape.rank = (uint32_t)v->n_shape;
    for (size_t i = 0; i < v->n_shape; i++)
        to->shape.dim[i] = v->shape[i];
    to->keras_rank = (uint32_t)v->n_keras_order;
    for (size_t i = 0; i < v->n_keras_order; i++)
        to->keras_order[i] = v->keras_order[i];
    to->kind = v->kind == SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING
                   ? MODEL_MOVING
                   : MODEL_TRAINABLE;
    to->first = l->elements;
    to->elements = to->rows * to->row_elements;
    to->name = sl_strdup(v->name);
    if (to->name == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for the layout");
    l->variables_count++;
    if (to->elements > MODEL_ELEMENTS_MAX - l->elements)
        return sl_fail(err, SL_EINVAL,
                       "the variables have more than %llu "
                       "elements",
                       (unsigned long long)MODEL_ELEMENTS_MAX);
    l->elements += to->elements;
    return SL_OK;
}

// The next piece must begin where the one before it ended: `*at` is the next
// element.
static enum sl_err layout_read_piece(struct layout *l,
                                     const Sluice__V1__Piece *p, uint64_t *at,
                                     struct sl_error *err)
{
    struct layout_piece *to = &l->pieces[l->pieces_count];
    const struct layout_variable *v;
    struct layout_shard *shard;

    v = p->variable < l->variables_count ? &l->variables[p->variable] : NULL;
    if (v == NULL || p->rows == 0 || p->first_row > v->rows ||
        p->rows > v->rows - p->first_row ||
        p->elements != p->rows * v->row_elements ||
        v->first + p->first_row * v->row_elements != *at)
        return sl_fail(err, SL_EINVAL,
                       "piece %u does not follow the one before it, or does "
                       "not fit variable %u",
                       l->pieces_count, p->variable);
    if (p->shard != l->shards_count &&
        (l->shards_count == 0 || p->shard != l->shards_count - 1))
        return sl_fail(err, SL_EINVAL,
                       "piece %u lies on shard %u: shards are not in order",
                       l->pieces_count, p->shard);
    *to = (struct layout_piece){p->variable, p->shard, p->first_row,
                                p->rows,     *at,      p->elements};
    shard = &l->shards[p->shard];
    if (p->shard == l->shards_count) {
        *shard = (struct layout_shard){*at, 0, l->pieces_count, 0};
        l->shards_count++;
    }
    shard->elements += p->elements;
    shard->pieces++;
    l->pieces_count++;
    *at += p->elements;
    return SL_OK;
}

// Tensors are found by their names.
static enum sl_err check_names(struct layout *l, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    struct strmap seen;

    strmap_init(&seen);
    for (uint32_t i = 0; i < l->variables_count && rc == SL_OK; i++) {
        const char *name = l->variables[i].name;

        if (strmap_get(&seen, name) != NULL)
            rc = sl_fail(err, SL_EINVAL, "two variables are named '%s'", name);
        else if (strmap_put(&seen, name, l) != SL_OK)
            rc = sl_fail(err, SL_ENOMEM, "out of memory for the layout");
    }
    strmap_release(&seen);
    return rc;
}

static enum sl_err
layout_read_all(struct layout *l, Sluice__V1__Variable *const *variables,
                size_t variables_count, Sluice__V1__Piece *const *pieces,
                size_t pieces_count, uint32_t rows_shards, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    uint64_t at = 0;

    l->variables = sl_calloc(variables_count, sizeof(*l->variables));
    l->pieces = sl_calloc(pieces_count, sizeof(*l->pieces));
    l->shards = sl_calloc(pieces_count + rows_shards, sizeof(*l->shards));
    if (l->variables == NULL || l->pieces == NULL || l->shards == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for the layout");
    for (size_t i = 0; i < variables_count && rc == SL_OK; i++)
        rc = layout_read_variable(l, variables[i], err);
    if (rc == SL_OK)
        rc = check_names(l, err);
    for (size_t i = 0; i < pieces_count && rc == SL_OK; i++)
        rc = layout_read_piece(l, pieces[i], &at, err);
    if (rc == SL_OK && at != l->elements)
        return sl_fail(err, SL_EINVAL,
                       "the pieces hold %llu elements, the variables %llu",
                       (unsigned long long)at, (unsigned long long)l->elements);
    if (rows_shards > 0) // shards of rows beside a ring, or all shards
        l->first_rows = l->shards_count;
    for (uint32_t i = 0; rc == SL_OK && i < rows_shards; i++)
        l->shards[l->shards_count++] =
            (struct layout_shard){at, 0, l->pieces_count, 0};
    return rc;
}

enum sl_err layout_make(struct layout *out,
                        Sluice__V1__Variable *const *variables,
                        size_t variables_count,
                        Sluice__V1__Piece *const *pieces, size_t pieces_count,
                        uint32_t rows_shards, struct sl_error *err)
{
    struct layout l = {0};
    enum sl_err rc;

    rc = layout_read_all(&l, variables, variables_count, pieces, pieces_count,
                         rows_shards, err);
    if (rc == SL_OK)
        *out = l;
    else
        layout_release(&l);
    return rc;
}

void layout_release(struct layout *l)
{
    for (uint32_t i = 0; i < l->variables_count; i++)
        sl_free(l->variables[i].name);
    sl_free(l->variables);
    sl_free(l->pieces);
    sl_free(l->shards);
    memset(l, 0, sizeof(*l));
}

uint32_t layout_find(const struct layout *l, const char *name)
{
    for (uint32_t i = 0; i < l->variables_count; i++)
        if (strcmp(l->variables[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

// ---- writing

enum sl_err layout_part_vars(struct part_var **out, const struct model *m)
{
    struct part_var *vars = sl_calloc(m->variables_count, sizeof(*vars));

    if (vars == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];

        vars[i].rows = v->shape.rank > 0 ? v->shape.dim[0] : 1;
        vars[i].row_elements = v->elements / vars[i].rows;
    }
    *out = vars;
    return SL_OK;
}

static Sluice__V1__Variable *variable_message(const struct model_variable *v)
{
    Sluice__V1__Variable *to = sl_malloc(sizeof(*to));

    if (to == NULL)
        return NULL;
    sluice__v1__variable__init(to);
    to->name = sl_strdup(v->name);
    to->shape = sl_malloc_array(v->shape.rank, sizeof(*to->shape));
    to->keras_order = sl_malloc_array(v->keras_rank, sizeof(*to->keras_order));
    if (to->name == NULL || to->shape == NULL || to->keras_order == NULL) {
        sl_free(to->name);
        sl_free(to->shape);
        sl_free(to->keras_order);
        sl_free(to);
        return NULL;
    }
    to->n_shape = v->shape.rank;
    memcpy(to->shape, v->shape.dim, v->shape.rank * sizeof(*to->shape));
    to->n_keras_order = v->keras_rank;
    memcpy(to->keras_order, v->keras_order,
           v->keras_rank * sizeof(*to->keras_order));
    to->kind = v->kind == MODEL_MOVING
                   ? SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING
                   : SLUICE__V1__VARIABLE_KIND__VARIABLE_TRAINABLE;
    to->momentum = v->momentum;
    to->init = (Sluice__V1__InitKind)v->init.kind;
    to->init_a = v->init.a;
    to->init_b = v->init.b;
    return to;
}

_Static_assert(
    (int)MODEL_INIT_ONES_WITHIN == SLUICE__V1__INIT_KIND__INIT_ONES_WITHIN &&
        (int)MODEL_INIT_ORTHOGONAL == SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL &&
        (int)MODEL_INIT_TRUNCATED_NORMAL ==
            SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL &&
        (int)MODEL_INIT_NORMAL == SLUICE__V1__INIT_KIND__INIT_NORMAL &&
        (int)MODEL_INIT_UNIFORM == SLUICE__V1__INIT_KIND__INIT_UNIFORM,
    "model.h numbers initializers as common.proto does");

enum sl_err layout_variables(Sluice__V1__Variable ***out, const struct model *m)
{
    Sluice__V1__Variable **list = sl_calloc(m->variables_count, sizeof(*list));

    if (list == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < m->variables_count; i++) {
        list[i] = variable_message(&m->variables[i]);
        if (list[i] == NULL) {
            layout_variables_free(list, i);
            return SL_ENOMEM;
        }
    }
    *out = list;
    return SL_OK;
}

void layout_variables_free(Sluice__V1__Variable **list, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++) {
        sl_free(list[i]->name);
        sl_free(list[i]->shape);
        sl_free(list[i]->keras_order);
        sl_free(list[i]);
    }
    sl_free(list);
}

enum sl_err layout_pieces(Sluice__V1__Piece ***out,
                          const struct part_plan *plan)
{
    Sluice__V1__Piece **list = sl_calloc(plan->piece_count, sizeof(*list));

    if (list == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        const struct part_piece *p = &plan->pieces[i];

        list[i] = sl_malloc(sizeof(**list));
        if (list[i] == NULL) {
            layout_pieces_free(list, i);
            return SL_ENOMEM;
        }
        sluice__v1__piece__init(list[i]);
        list[i]->variable = p->variable;
        list[i]->first_row = p->first_row;
        list[i]->rows = p->rows;
        list[i]->shard = p->shard;
        list[i]->elements = p->elements;
    }
    *out = list;
    return SL_OK;
}

void layout_pieces_free(Sluice__V1__Piece **list, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++)
        sl_free(list[i]);
    sl_free(list);
}

// ---- Keras' order of axes

struct model_shape layout_keras_shape(const struct layout_variable *v)
{
    struct model_shape s = v->shape;

    for (uint32_t i = 0; i < v->keras_rank; i++)
        s.dim[i] = v->shape.dim[v->keras_order[i]];
    return s;
}

void layout_to_keras(const struct layout_variable *v, float *to,
                     const float *from)
{
    uint64_t stride[MODEL_RANK_MAX], step[MODEL_RANK_MAX];
    uint64_t index[MODEL_RANK_MAX] = {0}, at = 0, run = 1;
    struct model_shape keras = layout_keras_shape(v);

    if (v->keras_rank == 0) {
        memcpy(to, from, v->elements * sizeof(*to));
        return;
    }
    for (uint32_t i = v->shape.rank; i-- > 0; run *= v->shape.dim[i])
        stride[i] = run;
    for (uint32_t i = 0; i < keras.rank; i++)
        step[i] = stride[v->keras_order[i]];
    for (uint64_t n = 0; n < v->elements; n++) {
        to[n] = from[at];
        // Count up as Keras' axes do; `at` follows in ours.
        for (uint32_t i = keras.rank; i-- > 0;) {
            at += step[i];
            if (++index[i] < keras.dim[i])
                break;
            at -= step[i] * keras.dim[i];
            index[i] = 0;
        }
    }
}
