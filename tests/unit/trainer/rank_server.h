// SPDX-License-Identifier: Apache-2.0
// The server of a rank, as it listens for others, on a socket of this process.
#ifndef TESTS_UNIT_TRAINER_RANK_SERVER_H
#define TESTS_UNIT_TRAINER_RANK_SERVER_H

#include <stdio.h>
#include <unistd.h>

#include "tests/harness/t.h"
#include "trainer/sum/ranks.h"

struct rank_server {
    struct rpc_io *io;
    struct ranks *ranks;
    struct rpc_server *server;
    char address[128];
};

// Makes the server of a rank, at a socket in /tmp that `number` and the process
// name: no two of a process have the same number. For rank_server_close.
static inline void rank_server_open(struct rank_server *s, unsigned number)
{
    struct rpc_io_options o = {.threads = 1};
    struct rpc_table table;

    snprintf(s->address, sizeof(s->address), "unix:/tmp/rank-%d-%u",
             (int)getpid(), number);
    T_OK(rpc_io_new(&s->io, &o, t_err()));
    T_OK(ranks_new(&s->ranks));
    table = ranks_table(s->ranks);
    T_OK(rpc_server_new(&s->server, s->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(s->server, s->address, NULL, NULL, t_err()));
    rpc_server_start(s->server);
}

// Frees the server and removes its socket.
static inline void rank_server_close(struct rank_server *s)
{
    rpc_server_free(s->server);
    ranks_free(s->ranks);
    rpc_io_free(s->io);
    unlink(s->address + 5);
}

#endif
