// SPDX-License-Identifier: Apache-2.0
// What core was asked to set, seen on its sockets. Over an address that others
// reach: tls_test.c.
#include "tests/unit/common/rpc_kit.h"

TEST(rpc_pacing, connections_of_one_host_are_not_paced)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS,
                                       .wait_for_ready = true};
    struct rpc_body *reply;
    struct congestion seen;
    struct world w;

    world_open(&w, who_methods, SL_COUNT(who_methods), NULL, false);
    T_OK(rpc_call_sync(w.channel, "/t.T/Who", NULL, &options, &reply, t_err()));
    rpc_body_free(reply);
    seen = kit_congestion(atoi(strrchr(w.address, ':') + 1));
    T_EQ(seen.reno, 3); // who listens, who called, who was called
    T_EQ(seen.others, 0);
    world_close(&w);
}

TEST(rpc_pacing, who_binds_next_is_not_meant)
{
    struct congestion seen;
    unsigned port = 0;
    struct world w;
    int fd;

    world_open(&w, who_methods, SL_COUNT(who_methods), NULL, false);
    fd = local_socket(&port, true);
    seen = kit_congestion((int)port);
    T_EQ(seen.reno + seen.others, 1);
    T_EQ(seen.reno, kit_reno_is_usual());
    close(fd);
    world_close(&w);
}
