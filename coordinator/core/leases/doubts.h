// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/doubts.h -- reports of workers against a job: that
// its data is missing, or other than was seen first, that it cannot be trained,
// that more samples cannot be read than may be passed over.
//
// One worker's word puts that worker aside for this job, and it is asked again
// after CONDUCT_AGAIN_MS: a folder that is half copied, or not mounted, costs
// one worker. The job fails when all present workers say so, and none was lost
// a moment ago that had got on with it; or when more independent witnesses
// (workers of different certificates and hosts, witness.h) found the same other
// data than stand for the first: a job's samples keep their numbers, so it
// cannot go on with theirs.
//
// No doubt is journalled.
//
// Threads  the loop.
// Memory   doubts are the job's, JOB_DOUBTS at most. Messages are borrowed for
//          the call, texts of them copied. No pointer is NULL.
// Errors   doubts_heard and doubts_samples: without memory no worker is put
//          aside, and the job fails.
#ifndef COORDINATOR_CORE_LEASES_DOUBTS_H
#define COORDINATOR_CORE_LEASES_DOUBTS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"

#define JOB_DOUBTS 16

// Workers that found other data of a job than the first one.
struct job_doubts {
    uint64_t first; // the first finder, a witness; 0: not known in this term
    char name[140]; // and its name and host
    size_t count;
    struct doubt {
        uint64_t witness;
        struct journal_facts facts;
    } other[JOB_DOUBTS];
};

// Takes an AttemptFailed with job_error from worker m, of a job that goes on,
// and notes that m doubts the job (until doubts_over). Returns false if the job
// was ended as FAILED by it; true if not: then the caller ends the attempt and
// calls doubts_put_aside.
bool doubts_heard(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__AttemptFailed *message);

// Returns true if the failure is of the data alone, so that no closure is to
// blame: message->data is set, or the code says that data cannot be found or
// read (SL_ENOENT, SL_EDENIED, SL_ECORRUPT, SL_EIO).
bool doubts_data(const Sluice__V1__AttemptFailed *message);

// Excludes worker m from the job, which goes on, for CONDUCT_AGAIN_MS, for what
// it reported in `message` (excluded_told), sets the warning JOB_WARN_DATA, and
// takes back its leases of the job: pointers to these works may be gone then.
// Cannot fail: doubts_heard has made the memory that it needs.
void doubts_put_aside(struct coord *c, struct member *m, struct job *job,
                      const Sluice__V1__AttemptFailed *message);

// Takes the unreadable samples in m's metrics. Returns true if the job goes on
// with m, with the new ones counted (bad_take); false if they are more than it
// allows (bad_fits): then m was excluded from the job, as doubts_put_aside
// does, and none of them is counted; or, where all present workers say so, the
// job was ended as FAILED, and names them. m's leases of it are gone.
bool doubts_samples(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__StepMetrics *metrics);

// Notes that m looked at the data first: its facts are the job's.
void doubts_first(struct job *job, const struct member *m);

// Ends the doubt of worker m, which gets on with the job, and removes the job's
// warning if no other worker has one. Does nothing if m has none.
void doubts_over(struct coord *c, struct member *m, struct job *job);

#endif
