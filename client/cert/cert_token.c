// SPDX-License-Identifier: Apache-2.0
// client/cert/cert_token.c -- a token of our certificate, for the dashboard.
#include <time.h>

#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "common/net/tls_bearer.h"

static enum sl_err token_print(const struct cli *cli, struct buf *token,
                               time_t ends, struct sl_error *err)
{
    if (cli->out.json)
        return out_json(json_pack("{s:s, s:I}", "token", buf_text(token),
                                  "ends_unix", (json_int_t)ends),
                        err);
    return out_text(token, buf_append(token, "\n", 1), err);
}

int verb_token(struct cli *cli)
{
    long seconds = (long)(conf_int(cli->conf, "for") / 1000);
    struct rpc_tls tls = {.ca_file = NULL};
    struct sl_error err = SL_ERROR_INIT;
    struct buf token = BUF_INIT;
    time_t now = time(NULL);
    enum sl_err rc = tls_read_conf(&tls, cli->conf, &err);

    if (rc == SL_OK && tls.ca_file == NULL)
        return cli_usage(cli, "a token needs a certificate: set --tls-ca, "
                              "--tls-cert and --tls-key");
    if (rc == SL_OK)
        rc = tls_bearer_make(&token, &tls, now, seconds, &err);
    if (rc == SL_OK)
        rc = token_print(cli, &token, now + seconds, &err);
    buf_release(&token);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
