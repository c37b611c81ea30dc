// SPDX-License-Identifier: Apache-2.0
// client/files/export.c -- a checkpoint as one safetensors file.
//
// Each shard's values come from its psserver (Pull with the cut's tag), or,
// where that no longer serves them and the file lies on this host, from the
// snapshot itself. With --from no process is asked at all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/call/api.h"
#include "client/files/assemble.h"
#include "client/cli/cli.h"
#include "client/files/cut_manifest.h"
#include "client/cli/target.h"
#include "client/cli/verbs.h"
#include "client/files/cut_pull.h"
#include "client/files/table_cut.h"
#include "client/files/table_delta.h"
#include "common/base/mem.h"
#include "host/store/store_place.h"

struct export
{
    struct cli *cli;
    struct store_setup setup;
    struct layout layout;
    float *flat;       // owned
    const char *table; // export its rows; NULL: the variables
    uint64_t since;    // export what changed since this cut; 0: all rows
    struct table_export rows, before; // rows at the cut, and at `since`
    struct table_delta delta;         // of the two
    char *classes; // a JSON array of names by output, of the heap; NULL: none
    uint64_t job, cut;
    uint64_t fewest, most; // steps, over the shards
};

static enum sl_err export_space(struct export *e, struct sl_error *err)
{
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

// Says in words what was written.
static void export_tell(const struct export *e, const char *where,
                        const char *size)
{
    unsigned long long cut = (unsigned long long)e->cut;
    unsigned long long steps = (unsigned long long)e->fewest;

    if (e->since != 0)
        cli_say("Wrote %zu changed rows of table %s and %zu ids that went, "
                "between cuts %llu and %llu: %s, %s",
                e->delta.changed_count, e->table, e->delta.gone_count,
                (unsigned long long)e->since, cut, where, size);
    else if (e->table != NULL)
        cli_say("Wrote %llu rows of table %s of cut %llu after %llu steps: "
                "%s, %s",
                (unsigned long long)e->rows.rows, e->table, cut, steps, where,
                size);
    else
        cli_say("Wrote %u variables of cut %llu after %llu steps: %s, %s",
                e->layout.variables_count, cut, steps, where, size);
}

static enum sl_err export_say_json(const struct export *e, const char *path,
                                   uint64_t bytes, struct sl_error *err)
{
    bool rows = e->table != NULL;
    json_int_t count = e->since != 0 ? (json_int_t)e->delta.changed_count
                       : rows        ? (json_int_t)e->rows.rows
                                     : (json_int_t)e->layout.variables_count;
    json_t *said =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:s*}", "file", path, "bytes",
                  (json_int_t)bytes, "cut", (json_int_t)e->cut, "steps",
                  (json_int_t)e->fewest, rows ? "rows" : "variables", count,
                  "table", e->table);

    if (said != NULL && e->since != 0 &&
        (json_object_set_new(said, "since",
                             json_integer((json_int_t)e->since)) != 0 ||
         json_object_set_new(said, "gone",
                             json_integer((json_int_t)e->delta.gone_count)) !=
             0)) {
        json_decref(said);
        said = NULL; // no memory
    }
    return out_json(said, err);
}

