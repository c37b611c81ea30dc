// SPDX-License-Identifier: Apache-2.0
// worker/device/device_inner.h -- shared by device*.c and resident.c only.
// Threads, memory, errors: as device.h.
//
//   device.c          streams, vectors, the two slots; waiting for all
//   device_program.c  a program on a device: its block, segments, recordings
//   device_step.c     the parts of a step, in order
//   device_check.c    finite gradients, and their norms; clipping
//   resident.c        parameters and slots that stay on a device (resident.h)
//   device_sum.c      the sum with the gradients of other devices
#ifndef WORKER_DEVICE_DEVICE_INNER_H
#define WORKER_DEVICE_DEVICE_INNER_H

#include "worker/device/device.h"
#include "worker/device/resident.h"

#define DEVICE_SLOTS 2

// Pinned memory, and the device memory that it is copied to.
struct device_pair {
    struct kern_mem host, device;
};

// A batch on the device. One computes, one arrives.
struct device_slot {
    struct device_pair x, labels;
    struct kern_event *copied; // on `in`: the pinned memory is free again
    struct kern_event *used;   // on `compute`: the device memory is free again
    bool staged;     // holds `batch` of `run`, which no step has begun with
    const void *run; // names the run; never followed
    struct input *lender; // owner of a pinned batch; NULL: the batch was copied
    struct batch batch;
    uint32_t n; // samples that were copied
};

#define DEVICE_WORD (2 * sizeof(double)) // UNSCALE_CHECK: squares, not finite

// The sum of gradients with other devices.
struct device_meeting {
    unsigned n, self;
    struct device *const *all; // [n]
    const struct elements *ranges;
    uint32_t count;
    struct kern_event **whole;       // by range; all arrays are owned
    struct kern_plan **add, **check; // by range; NULL: our slice is empty
    struct device_pair words; // by range: squares, and how many are not finite
    struct kern_mem scratch, workspace;
    uint64_t longest; // elements of the longest slice
};

struct device {
    struct kern_dev *dev;
    const struct kern_backend *b; // backend of `dev`
    struct kern_stream *in, *compute, *out;
    struct kern_event *arrived, *ready, *computed;
    struct kern_event **done; // by range; owned
    uint32_t done_count;
    struct device_pair params, grads; // flat vectors
    uint64_t name; // name of the vector that `params` holds (step_vector)
    struct resident *resident; // owner of `params` on the device; NULL: none
    struct device_slot slot[DEVICE_SLOTS];
    uint64_t moved; // how often a slot's address has changed

    // The step under way; p is NULL without one.
    struct device_program *p;
    unsigned at;      // slot of its batch
    uint32_t segment; // next segment to run
    bool gated;       // a copy is on its way that the next segment waits for
    bool loss_sent;   // the loss is on its way out
    bool held;        // DEVICE_HOLDS: gradients stay on the device
    bool kept;        // DEVICE_KEEPS: gradients stay until they are clipped
    bool summed;      // DEVICE_SUMS: gradients go into the sum

    struct device_meeting *meeting; // NULL: no sums with other devices
};

struct device_segment {
    uint32_t first, end;             // ops
    bool reads_batch;                // recordings hold a slot's address
    uint32_t whole_first, whole_end; // places in overlap.by_send: whole by then
    struct {
        struct kern_plan *plan; // NULL: not recorded
        uint64_t moved;         // addresses are those of this count
    } recorded[DEVICE_SLOTS];
};

// The checks of a program's gradient. Offsets are in the program's block.
struct device_check {
    size_t ranges_at, norms_at, factors_at, one_at;
    struct kern_plan **ranges; // by place in by_send; all arrays are owned
    uint32_t *place_of;        // place in by_send, by range
    struct kern_plan **norms;  // by variable; NULL: the variable is not clipped
    double *squares;
    struct kern_mem workspace;
};

