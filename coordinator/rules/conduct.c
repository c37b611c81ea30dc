// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/conduct.c -- a worker's run of steps without effect and of
// failed attempts, and its exclusion for them.
#include "coordinator/rules/conduct.h"

#include <string.h>

static void begin_run(struct conduct *c, uint64_t good)
{
    c->good_at = good;
    c->skipped = 0;
    c->closures = 0;
    c->failures = 0;
}

void conduct_init(struct conduct *c, uint64_t good)
{
    memset(c, 0, sizeof(*c));
    begin_run(c, good);
}

void conduct_steps(struct conduct *c, uint64_t closure, uint64_t applied,
                   uint64_t skipped, uint64_t good)
{
    if (applied > 0) {
        c->good = true;
        begin_run(c, good);
        c->times = 0;
        return;
    }
    if (skipped == 0)
        return;
    if (c->closures == 0 || c->closure != closure)
        c->closures++;
    c->closure = closure;
    c->skipped += skipped;
}

void conduct_failed(struct conduct *c)
{
    c->failures++;
}

bool conduct_others_good(const struct conduct *c, uint64_t good)
{
    return good - c->good_at >= CONDUCT_OTHERS;
}

bool conduct_alone(const struct conduct *c, uint64_t good)
{
    // A worker whose every step is bad is at its limit within milliseconds,
    // before others have had CONDUCT_OTHERS good steps more. If it is the job
    // that is wrong, those that had a good step will report it.
    return conduct_others_good(c, good) || (!c->good && good > 0);
}

enum conduct_why conduct_judge(const struct conduct *c, uint64_t good)
{
    if (!conduct_others_good(c, good))
        return CONDUCT_GOOD;
    if (c->skipped >= CONDUCT_STEPS && c->closures >= CONDUCT_CLOSURES)
        return CONDUCT_SKIPS;
    return c->failures >= CONDUCT_FAILURES ? CONDUCT_FAILS : CONDUCT_GOOD;
}

uint64_t conduct_exclude(struct conduct *c, enum conduct_why why, uint64_t good,
                         uint64_t now_ms)
{
    bool says = why == CONDUCT_DATA || why == CONDUCT_SAYS;
    uint64_t ms = says ? CONDUCT_AGAIN_MS : CONDUCT_FIRST_MS;

    for (uint32_t i = 0; !says && i < c->times && ms < CONDUCT_MAX_MS; i++)
        ms *= 2;
    if (ms > CONDUCT_MAX_MS)
        ms = CONDUCT_MAX_MS;
    c->times += !says;
    c->why = why;
    c->until_ms = now_ms + ms;
    begin_run(c, good);
    return ms;
}

bool conduct_excluded(const struct conduct *c, uint64_t now_ms)
{
    return c->until_ms != 0 && now_ms < c->until_ms;
}

const char *conduct_why_text(enum conduct_why why)
{
    switch (why) {
    case CONDUCT_SKIPS:
        return "the loss or gradients of all its steps are not finite, those "
               "of other workers' steps are finite";
    case CONDUCT_FAILS:
        return "its attempts fail one after another, attempts of other workers "
               "succeed";
    case CONDUCT_WAITS:
        return "it waits for shards that other workers reach";
    case CONDUCT_PEERS:
        return "other ranks cannot sum with it; the event ring-broken says "
               "what was tried";
    case CONDUCT_NEAR:
        return "it advertises a loopback address to ranks of other hosts: "
               "start it with an address that they can dial (worker --listen "
               "ADDRESS:0, or --advertise; listen= of a program) and with "
               "TLS";
    case CONDUCT_DATA:
        return "it cannot read the data, which other workers can";
    case CONDUCT_SAYS:
        return "it reports that the job is invalid, other workers do not";
    case CONDUCT_GOOD:
        break;
    }
    return "";
}
