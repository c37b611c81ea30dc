// SPDX-License-Identifier: Apache-2.0
// client/doctor/doctor.c -- looks for what is wrong, and says what to do.
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/doctor/findings.h"
#include "client/cli/verbs.h"
#include "common/run/log.h"

int verb_doctor(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    struct findings f = {0};
    size_t bad;
    enum sl_err rc;

    // Children are started before the transport makes threads.
    doctor_programs(&f);
    doctor_tls(&f, cli->conf);
    doctor_certs(&f, cli->conf);
    doctor_libraries(&f);
    doctor_limits(&f);
    doctor_disks(&f, cli->conf);
    doctor_places(&f, cli->conf);
    log_set_level(LOG_LEVEL_ERROR); // the findings are what it says
    doctor_coordinator(&f, cli->conf);
    rc = findings_print(&f, &cli->out, &err);
    bad = f.of_level[FINDING_BAD];
    cli_say("%zu fault%s, %zu warning%s", bad, bad == 1 ? "" : "s",
            f.of_level[FINDING_WARN], f.of_level[FINDING_WARN] == 1 ? "" : "s");
    findings_release(&f);
    if (rc != SL_OK)
        return cli_fail(&err);
    return bad == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
