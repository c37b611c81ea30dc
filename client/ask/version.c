// SPDX-License-Identifier: Apache-2.0
// client/ask/version.c -- what this is.
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/verbs.h"

int verb_version(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    char line[64];
    int n = snprintf(line, sizeof(line), "sluice %s\n", SLUICE_VERSION);
    enum sl_err rc;

    if (cli->out.json)
        rc = out_json(json_pack("{s:s}", "version", SLUICE_VERSION), &err);
    else
        rc = out_write(line, (size_t)n, &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
