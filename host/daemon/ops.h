// SPDX-License-Identifier: Apache-2.0
// host/daemon/ops.h -- the ops port: a daemon's answers to a kubelet, to
// Prometheus, and to an operator.
//
//   /livez            200: the loop turns; nothing else is checked, least of
//                     all a peer
//   /readyz           200: the daemon can do its job; else 503, with each check
//                     in a line: "[+]journal ok", "[-]port failed: why"; so
//                     before it is ready, and from the start of a drain
//   /readyz?verbose   the checks stand in an answer of 200, too
//   /metrics          docs/operations.md
//
// It has neither TLS nor tokens. Further routes of a room (http_route) are
// near_only, so that off loopback these three are all.
//
// Threads  the loop.
// Memory   call ops_free before freeing what its callbacks read.
// Errors   http_new's; a taken port is SL_EBUSY. *out is then untouched; `err`
//          may be NULL.
#ifndef HOST_DAEMON_OPS_H
#define HOST_DAEMON_OPS_H

#include <stdbool.h>

#include "host/http/http.h"
#include "common/run/expo.h"
#include "common/run/loop.h"

#define OPS_STILL_MS 2000 // a loop that stands still for longer is not live

struct ops;

// Checks of one answer of /readyz.
struct ops_checks {
    struct buf text; // one line per check
    bool failed;     // true if one of them is not ok: the answer is 503
};

// Adds the check `name`, one of a few fixed words; if it is not `ok`, `why`
// (may be NULL) is its reason, and the answer is 503. Both are copied.
void ops_check(struct ops_checks *c, const char *name, bool ok,
               const char *why);

struct ops_setup {
    struct loop *loop;
    const char *bind;         // address, as for http_new
    const char *const *hosts; // names besides addresses and localhost
    const char *role;         // program's name, for a label of the figures
    // Called for /readyz and for /metrics; not NULL.
    void (*checks)(void *arg, struct ops_checks *c);
    void (*measure)(void *arg, struct expo *e);
    void *arg;
};

// Opens the port at setup->bind with the routes above; *out is for ops_free.
// Strings are copied, but setup->role and arg are borrowed until ops_free.
enum sl_err ops_new(struct ops **out, const struct ops_setup *setup,
                    struct sl_error *err);

// Returns the server behind the port, so that routes can be added; it lives as
// long as `o`.
struct http *ops_http(struct ops *o);
// Closes the port, which ends every stream (http_free), and frees; not from a
// handler. NULL is allowed.
void ops_free(struct ops *o);

// ---- ops_process.c

// Writes the figures of this process that every daemon has to `e`: processor
// time, memory, descriptors.
void ops_process(struct expo *e);

#endif
