// SPDX-License-Identifier: Apache-2.0
// trainer/lease/lease.h -- one attempt at one piece of work, from lease to
// report.
//
// The loop makes it from a Lease message and hands it to the compute thread,
// which runs it and gives it back with its outcome. Meanwhile the
// loop may close its gate and read its progress.
//
// Threads  The loop owns it before compute_submit and after the outcome is
//          back; in between it is the compute thread's, but for gate, running
//          and progress, which are shared.
// Memory   lease_free; holds a reference of its job's record. Messages are read
//          during the call. Text and *err that are passed are copied.
// Units    milliseconds; positions and steps of a closure.
// Errors   `err` may be NULL, but in lease_fail. A call that fails has changed
//          nothing.
#ifndef TRAINER_LEASE_LEASE_H
#define TRAINER_LEASE_LEASE_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/run/loop.h"
#include "plan/audited.h"
#include "plan/fold.h"
#include "plan/sketch.h"
#include "trainer/push/gate.h"
#include "trainer/lease/record.h"
#include "trainer/lease/score.h"
#include "trainer/ring/seat.h"

enum lease_kind { LEASE_TRAIN, LEASE_EVALUATE, LEASE_PROBE, LEASE_RING };

struct input_run; // samples that a worker reads ahead; the worker defines it

#define LEASE_STRANGE 112

// Sums over the steps that this attempt saw counted; see StepMetrics.
struct lease_metrics {
    uint32_t next; // the step after the last one in the sums, in a closure
    uint64_t steps, samples, skipped, refused;
    // Samples of the steps that were applied and have a known loss.
    uint64_t loss_samples;
    double loss_sum, right_sum;
    double compute_ms, wait_ms, input_ms, push_ms; // sums over the steps
    double loss_scale;   // the last one used; 0: the job has none
    uint64_t sums;       // gradients that were summed with other workers'
    uint64_t sent_bytes; // bytes sent to other hosts for `sums`
    uint64_t pushed_bytes, pulled_bytes; // to and from shards
    char strange[LEASE_STRANGE]; // a sample that is not finite; empty: none
};

enum outcome_kind {
    OUTCOME_COMPLETE,
    OUTCOME_FAILED,    // err; job_error
    OUTCOME_HAND_BACK, // err.text says why
    OUTCOME_DROPPED,   // the coordinator took the lease away: no report
};

// The result of a slot, as Repeat says it.
struct lease_repeat {
    uint64_t closure, kind, inputs, output;
    uint32_t step, share;
    bool sketched; // it has a sketch
    struct sketch sketch;
};

struct outcome {
    enum outcome_kind kind;
    struct sl_error err;
    bool job_error; // the job is to blame, not this host
    bool data;      // the failure is due to this worker's data files, or, not
                    // job_error, to a place of data that does not answer,
    bool differs;   // and `facts` describe the set that differs
    // Incarnations of the shards that counted the closure; owned.
    uint64_t *incarnations;
    uint32_t incarnations_count;
    // Version of the map that names `incarnations`; 0: none.
    uint64_t map_version;
    bool *held;   // by shard: it holds the push, uncounted (Y3); owned
    bool *closed; // by shard: our push made its round whole; owned
    Sluice__V1__DataFacts facts; // LEASE_PROBE, or `differs`; classes are owned
    struct score *score; // LEASE_EVALUATE of a job that has metrics; owned
    // LEASE_TRAIN in an audited round: what was computed of its slots (A1).
    struct lease_repeat repeats[AUDITED_WORKERS];
    uint32_t repeats_count;
    // Mode local: what the contribution changed.
    bool changed; // it is known,
    bool aside;   // and too large, so that it was handed back
    struct fold change;
    uint32_t change_steps; // steps of all its closures,
    double change_ms;      // and the time that they took
};

struct lease {
    // The work, as the coordinator's message says it.
    struct record *record; // a reference
    enum lease_kind kind;
    uint64_t job, job_incarnation, closure, cut;
    struct wire_attempt attempt;
    struct wire_token proof;      // token that it was leased to us; zeros: none
    uint64_t epoch, first, count; // positions [first, first + count)
    uint32_t steps;
    double norm_most;      // bound of its change (guard, train.norm); 0: none
    uint32_t closures;     // of the contribution that it begins; 0: all
    struct wire_tag *tags; // LEASE_EVALUATE: by shard; owned
    uint32_t tags_count;
    struct seat *seat; // LEASE_RING: its messages; owned

