// SPDX-License-Identifier: Apache-2.0
// client/up/child.h -- one daemon that `sluice up` keeps alive.
//
//              child_start            READY=1
//   WAITING ---------------> STARTING ---------> READY
//     ^  ^                      |                  |
//     |  +----------------------+------------------+   child_ended: after a
//     |        child_ended                             pause, if it dies often
//     +-- at first
//                  child_ended, permanent exits in a row -----> GIVEN_UP
//
// A child is in a process group of its own, so that Ctrl-C reaches only us and
// the order of stopping is ours; the kernel sends it SIGTERM should we die.
//
// Threads  main; the process has no other while it forks. Nothing waits.
// Memory   child_release frees what the struct owns; all zeroes is empty. `env`
//          and names are read only during the call.
// Units    *_ms on the monotonic clock.
// Errors   `err` may be NULL; no other pointer may.
#ifndef CLIENT_UP_CHILD_H
#define CLIENT_UP_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/buf.h"
#include "common/base/status.h"

// Roles, in the order in which children are stopped.
enum child_role {
    CHILD_WORKER,
    CHILD_PSSERVER,
    CHILD_COORDINATOR,
    CHILD_ROLES
};

enum child_state {
    CHILD_WAITING, // to be started at start_at_ms
    CHILD_STARTING,
    CHILD_READY,
    CHILD_GIVEN_UP,
    CHILD_STATES
};

// Allowed changes of state, as common/base/moves.h has them.
extern const unsigned child_moves[CHILD_STATES];

#define CHILD_ARGS 48
#define CHILD_NAME 32

struct child {
    enum child_role role;
    char name[CHILD_NAME];      // "worker-2"
    char *args[CHILD_ARGS + 1]; // owned; args[0] is the program's path
    unsigned args_count;
    char *log, *pid_file; // paths, owned
    char *socket;         // path of the socket it listens on, owned; or NULL
    char *lock;           // lock file of its state folder, owned; NULL: none

    enum child_state state;
    pid_t pid; // 0: not running
    uint64_t start_at_ms, started_ms;
    unsigned quick_deaths; // deaths in a row, each but the first within 10 s of
                           // its start
    unsigned bad_exits;    // exits in a row with a code that says "permanent"
};

// Writes to `out` the path of daemon `name` beside this program: sluice-`name`,
// as it is installed, if that is there, else `name`, as it is built, which need
// not be there. SL_EIO: this program's own path is not known.
enum sl_err child_program(char out[PATH_MAX], const char *name,
                          struct sl_error *err);

// Appends an argument, made as printf makes it, to the child's command line.
// SL_EINTERNAL: it has CHILD_ARGS already; SL_ENOMEM.
enum sl_err child_arg(struct child *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Frees what the struct owns and zeroes it; ends no process, removes no file.
void child_release(struct child *c);

// Forks and executes the child, its output appended to its log, and writes the
// pid file. `env` as in execve. SL_ENOENT: there is no such program that may be
// executed; SL_EIO: fork; those of the log and the pid file. On failure no
// child runs, also if only its pid file could not be written. The child is
// CHILD_WAITING, with its args, log and pid_file set; on failure it stays so,
// else it is CHILD_STARTING. An exec that fails is an exit with code 127.
enum sl_err child_start(struct child *c, char *const *env, uint64_t now_ms,
                        struct sl_error *err);

// Notes that the child sent READY=1. Returns true if it was CHILD_STARTING, and
// is CHILD_READY now; false in other states, which stay.
bool child_ready(struct child *c);

// Notes that the child, which was running, has ended, with `status` from
// waitpid. Removes its pid file, and sets when it is to be started again
// (c->start_at_ms, after child_pause_ms) or that it is not (CHILD_GIVEN_UP,
// after three exits in a row with code 1, 2, 126 or 127, each within 10 s of
// the start but the first). `random`: any number.
void child_ended(struct child *c, int status, uint64_t now_ms, uint64_t random);

#define CHILD_WHY 64
// Writes "was killed by SIGKILL" or "exited with code 1" to `out`, for `status`
// of waitpid, and returns it.
const char *child_why(char out[CHILD_WHY], int status);

// Returns the pause in ms before a start, after `quick` deaths in a row: 0 for
// none or one, then 200 ms doubling to 5 s, jittered by `random` (any number)
// between half and all of it.
uint64_t child_pause_ms(unsigned quick, uint64_t random);

// Appends the last `lines` (not 0) lines of the child's log, of its last 16
// KiB, indented. Fails as fs_open and fs_pread do if the log cannot be read;
// after SL_ENOMEM `out` may hold a part.
enum sl_err child_log_tail(struct buf *out, const struct child *c,
                           unsigned lines);

#endif
