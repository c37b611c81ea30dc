// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/conduct.h -- does a worker do a job any good?
//
// One per worker and job. A worker whose steps are all skipped (its loss or
// gradients are not finite), or whose attempts fail one after another, while
// others get on with the same job, is excluded: that job gives it nothing for
// a while, and twice as long each time, until a step of its counts again. One
// that is as badly off as everybody else is left alone: then it is the job
// that is wrong, and train.max_nonfinite or poison ends it.
//
// A worker that says that the job is wrong, as its numbers are not finite, is
// not believed if it is alone with that (conduct_alone). One that never had a
// good step is alone as soon as anybody had one: should the job be wrong all
// the same, those who had will say so themselves.
//
// "Good" steps are those that were applied, whoever computed them; the job
// counts them as they are reported.
//
// Threads  the loop.
// Memory   a value.
// Units    *_ms on the monotonic clock of whoever calls; steps, closures.
// Errors   none.
#ifndef COORDINATOR_RULES_CONDUCT_H
#define COORDINATOR_RULES_CONDUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Steps in a row without effect, of more than one closure: bad samples lie in
// one range, which another worker would have skipped as well.
#define CONDUCT_STEPS 16
#define CONDUCT_CLOSURES 2
#define CONDUCT_FAILURES 4 // attempts in a row
// Good steps that others must have had meanwhile.
#define CONDUCT_OTHERS 16

#define CONDUCT_FIRST_MS 30000
#define CONDUCT_MAX_MS 600000
// Who says that the job, or its data, is wrong is asked again after so long,
// each time.
#define CONDUCT_AGAIN_MS 60000

enum conduct_why {
    CONDUCT_GOOD,
    CONDUCT_SKIPS,
    CONDUCT_FAILS,
    CONDUCT_WAITS, // it cannot reach shards, and others or other jobs get on
    CONDUCT_PEERS, // other ranks do not reach it, or it cannot sum
    CONDUCT_NEAR,  // it advertises loopback to ranks of other hosts
    CONDUCT_DATA,  // it cannot read the data that others read
    CONDUCT_SAYS,  // it says that the job is wrong, and others do not
};

struct conduct {
    bool good;         // it had a good step, some time
    bool says;         // that the job is wrong, and did nothing of it since
    uint64_t good_at;  // the job's good steps when the bad run began
    uint64_t skipped;  // steps in a row
    uint64_t closure;  // the last one of that run,
    uint32_t closures; // and how many there were
    uint32_t failures; // attempts in a row
    uint32_t times;    // excluded since its last good step
    uint64_t until_ms; // excluded until then; 0: it is not
    enum conduct_why why;
};

// `good`: good steps of the job so far.
void conduct_init(struct conduct *c, uint64_t good);

// It reports newly counted steps of a closure; `good` holds those applied.
void conduct_steps(struct conduct *c, uint64_t closure, uint64_t applied,
                   uint64_t skipped, uint64_t good);
void conduct_failed(struct conduct *c);

// Others had enough good steps since its own last one.
bool conduct_others_good(const struct conduct *c, uint64_t good);

// Others had, or only others ever had any.
bool conduct_alone(const struct conduct *c, uint64_t good);

// Why it should be excluded, or CONDUCT_GOOD.
enum conduct_why conduct_judge(const struct conduct *c, uint64_t good);

// Excludes it from now on; for how long. Its next run begins at `good`.
uint64_t conduct_exclude(struct conduct *c, enum conduct_why why, uint64_t good,
                         uint64_t now_ms);
bool conduct_excluded(const struct conduct *c, uint64_t now_ms);

// "its steps are skipped", ...
const char *conduct_why_text(enum conduct_why why);

#endif
