// SPDX-License-Identifier: Apache-2.0
// client/ask/submit.c -- submit and validate.
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/show/follow.h"
#include "client/spec/specfile.h"
#include "client/cli/verbs.h"
#include "client/spec/table_weights.h"
#include "client/spec/weights.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "proto/model.h"
#include "proto/spec.h"

#define LOOK_MS 200

// Returns the values of a key that may be said several times; sl_free. NULL: no
// memory.
static const char **submit_list(const struct cli *cli, const char *key,
                                size_t *count)
{
    const char **list;

    *count = conf_list_count(cli->conf, key);
    list = sl_malloc_array(*count + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < *count; i++)
        list[i] = conf_list_at(cli->conf, key, i);
    return list;
}

static enum sl_err submit_load_spec(const struct cli *cli,
                                    Sluice__V1__JobSpec **out,
                                    struct sl_error *err)
{
    size_t count;
    const char **sets = submit_list(cli, "set", &count);
    struct buf missing = BUF_INIT;
    enum sl_err rc;

    if (sets == NULL)
        return sl_no_memory(err);
    rc = specfile_load(out, cli_arg(cli, 0), sets, count, err);
    sl_free(sets);
    if (rc == SL_OK && specfile_missing(&missing, *out) == SL_OK)
        out_tell_lines(buf_text(&missing));
    buf_release(&missing);
    return rc;
}

// Makes a submission that is sent twice one job.
static enum sl_err request_id(char out[33], struct sl_error *err)
{
    uint8_t random[16];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return sl_fail(err, SL_EIO, "getrandom failed; say --request-id");
    hex_encode(out, random, sizeof(random));
    return SL_OK;
}

static int print_reply(struct cli *cli, const Sluice__V1__SubmitReply *reply,
                       bool dry_run)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (cli->out.json) {
        rc = out_message(&reply->base, &err);
    } else if (dry_run) {
        rc = out_write(reply->explanation, strlen(reply->explanation), &err);
        if (rc == SL_OK)
            cli_say("The spec is good; nothing was submitted");
    } else {
        char line[64];
        int n = snprintf(line, sizeof(line), "%s\n", reply->id);

        rc = out_write(line, (size_t)n, &err);
    }
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

static int follow_reply(struct cli *cli, struct api_client *api,
                        const Sluice__V1__SubmitReply *reply,
                        const struct follow_options *options)
{
    struct sl_error err = SL_ERROR_INIT;

    // Ctrl-C is caught before it is offered: a user may press it at once.
    if (follow_block(&err) != SL_OK)
        return cli_fail(&err);
    cli_say("Submitted as %s; Ctrl-C detaches", reply->id);
    return follow_job(cli, api, reply->id, options);
}

// Submits the request, and waits for a coordinator that starts. The request's
// id makes it one job, however often it is sent.
static enum sl_err submit_to(struct cli *cli, struct api_client *api,
                             const Sluice__V1__SubmitRequest *request,
                             Sluice__V1__SubmitReply **reply,
                             struct sl_error *err)
{
    const char *key =
        conf_origin(cli->conf, "wait-for-coordinator") != CONF_DEFAULT
            ? "wait-for-coordinator"
            : "timeout";
    uint64_t until = sl_real_ms() + (uint64_t)conf_int(cli->conf, key);
    bool told = false;
    enum sl_err rc;

    for (;;) {
        rc = api_submit(api, request, reply, err);
        if (rc != SL_EUNAVAIL || sl_real_ms() >= until)
            return rc;
        if (!told)
            cli_say("Waiting for a coordinator at %s (--%s)", api_address(api),
                    key);
        told = true;
        cli_pause_ms(LOOK_MS);
    }
}

// What a job starts with.
struct submit_start {
    struct weights weights;
    struct table_weights tables;
};

static int submit_spec_and_follow(struct cli *cli, Sluice__V1__JobSpec *spec,
                                  struct submit_start *start)
{
    Sluice__V1__SubmitRequest request = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SubmitReply *reply;
    struct follow_options options = {
        .summary_text = true,
        .cancel = conf_bool(cli->conf, "cancel-on-interrupt"),
        .summary = conf_str(cli->conf, "summary"),
        .period_ms = conf_int(cli->conf, "period"),
    };
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    const char *said = conf_str(cli->conf, "request-id");
    char id[33];
    int code;

    request.spec = spec;
    request.request_id = said != NULL ? (char *)said : id;
    request.dry_run = conf_bool(cli->conf, "dry-run");
    request.queue = conf_bool(cli->conf, "queue");
    if (conf_str(cli->conf, "resume") != NULL)
        request.resume = (char *)conf_str(cli->conf, "resume");
    if (start->weights.path != NULL)
        request.weights = &start->weights.file;
    request.table_weights = start->tables.list;
    request.n_table_weights = start->tables.count;
    if ((said == NULL && request_id(id, &err) != SL_OK) ||
        follow_can_write(&options, &err) != SL_OK ||
        follow_dial(&api, cli->conf, &err) != SL_OK ||
        submit_to(cli, api, &request, &reply, &err) != SL_OK)
        code = cli_fail(&err);
    else if (FAULT_ERR("submit.sent") != SL_OK)
        code = CLI_EXIT_FAILED; // accepted, but not reported so
    else if (request.dry_run || !conf_bool(cli->conf, "wait"))
        code = print_reply(cli, reply, request.dry_run);
    else
        code = follow_reply(cli, api, reply, &options);
    api_close(api);
    return code;
}