// Says what was written: as JSON, or in words.
static enum sl_err export_say(const struct export *e, const char *path,
                              uint64_t bytes, struct sl_error *err)
{
    char size[OUT_NUMBER];

    if (e->fewest != e->most)
        cli_say("The shards of cut %llu are up to %llu steps apart (%llu to "
                "%llu): a cut in mid-run",
                (unsigned long long)e->cut,
                (unsigned long long)(e->most - e->fewest),
                (unsigned long long)e->fewest, (unsigned long long)e->most);
    if (e->cli->out.json)
        return export_say_json(e, path, bytes, err);
    out_bytes(size, bytes);
    export_tell(e, target_is_stdout(path) ? "to standard output" : path, size);
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

static enum sl_err export_write_delta(struct export *e, const char *path,
                                      const char *job, uint64_t *bytes,
                                      struct sl_error *err)
{
    const struct table_delta_name name = {
        .job = job, .table = e->table, .from = e->since, .cut = e->cut};
    char *folder = fs_dirname(path);
    enum sl_err rc = folder != NULL ? table_delta_of_cuts(&e->delta, &e->before,
                                                          &e->rows, folder, err)
                                    : sl_no_memory(err);

    sl_free(folder);
    return rc == SL_OK ? table_delta_write(&e->delta, path, &name, bytes, err)
                       : rc;
}

static enum sl_err export_write(struct export *e, const char *path,
                                uint64_t *bytes, struct sl_error *err)
{
    char job[24], cut[24];
    const struct tensor_meta meta[] = {
        {"format", "pt"}, // readers of Hugging Face's tools ask for it
        {"sluice.job", job},
        {"sluice.cut", cut},
        {"sluice.layout", "keras"},
        {"sluice.classes", e->classes}, // last: left out where there are none
    };
    const struct tensor_meta of_table[] = {
        meta[0], meta[1], meta[2], {"sluice.table", e->table}};

    snprintf(job, sizeof(job), "j-%llu", (unsigned long long)e->job);
    snprintf(cut, sizeof(cut), "%llu", (unsigned long long)e->cut);
    if (e->since != 0)
        return export_write_delta(e, path, job, bytes, err);
    if (e->table != NULL)
        return table_export_write(&e->rows, path, of_table, SL_COUNT(of_table),
                                  bytes, err);
    return assemble_write(fs_posix(), path, &e->layout, e->flat, meta,
                          SL_COUNT(meta) - (e->classes == NULL), bytes, err);
}

static enum sl_err export_write_file(struct export *e, struct sl_error *err)
{
    const char *to = conf_str(e->cli->conf, "to");
    char own[64 + WIRE_NAME_BYTES];
    const char *path = to != NULL ? to : export_own_name(e, own, sizeof(own));
    struct target target;
    uint64_t bytes = 0;
    enum sl_err rc = target_open(&target, path, err);

    if (rc != SL_OK)
        return rc;
    rc = export_write(e, target.path, &bytes, err);
    if (rc == SL_OK)
        rc = target_done(&target, err);
    else
        target_abort(&target);
    return rc == SL_OK ? export_say(e, path, bytes, err) : rc;
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

    rc = cut_pull(&body, &answer, api, reply, shard, NULL, 0, err);
    if (rc == SL_OK)
        rc = assemble_payload(e->flat, &e->layout, shard->shard,
                              &answer.payload, err);
    rpc_body_free(body);
    return rc;
}

// Reads a shard from its snapshot. SL_ENOENT: that cannot be read from this
// host.
static enum sl_err export_find_shard(struct export *e,
                                     const Sluice__V1__CheckpointShard *shard,
                                     struct sl_error *err)
{
    const uint8_t *sha256 = NULL;
    struct fs *fs = NULL;
    char *path = NULL;
    enum sl_err rc = cut_file(&path, &fs, &sha256, shard, &e->setup, err);

    if (rc == SL_OK)
        rc = assemble_snapshot(e->flat, &e->layout, shard->shard, fs, path,
                               sha256, err);
    sl_free(path);
    return rc;
}

// An ended job's psserver has forgotten its shards; the files stay.
static enum sl_err export_fetch_shard(struct export *e, struct api_client *api,
                                      const Sluice__V1__CheckpointsReply *reply,
                                      const Sluice__V1__CheckpointShard *shard,
                                      struct sl_error *err)
{
    struct sl_error no_file = SL_ERROR_INIT, no_answer = SL_ERROR_INIT;
    enum sl_err found;
    enum sl_err rc = export_pull_shard(e, api, reply, shard, &no_answer);

    if (rc == SL_OK)
        return SL_OK;
    found = export_find_shard(e, shard, &no_file);
    if (found == SL_ENOENT)
        return sl_fail(err, rc, "shard %u: psserver %s: %s; and %s",
                       shard->shard, shard->psserver, no_answer.text,
                       no_file.text);
    return found == SL_OK ? SL_OK : sl_fail(err, found, "%s", no_file.text);
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

// Fails for a job that has tables alone.
static enum sl_err export_has_variables(const struct layout *l,
                                        struct sl_error *err)
{
    return l->variables_count > 0
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "the job has no variables, tables alone: say which "
                         "one by --table NAME");
}

static enum sl_err variables_of_job(struct export *e, struct api_client *api,
                                    const Sluice__V1__CheckpointsReply *reply,
                                    const Sluice__V1__Checkpoint *cut,
                                    struct sl_error *err)
{
    enum sl_err rc =
        layout_make(&e->layout, reply->variables, reply->n_variables,
                    reply->pieces, reply->n_pieces, reply->rows_shards, err);

    if (rc != SL_OK)
        return rc;
    e->classes = classes_text(reply);
    rc = export_has_variables(&e->layout, err);
    if (rc == SL_OK)
        rc = assemble_names_all(cut, &e->layout, err);
    if (rc == SL_OK)
        rc = export_space(e, err);
    for (size_t i = 0; rc == SL_OK && i < cut->n_shards; i++)
        rc = export_fetch_shard(e, api, reply, cut->shards[i], err);
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    layout_release(&e->layout);
    return rc;
}

// Opens the rows of the table at the cut, and at the one before it that is
// asked for.
static enum sl_err rows_of_job(struct export *e, struct api_client *api,
                               const Sluice__V1__CheckpointsReply *reply,
                               const Sluice__V1__Checkpoint *cut,
                               struct sl_error *err)
{
    const Sluice__V1__Checkpoint *since = NULL;
    enum sl_err rc = SL_OK;

    if (e->since != 0)
        rc = cut_find(&since, reply, cli_arg(e->cli, 0), e->since, false, err);
    if (rc == SL_OK)
        rc =
            table_cut_open(&e->rows, api, reply, cut, e->table, &e->setup, err);
    if (rc == SL_OK && since != NULL)
        rc = table_cut_open(&e->before, api, reply, since, e->table, &e->setup,
                            err);
    return rc == SL_OK ? export_write_file(e, err) : rc;
}

static enum sl_err from_job(struct export *e, struct api_client *api,
                            struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    const struct conf *conf = e->cli->conf;
    Sluice__V1__CheckpointsReply *reply;
    const Sluice__V1__Checkpoint *cut = NULL;
    enum sl_err rc;

    request.id = (char *)cli_arg(e->cli, 0);
    rc = api_checkpoints(api, &request, &reply, err);
    if (rc == SL_OK)
        rc = cut_find(&cut, reply, request.id, (uint64_t)conf_int(conf, "cut"),
                      conf_bool(conf, "best"), err);
    if (rc != SL_OK)
        return rc;
    e->job = reply->job;
    e->cut = cut->cut;
    for (size_t i = 0; i < cut->n_shards; i++)
        note_steps(e, cut->shards[i]->steps);
    return e->table != NULL ? rows_of_job(e, api, reply, cut, err)
                            : variables_of_job(e, api, reply, cut, err);
}

// ---- from a manifest

static enum sl_err manifest_space(struct export *e,
                                  const struct checkpoint_manifest *m,
                                  struct sl_error *err)
{
    const Sluice__V1__ModelSpec *model =
        m->spec != NULL ? m->spec->model : NULL;
    const Sluice__V1__TableSpec *table = NULL;
    enum sl_err rc;

    if (e->table == NULL) {
        rc = export_has_variables(&e->layout, err);
        return rc == SL_OK ? export_space(e, err) : rc;
    }
    rc = table_cut_find(&table, model != NULL ? model->tables : NULL,
                        model != NULL ? model->n_tables : 0, e->table, m->job,
                        err);
    return rc != SL_OK ? rc
                       : table_export_begin(&e->rows, e->table, table->dim,
                                            m->layout.first_rows,
                                            m->layout.shards_count, err);
}

static enum sl_err manifest_shard(struct export *e, uint32_t i,
                                  const struct manifest_shard *shard,
                                  struct sl_error *err)
{
    struct fs *fs = NULL;
    enum sl_err rc = cut_fs(&fs, shard->path, &e->setup, err);

    note_steps(e, shard->steps);
    if (rc != SL_OK || (e->table != NULL && i < e->layout.first_rows))
        return rc;
    return e->table != NULL
               ? table_export_file(&e->rows, i, fs, shard->path, shard->sha256,
                                   err)
               : assemble_snapshot(e->flat, &e->layout, i, fs, shard->path,
                                   shard->sha256, err);
}

static enum sl_err from_manifest(struct export *e, const char *path,
                                 struct sl_error *err)
{
    struct checkpoint_manifest m;
    struct fs *fs = NULL;
    enum sl_err rc = cut_fs(&fs, path, &e->setup, err);

    if (rc == SL_OK)
        rc = manifest_read(&m, fs, path, err);
    if (rc != SL_OK)
        return rc;
    e->layout = m.layout;
    e->job = m.job;
    e->cut = m.cut;
    rc = manifest_space(e, &m, err);
    for (uint32_t i = 0; rc == SL_OK && i < m.layout.shards_count; i++)
        rc = manifest_shard(e, i, &m.shards[i], err);
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    manifest_release(&m);
    return rc;
}

// ---- the verb

// Reads the number of a cut, as "12" or "cut-12"; 0: it is none.
static uint64_t export_cut_number(const char *text)
{
    size_t skip = strncmp(text, "cut-", 4) == 0 ? 4 : 0;
    size_t digits = strspn(text + skip, "0123456789");

    return digits > 0 && digits <= 18 && text[skip + digits] == '\0'
               ? strtoull(text + skip, NULL, 10)
               : 0;
}

static int export_check_since(struct export *e)
{
    const char *since = conf_str(e->cli->conf, "since");

    if (since == NULL)
        return CLI_EXIT_OK;
    if (e->table == NULL || conf_str(e->cli->conf, "from") != NULL)
        return cli_usage(e->cli, "--since is for the rows of a job's --table, "
                                 "and excludes --from");
    e->since = export_cut_number(since);
    return e->since != 0
               ? CLI_EXIT_OK
               : cli_usage(e->cli, "--since %s is no number of a cut", since);
}

// Formats that a file's name may promise, and how to get them.
static const struct export_other {
    const char *suffixes[3], *advice;
} export_others[] = {
    {{"onnx"}, "python3 -m sluice.onnx JOB --to FILE writes a model of a job"},
    {{"keras", "h5", "hdf5"},
     "sluice.keras.load_job(model, JOB) gives a Keras model the values, and "
     "model.save writes them"},
    {{"npz", "npy"},
     "in Python, numpy.savez(FILE, **sluice.export(JOB)) writes them"},
    {{"pt", "pth", "bin"},
     "in Python, torch.save takes what safetensors.torch.load_file reads"},
};

static bool export_is_suffix(const struct export_other *o, const char *suffix)
{
    for (size_t i = 0; i < SL_COUNT(o->suffixes); i++)
        if (o->suffixes[i] != NULL && strcasecmp(suffix, o->suffixes[i]) == 0)
            return true;
    return false;
}

// Returns what to do instead of exporting to a file of this name, which says
// another format; NULL: it says none.
static const char *export_other(const char *to)
{
    const char *suffix = strrchr(to, '.');

    for (size_t i = 0; suffix != NULL && i < SL_COUNT(export_others); i++)
        if (export_is_suffix(&export_others[i], suffix + 1))
            return export_others[i].advice;
    return NULL;
}

static int export_check(struct export *e, const char *from, const char *to)
{
    const struct cli *cli = e->cli;
    struct sl_error err = SL_ERROR_INIT;

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
    if (to != NULL && export_other(to) != NULL)
        return cli_usage(cli, "--to %s: this command writes safetensors (%s)",
                         to, export_other(to));
    if (to != NULL && target_check(to, &err) != SL_OK)
        return cli_fail(&err);
    return export_check_since(e);
}

int verb_export(struct cli *cli)
{
    const char *from = conf_str(cli->conf, "from");
    struct export e = {.cli = cli,
                       .setup = store_setup_of(cli->conf),
                       .table = conf_str(cli->conf, "table"),
                       .fewest = UINT64_MAX};
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    int code = export_check(&e, from, conf_str(cli->conf, "to"));
    enum sl_err rc;

    if (code != CLI_EXIT_OK)
        return code;
    if (from != NULL) {
        rc = from_manifest(&e, from, &err);
    } else {
        rc = api_open(&api, cli->conf, &err);
        if (rc == SL_OK)
            rc = from_job(&e, api, &err);
        api_close(api);
    }
    table_delta_release(&e.delta);
    table_export_release(&e.before);
    table_export_release(&e.rows);
    sl_free(e.flat);
    free(e.classes); // jansson's
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
