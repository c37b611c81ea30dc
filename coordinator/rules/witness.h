// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/witness.h -- the witness behind a report, and how many
// reports are those of independent witnesses.
//
// A witness is a party (its certificate or, without one, its name) at a place
// (its host): two are independent if they differ in both. Many names under one
// certificate are one voice, and so are all workers of a host, which have one
// memory and one copy of the data.
//
// Threads  any.
// Memory   values; texts, which are not NULL, are borrowed for the call.
// Errors   none. Two in 2^32 pairs look alike and count as one.
#ifndef COORDINATOR_RULES_WITNESS_H
#define COORDINATOR_RULES_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#define WITNESS_MOST 64

// The distinct parties and hosts among the witnesses noted so far, up to `most`
// of each.
struct witness_tally {
    uint32_t most;
    uint32_t parties, hosts;
    uint32_t party[WITNESS_MOST], host[WITNESS_MOST];
};

// Returns the number of the witness that is party `who` (the name on a
// certificate or, without one, of the worker) at host `where`. The same texts
// always have the same number, also in later versions: it is journalled.
uint64_t witness_of(const char *who, const char *where);

// Returns true if the numbers a and b (witness_of) are of the same party, on
// whatever hosts.
bool witness_same_party(uint64_t a, uint64_t b);

// Empties the tally, which need not be initialized; `most` is clamped to 1 ..
// WITNESS_MOST.
void witness_begin(struct witness_tally *t, uint32_t most);

// Adds the party of `witness` to the tally, and its host: each unless the tally
// has it already, or has `most` parties, or hosts.
void witness_note(struct witness_tally *t, uint64_t witness);

// Returns true if the tally has `most` independent witnesses, so that noting
// more changes nothing.
bool witness_enough(const struct witness_tally *t);

// Returns how many of the noted witnesses are independent of each other, up to
// `most`: the smaller one of the numbers of parties and of hosts; 0: none was
// noted.
uint32_t witness_independent(const struct witness_tally *t);

#endif
