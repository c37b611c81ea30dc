// SPDX-License-Identifier: Apache-2.0
// common/run/loop.h -- the one event loop of a daemon.
//
// All control state belongs to the thread that runs the loop and has no lock.
// Other threads send work with loop_post. Wake-ups coalesce (five may be one
// callback), so the loop carries its own queue and drains all of it on each.
//
// Threads  loop_post, loop_post_task, loop_stop, loop_is_here: any. All else:
//          the loop's thread (which may be a host's), or before loop_run /
//          after it has returned.
// Memory   timers and watches are freed before the loop is.
// Units    milliseconds, monotonic.
// Errors   libuv's refusals come back as SL_EIO / SL_ENOMEM with their words.
#ifndef COMMON_RUN_LOOP_H
#define COMMON_RUN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/queue.h"
#include "common/base/status.h"

struct loop;
struct loop_timer;

typedef void (*loop_fn)(void *arg);

// The calling thread counts as the loop's until loop_run is called.
enum sl_err loop_new(struct loop **out, struct sl_error *err);

// Runs what was posted and not yet run, waits for work on the pool (its done
// functions run), closes the signals and frees. Timers and watches must be
// freed before; one that is not asserts. NULL is allowed.
void loop_free(struct loop *l);

// Runs until loop_stop. May be called again after it returned.
void loop_run(struct loop *l);

// A thread that has events of its own (an I/O thread) can be the loop's as
// well, so that what it posts runs at once, on it, and nobody is woken for it.
// loop_run, on the thread that calls it, then only waits until libuv has
// something to do, and has the host do it:
//
//   host: event -> loop_post -> loop_host_pause -> fn      (no other thread)
//   loop_run: libuv wants to run -> host.call -> host: a turn of libuv
//
// What runs on the loop must not wait for the host's events.
struct loop_host {
    // Has the host's thread call fn(fn_arg), once, soon; from any thread.
    void (*call)(void *arg, loop_fn fn, void *fn_arg);
    void *arg;
};

// From the next loop_run on; NULL: no longer.
void loop_set_host(struct loop *l, const struct loop_host *host);

// The host's thread calls this whenever it has handled an event. `loop` is the
// loop: a host knows it as a void pointer.
void loop_host_pause(void *loop);

// Makes loop_run return soon, after the callbacks that are due. Called before
// loop_run, that one returns at once.
void loop_stop(struct loop *l);

// Handles what is due now and returns: for tests.
void loop_turn(struct loop *l);

// Runs fn(arg) on the loop, after the caller has returned, in the order of
// the posts. SL_ENOMEM: it will not run.
enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg);

// The same without an allocation: `task` is the caller's and must live until
// fn is called; fn may free or post it again.
struct loop_task {
    struct queue_node node;
    loop_fn fn;
    void *arg;
    bool owned; // by the loop: set by loop_post
};
void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg);

bool loop_is_here(const struct loop *l);

// ---- what a handler may take
//
// A handler is whatever the loop calls. While one works, nobody is answered and
// no member is heard of, so one that has more to do than LOOP_SPENT_US goes on
// in a later turn; held.h counts all of them, and names those that do not.

#define LOOP_SPENT_US 5000

// Names what the handler that runs does: a literal, a method's path, the kind
// of a message. Without a name it is "a task", "a timer", ..
void loop_doing(struct loop *l, const char *what);

// Returns true once the handler that runs has had its share of the turn: it
// posts what is left (loop_post_task) and returns, so that what waits comes
// before that.
bool loop_spent(const struct loop *l);

// The loop's idea of now; moves once per turn.
uint64_t loop_now_ms(const struct loop *l);

// A timer. start on a running timer starts it anew; repeat_ms 0: once.
enum sl_err loop_timer_new(struct loop_timer **out, struct loop *l, loop_fn fn,
                           void *arg);
void loop_timer_start(struct loop_timer *t, uint64_t after_ms,
                      uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *t);

// No callback runs after it returns; also from the timer's own callback. NULL
// is allowed.
void loop_timer_free(struct loop_timer *t);

// Calls fn(arg) on the loop for each `signum`, until the loop is freed. A
// second registration of the same signal replaces the first.
enum sl_err loop_signal(struct loop *l, int signum, loop_fn fn, void *arg);

// work(arg) on a pool thread, then done(arg) on the loop, once. done may be
// NULL. For snapshot files and the like.
enum sl_err loop_work(struct loop *l, loop_fn work, loop_fn done, void *arg);

// Calls fn(arg) on the loop whenever fd can be read, or has ended. fd must be
// one that can be polled (a socket, a pipe).
struct loop_watch;
enum sl_err loop_watch_new(struct loop_watch **out, struct loop *l, int fd,
                           loop_fn fn, void *arg);

// No callback runs after it returns, also from its own; then the fd may be
// closed. NULL is allowed.
void loop_watch_free(struct loop_watch *w);

#endif
