// SPDX-License-Identifier: Apache-2.0
// trainer/lease/record.h -- a job as JobOpen told it, and its newest map.
//
// The loop makes it; leases and the compute thread's job hold references. All
// but the map is read-only, so any thread may look.
//
// Threads  record_new: the loop. The rest: any.
// Memory   counted references; record_unref(NULL) is allowed. Messages are
//          copied. The sync of record_attach is borrowed.
// Errors   `err` may be NULL; without memory *err may have no text.
#ifndef TRAINER_LEASE_RECORD_H
#define TRAINER_LEASE_RECORD_H

#include <pthread.h>
#include <stdatomic.h>

#include "plan/schedule.h"
#include "proto/layout.h"
#include "proto/wire.h"
#include "trainer/base/elements.h"
#include "trainer/base/data_bad.h"
#include "trainer/push/sync.h"
#include "trainer/push/sync_ps.h"

// Kernels that are left out of what computes the job's steps here, as
// LeaseProgress has them.
struct record_left_out {
    uint64_t set; // 0: not known yet
    char what[300];
};

struct record {
    _Atomic unsigned refs;
    Sluice__V1__JobOpen *open; // a copy of the message; owned
    bool placed;               // `layout`, `shards` and `schedule` are set
    struct layout layout;
    struct elements *shards;
    uint32_t first_range; // shards below this number lie on workers
    struct coded *coded;  // per shard; NULL: what travels is not coded
    struct schedule schedule;
    uint32_t accumulate;  // micro-batches per step
    struct data_bad *bad; // samples passed over; NULL: none may be

    // Shared between the loop and the compute thread, under the lock.
    struct {
        pthread_mutex_t lock;
        Sluice__V1__JobMap *map; // the newest; owned
        struct sync *sync;       // hears of a newer map; NULL: none
        struct record_left_out left_out;
    } shared;
};

// Makes a record with one reference from a copy of `open`, and takes its map if
// it has one. Without a shard, geometry or samples it is not `placed`, which is
// no error. SL_EINVAL if pieces or geometry do not fit each other or
// train.accumulate; SL_ENOMEM. *out is untouched then. `open` has passed the
// wire's rules: it has a spec with model and `train`.
enum sl_err record_new(struct record **out, const Sluice__V1__JobOpen *open,
                       struct sl_error *err);

// Replaces r's list of bad samples by that of `before`, an earlier record of
// the same job, so that samples which were found stay known. To be called
// before any other thread has `r`. Does nothing if one of them has no list.
void record_follow(struct record *r, const struct record *before);
// Takes one more reference and returns `r`.
struct record *record_ref(struct record *r);
// Drops a reference; the last one frees the record. NULL is allowed.
void record_unref(struct record *r);

// Returns the options of the job's sync, except those that the caller sets:
// vectors, peers, clock, want_map. They borrow from `r`, which must be placed,
// as long as the caller's reference. The caller may change them.
struct sync_ps_options record_sync(const struct record *r);

// Returns the number that a schedule counts for step `at` of a contribution in
// mode local: that of one worker which has a slot of each round, so it depends
// on the closure alone (D1). `r` is placed.
uint64_t record_inner_number(const struct record *r, uint64_t closure,
                             uint32_t at);

// Returns SL_OK if the job is placed and its shards have together as many
// elements as this model; else SL_EINVAL.
enum sl_err record_fits(const struct record *r, const struct model *model,
                        struct sl_error *err);

// Takes a map, which is copied, and gives it to the attached sync (ops->map),
// on this thread; ignores one that is older than the newest. Returns true, also
// for one that it ignores; false, with the map as it was, if `map` holds only
// the changes since another version than ours, or a change of a shard that ours
// lacks, or memory is short: then the whole map has to be asked for. Its shards
// are in ascending order.
bool record_map(struct record *r, const Sluice__V1__JobMap *map);

// Tells `sync`, which is borrowed, of maps and wakes from now on; it gets the
// newest map at once. NULL: no sync hears of them any more, also none that is
// hearing one now. ops->map runs on this thread, under the record's lock. The
// sync is detached, by NULL or another one, before it is freed.
void record_attach(struct record *r, struct sync *sync);

// Sets which kernels are left out; *l is copied.
void record_leave_out(struct record *r, const struct record_left_out *l);
// Returns a copy of what record_leave_out was given last; its `set` is 0
// before.
struct record_left_out record_left_out(struct record *r);

// Wakes the compute thread if it waits in the attached sync, so that it looks
// at its gate. Does nothing without a sync.
void record_wake(struct record *r);

#endif
