// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/closure.h -- one lease-able piece of a job, and where it
// stands.
//
// Ranges of an evaluation and the probe of a job's data are leased in the same
// way and use the same struct. Only closures that are leased, or that were
// given up and carry blame, exist in memory; all others are derived from
// evidence and schedule when they are asked for (C3).
//
// Threads  the loop.
// Memory   a value; it owns nothing, and nothing is allocated. No pointer is
//          NULL.
// Units    *_ms on the caller's monotonic clock.
// Errors   SL_ESTALE: the report is of an attempt that is no longer the newest,
//          and nothing has changed. A move that its state does not have
//          (closure_moves) is the caller's mistake: an assertion.
#ifndef COORDINATOR_RULES_CLOSURE_H
#define COORDINATOR_RULES_CLOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define CLOSURE_MAX_BLAMED 64 // most distinct workers that a closure remembers

// Workers are told apart as witnesses are (witness.h): names of one certificate
// are one worker. A closure is poison if max_blamed workers are blamed and, of
// these, as many are independent as that number or as exist. A worker that
// fails the same closure again and again is one worker; so that a lone worker
// does not fail it for ever, a closure ends after this many failures per
// distinct worker that the job allows.
#define CLOSURE_FAILURES_PER_BLAME 4

// A closure that was handed back more often in a row than this, by any workers,
// waits CLOSURE_DROP_MS before it is leased again, then twice as long each
// time.
#define CLOSURE_DROPS_FREE 3
#define CLOSURE_DROP_MS 100
#define CLOSURE_DROP_MOST_MS 10000

// The number of an attempt: the coordinator's term, then a count within that
// term. An attempt with a higher (term, n) is newer and fences older ones (I4).
struct attempt {
    uint64_t term, n;
};

// Returns true if a and b are the same attempt.
static inline bool attempt_equal(struct attempt a, struct attempt b)
{
    return a.term == b.term && a.n == b.n;
}

// Bounds of closure_expect: once a job lost at least CLOSURE_LOSSES_KNOWN
// workers for which other closures are not blamed, and at most one of
// CLOSURE_LOSSES_MOST attempts at a step ends in a loss, its closures may take
// down more workers: so many that chance alone takes as many at one step in one
// of CLOSURE_CHANCE jobs.
#define CLOSURE_LOSSES_KNOWN 10
#define CLOSURE_LOSSES_MOST 4
#define CLOSURE_CHANCE 1000

enum closure_state {
    CLOSURE_WAITING,  // no worker has it
    CLOSURE_LEASED,   // a worker has it
    CLOSURE_DONE,     // every shard has counted it, or holds its contribution
    CLOSURE_FAILED,   // it is poison
    CLOSURE_CANCELED, // its job ended first
    CLOSURE_STATES,   // the number of states
};

// The states that may follow each state (moves.h).
extern const unsigned closure_moves[CLOSURE_STATES];

struct closure {
    uint64_t id;
    enum closure_state state;
    struct attempt attempt; // the newest; (0, 0): never leased
    uint64_t worker;        // LEASED: its holder, as member.witness
    uint64_t leased_ms;
    bool again;          // an attempt ended badly since it was last leased
    bool begun;          // likewise, and that attempt may have computed steps
    uint32_t max_blamed; // failed distinct workers that make it poison
    uint32_t there;      // independent witnesses among the workers, at least 1
    uint32_t failures;
    uint32_t drops;         // handed back in a row
    uint64_t not_before_ms; // WAITING: not leased before
    uint32_t blamed_count;
    uint64_t blamed[CLOSURE_MAX_BLAMED]; // workers
    uint32_t suspected; // workers that went while they computed it
    enum sl_err result; // FAILED: why
};

// Sets *c to a WAITING closure `id` without blame; max_blamed is clamped to 1
// .. CLOSURE_MAX_BLAMED.
void closure_init(struct closure *c, uint64_t id, uint32_t max_blamed);

// Moves c from WAITING to LEASED, for `worker` (its number as a witness, as in
// struct closure), and clears c->again and c->begun. Returns SL_OK; SL_ESTATE
// if c is not WAITING; SL_ESTALE if `attempt` is not newer than c's last one; a
// failure changes nothing. Does not check whether c is held back
// (closure_ready) or blames the worker (closure_blames).
enum sl_err closure_lease(struct closure *c, uint64_t worker,
                          struct attempt attempt, uint64_t now_ms);

