// SPDX-License-Identifier: Apache-2.0
// host/daemon/daemon.h -- the shape of every main: configure, serve, notify,
// drain, exit.
//
//     static const struct daemon_hooks hooks = {.start = start, .stop = stop};
//     int main(int argc, char **argv)
//     {
//         return daemon_main(&about, keys, &hooks, &server, argc, argv);
//     }
//
// The call sequence of a life:
//   1. flags, environment, file        wrong, or an argument that is no flag:
//                                      exit 2, with help's hint; a name that
//                                      is not known yet (discover.h): exit 138;
//                                      --help, --version, --print-config:
//                                      exit 0; --tls-* are every daemon's
//   2. log, limits, malloc's settings, ignored signals
//   3. state folder made and locked    held by another: exit 2
//   4. hooks.start                     usage-like errors: exit 2; else 1
//      (before it the ops port opens, if --ops-bind names one)
//   5. the start line (DAEMON_STARTED, by start); the loop runs
//   6. the room calls daemon_ready     READY=1
//   7. SIGTERM, SIGINT, daemon_stop    STOPPING=1, hooks.drain
//   8. the room calls daemon_drained, or the grace ends, or a second signal
//      comes (then exit at once)
//   9. hooks.stop, loop freed, lock released; the signal is raised again, so
//      the parent sees it (as PID 1: exit 0)
//
// Threads  hooks run on the loop's thread. So do all calls but daemon_main,
//          daemon_pid and daemon_status (any); before step 5 that is main's
//          thread. Signals before step 5 kill at once, which is always safe.
// Units    grace in milliseconds (--grace 10s).
// Errors   exit codes: 0 clean, 1 cannot go on, 2 usage,
//          138 transient, 143/130 by signal.
#ifndef HOST_DAEMON_DAEMON_H
#define HOST_DAEMON_DAEMON_H

#include <stdbool.h>

#include "host/daemon/ops.h"
#include "common/run/conf.h"
#include "common/run/log.h"
#include "common/run/loop.h"
#include "common/base/roots.h"
#include "common/base/status.h"
#include "common/net/tls.h"

#define DAEMON_EXIT_OK 0
#define DAEMON_EXIT_FAILED 1
#define DAEMON_EXIT_USAGE 2
#define DAEMON_EXIT_TRANSIENT 138

struct daemon;

struct daemon_hooks {
    // True if the daemon needs no state folder: one is made and locked only if
    // --state or $STATE_DIRECTORY names it.
    bool stateless;

    // Restores state and opens the port; may not be NULL. `arg` is the room's
    // own struct. If it fails it frees what it made, and stop is not called;
    // SL_EINVAL, SL_ENOENT, SL_ENOTSUP, SL_EAUTH, SL_EDENIED, SL_EBUSY exit
    // with 2, other transient errors with 138, the rest with 1.
    enum sl_err (*start)(struct daemon *d, void *arg, struct sl_error *err);

    // Begins to end; calls daemon_drained when done, now or later. NULL:
    // nothing to drain.
    void (*drain)(struct daemon *d, void *arg);

    // Frees everything; the loop no longer runs, but still exists. May be NULL.
    void (*stop)(struct daemon *d, void *arg);

    // Write whether the daemon can do its job (/readyz), and its figures
    // (/metrics), for a request on the ops port; between a start that succeeded
    // and stop. May be NULL.
    void (*checks)(struct daemon *d, void *arg, struct ops_checks *c);
    void (*measure)(struct daemon *d, void *arg, struct expo *e);

    // Handles SIGHUP. The log level is read again before it; the certificates
    // soon, on a pool thread. May be NULL.
    void (*reload)(struct daemon *d, void *arg);
};

