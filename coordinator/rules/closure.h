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
// Memory   a value; it owns nothing.
// Units    *_ms on the monotonic clock of whoever calls.
// Errors   SL_ESTALE: the report is of an attempt that is no longer the newest,
//          and nothing has changed.
#ifndef COORDINATOR_RULES_CLOSURE_H
#define COORDINATOR_RULES_CLOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define CLOSURE_MAX_BLAMED 64 // most distinct workers that are remembered

// Workers are told apart as witnesses are (witness.h): names of one certificate
// are one worker. It is poison if max_blamed of them say so and, of these, as
// many independent ones as that or as there are. A worker that fails the same
// closure again and again is one worker; so that a lone one does not do it for
// ever, there are at most so many failures per distinct worker that the job
// allows.
#define CLOSURE_FAILURES_PER_BLAME 4

// Handed back so often in a row, by whomever, it waits before it is leased
// again: so long, then twice as long each time.
#define CLOSURE_DROPS_FREE 3
#define CLOSURE_DROP_MS 100
#define CLOSURE_DROP_MOST_MS 10000

// (term, n): ordered (I4).
struct attempt {
    uint64_t term, n;
};

static inline bool attempt_equal(struct attempt a, struct attempt b)
{
    return a.term == b.term && a.n == b.n;
}

// Where at least so many workers were lost, of which others are not, and at
// most one of so many attempts at a step ends so, closures may take down more:
// by chance as many are lost at one step in one of so many jobs.
#define CLOSURE_LOSSES_KNOWN 10
#define CLOSURE_LOSSES_MOST 4
#define CLOSURE_CHANCE 1000

enum closure_state {
    CLOSURE_WAITING,
    CLOSURE_LEASED,
    CLOSURE_DONE,
    CLOSURE_FAILED,
    CLOSURE_CANCELED,
    CLOSURE_STATES,
};

// Which states may follow each (moves.h).
extern const unsigned closure_moves[CLOSURE_STATES];

struct closure {
    uint64_t id;
    enum closure_state state;
    struct attempt attempt; // the newest; (0, 0): never leased
    uint64_t worker;        // LEASED: who has it, see member.witness
    uint64_t leased_ms;
    bool again;          // an attempt ended badly since it was last leased
    bool begun;          // with it: somebody may have computed steps of it
    uint32_t max_blamed; // distinct workers that it may take down
    uint32_t there;      // independent witnesses that there are, at least 1
    uint32_t failures;
    uint32_t drops;         // handed back in a row
    uint64_t not_before_ms; // WAITING: not leased before
    uint32_t blamed_count;
    uint64_t blamed[CLOSURE_MAX_BLAMED]; // workers
    uint32_t suspected; // workers that went while they computed it
    enum sl_err result; // FAILED: why
};

// max_blamed is brought into 1 .. CLOSURE_MAX_BLAMED.
void closure_init(struct closure *c, uint64_t id, uint32_t max_blamed);

// WAITING -> LEASED. SL_ESTATE if it is not waiting; SL_ESTALE if the attempt
// is not newer than the last one.
enum sl_err closure_lease(struct closure *c, uint64_t worker,
                          struct attempt attempt, uint64_t now_ms);

// A copy of a closure that is LEASED, for a second worker: WAITING, with the
// same blame. It is to be leased as the attempt that runs, so that neither
// fences the other (I4).
void closure_copy(struct closure *c, const struct closure *of);

// The holder says how its attempt ended. SL_OK: every shard has counted every
// step. SL_EPREEMPTED and SL_ESTALE: handed back, nobody's fault. Anything
// else is a failure, and the worker is blamed.
enum sl_err closure_finish(struct closure *c, struct attempt attempt,
                           enum sl_err result);

// It was handed back by a worker that is not leaving: nobody's fault, but if it
// goes on, something is wrong with it. True if it waits by now.
bool closure_dropped(struct closure *c, uint64_t now_ms);

// The holder was lost while it computed this closure: it is blamed.
void closure_lost(struct closure *c);

// A worker that went while it computed this closure is dead: it is blamed.
// LEASED or WAITING; only from WAITING it becomes FAILED, since one that has it
// may get it done.
void closure_killed(struct closure *c, uint64_t worker);

// What its job has seen: steps that it has in all and that are counted, workers
// that it lost, but for those that this closure is blamed for. Raises
// max_blamed to what chance alone makes likely: poison takes down all, and
// chance does not.
void closure_expect(struct closure *c, uint64_t steps, uint64_t counted,
                    uint64_t lost);

// FAILED -> WAITING: more of it is counted than was known.
void closure_forgiven(struct closure *c);

// So many independent witnesses there are, with those that are blamed: to be
// said before it ends badly. 1 until then.
void closure_witnesses(struct closure *c, uint32_t there);

// It has half of the blame that makes it poison, at least.
bool closure_half_blamed(const struct closure *c);

// WAITING, and not held back: for a while, after it was handed back again and
// again, or until it is known what became of workers that had it.
bool closure_ready(const struct closure *c, uint64_t now_ms);

// The holder was lost, or is leaving. `begun`: it may have computed steps.
void closure_unstarted(struct closure *c, bool begun);

// Steps of it were newly counted: it is not what took those workers down, so
// they are forgotten. (Poison does not get past its bad step.)
void closure_advanced(struct closure *c);

// WAITING -> DONE: its copy was first, or the journal knows the result.
void closure_counted(struct closure *c);

// The job ended. Nothing happens to one that is final already.
void closure_cancel(struct closure *c);

// The worker is blamed, or another name of its certificate.
bool closure_blames(const struct closure *c, uint64_t worker);

// Takes one more blame from the journal, after a restart: it has run before.
void closure_remember(struct closure *c, uint64_t worker);

const char *closure_state_name(enum closure_state state);

#endif
