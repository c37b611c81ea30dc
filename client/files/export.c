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
#include "common/base/mem.h"
#include "host/store/store_place.h"
#include "proto/access.h"

struct export
{
    struct cli *cli;
    struct store_setup setup;
    struct layout layout;
    float *flat;   // owned
    char *classes; // a JSON array of names by output, of the heap; NULL: none
    uint64_t job, cut;
    uint64_t fewest, most; // steps, over the shards
};

static enum sl_err make_space(struct export *e, struct sl_error *err)
{
    e->flat = sl_malloc_array(e->layout.elements, sizeof(*e->flat));
    e->fewest = UINT64_MAX;
    return e->flat != NULL ? SL_OK : sl_no_memory(err);
}

static void note_steps(struct export *e, uint64_t steps)
{
    if (steps < e->fewest)
        e->fewest = steps;
    if (steps > e->most)
        e->most = steps;
}

static enum sl_err export_write_file(struct export *e, struct sl_error *err)
{
    const char *to = conf_str(e->cli->conf, "to");
    char own[64], job[24], cut[24], text[OUT_NUMBER];
    const char *path = to != NULL ? to : own;
    struct target target;
    const struct tensor_meta meta[] = {
        {"format", "pt"}, // readers of Hugging Face's tools ask for it
        {"sluice.layout", "keras"},
        {"sluice.job", job},
        {"sluice.cut", cut},
        {"sluice.classes", e->classes}, // last: left out where there are none
    };
    uint64_t bytes = 0;
    enum sl_err rc;

    snprintf(job, sizeof(job), "j-%llu", (unsigned long long)e->job);
    snprintf(cut, sizeof(cut), "%llu", (unsigned long long)e->cut);
    snprintf(own, sizeof(own), "%s.safetensors", job);
    rc = target_open(&target, path, err);
    if (rc != SL_OK)
        return rc;
    rc = assemble_write(fs_posix(), target.path, &e->layout, e->flat, meta,
                        SL_COUNT(meta) - (e->classes == NULL), &bytes, err);
    if (rc == SL_OK)
        rc = target_done(&target, err);
    else
        target_abort(&target);
    if (rc != SL_OK)
        return rc;
    if (e->fewest != e->most)
        cli_say("The shards of cut %s are up to %llu steps apart (%llu to "
                "%llu): a cut in mid-run",
                cut, (unsigned long long)(e->most - e->fewest),
                (unsigned long long)e->fewest, (unsigned long long)e->most);
    if (e->cli->out.json)
        return out_json(json_pack("{s:s, s:I, s:I, s:I, s:I}", "file", path,
                                  "bytes", (json_int_t)bytes, "cut",
                                  (json_int_t)e->cut, "steps",
                                  (json_int_t)e->fewest, "variables",
                                  (json_int_t)e->layout.variables_count),
                        err);
    cli_say("Wrote %u variables of cut %s after %llu steps: %s, %s",
            e->layout.variables_count, cut, (unsigned long long)e->fewest,
            target_is_stdout(path) ? "to standard output" : path,
            out_bytes(text, bytes));
    return SL_OK;
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
    rc = make_space(e, err);
    for (uint32_t i = 0; rc == SL_OK && i < m.layout.shards_count; i++) {
        note_steps(e, m.shards[i].steps);
        rc = fs_of(e, m.shards[i].path, &fs, err);
        if (rc == SL_OK)
            rc = assemble_snapshot(e->flat, &m.layout, i, fs, m.shards[i].path,
                                   m.shards[i].sha256, err);
    }
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    manifest_release(&m);
    return rc;
}

// ---- from the psservers

static enum sl_err export_pull_shard(struct export *e, struct api_client *api,
                                     const Sluice__V1__CheckpointsReply *reply,
                                     const Sluice__V1__CheckpointShard *shard,
                                     struct sl_error *err)
{
    struct wire_pull request = {.job = reply->job,
                                .job_incarnation = reply->job_incarnation,
                                .shard = shard->shard,
                                .has_tag = true,
                                .tag = wire_tag_of(shard->tag)};
    struct rpc_call_options options = {.deadline_ms = api_timeout_ms(api),
                                       .max_reply_bytes = RPC_DATA_BYTES};
    struct rpc_channel *channel = NULL;
    struct rpc_body *body = NULL;
    struct wire_pull_reply answer;
    struct rpc_msg msg;
    enum sl_err rc;

    if (shard->address[0] == '\0')
        return sl_fail(err, SL_EUNAVAIL, "psserver %s is not attached",
                       shard->psserver);
    rc = rpc_channel_new(&channel, api_io(api), shard->address, api_tls(api),
                         &access_to_psserver, err);
    if (rc != SL_OK)
        return rc;
    rpc_msg_init(&msg);
    rc = wire_head_pull(&msg, &request, 0);
    if (rc == SL_OK)
        rc = rpc_call_sync(channel, WIRE_PULL, &msg, &options, &body, err);
    if (rc == SL_OK)
        rc = wire_read_pull_reply(&answer, rpc_body_slices(body), err);
    if (rc == SL_OK)
        rc = assemble_payload(e->flat, &e->layout, shard->shard,
                              &answer.payload, err);
    rpc_body_free(body);
    rpc_channel_free(channel);
    return rc;
}

static enum sl_err export_fetch_shard(struct export *e, struct api_client *api,
                                      const Sluice__V1__CheckpointsReply *reply,
                                      const Sluice__V1__CheckpointShard *shard,
                                      struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct fs *fs = NULL;
    char *path;
    enum sl_err rc = export_pull_shard(e, api, reply, shard, &why);

    note_steps(e, shard->steps);
    if (rc == SL_OK)
        return SL_OK;
    // An ended job's psserver has forgotten its shards; the files stay.
    path = fs_join(shard->folder, shard->file);
    if (path != NULL && fs_of(e, path, &fs, NULL) == SL_OK &&
        fs_exists(fs, path))
        rc = assemble_snapshot(
            e->flat, &e->layout, shard->shard, fs, path,
            shard->sha256.len == SHA256_BYTES ? shard->sha256.data : NULL, err);
    else
        sl_fail(err, rc,
                "shard %u: psserver %s: %s; and %s cannot be read from this "
                "host",
                shard->shard, shard->psserver, why.text,
                path != NULL ? path : shard->file);
    sl_free(path);
    return rc;
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
    rc = assemble_names_all(cut, &e->layout, err);
    if (rc == SL_OK)
        rc = make_space(e, err);
    for (size_t i = 0; rc == SL_OK && i < cut->n_shards; i++)
        rc = export_fetch_shard(e, api, reply, cut->shards[i], err);
    if (rc == SL_OK)
        rc = export_write_file(e, err);
    layout_release(&e->layout);
    return rc;
}

int verb_export(struct cli *cli)
{
    const char *from = conf_str(cli->conf, "from");
    const char *to = conf_str(cli->conf, "to");
    struct export e = {.cli = cli, .setup = store_setup_of(cli->conf)};
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
    sl_free(e.flat);
    free(e.classes); // jansson's
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
