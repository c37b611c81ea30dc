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
// Shards that have counted the same share one set: nearly always there is one
// for all of them, and nothing that is done for a completion, or to find the
// next closure, grows with the number of shards. A shard that comes back with
// less has a set of its own until what it lacks is counted there again.
//
// Threads  the loop.
// Memory   evidence_release frees; all zeroes is allowed.
// Units    closures and steps as in common/plan/schedule.h.
#ifndef COORDINATOR_RULES_EVIDENCE_H
#define COORDINATOR_RULES_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/plan/counted.h"
#include "common/plan/schedule.h"
#include "common/base/status.h"

// Contributions of a round.
#define EVIDENCE_ROUND_MOST 1024

// What some shards have counted, all of them the same.
struct evidence_set {
    struct counted counted;
    uint32_t shards; // that have it; 0: the place is free
    uint32_t marked; // of them, while a completion is taken
};

struct evidence_shard {
    uint64_t incarnation; // newest in the journal; 0: never admitted
    // Maps of this version and above name that incarnation; 0: none does yet.
    uint64_t named;
    uint32_t set; // its place in `sets`
    bool marked;
    // Sync: contributions that this incarnation holds of the round which begins
    // at this closure, by slot (Y3).
    uint64_t held_first;
    uint64_t held[EVIDENCE_ROUND_MOST / 64];
};

struct evidence {
    struct schedule schedule;
    uint64_t closures; // in all
    uint64_t high;     // above the highest closure that was ever counted
    uint32_t shards;
    uint32_t round; // sync: closures of a round, of one step each; 0: not sync
    struct evidence_shard *shard; // owned
    struct evidence_set *sets;    // owned; one for each shard, and one
    uint32_t sets_end;            // behind the last that is not free
    uint64_t named;               // the newest of all shards
    uint32_t unnamed;             // shards that no map names
    uint64_t admissions;          // so far: only they take anything back
};

// "Every step of the closure is counted on this shard, by this incarnation";
// or, with `held`, its contribution is held there until its round is whole;
// with `closed`, it made its round whole, so that all of it is counted.
struct evidence_item {
    uint32_t shard;
    uint64_t incarnation;
    bool held, closed;
};

enum sl_err evidence_init(struct evidence *e, const struct schedule *s,
                          uint32_t shards, struct sl_error *err);
void evidence_release(struct evidence *e);

// What the shard has counted, as far as is known. Until the next call that
// changes anything.
const struct counted *evidence_counted(const struct evidence *e,
                                       uint32_t shard);

// C2: the shard's evidence becomes `counted`, which is taken over (and left
// all zeroes). `incarnation` is in the journal already (I1). No map names a new
// one: evidence_name says from which version on one does.
void evidence_admit(struct evidence *e, uint32_t shard, uint64_t incarnation,
                    struct counted *counted);

void evidence_name(struct evidence *e, uint32_t shard, uint64_t version);

// A completion. Items of other incarnations, or of shards that do not exist,
// are not believed (C1, W2). SL_OK and *full: whether every shard has now
// counted the whole closure. SL_ERANGE: no such closure. SL_ENOMEM.
enum sl_err evidence_complete(struct evidence *e, uint64_t closure,
                              const struct evidence_item *items, size_t count,
                              bool *full);

// The same where the evidence is of all shards, each at the incarnation that
// the map of this version names (W2). Of a shard that was admitted since it is
// not believed (C1).
enum sl_err evidence_complete_by_map(struct evidence *e, uint64_t closure,
                                     uint64_t version, bool *full);

// A ring's round: the step is counted on every shard. SL_ERANGE, SL_ENOMEM;
// SL_EEXIST: it was.
enum sl_err evidence_count(struct evidence *e, uint64_t closure, uint32_t step);

// Sync: all closures below `low` are counted on this shard, as it says itself.
// Nothing if it is of another incarnation (C1). SL_ENOMEM.
enum sl_err evidence_low_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, uint64_t low);

// Sync: the closure that the round of this one begins with, and the one behind
// it.
uint64_t evidence_round_first(const struct evidence *e, uint64_t closure);
uint64_t evidence_round_end(const struct evidence *e, uint64_t closure);

// Sync: every shard has counted the closure or holds its contribution: nobody
// needs to compute it now.
bool evidence_closure_held(const struct evidence *e, uint64_t closure);

bool evidence_closure_full(const struct evidence *e, uint64_t closure);

// Steps of the closure that are counted on every shard.
uint64_t evidence_closure_steps(const struct evidence *e, uint64_t closure);

// The first closure >= from of which some shard lacks a step (C3); the number
// of closures if there is none.
uint64_t evidence_next(const struct evidence *e, uint64_t from);

// Nothing at or above this may be issued (C5). In sync that is the end of the
// first round which some shard has not counted (Y4).
uint64_t evidence_limit(const struct evidence *e, uint64_t window);

// Sync: the end of so many rounds behind that one, whose slots may be leased
// each while nothing before it is left to be (Y4).
uint64_t evidence_limit_ahead(const struct evidence *e, uint32_t rounds);

// The lowest watermark of all shards.
uint64_t evidence_low(const struct evidence *e);

// All steps on all shards; whole epochs on all shards; the fewest steps on any
// one; closures that are full on all.
bool evidence_full(const struct evidence *e);
uint32_t evidence_epochs(const struct evidence *e);
uint64_t evidence_steps(const struct evidence *e);
uint64_t evidence_closures(const struct evidence *e);

#endif