static enum sl_err read_weights(struct cli *cli, struct weights *weights,
                                const Sluice__V1__JobSpec *spec,
                                struct sl_error *err)
{
    const char *path = conf_str(cli->conf, "weights");
    enum sl_err rc;

    if (path == NULL)
        return SL_OK;
    if (spec_rows_only(spec))
        return sl_fail(err, SL_EINVAL,
                       "--weights: they are of variables, and the model has "
                       "tables alone; give --table-weights");
    rc = weights_read(weights, fs_posix(), path, spec, err);
    if (rc == SL_OK && weights->others > 0)
        cli_say("%s has %zu more tensors than the model has variables: they "
                "are left out",
                path, weights->others);
    return rc;
}

static enum sl_err read_table_weights(const struct cli *cli,
                                      struct table_weights *tables,
                                      const Sluice__V1__JobSpec *spec,
                                      struct sl_error *err)
{
    size_t count;
    const char **said = submit_list(cli, "table-weights", &count);
    enum sl_err rc = said == NULL ? sl_no_memory(err) : SL_OK;

    if (rc == SL_OK)
        rc = table_weights_read(tables, fs_posix(), said, count, spec, err);
    sl_free(said);
    return rc;
}

// Returns what is wrong with the flags, or NULL.
static const char *submit_wrong_usage(const struct cli *cli)
{
    const char *resume = conf_str(cli->conf, "resume");

    if (conf_str(cli->conf, "summary") != NULL &&
        (!conf_bool(cli->conf, "wait") || conf_bool(cli->conf, "dry-run")))
        return "--summary needs the job's end: leave out --no-wait and "
               "--dry-run";
    if (resume == NULL)
        return NULL;
    if (resume[0] == '\0')
        return "--resume is empty: name a job, or a manifest in the store";
    if (conf_str(cli->conf, "weights") != NULL)
        return "--resume brings the weights with it: leave out --weights";
    if (conf_list_count(cli->conf, "table-weights") > 0)
        return "--resume brings the rows with it: leave out --table-weights";
    return NULL;
}

int verb_submit(struct cli *cli)
{
    struct submit_start start = {.weights = {.path = NULL}};
    const char *wrong = submit_wrong_usage(cli);
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__JobSpec *spec;
    int code;

    if (wrong != NULL)
        return cli_usage(cli, "%s", wrong);
    if (submit_load_spec(cli, &spec, &err) != SL_OK)
        return cli_fail(&err);
    code = read_weights(cli, &start.weights, spec, &err) == SL_OK &&
                   read_table_weights(cli, &start.tables, spec, &err) == SL_OK
               ? submit_spec_and_follow(cli, spec, &start)
               : cli_fail(&err);
    weights_release(&start.weights);
    table_weights_release(&start.tables);
    wire_free(&spec->base);
    return code;
}

// ---- validate

static enum sl_err model_rows(struct table *t, const struct model *m,
                              const Sluice__V1__ModelSpec *spec)
{
    char text[MODEL_SHAPE_TEXT], count[OUT_NUMBER];
    static const char *const head[] = {"variable", "shape", "elements", NULL};

    table_init(t, 4, head);
    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];

        table_cell(t, "%s", v->name);
        table_cell(t, "%s", model_shape_text(text, &v->shape));
        table_cell(t, "%s", out_count(count, v->elements));
    }
    table_cell(t, "all");
    table_cell(t, " ");
    table_cell(t, "%s", out_count(count, m->elements));
    for (size_t i = 0; i < spec->n_tables; i++) {
        table_cell(t, "%s", spec->tables[i]->name);
        table_cell(t, "(rows, %u)", spec->tables[i]->dim);
        table_cell(t, "as ids come");
    }
    return t->rc;
}

static enum sl_err print_model(const Sluice__V1__JobSpec *spec,
                               struct sl_error *err)
{
    struct model *m;
    struct table t;
    enum sl_err rc = model_make(&m, spec->model, err);

    if (rc != SL_OK)
        return rc;
    model_rows(&t, m, spec->model);
    rc = table_print(&t, err);
    model_free(m);
    return rc;
}

int verb_validate(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__JobSpec *spec;
    enum sl_err rc = submit_load_spec(cli, &spec, &err);

    if (rc != SL_OK)
        return cli_fail(&err);
    if (cli->out.json) {
        rc = out_message(&spec->base, &err);
    } else {
        rc = print_model(spec, &err);
        if (rc == SL_OK)
            cli_say("%s: a good spec; -o json prints it with all defaults",
                    cli_arg(cli, 0));
    }
    wire_free(&spec->base);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
