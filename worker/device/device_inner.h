// SPDX-License-Identifier: Apache-2.0
// worker/device/device_inner.h -- shared by device*.c and resident.c only.
//
//   device.c          streams, vectors, the two slots; waiting for all
//   device_program.c  a program there: its block, segments, recordings
//   device_step.c     the parts of a step, in order
//   device_check.c    what it says of its gradient; clipping
//   resident.c        parameters and slots that stay there (resident.h)
//   device_sum.c      the sum with the gradients of other devices
#ifndef WORKER_DEVICE_DEVICE_INNER_H
#define WORKER_DEVICE_DEVICE_INNER_H

#include "worker/device/device.h"
#include "worker/device/resident.h"

#define DEVICE_SLOTS 2

// Pinned memory and where it is copied to.
struct device_pair {
    struct kern_mem host, device;
};

// A batch on the device. One computes, one arrives.
struct device_slot {
    struct device_pair x, labels;
    struct kern_event *copied; // on in: pinned memory is free again
    struct kern_event *used;   // on compute: device memory is
    bool staged;               // holds this batch of this run, not begun with
    const void *run;
    struct input *lender; // of that batch; NULL: it was copied
    struct batch batch;
    uint32_t n; // samples of it that were copied
};

#define DEVICE_WORD (2 * sizeof(double)) // UNSCALE_CHECK: squares, not finite

// Of a device whose gradients become one with others'. By range, where an array
// is said to be.
struct device_meeting {
    unsigned n, self;
    struct device *const *all; // [n]
    const struct overlap_range *ranges;
    uint32_t count;
    struct kern_event **whole;       // by range; owned, as all of these
    struct kern_plan **add, **check; // by range; NULL: its slice is empty
    struct device_pair words; // by range: of the sum, squares, not finite
    struct kern_mem scratch, workspace;
    uint64_t longest; // slice
};

struct device {
    struct kern_dev *dev;
    const struct kern_backend *b; // of dev
    struct kern_stream *in, *compute, *out;
    struct kern_event *arrived, *ready, *computed;
    struct kern_event **done; // by range; owned
    uint32_t done_count;
    struct device_pair params, grads; // flat vectors
    uint64_t name;                    // of the vector that params holds
    struct resident *resident; // whose parameters stay there; NULL: nobody's
    struct device_slot slot[DEVICE_SLOTS];
    uint64_t moved; // how often the address of a slot has changed

    // The step under way; p is NULL without one.
    struct device_program *p;
    unsigned at;      // its slot
    uint32_t segment; // the next to run
    bool gated;       // something arrives that the next segment waits for
    bool loss_sent;   // the loss is on its way out
    bool held;        // and nothing else goes there
    bool kept;        // nor do gradients, until they are clipped
    bool summed;      // nor do they, but as a sum

    struct device_meeting *meeting; // NULL: it meets no others
};

struct device_segment {
    uint32_t first, end; // ops
    bool reads_batch;    // its recordings hold the address of a slot
    uint32_t whole_first, whole_end; // of overlap.by_send: whole behind it
    struct {
        struct kern_plan *plan; // NULL: not recorded
        uint64_t moved;         // addresses are of that time
    } recorded[DEVICE_SLOTS];
};

// Offsets are in the program's block.
struct device_check {
    size_t ranges_at, norms_at, factors_at, one_at;
    struct kern_plan **ranges; // by place in by_send; owned, as all of these
    uint32_t *place_of;        // by range
    struct kern_plan **norms;  // by variable; NULL: it is not clipped
    double *squares;
    struct kern_mem workspace;
};

struct device_program {
    struct device *d;
    struct program *p;
    const struct overlap *overlap; // NULL: it does not train
    const struct overlap_range *ranges;
    const struct model *clips; // NULL: the job does not clip by a norm
    struct device_check check;
    // What program_own() has: what changes first, then constants, then stats
    // and outputs.
    struct device_pair block;
    size_t offset[PROGRAM_PLACES], changing_bytes;
    struct kern_event *uploaded; // on in: the pinned block is free again
    struct kern_event *stats;    // on out: the loss is in the pinned block
    struct device_segment *segments;
    uint32_t segments_count;
    size_t x_bytes, labels_bytes; // of a batch
    bool warm;                    // it has run once
    bool direct;                  // it cannot be recorded
};

// `what` failed with `rc`: tells err what the device says of it.
enum sl_err device_fail(struct device *d, enum sl_err rc, const char *what,
                        struct sl_error *err);

// At least so many bytes. What was there is lost, and not in use.
enum sl_err device_grow(struct device *d, struct kern_mem *mem, size_t bytes,
                        enum kern_place place);
// Both of a pair.
enum sl_err device_pair_grow(struct device *d, struct device_pair *pair,
                             size_t bytes);
void device_pair_release(struct device *d, struct device_pair *pair);

// A batch that was staged in vain goes back to its input. It has been copied.
void device_slot_unstage(struct device_slot *s);

// Lets the host wait for an event, without a call that waits if it is over.
enum sl_err device_await(struct device *d, struct kern_event *e);

static inline bool device_touches(const struct device_program *p,
                                  uint32_t range)
{
    return p->overlap->wait_before[range] < p->p->count;
}

// Of the block, from `at`: where its part ends.
size_t device_check_lay(struct device_program *p, size_t at);
void device_check_put(struct device_program *p); // what does not change
enum sl_err device_check_make(struct device_program *p, struct sl_error *err);
void device_check_free(struct device_program *p);
// Behind the ops of a segment.
enum sl_err device_check_enqueue(struct device_program *p,
                                 const struct device_segment *s);
// By the norms that have come out. `any`: variables are to be shrunk, and the
// factors are on their way.
enum sl_err device_check_send_factors(struct device_program *p, bool *any,
                                      double clipnorm, double global);
enum sl_err device_check_shrink(struct device_program *p);

// On compute, behind its last op.
enum sl_err device_mark_whole(struct device *d, uint32_t range);

// Scale and keys, as the program has them now.
enum sl_err device_program_upload(struct device_program *p);
enum sl_err device_program_run(struct device_program *p,
                               struct device_segment *segment,
                               struct pulse *pulse, struct sl_error *err);

#endif
