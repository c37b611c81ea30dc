// SPDX-License-Identifier: Apache-2.0
// worker/ring/feed.h -- what a rank gives out while rounds go on, to newcomers
// that follow it.
//
// Of each part an image of one instant, and then the rounds that came after: a
// newcomer copies the one and applies the others until it has what the ranks
// have. Parts may come from different ranks, each of another instant. A round's
// record is kept from the moment when somebody copies the part until everybody
// who does has asked for a later one; nothing is kept while nobody asks.
//
// Rounds may be quicker than a newcomer is with what they bring, on a slow link
// or where all share a few cores: it would never get level. So the rank waits
// between rounds while somebody who asks is rounds behind, before each round at
// most the FEED_SHARE-th part of what the last one took (feed_lags). A round
// takes as long as the slowest wait of all ranks and its own work, so with
// waits of `w` and work of `r` that is w <= (r + w) / FEED_SHARE: whoever
// follows whom, and however far behind, rounds go on at half their pace or
// more.
//
//   feed_new -> feed_read ... (I/O)
//               feed_round, feed_lags until false ... (compute) -> feed_free
//
// A part whose values are on a device has no image until it was brought home:
// that is the compute thread's to do, between two rounds (feed_wants).
//
// Threads  feed_read: any, it may take as long as a part's pages take to be
//          found; feed_round, feed_lags: the compute thread; feed_free: when no
//          call is under way.
// Memory   feed_free; holds a reference to each part, an image of it while it
//          is copied, and records: FEED_ROUNDS of them, or FEED_BYTES.
// Units    bytes; steps: how many a part's state has counted, which names one
//          state of a generation; rounds: as in the tag.
// Errors   feed_read: SL_EBUSY: not yet, ask again; SL_ESTALE: no longer, what
//          was copied leads nowhere (of a part that follows records, no second
//          image is made); SL_ERANGE.
#ifndef WORKER_RING_FEED_H
#define WORKER_RING_FEED_H

#include "common/base/clock.h"
#include "worker/ring/rank.h"

#define FEED_FOLLOWERS 8
#define FEED_SILENT_MS 10000
#define FEED_BYTES ((size_t)64 << 20)
#define FEED_ROUNDS 8
#define FEED_LAG 2          // rounds behind: is waited for, until level
#define FEED_COPY_LAG 4     // while the image is copied, which comes first
#define FEED_ASKS_MS 250    // who has not asked for longer, and two rounds
#define FEED_SHARE 2        // a wait is so small a part of a round, or less
#define FEED_PATIENCE 60000 // ms since it came first; then rounds go on
#define FEED_HOLD_MS                                                           \
    20 // more, until it is made a member: a round that is
       // begun meanwhile would be for nothing

struct feed_ask {
    uint64_t follower; // a number of the newcomer's own, not 0
    uint32_t part;
    bool record;    // of the round after `after` steps, else the image
    uint64_t after; // all up to there is applied
    bool all;       // to every part, not this one alone
    uint64_t offset;
    size_t bytes;
};

// The image begins with this, little-endian; then its CountedSet, its
// ShardCounts, the part's memory.
struct feed_image {
    uint64_t magic, rounds, set_bytes, counts_bytes, memory_bytes;
};

// A record begins with this; then its keys, and the average unless skipped.
// `skip`: FEED_SKIP, or FEED_ABSENT: then a bit per piece (wire_absent),
// rounded up to bytes, comes behind that.
#define FEED_SKIP 1
#define FEED_ABSENT 2
struct feed_record {
    uint64_t magic, rounds; // as of after it
    uint64_t before, after; // steps
    uint64_t keys, skip, average_bytes;
};
struct feed_key {
    uint64_t closure, step, samples, digest;
};

#define FEED_IMAGE_MAGIC UINT64_C(0x31676d696b6e7273)  // srnkimg1
#define FEED_RECORD_MAGIC UINT64_C(0x316365726b6e7273) // srnkrec1

struct feed;

// Of a rank whose generation goes.
enum sl_err feed_new(struct feed **out, const struct rank *r,
                     const struct sl_clock *clock);
void feed_free(struct feed *f); // NULL is allowed

enum sl_err feed_read(struct feed *f, const struct feed_ask *ask, void *into,
                      struct sl_error *err);

// A round was applied to the rank; arguments as in rank_round. Without memory
// for it the feed ends.
void feed_round(struct feed *f, const struct rank *r,
                const struct once_step *steps, size_t count, const float *g,
                const float *present);

// Forgets followers that have asked nothing for FEED_SILENT_MS, with the images
// that were kept for them: while an image is kept, nothing else can take one of
// that part. Every round does so; where no round follows, whoever needs an
// image does.
void feed_forget_silent(struct feed *f);

// Whether the next round should wait still for somebody who follows. Asked
// before each round, and again and again until it says no.
bool feed_lags(struct feed *f);

// True if an image of that part is asked for, and its memory must be brought
// home first; then feed_image, before the next round, makes it. Of a part that
// is not the rank's any more nobody gets one: the feed ends.
bool feed_wants(struct feed *f, const struct rank *r, uint32_t part);
void feed_image(struct feed *f, uint32_t part);

#endif
