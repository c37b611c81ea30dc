// SPDX-License-Identifier: Apache-2.0
// worker/device/device.h -- a job's memory and streams on a device that has
// memory of its own, and its programs there.
//
// Three streams, and what follows what; a slot is the memory for one batch, of
// which there are two:
//
//   in       x, labels -> slot | keys, scale -> block | parameters -> vector
//   compute            (arrived) ops ... ops (arrived) ops ...  (computed)
//   out                             (ready) loss, gradients -> host  (done)
//
// With the loss, and before each gradient, go the numbers that the device has
// counted in it, two per range, so that the host need not look through it.
//
//   arrived   compute waits: all that `in` was given before these ops
//   ready     out waits: the ops before a gradient is whole
//   done      the host waits, per range: the gradient is in its memory
//   computed  in waits before it overwrites parameters, keys and scale that
//             the step before read
//   used      of a slot: in waits before it overwrites the batch that the step
//             before the last read; so a batch arrives while one computes
//   copied    of a slot: the host waits before it overwrites pinned memory
//
// The ops between two points at which the host must look (wait for a range,
// hand one out) are a segment. A program's first step runs them one by one:
// libraries load their code then. From the program's second step on a segment
// is recorded, once per address of the batch, and then run by one call. Numbers
// that change between steps (scale, keys) lie in device memory, so that
// recordings stay right; they are made again if an address has changed.
//
// Threads  the compute thread, or a mate's (team.h): that of the kern_dev. The
//          parts of a step enqueue; device_settle, _take_stats, _take,
//          _take_rows and _free_batch wait, device_begin and _stage at most for
//          an earlier batch.
// Memory   device_free waits for all that was enqueued; programs placed here
//          are freed before. The vectors are pinned and zeroed.
// Units    bytes; elements of the flat vectors; ops.
// Errors   SL_ELOST with the device's own words; SL_ENOMEM; where plans are
//          made those of kern_plan_new. *out is untouched then; a step of which
//          a call has failed is given up (device_settle). `err` may be NULL.
#ifndef WORKER_DEVICE_DEVICE_H
#define WORKER_DEVICE_DEVICE_H

#include "proto/model.h"
#include "worker/data/input.h"
#include "worker/compile/overlap.h"
#include "worker/compile/program.h"

struct device;
struct device_program;

// Makes streams and vectors of `elements` elements on `dev`, which outlives
// them. SL_ENOMEM; SL_ENOTSUP: the backend is too old.
enum sl_err device_new(struct device **out, struct kern_dev *dev,
                       uint64_t elements, struct sl_error *err);
// Waits, gives staged batches back, and frees. Its programs and its resident
// were freed before. NULL is allowed.
void device_free(struct device *d);

// Returns the host's flat vector of parameters, valid as long as the device.
float *device_params(struct device *d);
// Returns the host's flat vector of the gradient, valid as long as the device.
float *device_grads(struct device *d);

// Waits until no op and no copy is under way on the device, and gives up a step
// that is under way. Returns SL_OK, or the first stream's error; the step is
// over in any case. May be called without a step.
enum sl_err device_settle(struct device *d, struct sl_error *err);

// Makes *out: the program `p` of this job, with what it needs on the device,
// for device_begin. `overlap` and `ranges` are those of p's gradient, both NULL
// for a program that does not train; `clips` is the job's model if it clips by
// a norm, else NULL. All are borrowed, and must outlive *out. `p` was compiled
// for this device's dev.
enum sl_err device_place(struct device_program **out, struct device *d,
                         struct program *p, const struct overlap *overlap,
                         const struct elements *ranges,
                         const struct model *clips, struct sl_error *err);
// Frees a program; device_settle comes before. NULL is allowed.
void device_program_free(struct device_program *p);

// Where the gradients of a step go.
enum device_way {
    DEVICE_GIVES, // to the host's memory
    DEVICE_HOLDS, // nowhere: only the loss comes out
    DEVICE_KEEPS, // to the host's memory, after device_clip
    DEVICE_SUMS,  // into a sum with those of other devices: device_sum
};

// Begins a step of program `p` with a batch, which is copied to the device
// unless it is the staged one (device_staged); `way`: where its gradients go.
// All ops of the step before were run, and its gradients taken, unless they
// were held; or it was settled. The batch has p->batch samples or more. Another
// batch that was staged for this step is given back. On failure the step is
// given up (device_settle).
enum sl_err device_begin(struct device *d, struct device_program *p,
                         const struct batch *batch, enum device_way way,
                         struct sl_error *err);
// Copies the elements of a range from `params`, the host's vector, to the
// device. To be called in a step of a program that trains, before the ops that
// read the range are run. Does nothing if no op touches the range. Else the
// device holds no vector of a name any more (device_vector).
enum sl_err device_fresh(struct device *d, const float *params, uint32_t range,
                         struct sl_error *err);
