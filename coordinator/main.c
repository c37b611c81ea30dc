// SPDX-License-Identifier: Apache-2.0
// coordinator/main.c -- the coordinator daemon.
#include "common/daemon/daemon.h"
#include "coordinator/dashboard/dashboard.h"
#include "coordinator/service/server.h"

static const struct conf_about about = {
    .program = "coordinator",
    .usage = "coordinator [OPTION]...",
    .text = "Schedules the closures of training jobs onto workers, keeps the "
            "journal of what was decided, and answers clients. It never sees a "
            "parameter's value.",
    .example = "coordinator --state /var/lib/sluice --listen 127.0.0.1:7070",
};

struct program {
    struct server server;
    struct dashboard dashboard;
};

static enum sl_err start(struct daemon *d, void *program, struct sl_error *err)
{
    struct program *p = program;
    enum sl_err rc = server_start(d, &p->server, err);

    if (rc != SL_OK || daemon_http(d) == NULL)
        return rc;
    rc = dashboard_open(&p->dashboard, daemon_http(d), &p->server, err);
    if (rc != SL_OK)
        server_stop(d, &p->server);
    return rc;
}

static void drain(struct daemon *d, void *program)
{
    server_drain(d, &((struct program *)program)->server);
}

static void stop(struct daemon *d, void *program)
{
    struct program *p = program;

    dashboard_close(&p->dashboard);
    server_stop(d, &p->server);
}

static void checks(struct daemon *d, void *program, struct ops_checks *c)
{
    server_checks(d, &((struct program *)program)->server, c);
}

static void measure(struct daemon *d, void *program, struct expo *e)
{
    server_measure(d, &((struct program *)program)->server, e);
}

static const struct daemon_hooks hooks = {
    .start = start,
    .drain = drain,
    .stop = stop,
    .checks = checks,
    .measure = measure,
};

int main(int argc, char **argv)
{
    static struct program program;

    return daemon_main(&about, server_keys, &hooks, &program, argc, argv);
}
