// SPDX-License-Identifier: Apache-2.0
// coordinator/main.c -- the coordinator daemon.
#include "host/daemon/daemon.h"
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

struct coordinator_program {
    struct server server;
    struct dashboard dashboard;
};

static enum sl_err coordinator_start(struct daemon *d, void *program,
                                     struct sl_error *err)
{
    struct coordinator_program *p = program;
    enum sl_err rc = server_start(d, &p->server, err);

    if (rc == SL_OK && p->server.daemon == NULL) { // --resign: all is done
        daemon_end(d, DAEMON_EXIT_OK);
        return rc;
    }
    if (rc != SL_OK || daemon_http(d) == NULL)
        return rc;
    rc = dashboard_open(&p->dashboard, daemon_http(d), &p->server, err);
    if (rc != SL_OK)
        server_stop(d, &p->server);
    return rc;
}

static void coordinator_drain(struct daemon *d, void *program)
{
    server_drain(d, &((struct coordinator_program *)program)->server);
}

static void coordinator_stop(struct daemon *d, void *program)
{
    struct coordinator_program *p = program;

    dashboard_close(&p->dashboard);
    server_stop(d, &p->server);
}

static void coordinator_checks(struct daemon *d, void *program,
                               struct ops_checks *c)
{
    server_checks(d, &((struct coordinator_program *)program)->server, c);
}

static void coordinator_measure(struct daemon *d, void *program, struct expo *e)
{
    server_measure(d, &((struct coordinator_program *)program)->server, e);
}

static const struct daemon_hooks hooks = {
    .start = coordinator_start,
    .drain = coordinator_drain,
    .stop = coordinator_stop,
    .checks = coordinator_checks,
    .measure = coordinator_measure,
};

int main(int argc, char **argv)
{
    static struct coordinator_program program;

    return daemon_main(&about, server_keys, &hooks, &program, argc, argv);
}
