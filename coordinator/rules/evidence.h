// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/evidence.h -- what each shard's newest incarnation has
// counted, as far as the coordinator knows.
//
// A counted key is a fact of one incarnation. Evidence therefore counts iff
// its incarnation is the newest in the journal (C1), and an admission replaces
// what was known by the counted set of the shard's hello (C2). What to issue
// is derived from this alone (C3); nothing is "forgotten" by a watermark, and
// nothing is issued far beyond the lowest one (C5).
//
// Shards that have counted the same share one set: nearly always one set serves
// all shards, and the work for a completion, or to find the next closure, does
// not grow with the number of shards. A shard that comes back with less has a
// set of its own until what it lacks is counted there again.
//
// Threads  the loop.
// Memory   evidence_release frees; all zeroes is allowed. No pointer is NULL
//          but `err`, which may be.
// Units    closures and steps as in plan/schedule.h. A `shard` is below
//          e->shards, a closure below e->closures, but where SL_ERANGE is said;
//          limits and ends are exclusive. Without shards every closure counts
//          as full, but where it is said. If *e is all zeroes, only
//          evidence_steps, _low, _full, _next and _closures may be called.
//          "Sync": a job in mode sync, e->round > 0. "Open": e->open > 0.
// Errors   SL_ENOMEM of a call that counts: some shards may have counted it.
#ifndef COORDINATOR_RULES_EVIDENCE_H
#define COORDINATOR_RULES_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/counted.h"
#include "plan/schedule.h"
#include "common/base/status.h"

// Most contributions of a round.
#define EVIDENCE_ROUND_MOST 1024

// A counted set, shared by the shards that have counted exactly this.
struct evidence_set {
    struct counted counted;
    uint32_t shards; // shards that share it; 0: the place is free
    uint32_t marked; // shards of these that are marked, for a completion
};

struct evidence_shard {
    uint64_t incarnation; // newest in the journal; 0: never admitted
    // The version of the shard map from which on that incarnation is named
    // (evidence_name); 0: none names it yet.
    uint64_t named;
    uint32_t set; // index into `sets`
    bool marked;
    // Sync: contributions that this incarnation holds of the round which begins
    // at this closure, by slot (Y3). Open: those that it holds of the closures
    // from its watermark on, by closure modulo EVIDENCE_ROUND_MOST.
    uint64_t held_first;
    uint64_t held[EVIDENCE_ROUND_MOST / 64];
};

struct evidence {
    struct schedule schedule;
    uint64_t closures; // closures of the job
    uint64_t high;     // one above the highest closure that was ever counted
    uint32_t shards;
    uint32_t round; // sync: closures of a round, of one step each; 0: not sync
    // Open: most contributions of a round, of closures of one step each in any
    // order (L1); `round` is 0. 0: not open.
    uint32_t open;
    struct evidence_shard *shard; // owned
    struct evidence_set *sets;    // owned; one for each shard, and one
    uint32_t sets_end;            // index behind the last set in use
    uint64_t named;               // the highest `named` of all shards
    uint32_t unnamed;             // shards that no map names
    // how often something was taken back: by an admission, or by the word of a
    // shard that it does not hold a contribution
    uint64_t admissions;
};

// One shard's word on a closure: every step of it is counted there, by this
// incarnation; or, with `held`, its contribution is held there until its round
// is whole; with `closed`, it made its round whole, so that the whole round is
// counted.
struct evidence_item {
    uint32_t shard;
    uint64_t incarnation;
    bool held, closed;
};

// Sets up evidence of `shards` shards that have counted nothing yet; *s is
// copied. SL_EINVAL, SL_ERANGE: the schedule is invalid (schedule_check).
// SL_ENOMEM. *e is then untouched.
// For sync the caller sets e->round, for open rounds e->open.
enum sl_err evidence_init(struct evidence *e, const struct schedule *s,
                          uint32_t shards, struct sl_error *err);

// Frees all sets and leaves *e all zeroes, which is allowed, too.
void evidence_release(struct evidence *e);

// Returns what the shard has counted, as far as is known. Valid until the next
// call that changes *e.
const struct counted *evidence_counted(const struct evidence *e,
                                       uint32_t shard);

// Replaces what is known of the shard by `counted` (C2), a set of e->schedule,
// which is taken over: it has no memory to release then. What the shard held is
// forgotten, and e->admissions rises. `incarnation` is the shard's newest, and
// in the journal already (I1). No version of the shard map names one that is
// new to the shard until evidence_name is called. Cannot fail.
void evidence_admit(struct evidence *e, uint32_t shard, uint64_t incarnation,
                    struct counted *counted);

// Notes that shard maps from `version` (not 0) on name the shard's newest
// incarnation, in place of what was noted of the shard before.
void evidence_name(struct evidence *e, uint32_t shard, uint64_t version);

