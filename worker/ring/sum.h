// SPDX-License-Identifier: Apache-2.0
// worker/ring/sum.h -- the sum of a round's gradients, over this rank's own
// contributions and then over all ranks, bucket by bucket.
//
//   sum_add(bucket) per contribution; sum_start(bucket) when its last is in;
//   sum_wait: the next bucket holds the sum over all ranks
//
// Buckets are started from the last to the first, on every rank: gradients of
// the last layers are whole first, and all ranks must start in one order. A
// bucket that is started before those behind it waits for them. A rank alone
// has nobody to sum with.
//
// The first `early` buckets may have a lane of their own
// (worker/reduce/group.h): they are whole last and wanted first, and overtake
// there what is queued in the other. Each lane has its own order: neither waits
// for the other's buckets.
//
// A rank whose loss or gradient is not finite makes the sum so (sum_spoil), and
// all ranks see the same sum.
//
// Threads  the compute thread; sum_abort: any, between sum_join and sum_leave.
// Memory   sum_release frees.
// Units    elements of the flat vector; a weight is a number of samples.
// Errors   sum_wait: those of group_wait (worker/reduce/group.h). After one the
//          sum is good for nothing but sum_suspect and sum_leave.
#ifndef WORKER_RING_SUM_H
#define WORKER_RING_SUM_H

#include "worker/compile/overlap.h"
#include "worker/ring/seat.h"

// Without a sign of life from a rank for so long, it is suspected.
#define SUM_SILENT_MS 5000

struct group;

// The buckets of one lane: [first, first + count).
struct sum_lane {
    struct group *group; // NULL: a rank alone, or no buckets in lane 1
    uint32_t first, count;
    uint32_t next;   // those at and above it are started
    uint64_t number; // of its group's next bucket
    uint64_t waited; // and of the first that was not waited for
    bool marks;      // behind its buckets one more was started
};

struct sum {
    float *data;       // of the round: `own`, or where its one gradient is
    float *own;        // owned; NULL until a round adds up several
    uint64_t elements; // of one flat vector
    const struct overlap_range *buckets;
    uint32_t count;
    bool *whole; // per bucket: may be started; owned
    struct sum_lane lane[WIRE_LANES];
    struct group *asked; // by the last sum_wait, or the first to be
    uint64_t sent;       // bytes, as sum_sent has told
};

// Lane 0 of a generation, of two ranks or more.
enum sl_err sum_group(struct group **out, const struct ring_env *env,
                      const Sluice__V1__RingBegin *begin, enum wire_type wire,
                      struct sl_error *err);

// Buckets are borrowed until sum_release.
enum sl_err sum_init(struct sum *s, const struct overlap_range *buckets,
                     uint32_t count, uint64_t elements);
void sum_release(struct sum *s); // all zeroes is allowed

// Of this generation from now on. Buckets below `early` go through lane 1,
// the others through lane 0; the same number on all ranks, and 0 unless
// begin->lanes. A rank alone has one lane.
enum sl_err sum_join(struct sum *s, const struct ring_env *env,
                     const Sluice__V1__RingBegin *begin, enum wire_type wire,
                     uint32_t early, struct sl_error *err);
void sum_abort(void *sum);
void sum_leave(struct sum *s);

// A round begins. So many contributions are added here: without one the sum
// begins with zeros; of one it takes the memory of the gradient itself, which
// is then gone. SL_ENOMEM.
enum sl_err sum_begin(struct sum *s, uint32_t contributions, float *gradient,
                      struct sl_error *err);

// data = or += weight * g, of one bucket; g may be data.
void sum_add(struct sum *s, uint32_t bucket, const float *g, float weight,
             bool first);
void sum_spoil(struct sum *s, uint32_t bucket);
enum sl_err sum_start(struct sum *s, uint32_t bucket, struct sl_error *err);

// Every bucket that was not started yet, and may lack contributions. `spoil`:
// the sums of these are not finite.
enum sl_err sum_start_rest(struct sum *s, bool spoil, struct sl_error *err);

// Buckets that were started and not waited for, of both lanes and of lane 1;
// and the wait for the first of them: of lane 1 while it has any.
uint64_t sum_outstanding(const struct sum *s);
uint64_t sum_early_outstanding(const struct sum *s);
enum sl_err sum_wait(struct sum *s, uint32_t *bucket, struct sl_error *err);

// Other numbers, behind all buckets of a round: `data` becomes their sum over
// the ranks. Waited for when no bucket is outstanding.
enum sl_err sum_start_marks(struct sum *s, float *data, size_t count,
                            struct sl_error *err);
enum sl_err sum_wait_marks(struct sum *s, struct sl_error *err);

// What was sent to other hosts since the last call.
uint64_t sum_sent(struct sum *s);

// The rank that the last sum_wait waited for in vain.
uint32_t sum_suspect(const struct sum *s);

#endif
