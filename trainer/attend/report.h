// SPDX-License-Identifier: Apache-2.0
// trainer/attend/report.h -- a lease's outcome as a message.
//
// Threads  the loop.
// Memory   the message lives on the heap: wire_free(&up->base). It keeps
//          nothing of its arguments. No argument is NULL.
// Errors   NULL: no memory.
#ifndef TRAINER_ATTEND_REPORT_H
#define TRAINER_ATTEND_REPORT_H

#include "trainer/lease/lease.h"

// Returns the report of a lease that has an outcome; NULL without memory, or if
// there is nothing to report (OUTCOME_DROPPED). `by_map`: the coordinator
// understands Complete.map_version, which then stands for the evidence where
// that names the same incarnations and nothing more. A Complete also tells bad
// samples, the next in turn, as report_bad does.
Sluice__V1__AttendUp *report_outcome(struct lease *l, bool by_map);

// Returns the report of a lease that was never run, an AttemptFailed with the
// error *err: its job is not known, or it does not fit. NULL: no memory.
Sluice__V1__AttendUp *report_refused(const Sluice__V1__Lease *m,
                                     const struct sl_error *err);

// Samples of the job that cannot be read and were passed over; some of them, if
// they are many.
struct report_bad {
    struct bad_sample *samples;
    Sluice__V1__BadSample *messages, **list;
};

// Adds samples of l's job that cannot be read to `out`, which borrows them from
// *bad until report_bad_free. Adds none without memory, or if the job passes
// over none. Each call takes the next in turn (bad_tell). *bad need not be
// zeroed before.
void report_bad(Sluice__V1__StepMetrics *out, struct report_bad *bad,
                const struct lease *l);
// Frees what report_bad made; `out` of that call is not used any more. Once per
// report_bad.
void report_bad_free(struct report_bad *bad);

#endif
