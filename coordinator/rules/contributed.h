// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/contributed.h -- what a worker contributed to a job since
// an audit found a result of it right.
//
// Closures are kept as ranges. When there are too many, the two with the
// smallest gap become one, which then holds closures of other workers, too:
// what is kept may be more than what was contributed, never less. The number of
// steps is exact, but where contributed_clean splits a range: it takes the mean
// of the range's closures.
//
// Threads  the loop.
// Memory   a value; all zeroes: nothing was contributed. Nothing is allocated.
// Errors   none. No pointer is NULL.
#ifndef COORDINATOR_RULES_CONTRIBUTED_H
#define COORDINATOR_RULES_CONTRIBUTED_H

#include <stdbool.h>
#include <stdint.h>

#define CONTRIBUTED_RANGES 16

struct contributed_range {
    uint64_t first, last;
    // Closures of the worker; another number than the range holds: it is rough.
    // A rough range may count a closure that is added again as one more.
    uint64_t closures;
    uint64_t steps;
};

struct contributed {
    bool audited;     // an audit found a result of the worker right
    uint64_t closure; // of the last right result
    uint64_t cut;     // the job's last cut by then; 0: there was none
    uint32_t count;
    struct contributed_range ranges[CONTRIBUTED_RANGES]; // in order, apart
};

// Adds `steps` steps of `closure` that the worker contributed; may be called
// again for the same closure, as more of its steps are counted.
void contributed_add(struct contributed *c, uint64_t closure, uint64_t steps);

// Notes that an audit found the worker's result of a closure right, when `cut`
// was the job's last cut (0: none): what it contributed up to that closure,
// that one included, is in doubt no more, but for a rough range that goes on
// beyond it. An older closure than the last one changes nothing.
void contributed_clean(struct contributed *c, uint64_t closure, uint64_t cut);

// Returns the highest closure that the worker contributed to and that is in
// doubt; 0: it is closure 0, or none is in doubt (c->count is 0).
uint64_t contributed_newest(const struct contributed *c);

// Returns how many of the worker's closures are in doubt or, with `steps` true,
// how many steps.
uint64_t contributed_total(const struct contributed *c, bool steps);

// Returns true if some range holds closures of other workers as well.
bool contributed_rough(const struct contributed *c);

#endif
