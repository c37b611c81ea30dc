// SPDX-License-Identifier: Apache-2.0
// common/daemon/ops.h -- the ops port: what a daemon says to a kubelet, to
// Prometheus, and to who looks.
//
//   /livez            200: the loop turns; nothing else is asked, least of all
//                     a peer
//   /readyz           200: it can do its job; 503 from the start of a drain.
//   /readyz?verbose   each check in a line: "[+]journal ok",
//                     "[-]port failed: why"
//   /metrics          docs/operations.md
//
// It has neither TLS nor tokens. What else a room serves there (http_route) is
// near_only, so that off loopback these three are all.
//
// Threads  the loop.
// Memory   ops_free, before what its callbacks read.
// Errors   http_new's; a taken port is SL_EBUSY.
#ifndef COMMON_DAEMON_OPS_H
#define COMMON_DAEMON_OPS_H

#include <stdbool.h>

#include "common/http/http.h"
#include "common/run/expo.h"
#include "common/run/loop.h"

#define OPS_STILL_MS 2000 // the loop stood still for longer: not live

struct ops;

// The checks of one answer.
struct ops_checks {
    struct buf text; // a line each
    bool failed;
};

// `name` is one of a few words; `why` is said if it is not ok, and may be NULL.
void ops_check(struct ops_checks *c, const char *name, bool ok,
               const char *why);

struct ops_setup {
    struct loop *loop;
    const char *bind;
    const char *const *hosts; // names besides addresses and localhost
    const char *role;
    void (*checks)(void *arg, struct ops_checks *c);
    void (*measure)(void *arg, struct expo *e);
    void *arg;
};

enum sl_err ops_new(struct ops **out, const struct ops_setup *setup,
                    struct sl_error *err);
struct http *ops_http(struct ops *o);
void ops_free(struct ops *o); // NULL is allowed

// ---- ops_process.c

// What every process has: processor time, memory, descriptors.
void ops_process(struct expo *e);

#endif
