// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/dispatch.c -- the choice of a job for one worker, and of
// how many leases it may hold.
#include "coordinator/rules/dispatch.h"

#include "common/base/num.h"

_Static_assert(DISPATCH_LEASES_WIDEST >= DISPATCH_LEASES_MOST,
               "members have a list for each number of leases");

uint32_t dispatch_most(double lease_ms, double ahead_ms, uint32_t most)
{
    if (lease_ms * most <= ahead_ms)
        return most;
    if (lease_ms * DISPATCH_LEASES_LEAST >= ahead_ms)
        return DISPATCH_LEASES_LEAST;
    return (uint32_t)(ahead_ms / lease_ms);
}

uint32_t dispatch_apart(double lease_ms)
{
    // A worker that takes jobs in turn has all of them in memory, and opens
    // each anew where they do not fit: 32 jobs on two workers make 229 steps/s,
    // and 8,159 if a job stays with the worker that has it.
    if (lease_ms * DISPATCH_APART_MOST <= DISPATCH_APART_MS)
        return DISPATCH_APART_MOST;
    return (uint32_t)(DISPATCH_APART_MS / lease_ms);
}

uint64_t dispatch_served(uint64_t served, uint64_t *front, uint32_t apart)
{
    uint64_t least = *front > apart ? *front - apart : 0;

    if (served < least)
        served = least;
    if (*front <= served)
        *front = served + 1;
    return served + 1;
}

// The window grows with the workers: with a fixed one, a single closure that
// takes long holds a fleet of any size.
uint64_t dispatch_window(uint64_t wanted, uint64_t workers, uint64_t usual,
                         uint64_t most)
{
    uint64_t follows = sl_min(workers * DISPATCH_WINDOW_EACH, most);

    return wanted < usual || wanted > follows ? wanted : follows;
}

bool dispatch_worker_free(const struct dispatch_worker *w)
{
    return w->ready && w->leases < w->most;
}

bool dispatch_fits(const struct dispatch_worker *w,
                   const struct dispatch_job *job)
{
    if (job->external != w->external || (w->only != 0 && w->only != job->id))
        return false;
    return job->max_workers == 0 || job->held_here ||
           job->workers < job->max_workers;
}

bool dispatch_before(const struct dispatch_job *a, const struct dispatch_job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->held != b->held)
        return a->held < b->held;
    return a->served + a->apart < b->served + b->apart;
}
