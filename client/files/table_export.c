// SPDX-License-Identifier: Apache-2.0
// client/files/table_export.c -- records of snapshots, from files or psservers,
// to ids and values.
#include "client/files/table_export.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "proto/table_chain.h"
#include "proto/table_rows.h"

#define ROWS_AT_ONCE 1024 // that are copied behind one another

struct table_part {
    struct tensorfile *file;  // owned; NULL: a psserver has them
    struct table_chain chain; // `file` with the snapshots that it is a delta to
    struct table_live live;   // records of the chain
    const Sluice__V1__CheckpointShard *shard;
    uint64_t records;
    uint32_t record_bytes;
};

enum sl_err table_export_begin(struct table_export *x, const char *name,
                               uint32_t dim, uint32_t first, uint32_t shards,
                               struct sl_error *err)
{
    x->name = name;
    x->dim = dim;
    x->first = first;
    x->shards = shards;
    x->part = sl_calloc(shards, sizeof(*x->part));
    return x->part != NULL ? SL_OK : sl_no_memory(err);
}

static void table_part_release(struct table_part *part)
{
    table_live_release(&part->live);
    table_chain_close(&part->chain);
    tensorfile_close(part->file);
    *part = (struct table_part){.file = NULL};
}

void table_export_release(struct table_export *x)
{
    for (uint32_t i = 0; x->part != NULL && i < x->shards; i++)
        table_part_release(&x->part[i]);
    sl_free(x->part);
    x->part = NULL;
}

// Returns true if records of this size can be the table's. Their number says
// nothing that could be wrong, but the file of all rows has to have a size.
static bool records_fit(const struct table_export *x, uint64_t records,
                        uint64_t record_bytes)
{
    return record_bytes >= TABLE_RECORD_HEAD + x->dim * sizeof(float) &&
           record_bytes % 8 == 0 && record_bytes <= RPC_DATA_BYTES &&
           records <= (UINT64_C(1) << 50) - x->rows;
}

static enum sl_err table_part_set(struct table_export *x,
                                  struct table_part *part, uint64_t records,
                                  uint64_t record_bytes, const char *where,
                                  struct sl_error *err)
{
    if (!records_fit(x, records, record_bytes))
        return sl_fail(err, SL_ECORRUPT,
                       "%s: %llu records of %llu bytes are no rows of table "
                       "%s, of %u numbers",
                       where, (unsigned long long)records,
                       (unsigned long long)record_bytes, x->name, x->dim);
    part->records = records;
    part->record_bytes = (uint32_t)record_bytes;
    x->rows += records;
    return SL_OK;
}

// ---- a snapshot file

static enum sl_err part_of_file(struct table_export *x, struct table_part *part,
                                const char *path, struct sl_error *err)
{
    enum sl_err rc =
        table_live_init(&part->live, &part->chain, 0, x->name, err);

    if (rc == SL_ENOENT)
        return sl_fail(err, SL_ECORRUPT, "%s: it has no rows of table %s", path,
                       x->name);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "%s", path);
    return table_part_set(x, part, part->live.records, part->live.record_bytes,
                          path, err);
}

enum sl_err table_export_file(struct table_export *x, uint32_t shard,
                              struct fs *fs, const char *path,
                              const uint8_t *sha256, struct sl_error *err)
{
    struct table_part *part = &x->part[shard];
    enum sl_err rc = SL_OK;

    if (sha256 != NULL)
        rc = sha256_file_is(fs, path, sha256, "cut", err);
    if (rc == SL_OK)
        rc =
            tensorfile_open(&part->file, fs, path, TENSORFILE_HEADER_OURS, err);
    if (rc == SL_OK)
        rc = tensorfile_verify(part->file, err);
    if (rc == SL_OK)
        rc = table_chain_beside(&part->chain, part->file, fs, path, true, err);
    if (rc == SL_OK)
        rc = part_of_file(x, part, path, err);
    if (rc != SL_OK)
        table_part_release(part); // a psserver may have the rows
    return rc;
}

// ---- a psserver

enum sl_err table_export_psserver(struct table_export *x,
                                  const Sluice__V1__CheckpointShard *shard,
                                  struct sl_error *err)
{
    struct table_part *part = &x->part[shard->shard];
    struct wire_pull_reply answer;
    struct rpc_body *body;
    enum sl_err rc; // from a number that no record has: none come

