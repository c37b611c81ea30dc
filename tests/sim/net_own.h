// SPDX-License-Identifier: Apache-2.0
// tests/sim/net_own.h -- for net.c and session.c only.
#ifndef TESTS_SIM_NET_OWN_H
#define TESTS_SIM_NET_OWN_H

#include "tests/sim/net.h"

// What one side said and the other has not heard yet, oldest first.
struct parcel {
    struct list_node node;
    ProtobufCMessage *message; // NULL: the end
};

struct session {
    uint32_t member, boss; // processes
    uint32_t member_host, boss_host;
    bool member_open, boss_open; // that side believes in it
    bool greeted;                // Hello was heard
    struct list up, down;        // of struct parcel
};

struct net {
    uint64_t cut_until[SIM_HOSTS][SIM_HOSTS];
    uint64_t clogged_until[SIM_HOSTS][SIM_HOSTS];
    uint64_t calls;            // numbers given out
    struct session **sessions; // owned
    uint32_t sessions_count, sessions_space;
};

#endif
