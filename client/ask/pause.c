// SPDX-License-Identifier: Apache-2.0
// client/ask/pause.c -- pause, resume.
#include <string.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/show/patience.h"
#include "client/show/progress.h"
#include "client/cli/verbs.h"
#include "client/ask/who.h"

// Polls the job until its pause, which is journalled, holds. SL_ETIMEDOUT.
static enum sl_err until_it_holds(struct api_client *api,
                                  const struct conf *conf,
                                  Sluice__V1__JobStatus **status,
                                  struct sl_error *err)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    struct patience patience = patience_of(conf);
    const char *said = "";
    enum sl_err rc = SL_OK;

    request.id = (*status)->id;
    while (rc == SL_OK && (*status)->pause != NULL &&
           !(*status)->pause->holds) {
        if (strcmp((*status)->reason, said) != 0)
            cli_say("%s %s; --now does not wait for the checkpoint",
                    (*status)->id, (*status)->reason);
        said = (*status)->reason; // it lives as long as the api
        if (!patience_wait(&patience))
            return sl_fail(err, SL_ETIMEDOUT,
                           "%s %s; it is paused then, without this command",
                           (*status)->id, (*status)->reason);
        rc = api_get(api, &request, status, err);
    }
    return rc;
}

// Prints the outcome. Another user may have stopped or resumed the job
// meanwhile.
static int pause_print(struct cli *cli, const Sluice__V1__JobStatus *s,
                       bool paused)
{
    struct sl_error err = SL_ERROR_INIT;

    if (cli->out.json && out_message(&s->base, &err) != SL_OK)
        return cli_fail(&err);
    if (!cli->out.json && s->pause != NULL)
        cli_say("%s is %s", s->id, s->reason);
    else if (!cli->out.json)
        cli_say("%s is %s after %llu of %llu steps", s->id, progress_word(s),
                (unsigned long long)s->steps_counted,
                (unsigned long long)s->steps_asked);
    return (s->pause != NULL) == paused ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

int verb_pause(struct cli *cli)
{
    Sluice__V1__PauseRequest request = SLUICE__V1__PAUSE_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    struct sl_error err = SL_ERROR_INIT;
    char who[WHO_BYTES];
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);
    int code;

    request.id = (char *)cli_arg(cli, 0);
    request.checkpoint = !conf_bool(cli->conf, "now");
    request.who = (char *)who_asks(who);
    if (conf_str(cli->conf, "why") != NULL)
        request.why = (char *)conf_str(cli->conf, "why");
    if (rc == SL_OK)
        rc = api_pause(api, &request, &status, &err);
    if (rc == SL_OK)
        rc = until_it_holds(api, cli->conf, &status, &err);
    code = rc == SL_OK ? pause_print(cli, status, true) : cli_fail(&err);
    api_close(api);
    return code;
}

int verb_resume(struct cli *cli)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, cli->conf, &err);
    int code;

    request.id = (char *)cli_arg(cli, 0);
    if (rc == SL_OK)
        rc = api_resume(api, &request, &status, &err);
    code = rc == SL_OK ? pause_print(cli, status, false) : cli_fail(&err);
    api_close(api);
    return code;
}
