// SPDX-License-Identifier: Apache-2.0
// trainer/base/figures.h -- what this worker did since it began, in numbers
// that only rise, and a few that stand. They are of the process: leases, syncs
// and rings come and go. (They lie here since all that count are above.)
//
// Threads  any; a few relaxed additions per step, and no lock but that of the
//          text of kernels that are left out.
// Memory   static.
// Units    steps, samples, updates; microseconds.
// Errors   none are returned.
#ifndef TRAINER_BASE_FIGURES_H
#define TRAINER_BASE_FIGURES_H

#include <stdint.h>

#include "common/run/expo.h"

enum figures_phase {
    FIGURES_INPUT,   // waiting for a batch
    FIGURES_PULL,    // waiting for shards, or for other ranks
    FIGURES_COMPUTE, // running operations
    FIGURES_PUSH,    // handing gradients over
    FIGURES_PHASES
};

enum figures_step {
    FIGURES_COUNTED,   // counted newly, and applied
    FIGURES_SKIPPED,   // counted newly, but nothing was applied
    FIGURES_DUPLICATE, // shard 0 had counted it before
    FIGURES_STALE,     // refused, as its parameters were too old
    FIGURES_STEPS
};

enum figures_nonfinite {
    FIGURES_SKIP,  // train.nonfinite: skip
    FIGURES_SCALE, // f16: its loss scale was too large
    FIGURES_FAIL,  // it fails the job
    FIGURES_NONFINITE
};

enum figures_torn {
    FIGURES_PEER,      // a rank could not be reached
    FIGURES_ELSEWHERE, // another rank had left the generation first
    FIGURES_TORN
};

// Adds the times of `steps` steps (0: does nothing), which took us[phase]
// microseconds of each phase all together; each step gets the same part.
void figures_took(uint64_t steps, const uint64_t us[FIGURES_PHASES]);
// Counts `n` steps that ended as `what` says.
void figures_steps(enum figures_step what, uint64_t n);
// Counts `n` samples.
void figures_samples(uint64_t n);
// Counts one gradient that was `updates` updates behind its shard.
void figures_staleness(uint64_t updates);
// Counts one step with a loss or gradient that is not finite, by `action`.
void figures_nonfinite(enum figures_nonfinite action);
// Sets the loss scale that was used last.
void figures_loss_scale(double scale);

// Sets how many bytes the kept jobs take, of the device and the host.
void figures_memory(uint64_t bytes);

// Sets how many bytes of memory the open devices have; 0: none of their own.
void figures_device_memory(uint64_t bytes);

// Adds to the counts of kernels that were compared with their reference before
// a job used them, and of those among them that were wrong and are left out.
void figures_kernels(uint64_t checked, uint64_t left_out);

// Sets the text that names the kernels which are left out; copied, and cut at
// 499 bytes. "": none are.
void figures_left_out(const char *what);
// Writes the text of figures_left_out to out[n], cut at n - 1 bytes; "" if none
// are left out.
void figures_read_left_out(char *out, size_t n);

// Sets the generation of the ring that this worker is a rank of.
void figures_ring(uint64_t generation);
// Counts one generation of a ring that ended early, by the reason.
void figures_ring_torn(enum figures_torn why);
// Counts a step that used a forward pass which was begun in the round before.
void figures_ring_ahead(void);

// Writes all figures for /metrics. Without memory expo_end returns SL_ENOMEM.
void figures_write(struct expo *e);

#endif
