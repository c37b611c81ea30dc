// SPDX-License-Identifier: Apache-2.0
// tests/sim/hand.h -- a worker's process: the real trainer.
//
// Its stream's end (stream/attendee.h), its member (trainer/attend), its
// leases, their driver and its dealings with shards (trainer/lease,
// trainer/push) are the product's. What is played is around them: the stream
// (session.c), calls (channel.h), the compute thread (fiber.h), and what it
// computes (work.c).
//
//   coordinator -> session.c -> attendee -> hand.c -> worker_member_* -> submit
//     -> the compute thread: work.c -> steps, sync -> channel.c -> shards
//     -> done -> worker_member_done -> report
//
// Memory   hand_stop frees all, also in the middle of a lease: gates close,
//          calls end, and the compute thread unwinds.
#ifndef TESTS_SIM_HAND_H
#define TESTS_SIM_HAND_H

#include "stream/attendee.h"
#include "tests/sim/channel.h"
#include "tests/sim/pool.h"
#include "trainer/attend/member.h"
#include "trainer/base/nonfinite.h"
#include "trainer/push/peers.h"
#include "trainer/push/sync.h"

struct grouper;
struct ranker;

// What the compute thread keeps of the job.
struct work_job {
    struct record *record; // a reference; NULL: it keeps none
    struct sync *sync;     // NULL: not made yet
    struct nonfinite nonfinite;
    float *cut;                // owned
    struct job_tables *tables; // freed behind the sync; NULL: there are none
    // By range (sync_ps.h) the vectors are ours; owned. Else NULL.
    float *params, *grads;
};

struct hand {
    struct sim *sim;
    struct proc *proc;
    struct loop loop;
    struct rpc_io io;
    struct peers *peers;
    struct rpc_channel *boss;
    struct attendee *attend;
    struct worker_member *member;
    struct ranker *rank;   // in allreduce and hybrid; else NULL
    struct grouper *group; // in hybrid; else NULL

    struct list queue; // struct lease; a sign to the compute thread
    bool forget, quit;
    struct work_job job;
    struct lease *runs; // NULL: none
    bool computes;      // it is at a step of it, and calls nobody
};

// Makes a worker's process, p->self: it dials, and its compute thread begins.
void hand_start(struct sim *s, struct proc *p);

// Frees the process of a worker that is dead already (p->alive is false).
void hand_stop(struct sim *s, struct proc *p);

// Tells a worker to end, as SIGTERM does: what it has goes back, then it ends.
// A second call does nothing.
void hand_drain(struct sim *s, struct proc *p);

// Returns what a worker calls with (channel.c).
struct rpc_io *hand_io(struct proc *p);

// Checks that a push that leaves is of the lease that runs, as that attempt,
// before its end; not for a process that has died.
void hand_check_push(struct proc *p, const struct wire_push *push);

// ---- work.c: the compute thread

// Takes leases, one after the other, until `quit` and none waits; `hand` is the
// struct hand. A fiber's function.
void work_run(void *hand);
// Runs the leases that wait behind a ring lease, but another ring lease.
void work_between(struct hand *h);

#endif
