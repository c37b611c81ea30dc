// SPDX-License-Identifier: Apache-2.0
// host/daemon/discover.c -- from a launcher's plan to a daemon's settings.
#include "host/daemon/discover.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct conf_key discover_keys[] = {
    {.name = "discover",
     .kind = CONF_CHOICE,
     .value = "static",
     .choices = LAUNCH_SOURCES,
     .help =
         "Launcher of this process: its environment gives the coordinator's "
         "address and the name and addresses of this process, where they are "
         "not set (docs/launchers.md). static: none."},
    {.name = "base-port",
     .kind = CONF_INT,
     .value = "7070",
     .min = 1,
     .max = 65535,
     .help = "With --discover: the coordinator's port, where the launcher "
             "names only hosts."},
    {.name = "service",
     .kind = CONF_STRING,
     .value = "coordinator",
     .help = "With --discover dns: the name that the coordinator has.",
     .min = 1,
     .max = 253},
    {.name = NULL},
};

void discover_asked(struct launch_asked *out, const struct conf *c,
                    enum launch_role role, char host[DISCOVER_HOST])
{
    snprintf(host, DISCOVER_HOST, "localhost");
    (void)gethostname(host, DISCOVER_HOST - 1);
    host[DISCOVER_HOST - 1] = '\0';
    *out = (struct launch_asked){
        .source = launch_source_of(conf_str(c, "discover")),
        .role = role,
        .port = (unsigned)conf_int(c, "base-port"),
        .service = conf_str(c, "service"),
        .host = host,
        .env = environ,
        .resolve = launch_resolve,
    };
}

static enum sl_err discover_find_plan(struct launch_plan *plan,
                                      const struct conf *c, const char *program,
                                      struct sl_error *err)
{
    char host[DISCOVER_HOST];
    struct launch_asked asked;

    discover_asked(&asked, c, launch_role_of(program), host);
    if (asked.role == LAUNCH_NO_ROLE)
        return sl_fail(err, SL_ENOTSUP, "--discover: a %s has no role",
                       program);
    if (asked.role != LAUNCH_COORDINATOR &&
        conf_origin(c, "coordinator") != CONF_DEFAULT)
        asked.coordinator = conf_str(c, "coordinator");
    return launch_find(plan, &asked, err);
}

enum sl_err discover(struct conf *c, const char *program, struct buf *said,
                     struct sl_error *err)
{
    struct launch_setting told[LAUNCH_SETTINGS];
    struct launch_plan plan;
    enum sl_err rc = SL_OK;
    unsigned n;

    if (strcmp(conf_str(c, "discover"), "static") == 0)
        return SL_OK;
    rc = discover_find_plan(&plan, c, program, err);
    if (rc != SL_OK)
        return rc;
    if (plan.serve[0] != '\0')
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: without a chief worker 0 starts the "
                       "coordinator, too; start it with 'sluice run'");
    n = launch_settings(told, &plan);
    for (unsigned i = 0; rc == SL_OK && i < n; i++)
        if (conf_origin(c, told[i].key) == CONF_DEFAULT)
            rc = conf_set(c, told[i].key, told[i].value, CONF_ENVIRONMENT,
                          launch_source_name(plan.source), err);
    if (rc == SL_OK && launch_line(said, &plan) != SL_OK)
        rc = sl_no_memory(err);
    return rc;
}
