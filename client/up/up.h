// SPDX-License-Identifier: Apache-2.0
// client/up/up.h -- a whole cluster as children of one process.
//
//   updir_open, strays ended -> coordinator -> READY=1 -> psservers, workers
//   -> all READY=1 -> one line says so -> supervise: a child that dies is
//   reported and started again -> SIGINT, SIGTERM, SIGHUP -> workers,
//   psservers, coordinator end, in this order, each in its grace -> files
//   removed
//
// Threads  main, the only one.
// Memory   up_release frees; `conf` is borrowed until then. `err` may be NULL.
// Units    *_ms, monotonic.
#ifndef CLIENT_UP_UP_H
#define CLIENT_UP_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "client/up/child.h"
#include "client/up/gpus.h"
#include "client/up/updir.h"
#include "common/run/conf.h"

enum up_phase {
    UP_STARTING_COORDINATOR,
    UP_STARTING_REST,
    UP_RUNNING,
    UP_STOPPING, // children of role `stopping`, and then the next role
    UP_DONE,
};

struct up {
    const struct conf *conf;
    struct updir dir;
    char *address;          // where the coordinator listens; owned
    char *store;            // --store of all children; owned
    unsigned threads;       // --threads of each worker
    struct gpus gpus;       // GPUs of the first workers; later workers get none
    unsigned each;          // GPUs per worker
    char *notify_path;      // owned; or an abstract name "@..."
    int notify;             // datagram socket, -1: none
    int signals;            // signalfd
    struct child *children; // owned
    unsigned count;
    char **env; // the children's environment; owned
    enum up_phase phase;
    enum child_role stopping;
    uint64_t deadline_ms;  // end of starting, or for the role that is stopping
    bool killing;          // children get SIGKILL instead of SIGTERM
    uint64_t signals_seen; // bit n: signal n came
    int code;              // exit code
    uint64_t logs_ms;      // when logs are looked at next
    uint64_t oom_kills;    // OOM kills of our cgroup that were reported
    int ready;             // --detach: pipe to the waiting parent; -1: none
};

// Does everything before the first child (up_setup.c): opens --dir, waits for
// the end of what a killed `up` left there (updir_end_strays), and makes
// folders, sockets and the children's arguments. Blocks SIGINT, SIGTERM, SIGHUP
// and SIGCHLD for good. *u need not be zeroed. The caller then sets u->ready,
// to -1 without --detach, before up_run. SL_EEXIST: another process listens at
// the address; SL_EINVAL: an address that is not local, or another wrong
// setting; SL_ERANGE: too many --data-root; those of updir.h, gpus.h, child.h
// and the file system. On failure up_release.
enum sl_err up_setup(struct up *u, const struct conf *conf,
                     struct sl_error *err);
// Removes the children's pid files, sockets and locks, and the socket that they
// report on, drops the folder's lock (updir_release) and frees; *u must not be
// used again. Does not close u->ready, nor let the signals through. All
// children must have ended.
void up_release(struct up *u);

// Sets *out to the children's environment: copies of `ours`, without what was
// set for the client alone (its addresses, certificates, folders, ...),
// with $NOTIFY_SOCKET `notify`, UPDIR_VARIABLE `dir`. Both lists end with NULL;
// sl_free each text and the list. SL_ENOMEM leaves *out as it was.
enum sl_err up_environment(char ***out, char *const *ours, const char *notify,
                           const char *dir);

// Sets *out to a copy of the address `listen`, for sl_free; if it ends in ":0",
// and is no "unix:", with a port in place of that which is free on 127.0.0.1
// now. Nothing holds the port: another process may take it. SL_EIO, SL_ENOMEM:
// *out is NULL or untouched.
enum sl_err up_choose_address(char **out, const char *listen,
                              struct sl_error *err);

// Forks for --detach, before there is anything (up_detach.c): our caller waits
// until the child says that all is ready, and then leaves it to itself.
//
// Returns true in the child, which has a session without a terminal (setsid):
// *ready is the pipe to report readiness on, the caller's, and *code means
// nothing. Returns false in the parent: *code is 0 once the child is ready, or
// the exit code that the child ended with before, 1 if a signal ended it.
// Returns false, too, if forking failed: *code is 1, and stderr has the reason.
// *ready is then untouched.
bool up_detach(int *ready, int *code);
// Tells the parent that all is ready, by u->ready, which is open. From here on
// stdout and stderr go to DIR/log/up.log, or nowhere if it cannot be opened,
// and stdin is empty. u->ready stays open.
void up_detached(struct up *u);

// Runs the cluster until it is stopped (up.c), and waits so long; all children
// have ended when it returns. Sets u->code: CLI_EXIT_OK if a signal stopped a
// cluster that was up, CLI_EXIT_INTERRUPTED if it was not up yet. Once all
// children are ready it writes DIR/address, says so on stdout and to a
// service manager, and calls up_detached if u->ready is not -1. Not ready
// within a minute each, coordinator and rest, or a child that ends before:
// CLI_EXIT_FAILED, and the cluster is taken down. SIGINT, SIGTERM or SIGHUP
// stops it in order, the same one again kills. A child that dies later is told
// of on stderr and started again (child_ended). Bounds all logs to --log-bytes
// (logfile_bound) about once a second. Called once, after up_setup.
void up_run(struct up *u);

#endif
