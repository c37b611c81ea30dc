// SPDX-License-Identifier: Apache-2.0
// worker/device/figures.h -- what this worker did since it began, in numbers
// that only rise, and a few that stand. They are of the process: leases, syncs
// and rings come and go. (They lie here since all who count are above.)
//
// Threads  any; a few relaxed additions per step, and no lock.
// Memory   static.
// Units    steps, samples, updates; microseconds.
// Errors   those of the expo.
#ifndef WORKER_DEVICE_FIGURES_H
#define WORKER_DEVICE_FIGURES_H

#include <stdint.h>

#include "common/run/expo.h"

enum figures_phase {
    FIGURES_INPUT,   // waited for a batch
    FIGURES_PULL,    // waited for shards, or for other ranks
    FIGURES_COMPUTE, // ran operations
    FIGURES_PUSH,    // handed gradients over
    FIGURES_PHASES
};

enum figures_step {
    FIGURES_COUNTED,
    FIGURES_SKIPPED,
    FIGURES_DUPLICATE,
    FIGURES_STALE,
    FIGURES_STEPS
};

enum figures_nonfinite {
    FIGURES_SKIP,  // train.nonfinite: skip
    FIGURES_SCALE, // f16: its loss scale was too large
    FIGURES_FAIL,
    FIGURES_NONFINITE
};

enum figures_torn {
    FIGURES_PEER,      // a rank could not be reached
    FIGURES_ELSEWHERE, // others had left it first
    FIGURES_TORN
};

// So many steps took so long in all, each the same part of it.
void figures_took(uint64_t steps, const uint64_t us[FIGURES_PHASES]);
void figures_steps(enum figures_step what, uint64_t n);
void figures_samples(uint64_t n);
void figures_staleness(uint64_t updates);
void figures_nonfinite(enum figures_nonfinite action);
void figures_loss_scale(double scale);

// Jobs that are kept take so much memory by now, of the device and the host.
void figures_memory(uint64_t bytes);

// What the devices that are open have; 0: none has memory of its own.
void figures_device_memory(uint64_t bytes);

// A generation of a ring that this worker is a rank of; one that was torn.
void figures_ring(uint64_t generation);
void figures_ring_torn(enum figures_torn why);
// A step went on with a forward pass that had begun in the round before it.
void figures_ring_ahead(void);

void figures_write(struct expo *e);

#endif
