// SPDX-License-Identifier: Apache-2.0
// psserver/main.c -- the entry of the psserver daemon.
#include "psserver/service/server.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct psserver *server = psserver_new();
    int code;

    if (server == NULL) {
        fprintf(stderr, "%s: out of memory\n", server_about.program);
        return DAEMON_EXIT_FAILED;
    }
    code = daemon_main(&server_about, server_keys, &server_hooks, server, argc,
                       argv);
    psserver_free(server);
    return code;
}
