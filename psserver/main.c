// SPDX-License-Identifier: Apache-2.0
// psserver/main.c -- the entry of the psserver daemon.
#include "psserver/service/server.h"

int main(int argc, char **argv)
{
    struct psserver *server = server_new();
    int code;

    if (server == NULL)
        return DAEMON_EXIT_FAILED;
    code = daemon_main(&server_about, server_keys, &server_hooks, server, argc,
                       argv);
    server_free(server);
    return code;
}
