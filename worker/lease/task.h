// SPDX-License-Identifier: Apache-2.0
// worker/lease/task.h -- one lease, step by step.
//
//   TRAIN     ask where the closure stands, resume at the first step that is
//             not counted everywhere; per step: batch, forward, loss, backward
//             with shards leaving as they are done; until every shard has
//             counted every step
//   EVALUATE  the parameters of a cut, then forward over a range of the test
//             set
//   PROBE     open the data, say what is there
//   RING      take part in the job's ring: rounds of all ranks, one after
//             another, until the lease ends; or, of a hybrid job, in a group
//
// Between any two steps, and wherever it waits, it can be stopped by its gate.
//
// Threads  the compute thread.
// Memory   the lease's outcome is filled in; nothing else is kept.
// Errors   all end as the outcome: nothing is returned.
#ifndef WORKER_LEASE_TASK_H
#define WORKER_LEASE_TASK_H

#include "worker/lease/job.h"
#include "worker/lease/lease.h"

struct task_env {
    struct input *input;
    const struct sl_clock *clock;
    // Between steps: the next lease's batches may be started on. NULL: no.
    void (*ahead)(void *arg, struct job *job);
    // Between rounds: runs what waits of the same job and can be run now. NULL:
    // nothing is.
    void (*between)(void *arg, struct job *job);
    void *arg;
};

// The lease may be left with its batches open: task_unprepare.
void task_run(const struct task_env *env, struct job *job, struct lease *l);

// Starts reading the batches of a training lease, if that was not done yet.
// SL_OK also when there is nothing to read.
enum sl_err task_prepare(struct input *input, struct job *job, struct lease *l,
                         struct sl_error *err);

// Ends the lease's reading; before its job is freed. Nothing if none is open.
void task_unprepare(struct input *input, struct lease *l);

// Sets the outcome; the first one counts as it is the only one set.
void task_fail(struct lease *l, enum sl_err rc, const struct sl_error *err);
void task_stopped(struct lease *l);
void task_hand_back(struct lease *l, const char *why);

void task_train(const struct task_env *env, struct job *job, struct lease *l);
void task_evaluate(const struct task_env *env, struct job *job,
                   struct lease *l);
void task_ring(const struct task_env *env, struct job *job, struct lease *l);
void task_hybrid(const struct task_env *env, struct job *job, struct lease *l);

#endif
