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
// Memory   timers and watches are freed before the loop is. An `arg` is the
//          caller's, may be NULL, and is only handed on; it lives until its
//          function has been called, or can no longer be.
// Units    milliseconds, monotonic.
// Errors   libuv's refusals come back as SL_EIO / SL_ENOMEM, unless said
//          otherwise; in loop_new with their words. A call that fails leaves
//          *out as it was and calls no function.
#ifndef COMMON_RUN_LOOP_H
#define COMMON_RUN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/queue.h"
#include "common/base/status.h"

struct loop;
struct loop_timer;

typedef void (*loop_fn)(void *arg);

// Makes a loop. The calling thread counts as the loop's until loop_run. `err`
// may be NULL.
enum sl_err loop_new(struct loop **out, struct sl_error *err);

// Runs posted functions that have not run yet, and those that these post, waits
// for work on the pool (its done functions run), closes the signals and frees.
// Asserts that timers and watches were freed before. After loop_run has
// returned, on any one thread, and not from a handler; no other thread posts
// meanwhile. NULL is allowed.
void loop_free(struct loop *l);

// Runs until loop_stop, and waits so long; that stop is then used up. May be
// called again after it returned, also on another thread; not from a handler.
void loop_run(struct loop *l);

// A thread that has events of its own (an I/O thread) can be the loop's as
// well, so that functions it posts run at once, on it, and no thread is woken.
// loop_run, on the thread that calls it, then only waits until libuv has
// something to do, and has the host do it:
//
//   host: event -> loop_post -> loop_host_pause -> fn      (no other thread)
//   loop_run: libuv wants to run -> host.call -> host: a turn of libuv
//
// Handlers of the loop must not wait for the host's events.
struct loop_host {
    // Has the host's thread call fn(fn_arg), once, soon; from any thread.
    // `arg` lives until loop_run has returned.
    void (*call)(void *arg, loop_fn fn, void *fn_arg);
    void *arg;
};

// Sets the host, which is copied, from the next loop_run on; NULL: none. Not
// while loop_run runs.
void loop_set_host(struct loop *l, const struct loop_host *host);

// Runs posted functions; the host's thread calls it after each event that it
// has handled. `loop` is the struct loop: a host knows it as a void pointer.
// Does nothing unless loop_run runs with the host; the loop is not freed before
// the host's last call.
void loop_host_pause(void *loop);

// Makes loop_run return soon, after the callbacks that are due. If called
// before loop_run, that returns at once. Several calls before it returns count
// as one.
void loop_stop(struct loop *l);

// Runs the callbacks that are due now and returns without waiting, instead of
// loop_run; for tests. The calling thread is then the loop's. Uses no loop_stop
// up: the next loop_run does.
void loop_turn(struct loop *l);

// Runs fn(arg), once, on the loop, after the running handler has returned, in
// the order of the posts; in loop_free at the latest. `fn` is not NULL. Does
// not wait. SL_ENOMEM: it will not run.
enum sl_err loop_post(struct loop *l, loop_fn fn, void *arg);

// A function that waits to be called on the loop.
struct loop_task {
    struct queue_node node;
    loop_fn fn;
    void *arg;
    bool owned; // the loop frees it; set by loop_post
};

// Posts fn(arg) as loop_post does, without an allocation, so that it cannot
// fail. `task` is the caller's, not posted already, and must live until fn is
// called; fn may free it or post it again.
void loop_post_task(struct loop *l, struct loop_task *task, loop_fn fn,
                    void *arg);

// Returns true on the loop's thread: that of loop_new until loop_run; then that
// of loop_run, or its host's while it has one; in loop_free that of its caller.
bool loop_is_here(const struct loop *l);

// ---- the time of a handler
//
// A handler is a function that the loop calls. While one works, no call is
// answered and no member's message is read, so a handler with work for more
// than LOOP_SPENT_US goes on in a later turn; held.h counts all handlers, and
// names those that work for too long.

#define LOOP_SPENT_US 5000

// Sets the name of the running handler, for held.h: a literal, a method's path,
// the kind of a message. Without a name it is "a task", "a timer", .. In a
// handler only; the last name counts, and `what` lives for ever.
void loop_doing(struct loop *l, const char *what);

// Returns true once the running handler has worked for LOOP_SPENT_US: it should
// post its remaining work (loop_post_task) and return, so that waiting events
// come first. False where no handler runs.
bool loop_spent(const struct loop *l);

// Returns the loop's time in monotonic ms, which moves once per turn and with
// each loop_timer_start.
uint64_t loop_now_ms(const struct loop *l);

// Makes a timer that calls fn(arg) on the loop when it fires; loop_timer_start
// starts it. SL_ENOMEM.
enum sl_err loop_timer_new(struct loop_timer **out, struct loop *l, loop_fn fn,
                           void *arg);

// Starts a timer, also anew while it runs: it fires after `after_ms` from now
// (0: once the running handler has returned), and then every `repeat_ms`;
// repeat_ms 0: once.
void loop_timer_start(struct loop_timer *t, uint64_t after_ms,
                      uint64_t repeat_ms);

// Stops a timer until its next start; does nothing if it does not run.
void loop_timer_stop(struct loop_timer *t);

// Stops a timer and frees it, once: no callback runs after it returns. Also
// from the timer's own callback. NULL is allowed.
void loop_timer_free(struct loop_timer *t);

// Calls fn(arg) on the loop for each `signum`, until the loop is freed, which
// gives the signal its default action back. A second registration of the same
// signal replaces the first, so `arg` lives until then. SL_EINVAL: the signal
// cannot be handled; SL_ENOMEM.
enum sl_err loop_signal(struct loop *l, int signum, loop_fn fn, void *arg);

// Runs work(arg) on a pool thread, then done(arg) on the loop, each once; it
// cannot be cancelled, and loop_free waits for it. `done` may be NULL. For
// snapshot files and the like: `work` may wait. SL_ENOMEM or SL_EIO: neither
// runs.
enum sl_err loop_work(struct loop *l, loop_fn work, loop_fn done, void *arg);

struct loop_watch;

// Calls fn(arg) on the loop whenever `fd` can be read, or has ended; after an
// error of `fd` once, and no more. `fd` must be one that can be polled (a
// socket, a pipe), in no other watch, and stays the caller's: open until
// loop_watch_free. It does not block from now on (O_NONBLOCK), maybe also if
// this fails. SL_EIO: it cannot be watched; SL_ENOMEM.
enum sl_err loop_watch_new(struct loop_watch **out, struct loop *l, int fd,
                           loop_fn fn, void *arg);

// Frees a watch, once: no callback runs after it returns, and the fd may be
// closed. Also from the watch's own callback. NULL is allowed.
void loop_watch_free(struct loop_watch *w);

#endif