// Runs a daemon from step 1 to 9; once, from main, before there are other
// threads. `keys` is the room's own table, which a name of NULL ends; the keys
// of all daemons are added to it. `arg` is passed to each hook. `about`, `keys`
// and `hooks` live until it returns. Returns the exit code for main; does not
// return if a signal ends the process.
int daemon_main(const struct conf_about *about, const struct conf_key *keys,
                const struct daemon_hooks *hooks, void *arg, int argc,
                char **argv);

// Returns the loop, which exists from before hooks.start until after
// hooks.stop.
struct loop *daemon_loop(struct daemon *d);

// Returns the daemon's settings, which live as long as it.
const struct conf *daemon_conf(const struct daemon *d);

// Makes *out the roots of the folders that `flag` ("--data-root"; a CONF_LIST
// or CONF_MULTI of the daemon's table, in a text that must outlive *out) names;
// none, if it is not given. *out is NULL before; free it (roots_free), after a
// failure too. Fails as roots_add does, or with SL_ENOMEM; `err` may be NULL.
enum sl_err daemon_roots(struct roots **out, const struct daemon *d,
                         const char *flag, struct sl_error *err);

#define DAEMON_LOOK_MS 1000

// Returns the paths of the certificates that --tls-* name; NULL without them.
// They live as long as the daemon. Files that are replaced are found within
// DAEMON_LOOK_MS.
const struct rpc_tls *daemon_tls(const struct daemon *d);

#define DAEMON_OPS_FILE "ops.address" // in the state folder: its address

// Returns the ops port, so that a room can add its own routes as the last step
// of its start; NULL without --ops-bind. It is freed before hooks.stop.
struct http *daemon_http(struct daemon *d);

// Returns the state folder, which exists and is locked; "-" without one.
const char *daemon_state_dir(const struct daemon *d);

// Returns true from the start of the drain (or of an end without one), when
// health checks answer NOT_SERVING, to the end.
bool daemon_draining(const struct daemon *d);

// Logs the start line: a room's own pairs, a literal, follow the common ones.
// DAEMON_STARTED(d, "bind=%s tls=%s", bind, tls).
#define DAEMON_STARTED(d, pairs, ...)                                          \
    LOG(INFO, "started", "version=%s pid=%d state=%s " pairs, SLUICE_VERSION,  \
        daemon_pid(), daemon_state_dir(d), ##__VA_ARGS__)

// Returns the pid of this process, for DAEMON_STARTED.
int daemon_pid(void);

// Tells the service manager READY=1, once, when state is restored and the port
// accepts; later calls do nothing, nor does one once the daemon drains. Called
// within hooks.start it is sent as soon as signals are handled.
void daemon_ready(struct daemon *d);

#define DAEMON_PATIENCE_S 60

// Asks the service manager for DAEMON_PATIENCE_S more seconds before it takes
// the start for failed. Does nothing once the daemon is ready or drains.
void daemon_waits(struct daemon *d);

// Shows the service manager one line of text (as printf formats it, cut at 504
// bytes) as STATUS=; does nothing without one.
void daemon_status(struct daemon *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Drains the daemon and ends it with exit code `code`, for a room's own reason.
// Calls hooks.drain before it returns, also within hooks.start. Does nothing
// once a drain or an end has begun.
void daemon_stop(struct daemon *d, int code);

// Ends the daemon with exit code `code` without a drain: says STOPPING=1 and
// goes to step 9 at once. Does nothing once a drain or an end has begun.
void daemon_end(struct daemon *d, int code);

// Drains and stops as daemon_stop does, but for RELOADING=1 in place of
// STOPPING=1, and then starts the program again at step 1 under the same pid,
// where anew_note returns `note`, which is copied, and cut at 95 bytes. A
// signal meanwhile ends it. If the new start fails the exit code is
// DAEMON_EXIT_TRANSIENT. Does nothing once a drain or an end has begun.
void daemon_anew(struct daemon *d, const char *note);

// Tells the daemon that hooks.drain has done its work, so that it goes on to
// step 9; without a drain in progress it does nothing.
void daemon_drained(struct daemon *d);

#endif
