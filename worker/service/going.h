// SPDX-License-Identifier: Apache-2.0
// worker/service/going.h -- the end of this worker when its machine is about to
// be taken away.
//
//   a notice -> drain: no new leases, the step under way ends, leases go back
//   -> sources that want to hear it are told -> the daemon stops, status 143
//
// A notice that is withdrawn before the end changes nothing: leases come again.
// A worker that begins while there is a notice (a service manager starts it
// again) attends once that is withdrawn.
//
// Threads  the loop.
// Memory   going_free, before the member. Setup and strings are copied; its
//          callbacks are not NULL.
// Units    milliseconds; the figure is in seconds.
// Errors   those of notice_new, and SL_ENOMEM; *out is then untouched. `err`
//          may be NULL.
#ifndef WORKER_SERVICE_GOING_H
#define WORKER_SERVICE_GOING_H

#include "host/daemon/daemon.h"
#include "common/run/expo.h"
#include "trainer/attend/member.h"

#define GOING_EXIT 143     // exit status, as by SIGTERM
#define GOING_STEP_MS 7000 // most time for the step under way
#define GOING_LOOK_MS 2000 // most time for sources to answer before it attends

struct going;

struct going_setup {
    struct daemon *daemon;
    struct worker_member *member;
    const char *sources, *azure; // notice.h
    // GOING_STEP_MS, or less if the grace is short; more counts as that.
    uint64_t step_ms;
    // Called at most once, when no notice keeps it from attending: without one
    // GOING_LOOK_MS after going_new at the latest. Not while the daemon drains.
    void (*begin)(void *arg);
    // going_is has changed, and with it the health; only once `begin` was
    // called, and not while the daemon drains.
    void (*changed)(void *arg);
    void *arg;
};

// Starts to watch the sources of notices. *setup is copied; `daemon` and
// `member` are borrowed until going_free.
enum sl_err going_new(struct going **out, const struct going_setup *setup,
                      struct sl_error *err);
// Returns true while there is a notice that the machine is taken away; false if
// `g` is NULL.
bool going_is(const struct going *g);
// Writes the time that is left as the gauge
// sluice_preemption_notice_remaining_seconds, 0 once it is over. With `g` NULL,
// without a notice, or without a time in it the family has no value.
void going_measure(const struct going *g, struct expo *e);
// Notes that no lease is held any more: the sources that want to know are told,
// and then the daemon is stopped, unless the notice was withdrawn meanwhile.
// Does nothing without a notice, or if they are being told already. NULL is
// allowed.
void going_drained(struct going *g);
// Ends the watch, waits for its threads, which end at once, and frees; not from
// within `begin` or `changed`. NULL is allowed.
void going_free(struct going *g);

#endif
