// SPDX-License-Identifier: Apache-2.0
// host/notice/notice.h -- hears that this machine is about to be taken away.
//
// Clouds say it some 30 s to 2 minutes before, at an address of the host's own
// (IMDS); other platforms touch a file, or have a command that knows. Each
// source is watched by a thread of its own, so that one which does not answer
// delays no other:
//
//   aws        spot/instance-action, with a session token; every second
//   gcp        instance/preempted and instance/maintenance-event; long polls
//   azure      scheduledevents; every second, the first answer may take 2 min
//   file:PATH  the path is there; it may begin with a time, as
//              2026-11-25T08:22:00Z
//   exec:CMD   the command (of /bin/sh) ends with 0; every second. 1 to 125: it
//              does not go; another end, or none in 5 s, says nothing
//   signal     SIGTERM alone, which every daemon drains at: nothing is watched
//   auto       the source of the cloud that the firmware names, or that has its
//              endpoint in the environment; otherwise none
//
// A notice may be withdrawn: then nothing happened.
//
//   notice_new -> looked ... changed(true) ... [changed(false)] ->
//   notice_may_go -> told
//              -> notice_free
//
// Endpoints are those of the clouds' own libraries: AWS_EC2_METADATA_SERVICE_
// ENDPOINT, GCE_METADATA_HOST or GCE_METADATA_IP, and notice_setup.azure.
//
// Threads  all calls, `changed`, `looked` and `told`: the loop's thread, never
//          within a call. notice_free waits for the threads.
// Memory   notice_free, before the loop is freed; strings of the setup are
//          copied. `why` is borrowed for the call.
// Errors   SL_EINVAL: an unknown source. A service's answer is logged when it
//          changes, and never an error: a host without a service has no
//          notices.
#ifndef HOST_NOTICE_NOTICE_H
#define HOST_NOTICE_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/run/loop.h"

struct notice;

struct notice_setup {
    struct loop *loop;
    // "aws,file:/run/going"; "" and "signal": none. The command of exec: takes
    // the rest of the text, with its commas.
    const char *sources;
    const char *azure; // endpoint; NULL: http://169.254.169.254
    // `goes`: the first source says that the machine goes, and why. Not `goes`:
    // no source says so any more.
    void (*changed)(void *arg, bool goes, const char *why);
    // Called once, when every source has been asked once, soon if there are
    // none; after `changed`.
    void (*looked)(void *arg);
    void *arg;
};

// Starts to watch the sources of `setup`, each on a thread of its own; *out is
// for notice_free. No function of the setup is called from here, nor is one
// NULL. SL_EINVAL: an unknown source; SL_ERANGE: too many; SL_ENOMEM: also if
// the system gives no thread. *out is then untouched; `err` may be NULL.
enum sl_err notice_new(struct notice **out, const struct notice_setup *setup,
                       struct sl_error *err);

// Returns when this machine will be taken away, by the wall clock in
// microseconds since 1970: the earliest time of any source. AWS and Azure tell
// one, Google Cloud gives 30 s from a preemption, a file may have one. 0: it is
// not to be taken away, or no source says when.
uint64_t notice_when_us(struct notice *n);

// Notes that the machine may go, because its work is handed over. Tells the
// cloud if it wants to hear that (Azure, if the event names this machine alone:
// the answer lets all machines go that it names); then told(arg) runs, some
// seconds later at most, unless notice_free comes first. Once; `told` may be
// NULL.
void notice_may_go(struct notice *n, loop_fn told, void *arg);

// Stops and joins the threads, which end at once: polls are cut off, a command
// is killed; no callback runs any more. Not from within `changed` or `looked`,
// after which `n` is still used. NULL is allowed.
void notice_free(struct notice *n);

#endif
