// SPDX-License-Identifier: Apache-2.0
// worker/sync/sync_ps.h -- the asynchronous parameter server; see sync.h.
//
// A range is a shard. Each has at most one call in flight: Ask, Pull or
// PushPull. A call whose outcome is unknown is made again with the same key,
// after a pause that doubles with jitter; a new map ends the pause.
//
// The vectors are f32. On the wire is what the job says: a gradient is rounded
// as it is sent, parameters are widened as they come. What is finite stays
// finite (kernels/cast.h), so a large gradient is clipped to what f16 can say.
//
// Threads  as sync.h. Answers are taken on I/O threads: parameters are copied
//          there, straight from the wire's slices (into memory of their own
//          while the old ones are read); what they mean is decided on the
//          compute thread.
#ifndef WORKER_SYNC_SYNC_PS_H
#define WORKER_SYNC_SYNC_PS_H

#include "common/base/clock.h"
#include "common/plan/schedule.h"
#include "worker/sync/peers.h"
#include "worker/sync/sync.h"

struct sync_ps_options {
    uint64_t job, job_incarnation;
    struct wire_token token;
    const struct overlap_range *shards; // borrowed until free
    uint32_t shards_count;
    uint64_t elements; // of the flat vector
    enum wire_type wire;
    // train.mode sync: closures of a round; parameters are those of the open
    // one. 0: any other mode.
    uint32_t contributions;
    struct schedule schedule;
    // The two vectors, zeroed, borrowed until free; NULL: it has its own.
    float *params, *grads;
    // Parameters are pulled as they are asked for (sync.h); the vectors are the
    // caller's then, and so is `narrow`: as many elements of the wire's, if
    // that is of 16 bits.
    bool by_range;
    void *narrow;
    struct peers *peers;
    const struct sl_clock *clock;
    // A newer map is wanted than `have`. Called on the compute thread.
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    // Asked about five times a second while a call waits, on the compute
    // thread: false gives the closure up, as if its gate were closed for a
    // drain. NULL: a call waits as long as it takes.
    bool (*patient)(void *arg);
    void *arg;
};

enum sl_err sync_ps_new(struct sync **out, const struct sync_ps_options *o,
                        struct sl_error *err);

#endif