    rc = cut_pull(&body, &answer, x->api, x->reply, shard, x->name, UINT64_MAX,
                  err);
    if (rc != SL_OK)
        return rc;
    part->shard = shard;
    rc = table_part_set(x, part, answer.records, answer.record_bytes,
                        shard->psserver, err);
    rpc_body_free(body);
    return rc;
}

// ---- what is written of each row

// What is being written of each row: its id, its values, or all.
struct table_writer {
    const struct table_export *x;
    struct tensorfile_writer *file;
    size_t from, bytes; // of a record
    uint8_t *space;     // of ROWS_AT_ONCE of them; NULL: all is written
};

static enum sl_err write_records(struct table_writer *w, const uint8_t *records,
                                 uint64_t n, size_t record_bytes,
                                 struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (w->bytes == record_bytes)
        return tensorfile_append(w->file, records, n * record_bytes, err);
    for (uint64_t i = 0; rc == SL_OK && i < n;) {
        size_t k = 0;

        for (; k < ROWS_AT_ONCE && i < n; k++, i++)
            memcpy(w->space + k * w->bytes,
                   records + i * record_bytes + w->from, w->bytes);
        rc = tensorfile_append(w->file, w->space, k * w->bytes, err);
    }
    return rc;
}

static enum sl_err write_live(struct table_writer *w,
                              const struct table_live *live,
                              struct sl_error *err)
{
    struct table_live_at at = {0};
    enum sl_err rc = SL_OK;
    struct table_run run;

    while (rc == SL_OK && table_live_next(live, &at, UINT64_MAX, &run))
        rc = write_records(w, table_run_data(&run), run.n, live->record_bytes,
                           err);
    return rc;
}

// Writes what came of a psserver's records; *next is the first one that has not
// come.
static enum sl_err write_answer(struct table_writer *w,
                                const struct table_part *part,
                                const struct wire_pull_reply *answer,
                                uint64_t *next, struct sl_error *err)
{
    size_t bytes = answer->payload.bytes;
    uint64_t n = bytes / part->record_bytes;
    uint8_t *records;
    enum sl_err rc;

    if (answer->records != part->records ||
        answer->record_bytes != part->record_bytes || n == 0 ||
        bytes % part->record_bytes != 0 || n > part->records - *next)
        return sl_fail(err, SL_ECORRUPT,
                       "psserver %s: %zu bytes of table %s came, which are no "
                       "records of the snapshot",
                       part->shard->psserver, bytes, w->x->name);
    records = sl_malloc(bytes);
    if (records == NULL)
        return sl_no_memory(err);
    slices_copy(records, &answer->payload);
    rc = write_records(w, records, n, part->record_bytes, err);
    sl_free(records);
    *next += n;
    return rc;
}

static enum sl_err write_pulled(struct table_writer *w,
                                const struct table_part *part,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint64_t next = 0; rc == SL_OK && next < part->records;) {
        struct wire_pull_reply answer;
        struct rpc_body *body;

        rc = cut_pull(&body, &answer, w->x->api, w->x->reply, part->shard,
                      w->x->name, next, err);
        if (rc != SL_OK)
            break;
        rc = write_answer(w, part, &answer, &next, err);
        rpc_body_free(body);
    }
    return rc;
}

// ---- rows of psservers as a file of this host

#define FETCHED "fetched-"

bool table_export_left(const char *name)
{
    return strncmp(name, FETCHED, strlen(FETCHED)) == 0;
}

// Writes the rows in the form of a snapshot that has nothing else.
static enum sl_err table_write_fetched(const struct table_export *x,
                                       const struct table_part *part,
                                       const char *path, struct sl_error *err)
{
    char name[sizeof(TABLE_ROWS_TENSOR) + WIRE_NAME_BYTES];
    struct tensor_info tensor = {.name = name,
                                 .dtype = TENSOR_U8,
                                 .rank = 2,
                                 .shape = {part->records, part->record_bytes}};
    struct table_writer w = {.x = x, .bytes = part->record_bytes};
    enum sl_err rc;

    snprintf(name, sizeof(name), "%s%.*s", TABLE_ROWS_TENSOR, WIRE_NAME_BYTES,
             x->name);
    rc = tensorfile_layout(&tensor, 1, err);
    if (rc == SL_OK)
        rc = tensorfile_create(&w.file, fs_posix(), path, &tensor, 1, NULL, 0,
                               false, err);
    if (rc == SL_OK)
        rc = write_pulled(&w, part, err);
    if (rc == SL_OK)
        return tensorfile_finish(w.file, NULL, err);
    tensorfile_abort(w.file);
    return rc;
}

