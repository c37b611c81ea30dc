// SPDX-License-Identifier: Apache-2.0
// tests/sim/fiber.h -- the threads of a simulated process.
//
// A thread of the product is a coroutine here: it runs until it waits, and then
// the world goes on. The product's own waits are what gives way: the linker
// takes deadline_wait and its companions (common/base/deadline.h) from fiber.c,
// and wraps pthread_cond_wait, pthread_cond_signal, pthread_cond_broadcast,
// pthread_create and pthread_join. Outside of a fiber the wrapped ones are the
// real ones. A thread that a fiber makes is a fiber of the same process.
//
//   fiber_start -> run(arg) ... waits ... is woken ... -> returns
//   fiber_end_all: every wait of the process ends at once, for good
//
// A fiber is woken by a signal or at its deadline, a moment later, as an event
// of its process: one that is stopped (SIGSTOP) finds it when it goes on.
//
// Threads  one. No fiber may wait while it holds a lock other than the one that
//          it waits with.
// Memory   a fiber is freed when its function has returned; one that was made
//          by pthread_create, when it was joined.
// Units    microseconds of the world's clock.
#ifndef TESTS_SIM_FIBER_H
#define TESTS_SIM_FIBER_H

#include "tests/sim/sim.h"

// Runs `run(arg)` as a thread of process `p`, from the next turn on.
void fiber_start(struct sim *s, struct proc *p, void (*run)(void *), void *arg);

// Lets `us` pass, from within a fiber; nothing but the time ends it, or the end
// of the process.
void fiber_sleep(uint64_t us);

// Waits until fiber_notify of the same `sign`, which is only compared, or for
// `us`; from within a fiber. Returns true if it was woken; false if the time or
// its process is over. For threads that the simulation itself plays.
bool fiber_await(const void *sign, uint64_t us);

// Wakes all fibers that wait for `sign`; one that waits later is not woken.
void fiber_notify(struct sim *s, const void *sign);

// Returns the process whose fiber runs; NULL: none does.
struct proc *fiber_proc(void);

// Returns true in a fiber whose process has died: it only unwinds.
bool fiber_dying(void);

// Ends all fibers of a process that is dead already: their waits return at
// once, as if their time were over, until their functions have returned. What
// they wait for must not be needed for that: gates are closed, calls are
// cancelled. Not from a fiber: a process is killed by an event.
void fiber_end_all(struct proc *p);

// Begins a world, before its first fiber: forgets those that a failed check has
// left in the one before. `s` NULL: the world has ended.
void fiber_world(struct sim *s);

#endif
