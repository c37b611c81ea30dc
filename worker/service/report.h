// SPDX-License-Identifier: Apache-2.0
// worker/service/report.h -- a lease's outcome as the message that says it.
//
// Threads  the loop.
// Memory   the message lives on the heap: wire_free(&up->base).
#ifndef WORKER_SERVICE_REPORT_H
#define WORKER_SERVICE_REPORT_H

#include "worker/lease/lease.h"

// NULL without memory, or if there is nothing to say (OUTCOME_DROPPED).
// `by_map`: the coordinator understands Complete.map_version.
Sluice__V1__AttendUp *report_outcome(struct lease *l, bool by_map);

// For what was never run: the job is not known, the lease does not fit.
Sluice__V1__AttendUp *report_refused(const Sluice__V1__Lease *m,
                                     const struct sl_error *err);

// What of the job's data cannot be read and was passed over; some of it, if it
// is much. Metrics borrow it until report_bad_free.
struct report_bad {
    struct bad_sample *samples;
    Sluice__V1__BadSample *messages, **list;
};

void report_bad(Sluice__V1__StepMetrics *out, struct report_bad *bad,
                const struct lease *l);
void report_bad_free(struct report_bad *bad);

#endif