    // Shared between the loop and the compute thread.
    struct gate gate;
    _Atomic bool running;
    struct {
        pthread_mutex_t lock;
        struct lease_metrics metrics;
    } progress;

    // The compute thread's.
    struct list_node queued;
    struct lease_metrics figured; // as figures.h was told last
    struct input_run *run; // its samples, as they are read; NULL: none are

    // The loop's, again.
    struct list_node node;
    uint64_t seen_beats, moved_ms; // pulse last seen; when it last rose
    struct loop_task done;
    void *done_arg;
    struct outcome outcome;
};

// Makes a lease from a message that has passed the wire's rules, and takes a
// reference of `record`, its job's. Returns SL_OK; SL_EINVAL, with what does
// not fit the record; SL_ENOMEM; *out is untouched then. The gate is open, and
// the caller sets its lease_ends_ms.
enum sl_err lease_new(struct lease **out, const Sluice__V1__Lease *m,
                      struct record *record, struct sl_error *err);

// Gives a ring lease its seat, once, before it is submitted. Returns SL_OK;
// SL_ENOTSUP if `ring` is NULL, as this worker takes part in no ring; SL_EINVAL
// if the job has no parts yet; SL_ENOMEM.
enum sl_err lease_sit(struct lease *l, const struct ring_env *ring,
                      struct sl_error *err);
// Frees a lease that no thread runs: its seat is retired, its reference
// dropped. NULL is allowed.
void lease_free(struct lease *l);

// Returns for how many milliseconds the lease has run without a beat of its
// pulse, as far as earlier calls saw: to be called now and then, on the loop,
// and first before it is submitted. 0 while it does not run.
uint64_t lease_still_ms(struct lease *l, uint64_t now_ms);

// Returns a copy of the metrics so far. Any thread.
struct lease_metrics lease_progress(struct lease *l);
// Replaces the metrics so far by *m, which goes on from lease_progress: steps,
// skipped and samples do not fall, except in an evaluation that begins again.
// Adds what is new in them to this worker's figures (figures.h) when steps have
// risen, but nothing for an evaluation. The compute thread.
void lease_set_progress(struct lease *l, const struct lease_metrics *m);

// Sets *out to the metrics as a message; its text borrows from *m. *out need
// not be initialised. Its `samples` are m->loss_samples, its `correct` is
// rounded; it has no scores and no bad samples.
void lease_say_metrics(Sluice__V1__StepMetrics *out,
                       const struct lease_metrics *m);

// ---- outcomes (outcome.c); the compute thread, one of them per lease

// Sets the outcome of a lease: failed with `rc` and the text in *err. The job
// is to blame for SL_EINVAL, SL_ENOENT, SL_ECORRUPT, SL_ERANGE, SL_ENOTSUP,
// SL_ENUMERIC and SL_EDENIED. *err, which is not NULL, is copied; an empty text
// becomes that of `rc`. SL_ECANCELED because the gate has closed, or the lease
// drains (its own or one that it runs within), is no failure: then it does what
// lease_stopped does, and closes the gate of a lease that drains.
void lease_fail(struct lease *l, enum sl_err rc, const struct sl_error *err);
// Sets the outcome that the reason of the closed gate asks for: handed back; or
// dropped without a report, if the job or the stream has ended. If the gate is
// open: handed back.
void lease_stopped(struct lease *l);
// Sets the outcome: handed back because of `why`, which is copied (cut to an
// error's text), with code SL_ECANCELED.
void lease_hand_back(struct lease *l, const char *why);
// Notes what a contribution in mode local changed, before it is pushed:
// `grads`, but for the moving statistics of `model`; `finite`: all of it is.
// Where the job says so (train.norm: median), cuts a finite change that is
// longer than l->norm_most to that length, having noted it as it was, and
// returns false. Else returns true if its norm is above l->norm_most (0: no
// bound), or it is not finite while there is a bound: then it is not pushed but
// handed back, and the lease's outcome is set to that.
bool lease_change(struct lease *l, const struct model *model, float *grads,
                  bool finite);

#endif
