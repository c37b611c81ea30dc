// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/ring.h -- the generations of one job's ring: their members,
// the state that they begin with, the rounds that all have applied.
//
//   NONE --open--> OPENING --choose--> COPYING --all ready--> RUNNING
//                     ^                   |                      |
//                     +------ open: a member left, one came -----+
//
// A rank that comes while a generation runs copies the state meanwhile: the
// next generation is not opened for it before it has that state, or gives up.
//
// A generation is one set of processes (R1). Its members say which state they
// have; a member that answers has left every older generation (R2). The base is
// the highest of those states and the last cut (R3). A round is progress when
// every member has reported it, and a new generation sets progress to its base
// (R5). A rank that was lost and comes back is a newcomer like any other (R7).
//
// Threads  the loop.
// Memory   ring_release frees; all zeroes is allowed.
// Units    rounds: updates of the state since the job began; *_ms monotonic.
// Errors   SL_ESTALE: a report is not of the present generation, or not of a
//          member of it, or of a state (above) that the ring is not in, and
//          nothing has changed. SL_EINVAL: a member reports what cannot be.
//          SL_ENOMEM. Any failure changes nothing. No pointer is NULL.
#ifndef COORDINATOR_RULES_RING_H
#define COORDINATOR_RULES_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"

// For how long the first generation after a start waits for ranks that come
// back.
#define RING_FIRST_MS 1000
// For how long newcomers of a running ring wait for others that come with them.
#define RING_SETTLE_MS 200
// For how long a ring waits for a newcomer that copies the state.
#define RING_COPY_MS 600000
// After this long, the accusations at hand decide which rank is put out.
#define RING_ACCUSED_MS 1500
// The index by which a rank accuses itself.
#define RING_SELF UINT32_MAX

enum ring_state {
    RING_NONE,    // no generation, or all its members have gone
    RING_OPENING, // its members report their states
    RING_COPYING, // its members bring the base into place
    RING_RUNNING, // all members have the base: rounds go on
};

struct ring_rank {
    uint64_t member, process; // struct member.id, and number of its process
    uint64_t joined_ms;
    // both as it said
    char address[WIRE_NAME_BYTES + 1], host[WIRE_NAME_BYTES + 1];
    bool able;   // a newcomer that can copy while rounds go on, not told so yet
    bool copies; // it was told to copy, and has not finished
    bool lanes;  // its sums have two lanes
    bool marks;  // it sums which variables have a gradient
    bool tokens; // it shows other ranks the token of its generation
    bool in;     // member of the present generation, else a newcomer
    bool answered;       // tag holds
    bool holds;          // COPYING: its state is the base
    bool skipped;        // the last round of that state was, as it said
    bool ready;          // the base is in place
    struct wire_tag tag; // its state, as it answered
    uint64_t rounds;     // rounds that it has reported in this generation
    uint64_t accuses;    // member that it cannot reach, or itself; 0: none
};

struct ring {
    enum ring_state state;
    uint64_t generation;    // the newest; 0: none ever
    uint32_t min;           // fewest members of a generation
    uint32_t settle_ms;     // wait of the first generation after a start
    struct ring_rank *rank; // ranks in the order of joining; owned
    uint32_t count, space;
    uint32_t members;     // ranks with `in`
    bool torn;            // a member left: the others wait for ever
    struct wire_tag base; // base of this generation, valid from COPYING on
    bool base_is_file;    // no member holds it: it is the last cut, or the seed
    bool base_skipped;    // its last round was skipped, as a holder said
    uint64_t most;        // rounds that any state of the job can have
    // last round of this generation: set by the caller once the base says how
    // many are left, until then `most`
    uint64_t last;
    uint64_t progress;   // rounds that every member has applied
    uint64_t highest;    // rounds that any member has reported
    uint64_t accused_ms; // when the first accusation came; 0: none
};

// Sets *r to a ring without ranks, in state NONE. `generation` is the newest
// one in the journal; `min` and `settle_ms` are as in struct ring; `most` is
// the highest number of rounds that a state can have, 0 where states have none.
void ring_init(struct ring *r, uint64_t generation, uint32_t min,
               uint32_t settle_ms, uint64_t most);

// Frees the ranks and leaves *r all zeroes.
void ring_release(struct ring *r);

// Adds a process as the last rank at now_ms; it takes part from the next
// generation on. `member` is its struct member.id, `process` the number of its
// process. A member that is in the ring leaves first (ring_leave), and begins
// anew. Returns SL_OK, or SL_ENOMEM with nothing changed. The caller sets
// address, host and what the rank can do.
enum sl_err ring_join(struct ring *r, uint64_t member, uint64_t process,
                      uint64_t now_ms);

// Takes out a member that died, fell silent or leaves, or a newcomer. A
// generation that it was in is torn by that; once no member is left, the state
// is NONE and accusations are forgotten. Returns true; false if it was not in
// the ring.
bool ring_leave(struct ring *r, uint64_t member);

// Returns the rank of that member, a newcomer too, or NULL. Pointers to ranks
// hold until one joins or leaves.
struct ring_rank *ring_find(const struct ring *r, uint64_t member);

// Returns the index-th member of the generation, from 0 in the order of
// joining, or NULL if it has no more.
struct ring_rank *ring_member(const struct ring *r, uint32_t index);

