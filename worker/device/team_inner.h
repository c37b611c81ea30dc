// SPDX-License-Identifier: Apache-2.0
// worker/device/team_inner.h -- shared by team_*.c only. Threads, memory,
// errors: as team_work.h.
//
//   team_job.c    a mate's memory for a job, and its programs
//   team_step.c   the parts of a step
#ifndef WORKER_DEVICE_TEAM_INNER_H
#define WORKER_DEVICE_TEAM_INNER_H

#include "worker/device/device.h"
#include "worker/device/team_work.h"

// A mate's program, used by the mate's thread.
struct mate_program {
    struct program *program; // NULL: the mate's part of such a batch is empty
    struct overlap overlap;  // ops by range, if the program trains
    struct device_program *placed;
    size_t x_bytes, labels_bytes; // bytes of a sample
    const struct elements *ranges;
    uint32_t ranges_count;
};

struct team_program {
    struct team_job *j;
    const struct elements *ranges;
    uint32_t ranges_count;
    bool adds;
    struct mate_program of[TEAM_MOST - 1];
};

// A mate's memory for a job. Between a post and its wait it is the mate's.
struct mate_job {
    struct device *device; // NULL: the mate computes in host memory
    float *own;            // its gradient without a device; owned
    float *grads;          // its gradient: the device's vector, or `own`
    struct program_memory memory;

    // The step under way.
    struct mate_program *p;
    struct program_io io; // addresses, if the mate computes in host memory
    uint32_t op;
    bool *fresh; // by range; owned
    uint32_t fresh_capacity;
};

struct team_job {
    struct team *t;
    const struct model *model;
    uint64_t elements;
    struct mate_job of[TEAM_MOST - 1];
    struct device *all[TEAM_MOST]; // devices by member
    bool met, apart;               // the devices make sums; they cannot

    // The step under way, as the compute thread knows it.
    struct team_program *p;
    bool active[TEAM_MOST - 1];      // the mate's part is not empty
    uint64_t samples[TEAM_MOST - 1]; // samples of all micro-batches so far
    // Micro-batches without a part; only the last may be so short.
    uint32_t missed[TEAM_MOST - 1];
    bool sums;   // sums are made on the devices
    bool *taken; // by range; owned
    uint32_t taken_capacity;
    struct input *lender; // owner of `lent`; NULL: no batch is lent
    struct batch lent;
};

// Posts a command to a mate. The first member of the arguments is its mate_job.
#define TEAM_POST(j, k, fn, args)                                              \
    team_post((j)->t, (k), (fn), (args), sizeof(*(args)))

#endif
