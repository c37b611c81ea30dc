// SPDX-License-Identifier: Apache-2.0
// bench/target_shm.h -- memory that a target shares with its psserver, as the
// worker does it: a gradient and room for parameters per call under way.
//
// Threads  as target.h.
// Memory   shared until target_shm_close.
// Errors   a psserver that shares nothing is an error here.
#ifndef BENCH_TARGET_SHM_H
#define BENCH_TARGET_SHM_H

#include "common/net/rpc.h"
#include "common/net/local/shm.h"
#include "proto/wire.h"

struct target_shm {
    struct shm memory; // at NULL: bytes are sent
    uint64_t region;
    bool open;
    int fd;
};

// Asks where, gives the channel a socket for its small calls if it has none,
// hands over `bytes` (0: none), and waits for the number.
void target_shm_open(struct target_shm *s, struct rpc_channel *channel,
                     size_t bytes);
void target_shm_close(struct target_shm *s);

#endif
