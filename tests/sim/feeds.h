// SPDX-License-Identifier: Apache-2.0
// tests/sim/feeds.h -- what a rank gives out while its rounds go on, and how a
// newcomer takes it: the worker's own feed (trainer/ring/feed.h), asked State
// call by State call, so that whoever copies may die in the middle of it.
//
// The parts count what the rank's state has; their values are zeroes.
//
// The worker ends its feed with the last round besides. Here it goes on, so
// that what a follower leaves behind is met where no round follows.
#ifndef TESTS_SIM_FEEDS_H
#define TESTS_SIM_FEEDS_H

#include "plan/round.h"
#include "tests/sim/rings.h"

struct give;
struct take;

// ---- of a rank

struct give *give_new(struct sim *s, const Sluice__V1__JobOpen *open);
void give_free(struct give *g); // NULL is allowed
void give_end(struct give *g);  // likewise: nobody is given anything any more

// The generation of that state goes; a round of it was applied.
void give_begin(struct give *g, const struct rank_state *state);
void give_round(struct give *g, const struct rank_state *state,
                const struct round_key *keys, uint32_t count);
bool give_lags(struct give *g);

// An image of a part, for a file; NULL: somebody has one.
struct shard_image *give_freeze(struct give *g, uint32_t part);

// ---- of a newcomer

struct take *take_new(struct sim *s, uint64_t follower, uint64_t generation);
void take_free(struct take *t); // NULL is allowed
bool take_begun(const struct take *t);
// The part that it asks for next, and that call to a rank: SL_EBUSY: later.
uint32_t take_part(const struct take *t);
enum sl_err take_call(struct take *t, struct give *from);
// All parts have counted so many steps.
bool take_is_level(const struct take *t, uint64_t steps);

#endif
