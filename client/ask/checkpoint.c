// SPDX-License-Identifier: Apache-2.0
// client/ask/checkpoint.c -- a cut on demand.
#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/show/patience.h"
#include "client/cli/verbs.h"

// Asks until it is there. What is asked for stays what it was at first, also
// for a coordinator that was started again meanwhile.
static enum sl_err checkpoint_await(struct api_client *api,
                                    const struct conf *conf,
                                    Sluice__V1__CheckpointRequest *request,
                                    Sluice__V1__CheckpointReply **reply,
                                    struct sl_error *err)
{
    struct patience patience = patience_of(conf);
    enum sl_err rc = api_checkpoint(api, request, reply, err);

    if (!conf_bool(conf, "wait"))
        return rc;
    while (rc == SL_OK && (*reply)->checkpoint == NULL) {
        if (!patience_wait(&patience))
            return sl_fail(err, SL_ETIMEDOUT,
                           "the checkpoint of %s is not published after %.3g "
                           "s%s%s; the cluster writes it as soon as it can: "
                           "'sluice checkpoints %s' lists it then",
                           request->id,
                           (double)conf_int(conf, "timeout") / 1000,
                           (*reply)->waits[0] != '\0' ? ": " : "",
                           (*reply)->waits, request->id);
        request->asked = (*reply)->asked;
        rc = api_checkpoint(api, request, reply, err);
    }
    return rc;
}

static enum sl_err checkpoint_print(struct cli *cli, const char *id,
                                    const Sluice__V1__CheckpointReply *reply,
                                    struct sl_error *err)
{
    const Sluice__V1__Checkpoint *c = reply->checkpoint;
    struct buf text = BUF_INIT, tainted = BUF_INIT;
    char steps[OUT_NUMBER];
    enum sl_err rc;

    if (cli->out.json)
        return out_message(c != NULL ? &c->base : &reply->base, err);
    if (c == NULL) {
        cli_say("The cluster writes a checkpoint of %s; 'sluice checkpoints "
                "%s' lists it when it is published",
                id, id);
        return SL_OK;
    }
    cli_say("checkpoint %llu of %s holds %s steps", (unsigned long long)c->cut,
            id, out_count(steps, c->steps));
    if (list_tainted(&tainted, reply->tainted, reply->n_tainted) == SL_OK &&
        tainted.len > 0)
        cli_say("%.*s", (int)tainted.len - 1, buf_text(&tainted));
    buf_release(&tainted);
    rc = buf_appendf(&text, "%s\n", c->manifest);
    return out_text(&text, rc, err);
}

int verb_checkpoint(struct cli *cli)
{
    Sluice__V1__CheckpointRequest request =
        SLUICE__V1__CHECKPOINT_REQUEST__INIT;
    Sluice__V1__CheckpointReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);

    request.id = (char *)cli_arg(cli, 0);
    if (rc == SL_OK)
        rc = checkpoint_await(api, cli->conf, &request, &reply, &err);
    if (rc == SL_OK)
        rc = checkpoint_print(cli, request.id, reply, &err);
    api_close(api);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
