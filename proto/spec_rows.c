// SPDX-License-Identifier: Apache-2.0
// proto/spec_rows.c -- the tables of layers with rows, and the columns of ids
// that these layers read.
#include "proto/spec_check.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"

// ---- columns of ids

static bool spec_column_read(const struct model *m, const char *column)
{
    for (uint32_t i = 0; i < m->nodes_count; i++)
        if (m->nodes[i].column != NULL &&
            strcmp(m->nodes[i].column, column) == 0)
            return true;
    return false;
}

size_t spec_ids_column(const Sluice__V1__SourceSpec *s, const char *name)
{
    size_t column = 0;

    while (column < s->n_ids && strcmp(s->ids[column]->name, name) != 0)
        column++;
    return column;
}

static enum sl_err spec_unknown_column(const Sluice__V1__SourceSpec *s,
                                       const struct model_node *n,
                                       struct sl_error *err)
{
    const char **names = sl_malloc_array(s->n_ids, sizeof(*names));
    const char *near = NULL;

    for (size_t i = 0; names != NULL && i < s->n_ids; i++)
        names[i] = s->ids[i]->name;
    if (names != NULL)
        near = sl_suggest(n->column, names, s->n_ids);
    sl_free(names);
    return sl_fail(
        err, SL_EINVAL,
        "layer '%s' (embedding) reads ids '%.60s', which is no "
        "column of data.train.ids (csv, libsvm and npz have some)%s%.60s%s",
        n->name, n->column, near != NULL ? "; did you mean '" : "",
        near != NULL ? near : "", near != NULL ? "'?" : "");
}

enum sl_err spec_check_columns(const Sluice__V1__SourceSpec *s,
                               const struct model *m, struct sl_error *err)
{
    for (uint32_t i = 0; i < m->nodes_count; i++)
        if (m->nodes[i].column != NULL &&
            spec_ids_column(s, m->nodes[i].column) == s->n_ids)
            return spec_unknown_column(s, &m->nodes[i], err);
    for (size_t i = 0; i < s->n_ids; i++)
        if (!spec_column_read(m, s->ids[i]->name))
            return sl_fail(err, SL_EINVAL,
                           "data.train.ids: no layer of the model reads the "
                           "ids of column '%.60s'; leave the column out",
                           s->ids[i]->name);
    return SL_OK;
}

// ---- tables

bool spec_has_rows(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__ModelSpec *model = spec->model;
    bool has = false;

    for (size_t i = 0; i < model->n_layers; i++)
        has = has || model->layers[i]->rows != NULL;
    return has;
}

bool spec_has_tables(const Sluice__V1__JobSpec *spec)
{
    return spec->model->n_tables > 0 || spec_has_rows(spec);
}

// Makes the table of a layer, of node `n`, with what the layer says.
static enum sl_err spec_layer_table(Sluice__V1__TableSpec **out,
                                    const Sluice__V1__LayerSpec *l,
                                    const struct model_node *n)
{
    Sluice__V1__TableSpec t = SLUICE__V1__TABLE_SPEC__INIT;
    ProtobufCMessage *copy;
    enum sl_err rc;

    t.name = (char *)(uintptr_t)n->name;
    t.has_dim = true;
    t.dim = l->output_dim;
    t.has_buckets = l->has_buckets;
    t.buckets = l->buckets;
    t.initializer = l->embeddings_initializer;
    t.optimizer = l->optimizer;
    t.admit = l->admit;
    t.evict = l->evict;
    rc = wire_dup(&copy, &t.base);
    if (rc == SL_OK)
        *out = (Sluice__V1__TableSpec *)copy;
    return rc;
}

void spec_free_tables(struct spec_table_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->tables[i] != NULL)
            wire_free(&list->tables[i]->base);
    sl_free(list->tables);
    *list = (struct spec_table_list){.count = 0};
}

enum sl_err spec_layer_tables(struct spec_table_list *out,
                              const Sluice__V1__ModelSpec *spec,
                              const struct model *m)
{
    struct spec_table_list made = {.count = m->tables};
    enum sl_err rc = SL_OK;

    made.tables = sl_calloc(m->tables, sizeof(Sluice__V1__TableSpec *));
    if (made.tables == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 1; rc == SL_OK && i < m->nodes_count; i++)
        if (m->nodes[i].column != NULL)
            rc = spec_layer_table(&made.tables[m->nodes[i].table],
                                  spec->layers[i - 1], &m->nodes[i]);
    if (rc == SL_OK)
        *out = made;
    else
        spec_free_tables(&made);
    return rc;
}

enum sl_err spec_same_tables(const struct spec_table_list *had,
                             const Sluice__V1__ModelSpec *model,
                             struct sl_error *err)
{
    bool same = had->count == model->n_tables;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && same && i < had->count; i++)
        rc = spec_same(&same, &had->tables[i]->base, &model->tables[i]->base);
    if (rc != SL_OK || same || had->count == 0)
        return rc;
    return sl_fail(err, SL_EINVAL,
                   "model.tables: the tables of this model are those of its "
                   "layers with 'rows: dynamic', and the list says others; "
                   "leave model.tables out");
}
