// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/ring.h -- the generations of one job's ring: who is a
// member, which state they begin with, what they have all applied.
//
//   NONE --open--> OPENING --choose--> COPYING --all ready--> RUNNING
//                     ^                   |                      |
//                     +------ open: a member left, one came -----+
//
// One that comes while a generation runs copies the state meanwhile: the next
// generation is not opened for it before it has that, or gives up.
//
// A generation is one set of processes (R1). Its members say which state they
// have; whoever answers has left every older generation (R2). The base is the
// highest of those states and the last cut (R3). A round is progress when every
// member has reported it, and a new generation sets progress to its base (R5).
// A rank that was lost and comes back is a newcomer like any other (R7).
//
// Threads  the loop.
// Memory   ring_release frees; all zeroes is allowed.
// Units    rounds: updates of the state since the job began; *_ms monotonic.
// Errors   SL_ESTALE: what is said is not of the present generation, or of
//          nobody in it, and nothing has changed. SL_EINVAL: a member says
//          what cannot be. SL_ENOMEM.
#ifndef COORDINATOR_RULES_RING_H
#define COORDINATOR_RULES_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"

// The first generation after a start waits so long for ranks that are back.
#define RING_FIRST_MS 1000
// Newcomers of a running ring wait so long for others that come with them.
#define RING_SETTLE_MS 200
// And so long for one that copies the state.
#define RING_COPY_MS 600000
// A rank that some cannot reach is put out by those who have said so by then.
#define RING_ACCUSED_MS 1500
// In the place of an index: the rank itself.
#define RING_SELF UINT32_MAX

enum ring_state {
    RING_NONE,    // no generation, or all its members have gone
    RING_OPENING, // its members say what state they have
    RING_COPYING, // they bring the base into place
    RING_RUNNING, // all have it: rounds
};

struct ring_rank {
    uint64_t member, process;
    uint64_t joined_ms;
    char address[WIRE_NAME_BYTES + 1], host[WIRE_NAME_BYTES + 1]; // as it said
    bool able;           // it can copy while rounds go on
    bool copies;         // and does: it need not be waited for
    bool lanes;          // its sums have two lanes
    bool marks;          // it sums which variables have a gradient
    bool tokens;         // it shows other ranks the token of its generation
    bool in;             // of the present generation, else it waits for one
    bool answered;       // tag holds
    bool holds;          // COPYING: its state is the base
    bool ready;          // the base is in place
    struct wire_tag tag; // as it answered
    uint64_t rounds;     // it has reported, of this generation
    uint64_t accuses;    // member that does not answer it, or itself; 0: none
};

struct ring {
    enum ring_state state;
    uint64_t generation;    // the newest; 0: none ever
    uint32_t min;           // ranks that it wants to begin with
    uint32_t settle_ms;     // of the first generation after a start
    struct ring_rank *rank; // those who joined, oldest first; owned
    uint32_t count, space;
    uint32_t members;     // with `in`
    bool torn;            // a member left: those who are left wait for ever
    struct wire_tag base; // of this generation, from COPYING on
    bool base_is_file;    // nobody holds it: the last cut, or the seed
    uint64_t most;        // rounds that any state of the job can have
    uint64_t last;        // of this generation; the caller's, once the base
                          // says how many are left, until then `most`
    uint64_t progress;    // rounds that every member has applied
    uint64_t highest;     // rounds that any member has reported
    uint64_t accused_ms;  // when the first accusation came; 0: none
};

// `generation` is the newest of the journal; `most`: rounds that a state can
// have, 0 where states have none.
void ring_init(struct ring *r, uint64_t generation, uint32_t min,
               uint32_t settle_ms, uint64_t most);
void ring_release(struct ring *r);

// A process takes part from the next generation on. One that is there already
// begins anew.
enum sl_err ring_join(struct ring *r, uint64_t member, uint64_t process,
                      uint64_t now_ms);
// It died, fell silent, or leaves. False if it was not there.
bool ring_leave(struct ring *r, uint64_t member);

struct ring_rank *ring_find(const struct ring *r, uint64_t member); // or NULL
// The index-th member of the generation, or NULL; a member's index, or
// UINT32_MAX.
struct ring_rank *ring_member(const struct ring *r, uint32_t index);
uint32_t ring_index(const struct ring *r, uint64_t member);

// The sums of every member have two lanes.
bool ring_lanes(const struct ring *r);
// Every member sums which variables have a gradient.
bool ring_marks(const struct ring *r);
// Every member shows the others a token.
bool ring_tokens(const struct ring *r);

// A newcomer that may copy the state of those who run; or NULL. ring_copies: it
// has been told to. ring_copied: of what generation, it has it, or cannot.
struct ring_rank *ring_copier(const struct ring *r);
void ring_copies(struct ring *r, struct ring_rank *rank);
enum sl_err ring_copied(struct ring *r, uint64_t member, uint64_t generation);

// A new generation is wanted now.
bool ring_due(const struct ring *r, uint64_t now_ms);

// Opens the next generation, whose number is in the journal (R1), for all who
// are there.
void ring_open(struct ring *r, uint64_t generation);

// True if a state of the job can have that tag: of a generation that was
// opened, with rounds that exist.
bool ring_may_have(const struct ring *r, struct wire_tag tag);

// R2: it has left what was before, and this is its state. SL_EINVAL: of a
// generation that was never opened. SL_ERANGE: of rounds that do not exist.
enum sl_err ring_answer(struct ring *r, uint64_t member, uint64_t generation,
                        struct wire_tag tag);

// All members have answered, and there are enough of them.
bool ring_answered(const struct ring *r);

// R3, R5: chooses the base; `cut` is the tag of the last cut, (0, 0) without
// one. No manifest of the job is being written (K5).
void ring_choose(struct ring *r, struct wire_tag cut);

// The base is in place there.
enum sl_err ring_ready(struct ring *r, uint64_t member, uint64_t generation,
                       struct wire_tag tag);

// It has applied so many rounds. Late and repeated reports are SL_OK.
// SL_EINVAL: fewer than its base has. SL_ERANGE: more than there are.
enum sl_err ring_step(struct ring *r, uint64_t member, uint64_t generation,
                      uint64_t rounds);

// It cannot reach the index-th member, and has left the generation for that.
enum sl_err ring_accuse(struct ring *r, uint64_t member, uint64_t generation,
                        uint32_t suspect, uint64_t now_ms);

// The member that is to be put out of the ring; 0: nobody, or not yet.
uint64_t ring_accused(const struct ring *r, uint64_t now_ms);

#endif
