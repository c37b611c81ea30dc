// SPDX-License-Identifier: Apache-2.0
// worker/lease/kept.h -- the jobs that the compute thread keeps between leases.
//
// To make a job anew costs its data's opening, its programs and its vectors: a
// worker that is given work of more jobs than it keeps does little else. So it
// keeps KEPT_ALWAYS whatever they take, and more, up to KEPT_MOST, as long as
// all of them together take no more than a budget. The least used one goes.
//
// Threads  the compute thread.
// Memory   the jobs are the caller's.
// Units    bytes, of a device and of the host.
#ifndef WORKER_LEASE_KEPT_H
#define WORKER_LEASE_KEPT_H

#include "worker/lease/job.h"

#define KEPT_ALWAYS 4
#define KEPT_MOST 64

struct kept {
    struct list jobs; // struct job, least used first
    unsigned count;
    uint64_t bytes, budget; // that they take, and may
    uint64_t let_go;        // ever, for want of room
};

void kept_init(struct kept *k, uint64_t budget);

// The job of that number, or NULL.
struct job *kept_find(const struct kept *k, uint64_t id);

// From now on it is kept; it was used last.
void kept_add(struct kept *k, struct job *job);

// It is in use: the last one that would go.
void kept_use(struct kept *k, struct job *job);

// It takes so many bytes now.
void kept_weigh(struct kept *k, struct job *job, uint64_t bytes);

void kept_remove(struct kept *k, struct job *job);

// The job that has to go before `more` others are kept, which take so many
// bytes; NULL: none has.
struct job *kept_surplus(struct kept *k, unsigned more, uint64_t bytes);

#endif
