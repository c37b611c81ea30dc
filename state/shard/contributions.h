// SPDX-License-Identifier: Apache-2.0
// state/shard/contributions.h -- the contributions of the open round, held
// until it is whole (train.mode sync).
//
// A round is `most` consecutive closures of one epoch, of one step each, and at
// the end of an epoch fewer; its slots are their places in it, the same on
// every shard (Y1). The open round is that of the first closure which is not
// counted; it is whole when each of its slots is held or counted already, as
// after a resume from async. Held contributions are counted nowhere and are in
// no snapshot (Y2): a shard that is loaded begins its open round empty.
//
// The mean is over samples: sum n_i g_i / sum n_i, in f32 and in the order of
// slots, so that it does not depend on the order of arrival. If one
// contribution is to be skipped, or the mean is not finite, all are skipped.
//
// Threads  the shard's lock.
// Memory   contributions_release frees; up to `most` times the values of the
//          shard, kept from round to round. Rows are held until the round is
//          averaged, or another one is opened, at the cost of an account.
// Units    elements of the shard; closures.
// Errors   SL_ENOMEM, and those of row_account_take (SL_ERANGE: too little
//          memory is left; SL_EBUSY: so it is until a snapshot is written); a
//          call that fails has changed nothing.
#ifndef STATE_SHARD_CONTRIBUTIONS_H
#define STATE_SHARD_CONTRIBUTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/schedule.h"
#include "state/shard/once.h"
#include "state/shard/mean.h"
#include "state/shard/shard_tables.h"

#define CONTRIBUTIONS_MOST 1024

struct contributions_slot {
    bool held;
    struct once_step step; // staleness 0
    float *gradient;       // owned; undefined if step.skip, or if it is `last`
    float most;            // at least its largest magnitude; 0 if step.skip
    double *norms;         // of its pieces; owned; NULL: not wanted
    uint8_t *rows;         // blocks of table_rows.h; owned
    size_t rows_bytes;     // 0: none
};

struct contributions {
    uint32_t most; // 0: not sync
    size_t elements;
    struct row_account *account; // of rows; borrowed
    const struct coded *coded;   // form of payloads; borrowed
    struct directions directions;
    uint64_t first;                   // closure of slot 0
    uint32_t held;                    // number of held slots
    struct contributions_slot *slots; // owned
    struct once_step *steps;          // steps of the averaged round; owned
    struct mean_part *parts;          // gradients of the mean; owned
    struct contributions_last {       // payload that makes the round whole
        uint64_t closure;
        enum wire_type type;
        struct sl_slices payload; // borrowed for the call; none: all are held
    } last;
    struct contributions_past { // averaged round, and version before it
        uint64_t first, version;
        uint32_t count; // 0: none since the shard was loaded
    } past;
};

// Prepares for the rounds of a shard, of plan->contributions slots, at most
// CONTRIBUTIONS_MOST; 0: the mode is not sync. The round at closure 0 is then
// open, and empty. Memory for gradients is allocated when they come. `account`
// pays for rows; NULL: there are none. The plan is borrowed. Returns SL_OK or
// SL_ENOMEM, after which *c is for contributions_release.
enum sl_err contributions_init(struct contributions *c, const struct plan *plan,
                               struct row_account *account);
// Frees all that is held, and the memory, and zeroes *c; a zeroed one is
// allowed.
void contributions_release(struct contributions *c);

// Returns the first closure of the round that `closure` is in, and sets *count
// to the round's number of closures. `most`, the slots of a round, is not 0.
uint64_t contributions_round(const struct schedule *s, uint32_t most,
                             uint64_t closure, uint32_t *count);

// Opens the round that begins at closure `first`; drops contributions held of
// another round, with their rows. Does nothing if that one is open.
void contributions_open(struct contributions *c, uint64_t first);

// Drops all that is held.
void contributions_clear(struct contributions *c);

// Returns true if the contribution of `closure` is held; false also for a
// closure of another round.
bool contributions_has(const struct contributions *c, uint64_t closure);

// Holds a contribution of the open round, which must not be held yet. `payload`
// is empty if step->skip. Else it is of c->elements elements, or a code of
// c->coded. Both it and `rows`, which are not looked at if step->skip, are read
// during the call. `last`: it makes the round whole; then the payload is not
// copied, and must stay until the round is averaged or the contribution
// dropped. Returns SL_OK or the errors above.
enum sl_err contributions_hold(struct contributions *c,
                               const struct once_step *step,
                               enum wire_type type,
                               const struct sl_slices *payload,
                               const struct tables_push *rows, bool last);

// Forgets the contribution of `closure`, which must be held, and gives the
// memory of its rows back.
void contributions_drop(struct contributions *c, uint64_t closure);

// Returns true if one of the held contributions says that its step is to be
// skipped.
bool contributions_skip(const struct contributions *c);

// Averages the open round, which is whole and has at least one held step, and
// empties it, also of its rows. In either case sets c->steps to the *count held
// steps, by slot, and *largest to the most samples of one contribution. Returns
// true, and sets *mean, of which the parts
// stay until the next contribution is held; or false, with all steps marked as
// skipped and *mean of no use, if `skip` (which must be true if
// contributions_skip is) or if the mean is not finite.
bool contributions_mean(struct contributions *c, bool skip, uint32_t *count,
                        uint64_t *largest, struct mean *mean);

#endif
