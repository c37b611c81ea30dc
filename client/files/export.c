// SPDX-License-Identifier: Apache-2.0
// client/files/export.c -- a checkpoint as one safetensors file.
//
// Each shard's values come from its psserver (Pull with the cut's tag), or,
// where that no longer serves them and the file lies on this host, from the
// snapshot itself. With --from no process is asked at all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/call/api.h"
#include "client/files/assemble.h"
#include "client/cli/cli.h"
#include "client/files/cut_manifest.h"
#include "client/cli/target.h"
#include "client/cli/verbs.h"
#include "client/files/cut_pull.h"
#include "client/files/table_export.h"
#include "common/base/mem.h"
#include "host/store/store_place.h"

struct export
{
    struct cli *cli;
    struct store_setup setup;
    struct layout layout;
    float *flat;       // owned
    const char *table; // export its rows; NULL: the variables
    struct table_export rows;
    char *classes; // a JSON array of names by output, of the heap; NULL: none
    uint64_t job, cut;
    uint64_t fewest, most; // steps, over the shards
};

// Looks the table up that is to be exported; *dim is that of its rows.
static enum sl_err find_table(const struct export *e,
                              const Sluice__V1__ModelSpec *model, uint32_t *dim,
                              struct sl_error *err)
{
    size_t count = model != NULL ? model->n_tables : 0;

    for (size_t i = 0; i < count; i++)
        if (model->tables[i]->name != NULL &&
            strcmp(model->tables[i]->name, e->table) == 0) {
            *dim = model->tables[i]->dim;
            return SL_OK;
        }
    if (count == 0)
        return sl_fail(err, SL_ENOENT,
                       "job j-%llu has no tables: without --table its "
                       "variables are exported",
                       (unsigned long long)e->job);
    return sl_fail(err, SL_ENOENT,
                   "job j-%llu has no table %s among its %zu: see "
                   "model.tables of its spec",
                   (unsigned long long)e->job, e->table, count);
}

// Makes space for the variables, or for the rows of a table of the model.
static enum sl_err make_space(struct export *e,
                              const Sluice__V1__ModelSpec *model,
                              struct sl_error *err)
{
    uint32_t dim = 0;
    enum sl_err rc;

    e->fewest = UINT64_MAX;
    if (e->table != NULL) {
        rc = find_table(e, model, &dim, err);
        return rc != SL_OK ? rc
                           : table_export_begin(&e->rows, e->table, dim,
                                                e->layout.shards_count, err);
    }
    e->flat = sl_malloc_array(e->layout.elements, sizeof(*e->flat));
    return e->flat != NULL ? SL_OK : sl_no_memory(err);
}

static void note_steps(struct export *e, uint64_t steps)
{
    if (steps < e->fewest)
        e->fewest = steps;
    if (steps > e->most)
        e->most = steps;
}

// Says what was written: as JSON, or in words.
static enum sl_err export_say(const struct export *e, const char *path,
                              uint64_t bytes, struct sl_error *err)
{
    const char *where = target_is_stdout(path) ? "to standard output" : path;
    unsigned long long cut = (unsigned long long)e->cut;
    unsigned long long steps = (unsigned long long)e->fewest;
    bool rows = e->table != NULL;
    char text[OUT_NUMBER];

    if (e->fewest != e->most)
        cli_say("The shards of cut %llu are up to %llu steps apart (%llu to "
                "%llu): a cut in mid-run",
                cut, (unsigned long long)(e->most - e->fewest), steps,
                (unsigned long long)e->most);
    if (e->cli->out.json)
        return out_json(
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:s*}", "file", path, "bytes",
                      (json_int_t)bytes, "cut", (json_int_t)e->cut, "steps",
                      (json_int_t)e->fewest, rows ? "rows" : "variables",
                      rows ? (json_int_t)e->rows.rows
                           : (json_int_t)e->layout.variables_count,
                      "table", e->table),
            err);
    out_bytes(text, bytes);
    if (rows)
        cli_say("Wrote %llu rows of table %s of cut %llu after %llu steps: "
                "%s, %s",
                (unsigned long long)e->rows.rows, e->table, cut, steps, where,
                text);
    else
        cli_say("Wrote %u variables of cut %llu after %llu steps: %s, %s",
                e->layout.variables_count, cut, steps, where, text);
    return SL_OK;
}

