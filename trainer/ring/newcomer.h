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
// It names one rank at least. Does not wait for them. The errors of follow_init
// and rpc_channel_new; *out is untouched then.
enum sl_err newcomer_new(struct newcomer **out, struct rank *rank,
                         const struct rank_job *j, struct seat *seat,
                         const Sluice__V1__RingCopy *copy, uint64_t id,
                         struct sl_error *err);
// Frees the copy, and its channels, of which no call is under way; a state that
// is in place stays with the rank. NULL is allowed.
void newcomer_free(struct newcomer *n);

// Takes the next pieces of the state, or once that is in place the whole next
// round; waits for each answer, 2 seconds at most; a round may take several.
// SL_OK: call it again. SL_EBUSY: there is nothing new yet, or no rank has
// answered for less than 10 s. SL_ECANCELED: call seat_look, then this again;
// while the seat has news nothing is asked. SL_EUNAVAIL, SL_ETIMEDOUT: no rank
// has answered for 10 s.
enum sl_err newcomer_step(struct newcomer *n, struct sl_error *err);

// Returns true if the state is in place, and is level with the ranks (the last
// newcomer_step found nothing new, right behind a round or for 1 s) or will not
// get nearer to them (it is in place for 30 s): now they had better make this
// rank a member.
bool newcomer_is_level(const struct newcomer *n);

// Takes the rounds that are left up to the base of the next generation: the
// state with the tag `base` (generation, rounds that it has had). SL_OK: the
// rank has `base`. SL_EBUSY: rounds are still missing after about a second.
// SL_ESTATE: the state is not in place (newcomer_is_level), is beyond the base,
// or the base is of another past. SL_ECANCELED as newcomer_step. SL_EUNAVAIL,
// SL_ETIMEDOUT: a rank did not answer; it is not asked again.
enum sl_err newcomer_to(struct newcomer *n, struct wire_tag base,
                        struct sl_error *err);

#endif
