// SPDX-License-Identifier: Apache-2.0
// worker/lease/lease.h -- one attempt at one piece of work, from lease to
// report.
//
// The loop makes it from a Lease message and hands it to the compute thread,
// which runs it (task.h) and gives it back with its outcome. Meanwhile the
// loop may close its gate and read its progress.
//
// Threads  The loop owns it before compute_submit and after the outcome is
//          back; in between it is the compute thread's, but for gate, running
//          and progress, which are shared.
// Memory   lease_free; holds a reference of its job's record.
#ifndef WORKER_LEASE_LEASE_H
#define WORKER_LEASE_LEASE_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/run/loop.h"
#include "worker/sync/gate.h"
#include "worker/data/input.h"
#include "worker/lease/record.h"
#include "worker/lease/score.h"
#include "worker/ring/seat.h"

enum lease_kind { LEASE_TRAIN, LEASE_EVALUATE, LEASE_PROBE, LEASE_RING };

#define LEASE_STRANGE 112

// Sums over the steps that this attempt saw counted; see StepMetrics.
struct lease_metrics {
    uint32_t next; // of a closure: the step after the last one in the sums
    uint64_t steps, samples, skipped, refused;
    // Of steps that were applied and whose loss is known: their samples.
    uint64_t loss_samples;
    double loss_sum, right_sum;
    double compute_ms, wait_ms, input_ms, push_ms;
    double loss_scale;           // the last; 0: there is none
    uint64_t sums;               // with others, of whole gradients
    uint64_t sent_bytes;         // to other hosts, for them
    char strange[LEASE_STRANGE]; // the sample that is not finite; "": none is
};

enum outcome_kind {
    OUTCOME_COMPLETE,
    OUTCOME_FAILED,    // err; job_error
    OUTCOME_HAND_BACK, // err.text says why
    OUTCOME_DROPPED,   // the coordinator took it away: nothing to say
};

struct outcome {
    enum outcome_kind kind;
    struct sl_error err;
    bool job_error;
    bool data;              // it is of the data that this worker finds,
    bool differs;           // and facts are those of the set that differs
    uint64_t *incarnations; // of the evidence, by shard; owned
    uint32_t incarnations_count;
    uint64_t map_version;        // of the map that names just those; 0: none
    bool *held;                  // there, not counted yet (Y3), by shard; owned
    bool *closed;                // by it the round is whole there; owned
    Sluice__V1__DataFacts facts; // LEASE_PROBE, or found; classes are owned
    struct score *score; // LEASE_EVALUATE of a job that has metrics; owned
};

struct lease {
    // What was asked.
    struct record *record; // a reference
    enum lease_kind kind;
    uint64_t job, job_incarnation, closure, cut;
    struct wire_attempt attempt;
    struct wire_token proof; // that it was leased to us; zeros: there is none
    uint64_t epoch, first, count;
    uint32_t steps;
    struct wire_tag *tags; // LEASE_EVALUATE: by shard; owned
    uint32_t tags_count;
    struct seat *seat; // LEASE_RING: what else is said of it; owned

    // Shared.
    struct gate gate;
    _Atomic bool running;
    struct {
        pthread_mutex_t lock;
        struct lease_metrics metrics;
    } progress;

    // The compute thread's.
    struct list_node queued;
    struct lease_metrics figured; // of steps that figures.h knows
    struct input_run run;
    bool run_open;

    // The loop's, again.
    struct list_node node;
    uint64_t seen_beats, moved_ms; // of its pulse: last seen to rise when
    struct loop_task done;
    void *done_arg;
    struct outcome outcome;
};

// `m` is checked against the job's record: SL_EINVAL says what does not fit.
enum sl_err lease_new(struct lease **out, const Sluice__V1__Lease *m,
                      struct record *record, struct sl_error *err);

// A ring lease gets its seat before it is submitted.
enum sl_err lease_sit(struct lease *l, const struct ring_env *ring,
                      struct sl_error *err);
void lease_free(struct lease *l); // NULL is allowed

// The loop's: for how long it has run without getting on, as far as was looked
// at: call it now and then. 0 while it does not run.
uint64_t lease_still_ms(struct lease *l, uint64_t now_ms);

struct lease_metrics lease_progress(struct lease *l);
void lease_set_progress(struct lease *l, const struct lease_metrics *m);

// Fills a message with them; its text borrows from `m`.
void lease_say_metrics(Sluice__V1__StepMetrics *out,
                       const struct lease_metrics *m);

#endif
