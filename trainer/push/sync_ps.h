// SPDX-License-Identifier: Apache-2.0
// trainer/push/sync_ps.h -- the asynchronous parameter server; see sync.h.
//
// A range is a shard. Each has at most one call in flight: Ask, Pull or
// PushPull; and, beside it, at most one Pull of rows. A call whose outcome is
// unknown is made again with the same key, after a pause that doubles with
// jitter; a new map ends the pause.
//
// The vectors are f32. On the wire is what the job says: a gradient is rounded
// as it is sent, parameters are widened as they come. What is finite stays
// finite (kernels/cast.h), so a large gradient is clipped to what f16 can say.
// What topk2 leaves out of a contribution is kept, and added to the next one. A
// worker that drains sends what it has kept with its last contribution, as
// bf16.
//
// Threads  as sync.h. Answers are taken on I/O threads: parameters are copied
//          there, straight from the wire's slices (into memory of their own
//          while the old ones are read); what they mean is decided on the
//          compute thread.
// Memory   the options are copied; what they point at (shards, peers, clock,
//          vectors, arg) is borrowed until free.
// Errors   SL_ENOMEM; `err` may be NULL.
#ifndef TRAINER_PUSH_SYNC_PS_H
#define TRAINER_PUSH_SYNC_PS_H

#include "common/base/clock.h"
#include "plan/schedule.h"
#include "state/shard/coded.h"
#include "trainer/push/peers.h"
#include "trainer/push/sync.h"

struct sync_ps_options {
    uint64_t job, job_incarnation;
    struct wire_token token;
    const struct elements *shards; // borrowed until free
    uint32_t shards_count;
    uint32_t first_shard; // number of the first of these in the job
    uint64_t elements;    // elements of the flat vector
    enum wire_type wire;
    // Closures of a round in train.mode sync, where parameters are those of the
    // open round; 0: any other mode.
    uint32_t contributions;
    // Forms of coded payloads, per shard: contributions are pushed as `up`,
    // with an answer without parameters, and these are pulled as `down`: a
    // code, or `wire`. All go as bytes. NULL: all is of type `wire`.
    const struct coded *coded;
    enum wire_type up, down;
    bool tables; // the job has sparse tables, of which rows are pulled
    struct schedule schedule;
    // The two vectors: both or neither. They are zeroed by the sync, but not
    // with by_range. NULL: it makes its own.
    float *params, *grads;
    // Parameters are pulled when they are asked for (sync.h). Then the vectors
    // are the caller's, and so is `narrow`: `elements` elements of `wire`, if
    // that has 16 bits, and else NULL. `narrow` is not read without by_range.
    bool by_range;
    void *narrow;
    struct peers *peers;
    const struct sl_clock *clock;
    // What the pauses between calls are drawn from; 0: the clock and where the
    // sync lies.
    uint64_t seed;
    // Asks for a map newer than version `have` (0: there is none); at most
    // twice a second, until one comes. Called on the compute thread; not NULL.
    void (*want_map)(void *arg, uint64_t job, uint64_t have);
    // Called about five times a second while a call waits, on the compute
    // thread: false gives the closure up, as if its gate were closed for a
    // drain. NULL: a call waits as long as it takes.
    bool (*patient)(void *arg);
    void *arg;
};

// Makes a sync with the options `o`, which are copied. It has no map yet: it
// asks for one (want_map) and calls no shard before ops->map. SL_ENOMEM leaves
// *out as it was; it is also the error of vectors and `narrow` that do not go
// together. Free it by its ops' free, when no closure is open.
enum sl_err sync_ps_new(struct sync **out, const struct sync_ps_options *o,
                        struct sl_error *err);

#endif
