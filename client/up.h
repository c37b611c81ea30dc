// SPDX-License-Identifier: Apache-2.0
// client/up.h -- a whole cluster as children of one process.
//
//   updir_open, strays ended -> coordinator -> READY=1 -> psservers, workers
//   -> all READY=1 -> one line says so -> supervise: who dies is said and
//   started again -> SIGINT, SIGTERM, SIGHUP -> workers, psservers,
//   coordinator end, in this order, each within the grace -> files removed
//
// Threads  main, the only one.
// Memory   up_release frees.
// Units    *_ms, monotonic.
#ifndef CLIENT_UP_H
#define CLIENT_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "client/child.h"
#include "client/gpus.h"
#include "client/updir.h"
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
    char *address;     // where the coordinator listens; owned
    char *store;       // of all; owned
    unsigned threads;  // of each worker
    struct gpus gpus;  // workers for them, before those without
    unsigned each;     // of them, for one worker
    char *notify_path; // owned; or an abstract name "@..."
    int notify;        // datagram socket, -1: none
    int signals;       // signalfd
    struct child *children;
    unsigned count;
    char **env; // of the children; owned
    enum up_phase phase;
    enum child_role stopping;
    uint64_t deadline_ms;  // of starting, or of the role that is stopping
    bool killing;          // no more patience
    uint64_t signals_seen; // bit n: signal n came
    int code;              // exit code
    uint64_t logs_ms;      // when logs are looked at next
    uint64_t oom_kills;    // those of our cgroup that were told
    int ready;             // --detach: who waits reads it; -1: nobody does
};

// up_setup.c: everything before the first child. On failure up_release.
enum sl_err up_setup(struct up *u, const struct conf *conf,
                     struct sl_error *err);
void up_release(struct up *u);

// The environment of the children: ours without what is meant for the client,
// and the two variables that tie them to us. sl_free each and the list.
enum sl_err up_environment(char ***out, char *const *ours, const char *notify,
                           const char *dir);

// "127.0.0.1:0" -> one that is free now; any other address as it is.
enum sl_err up_choose_address(char **out, const char *listen,
                              struct sl_error *err);

// up_detach.c: --detach. Forks before there is anything: our caller waits
// until the child says that all is ready, and then leaves it to itself.
//
// True in the child, whose `ready` is where to say so (-1: it could not be
// forked, which *code says). False: *code is that of the command.
bool up_detach(int *ready, int *code);
// All is ready: from here on it talks to DIR/log/up.log.
void up_detached(struct up *u);

// up.c
void up_run(struct up *u);

#endif
