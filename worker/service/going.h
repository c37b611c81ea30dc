// SPDX-License-Identifier: Apache-2.0
// worker/service/going.h -- what this worker does when its machine is about to
// be taken away.
//
//   a notice -> drain: nothing new is leased, the step under way ends, leases
//   go back -> who wants to hear it is told -> the daemon stops, status 143
//
// A notice that is withdrawn before the end changes nothing: leases come again.
// A worker that begins while there is a notice (a service manager starts it
// again) attends once that is withdrawn.
//
// Threads  the loop.
// Memory   going_free, before the member.
// Units    milliseconds.
// Errors   those of notice_new.
#ifndef WORKER_SERVICE_GOING_H
#define WORKER_SERVICE_GOING_H

#include "common/daemon/daemon.h"
#include "common/run/expo.h"
#include "worker/service/member.h"

#define GOING_EXIT 143     // as by SIGTERM
#define GOING_STEP_MS 7000 // for the step under way, at most
#define GOING_LOOK_MS 2000 // for sources to answer first, before it attends

struct going;

struct going_setup {
    struct daemon *daemon;
    struct member *member;
    const char *sources, *azure; // notice.h
    uint64_t step_ms;            // less, if the grace is short
    void (*begin)(void *arg);    // once: no notice keeps it from attending
    void (*changed)(void *arg);  // going_is: NOT_SERVING
    void *arg;
};

enum sl_err going_new(struct going **out, const struct going_setup *setup,
                      struct sl_error *err);
bool going_is(const struct going *g); // NULL: it is not
// How long it stays, as a figure; NULL is allowed.
void going_measure(const struct going *g, struct expo *e);
void going_drained(struct going *g); // no lease is held; NULL is allowed
void going_free(struct going *g);    // NULL is allowed

#endif
