// SPDX-License-Identifier: Apache-2.0
// lib/ring.h -- a rank whose contributions the user's program computes.
//
//   ring's thread  the lease: state, sums, updates (worker/lease/task_ring.h)
//   user's thread  one slot of a round after the other, each as a closure
//
//   OFFERED --sluice_take--> TAKEN --sluice_end--> DONE --> added, summed
//      |                       |
//      +-- generation over ----+--> NONE: it counts for nothing, it comes again
//
// A slot that nobody has taken is withdrawn when the generation ends, so that
// others need not wait for a program that does something else. One that is
// taken is waited for: the program reads the parameters meanwhile.
//
// Threads  the user's, but for ring_news_locked: the session's lock.
// Memory   ring_stop and ring_reap give the lease back, and free.
// Errors   as sluice.h.
#ifndef LIB_RING_H
#define LIB_RING_H

#include "lib/inner.h"

// The lease of a job that is kept begins. Fails: it is still the caller's.
enum sl_err ring_start(struct sluice *s, struct lease *l, struct kept_job *j,
                       struct sl_error *err);

// It ends, whatever the program has of it: handed back for the reason `why`;
// or it has failed.
void ring_stop(struct sluice *s, const char *why, const struct sl_error *failed,
               bool job_error);

// A slot is offered, or the ring has ended.
bool ring_news_locked(const struct lib_ring *g);

// True if the ring has ended: it is freed. *rc: SL_OK, or why it failed.
bool ring_reap(struct sluice *s, enum sl_err *rc, struct sl_error *err);

// The slot that is offered is ours from now on; false: none is.
bool ring_grab(struct lib_ring *g, struct sluice_closure *c);

// ---- of a closure that is a slot

enum sl_err ring_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err);
// A bucket of the gradient is whole.
enum sl_err ring_ready(struct sluice_closure *c, uint32_t bucket,
                       struct sl_error *err);
enum sl_err ring_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err);
// It was ended, or was lost; else the program lets go of it undone.
bool ring_over(const struct sluice_closure *c);

#endif