// Returns the name of a file that was not named, by the job and the table.
static const char *export_own_name(const struct export *e, char *own,
                                   size_t bytes)
{
    const char *table = e->table != NULL ? e->table : "";

    snprintf(own, bytes, "j-%llu%s%.*s.safetensors", (unsigned long long)e->job,
             *table != '\0' ? "." : "", WIRE_NAME_BYTES, table);
    for (char *at = own; (at = strchr(at, '/')) != NULL;)
        *at = '_';
    return own;
}

static enum sl_err export_write_file(struct export *e, struct sl_error *err)
{
    const char *to = conf_str(e->cli->conf, "to");
    char own[64 + WIRE_NAME_BYTES], job[24], cut[24];
    const char *path = to != NULL ? to : export_own_name(e, own, sizeof(own));
    struct target target;
    const struct tensor_meta meta[] = {
        {"format", "pt"}, // readers of Hugging Face's tools ask for it
        {"sluice.job", job},
        {"sluice.cut", cut},
        {"sluice.layout", "keras"},
        {"sluice.classes", e->classes}, // last: left out where there are none
    };
    const struct tensor_meta of_table[] = {
        meta[0], meta[1], meta[2], {"sluice.table", e->table}};
    uint64_t bytes = 0;
    enum sl_err rc;

    snprintf(job, sizeof(job), "j-%llu", (unsigned long long)e->job);
    snprintf(cut, sizeof(cut), "%llu", (unsigned long long)e->cut);
    rc = target_open(&target, path, err);
    if (rc != SL_OK)
        return rc;
    rc = e->table != NULL
             ? table_export_write(&e->rows, target.path, of_table,
                                  SL_COUNT(of_table), &bytes, err)
             : assemble_write(fs_posix(), target.path, &e->layout, e->flat,
                              meta, SL_COUNT(meta) - (e->classes == NULL),
                              &bytes, err);
    if (rc == SL_OK)
        rc = target_done(&target, err);
    else
        target_abort(&target);
    return rc == SL_OK ? export_say(e, path, bytes, err) : rc;
}

// A store in S3 is one that the settings lead to.
static enum sl_err fs_of(const struct export *e, const char *path,
                         struct fs **out, struct sl_error *err)
{
    if (store_is_s3(path))
        return store_fs(out, path, &e->setup, err);
    *out = fs_posix();
    return SL_OK;
}

// ---- from the psservers

static enum sl_err export_pull_shard(struct export *e, struct api_client *api,
                                     const Sluice__V1__CheckpointsReply *reply,
                                     const Sluice__V1__CheckpointShard *shard,
                                     struct sl_error *err)
{
    struct wire_pull_reply answer;
    struct rpc_body *body;
    enum sl_err rc;

    if (e->table != NULL)
        return table_export_psserver(&e->rows, shard, err);
    rc = cut_pull(&body, &answer, api, reply, shard, NULL, 0, err);
    if (rc == SL_OK)
        rc = assemble_payload(e->flat, &e->layout, shard->shard,
                              &answer.payload, err);
    rpc_body_free(body);
    return rc;
}

// Reads a shard from its snapshot.
static enum sl_err export_read_shard(struct export *e, uint32_t shard,
                                     struct fs *fs, const char *path,
                                     const uint8_t *sha256,
                                     struct sl_error *err)
{
    return e->table != NULL
               ? table_export_file(&e->rows, shard, fs, path, sha256, err)
               : assemble_snapshot(e->flat, &e->layout, shard, fs, path, sha256,
                                   err);
}

