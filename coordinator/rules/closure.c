// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/closure.c -- one lease-able piece of a job, and where it
// stands.
//
//            closure_lease                 closure_finish(ok)
//   WAITING ---------------> LEASED -----------------------------> DONE
//    | | ^                    | | |                                  ^
//    | | | closure_lost,      | | | closure_lost, finish(error) for  |
//    | | | closure_unstarted, | | | the last worker that may try:    |
//    | | | finish(error)      | | | poison                           |
//    | | +--------------------+ | +-----------------> FAILED         |
//    | |    closure_cancel      v                                    |
//    | +------------------------+-------------------> CANCELED       |
//    |                     closure_counted                           |
//    +---------------------------------------------------------------+
//
// closure_killed takes a WAITING one to FAILED, closure_forgiven back.
//
// WAITING  for a worker.
// LEASED   one worker has it, as attempt `attempt`, while it is seen.
// DONE     every shard has counted every step, as the holder says, as its copy
//          showed, or as the journal knows (a probe).
//          A shard that comes back with less has forgotten some steps: then
//          evidence issues the closure anew (C3), as another struct.
// FAILED   poison, unless shards say that it got on.
// No state follows DONE and CANCELED.
//
// A worker that was given up can still report. Its report carries an old
// attempt, and closure_finish answers SL_ESTALE and changes nothing. So a
// closure may run more than once, but each of its steps counts once, at the
// shard.
//
// Nothing here reads a clock, sends, logs or allocates: time comes in as an
// argument and the caller does the talking.
#include "coordinator/rules/closure.h"

#include <assert.h>
#include <string.h>

#include "common/base/moves.h"
#include "coordinator/rules/witness.h"

const unsigned closure_moves[CLOSURE_STATES] = {
    [CLOSURE_WAITING] = MOVES_TO(CLOSURE_LEASED) | MOVES_TO(CLOSURE_DONE) |
                        MOVES_TO(CLOSURE_FAILED) | MOVES_TO(CLOSURE_CANCELED),
    [CLOSURE_LEASED] = MOVES_TO(CLOSURE_WAITING) | MOVES_TO(CLOSURE_DONE) |
                       MOVES_TO(CLOSURE_FAILED) | MOVES_TO(CLOSURE_CANCELED),
    [CLOSURE_FAILED] = MOVES_TO(CLOSURE_WAITING),
};

// The only function of the program that changes a closure's state.
static void closure_enter_state(struct closure *c, enum closure_state next)
{
    assert(moves_have(closure_moves, c->state, next));
    c->state = next;
}

void closure_init(struct closure *c, uint64_t id, uint32_t max_blamed)
{
    memset(c, 0, sizeof(*c));
    c->id = id;
    c->max_blamed = max_blamed == 0                   ? 1
                    : max_blamed > CLOSURE_MAX_BLAMED ? CLOSURE_MAX_BLAMED
                                                      : max_blamed;
    c->there = 1;
}

enum sl_err closure_lease(struct closure *c, uint64_t worker,
                          struct attempt attempt, uint64_t now_ms)
{
    if (c->state != CLOSURE_WAITING)
        return SL_ESTATE;
    if (attempt.term < c->attempt.term ||
        (attempt.term == c->attempt.term && attempt.n <= c->attempt.n))
        return SL_ESTALE;

    closure_enter_state(c, CLOSURE_LEASED);
    c->attempt = attempt;
    c->worker = worker;
    c->leased_ms = now_ms;
    c->again = c->begun = false;
    return SL_OK;
}

void closure_copy(struct closure *c, const struct closure *of)
{
    assert(of->state == CLOSURE_LEASED);
    closure_init(c, of->id, of->max_blamed);
    c->failures = of->failures;
    c->blamed_count = of->blamed_count;
    memcpy(c->blamed, of->blamed, sizeof(c->blamed));
}

bool closure_blames(const struct closure *c, uint64_t worker)
{
    for (uint32_t i = 0; i < c->blamed_count; i++) {
        if (witness_same_party(c->blamed[i], worker))
            return true;
    }
    return false;
}

void closure_witnesses(struct closure *c, uint32_t there)
{
    c->there = there == 0 ? 1 : there;
}

static void closure_add_blamed(struct closure *c, uint64_t worker)
{
    for (uint32_t i = 0; i < c->blamed_count; i++)
        if (c->blamed[i] == worker)
            return;
    if (c->blamed_count < CLOSURE_MAX_BLAMED)
        c->blamed[c->blamed_count++] = worker;
}

static bool agreed(const struct closure *c)
{
    struct witness_tally t;

    witness_begin(&t, c->max_blamed);
    for (uint32_t i = 0; i < c->blamed_count; i++)
        witness_note(&t, c->blamed[i]);
    return t.parties == t.most &&
           witness_independent(&t) >= (c->there < t.most ? c->there : t.most);
}

