// SPDX-License-Identifier: Apache-2.0
// lib/link.h -- a way to the coordinator for calls: a loop with a thread, and
// lines, on each of which one call is under way at a time.
//
// Threads  link_open, _start, _stop and _release: the user's. line_call and
//          what is answered: the loop's.
// Memory   a reply holds until the line's next call; requests and options are
//          read during the call.
// Units    milliseconds.
// Errors   of a call, go to the caller's callback. `err` may be NULL.
#ifndef LIB_LINK_H
#define LIB_LINK_H

#include <pthread.h>

#include "common/run/loop.h"
#include "lib/sluice.h"
#include "proto/wire.h"

#define LINK_AGAIN_MS 200 // after a call that failed, and may succeed later

struct link_options {
    const char *coordinator;
    const char *tls_ca, *tls_cert, *tls_key;
};

struct link {
    struct loop *loop;
    pthread_t thread;
    bool started; // the opener's
    bool over;    // set when the thread has ended
    struct rpc_io *io;
    struct rpc_channel *channel;
};

// Opens the link: makes its loop and channel, which dials when the first call
// is made. o->coordinator and the three files of TLS may be NULL, as in
// sluice_options. SL_EINVAL, SL_EAUTH, SL_ENOENT: an address or certificate is
// wrong; SL_EDENIED: an address that is not local, without TLS; SL_ENOMEM;
// SL_EIO. End it with link_stop and link_release, also after a failure. *l is
// zeroes before.
enum sl_err link_open(struct link *l, const struct link_options *o,
                      struct sl_error *err);
// Runs the loop of an open link on a thread of its own. SL_ENOMEM. Called once;
// after a failure, too, link_stop and link_release follow.
enum sl_err link_start(struct link *l, struct sl_error *err);
// Stops the loop's thread, if it was started, and cancels calls: no callback
// runs after this. Waits for the thread; not called on it. May be called again.
void link_stop(struct link *l);
// Frees the loop, after link_stop and after the caller has freed its timers.
void link_release(struct link *l);

struct link_line {
    struct link *link;
    const char *method; // path of the method, WIRE_TASK_...
    enum sl_err (*decode)(ProtobufCMessage **out, struct wire_arena *arena,
                          const struct sl_slices *bytes, struct sl_error *err);
    void (*answered)(void *arg, enum sl_err rc, const struct sl_error *err,
                     const ProtobufCMessage *reply);
    void *arg;

    bool busy;
    struct rpc_ticket ticket;
    struct loop_task task;
    struct wire_arena arena;
    ProtobufCMessage *reply;
    enum sl_err rc;
    struct sl_error err;
};

// Calls the line's method, with a deadline in ms; `answered` gets the reply on
// the loop, later, also where no call could be started. The line must not be
// busy. `answered` always runs, once, unless link_stop came before; it may make
// the next call, and then its reply is gone. Before its first call the caller
// has set the members `link` to `arg`, and zeroes behind them.
void line_call(struct link_line *l, const ProtobufCMessage *request,
               uint32_t deadline_ms);
// Cancels the call under way: it ends soon. `answered` still runs. Does nothing
// if none is.
void line_cancel(struct link_line *l);
// Frees the memory of the last reply; no call is under way.
void line_release(struct link_line *l);

// Copies the caller's options `said` to `all`, the struct as this library knows
// it; both begin with their size. Options that an older caller lacks stay 0.
// `said` may be NULL: *all stays. SL_EINVAL: its size is too small, and *all
// stays.
enum sl_err link_options_read(void *all, const void *said,
                              struct sl_error *err);

// Returns true if `text` may name a queue or handler; false for NULL.
bool link_is_name(const char *text);

// Returns true if a call that failed with `rc` may succeed later.
bool link_may_retry(enum sl_err rc);

#endif
