// SPDX-License-Identifier: Apache-2.0
// worker/main.c -- the worker daemon.
#include <stdio.h>
#include <string.h>

#include "kernels/prove/prove.h"
#include "worker/device/devices.h"
#include "worker/service/server.h"

// Lists the devices, for people who wonder what "auto" would choose and why,
// and for sluice up; for people also the kernels that are left out according to
// file `plans` (NULL: none was named).
static int worker_list_devices(bool json, const char *plans)
{
    struct buf text = BUF_INIT;
    bool told = devices_list(&text, json) == SL_OK &&
                (json || !plans || proofs_list(&text, plans) == SL_OK) &&
                fputs(buf_text(&text), stdout) >= 0 && fflush(stdout) == 0;

    buf_release(&text);
    return told ? DAEMON_EXIT_OK : DAEMON_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    const char *plans = NULL;
    struct worker *worker;
    int code;

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--plans") == 0)
            plans = argv[i + 1];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list-devices") == 0)
            return worker_list_devices(false, plans);
        if (strcmp(argv[i], "--list-devices=json") == 0)
            return worker_list_devices(true, plans);
    }
    worker = worker_new();
    if (worker == NULL) {
        fprintf(stderr, "%s: out of memory\n", server_about.program);
        return DAEMON_EXIT_FAILED;
    }
    code = daemon_main(&server_about, server_keys, &server_hooks, worker, argc,
                       argv);
    worker_free(worker);
    return code;
}
