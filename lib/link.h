// SPDX-License-Identifier: Apache-2.0
// lib/link.h -- a way to the coordinator for calls: a loop with a thread, and
// lines, on each of which one call is under way at a time.
//
// Threads  link_open, _start, _stop and _release: the user's, and line_release
//          after link_stop. line_call, line_cancel and what is answered: the
//          loop's.
// Memory   a reply holds until the line's next call; requests and options are
//          read during the call. A line that was used stays where it is until
//          link_release has returned.
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

// Makes the loop and the channel of a link; *l is zeroes before. The channel
// dials when the first call is made. o->coordinator may be NULL (the
// environment's, else the user's own cluster: it may wait to look for that),
// and so may the three files of TLS. SL_EINVAL, SL_EAUTH, SL_ENOENT: an address
// or certificate is wrong; SL_EDENIED: an address that is not local, without
// TLS; SL_EBUSY: the system gives no thread; SL_ENOMEM; SL_EIO. Call link_stop
// and link_release in any case.
enum sl_err link_open(struct link *l, const struct link_options *o,
                      struct sl_error *err);
// Runs the loop of an open link on a thread of its own, once. SL_ENOMEM: there
// is no thread. Call link_stop and link_release in any case.
enum sl_err link_start(struct link *l, struct sl_error *err);
// Stops and joins the loop's thread, if it was started, cancels calls, and
// frees the channel and its I/O thread. No `answered` runs after this: a call
// that is under way may get none. Not called on the loop's thread. May be
// called again.
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

// Calls the line's method with `request` and a deadline of deadline_ms from
// now, and does not wait; while no coordinator answers it dials until the
// deadline, but for a list of addresses: then the call fails, and the next one
// goes to the next of them. `answered` gets the reply, or the error, later on
// the loop, exactly once, also where no call could be started, but not after
// link_stop. It may make the next call, with which its reply is gone. The line
// must not be busy. Before its first call the caller has set the members `link`
// to `arg`, and zeroes behind them.
void line_call(struct link_line *l, const ProtobufCMessage *request,
               uint32_t deadline_ms);
// Cancels the call under way: `answered` still runs, soon, perhaps with a reply
// that came first. Does nothing if none is under way.
void line_cancel(struct link_line *l);
// Frees the memory of the last reply; no call is under way. May be called
// again.
void line_release(struct link_line *l);

// Copies the caller's options `said`, with its size, to `all`, the same struct
// as this library knows it. Both begin with their size, a size_t: members that
// an older caller's struct lacks keep what *all has. `said` may be NULL: *all
// stays. SL_EINVAL: said's size is smaller than a size_t, and *all stays.
enum sl_err link_options_read(void *all, const void *said,
                              struct sl_error *err);

// Returns true if `text` may name a queue, a handler or a client: 1 to
// WIRE_NAME_BYTES bytes of UTF-8 that can be shown, without blanks at its ends.
// False for NULL.
bool link_is_name(const char *text);

// Returns true if a call that failed with `rc` may succeed when it is made
// again: errors that pass (sl_err_transient), SL_ECANCELED, SL_EIO and
// SL_ENOMEM.
bool link_may_retry(enum sl_err rc);

#endif
