// SPDX-License-Identifier: Apache-2.0
// lib/slot.h -- what a thread of the library's has the program compute: one
// gradient at a time, as a closure.
//
//   OFFERED --sluice_take--> TAKEN --sluice_end--> DONE --> added, summed
//      |                       |
//      +-- generation over ----+--> NONE: it counts for nothing, it comes again
//
// While it is TAKEN, rows of tables are the user's thread's to pull and to add
// gradients to: the way to their shards passes with the slot.
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
        struct sl_error failed; // why rows could not be pulled; SL_OK: nothing
        struct gate *inner;     // gate of its training lease; NULL: it has none
        bool stale;             // the generation is over
        bool leaving;           // the program lets go of all of it
        bool ended;             // the thread has
    } shared;
};

// Makes a slot, in state SLOT_NONE, of session `s` for the ring lease `l` (both
// borrowed), for gradients of `ranges` ranges and `variables` variables. *t is
// zeroes before. SL_ENOMEM. Call slot_release in either case.
enum sl_err slot_init(struct lib_slot *t, struct sluice *s, struct lease *l,
                      uint32_t ranges, uint32_t variables);
// Frees what the slot owns, when the ring's thread was joined, if there was
// one, and no closure of the slot is open; may be called again, and for a slot
// of zeroes.
void slot_release(struct lib_slot *t);

// ---- the ring's thread, which wants gradients

#define SLOT_ANY UINT32_MAX       // range
#define SLOT_ALL (UINT32_MAX - 1) // wait for no range

// Offers the gradient that *told (copied) describes to the program's next
// sluice_take: the slot is SLOT_OFFERED, and none of its ranges is whole. No
// other gradient is on offer or taken.
void slot_offer(struct lib_slot *t, const struct slot_told *told);

// Waits until the program has written range `wanted` of the gradient, or the
// slot ends. `wanted` is a range; SLOT_ANY: whichever whole range was not
// returned yet, the last of several; SLOT_ALL: no range, only the slot's end.
// Returns SLOT_TAKEN, and *range is the whole range, which counts as said from
// now on; SLOT_DONE, if the program has ended its step; or SLOT_NONE, if the
// slot was withdrawn or lost. With the last two *range is a whole range as
// well, or the number of ranges if there is none. Called after slot_offer.
enum slot_state slot_next(struct lib_slot *t, uint32_t wanted, uint32_t *range);

// Returns true if slot_next has returned `range` with SLOT_TAKEN; false if its
// gradient is yet to be taken. For a slot that is SLOT_DONE.
bool slot_said(const struct lib_slot *t, uint32_t range);

// Sets the slot to SLOT_NONE, in whatever state it is, so that the next
// gradient may be offered.
void slot_put(struct lib_slot *t);
// Returns, for a slot that slot_next has found SLOT_NONE, the error of the rows
// that the program could not pull, with its text in *err; SL_ECANCELED if
// nothing failed. `err` is not NULL.
enum sl_err slot_why(struct lib_slot *t, struct sl_error *err);
// Adds `lost` to the number of gradients that were computed and count for
// nothing (sluice_info.redone).
void slot_lost(struct lib_slot *t, uint32_t lost);

// Notes whether the slot's generation is over (`stale`) or a new one has begun.
// A stale slot that no program has taken is withdrawn; one that is taken is
// lost with the program's next call.
void slot_stale(struct lib_slot *t, bool stale);

// Sets the gate of the training lease that later gradients belong to, so that
// the program's signs of life reach it; NULL: none. `inner` is borrowed until
// the next call.
void slot_within(struct lib_slot *t, struct gate *inner);
// Withdraws the slot, also one that the program has taken (its next call of the
// closure says SL_ECANCELED), marks the ring's thread as ended, and wakes
// threads that wait in sluice_take. Takes the session's lock. The thread calls
// it last.
void slot_ended(struct lib_slot *t);

// ---- the user's thread

// Notes that the program gives the lease up, and closes the gate of the
// training lease within it (slot_within), if there is one; the ring's thread
// then withdraws the slot. Does not wait.
void slot_leave(struct lib_slot *t);
// Marks closure `c` as lost and its step as not under way, fills *err and
// returns SL_ECANCELED, which the program is told.
enum sl_err slot_lose_closure(struct sluice_closure *c, struct sl_error *err);
// Ends the slot of closure `c`, which the program has taken, as its rows could
// not be pulled. The lease fails by *failed, which is copied. NULL: the
// generation is over; or, if the program has `stopped` to wait and the
// generation goes on, the lease is handed back. The caller marks the closure as
// lost.
void slot_fail(struct sluice_closure *c, const struct sl_error *failed,
               bool stopped);
// Returns true if a gradient is on offer, or the ring's thread has ended:
// sluice_take then has something to do. The session's lock is held.
bool slot_news_locked(const struct lib_slot *t);
// Takes the gradient on offer as closure `c`, sets its lease, key, positions
// and what its info says of a ring, and returns true; false if none is on offer
// any more, or it is to be withdrawn, and `c` is untouched.
bool slot_grab(struct lib_slot *t, struct sluice_closure *c);

// Begins the slot's only step and describes it in *out; after slot_end *out
// says `none` (SL_OK). The caller has checked that no step is under way.
// SL_ECANCELED: the slot was withdrawn, or its generation is over; the closure
// is lost.
enum sl_err slot_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err);
// Marks `range` of the gradient as whole, so that slot_next may return it;
// range 0 becomes whole only with slot_end, which says whether the step is
// skipped. SL_ECANCELED: the slot was withdrawn, or its generation is over; the
// closure is lost.
enum sl_err slot_ready(struct sluice_closure *c, uint32_t range,
                       struct sl_error *err);
// Ends the step under way with result *r (copied): the slot is SLOT_DONE, with
// what c->absent says. SL_ECANCELED: the slot was withdrawn, or its generation
// is over; the closure is lost.
enum sl_err slot_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err);
// Returns true if the program may let go of the closure: its step was ended, or
// is lost. False: it would leave the step undone.
bool slot_over(const struct sluice_closure *c);

// Sets in *step, whose `absent` is zeroes before, the bits of the pieces of
// shard `range` of `l` that have no gradient, as absent[] says for each
// variable, and `none` if no piece has one. Looks at the first WIRE_ABSENT_MAX
// pieces alone. Returns how many of these have no gradient.
uint32_t slot_absent(struct sync_step *step, const struct layout *l,
                     uint32_t range, const bool *absent);

#endif
