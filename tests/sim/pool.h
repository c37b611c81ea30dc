// SPDX-License-Identifier: Apache-2.0
// tests/sim/pool.h -- pool threads by hand.
//
// What a process gives to its pool is done by two events: the work, some time
// later, and its end. Work of one process may overtake other work of it. A
// process that dies leaves its work undone, or dies in the midst of it.
#ifndef TESTS_SIM_POOL_H
#define TESTS_SIM_POOL_H

#include "common/run/loop.h"
#include "tests/sim/sim.h"

// The loop of a psserver or worker: common/run/loop.h's functions take it, by
// pool.c.
struct loop {
    struct sim *sim;
    struct proc *proc;
};

// Has work(arg) run as an event some time later, and done(arg), which may be
// NULL, as one after that. A good moment for bad luck (nemesis_tempt).
void pool_add(struct sim *s, struct proc *p, void (*work)(void *),
              void (*done)(void *), void *arg);

// Runs the work of one that was not begun yet, now, and returns true; its
// `done` is left to pool_end_all. False: there is none.
bool pool_begin_one(struct sim *s, struct proc *p);

// Ends all, now: what was not begun is begun first. For a process that is gone.
void pool_end_all(struct proc *p);

// Runs what was posted to its loop, now. For a process that is gone.
void pool_run_posted(struct proc *p);

#endif
