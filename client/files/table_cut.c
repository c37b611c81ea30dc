// SPDX-License-Identifier: Apache-2.0
// client/files/table_cut.c -- a table of a cut: shard by shard.
#include "client/files/table_cut.h"

#include <string.h>

#include "client/files/assemble.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

enum sl_err table_cut_find(const Sluice__V1__TableSpec **out,
                           Sluice__V1__TableSpec *const *tables, size_t count,
                           const char *name, uint64_t job, struct sl_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (tables[i]->name != NULL && strcmp(tables[i]->name, name) == 0) {
            *out = tables[i];
            return SL_OK;
        }
    if (count == 0)
        return sl_fail(err, SL_ENOENT,
                       "job j-%llu has no tables: 'sluice export' without "
                       "--table writes its variables",
                       (unsigned long long)job);
    return sl_fail(err, SL_ENOENT,
                   "job j-%llu has no table %s among its %zu: see "
                   "model.tables of its spec",
                   (unsigned long long)job, name, count);
}

static enum sl_err table_cut_file(struct table_export *x,
                                  const Sluice__V1__CheckpointShard *shard,
                                  const struct store_setup *setup,
                                  struct sl_error *err)
{
    const uint8_t *sha256 = NULL;
    char *path = NULL;
    struct fs *fs = NULL;
    enum sl_err rc = cut_file(&path, &fs, &sha256, shard, setup, err);

    if (rc == SL_OK)
        rc = table_export_file(x, shard->shard, fs, path, sha256, err);
    sl_free(path);
    return rc;
}

// The rows of a table, which are many, are read from their file and do not
// travel, where there is a choice.
static enum sl_err table_cut_shard(struct table_export *x,
                                   const Sluice__V1__CheckpointShard *shard,
                                   const struct store_setup *setup,
                                   struct sl_error *err)
{
    struct sl_error no_file = SL_ERROR_INIT, no_answer = SL_ERROR_INIT;
    enum sl_err rc = table_cut_file(x, shard, setup, &no_file);

    if (rc != SL_ENOENT)
        return rc == SL_OK ? SL_OK : sl_fail(err, rc, "%s", no_file.text);
    rc = table_export_psserver(x, shard, &no_answer);
    return rc == SL_OK ? SL_OK
                       : sl_fail(err, rc, "shard %u: psserver %s: %s; and %s",
                                 shard->shard, shard->psserver, no_answer.text,
                                 no_file.text);
}

enum sl_err table_cut_open(struct table_export *x, struct api_client *api,
                           const Sluice__V1__CheckpointsReply *reply,
                           const Sluice__V1__Checkpoint *cut, const char *name,
                           const struct store_setup *setup,
                           struct sl_error *err)
{
    const Sluice__V1__TableSpec *table = NULL;
    struct layout layout = {0};
    enum sl_err rc = table_cut_find(&table, reply->tables, reply->n_tables,
                                    name, reply->job, err);

    if (rc == SL_OK)
        rc = layout_make(&layout, reply->variables, reply->n_variables,
                         reply->pieces, reply->n_pieces, reply->rows_shards,
                         err);
    if (rc != SL_OK)
        return rc;
    x->api = api;
    x->reply = reply;
    rc = assemble_names_all(cut, &layout, err);
    if (rc == SL_OK)
        rc = table_export_begin(x, name, table->dim, layout.first_rows,
                                layout.shards_count, err);
    for (size_t i = 0; rc == SL_OK && i < cut->n_shards; i++)
        if (cut->shards[i]->shard >= layout.first_rows)
            rc = table_cut_shard(x, cut->shards[i], setup, err);
    layout_release(&layout);
    return rc;
}
