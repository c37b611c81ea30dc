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
#include "trainer/lease/lease.h"

struct task_env {
    struct input *input;
    const struct sl_clock *clock;
    // Starts reading the next lease's batches, between two steps. NULL: not
    // done.
    void (*ahead)(void *arg, struct worker_job *job);
    // Runs, between two rounds, the waiting leases of the same job that can be
    // run now. NULL: not done; not NULL for a ring lease of a hybrid job.
    void (*between)(void *arg, struct worker_job *job);
    // Takes the next waiting lease off the queue, if it trains the same job;
    // NULL if none does. It goes back when the task has ended. NULL: not done.
    struct lease *(*next)(void *arg, struct worker_job *job);
    // Gives a lease of `next`, which has its outcome, back at once. NULL if
    // `next` is.
    void (*give)(void *arg, struct lease *l);
    void *arg;
};

// Runs the lease l to its end and sets l->outcome. Its batches may still be
// open then: task_unprepare. A ring lease has its seat (lease_sit). No other
// lease of `job` may be under way, but for those that env->between runs. Sets
// job->pulse to that of `l`, and to NULL at its end: `between` puts back what
// it was.
void task_run(const struct task_env *env, struct worker_job *job,
              struct lease *l);

// Runs a training lease; this and the next three are called by task_run.
void task_train(const struct task_env *env, struct worker_job *job,
                struct lease *l);
// Runs an evaluation lease; batches that were staged and not used are given
// back.
void task_evaluate(const struct task_env *env, struct worker_job *job,
                   struct lease *l);
// Runs a ring lease until it ends. It fails with SL_EINVAL if the job has no
// ring.
void task_ring(const struct task_env *env, struct worker_job *job,
               struct lease *l);
// Runs a ring lease of a hybrid job: membership of a group, until it ends.
void task_hybrid(const struct task_env *env, struct worker_job *job,
                 struct lease *l);

#endif
