// SPDX-License-Identifier: Apache-2.0
// host/daemon/going.h -- the end of this daemon when its machine is about to be
// taken away.
//
//   a notice -> drain: no new work, what there is goes to others
//   -> sources that want to hear it are told -> the daemon stops, status 143
//
// A notice that is withdrawn before the end changes nothing: work comes again.
// A daemon that begins while there is a notice (a service manager starts it
// again) attends once that is withdrawn, if it has a `begin`.
//
// Threads  the loop.
// Memory   going_free, before what the callbacks use. The setup's callbacks are
//          not NULL but where it is said.
// Units    milliseconds; the figure is in seconds.
// Errors   those of notice_new, and SL_ENOMEM; *out is then untouched. `err`
//          may be NULL.
#ifndef HOST_DAEMON_GOING_H
#define HOST_DAEMON_GOING_H

#include "host/daemon/daemon.h"
#include "common/run/expo.h"

#define GOING_EXIT 143     // exit status, as by SIGTERM
#define GOING_LOOK_MS 2000 // most time for sources to answer before it attends

struct going;

struct going_setup {
    struct daemon *daemon;
    // A notice came: begins to hand over the work. Returns true if there is
    // none; otherwise going_drained follows. `why` is borrowed for the call.
    bool (*drain)(void *arg, const char *why);
    // The work is not handed over step_ms later: leaves what is left, and
    // going_drained follows. NULL: there is no such time.
    void (*late)(void *arg);
    uint64_t step_ms;
    // The notice was withdrawn: takes work again.
    void (*stay)(void *arg);
    // Called at most once, when no notice keeps it from attending: without one
    // GOING_LOOK_MS after going_new at the latest. Not while the daemon drains.
    // NULL: the daemon attends whether there is a notice or not.
    void (*begin)(void *arg);
    // going_is has changed, and with it the health; only once `begin` was
    // called, and not while the daemon drains.
    void (*changed)(void *arg);
    void *arg;
};

// The flags of a daemon with notices: the sources without the first, and what
// the daemon does at one, for people.
#define GOING_KEYS(SOURCES, DOES)                                              \
    {.name = "preempt-source",                                                 \
     .kind = CONF_STRING,                                                      \
     .value = SOURCES,                                                         \
     .help = "Source of the notice that this machine will be taken away, "     \
             "several with commas: aws, gcp, azure, file:PATH (the file "      \
             "appears; it may hold the time, such as 2026-11-25T08:22:00Z), "  \
             "exec:COMMAND (it exits with 0; the last of several), signal "    \
             "(SIGTERM alone), or auto: the cloud of this host. At a "         \
             "notice " DOES},                                                  \
    {                                                                          \
        .name = "azure-imds-endpoint", .kind = CONF_STRING,                    \
        .value = "http://169.254.169.254",                                     \
        .help = "Address of Azure's metadata service."                         \
    }

// Starts to watch the sources of notices that the daemon's settings name; it
// has GOING_KEYS. *setup is copied; its `daemon` is borrowed until going_free.
enum sl_err going_new(struct going **out, const struct going_setup *setup,
                      struct sl_error *err);
// Returns true while there is a notice that the machine is taken away; false if
// `g` is NULL.
bool going_is(const struct going *g);
// Writes the time that is left as the gauge
// sluice_preemption_notice_remaining_seconds, 0 once it is over. With `g` NULL,
// without a notice, or without a time in it the family has no value.
void going_measure(const struct going *g, struct expo *e);
// Notes that the work is handed over, or left: the sources that want to know
// are told, and then the daemon is stopped, unless the notice was withdrawn
// meanwhile. Does nothing without a notice, or if they are being told already.
// NULL is allowed.
void going_drained(struct going *g);
// Ends the watch, waits for its threads, which end at once, and frees; not from
// within `begin` or `changed`. NULL is allowed.
void going_free(struct going *g);

#endif
