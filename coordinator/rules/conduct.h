// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/conduct.h -- does a worker do a job any good?
//
// One struct per worker and job. A worker is excluded if all of its steps are
// skipped (its loss or gradients are not finite), or if its attempts fail one
// after another, while other workers get on with the same job: that job gives
// it nothing for a while, and twice as long each time, until a step of its
// counts again. A worker that does as badly as all others is left alone: then
// the job is wrong, and train.max_nonfinite or poison ends it.
//
// A worker that says that the job is wrong, as its numbers are not finite, is
// not believed if it is alone with that (conduct_alone). A worker that never
// had a good step is alone as soon as another had one: should the job be wrong
// all the same, the workers that had good steps will say so themselves.
//
// "Good" steps are those that were applied, by any worker; the job counts them
// as they are reported.
//
// Threads  the loop.
// Memory   a value; nothing is allocated. Texts are static. No pointer is NULL.
// Units    *_ms on the caller's monotonic clock; steps, closures.
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
// Good steps that other workers must have had since.
#define CONDUCT_OTHERS 16

// The first exclusion; each one doubles, up to the longest.
#define CONDUCT_FIRST_MS 30000
#define CONDUCT_MAX_MS 600000
// How long a worker that says that the job, or its data, is wrong is excluded
// before it is asked again, each time.
#define CONDUCT_AGAIN_MS 60000

enum conduct_why {
    CONDUCT_GOOD,  // the worker gives no reason to exclude it
    CONDUCT_SKIPS, // all its steps are skipped
    CONDUCT_FAILS, // its attempts fail
    CONDUCT_WAITS, // it cannot reach shards, and others or other jobs get on
    CONDUCT_PEERS, // other ranks do not reach it, or it cannot sum
    CONDUCT_NEAR,  // it advertises loopback to ranks of other hosts
    CONDUCT_DATA,  // it cannot read the data that others read
    CONDUCT_SAYS,  // it says that the job is wrong, and others do not
};

struct conduct {
    bool good; // the worker had a good step at some time
    // it said that the job is wrong, and computed nothing of it since; the
    // caller sets and clears it
    bool says;
    uint64_t good_at; // the job's good steps when the bad run began
    uint64_t skipped; // steps in a row
    uint64_t closure; // closure of the last skipped step
    // closures of that run of skipped steps, each counted again if it returns
    uint32_t closures;
    uint32_t failures; // attempts in a row
    uint32_t times;    // exclusions since its last good step that double
    uint64_t until_ms; // end of its exclusion; 0: not excluded
    enum conduct_why why;
};

// Sets *c to a worker without record, which is not excluded; `good` counts the
// job's good steps so far.
void conduct_init(struct conduct *c, uint64_t good);

// Takes a report of newly counted steps of `closure`, how many were applied and
// how many skipped; `good` counts the job's good steps, those applied included.
// If any was applied, the bad run is over, and the next exclusion is a first
// one again; one that runs goes on. Else the skipped ones are added to the run;
// without any nothing changes.
void conduct_steps(struct conduct *c, uint64_t closure, uint64_t applied,
                   uint64_t skipped, uint64_t good);

// Adds one to the failed attempts of the present bad run. Only an applied step
// (conduct_steps) or an exclusion (conduct_exclude) sets them to 0 again.
void conduct_failed(struct conduct *c);

// Returns true if the job had at least CONDUCT_OTHERS good steps since this
// worker's present run of bad steps began (c->good_at).
bool conduct_others_good(const struct conduct *c, uint64_t good);

// Returns true if this worker stands out: conduct_others_good is true, or the
// worker never had a good step and the job has.
bool conduct_alone(const struct conduct *c, uint64_t good);

// Returns why the worker should be excluded now: CONDUCT_SKIPS or
// CONDUCT_FAILS; or CONDUCT_GOOD if it should not, also if it does as badly as
// all others. `good` counts the job's good steps so far, here and below.
// Changes nothing.
enum conduct_why conduct_judge(const struct conduct *c, uint64_t good);

// Excludes the worker from now_ms on, for reason `why`, in place of an
// exclusion that runs (c->until_ms, c->why). Returns for how many milliseconds:
// CONDUCT_AGAIN_MS for CONDUCT_DATA and CONDUCT_SAYS; else CONDUCT_FIRST_MS,
// doubled for each such exclusion since its last good step, up to
// CONDUCT_MAX_MS. A new run of bad steps begins at `good`, without skipped
// steps or failures.
uint64_t conduct_exclude(struct conduct *c, enum conduct_why why, uint64_t good,
                         uint64_t now_ms);

// Returns true if the worker is still excluded at now_ms.
bool conduct_excluded(const struct conduct *c, uint64_t now_ms);

// Returns the reason as a clause for people ("its attempts fail ..."), or ""
// for CONDUCT_GOOD.
const char *conduct_why_text(enum conduct_why why);

#endif
