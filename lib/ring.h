// SPDX-License-Identifier: Apache-2.0
// lib/ring.h -- a ring lease with contributions from the user's program:
// a rank of a job in allreduce mode (rounds.c), or a member of a group of a
// hybrid job (group.c).
//
//   ring's thread  the lease: state, sums, updates or pushes
//   user's thread  one slot after the other, each as a closure (slot.h)
//
// Threads  the user's, but for `run` and the contributor: the ring's.
// Memory   ring_stop and ring_reap give the lease back, and free.
// Errors   as sluice.h. `err` may be NULL.
#ifndef LIB_RING_H
#define LIB_RING_H

#include "lib/inner.h"
#include "lib/slot.h"
#include "trainer/lease/contributor.h"

struct lib_ring {
    struct contributor base; // first
    struct lib_slot slot;
    struct kept_job *job;
    pthread_t thread;
    // run: runs lease `l` from its begin to its outcome, on the ring's thread.
    // release: frees what the kind of ring owns beside this struct.
    void (*run)(struct lib_ring *g, struct lease *l);
    void (*release)(struct lib_ring *g);
};

// Returns a ring for a rank of a job in allreduce mode, all zeroes but for its
// functions, which ring_start fills; NULL: no memory.
struct lib_ring *rounds_new(void);
// Returns a ring for a member of a group of a hybrid job, all zeroes but for
// its functions, which ring_start fills; NULL: no memory.
struct lib_ring *group_member_new(void);

// Makes a ring (rounds_new, or group_member_new for a hybrid job), sets s->ring
// to it and runs lease `l` of job `j` on a thread of its own; does not wait.
// `l` has a seat (lease_sit), `j` a ring or a group; s->ring is NULL before.
// SL_ENOMEM: s->ring stays NULL, and the lease is still the caller's.
enum sl_err ring_start(struct sluice *s, struct lease *l, struct kept_job *j,
                       struct sl_error *err);

// Ends the lease of s->ring (not NULL), gives it back to the coordinator and
// frees the ring; s->ring is NULL then. No closure of it is open (s->open); a
// gradient that the program took and did not end is dropped. Waits for the
// ring's thread, which first ends the step that it is at. The lease is reported
// as failed with *failed (`job_error`: the job's fault), also where the thread
// has come to another outcome. If `failed` is NULL it is reported as the thread
// has ended it, and if that has it handed back, for the reason `why` (not
// NULL).
void ring_stop(struct sluice *s, const char *why, const struct sl_error *failed,
               bool job_error);

// Returns true if the ring's thread has ended: the lease was then given back,
// the ring freed and s->ring, which is not NULL before, set to NULL. *rc is
// SL_OK, or why the ring failed, with the text in *err. Returns false, and sets
// nothing, while the thread runs. Does not wait for the lease. No closure of
// the ring is open (s->open).
bool ring_reap(struct sluice *s, enum sl_err *rc, struct sl_error *err);

#endif
