// SPDX-License-Identifier: Apache-2.0
// trainer/ring/follow.h -- a newcomer's copy of a state that goes on: images of
// its parts, brought to one round by records (feed.h).
//
//   follow_init -> follow_step ... -> SL_EBUSY: level with the ranks, for now
//               -> follow_to: level with a base -> follow_release
//
// While images come, parts that are whole take the records up to the newest
// image, so ranks need not keep many of them. Several pieces are asked for at
// once, of several ranks.
//
// Rounds are applied with the arithmetic of the ranks, so that the state is
// theirs to the bit, and has their tag from when all parts are at one round
// (R3). From then on a round is fetched whole before any part takes it.
//
// Threads  the compute thread.
// Memory   follow_release; the rank is borrowed. Two states exist until the
//          copy takes the place of the rank's old one.
// Units    bytes; rounds: how many the state has had, as its tag says (rank.h).
// Errors   Those of the fetch, such as SL_EBUSY: nothing is new; then, and
//          after follow_to's SL_ESTATE, the copy is as good as before, and the
//          call may be made again. After any other error (SL_ECORRUPT,
//          SL_ENOMEM) it is lost: only follow_release may be called; the rank
//          has the state that it had, or none. `err` may be NULL.
#ifndef TRAINER_RING_FOLLOW_H
#define TRAINER_RING_FOLLOW_H

#include "trainer/ring/feed.h"

struct follow_get {
    struct feed_ask ask;
    void *into;
    enum sl_err rc; // set by the fetch function
};

#define FOLLOW_AT_ONCE 8

// Fetches `count` pieces, at most FOLLOW_AT_ONCE; some may have been fetched
// when others fail. Returns the first error, SL_EBUSY only if there is no
// other.
typedef enum sl_err (*follow_fetch_fn)(void *arg, struct follow_get *gets,
                                       size_t count, struct sl_error *err);

struct follow_part;

struct follow {
    struct rank *rank;
    uint64_t job, job_incarnation, generation, id;
    follow_fetch_fn fetch;
    void *arg;
    struct shard **parts;     // NULL once they are the rank's; owned
    struct follow_part *part; // owned
    uint32_t count;
    uint32_t first; // part that is looked at first
    bool records;   // records are fetched next; else images
    bool in_place;  // the copy is the rank's state
};

// Begins to copy the state of `generation` for `rank`, with `fetch(arg, ...)`.
// `id`: a number that no other newcomer has. `j` is borrowed for the call. On
// failure (SL_ENOMEM, SL_EINVAL: rank_plans) *f is untouched. `rank`, `fetch`
// and `arg` are borrowed until follow_release; the rank keeps its old state
// until the copy takes its place.
enum sl_err follow_init(struct follow *f, struct rank *rank,
                        const struct rank_job *j, uint64_t generation,
                        uint64_t id, follow_fetch_fn fetch, void *arg,
                        struct sl_error *err);
// Frees what is copied; a state that is in place stays with the rank. All
// zeroes is allowed.
void follow_release(struct follow *f);

// Fetches the next pieces of images or of records. When the copy is whole,
// makes it the rank's state, and applies rounds to that from then on. SL_OK:
// something was taken, call it again; else the errors above.
enum sl_err follow_step(struct follow *f, struct sl_error *err);

// Applies rounds up to number `rounds` to the rank's state, fetching what is
// missing. SL_OK: the state has it. SL_ESTATE: the copy is not in place, or is
// beyond, or of another generation by now. SL_EBUSY: a round is not there yet,
// call it again.
enum sl_err follow_to(struct follow *f, uint64_t rounds, struct sl_error *err);

#endif
