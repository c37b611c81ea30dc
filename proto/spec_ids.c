// SPDX-License-Identifier: Apache-2.0
// proto/spec_ids.c -- the check of the columns of ids that data has.
#include "proto/spec_check.h"

#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

#define ID_NAME_BYTES 200

static enum sl_err spec_check_hash(Sluice__V1__IdColumnSpec *c, bool text,
                                   const char *path, struct sl_error *err)
{
    static const char *const hashes[] = {"xxh64"};
    char at[80];

    if (c->hash == NULL && c->has_seed)
        return sl_fail(err, SL_EINVAL,
                       "%s.seed: is the seed of a hash; say hash: xxh64", path);
    if (c->hash == NULL)
        return SL_OK;
    if (!text)
        return sl_fail(
            err, SL_EINVAL,
            "%s.hash: makes ids of the text of a csv or a tfrecord; an npz "
            "or libsvm has numbers",
            path);
    SPEC_DEFAULT(c, seed, 0);
    snprintf(at, sizeof(at), "%s.hash", path);
    return spec_word(at, c->hash, hashes, SL_COUNT(hashes), NULL, err);
}

const char *spec_column_used(const Sluice__V1__SourceSpec *s, const char *name)
{
    if (s->label_column != NULL && strcmp(name, s->label_column) == 0)
        return "the label_column";
    for (size_t i = 0; i < s->n_label_columns; i++)
        if (strcmp(name, s->label_columns[i]) == 0)
            return "one of label_columns";
    for (size_t i = 0; i < s->n_columns; i++)
        if (strcmp(name, s->columns[i]) == 0)
            return "one of columns";
    return NULL;
}

// Says what else of the source has the name of an id column; NULL: nothing.
static const char *spec_id_name_used(const Sluice__V1__SourceSpec *s,
                                     size_t column)
{
    const char *name = s->ids[column]->name, *used = spec_column_used(s, name);

    if (used != NULL)
        return used;
    for (size_t i = 0; i < column; i++)
        if (strcmp(name, s->ids[i]->name) == 0)
            return "another of ids";
    return NULL;
}

enum sl_err spec_check_ids(const Sluice__V1__SourceSpec *s, const char *format,
                           const char *path, struct sl_error *err)
{
    bool csv = strcmp(format, "csv") == 0;
    bool text = csv || strcmp(format, "tfrecord") == 0;

    if (csv && s->n_ids > 0 && s->delimiter[0] == '|')
        return sl_fail(err, SL_EINVAL,
                       "%s.delimiter: '|' separates the ids of a cell; "
                       "columns need another",
                       path);
    for (size_t i = 0; i < s->n_ids; i++) {
        const char *name = s->ids[i]->name, *used;
        size_t n = name != NULL ? strlen(name) : 0;
        char at[64];
        enum sl_err rc;

        snprintf(at, sizeof(at), "%s.ids[%zu]", path, i);
        if (n == 0 || n > ID_NAME_BYTES || !utf8_plain(name, n))
            return sl_fail(err, SL_EINVAL,
                           "%s.name: wants the name of a column, of 1 to %d "
                           "bytes, without control characters",
                           at, ID_NAME_BYTES);
        used = spec_id_name_used(s, i);
        if (used != NULL)
            return sl_fail(err, SL_EINVAL, "%s: '%.60s' is %s too", at, name,
                           used);
        rc = spec_check_hash(s->ids[i], text, at, err);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

static bool spec_same_ids(const Sluice__V1__SourceSpec *a,
                          const Sluice__V1__SourceSpec *b)
{
    bool same = a->n_ids == b->n_ids;

    for (size_t i = 0; same && i < a->n_ids; i++) {
        const Sluice__V1__IdColumnSpec *x = a->ids[i], *y = b->ids[i];

        same = strcmp(x->name, y->name) == 0 && x->seed == y->seed &&
               (x->hash == NULL) == (y->hash == NULL);
    }
    return same;
}

enum sl_err spec_check_ids_same(const Sluice__V1__DataSpec *data,
                                struct sl_error *err)
{
    if (data->test != NULL && !spec_same_ids(data->train, data->test))
        return sl_fail(err, SL_EINVAL,
                       "data.test.ids: wants the columns of data.train.ids, in "
                       "the same order and with the same hashes");
    return SL_OK;
}