static enum sl_err table_fetch(struct table_export *x, struct table_part *part,
                               const char *folder, struct sl_error *err)
{
    struct table_chain chain = {.mapped = true};
    struct tensorfile *file = NULL;
    char name[64];
    char *path;
    enum sl_err rc;

    snprintf(name, sizeof(name), FETCHED "%d-%u", (int)getpid(),
             part->shard->shard);
    path = fs_join(folder, name);
    if (path == NULL)
        return sl_no_memory(err);
    rc = table_write_fetched(x, part, path, err);
    if (rc == SL_OK) {
        rc = tensorfile_open(&file, fs_posix(), path, TENSORFILE_HEADER_OURS,
                             err);
        fs_unlink(fs_posix(), path, NULL);
    }
    sl_free(path);
    chain.top = file;
    if (rc == SL_OK)
        rc = table_live_init(&part->live, &chain, 0, x->name, err);
    if (rc != SL_OK) { // a part with a file has its rows here
        tensorfile_close(file);
        return rc;
    }
    part->file = file;
    part->chain = chain;
    return SL_OK;
}

enum sl_err table_export_fetch(struct table_export *x, const char *folder,
                               struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = x->first; rc == SL_OK && i < x->shards; i++)
        if (x->part[i].file == NULL)
            rc = table_fetch(x, &x->part[i], folder, err);
    return rc;
}

const struct table_live *table_export_records(const struct table_export *x,
                                              uint32_t shard)
{
    return &x->part[shard].live;
}

// ---- the file of all rows

// Writes bytes [from, from + bytes) of each record, of all shards.
static enum sl_err write_all(const struct table_export *x,
                             struct tensorfile_writer *file, size_t from,
                             size_t bytes, struct sl_error *err)
{
    struct table_writer w = {.x = x,
                             .file = file,
                             .from = from,
                             .bytes = bytes,
                             .space = sl_malloc_array(bytes, ROWS_AT_ONCE)};
    enum sl_err rc = w.space != NULL ? SL_OK : sl_no_memory(err);

    for (uint32_t i = x->first; rc == SL_OK && i < x->shards; i++) {
        const struct table_part *part = &x->part[i];

        rc = part->file != NULL ? write_live(&w, &part->live, err)
                                : write_pulled(&w, part, err);
    }
    sl_free(w.space);
    return rc;
}

enum sl_err table_export_write(const struct table_export *x, const char *path,
                               const struct tensor_meta *meta,
                               size_t meta_count, uint64_t *bytes,
                               struct sl_error *err)
{
    struct tensor_info tensors[] = {{.name = TABLE_FILE_IDS,
                                     .dtype = TENSOR_U64,
                                     .rank = 1,
                                     .shape = {x->rows}},
                                    {.name = TABLE_FILE_VALUES,
                                     .dtype = TENSOR_F32,
                                     .rank = 2,
                                     .shape = {x->rows, x->dim}}};
    struct tensorfile_writer *w = NULL;
    enum sl_err rc = tensorfile_layout(tensors, SL_COUNT(tensors), err);

    if (rc == SL_OK) // which puts the wider type first: the ids
        rc = tensorfile_create(&w, fs_posix(), path, tensors, SL_COUNT(tensors),
                               meta, meta_count, false, err);
    if (rc == SL_OK)
        rc = write_all(x, w, 0, sizeof(uint64_t), err);
    if (rc == SL_OK)
        rc = write_all(x, w, TABLE_RECORD_HEAD, x->dim * sizeof(float), err);
    if (rc == SL_OK)
        rc = tensorfile_finish(w, bytes, err);
    else
        tensorfile_abort(w);
    return rc;
}
