// SPDX-License-Identifier: Apache-2.0
// bench/floor.h -- what the machine gives to a model's multiplications.
//
// Threads  one; it should be pinned.
// Memory   a floor_gemms is freed by floor_gemms_free.
// Units    a multiplication with its addition is two operations (FLOP).
// Errors   program_die.
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>

#include "proto/model.h"

// Operations of one training step: forward, and backward by weights and, but
// for the first layer, by data. As written, so without Winograd's savings.
double floor_flop(const struct model *m, uint32_t batch);

// The most operations per second that fused multiply-adds reach on this core;
// narrow: with vectors of eight floats at most.
double floor_fma_peak(bool narrow);

// The products of a step of a model of dense layers, alone, through oneDNN's
// sgemm.
struct floor_gemms;
struct floor_gemms *floor_gemms_new(const struct model *m, uint32_t batch);
void floor_gemms_run(struct floor_gemms *g);
void floor_gemms_free(struct floor_gemms *g);

#endif