// Copies all of `params` to the device, unless the device holds the vector with
// this `name` already: in a step, before its ops are run. A name is a number,
// not 0, that the caller gives to contents: others have another one. The values
// of a resident (parameters that stay on the device, resident.h) are put aside
// first (resident_make_way).
enum sl_err device_vector(struct device *d, const float *params, uint64_t name,
                          struct sl_error *err);
// Enqueues ops [first, end) of the step, and the copies of the gradients that
// are whole then to `grads`, the host's vector. To be called in order, from op
// 0 on: `first` and `end` are 0, the program's count, or ops at which the host
// looks (overlap.h). `pulse` may be NULL. If a segment cannot be recorded, the
// program's ops are started one by one from then on, which is logged.
enum sl_err device_run(struct device *d, float *grads, uint32_t first,
                       uint32_t end, struct pulse *pulse, struct sl_error *err);
// Waits for the step's loss, and sets the program's stats to it, and its
// outputs, if it has any. To be called after all ops were run.
enum sl_err device_take_stats(struct device *d, struct sl_error *err);
// Waits until the gradient of a range is in the host's memory, at `grads` of
// device_run. Returns at once if no op touches the range. Not in a step that is
// held (DEVICE_HOLDS). May be called again.
enum sl_err device_take(struct device *d, uint32_t range, struct sl_error *err);
// Waits until the gradients of rows of tables are in the program's memory.
// Called after all ops of a program that trains were run.
enum sl_err device_take_rows(struct device *d, struct sl_error *err);
// Returns true if the gradient of a range is finite, or no op writes it. The
// range was taken (device_take), or the step is kept (DEVICE_KEEPS) and its
// loss is known.
bool device_finite(const struct device *d, uint32_t range);
// Clips the gradients of a step that is kept (DEVICE_KEEPS) by the two norms, 0
// for none, and copies them to `grads`. To be called once, after
// device_take_stats and before device_take. `clips` was not NULL when the
// program was placed.
enum sl_err device_clip(struct device *d, float *grads, double clipnorm,
                        double global_clipnorm, struct sl_error *err);
// Begins to copy the gradients of micro-batches that were held (DEVICE_HOLDS)
// to `grads`, as no further micro-batch follows; device_take waits for each
// range. `p` is the program of the last of them, and its step is then the one
// under way.
enum sl_err device_let_go(struct device *d, struct device_program *p,
                          float *grads, struct sl_error *err);

// Prepares sums of gradients on the devices all[0..n) (device_sum.c), of which
// `d` is number `self`. The array and the ranges are borrowed, and whole when
// the first step begins. On failure nothing has changed. Not called again
// before device_part.
enum sl_err device_meet(struct device *d, struct device *const *all, unsigned n,
                        unsigned self, const struct elements *ranges,
                        uint32_t count, struct sl_error *err);
// Frees what device_meet made, if it was called. No step is under way, and no
// device of the sum is used for one any more.
void device_part(struct device *d);
// Sums the gradients of a step over all devices: called on each when device_run
// has returned for the last op on all, with one `order` (device_order of one of
// them). A slice of each range comes out; device_take waits for it.
enum sl_err device_sum(struct device *d, float *grads, const uint32_t *order,
                       struct sl_error *err);
// Returns the numbers of the ranges in the order in which the step under way
// sends them out; the array belongs to the overlap of the step's program.
const uint32_t *device_order(const struct device *d);
// Returns true if our slice of a range that was taken is finite; may be called
// on any thread.
bool device_sum_finite(const struct device *d, uint32_t range);

// Copies the first `n` samples of the next step's batch to the device, where a
// step of a program for `n` samples may begin with it; `run` names the run that
// it is of. To be called when all ops of the step under way were run. The batch
// is the caller's again when this returns, unless it is pinned: then it is
// given back to `in`, which may be NULL, by device_unstage, or by the caller
// once a step has begun with it. On failure it is the caller's. A batch that
// was staged before is given back.
enum sl_err device_stage(struct device *d, const void *run, struct input *in,
                         const struct batch *batch, uint32_t n,
                         struct sl_error *err);
// Returns true, with the batch in *out, if the batch of step `step` of `run` is
// staged; false, with *out untouched, if not. It stays staged, so the call may
// be repeated. *out is for device_begin. A pinned batch is the caller's to put
// back after that; before, device_unstage gives it back. x and y of a batch
// that is not pinned are NULL.
bool device_staged(struct device *d, const void *run, uint32_t step,
                   struct batch *out);
// Forgets staged batches and gives pinned ones back. Called when the device was
// settled, since a copy may read a pinned one.
void device_unstage(struct device *d);
// Waits until a pinned batch has been copied to this device, so that its memory
// may be overwritten; it is not staged any more, and the caller puts it back.
// Does nothing for a batch that is not pinned, or not on this device.
enum sl_err device_free_batch(struct device *d, const struct batch *batch);

#endif
