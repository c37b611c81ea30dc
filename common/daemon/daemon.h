// SPDX-License-Identifier: Apache-2.0
// common/daemon/daemon.h -- the shape of every main: configure, serve, notify,
// drain, exit.
//
//     static const struct daemon_hooks hooks = {.start = start, .stop = stop};
//     int main(int argc, char **argv)
//     {
//         return daemon_main(&about, keys, &hooks, &server, argc, argv);
//     }
//
// The call sequence of a life:
//   1. flags, environment, file        wrong: exit 2, with help's hint;
//                                      --tls-* are every daemon's
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
// Threads  hooks run on the loop's thread. daemon_drained, daemon_end: the
//          loop's thread.
//          Signals before step 5 kill at once, which is always safe.
// Units    grace in milliseconds (--grace 10s).
// Errors   exit codes: 0 clean, 1 cannot go on, 2 usage,
//          138 transient, 143/130 by signal.
#ifndef COMMON_DAEMON_DAEMON_H
#define COMMON_DAEMON_DAEMON_H

#include <stdbool.h>

#include "common/daemon/ops.h"
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
    // Nothing of it has to survive: a state folder is made and locked only if
    // one is named.
    bool stateless;

    // Restores state and opens the port. `arg` is the room's own struct.
    // On an error it has undone what it began, and stop is not called;
    // SL_EINVAL, SL_ENOENT, SL_ENOTSUP, SL_EAUTH, SL_EDENIED, SL_EBUSY exit
    // with 2, other transient errors with 138, the rest with 1.
    enum sl_err (*start)(struct daemon *d, void *arg, struct sl_error *err);

    // Begins to end; calls daemon_drained when done, now or later. NULL:
    // nothing to drain.
    void (*drain)(struct daemon *d, void *arg);

    // Frees everything; the loop no longer runs, but still exists.
    void (*stop)(struct daemon *d, void *arg);

    // Whether it can do its job (/readyz), and its figures (/metrics), when
    // the ops port is asked; between a start that succeeded and stop. May be
    // NULL.
    void (*checks)(struct daemon *d, void *arg, struct ops_checks *c);
    void (*measure)(struct daemon *d, void *arg, struct expo *e);

    // SIGHUP. The log level and the certificates are read again before. May
    // be NULL.
    void (*reload)(struct daemon *d, void *arg);
};

// Never returns on a death by signal; else the exit code.
int daemon_main(const struct conf_about *about, const struct conf_key *keys,
                const struct daemon_hooks *hooks, void *arg, int argc,
                char **argv);

struct loop *daemon_loop(struct daemon *d);
const struct conf *daemon_conf(const struct daemon *d);

// Reads the folders of a flag that may be given several times ("--data-root"),
// which outlives them. *out is to be freed, after a failure too.
enum sl_err daemon_roots(struct roots **out, const struct daemon *d,
                         const char *flag, struct sl_error *err);

// The certificates that --tls-* name, NULL without. Lives as long as the
// daemon; files that are replaced are found within DAEMON_LOOK_MS.
#define DAEMON_LOOK_MS 1000
const struct rpc_tls *daemon_tls(const struct daemon *d);

// The ops port, for a room's own routes, which it adds as the last thing of its
// start; NULL without --ops-bind. It is gone before hooks.stop. A file of the
// state folder says where it is.
#define DAEMON_OPS_FILE "ops.address"
struct http *daemon_http(struct daemon *d);

// The state folder, which exists and is locked; "-" if there is none.
const char *daemon_state_dir(const struct daemon *d);

// True from the start of the drain: answer NOT_SERVING.
bool daemon_draining(const struct daemon *d);

// The one line that says how it was started: a room's own pairs follow the
// common ones. DAEMON_STARTED(d, "bind=%s tls=%s", bind, tls).
#define DAEMON_STARTED(d, pairs, ...)                                          \
    LOG(INFO, "started", "version=%s pid=%d state=%s " pairs, SLUICE_VERSION,  \
        daemon_pid(), daemon_state_dir(d), ##__VA_ARGS__)
int daemon_pid(void);

// State is restored and the port accepts: READY=1, once; from within start, as
// soon as signals are listened to.
void daemon_ready(struct daemon *d);
// Not ready yet, and not stuck: the service manager gives it DAEMON_PATIENCE_S
// more, of a start that it would have taken for failed. Nothing once it is
// ready.
#define DAEMON_PATIENCE_S 60
void daemon_waits(struct daemon *d);
void daemon_status(struct daemon *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// A room's own reason to end. daemon_stop drains first and then exits with
// `code`; daemon_end goes to step 9 at once. The first call decides.
void daemon_stop(struct daemon *d, int code);
void daemon_end(struct daemon *d, int code);

// Drains and takes everything down as daemon_stop does, and then the program
// begins again at step 1 under the same pid, with anew_note() saying `note`. A
// signal that comes meanwhile ends it. If that fails: DAEMON_EXIT_TRANSIENT.
void daemon_anew(struct daemon *d, const char *note);

// The room has drained.
void daemon_drained(struct daemon *d);

#endif
