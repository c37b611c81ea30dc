// SPDX-License-Identifier: Apache-2.0
// worker/lease/kept.h -- the jobs that the compute thread keeps between leases.
//
// To make a job anew costs its data's opening, its programs and its vectors: a
// worker that is given work of more jobs than it keeps does little else. So it
// keeps KEPT_ALWAYS whatever they take, and more, up to KEPT_MOST, as long as
// all of them together take no more than a budget. The least used one goes.
//
// Threads  the compute thread.
// Memory   the jobs are the caller's. What they take is shown as a figure
//          (figures_memory).
// Units    bytes, of a device and of the host.
// Errors   none; nothing is allocated.
#ifndef WORKER_LEASE_KEPT_H
#define WORKER_LEASE_KEPT_H

#include "worker/lease/job.h"

#define KEPT_ALWAYS 4
#define KEPT_MOST 64

struct kept {
    struct list jobs; // struct worker_job, least used first
    unsigned count;
    uint64_t bytes, budget; // bytes that kept jobs take, and may take
    uint64_t let_go;        // jobs that the caller dropped for want of room
};

// Makes `k` empty, with a budget in bytes.
void kept_init(struct kept *k, uint64_t budget);

// Returns the kept job with number `id`, or NULL. That is no use of it.
struct worker_job *kept_find(const struct kept *k, uint64_t id);

// Adds `job`, which is in no list, as the most recently used one.
void kept_add(struct kept *k, struct worker_job *job);

// Moves `job`, which must be in the list, to its end: it is the most recently
// used one.
void kept_use(struct kept *k, struct worker_job *job);

// Sets how many bytes `job`, which must be in the list, takes now.
void kept_weigh(struct kept *k, struct worker_job *job, uint64_t bytes);

// Takes `job`, which must be in the list, out of it, and its bytes off
// k->bytes; the caller frees the job.
void kept_remove(struct kept *k, struct worker_job *job);

// Returns the job that must go before `more` further jobs are kept, which take
// `bytes` bytes together: the least recently used one; NULL if there is room,
// or no job is kept. It stays in the list until kept_remove. To be called again
// until it returns NULL.
struct worker_job *kept_surplus(struct kept *k, unsigned more, uint64_t bytes);

#endif
