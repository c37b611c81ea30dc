// SPDX-License-Identifier: Apache-2.0
// worker/device/loss_scale.h -- the number that the loss of an f16 step is
// multiplied by, so that small gradients do not vanish.
//
// Dynamic, as Keras has it: halved (never below 1) at every step whose gradient
// is not finite, which changes nothing else; doubled after so many finite steps
// in a row, while twice as much is still a float. Or fixed, as the job says.
// Each worker has its own.
//
// Threads  the compute thread's: pure, but for the struct.
// Memory   none.
// Units    powers of two, unless the job says otherwise.
// Errors   none.
#ifndef WORKER_DEVICE_LOSS_SCALE_H
#define WORKER_DEVICE_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_START 32768.0
#define LOSS_SCALE_GROWTH 2000 // finite steps in a row that double it

struct loss_scale {
    double s;
    bool dynamic;
    uint32_t good, growth;
};

// Sets a fixed scale if `fixed` > 0; else a dynamic one that begins at `known`,
// another worker's last scale, or at LOSS_SCALE_START if `known` is below 1 or
// no finite float.
void loss_scale_init(struct loss_scale *l, double fixed, double known);

// Changes the scale after a step, the gradient of which was `finite` or not.
// Returns true if it was not finite and the scale was made smaller, so that the
// next step may do better; else false. A fixed scale stays.
bool loss_scale_step(struct loss_scale *l, bool finite);

#endif
