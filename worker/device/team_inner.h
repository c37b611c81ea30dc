// SPDX-License-Identifier: Apache-2.0
// worker/device/team_inner.h -- shared by team_*.c only.
//
//   team_job.c    what a mate has of a job, and its programs
//   team_step.c   the parts of a step
#ifndef WORKER_DEVICE_TEAM_INNER_H
#define WORKER_DEVICE_TEAM_INNER_H

#include "worker/device/device.h"
#include "worker/device/team_work.h"

// A mate's program. Its own.
struct mate_program {
    struct program *program; // NULL: its part of such a batch is empty
    struct overlap overlap;  // of one that trains
    struct device_program *placed;
    size_t x_bytes, labels_bytes; // of a sample
    const struct overlap_range *ranges;
    uint32_t ranges_count;
};

struct team_program {
    struct team_job *j;
    const struct overlap_range *ranges;
    uint32_t ranges_count;
    bool adds;
    struct mate_program of[TEAM_MOST - 1];
};

// What a mate has of a job. Between a post and its wait it is the mate's.
struct mate_job {
    struct device *device; // NULL: it computes in host memory
    float *own;            // its gradient then; owned
    float *grads;          // either
    struct program_memory memory;

    // The step under way.
    struct mate_program *p;
    struct program_io io; // in host memory
    uint32_t op;
    bool *fresh; // by range; owned
    uint32_t fresh_capacity;
};

struct team_job {
    struct team *t;
    const struct model *model;
    uint64_t elements;
    struct mate_job of[TEAM_MOST - 1];
    struct device *all[TEAM_MOST]; // by member
    bool met, apart;               // their devices make sums; or cannot

    // Of the step under way: what the compute thread knows.
    struct team_program *p;
    bool active[TEAM_MOST - 1];      // its part is not empty
    uint64_t samples[TEAM_MOST - 1]; // of all micro-batches so far
    uint32_t missed[TEAM_MOST - 1];  // of these: only the last may be so short
    bool sums;                       // on the devices
    bool *taken;                     // by range; owned
    uint32_t taken_capacity;
    struct input *lender; // of a batch that is staged and not begun with
    struct batch lent;
};

// Posts to a mate. The arguments' first member is its mate_job.
#define TEAM_POST(j, k, fn, args)                                              \
    team_post((j)->t, (k), (fn), (args), sizeof(*(args)))

#endif
