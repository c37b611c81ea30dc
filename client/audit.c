// SPDX-License-Identifier: Apache-2.0
// client/audit.c -- the verb audit: does a coordinator's audit log hold.
#include <inttypes.h>
#include <string.h>

#include "client/cli.h"
#include "client/verbs.h"
#include "common/base/chain.h"

#define FILE_OF_UP "./cluster/coordinator/audit.log"

int verb_audit(struct cli *cli)
{
    const char *path = cli_arg(cli, 1) ? cli_arg(cli, 1) : FILE_OF_UP;
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    struct chain_end end;
    enum sl_err rc;

    if (strcmp(cli_arg(cli, 0), "verify") != 0)
        return cli_usage(cli, "'%s' is not known; say: audit verify [FILE]",
                         cli_arg(cli, 0));
    rc = chain_verify(fs_posix(), path, &end, &err);
    if (rc == SL_OK && cli->out.json)
        rc = out_json(json_pack("{s:s, s:I, s:s}", "file", path, "lines",
                                (json_int_t)end.lines, "last", end.hash),
                      &err);
    else if (rc == SL_OK)
        rc = out_text(&text,
                      buf_appendf(&text,
                                  "%s holds: %" PRIu64 " lines, the last "
                                  "is %s\n",
                                  path, end.lines, end.hash),
                      &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