struct device_program {
    struct device *d;
    struct program *p;
    const struct overlap *overlap; // NULL: the program does not train
    const struct elements *ranges;
    const struct model *clips; // NULL: the job does not clip by a norm
    struct device_check check;
    // Memory of program_own(): first what changes from step to step, then
    // constants and gradients of rows, then stats and outputs.
    struct device_pair block;
    size_t offset[PROGRAM_PLACES], changing_bytes;
    struct kern_event *uploaded; // on `in`: the pinned block is free again
    struct kern_event *stats;    // on `out`: the loss is in the pinned block
    struct kern_event *rows; // on `out`: gradients of rows are in that block
    struct device_segment *segments;
    uint32_t segments_count;
    size_t x_bytes, labels_bytes; // bytes of a batch
    bool warm;                    // the program has run once
    bool direct;                  // the program cannot be recorded
};

// Returns `rc`, with what the device says of the failure of `what` in *err.
// `err` may be NULL; `rc` is not SL_OK.
enum sl_err device_fail(struct device *d, enum sl_err rc, const char *what,
                        struct sl_error *err);

// Makes `mem` at least `bytes` bytes large, in `place`; its old contents, which
// must not be in use, are lost if it grows. *mem of zeroes has 0 bytes. On
// failure it is empty, and the caller names the error (device_fail). Does not
// raise d->moved: for device memory of a slot's batch the caller does.
enum sl_err device_grow(struct device *d, struct kern_mem *mem, size_t bytes,
                        enum kern_place place);
// Makes both memories of a pair at least `bytes` bytes large, as device_grow
// does. On failure both are freed.
enum sl_err device_pair_grow(struct device *d, struct device_pair *pair,
                             size_t bytes);
// Frees both memories and zeroes the pair; all zeroes is allowed.
void device_pair_release(struct device *d, struct device_pair *pair);

// Gives a batch that was staged, has been copied and will not be used back to
// its input, if one lent it; the slot has none staged then, as it may before.
void device_slot_unstage(struct device_slot *s);

// Waits until the event `e` is over; without a blocking call if it is over
// already.
enum sl_err device_await(struct device *d, struct kern_event *e);

// Returns true if an op of the program touches the range.
static inline bool device_touches(const struct device_program *p,
                                  uint32_t range)
{
    return p->overlap->wait_before[range] < p->p->count;
}

// Sets where in the program's block the words of the checks lie, from byte `at`
// on. Returns the byte behind the last one.
size_t device_check_lay(struct device_program *p, size_t at);
// Writes the checks' words that stay the same from step to step into the pinned
// block, which has its memory, where device_check_lay has put them. The caller
// then copies the whole block to the device: what goes there with each step
// lies before them.
void device_check_put(struct device_program *p);
// Makes the plans of the checks; device_check_free frees them, also after a
// failure, which *err names.
enum sl_err device_check_make(struct device_program *p, struct sl_error *err);
// Frees what device_check_make made; half of it, or nothing, is allowed.
void device_check_free(struct device_program *p);
// Enqueues the checks of the ranges that are whole behind a segment; behind the
// last one also the norms of the variables that are clipped.
enum sl_err device_check_enqueue(struct device_program *p,
                                 const struct device_segment *s);
// Computes the factors that clip each variable by `clipnorm` and all of them by
// the norm `global` (0: none), from the norms that the device has computed.
// Sets *any to whether a variable is to be shrunk; if so, copies the factors to
// the device.
enum sl_err device_check_send_factors(struct device_program *p, bool *any,
                                      double clipnorm, double global);
// Enqueues on the stream `compute`, in place, the product of each clipped
// variable's gradient with its factor, unless that is 1. After
// device_check_send_factors has set *any, and after `compute` was made to wait
// for the copy of the factors on `in` (d->gated).
enum sl_err device_check_shrink(struct device_program *p);

// Records an event on the stream `compute` that says that the gradient of a
// range is whole, for the sum with other devices (device_meet). To be called
// behind the last op that writes it. Does nothing if no op touches the range.
enum sl_err device_mark_whole(struct device *d, uint32_t range);

// Enqueues a copy of scale, keys and rows of tables to the device, as the
// program has them now, if they have changed; may wait for the copy before.
enum sl_err device_program_upload(struct device_program *p);
// Enqueues the ops of a segment and the checks behind them: one by one in the
// program's first step, then from a recording, which it makes. If that fails,
// it logs that, and records no segment of the program any more (p->direct).
enum sl_err device_program_run(struct device_program *p,
                               struct device_segment *segment,
                               struct pulse *pulse, struct sl_error *err);

#endif
