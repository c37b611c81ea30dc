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
    uint64_t member, process;
    uint64_t joined_ms;
    // both as it said
    char address[WIRE_NAME_BYTES + 1], host[WIRE_NAME_BYTES + 1];
    bool able;           // it can copy while rounds go on
    bool copies;         // it was told to copy, and has not finished
    bool lanes;          // its sums have two lanes
    bool marks;          // it sums which variables have a gradient
    bool tokens;         // it shows other ranks the token of its generation
    bool in;             // member of the present generation, else a newcomer
    bool answered;       // tag holds
    bool holds;          // COPYING: its state is the base
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
    uint64_t most;        // rounds that any state of the job can have
    // last round of this generation: set by the caller once the base says how
    // many are left, until then `most`
    uint64_t last;
    uint64_t progress;   // rounds that every member has applied
    uint64_t highest;    // rounds that any member has reported
    uint64_t accused_ms; // when the first accusation came; 0: none
};

// Sets *r to a ring without ranks. `generation` is the newest one in the
// journal; `most` is the highest number of rounds that a state can have, 0
// where states have none.
void ring_init(struct ring *r, uint64_t generation, uint32_t min,
               uint32_t settle_ms, uint64_t most);
void ring_release(struct ring *r); // leaves it all zeroes

// Adds a process as the last rank, which takes part from the next generation
// on. A member that is in the ring leaves first (ring_leave), and begins anew.
// SL_ENOMEM. The caller sets address, host and what the rank can.
enum sl_err ring_join(struct ring *r, uint64_t member, uint64_t process,
                      uint64_t now_ms);

// Takes out a member that died, fell silent or leaves; a generation that it was
// in is torn then, and with its last member the state is NONE. Returns false if
// it was not in the ring.
bool ring_leave(struct ring *r, uint64_t member);

// Returns the rank of that member, a newcomer too, or NULL. Pointers to ranks
// hold until one joins or leaves.
struct ring_rank *ring_find(const struct ring *r, uint64_t member);

// Returns the index-th member of the generation, from 0, or NULL.
struct ring_rank *ring_member(const struct ring *r, uint32_t index);

// Returns the member's index in the generation; UINT32_MAX: it is not in it.
uint32_t ring_index(const struct ring *r, uint64_t member);

// Says whether the sums of every member have two lanes; false without members,
// here and in the next two.
bool ring_lanes(const struct ring *r);

// Says whether every member sums which variables have a gradient.
bool ring_marks(const struct ring *r);

// Says whether every member shows the others a token.
bool ring_tokens(const struct ring *r);

// Returns a newcomer that may copy the state of the running members, or NULL:
// there is none, or the generation does not run, is torn or is too small.
struct ring_rank *ring_copier(const struct ring *r);

// Notes that the newcomer `rank` of a running ring (it asserts) was told to
// copy the state: ring_copier does not return it again in this generation.
void ring_copies(struct ring *r, struct ring_rank *rank);

// Notes that a newcomer has the state of `generation`, or cannot get it.
// SL_ESTALE: it was not told to copy, or the generation is another one.
enum sl_err ring_copied(struct ring *r, uint64_t member, uint64_t generation);

// Says whether a new generation is to be opened now: the present one is torn,
// however few ranks are left; or, while no accusation waits and ranks are
// enough, newcomers have waited for long enough, or members are too few.
bool ring_due(const struct ring *r, uint64_t now_ms);

// Opens the next generation, in any state, with a number that is in the journal
// (R1), above the last one, and all ranks as its members, of which there is one
// at least (it asserts both). What members said of older generations is
// forgotten.
void ring_open(struct ring *r, uint64_t generation);

// Says whether a state of the job can have that tag: its generation was opened,
// and its rounds exist.
bool ring_may_have(const struct ring *r, struct wire_tag tag);

// Takes the state of a member that has left all older generations (R2), while
// OPENING, once: a second answer is SL_ESTALE. SL_EINVAL: its tag is of this
// generation or a later one. SL_ERANGE: such a state cannot exist
// (ring_may_have).
enum sl_err ring_answer(struct ring *r, uint64_t member, uint64_t generation,
                        struct wire_tag tag);

// Says whether the ring is OPENING, and all members have answered and are
// enough.
bool ring_answered(const struct ring *r);

// Chooses the base (R3, R5), while ring_answered holds (it asserts); then the
// ring is COPYING. `cut` is the tag of the last cut, (0, 0) without one. No
// manifest of the job may be under way (K5).
void ring_choose(struct ring *r, struct wire_tag cut);

// Notes that the base is in place at this member, while COPYING, once; the last
// one starts the rounds: the ring is RUNNING. SL_EINVAL: `tag` is not that of
// the base in this generation.
enum sl_err ring_ready(struct ring *r, uint64_t member, uint64_t generation,
                       struct wire_tag tag);

// Notes that the member has applied `rounds` rounds, while RUNNING and not
// torn. Late and repeated reports are SL_OK. SL_EINVAL: fewer than its base
// has. SL_ERANGE: more than the job has.
enum sl_err ring_step(struct ring *r, uint64_t member, uint64_t generation,
                      uint64_t rounds);

// Notes that the member cannot reach member `suspect` (an index, or RING_SELF),
// and has left the generation for that; while COPYING or RUNNING, and not torn.
// A later accusation replaces it. SL_EINVAL: no member has that index, or it is
// its own.
enum sl_err ring_accuse(struct ring *r, uint64_t member, uint64_t generation,
                        uint32_t suspect, uint64_t now_ms);

// Returns the member to exclude from the ring by its accusers' reports; 0: none
// yet, or the ring is torn. Changes nothing: the caller calls ring_leave.
uint64_t ring_accused(const struct ring *r, uint64_t now_ms);

#endif