// Returns the member's index in the generation; UINT32_MAX: it is not in it.
uint32_t ring_index(const struct ring *r, uint64_t member);

// Returns true if every member's sums have two lanes (ring_rank.lanes); false
// if there are no members, here and in the next two functions.
bool ring_lanes(const struct ring *r);

// Returns true if every member sums which variables have a gradient
// (ring_rank.marks).
bool ring_marks(const struct ring *r);

// Returns true if every member shows the others a token of its generation
// (ring_rank.tokens).
bool ring_tokens(const struct ring *r);

// Returns a newcomer that can copy the state of the running members and was not
// told to; NULL: there is none, or the generation does not run, is torn, or has
// fewer than r->min members.
struct ring_rank *ring_copier(const struct ring *r);

// Notes that the newcomer `rank` was told to copy the state (rank->copies), so
// that ring_copier does not return it again in this generation. r must be
// RUNNING and `rank` no member (both asserted).
void ring_copies(struct ring *r, struct ring_rank *rank);

// Notes that a newcomer has copied the state of `generation`, or cannot get it:
// the ring does not wait for it any more. Returns SL_OK, or SL_ESTALE if it was
// not told to copy or that is not the present generation.
enum sl_err ring_copied(struct ring *r, uint64_t member, uint64_t generation);

// Returns true if a new generation is to be opened at now_ms: the present one
// is torn and has members left, however few; or, while no accusation waits,
// there are newcomers, and r->min ranks or more in all, and one of these holds:
// the state is NONE and the first newcomer has waited for r->settle_ms; the
// members are fewer than r->min; the generation runs, the first newcomer has
// waited for RING_SETTLE_MS and none copies (each at most RING_COPY_MS).
// Changes nothing.
bool ring_due(const struct ring *r, uint64_t now_ms);

// Opens generation number `generation`, in any state, with all ranks as its
// members, and makes the ring OPENING; the number must be above the last one,
// and there must be a rank (both asserted). The number is in the journal
// already (R1). What members said of older generations is forgotten,
// accusations too.
void ring_open(struct ring *r, uint64_t generation);

// Returns true if a state of the job can have that tag: its generation was
// opened, and it has no more rounds than the job (of the present generation: no
// more than r->last). Of generation 0 only (0, 0) can be.
bool ring_may_have(const struct ring *r, struct wire_tag tag);

// Takes the tag of the state of a member that has left all older generations
// (R2), while OPENING. The caller sets ring_rank.skipped. Returns SL_OK;
// SL_ESTALE as above, and for a second answer; SL_EINVAL if the tag is of this
// generation or a later one; SL_ERANGE if such a state cannot exist
// (ring_may_have).
enum sl_err ring_answer(struct ring *r, uint64_t member, uint64_t generation,
                        struct wire_tag tag);

// Returns true if the ring is OPENING, has at least r->min members, and all of
// them have answered.
bool ring_answered(const struct ring *r);

// Returns the highest tag that a member has answered; (0, 0): none has a state.
struct wire_tag ring_highest(const struct ring *r);

// Chooses the base of the generation, r->base with base_is_file and
// base_skipped (R3, R5), sets progress and highest to its rounds, notes which
// members hold it (ring_rank.holds), and makes the ring COPYING. ring_answered
// must be true (asserted). `cut` is the tag of the last cut, (0, 0) without
// one; `back`: it is the base, whatever members have (R9). No manifest of the
// job may be under way (K5).
void ring_choose(struct ring *r, struct wire_tag cut, bool back);

// Notes that the base is in place at this member, while COPYING, once. When all
// members that are left are ready the ring is RUNNING, even if it is torn.
// Returns SL_OK; SL_ESTALE as above, and for a second report; SL_EINVAL if
// `tag` is not (generation, rounds of the base).
enum sl_err ring_ready(struct ring *r, uint64_t member, uint64_t generation,
                       struct wire_tag tag);

// Notes that the member has applied `rounds` rounds in all, while RUNNING and
// not torn, and raises r->highest to that, and r->progress to what all members
// have reported. A late or repeated report is SL_OK. SL_ESTALE as above, and if
// the generation is torn; SL_EINVAL: fewer rounds than the base has; SL_ERANGE:
// more than r->last.
enum sl_err ring_step(struct ring *r, uint64_t member, uint64_t generation,
                      uint64_t rounds);

// Notes at now_ms that the member cannot reach the member of index `suspect`
// (or RING_SELF: it cannot sum at all), and has left the generation for that;
// while COPYING or RUNNING, and not torn. A later accusation by the same member
// replaces it. Returns SL_OK; SL_ESTALE as above, and if the generation is
// torn; SL_EINVAL if no member has that index, or it is its own. ring_accused
// says what follows.
enum sl_err ring_accuse(struct ring *r, uint64_t member, uint64_t generation,
                        uint32_t suspect, uint64_t now_ms);

// Returns the member that is to be put out of the ring: the one with most
// accusers (of equals, the last), once it has as many accusers as there are
// other members (itself counts, RING_SELF), or RING_ACCUSED_MS after the first
// accusation. 0: none yet, or the ring is torn. Changes nothing: the caller
// calls ring_leave.
uint64_t ring_accused(const struct ring *r, uint64_t now_ms);

#endif
