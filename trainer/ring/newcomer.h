// SPDX-License-Identifier: Apache-2.0
// trainer/ring/newcomer.h -- a rank that is no member yet: it copies the state
// of the members while their rounds go on, each part from another of them.
//
// Threads  the compute thread.
// Memory   newcomer_free; rank and seat are borrowed. The generation that is
//          followed may end meanwhile: its ranks give records out until the
//          next one goes.
// Errors   as in follow.h; SL_ECANCELED: the seat has news.
#ifndef TRAINER_RING_NEWCOMER_H
#define TRAINER_RING_NEWCOMER_H

#include "trainer/ring/rank.h"
#include "trainer/ring/seat.h"

struct newcomer;

// Begins to copy the state from the ranks that `copy` names. `id`: a number
// that no other newcomer has; not 0. `j` and `copy` are borrowed for the call.
enum sl_err newcomer_new(struct newcomer **out, struct rank *rank,
                         const struct rank_job *j, struct seat *seat,
                         const Sluice__V1__RingCopy *copy, uint64_t id,
                         struct sl_error *err);
void newcomer_free(struct newcomer *n); // NULL is allowed

// Takes the next pieces of the state, or the next round. SL_EBUSY: none is
// there yet.
enum sl_err newcomer_step(struct newcomer *n, struct sl_error *err);

// Returns true if the state is in place and level with the ranks, or will not
// get nearer: a good moment for them to make this rank a member.
bool newcomer_is_level(const struct newcomer *n);

// Takes the rounds that are left up to the base of the next generation.
// SL_ESTATE: the base is of another past.
enum sl_err newcomer_to(struct newcomer *n, struct wire_tag base,
                        struct sl_error *err);

#endif
