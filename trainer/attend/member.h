// SPDX-License-Identifier: Apache-2.0
// trainer/attend/member.h -- this worker as a member: jobs, leases, reports.
//
// Messages of the stream become records and leases; leases that are given back
// become reports (outbox.h).
//
//   Lease -> lease_new -> runner.submit ... worker_member_done -> report ->
//   outbox
//
// Losing the coordinator does not stop the lease that runs, only its end does;
// leases held ahead are dropped when the next stream is welcome, since that
// coordinator gives them out anew.
//
// Without a device no lease can be computed: heartbeats then say that no more
// leases are wanted, and why, until a device is there again.
//
// Threads  the loop; nothing waits.
// Memory   the setup is copied; what it points at outlives the member. Messages
//          are borrowed for the call. Texts are copied.
// Errors   none leave: they are logged, or reported to the coordinator.
#ifndef TRAINER_ATTEND_MEMBER_H
#define TRAINER_ATTEND_MEMBER_H

#include "stream/attendee.h"
#include "trainer/lease/lease.h"

struct worker_member;

// The runner of leases: a worker's compute thread, or a program of the user's.
// Each lease that is submitted comes back by worker_member_done, once.
struct worker_member_runner {
    // Takes a lease over; it does not give it back before it returns.
    void (*submit)(void *arg, struct lease *l);
    // The job has ended: the gates of its leases are closed.
    void (*forget)(void *arg, uint64_t job);
    const char *(*device)(void *arg); // name of what computes now; by each beat
    void *arg;
    const char *away; // why no lease can run for now; empty: they can
};

struct worker_member_setup {
    struct loop *loop;
    const struct sl_clock *clock;
    // Tells, after worker_member_drain, that worker_member_drained has become
    // true; once, or again after another drain or a lost stream. May be NULL.
    void (*drained)(void *arg);
    // Tells that the compute thread hangs while some lease was taken from us:
    // it has stood still for the job's train.stall_seconds and for the grace
    // beyond that. Called by each beat as long as that is so. May be NULL.
    void (*stuck)(void *arg);
    uint64_t grace_ms; // time beyond train.stall_seconds until `stuck`
    const struct ring_env *ring; // NULL: no ring leases
    void *arg;
};

// Makes a member that attends nothing yet. SL_ENOMEM leaves *out as it was.
enum sl_err worker_member_new(struct worker_member **out,
                              const struct worker_member_setup *setup);

// Sets the stream and the runner. Both outlive the last worker_member_done,
// which may come after worker_member_abandon, but not worker_member_free. Once,
// before any call below but worker_member_able and worker_member_found. *runner
// is copied; its `away`, not NULL, takes the place of what worker_member_able
// said before.
void worker_member_start(struct worker_member *m, struct attendee *attend,
                         const struct worker_member_runner *runner);

// ---- callbacks for attendee_setup (the first six) and for what runs leases;
// `arg` is the member

// Takes a coordinator's welcome. Returns false to refuse one of an older term.
// Leases that do not run yet end without a report, and come back by
// worker_member_done; those that run go on, with `left` set in their gates.
bool worker_member_welcome(void *arg, const Sluice__V1__Welcome *w);
// Notes that the stream has ended; leases that run go on. Calls `drained`, also
// once more, if worker_member_drained says so now.
void worker_member_lost(void *arg);
// Takes any other message of the coordinator: jobs, maps, leases, revocations,
// messages about the ring, and the deletion of a ring job's files. A job that
// is opened again is told to later leases alone. Ignores a lease or ring
// message of an older term than the last welcome's (but for requests of files
// and revocations, which are taken), a lease that is held already, and messages
// for psservers. A lease of an unknown job, or that does not fit, is reported
// as failed; a job that cannot be opened is logged, and what was known of it
// may be forgotten.
void worker_member_down(void *arg, const Sluice__V1__AttendDown *d);
// Sends a heartbeat with the progress of the first 8 leases, and what was held
// back in the outbox before it; looks whether a lease hangs (`stuck`).
void worker_member_beat(void *arg);
// Moves the end of all leases, which counts from attendee_renewed_ms, and sends
// the reports that were kept.
void worker_member_renewed(void *arg);
// Returns why no more leases are wanted: what keeps the device away, else the
// reason of the drain; "" if they are wanted, if it drains without a reason, or
// if worker_member_able was called since the drain began (which forgets it).
// The text belongs to the member and changes with its state.
const char *worker_member_away(void *arg);
// Takes a lease back, reports its outcome, which is set, and frees it. `l` came
// by `submit`, and is not used afterwards. While more than 4 others are held, a
// completion may wait (outbox_hold). May call `drained`, as worker_member_lost
// and worker_member_renewed may.
void worker_member_done(void *arg, struct lease *l);
// Asks the coordinator for a map of `job` newer than version `have`. Without a
// stream nothing is sent: the caller, a sync, asks again.
void worker_member_want_map(void *arg, uint64_t job, uint64_t have);
// Sends a heartbeat before it returns (worker_member_beat), which reports
// samples that cannot be read. Does nothing before worker_member_start, and
// without a stream.
void worker_member_found(void *arg);
// Notes whether leases can run now, and if not why (copied, behind "its device
// is lost: "); sends a heartbeat before it returns, so the runner's `device`,
// and `stuck` if a lease hangs, are called in here. `why` is read only where
// they cannot. Before worker_member_start, and without a stream, nothing is
// sent.
void worker_member_able(struct worker_member *m, bool able, const char *why);

// Begins to leave: sends a heartbeat that says so, lets the step under way end,
// and has leases handed back, those too that still come. `why`, not NULL, goes
// into heartbeats (copied; not while the device is away); "": no reason. May be
// called again. `drained` is called later, not in here.
void worker_member_drain(struct worker_member *m, const char *why);

// Ends a drain, and forgets its reason: new leases are taken again, and leases
// that have not been handed back yet go on, unless their gate is closed
// already; `drained` is not called for that drain any more. Sends a heartbeat
// before it returns, which is all that it does without a drain.
void worker_member_stay(struct worker_member *m);

// Closes all gates: leases that run end now, in the midst of a step, and are
// handed back, unless a gate was closed for another reason before. The runner
// gives them back as always (worker_member_done). Leases that come later are
// not touched.
void worker_member_abandon(struct worker_member *m);

// Returns the number of leases that are held or run.
uint32_t worker_member_leases(const struct worker_member *m);

// Returns true if the member drains, holds no lease, and need not wait for the
// coordinator any more: that has acknowledged a heartbeat which says so, or has
// not for 1 s, or there is no stream.
bool worker_member_drained(const struct worker_member *m);
// Frees a member that holds no lease (worker_member_leases is 0); does not
// wait. Its callbacks run no more. NULL is allowed.
void worker_member_free(struct worker_member *m);

#endif
