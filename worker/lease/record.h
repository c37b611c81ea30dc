// SPDX-License-Identifier: Apache-2.0
// worker/lease/record.h -- a job as JobOpen told it, and its newest map.
//
// The loop makes it; leases and the compute thread's job hold references. All
// but the map is read-only, so any thread may look.
//
// Threads  record_new: the loop. The rest: any.
// Memory   counted references; record_unref(NULL) is allowed.
#ifndef WORKER_LEASE_RECORD_H
#define WORKER_LEASE_RECORD_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/plan/schedule.h"
#include "proto/layout.h"
#include "proto/wire.h"
#include "worker/compile/overlap.h"
#include "worker/data/data_bad.h"
#include "worker/sync/sync.h"
#include "worker/sync/sync_ps.h"

struct record {
    _Atomic unsigned refs;
    Sluice__V1__JobOpen *open; // a copy of the message; owned
    bool placed;               // layout, shards and schedule hold
    struct layout layout;
    struct overlap_range *shards;
    struct schedule schedule;
    uint32_t accumulate;  // micro-batches of a step
    struct data_bad *bad; // samples that are passed over; NULL: none may be

    // What the loop and the compute thread share, under the lock.
    struct {
        pthread_mutex_t lock;
        Sluice__V1__JobMap *map; // the newest; owned
        struct sync *sync;       // to be told of a newer one; NULL: none
    } shared;
};

enum sl_err record_new(struct record **out, const Sluice__V1__JobOpen *open,
                       struct sl_error *err);

// `r` is of the job of `before`: it goes on with what was found of its data.
void record_follow(struct record *r, const struct record *before);
struct record *record_ref(struct record *r);
void record_unref(struct record *r);

// What its psservers are asked by, all but what the caller has of its own:
// vectors, peers, clock, want_map. Borrows from `r`.
struct sync_ps_options record_sync(const struct record *r);

// SL_EINVAL: the shards are not of this model.
enum sl_err record_fits(const struct record *r, const struct model *model,
                        struct sl_error *err);

// A newer map; an older one is ignored.
// False: it holds the changes since another version than ours, or there is no
// memory for it; the whole map is wanted.
bool record_map(struct record *r, const Sluice__V1__JobMap *map);

// From now on `sync` hears of maps and wakes; it gets the newest at once.
// NULL: nobody does any more.
void record_attach(struct record *r, struct sync *sync);

// Lets a waiting compute thread look at its gate.
void record_wake(struct record *r);

#endif
