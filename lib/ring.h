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

// Returns a ring for a rank of a job in allreduce mode, which ring_start may
// start; NULL: no memory.
struct lib_ring *rounds_new(void);
// Returns a ring for a member of a group of a hybrid job, which ring_start may
// start; NULL: no memory.
struct lib_ring *group_member_new(void);

// Starts lease `l` of job `j` on a thread of its own. On failure the lease is
// still the caller's. `l` has a seat (lease_sit), `j` a ring or group; s->ring
// is NULL before, and the ring on SL_OK.
enum sl_err ring_start(struct sluice *s, struct lease *l, struct kept_job *j,
                       struct sl_error *err);

// Ends the lease, whatever the program holds of it: as handed back for the
// reason `why`, or as failed with `failed` (`job_error`: by fault of the job).
// s->ring is not NULL before, and NULL afterwards. Waits for the thread, which
// ends the step that it is at. `why` is not NULL; `failed` is NULL if it has
// not failed.
void ring_stop(struct sluice *s, const char *why, const struct sl_error *failed,
               bool job_error);

// Frees the ring if it has ended, and returns true then. *rc: SL_OK, or why the
// ring failed. s->ring is not NULL before, and NULL after true. Does not wait;
// on false nothing is set.
bool ring_reap(struct sluice *s, enum sl_err *rc, struct sl_error *err);

#endif
