// SPDX-License-Identifier: Apache-2.0
// trainer/ring/newcomer.h -- a rank that is no member yet: it copies the state
// of the members while their rounds go on, each part from another of them.
//
// Threads  the compute thread.
// Memory   newcomer_free; rank and seat are borrowed. The generation that is
//          followed may end meanwhile: its ranks give records out until the
//          next one goes.
// Errors   as in follow.h; SL_ECANCELED: the seat has news. `err` may be NULL.
//          After an error of newcomer_step or newcomer_to but SL_EBUSY and
//          SL_ECANCELED only newcomer_free may be called.
#ifndef TRAINER_RING_NEWCOMER_H
#define TRAINER_RING_NEWCOMER_H

#include "trainer/ring/rank.h"
#include "trainer/ring/seat.h"

struct newcomer;

// Begins to copy the state from the ranks that `copy` names. `id`: a number
// that no other newcomer has; not 0. `j` and `copy` are borrowed for the call.
// It names one rank at least. Does not wait for them. *out is untouched on
// failure.
enum sl_err newcomer_new(struct newcomer **out, struct rank *rank,
                         const struct rank_job *j, struct seat *seat,
                         const Sluice__V1__RingCopy *copy, uint64_t id,
                         struct sl_error *err);
// Frees the copy, and its channels, of which no call is under way; a state that
// is in place stays with the rank. NULL is allowed.
void newcomer_free(struct newcomer *n);

// Takes the next pieces of the state, or the next round. Waits 2 seconds at
// most. SL_EBUSY: none is there yet, or no rank has answered for less than 10
// s. SL_ECANCELED: look at the seat, then call it again.
enum sl_err newcomer_step(struct newcomer *n, struct sl_error *err);

// Returns true if the state is in place and level with the ranks, or will not
// get nearer: a good moment for them to make this rank a member.
bool newcomer_is_level(const struct newcomer *n);

// Takes the rounds that are left up to the base of the next generation. On
// SL_OK the rank has `base`. Waits about a second for rounds that are missing,
// then SL_EBUSY. SL_ESTATE: the state is not in place (newcomer_is_level), is
// beyond the base, or the base is of another past. SL_EUNAVAIL, SL_ETIMEDOUT: a
// rank did not answer, with no patience.
enum sl_err newcomer_to(struct newcomer *n, struct wire_tag base,
                        struct sl_error *err);

#endif
