// SPDX-License-Identifier: Apache-2.0
// worker/ring/newcomer.h -- a rank that is no member yet: it copies the state
// of those who are while their rounds go on, each part from another of them.
//
// Threads  the compute thread.
// Memory   newcomer_free; rank and seat are borrowed. The generation that is
//          followed may end meanwhile: its ranks give records out until the
//          next one goes.
// Errors   as in follow.h; SL_ECANCELED: the seat has news.
#ifndef WORKER_RING_NEWCOMER_H
#define WORKER_RING_NEWCOMER_H

#include "worker/ring/rank.h"
#include "worker/ring/seat.h"

struct newcomer;

// `id`: a number that no other newcomer has; not 0. `j` is borrowed for the
// call.
enum sl_err newcomer_new(struct newcomer **out, struct rank *rank,
                         const struct rank_job *j, struct seat *seat,
                         const Sluice__V1__RingCopy *copy, uint64_t id,
                         struct sl_error *err);
void newcomer_free(struct newcomer *n); // NULL is allowed

// A piece of the state, or a round. SL_EBUSY: there is none yet.
enum sl_err newcomer_step(struct newcomer *n, struct sl_error *err);

// The state is in place, and what the ranks have, or it will not get nearer: it
// is a good moment for them to make it a member.
bool newcomer_is_level(const struct newcomer *n);

// What is left up to the base of the next generation. SL_ESTATE: that is
// another past.
enum sl_err newcomer_to(struct newcomer *n, struct wire_tag base,
                        struct sl_error *err);

#endif