// Reads a shard from its snapshot. SL_ENOENT: that cannot be read from this
// host.
static enum sl_err export_find_shard(struct export *e,
                                     const Sluice__V1__CheckpointShard *shard,
                                     struct sl_error *err)
{
    char *path = fs_join(shard->folder, shard->file);
    struct fs *fs = NULL;
    enum sl_err rc;

    if (path == NULL)
        return sl_no_memory(err);
    if (fs_of(e, path, &fs, NULL) == SL_OK && fs_exists(fs, path))
        rc = export_read_shard(
            e, shard->shard, fs, path,
            shard->sha256.len == SHA256_BYTES ? shard->sha256.data : NULL, err);
    else
        rc = sl_fail(err, SL_ENOENT, "%s cannot be read from this host", path);
    sl_free(path);
    return rc;
}

// An ended job's psserver has forgotten its shards; the files stay. The rows of
// a table, which are many, are read from its file, and do not travel, where
// there is a choice.
static enum sl_err export_fetch_shard(struct export *e, struct api_client *api,
                                      const Sluice__V1__CheckpointsReply *reply,
                                      const Sluice__V1__CheckpointShard *shard,
                                      struct sl_error *err)
{
    struct sl_error no_file = SL_ERROR_INIT, no_answer = SL_ERROR_INIT;
    bool rows = e->table != NULL;
    enum sl_err rc, found = SL_ENOENT;

    note_steps(e, shard->steps);
    if (rows)
        found = export_find_shard(e, shard, &no_file);
    if (found == SL_ENOENT) {
        rc = export_pull_shard(e, api, reply, shard, &no_answer);
        if (rc == SL_OK)
            return SL_OK;
        if (!rows)
            found = export_find_shard(e, shard, &no_file);
        if (found == SL_ENOENT)
            return sl_fail(err, rc, "shard %u: psserver %s: %s; and %s",
                           shard->shard, shard->psserver, no_answer.text,
                           no_file.text);
    }
    return found == SL_OK ? SL_OK : sl_fail(err, found, "%s", no_file.text);
}

static const Sluice__V1__Checkpoint *
marked(const Sluice__V1__CheckpointsReply *reply, bool best)
{
    for (size_t i = 0; i < reply->n_checkpoints; i++) {
        const Sluice__V1__Checkpoint *c = reply->checkpoints[i];

        if (best ? c->best : c->restored)
            return c;
    }
    return NULL;
}

// Chooses the checkpoint to export. At the end of a job the best one is
// restored, if its spec says so.
static enum sl_err
export_choose_checkpoint(const Sluice__V1__Checkpoint **out,
                         const Sluice__V1__CheckpointsReply *reply,
                         const struct cli *cli, struct sl_error *err)
{
    uint64_t wanted = (uint64_t)conf_int(cli->conf, "cut");
    size_t n = reply->n_checkpoints;

    if (n == 0)
        return sl_fail(err, SL_ENOENT, "job %s has no checkpoint yet",
                       cli_arg(cli, 0));
    *out = wanted == 0 ? marked(reply, conf_bool(cli->conf, "best")) : NULL;
    if (*out != NULL)
        return SL_OK;
    if (conf_bool(cli->conf, "best"))
        return sl_fail(err, SL_ENOENT,
                       "job %s has no best checkpoint: its spec says no "
                       "callbacks.best_checkpoint, or nothing was evaluated "
                       "yet; see 'sluice checkpoints %s'",
                       cli_arg(cli, 0), cli_arg(cli, 0));
    for (size_t i = n; i > 0; i--) {
        *out = reply->checkpoints[i - 1];
        if (wanted == 0 || (*out)->cut == wanted)
            return SL_OK;
    }
    return sl_fail(err, SL_ENOENT,
                   "job %s has no cut %llu; see 'sluice "
                   "checkpoints %s'",
                   cli_arg(cli, 0), (unsigned long long)wanted,
                   cli_arg(cli, 0));
}

