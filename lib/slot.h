// SPDX-License-Identifier: Apache-2.0
// lib/slot.h -- what a thread of the library's has the program compute: one
// gradient at a time, as a closure.
//
//   OFFERED --sluice_take--> TAKEN --sluice_end--> DONE --> added, summed
//      |                       |
//      +-- generation over ----+--> NONE: it counts for nothing, it comes again
//
// A slot that no program has taken is withdrawn when the generation ends, so
// that others need not wait for a program that does something else. One that is
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
    uint64_t next_first, next_count; // the next one's; 0: not known
    uint64_t generation, rounds;
    uint32_t ranks, self;
};

struct lib_slot {
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
        struct gate *inner; // gate of its training lease; NULL: it has none
        bool stale;         // the generation is over
        bool leaving;       // the program lets go of all of it
        bool ended;         // the thread has
    } shared;
};

// Makes a slot of session `s` for the ring lease `l`, for gradients of `ranges`
// ranges and `variables` variables. *t is zeroes before. SL_ENOMEM:
// slot_release, as after SL_OK.
enum sl_err slot_init(struct lib_slot *t, struct sluice *s, struct lease *l,
                      uint32_t ranges, uint32_t variables);
// Frees what the slot owns; a slot of zeroes is allowed.
void slot_release(struct lib_slot *t);

// ---- the ring's thread, which wants gradients

#define SLOT_ANY UINT32_MAX       // range
#define SLOT_ALL (UINT32_MAX - 1) // wait for no range

// Offers the gradient that `told` describes to the program's sluice_take. *told
// is copied. No other gradient is on offer or taken. No range of it is whole
// yet.
void slot_offer(struct lib_slot *t, const struct slot_told *told);

// Waits until range `wanted` is whole or the slot is over, and returns the
// slot's state: SLOT_TAKEN, or SLOT_NONE (withdrawn or lost) or SLOT_DONE.
// *range is the whole range, else the number of ranges. With SLOT_TAKEN a range
// is returned once, and counts as said; with the other two nothing is waited
// for. SLOT_ANY: the last whole range that was not said yet. Called after
// slot_offer.
enum slot_state slot_next(struct lib_slot *t, uint32_t wanted, uint32_t *range);

// Returns true if slot_next has returned `range` with SLOT_TAKEN, for a slot in
// SLOT_DONE.
bool slot_said(const struct lib_slot *t, uint32_t range);

// Ends the slot for the ring's thread: SLOT_NONE, in whatever state it is. The
// next one may be offered.
void slot_put(struct lib_slot *t);
// Adds `lost` gradients to those that count for nothing (sluice_info.redone).
void slot_lost(struct lib_slot *t, uint32_t lost);

// Marks the slot as `stale`: its generation is over; false: a new one began.
void slot_stale(struct lib_slot *t, bool stale);

// Sets the gate of the training lease that later gradients belong to; NULL: to
// none. `inner` is borrowed until then.
void slot_within(struct lib_slot *t, struct gate *inner);
// Withdraws the slot, also one that the program has taken (its next call of the
// closure says SL_ECANCELED), marks the ring's thread as ended, and wakes
// threads that wait in sluice_take. Takes the session's lock. The thread calls
// it last.
void slot_ended(struct lib_slot *t);

// ---- the user's thread

// Notes that the program lets go of the lease, and closes the gate of its
// training lease; the ring's thread then withdraws the slot.
void slot_leave(struct lib_slot *t);
// Ends the closure and the step under way, and returns what the program is told
// then: SL_ECANCELED.
enum sl_err slot_lose_closure(struct sluice_closure *c, struct sl_error *err);
// Returns true if the slot is offered, or the ring's thread has ended. Under
// the session's lock.
bool slot_news_locked(const struct lib_slot *t);
// Takes the slot on offer as closure `c`, of which it sets lease, key,
// positions and what `info` says of a ring; false: there is none any more.
bool slot_grab(struct lib_slot *t, struct sluice_closure *c);

// Begins the slot's only step, as sluice_begin does; after slot_end it says
// `none`. The caller has checked that no step is under way. SL_ECANCELED: the
// slot was lost.
enum sl_err slot_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err);
// Marks `range` of the gradient as whole; range 0 counts as whole only with
// slot_end. SL_ECANCELED: the slot was lost.
enum sl_err slot_ready(struct sluice_closure *c, uint32_t range,
                       struct sl_error *err);
// Ends the step with result `r`, which is copied and not NULL: the slot is
// SLOT_DONE. A step is under way. SL_ECANCELED: the slot was lost.
enum sl_err slot_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err);
// Returns true if the slot was ended or lost, false if the program lets go of
// it undone.
bool slot_over(const struct sluice_closure *c);

// Sets in `step`, whose `absent` is zeroes before, which pieces of `range` (a
// shard of `l`) have no gradient, by `absent`, which is by variable; and `none`
// if no piece has one. Looks at the first WIRE_ABSENT_MAX pieces. Returns how
// many of these have none.
uint32_t slot_absent(struct sync_step *step, const struct layout *l,
                     uint32_t range, const bool *absent);

#endif
