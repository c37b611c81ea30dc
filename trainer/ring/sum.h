// SPDX-License-Identifier: Apache-2.0
// trainer/ring/sum.h -- the sum of a round's gradients, over this rank's own
// contributions and then over all ranks, bucket by bucket.
//
//   sum_add(bucket) per contribution; sum_start(bucket) when its last is in;
//   sum_wait: the next bucket holds the sum over all ranks
//
// Buckets are started from the last to the first, on every rank: gradients of
// the last layers are whole first, and all ranks must start in one order. A
// bucket that is started before those behind it waits for them. A rank alone
// sums its own contributions only.
//
// The first `early` buckets may have a lane of their own
// (trainer/sum/sum_group.h): they are whole last and wanted first, and overtake
// there what is queued in the other. Each lane has its own order: neither waits
// for the other's buckets.
//
// A loss or gradient that is not finite makes the sum so (sum_spoil), and all
// ranks see the same sum.
//
// Threads  the compute thread; sum_abort: any, between sum_join and sum_leave.
// Memory   sum_release frees.
// Units    elements of the flat vector; a weight is a number of samples.
// Errors   sum_wait: those of group_wait (trainer/sum/sum_group.h). After an
//          error only sum_suspect and sum_leave may be called. `err` may be
//          NULL.
#ifndef TRAINER_RING_SUM_H
#define TRAINER_RING_SUM_H

#include "trainer/base/elements.h"
#include "trainer/ring/seat.h"

// Silence of a rank, in milliseconds, after which it is suspected.
#define SUM_SILENT_MS 5000

struct rank_group;

// The buckets of one lane: [first, first + count).
struct sum_lane {
    struct rank_group *group; // NULL: a rank alone, or no buckets in lane 1
    uint32_t first, count;
    uint32_t next;   // buckets from this one on are started
    uint64_t number; // number of the next bucket in the group
    uint64_t waited; // number of the first bucket not waited for
    bool marks;      // sum_start_marks was called, and not waited for
};

struct sum {
    float *data; // the round's sum: `own`, or the memory of its one gradient
    float *own;  // owned; NULL until a round adds up several gradients
    uint64_t elements; // elements of the flat vector
    const struct elements *buckets;
    uint32_t count;
    bool *whole; // per bucket: all our contributions are in; owned
    struct sum_lane lane[WIRE_LANES];
    struct rank_group
        *asked;    // group of the last sum_wait; before that of lane 0
    uint64_t sent; // bytes that sum_sent has told
};

// Makes the group of lane 0 of the generation that `begin`, read during the
// call, names: of two ranks or more. *out is for group_free. `env` is borrowed;
// `wire` is the type that is sent between hosts. Errors of group_new.
enum sl_err sum_group(struct rank_group **out, const struct ring_env *env,
                      const Sluice__V1__RingBegin *begin, enum wire_type wire,
                      struct sl_error *err);

// Prepares sums over `elements` elements in `buckets`, which are borrowed until
// sum_release. SL_ENOMEM. *s need not be zeroed before, and is untouched on
// failure. It is in no generation then (sum_join).
enum sl_err sum_init(struct sum *s, const struct elements *buckets,
                     uint32_t count, uint64_t elements);
// Frees what sum_init and the rounds made; the generation was left (sum_leave).
// All zeroes is allowed.
void sum_release(struct sum *s);

// Joins the ranks of the generation that `begin` names, and waits for none of
// them; on failure it is in none. Buckets below `early` go through lane 1, the
// others through lane 0; `early` is the same on all ranks, and 0 unless
// begin->lanes. A rank alone has one lane. Called when no generation is joined.
// SL_OK; errors of group_new.
enum sl_err sum_join(struct sum *s, const struct ring_env *env,
                     const Sluice__V1__RingBegin *begin, enum wire_type wire,
                     uint32_t early, struct sl_error *err);
// Ends all waits of the generation's sums with SL_ESTALE, those that come later
// as well, and does not wait; `sum` is a struct sum. Before sum_leave.
void sum_abort(void *sum);
// Leaves the generation; then no other thread touches the vectors. Waits for
// the background's bucket under way. May be called without one.
void sum_leave(struct sum *s);

// Begins a round in which `contributions` gradients of ours are added. With
// several, the sum has memory of its own; with one, the sum lies in `gradient`,
// not NULL, which has that contribution; with none, it lies there too and is
// zeroes. No bucket may be outstanding, and a generation is joined. SL_OK or
// SL_ENOMEM.
enum sl_err sum_begin(struct sum *s, uint32_t contributions, float *gradient,
                      struct sl_error *err);

// Adds weight * g in one bucket to the sum or, if `first`, sets the bucket to
// that. g is a flat vector, and may be the sum itself.
void sum_add(struct sum *s, uint32_t bucket, const float *g, float weight,
             bool first);
// Makes a bucket of the sum not finite, so that all ranks see that a loss or
// gradient was not: after its sum_add, which may overwrite it, and before its
// sum_start.
void sum_spoil(struct sum *s, uint32_t bucket);
// Marks a bucket as having all our contributions, and starts the sums of it,
// and of those that waited for it, over the ranks, as far as their order
// allows. Each bucket once per round. SL_OK or SL_ENOMEM.
enum sl_err sum_start(struct sum *s, uint32_t bucket, struct sl_error *err);

// Starts every bucket that was not started yet, though it may lack
// contributions of ours. `spoil`: makes their sums not finite. SL_OK or
// SL_ENOMEM.
enum sl_err sum_start_rest(struct sum *s, bool spoil, struct sl_error *err);

// Returns how many buckets, of both lanes, were started and not waited for.
uint64_t sum_outstanding(const struct sum *s);
// Returns how many buckets of lane 1 were started and not waited for.
uint64_t sum_early_outstanding(const struct sum *s);
// Waits for the first bucket that is outstanding, in lane 1 while it has any,
// and sets *bucket to it, also on failure. Some bucket is outstanding.
enum sl_err sum_wait(struct sum *s, uint32_t *bucket, struct sl_error *err);

// Begins to replace the `count` numbers of `data` by their sum over the ranks,
// behind all buckets of a round. `data` is lent until sum_wait_marks. To be
// called when every bucket was started, once per round. SL_OK or SL_ENOMEM.
enum sl_err sum_start_marks(struct sum *s, float *data, size_t count,
                            struct sl_error *err);
// Waits for the sum of sum_start_marks, when no bucket of lane 0 is
// outstanding. Errors as sum_wait.
enum sl_err sum_wait_marks(struct sum *s, struct sl_error *err);

// Returns how many bytes were sent to other hosts since the last call of this
// function, or sum_join. Called before sum_leave.
uint64_t sum_sent(struct sum *s);

// Returns the rank that the last sum_wait or sum_wait_marks waited for in vain
// (group_suspect), of lane 0 before the first; UINT32_MAX: none.
uint32_t sum_suspect(const struct sum *s);

#endif