void closure_remember(struct closure *c, uint64_t worker)
{
    closure_add_blamed(c, worker);
    c->again = c->begun = true;
}

// Blames `worker` once more. Returns true while other workers may try.
static bool blame(struct closure *c, uint64_t worker)
{
    closure_add_blamed(c, worker);
    c->failures++;
    return !agreed(c) &&
           c->failures < c->max_blamed * CLOSURE_FAILURES_PER_BLAME;
}

static void end_badly(struct closure *c, enum sl_err result)
{
    if (blame(c, c->worker)) {
        closure_enter_state(c, CLOSURE_WAITING);
        c->again = c->begun = true;
    } else {
        c->result = result;
        closure_enter_state(c, CLOSURE_FAILED);
    }
}

enum sl_err closure_finish(struct closure *c, struct attempt attempt,
                           enum sl_err result)
{
    if (c->state != CLOSURE_LEASED || !attempt_equal(attempt, c->attempt))
        return SL_ESTALE;

    if (result == SL_OK)
        closure_enter_state(c, CLOSURE_DONE);
    else if (result == SL_EPREEMPTED || result == SL_ESTALE)
        closure_enter_state(c, CLOSURE_WAITING); // it had notice, or was fenced
    else
        end_badly(c, result);
    return SL_OK;
}

bool closure_dropped(struct closure *c, uint64_t now_ms)
{
    uint64_t ms = CLOSURE_DROP_MS;

    if (++c->drops <= CLOSURE_DROPS_FREE)
        return false;
    for (uint32_t i = CLOSURE_DROPS_FREE + 1;
         i < c->drops && ms < CLOSURE_DROP_MOST_MS; i++)
        ms *= 2;
    c->not_before_ms =
        now_ms + (ms < CLOSURE_DROP_MOST_MS ? ms : CLOSURE_DROP_MOST_MS);
    return true;
}

void closure_lost(struct closure *c)
{
    assert(c->state == CLOSURE_LEASED);
    end_badly(c, SL_ELOST);
}

void closure_expect(struct closure *c, uint64_t steps, uint64_t counted,
                    uint64_t lost)
{
    double each = (double)lost / (double)(lost + counted);
    double jobs = (double)steps;
    uint32_t blamed = 0;

    // Where workers live for half an hour and steps take a minute, four die at
    // one step by chance once in 30,000 losses: a job of days would fail for
    // it.
    if (lost < CLOSURE_LOSSES_KNOWN ||
        counted / (CLOSURE_LOSSES_MOST - 1) < lost)
        return;
    for (; jobs > 1.0 / CLOSURE_CHANCE && blamed < CLOSURE_MAX_BLAMED; blamed++)
        jobs *= each;
    if (c->max_blamed < blamed)
        c->max_blamed = blamed;
}

void closure_killed(struct closure *c, uint64_t worker)
{
    bool others_may_try = blame(c, worker);

    if (c->state != CLOSURE_WAITING)
        return;
    c->again = c->begun = true;
    if (!others_may_try) {
        c->result = SL_ELOST;
        closure_enter_state(c, CLOSURE_FAILED);
    }
}

void closure_forgiven(struct closure *c)
{
    assert(c->state == CLOSURE_FAILED);
    closure_advanced(c);
    c->again = c->begun = true;
    closure_enter_state(c, CLOSURE_WAITING);
}

bool closure_half_blamed(const struct closure *c)
{
    return 2 * c->blamed_count >= c->max_blamed ||
           2 * c->failures >= c->max_blamed * CLOSURE_FAILURES_PER_BLAME;
}

bool closure_ready(const struct closure *c, uint64_t now_ms)
{
    return c->state == CLOSURE_WAITING && c->not_before_ms <= now_ms &&
           (c->suspected == 0 ||
            c->blamed_count + c->suspected < c->max_blamed);
}

void closure_unstarted(struct closure *c, bool begun)
{
    closure_enter_state(c, CLOSURE_WAITING);
    c->again = true;
    c->begun = c->begun || begun;
}

void closure_advanced(struct closure *c)
{
    c->blamed_count = 0;
    c->failures = 0;
    c->drops = 0;
}

void closure_counted(struct closure *c)
{
    assert(c->state == CLOSURE_WAITING);
    closure_enter_state(c, CLOSURE_DONE);
}

void closure_cancel(struct closure *c)
{
    if (c->state == CLOSURE_WAITING || c->state == CLOSURE_LEASED)
        closure_enter_state(c, CLOSURE_CANCELED);
}

const char *closure_state_name(enum closure_state state)
{
    static const char *const names[CLOSURE_STATES] = {
        "waiting", "leased", "done", "failed", "canceled"};

    return (unsigned)state < CLOSURE_STATES ? names[state] : "unknown";
}
