// SPDX-License-Identifier: Apache-2.0
// bench/target.h -- one shard of a real psserver, as a worker sees it.
//
// Calls are made as the worker makes them: a head that is copied, a gradient
// that is sent from where it lies, parameters that are copied from the
// transport's slices to where they belong.
//
// Threads  targets_open, targets_close: one, which waits. target_start: any;
//          `done` runs on the one I/O thread that all targets share, that of
//          their channels or, after targets_share, of small calls.
// Memory   an op and its target are the caller's until done has run.
// Units    bytes of values; steps as in plan/schedule.h.
// Errors   a refused push is an error here: nobody else pushes.
#ifndef BENCH_TARGET_H
#define BENCH_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "common/run/conf.h"
#include "bench/target_shm.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

enum target_call {
    TARGET_PUSH,
    TARGET_PULL,
    TARGET_PUSH_PULL,
    TARGET_ASK,
};

struct target {
    struct rpc_channel *channel; // shared by the shards of a psserver
    uint64_t job, job_incarnation, incarnation;
    uint32_t shard;
    size_t bytes;          // of its values
    uint64_t version;      // when it was opened: steps applied
    uint8_t *grad;         // owned
    uint8_t *values;       // owned
    struct target_shm shm; // after targets_share
    bool copies;           // the gradient, into it, for each call
};

struct target_op {
    struct target *target;
    enum target_call call;
    uint64_t closure; // but of TARGET_PULL
    uint32_t step;
    struct wire_attempt attempt;
    double began_s;
    size_t slot; // after targets_share: no other call under way has it
    void (*done)(struct target_op *op, enum sl_err rc,
                 const struct sl_error *err);
    void *arg;
};

#define TARGETS_MAX 256

// --job, --job-incarnation, --cpu and --shard ADDRESS=INCARNATION, once for
// each shard of the job. Pins, dials, and pulls once from each: how large it
// is, and how far. The number of shards.
extern const struct conf_key target_keys[];
size_t targets_open(struct target targets[TARGETS_MAX], struct rpc_io **io,
                    const struct conf *c);
// As --shm says: from here on, no bytes are sent, or small calls take a socket
// of their own. `slots` calls may be under way to one target.
void targets_share(struct target *targets, size_t count, size_t slots,
                   const struct conf *c);
void targets_close(struct target *targets, size_t count, struct rpc_io *io);

void target_start(struct target_op *op);

// Payload of a call, both ways.
size_t target_op_bytes(const struct target_op *op);

#endif
