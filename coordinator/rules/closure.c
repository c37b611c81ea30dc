// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/closure.c -- one lease-able piece of a job, and where it
// stands.
//
//            closure_lease                 closure_finish(ok)
//   WAITING ---------------> LEASED -----------------------------> DONE
//    ^  | ^                   |  |  |                               | ^
//    |  | | closure_lost,     |  |  | the same, when it has taken   | |
//    |  | | closure_unstarted,|  |  | down or failed on too many    | |
//    |  | | or finish(error)  |  |  | workers: poison               | |
//    |  | +-------------------+  |  +--------------------> FAILED   | |
//    |  |     closure_cancel     v                                  | |
//    |  +------------------------+-----------------------> CANCELED | |
//    |             closure_forgotten                                | |
//    +--------------------------------------------------------------+ |
//    +----------------------------------------------------------------+
//                  closure_counted: a late report of an old attempt
//
// WAITING  for a worker.
// LEASED   one worker has it, as attempt `attempt`, while it is heard of.
// DONE     every shard has counted every step. Not final until a published
//          cut holds it on every shard: a shard that restarts from an older
//          snapshot has forgotten some steps, and the closure runs again.
// The rest are final.
//
// A worker we gave up on can still report. It then carries an old attempt,
// and closure_finish answers SL_ESTALE and changes nothing. So a closure may
// run more than once, but each of its steps counts once, at the shard.
//
// Nothing here reads a clock, sends, logs or allocates: time comes in as an
// argument and the caller does the talking.
#include "coordinator/rules/closure.h"

#include <assert.h>
#include <string.h>

#include "common/base/broken.h"

#define BIT(state) (1u << (state))

static const unsigned may_enter[CLOSURE_STATES] = {
    [CLOSURE_WAITING] =
        BIT(CLOSURE_LEASED) | BIT(CLOSURE_CANCELED) | BIT(CLOSURE_DONE),
    [CLOSURE_LEASED] = BIT(CLOSURE_WAITING) | BIT(CLOSURE_DONE) |
                       BIT(CLOSURE_FAILED) | BIT(CLOSURE_CANCELED),
    [CLOSURE_DONE] = BIT(CLOSURE_WAITING),
};

// The only line in the program that changes a closure's state.
static void enter(struct closure *c, enum closure_state next)
{
    assert(may_enter[c->state] & BIT(next));
    c->state = next;
}

void closure_init(struct closure *c, uint64_t id, uint32_t max_blamed)
{
    memset(c, 0, sizeof(*c));
    c->id = id;
    c->max_blamed = max_blamed == 0                   ? 1
                    : max_blamed > CLOSURE_MAX_BLAMED ? CLOSURE_MAX_BLAMED
                                                      : max_blamed;
}

enum sl_err closure_lease(struct closure *c, uint64_t worker,
                          struct attempt attempt, uint64_t now_ms)
{
    if (c->state != CLOSURE_WAITING)
        return SL_ESTATE;
    if ((attempt.term < c->attempt.term ||
         (attempt.term == c->attempt.term && attempt.n <= c->attempt.n)) &&
        !BROKEN(rule_I4))
        return SL_ESTALE;

    enter(c, CLOSURE_LEASED);
    c->attempt = attempt;
    c->worker = worker;
    c->leased_ms = now_ms;
    c->again = false;
    return SL_OK;
}

bool closure_blames(const struct closure *c, uint64_t worker)
{
    for (uint32_t i = 0; i < c->blamed_count; i++) {
        if (c->blamed[i] == worker)
            return true;
    }
    return false;
}

void closure_remember(struct closure *c, uint64_t worker)
{
    if (!closure_blames(c, worker) && c->blamed_count < CLOSURE_MAX_BLAMED)
        c->blamed[c->blamed_count++] = worker;
}

// True while others may try.
static bool blame(struct closure *c, uint64_t worker)
{
    closure_remember(c, worker);
    c->failures++;
    return c->blamed_count < c->max_blamed &&
           c->failures < c->max_blamed * CLOSURE_FAILURES_PER_BLAME;
}

static void end_badly(struct closure *c, enum sl_err result)
{
    if (blame(c, c->worker)) {
        enter(c, CLOSURE_WAITING);
        c->again = true;
    } else {
        c->result = result;
        enter(c, CLOSURE_FAILED);
    }
}

enum sl_err closure_finish(struct closure *c, struct attempt attempt,
                           enum sl_err result)
{
    if (c->state != CLOSURE_LEASED || !attempt_equal(attempt, c->attempt))
        return SL_ESTALE;

    if (result == SL_OK)
        enter(c, CLOSURE_DONE);
    else if (result == SL_EPREEMPTED || result == SL_ESTALE)
        enter(c, CLOSURE_WAITING); // it had notice, or was fenced
    else
        end_badly(c, result);
    return SL_OK;
}

void closure_lost(struct closure *c)
{
    assert(c->state == CLOSURE_LEASED);
    end_badly(c, SL_ELOST);
}

void closure_unstarted(struct closure *c)
{
    enter(c, CLOSURE_WAITING);
    c->again = true;
}

void closure_advanced(struct closure *c)
{
    c->blamed_count = 0;
    c->failures = 0;
}

void closure_counted(struct closure *c)
{
    assert(c->state == CLOSURE_WAITING);
    enter(c, CLOSURE_DONE);
}

void closure_forgotten(struct closure *c)
{
    enter(c, CLOSURE_WAITING);
}

void closure_cancel(struct closure *c)
{
    if (c->state == CLOSURE_WAITING || c->state == CLOSURE_LEASED)
        enter(c, CLOSURE_CANCELED);
}

const char *closure_state_name(enum closure_state state)
{
    static const char *const names[CLOSURE_STATES] = {
        "waiting", "leased", "done", "failed", "canceled"};

    return (unsigned)state < CLOSURE_STATES ? names[state] : "unknown";
}
