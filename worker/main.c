// SPDX-License-Identifier: Apache-2.0
// worker/main.c -- the worker daemon.
#include <stdio.h>
#include <string.h>

#include "kernels/kern.h"
#include "worker/server.h"

// For people who wonder what "auto" would choose, and why.
static int list_devices(void)
{
    const struct kern_backend *backend;

    for (unsigned i = 0; (backend = kern_backend_at(i)) != NULL; i++) {
        char why[200] = "";
        struct kern_dev *dev = NULL;
        struct kern_info info;
        struct sl_error err = SL_ERROR_INIT;

        if (backend->probe(why, sizeof(why)) == 0) {
            printf("%-6s not usable here: %s\n", backend->name, why);
        } else if (kern_open(&dev, backend->name, NULL, &err) != SL_OK) {
            printf("%-6s does not open: %s\n", backend->name, err.text);
        } else {
            backend->info(&info, dev);
            printf("%-6s %s\n", backend->name, info.name);
            kern_close(dev);
        }
    }
    return fflush(stdout) == 0 ? DAEMON_EXIT_OK : DAEMON_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct worker *worker;
    int code;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list-devices") == 0)
            return list_devices();
    }
    worker = server_new();
    if (worker == NULL)
        return DAEMON_EXIT_FAILED;
    code = daemon_main(&server_about, server_keys, &server_hooks, worker, argc,
                       argv);
    server_free(worker);
    return code;
}
