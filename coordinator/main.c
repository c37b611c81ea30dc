// SPDX-License-Identifier: Apache-2.0
// coordinator/main.c -- the coordinator daemon.
#include "common/daemon/daemon.h"
#include "coordinator/service/server.h"

static const struct conf_about about = {
    .program = "coordinator",
    .usage = "coordinator [OPTION]...",
    .text = "Schedules the closures of training jobs onto workers, keeps the "
            "journal of what was decided, and answers clients. It never sees a "
            "parameter's value.",
    .example = "coordinator --state /var/lib/sluice --listen 127.0.0.1:7070",
};

static const struct daemon_hooks hooks = {
    .start = server_start,
    .drain = server_drain,
    .stop = server_stop,
    .checks = server_checks,
    .measure = server_measure,
};

int main(int argc, char **argv)
{
    static struct server server;

    return daemon_main(&about, server_keys, &hooks, &server, argc, argv);
}
