// SPDX-License-Identifier: Apache-2.0
// worker/service/member.h -- this worker as a member: jobs, leases, reports.
//
// What comes down the stream becomes records and leases; what is given back
// becomes reports (outbox.h).
//
//   Lease -> lease_new -> runner.submit ... member_done -> report -> outbox
//
// Losing the coordinator does not stop the lease that runs, only its end does;
// leases held ahead are dropped when the next stream is welcome, since that
// coordinator gives them out anew.
//
// Without a device nothing can be computed: heartbeats then say that nothing
// more is to be leased to us, and why, until there is one again.
//
// Threads  the loop.
// Errors   none leave: they are logged, or reported to the coordinator.
#ifndef WORKER_SERVICE_MEMBER_H
#define WORKER_SERVICE_MEMBER_H

#include "proto/attendee.h"
#include "worker/lease/compute.h"

struct member;

// Who runs the leases: the compute thread (compute.h), or a program of the
// user's. Each lease that is submitted comes back by member_done, once.
struct member_runner {
    void (*submit)(void *arg, struct lease *l);
    void (*forget)(void *arg, uint64_t job); // it has ended
    const char *(*device)(void *arg);        // what computes, by now
    void *arg;
    const char *away; // why nothing can run for now; "": it can
};

struct member_setup {
    struct loop *loop;
    const struct sl_clock *clock;
    // Nothing is leased any more, after member_drain, and nothing is on its
    // way. May be NULL.
    void (*drained)(void *arg);
    // The compute thread hangs in what was taken from us: we have stood still
    // for the job's train.stall_seconds and for the grace beyond that. May be
    // NULL.
    void (*stuck)(void *arg);
    // The device was lost, or there is one again. May be NULL.
    void (*device)(void *arg, enum compute_state state);
    uint64_t grace_ms;
    const struct ring_env *ring; // NULL: this worker takes part in no ring
    void *arg;
};

enum sl_err member_new(struct member **out, const struct member_setup *setup);

// Both outlive the member's use of them (until member_abandon).
void member_start(struct member *m, struct attendee *attend,
                  const struct member_runner *runner);

// For attendee_setup and compute_setup; `arg` is the member.
bool member_welcome(void *arg, const Sluice__V1__Welcome *w);
void member_lost(void *arg);
void member_down(void *arg, const Sluice__V1__AttendDown *d);
void member_beat(void *arg);
void member_renewed(void *arg);
const char *member_away(void *arg);
void member_done(void *arg, struct lease *l);
void member_want_map(void *arg, uint64_t job, uint64_t have);
void member_found(void *arg);
void member_device(void *arg, enum compute_state state, const char *why);

// Takes nothing new, finishes the step under way, hands back. `why` goes into
// heartbeats; "": because it leaves.
void member_drain(struct member *m, const char *why);

// It stays after all: what it had begun to hand back goes its way, and new
// leases come again.
void member_stay(struct member *m);

// Closes all gates: what runs ends now, with nothing to say.
void member_abandon(struct member *m);

uint32_t member_leases(const struct member *m);

// After member_drain: `drained` was called, or there is nothing to wait for.
bool member_drained(const struct member *m);
void member_free(struct member *m); // no lease is held; NULL is allowed

#endif
