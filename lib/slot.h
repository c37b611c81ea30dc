// SPDX-License-Identifier: Apache-2.0
// lib/slot.h -- what a thread of the library's has the program compute: one
// gradient at a time, as a closure.
//
//   OFFERED --sluice_take--> TAKEN --sluice_end--> DONE --> added, summed
//      |                       |
//      +-- generation over ----+--> NONE: it counts for nothing, it comes again
//
// A slot that nobody has taken is withdrawn when the generation ends, so that
// others need not wait for a program that does something else. One that is
// taken is waited for: the program reads the parameters meanwhile.
//
// Threads  as said of each part; `shared` under the session's lock.
// Memory   slot_release.
// Units    ranges of the gradient: buckets of a ring, shards of a group.
// Errors   as sluice.h.
#ifndef LIB_SLOT_H
#define LIB_SLOT_H

#include "lib/inner.h"

enum slot_state { SLOT_NONE, SLOT_OFFERED, SLOT_TAKEN, SLOT_DONE };

struct slot_told {
    struct round_key key;
    uint64_t first, count;           // positions
    uint64_t next_first, next_count; // of the next one; 0: not known
    uint64_t generation, rounds;
    uint32_t ranks, self;
};

struct slot {
    struct sluice *session;
    struct lease *lease; // the ring's
    uint32_t ranges, variables;
    uint64_t beats; // the thread's: of the ring's pulse, as seen last

    struct {
        enum slot_state at;
        struct slot_told told;
        unsigned char *range; // by range; owned
        struct sluice_result result;
        bool *absent; // by variable: it has no gradient; owned
        uint64_t redone;
        struct gate *inner; // of the training lease that it is of, or NULL
        bool stale;         // the generation is over
        bool leaving;       // the program lets go of all of it
        bool ended;         // the thread has
    } shared;
};

enum sl_err slot_init(struct slot *t, struct sluice *s, struct lease *l,
                      uint32_t ranges, uint32_t variables);
void slot_release(struct slot *t); // all zeroes is allowed

// ---- the thread that wants it

#define SLOT_ANY UINT32_MAX       // range
#define SLOT_ALL (UINT32_MAX - 1) // wait for no range

void slot_offer(struct slot *t, const struct slot_told *told);

// Until the range is whole, or the slot is over: SLOT_NONE, SLOT_DONE. Which
// range it is, is said once. `wanted` SLOT_ANY: the last one of those.
enum slot_state slot_next(struct slot *t, uint32_t wanted, uint32_t *range);

// Of one that is done: it was said.
bool slot_said(const struct slot *t, uint32_t range);

// It is over for the thread; `lost`: so many gradients count for nothing.
void slot_put(struct slot *t);
void slot_lost(struct slot *t, uint32_t lost);

// The generation is over, or another one was joined.
void slot_stale(struct slot *t, bool stale);

// What follows is of this training lease, or of none.
void slot_within(struct slot *t, struct gate *inner);
void slot_ended(struct slot *t);

// ---- the user's

void slot_leave(struct slot *t);
bool slot_news_locked(const struct slot *t); // offered, or ended
bool slot_grab(struct slot *t, struct sluice_closure *c);

enum sl_err slot_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err);
// A range of the gradient is whole.
enum sl_err slot_ready(struct sluice_closure *c, uint32_t range,
                       struct sl_error *err);
enum sl_err slot_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err);
// It was ended, or was lost; else the program lets go of it undone.
bool slot_over(const struct sluice_closure *c);

#endif
