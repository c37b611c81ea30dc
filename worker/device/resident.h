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
//          there is overwritten by _new, _write and _read. _new also makes the
//          device's gradient zeroes, and the first elements of the host's.
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

// Makes a resident on `d`, for updates of at most `runs` runs by the optimizer
// `o`, which is copied. Its values are undefined until resident_write. `d` is
// borrowed, has no other resident, and no step under way. Tries updates on the
// device, and waits for them. SL_ENOTSUP: the device has no optimizers, or
// their results have other bits than optim_apply's. *out is untouched on
// failure.
enum sl_err resident_new(struct resident **out, struct device *d,
                         const struct optim *o, uint32_t runs,
                         struct sl_error *err);
// Settles the device, and frees; no state is lent to it any more (rank_lend).
// NULL is allowed.
void resident_free(struct resident *r);
// Returns the number of its vectors besides the device's own.
uint64_t resident_vectors(const struct resident *r);

// Copies `n` elements from `from` to array `array` on the device, from element
// `first` on, and waits until they are there. `array` is at most the number of
// slots, and first + n at most the number of elements.
enum sl_err resident_write(struct resident *r, unsigned array, uint64_t first,
                           uint64_t n, const float *from, struct sl_error *err);
// Copies `n` elements of array `array`, from element `first` on, to `into`,
// after all ops that were enqueued, and waits for them. `into` is undefined on
// failure.
enum sl_err resident_read(struct resident *r, unsigned array, uint64_t first,
                          uint64_t n, float *into, struct sl_error *err);

// Copies a range of the host's gradient (device_grads) to the device; the range
// must not change until resident_free_gradient.
enum sl_err resident_gradient(struct resident *r, uint64_t first, uint64_t n,
                              struct sl_error *err);
// Waits until the host's gradient may be written again, as it was copied;
// forgets parts of a gradient that were given without an update.
enum sl_err resident_free_gradient(struct resident *r, struct sl_error *err);

// Enqueues one update by the gradient that was given with resident_gradient
// since the last one. `count`, at most the `runs` of resident_new, is the
// length of `run` and of `consts`, the constants of each run: the optimizer's;
// of a moving run those of its average, which becomes a w + b g (struct
// optim_consts), and no slot changes. Both arrays are read during the call.
// Does not wait.
enum sl_err resident_update(struct resident *r, const struct resident_run *run,
                            const struct optim_consts *consts, uint32_t count,
                            struct sl_error *err);

// Copies the values to a place aside, so that device_vector, the only caller,
// can overwrite them under a name that is not 0. Does nothing if they are aside
// already, or `r` is NULL. Reads, writes and updates go to where the values
// are.
enum sl_err resident_make_way(struct resident *r, struct sl_error *err);
// Copies the values back to where ops read them, for step_fresh, before the ops
// that follow. Does nothing if they are in place. Does not wait.
enum sl_err resident_come_back(struct resident *r, struct sl_error *err);

#endif
