// SPDX-License-Identifier: Apache-2.0
// worker/device/resident.h -- parameters and optimizer slots that stay on a
// device, where they are updated.
//
//   resident_write     values and slots, once
//   per update
//     resident_gradient  a range of the host's gradient leaves for the device
//     resident_update    the optimizer, run by run, behind all that
//   resident_read      values and slots, when they are wanted
//
// The values are what a step's ops read, so nothing is copied between an update
// and the next step. An evaluation reads other parameters there: meanwhile they
// stand aside.
//
// An update has the bits of optim_apply() (kernels/kern.h): so it does not
// matter which of a job's workers has its parameters on a device. That is
// tested when a resident is made, and a device that has other bits is not
// taken.
//
// Threads  the compute thread.
// Memory   resident_free, before the device's own; the device has one at most.
//          Besides the device's vectors it has one per slot there, and one
//          more. The host's parameters (device_params) are its space: what lies
//          there is overwritten by _new, _write and _read.
// Units    elements of the flat vector; array 0 are the values, 1 and up slots.
// Errors   as device.h; after SL_ELOST what was resident is gone. `err` may be
//          NULL.
#ifndef WORKER_DEVICE_RESIDENT_H
#define WORKER_DEVICE_RESIDENT_H

#include "kernels/optim.h"
#include "worker/device/device.h"

struct resident;

// Neighbouring elements that are updated alike.
struct resident_run {
    uint64_t first, elements;
    bool moving; // statistics, which no optimizer updates
};

// Makes a resident for updates of at most `runs` runs. The values are undefined
// until they are written. No part of a step is under way. `o` is copied; `d` is
// borrowed, and has no other resident. Runs updates on the device, and waits
// for them. SL_ENOTSUP: the device has no optimizers, or other bits. *out is
// untouched on failure.
enum sl_err resident_new(struct resident **out, struct device *d,
                         const struct optim *o, uint32_t runs,
                         struct sl_error *err);
// Settles the device, and frees; no state is lent to it any more (rank_lend).
// NULL is allowed.
void resident_free(struct resident *r);
// Returns the number of its vectors besides the device's own.
uint64_t resident_vectors(const struct resident *r);

// Copies `n` elements of an array to the device, from `first` on, and waits
// until they are there. `array` is at most the number of slots, and first + n
// at most the elements. `from` is read during the call.
enum sl_err resident_write(struct resident *r, unsigned array, uint64_t first,
                           uint64_t n, const float *from, struct sl_error *err);
// Copies `n` elements of an array to `into`, from `first` on, behind all ops
// that were enqueued; waits for them. `into` is undefined on failure.
enum sl_err resident_read(struct resident *r, unsigned array, uint64_t first,
                          uint64_t n, float *into, struct sl_error *err);

// Copies a range of the host's gradient (device_grads) to the device; the range
// must not change until resident_free_gradient.
enum sl_err resident_gradient(struct resident *r, uint64_t first, uint64_t n,
                              struct sl_error *err);
// Waits until the host's gradient may be written again; forgets parts of a
// gradient that were given without an update.
enum sl_err resident_free_gradient(struct resident *r, struct sl_error *err);

// Makes one update by the gradient that was given, with the constants of each
// run. `count` is at most the `runs` of resident_new. Both arrays are read
// during the call. Does not wait. A gradient was given (resident_gradient), and
// counts once.
enum sl_err resident_update(struct resident *r, const struct resident_run *run,
                            const struct optim_consts *consts, uint32_t count,
                            struct sl_error *err);

// Puts the values aside. For device_vector alone, which calls it and then
// overwrites them under a name that is not 0. Does nothing if they stand aside
// already; reads, writes and updates go to where they are. `r` may be NULL.
enum sl_err resident_make_way(struct resident *r, struct sl_error *err);
// Brings the values back for step_fresh: the ops behind read them. Does nothing
// if they are in place. Does not wait.
enum sl_err resident_come_back(struct resident *r, struct sl_error *err);

#endif
