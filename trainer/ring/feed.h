// SPDX-License-Identifier: Apache-2.0
// trainer/ring/feed.h -- what a rank gives out while rounds go on, to newcomers
// that follow it.
//
// It gives an image of each part at one instant, and then the rounds that came
// after: a newcomer copies the one and applies the others until it has what the
// ranks have. Parts may come from different ranks, each of another instant. A
// round's record is kept from the moment when a newcomer copies the part until
// every newcomer that does has asked for a later one; without newcomers no
// record is kept.
//
// Rounds may be quicker than a newcomer is with what they bring, on a slow link
// or where all share a few cores: it would never get level. So the rank waits
// between rounds while a newcomer that asks is rounds behind, before each round
// at most the FEED_SHARE-th part of what the last one took (ring_feed_lags). A
// round takes as long as the slowest wait of all ranks and its own work, so
// with waits of `w` and work of `r` that is w <= (r + w) / FEED_SHARE: rounds
// go on at half their pace or more, for any number of newcomers, however far
// behind.
//
//   ring_feed_new -> ring_feed_read ... (I/O)
//               ring_feed_round, ring_feed_lags until false ... (compute) ->
//               ring_feed_free
//
// A part that is on a device has no image until its values were copied to host
// memory: the compute thread does that, between two rounds (ring_feed_wants).
//
// Threads  ring_feed_read: any, it may take as long as a part's pages take to
//          be found; ring_feed_free: when no call is under way; the rest: the
//          compute thread.
// Memory   ring_feed_free; holds a reference to each part, an image of it while
//          it is copied, and records: FEED_ROUNDS of them, or FEED_BYTES,
//          whichever are more. A follower that needs more ends the feed.
// Units    bytes; steps: how many a part's state has counted, which names one
//          state of a generation; rounds: how many the job's state has had, as
//          in its tag (rank.h).
// Errors   ring_feed_read: SL_EBUSY: not yet, ask again; SL_ESTALE: no longer,
//          what was copied leads nowhere (of a part that follows records, no
//          second image is made), the feed has ended, or it has FEED_FOLLOWERS
//          others; SL_ERANGE: no such part, follower or bytes; SL_ENOMEM. `err`
//          may be NULL, and may be left without text.
#ifndef TRAINER_RING_FEED_H
#define TRAINER_RING_FEED_H

#include "common/base/clock.h"
#include "trainer/ring/rank.h"

#define FEED_FOLLOWERS 8
#define FEED_SILENT_MS 10000
#define FEED_BYTES ((size_t)64 << 20)
#define FEED_ROUNDS 8
#define FEED_LAG 2      // rounds behind from which a newcomer is waited for
#define FEED_COPY_LAG 4 // the same while it copies the image
// plus two rounds: a newcomer silent longer is not waited for
#define FEED_ASKS_MS 250
#define FEED_SHARE 2 // a wait is at most 1/FEED_SHARE of a round
// ms after its first call a newcomer is not waited for
#define FEED_PATIENCE 60000
#define FEED_HOLD_MS                                                           \
    20 // wait for a level newcomer to become a member: a
       // round that is begun meanwhile would be in vain

struct feed_ask {
    uint64_t follower; // a number of the newcomer's own, not 0
    uint32_t part;
    // The record of the round after `after` is wanted; else the image.
    bool record;
    uint64_t after; // steps that the newcomer has applied
    bool all;       // it has applied them to every part, not this one alone
    // Bytes of the record or image. A read that begins before the part's memory
    // ends before it, too.
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
    uint64_t magic, rounds; // rounds applied, with this one
    uint64_t before, after; // steps counted before and after the round
    uint64_t keys, skip, average_bytes;
};
struct feed_key {
    uint64_t closure, step, samples, digest;
};

#define FEED_IMAGE_MAGIC UINT64_C(0x31676d696b6e7273)  // srnkimg1
#define FEED_RECORD_MAGIC UINT64_C(0x316365726b6e7273) // srnkrec1

struct ring_feed;

// Begins to give out the state of `r`, which runs rounds of a generation. Takes
// a reference to each part; `r` need not stay. `clock` is borrowed. `r` has a
// state. SL_ENOMEM leaves *out as it was.
enum sl_err ring_feed_new(struct ring_feed **out, const struct rank *r,
                          const struct sl_clock *clock);
// Frees images, records and references; ring_feed_read is served no more
// (ranks_stop_feed came before). NULL is allowed.
void ring_feed_free(struct ring_feed *f);

// Copies the bytes that `ask` names to `into`, which has space for ask->bytes
// and is undefined on failure. Takes the newcomer in as a follower, if it is
// none yet (one that was forgotten as silent begins anew, with an image), and
// notes that it is alive and, by a record, what it has applied: the records
// before that, and an image that it has copied, are freed. The first read of an
// image makes it. SL_OK, or the errors above.
enum sl_err ring_feed_read(struct ring_feed *f, const struct feed_ask *ask,
                           void *into, struct sl_error *err);

// Keeps a copy of the record of a round that was just applied to `r`
// (rank_round returned SL_OK), if a newcomer needs it; arguments as in
// rank_round, but `g` is read here also if the state is away. Notes how long
// the round took, and forgets followers that are silent. Without memory for it,
// or beyond what may be kept, the feed ends, and gives nothing more.
void ring_feed_round(struct ring_feed *f, const struct rank *r,
                     const struct once_step *steps, size_t count,
                     const float *g, const float *present);

// Forgets followers that have been silent for FEED_SILENT_MS, and frees the
// images that were kept for them: while one is kept, no other image of that
// part can be made. Each round does this too; to be called where an image is
// needed and no round follows.
void ring_feed_forget_silent(struct ring_feed *f);

// Returns true if the rank should still wait for a follower before its next
// round; does not wait itself. Ask right before each round, every few ms until
// it is false or news ends the wait; give images between (ring_feed_wants). A
// call also sets when the round begins, from which its duration is taken.
bool ring_feed_lags(struct ring_feed *f);

// Returns true if an image of `part`, below the number of parts, is asked for,
// and the part is on a device: the caller then copies it to host memory
// (rank_bring_part) and calls ring_feed_image, before the next round. False as
// well while a file of the part is written, of which there is an image. If the
// part is not the rank's any more, the feed ends, and it returns false. `r` has
// a state.
bool ring_feed_wants(struct ring_feed *f, const struct rank *r, uint32_t part);
// Makes the image of `part` that is asked for, which is in host memory; does
// nothing if none is. The part may change once it returns: what a round is
// about to change is copied first. Without memory for the image it is still
// asked for, and without memory for its head the feed ends.
void ring_feed_image(struct ring_feed *f, uint32_t part);

#endif