// Sets *c to a WAITING copy of the closure `of`, which must be LEASED
// (asserted), with the same blame, for a second worker. Lease the copy as
// of->attempt, the attempt that runs, so that neither worker fences the other
// (I4). What closure_witnesses set is not copied.
void closure_copy(struct closure *c, const struct closure *of);

// Takes the holder's report of how its attempt ended. `result` SL_OK: every
// shard has counted every step, or holds the contribution (Y3), or the result
// of a range or probe is there: c becomes DONE. SL_EPREEMPTED or SL_ESTALE: the
// worker handed c back; it becomes WAITING without blame, `again` or `begun`.
// Any other result is a failure: the worker is blamed, c->failures rises, and c
// becomes WAITING (with `again` and `begun`), or FAILED, with that result, if
// that makes it poison. Returns SL_OK, or SL_ESTALE if `attempt` is not the
// newest or c is not LEASED.
enum sl_err closure_finish(struct closure *c, struct attempt attempt,
                           enum sl_err result);

// Counts that a worker which is not leaving handed c back. To be called after
// closure_finish. Blames no worker, but from the fourth time in a row on
// (CLOSURE_DROPS_FREE) c is held back from now_ms on (closure_ready), for
// CLOSURE_DROP_MS, twice as long each time, up to CLOSURE_DROP_MOST_MS. Returns
// true if it is held back now.
bool closure_dropped(struct closure *c, uint64_t now_ms);

// Ends the lease of c, which must be LEASED, as its holder was lost while it
// computed c, and blames the holder: c becomes WAITING (with `again` and
// `begun`), or FAILED with the result SL_ELOST if that makes it poison.
void closure_lost(struct closure *c);

// Blames `worker`, which is known to be dead and had c when it went; each call
// is one more failure. c is LEASED or WAITING. A WAITING closure gets `again`
// and `begun`, and becomes FAILED, with the result SL_ELOST, if that makes it
// poison; of a LEASED one nothing else changes, since its holder may complete
// it.
void closure_killed(struct closure *c, uint64_t worker);

// Raises c->max_blamed to the number of workers that chance alone is likely to
// take down, at most CLOSURE_MAX_BLAMED, from what its job has seen: `steps` of
// the whole job, steps `counted` so far, and workers `lost`, without those that
// c is blamed for. Never lowers it, and does nothing beyond the bounds above.
// Poison takes down every worker, chance does not.
void closure_expect(struct closure *c, uint64_t steps, uint64_t counted,
                    uint64_t lost);

// Moves c from FAILED (asserted) to WAITING, with `again` and `begun`, and
// clears its blame as closure_advanced does, as more of its steps turned out to
// be counted than was known.
void closure_forgiven(struct closure *c);

// Sets c->there, the number of independent witnesses (witness.h) among the
// workers that could compute c, those that are blamed included; 0 counts as 1,
// which it is until this is called. To be called before an attempt at c ends
// badly.
void closure_witnesses(struct closure *c, uint32_t there);

// Returns true if c has at least half of the blamed workers, or half of the
// failures, that make it poison.
bool closure_half_blamed(const struct closure *c);

// Returns true if c may be leased at now_ms: it is WAITING, the time for which
// repeated drops hold it back is over (closure_dropped), and the suspected
// workers (c->suspected) would not make it poison if they were all blamed.
bool closure_ready(const struct closure *c, uint64_t now_ms);

// Moves c from LEASED to WAITING without blame, as its holder was lost or is
// leaving, and sets c->again. `begun`: the holder may have computed steps of
// it, which sets c->begun too.
void closure_unstarted(struct closure *c, bool begun);

// Forgets all blame, failures and drops of c, in any state, since steps of c
// were newly counted: it did not take those workers down. (Poison does not get
// past its bad step.) The state stays, and so does c->suspected; a time for
// which drops hold c back runs out as before.
void closure_advanced(struct closure *c);

// Moves c from WAITING to DONE, since its copy was counted first, or the
// journal knows the result.
void closure_counted(struct closure *c);

// Cancels c, as its job ended. A closure that is DONE, FAILED or CANCELED stays
// as it is.
void closure_cancel(struct closure *c);

// Returns true if `worker`, or another name of its certificate, is among c's
// blamed workers.
bool closure_blames(const struct closure *c, uint64_t worker);

// Adds one blamed worker that the journal remembers, after a restart of the
// coordinator, unless c has it or is full of them, and notes that c ran before
// (`again`, `begun`). Adds no failure; the state stays.
void closure_remember(struct closure *c, uint64_t worker);

// Returns the state's name in lower case; "unknown" for no state.
const char *closure_state_name(enum closure_state state);

#endif
