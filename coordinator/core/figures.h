// SPDX-License-Identifier: Apache-2.0
// coordinator/core/figures.h -- counters since this coordinator began, which
// only rise, so that monitoring can draw their rates.
//
// Jobs keep their own numbers, which fall when a shard falls back and go when
// the job does. Here a closure and a sample are counted when a job first has
// them; closures that a job had when it was loaded or resumed are not counted.
//
// Threads  the loop.
// Memory   values, in struct coord and struct job; nothing fails. Texts are
//          borrowed for the call. No pointer is NULL.
// Units    closures, samples, steps; microseconds in histograms.
#ifndef COORDINATOR_CORE_FIGURES_H
#define COORDINATOR_CORE_FIGURES_H

#include "common/base/histogram.h"
#include "coordinator/rules/work.h"

// The most that a job had counted in this term.
struct job_figured {
    bool any;
    uint64_t closures, samples;
    // when `samples` last rose, or was first noted; coord_now
    uint64_t rose_ms;
};

struct coord;
struct job;
struct member;

// The outcome of a cut: its manifest makes it exist; its manifest could not be
// written; or it was given up before that.
enum figures_cut { FIGURES_PUBLISHED, FIGURES_ABORTED, FIGURES_GIVEN_UP };
#define FIGURES_CUTS 3

// Contributions of which audits compared two results, or found two that
// differ, or found which worker is wrong (suspects.h).
enum figures_audit { FIGURES_COMPARED, FIGURES_DIFFERED, FIGURES_DECIDED };
#define FIGURES_AUDITS 3

// The source of the notice that a machine goes; "signal": its worker was told
// to end.
enum figures_source {
    FIGURES_AWS,
    FIGURES_GCP,
    FIGURES_AZURE,
    FIGURES_FILE,
    FIGURES_EXEC,
    FIGURES_SIGNAL,
    FIGURES_SOURCES
};
// The words for the sources, as monitoring shows them: "aws", "gcp", ...
extern const char *const figures_sources[FIGURES_SOURCES];

struct figures {
    uint64_t counted, failed;    // closures
    uint64_t samples;            // samples counted on all shards of their job
    uint64_t retries[WORK_WHYS]; // closures leased again, by the reason
    uint64_t reissued; // closures that a shard forgot after they were counted
    uint64_t cuts[FIGURES_CUTS];
    uint64_t preempted[FIGURES_SOURCES]; // workers that began to drain
    uint64_t lost[2];                    // members, by role
    uint64_t audits[FIGURES_AUDITS];
    struct histogram waits; // how long given-up closures waited for a worker
};

// Makes the histogram of c->figures, which are all zeroes before.
void figures_init(struct coord *c);

// Adds to the counters what the job has counted beyond the most that it had
// counted before (job->figured): closures and samples. The first call for a job
// only notes what it has. To be called before its first lease, at each tick,
// and before its end. Does nothing while the job is not placed or not served.
void figures_job(struct coord *c, struct job *job);

// Adds to c->figures.reissued the closures that a shard has forgotten as it
// fell back; 0 if it has as many or more. To be called after its evidence was
// replaced; `before` is what evidence_closures returned until then.
void figures_fell(struct coord *c, const struct job *job, uint64_t before);

// Notes in w that its attempt ended now, and `why` it would be leased again; no
// counter changes (figures_retried).
void figures_ended(struct coord *c, struct work *w, enum work_why why);

// Counts that w, an attempt of which ended badly, is leased once more: by the
// reason that figures_ended noted last (WORK_TRANSIENT if it noted none) and,
// if it noted one, how long w waited since.
void figures_retried(struct coord *c, const struct work *w);

// Counts a member that was lost, by its role.
void figures_lost(struct coord *c, const struct member *m);

// Counts a closure that failed for good and so ends its job.
void figures_failed(struct coord *c);

// Counts a cut by its outcome.
void figures_cut(struct coord *c, enum figures_cut how);

// Counts a contribution of which audits compared two results, found two that
// differ, or decided which worker is wrong, as `what` says.
void figures_audit(struct coord *c, enum figures_audit what);

// Counts worker m, which begins to drain, by the source of the notice: `why`
// begins or ends with the words of that source (host/notice); "": the worker
// was told to end. Does nothing if `why` has other words, or m is a psserver.
void figures_drains(struct coord *c, const struct member *m, const char *why);

#endif
