// SPDX-License-Identifier: Apache-2.0
// client/trace/trace.c -- sluice trace: what every process does for a job, for
// some seconds, as one file.
#include <pthread.h>
#include <stdio.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/target.h"
#include "client/trace/tracefile.h"
#include "client/cli/verbs.h"

struct collector {
    struct tracefile *file; // the I/O thread's until `ended`
    struct wire_arena arena;
    enum sl_err rc; // of a piece
    struct sl_error err;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool ended;
        struct sl_error why;
    } shared;
};

// ---- on the I/O thread

static void trace_on_reply(struct rpc_stream *stream,
                           const struct sl_slices *body, void *user)
{
    struct collector *c = user;
    Sluice__V1__TraceReply *reply;

    if (c->rc != SL_OK)
        return;
    wire_arena_reset(&c->arena);
    c->rc = wire_unpack_trace_reply(&reply, &c->arena, body, &c->err);
    if (c->rc == SL_OK && tracefile_add(c->file, reply) != SL_OK)
        c->rc = sl_fail(&c->err, SL_ENOMEM, "no memory for the trace");
    if (c->rc != SL_OK)
        rpc_stream_cancel(stream);
}

static void trace_on_end(struct rpc_stream *stream, enum sl_err code,
                         const struct sl_error *err, void *user)
{
    struct collector *c = user;

    (void)stream;
    pthread_mutex_lock(&c->shared.lock);
    if (err != NULL)
        c->shared.why = *err;
    c->shared.why.code = code;
    c->shared.ended = true;
    pthread_cond_signal(&c->shared.changed);
    pthread_mutex_unlock(&c->shared.lock);
}

// ---- main

// Checks that the coordinator and job `id` exist, within --timeout: the stream
// itself has no deadline, as the user ends it.
static enum sl_err trace_check_job(struct api_client *api, const char *id,
                                   struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status;

    request.id = (char *)id;
    return api_get(api, &request, &status, err);
}

static enum sl_err trace_collect_stream(struct collector *c,
                                        struct api_client *api,
                                        const Sluice__V1__TraceRequest *request,
                                        struct sl_error *err)
{
    static const struct rpc_stream_events events = {
        .on_message = trace_on_reply, .on_end = trace_on_end};
    struct rpc_call_options options = {.deadline_ms = RPC_NO_DEADLINE};
    struct rpc_stream *stream = NULL;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_msg(&msg, &request->base);
    if (rc != SL_OK)
        return sl_fail(err, rc, "out of memory");
    rc = rpc_stream_open(&stream, api_channel(api), WIRE_TRACE, &msg, &options,
                         &events, c, err);
    if (rc != SL_OK)
        return rc;
    pthread_mutex_lock(&c->shared.lock);
    while (!c->shared.ended)
        pthread_cond_wait(&c->shared.changed, &c->shared.lock);
    pthread_mutex_unlock(&c->shared.lock);
    rpc_stream_unref(stream);
    *err = c->rc != SL_OK ? c->err : c->shared.why;
    if (err->code == SL_ENOTSUP)
        return sl_fail(err, SL_ENOTSUP,
                       "coordinator %s makes no traces: its version is too old",
                       api_address(api));
    if (err->code != SL_OK)
        api_explain(err, api_address(api), api_timeout_ms(api));
    return err->code;
}

static enum sl_err trace_write_file(struct collector *c, const char *job,
                                    const char *path, struct sl_error *err)
{
    struct tracefile_sums sums = tracefile_sums(c->file);
    struct buf text = BUF_INIT;
    const char *why, *name;
    enum sl_err rc = tracefile_write(c->file, job, &text);

    if (rc != SL_OK)
        rc = sl_fail(err, rc, "%s: out of memory", path);
    else
        rc = target_write(path, text.data, text.len, err);
    buf_release(&text);
    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; (why = tracefile_missing(c->file, i, &name)) != NULL;
         i++)
        cli_say("sluice: nothing from %s: %s", name, why);
    cli_say("%zu spans of %zu processes in %s; open it at "
            "https://ui.perfetto.dev",
            sums.spans, sums.processes, path);
    return SL_OK;
}

int verb_trace(struct cli *cli)
{
    const char *path = conf_origin(cli->conf, "output") == CONF_FLAG
                           ? conf_str(cli->conf, "output")
                           : "trace.json";
    Sluice__V1__TraceRequest request = SLUICE__V1__TRACE_REQUEST__INIT;
    struct collector c = {.err = SL_ERROR_INIT};
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = target_check(path, &err);

    request.id = (char *)cli_arg(cli, 0);
    request.ms = 1000 * (uint32_t)conf_int(cli->conf, "seconds");
    pthread_mutex_init(&c.shared.lock, NULL);
    pthread_cond_init(&c.shared.changed, NULL);
    wire_arena_init(&c.arena);
    if (rc == SL_OK && tracefile_new(&c.file) != SL_OK)
        rc = sl_no_memory(&err);
    if (rc == SL_OK)
        rc = api_open(&api, cli->conf, &err);
    if (rc == SL_OK)
        rc = trace_check_job(api, request.id, &err);
    if (rc == SL_OK)
        rc = trace_collect_stream(&c, api, &request, &err);
    if (rc == SL_OK)
        rc = trace_write_file(&c, request.id, path, &err);
    api_close(api); // and with it the I/O thread
    tracefile_free(c.file);
    wire_arena_release(&c.arena);
    pthread_cond_destroy(&c.shared.changed);
    pthread_mutex_destroy(&c.shared.lock);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