// Returns the names of the classes as JSON; NULL for none, or without memory.
static char *classes_text(const Sluice__V1__CheckpointsReply *reply)
{
    json_t *list = reply->n_classes > 0 ? json_array() : NULL;
    char *text = NULL;

    for (size_t i = 0; list != NULL && i < reply->n_classes; i++)
        json_array_append_new(list, json_string(reply->classes[i]));
    if (list != NULL && json_array_size(list) == reply->n_classes)
        text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static enum sl_err from_job(struct export *e, struct api_client *api,
                            struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *reply;
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    const Sluice__V1__Checkpoint *cut = NULL;
    enum sl_err rc;

    request.id = (char *)cli_arg(e->cli, 0);
    rc = api_checkpoints(api, &request, &reply, err);
    if (rc == SL_OK)
        rc = export_choose_checkpoint(&cut, reply, e->cli, err);
    if (rc == SL_OK)
        rc = layout_make(&e->layout, reply->variables, reply->n_variables,
                         reply->pieces, reply->n_pieces, err);
    if (rc != SL_OK)
        return rc;
    e->job = reply->job;
    e->cut = cut->cut;
    e->classes = classes_text(reply);
    e->rows.api = api;
    e->rows.reply = reply;
    model.tables = reply->tables;
    model.n_tables = reply->n_tables;
    rc = assemble_names_all(cut, &e->layout, err);
    if (rc == SL_OK)
        rc = make_space(e, &model, err);
    for (size_t i = 0; rc == SL_OK && i < cut->n_shards; i++)
        rc = export_fetch_shard(e, api, reply, cut->shards[i], err);
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    layout_release(&e->layout);
    return rc;
}

// ---- from a manifest

static enum sl_err from_manifest(struct export *e, const char *path,
                                 struct sl_error *err)
{
    struct checkpoint_manifest m;
    struct fs *fs = NULL;
    enum sl_err rc = fs_of(e, path, &fs, err);

    if (rc == SL_OK)
        rc = manifest_read(&m, fs, path, err);
    if (rc != SL_OK)
        return rc;
    e->layout = m.layout;
    e->job = m.job;
    e->cut = m.cut;
    rc = make_space(e, m.spec != NULL ? m.spec->model : NULL, err);
    for (uint32_t i = 0; rc == SL_OK && i < m.layout.shards_count; i++) {
        note_steps(e, m.shards[i].steps);
        rc = fs_of(e, m.shards[i].path, &fs, err);
        if (rc == SL_OK)
            rc = export_read_shard(e, i, fs, m.shards[i].path,
                                   m.shards[i].sha256, err);
    }
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    manifest_release(&m);
    return rc;
}

int verb_export(struct cli *cli)
{
    const char *from = conf_str(cli->conf, "from");
    const char *to = conf_str(cli->conf, "to");
    struct export e = {.cli = cli,
                       .setup = store_setup_of(cli->conf),
                       .table = conf_str(cli->conf, "table")};
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc;

    if ((from != NULL) == (cli_arg(cli, 0) != NULL))
        return cli_usage(cli, "name a job, or a manifest with --from");
    if (conf_bool(cli->conf, "best") &&
        (from != NULL || conf_int(cli->conf, "cut") != 0))
        return cli_usage(cli, "--best names one of a job's checkpoints, and "
                              "excludes --cut and --from");
    if (to != NULL && target_is_stdout(to) && cli->out.json)
        return cli_usage(cli, "standard output is either the file (--to -) or "
                              "the JSON (-o json)");
    if (to != NULL && target_is_stdout(to) && isatty(STDOUT_FILENO))
        return cli_usage(cli, "--to - writes binary data, and standard output "
                              "is a terminal: send it elsewhere");
    if (to != NULL && target_check(to, &err) != SL_OK)
        return cli_fail(&err);
    if (from != NULL) {
        rc = from_manifest(&e, from, &err);
    } else {
        rc = api_open(&api, cli->conf, &err);
        if (rc == SL_OK)
            rc = from_job(&e, api, &err);
        api_close(api);
    }
    table_export_release(&e.rows);
    sl_free(e.flat);
    free(e.classes); // jansson's
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
