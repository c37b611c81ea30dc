// SPDX-License-Identifier: Apache-2.0
// common/base/moves.h -- a state machine as data: per state, the set of
// states that may follow it.
//
// The one function that changes a state asserts that its table has the move,
// and a test walks the table.
//
// Threads  pure.
// Units    states are numbers from 0 to 31, below the length of `moves`.
#ifndef COMMON_BASE_MOVES_H
#define COMMON_BASE_MOVES_H

#include <stdbool.h>

#define MOVES_TO(state) (1u << (state))

// Returns true if `moves`, the table of sets, lets state `to` follow `from`.
static inline bool moves_have(const unsigned *moves, unsigned from, unsigned to)
{
    return (moves[from] & MOVES_TO(to)) != 0;
}

#endif
