// SPDX-License-Identifier: Apache-2.0
// client/up/down.c -- ends a running `sluice up`.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/up/updir.h"
#include "client/cli/verbs.h"
#include "common/base/fs.h"
#include "common/base/mem.h"

#define ROLES 3 // each has its own grace

// Is the pid in up.pid really a `sluice up`, or was the number given to
// another process after it was killed?
static bool is_up(pid_t pid)
{
    char path[64], name[16] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(name, sizeof(name), file) == NULL)
        name[0] = '\0';
    fclose(file);
    return strncmp(name, "sluice", 6) == 0;
}

int verb_down(struct cli *cli)
{
    const char *dir = conf_str(cli->conf, "dir");
    int grace = (int)conf_int(cli->conf, "grace");
    char *path = fs_join(dir, "up.pid");
    pid_t pid = path != NULL ? updir_read_pid(path) : 0;

    sl_free(path);
    if (pid == 0 || !is_up(pid)) {
        cli_say("sluice: no 'sluice up' runs in %s", dir);
        return CLI_EXIT_NOT_FOUND;
    }
    if (kill(pid, SIGTERM) != 0) {
        cli_say("sluice: pid %d: %s", (int)pid, strerror(errno));
        return errno == EPERM ? CLI_EXIT_DENIED : CLI_EXIT_FAILED;
    }
    if (!command_await_end(pid, ROLES * grace + grace)) {
        cli_say("sluice: 'sluice up' (pid %d) still runs after %d s", (int)pid,
                (ROLES + 1) * grace / 1000);
        return CLI_EXIT_UNAVAILABLE;
    }
    cli_say("The cluster in %s has stopped", dir);
    return CLI_EXIT_OK;
}