// Takes a worker's completion of `closure`: the `count` items in `items` are
// what shards said. Items of an incarnation that is not the shard's newest, or
// of shards that do not exist, are ignored (C1, W2). In sync an item with
// `held` also counts all closures before its round on that shard, and one with
// `closed` and without `held` the whole round. In open rounds `closed` is not
// read; in other modes an item with `held` counts nothing. Sets *full to
// whether every shard has now counted the whole closure. Returns SL_OK;
// SL_ERANGE if there is no such closure, with *full untouched; SL_ENOMEM, with
// *full false.
enum sl_err evidence_complete(struct evidence *e, uint64_t closure,
                              const struct evidence_item *items, size_t count,
                              bool *full);

// Takes a completion of `closure` on all shards, each at the incarnation that
// version `version` of the map names (W2); a shard that was admitted since then
// is left out (C1). Sets *full and returns as evidence_complete does.
enum sl_err evidence_complete_by_map(struct evidence *e, uint64_t closure,
                                     uint64_t version, bool *full);

// Counts one step of a closure, as a ring's round, on every shard. Returns
// SL_OK; SL_EEXIST if it was counted on some shard before, with the others
// counted or not; SL_ERANGE if there is no such step; SL_ENOMEM.
enum sl_err evidence_count(struct evidence *e, uint64_t closure, uint32_t step);

// Counts all closures below `low` on this shard, as the shard says itself; in
// sync. Returns SL_OK, also where it does nothing: `incarnation` is not the
// shard's newest (C1), there is no such shard, `low` is above e->closures, or
// no higher than what is known. SL_ENOMEM.
enum sl_err evidence_low_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, uint64_t low);

// Counts what the shard says itself that it has counted (L4), a set of
// e->schedule, in open rounds: those below its watermark, and of the
// EVIDENCE_ROUND_MOST from there on those that are full; what it held of that
// is not held any more. Returns SL_OK, also where it does nothing:
// `incarnation` is not the shard's newest (C1), or there is no such shard.
// SL_ENOMEM.
enum sl_err evidence_set_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, const struct counted *set);

// Returns how many contributions the shard holds in open rounds, as far as is
// known.
uint32_t evidence_held(const struct evidence *e, uint32_t shard);

// Returns the lowest closure of which the shard holds the contribution in open
// rounds, as far as is known; e->closures if there is none.
uint64_t evidence_held_first(const struct evidence *e, uint32_t shard);

// Takes the shard's word, in open rounds, that it does not hold the
// contribution of `closure`, whatever a worker said. If it was thought to hold
// it, e->admissions rises, since the closure may be issued again. Does nothing
// for another incarnation than the newest, or if there is no such shard.
void evidence_not_held(struct evidence *e, uint32_t shard, uint64_t incarnation,
                       uint64_t closure);

// Returns the first closure of the round of `closure`, in sync; rounds are
// counted from the beginning of each epoch.
uint64_t evidence_round_first(const struct evidence *e, uint64_t closure);

// Returns the closure behind the round of `closure`, in sync; a round ends with
// its epoch at the latest.
uint64_t evidence_round_end(const struct evidence *e, uint64_t closure);

// Returns true if every shard has counted the closure or holds its
// contribution, so that no worker needs to compute it now. False if the job has
// no rounds.
bool evidence_closure_held(const struct evidence *e, uint64_t closure);

// Returns true if every shard has counted all steps of the closure.
bool evidence_closure_full(const struct evidence *e, uint64_t closure);

// Returns how many steps of the closure are counted on the shard that has
// counted the fewest of them; 0 without shards.
uint64_t evidence_closure_steps(const struct evidence *e, uint64_t closure);

// Returns the first closure >= `from` of which some shard lacks a step (C3), or
// e->closures if no shard lacks any.
uint64_t evidence_next(const struct evidence *e, uint64_t from);

// Returns the closure at or above which none may be issued (C5): `window` above
// the lowest watermark; open: EVIDENCE_ROUND_MOST above it, if that is less. In
// sync `window` is not used: it is the end of the first round that some shard
// has not counted (Y4). e->closures at most.
uint64_t evidence_limit(const struct evidence *e, uint64_t window);

// Returns the end of the round that is `rounds` rounds behind the one at
// evidence_limit, in sync; a slot of those may be leased once no slot before it
// is left (Y4).
uint64_t evidence_limit_ahead(const struct evidence *e, uint32_t rounds);

// Returns the lowest watermark of all shards; e->closures without shards, and
// then evidence_epochs and evidence_closures count all, too.
uint64_t evidence_low(const struct evidence *e);

// Returns true if all steps are counted on all shards; false without shards.
bool evidence_full(const struct evidence *e);

// Returns how many whole epochs, from the first on, are counted on all shards.
uint32_t evidence_epochs(const struct evidence *e);

// Returns how many steps are counted on the shard that has the fewest; 0
// without shards.
uint64_t evidence_steps(const struct evidence *e);

// Returns how many closures are full on all shards, also above the watermark.
uint64_t evidence_closures(const struct evidence *e);

#endif
