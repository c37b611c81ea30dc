// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cuda.h -- the inside of the CUDA module: device, memory,
// streams, plans, and our own kernels.
//
// Needs libcudart and nothing else. What needs cuBLASLt or cuDNN builds on it:
// a backend (struct kern_backend) takes the cuda_* entries below as they are,
// asks cuda_own_score() besides the vendors' parts, and lets every plan begin
// with a struct cuda_plan, so that one run and one free serve all.
//
// Threads  A dev and all that is made from it: the thread that opened it.
// Memory   Device and pinned host memory from cuda_alloc(); a run allocates
//          nothing and waits for nothing.
// Order    Everything is enqueued on the stream that is given; only what says
//          so waits for the device.
// Errors   SL_OK is success. A sticky device error (the context is gone) is
//          SL_ELOST, then and ever after on this dev; dev->fault says what it
//          was. Too little memory is SL_ENOMEM. The rest is SL_EINTERNAL. Work
//          that was enqueued fails at a later call. *out is untouched on
//          failure. `err` may be NULL.
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/args.h"
#include "kernels/desc.h"
#include "kernels/optim.h"

enum cuda_kernel {
#define KERNEL(name, args, kinds) CUDA_##name,
#include "kernels/cuda/kernels.def"
    CUDA_KERNELS
};

#define CUDA_FAULT_TEXT 200

// What a dev knows of the devs that it has joined.
struct cuda_peers {
    _Atomic unsigned n; // 0 again if they have parted: any thread
    unsigned self;
    int ordinal[KERN_PEERS];
    void *comm; // NCCL's; NULL: copies
};

struct cuda_dev {
    struct kern_dev base;
    int ordinal;
    int sm; // 90 for 9.0
    int multiprocessors;
    bool lost;                   // a sticky error came: SL_ELOST ever after
    char fault[CUDA_FAULT_TEXT]; // text of the last error, or of the one that
                                 // lost the device: for logs
    char name[64];
    uint64_t bytes; // bytes of the device's memory
    cudaLibrary_t library;
    cudaKernel_t kernel[CUDA_KERNELS];
    void *vendor; // state of the parts that need other libraries; theirs
    // Theirs or NULL: called before a stream ends, to drop references to it.
    void (*stream_ends)(struct cuda_dev *dev, cudaStream_t s);
    struct cuda_peers peers; // n is 0: it has not joined
};

struct cuda_stream {
    struct kern_stream base;
    cudaStream_t at;
};

struct cuda_event {
    struct cuda_dev *dev;
    cudaEvent_t at;
};

// Every plan of a CUDA backend begins with this.
struct cuda_plan {
    struct kern_plan base;
    struct cuda_dev *dev;
    enum sl_err (*run)(struct cuda_plan *p, cudaStream_t s, void *const *io,
                       void *workspace);
    void (*free)(struct cuda_plan *p);
};

// The fatbin of all.cu.
extern const unsigned char cuda_fatbin[];

// ---- Entries of struct kern_backend ---------------------------------------

// Returns the devices that the runtime can use; 0 and the reason in why[n] if
// there is none or the driver is too old.
int cuda_probe(char *why, size_t n);

// What this build has for a compute capability (90 is 9.0).
enum cuda_code {
    CUDA_CODE_MACHINE = 1, // machine code
    CUDA_CODE_PTX,         // it is newer: the driver compiles
    CUDA_CODE_TOO_OLD,
    CUDA_CODE_NONE, // neither old nor new, and none of ours
};
// Returns what this build has for the compute capability `sm`, as 90 for 9.0.
enum cuda_code cuda_code_for(int sm);

// Opens device `ordinal`, from 0, for `backend` and finds all kernels; it
// becomes the calling thread's device. If its driver has to compile our
// kernels, that is one log line. cuda_close frees it. SL_ENOTSUP: no usable
// GPU, or this build has no code for it; SL_ENOENT: none of that number;
// SL_ENOMEM; else as cuda_fail.
enum sl_err cuda_dev_open(struct cuda_dev **out,
                          const struct kern_backend *backend, int ordinal,
                          struct sl_error *err);
// Unloads our kernels, unless the device is lost, and frees the dev. NULL is
// allowed.
void cuda_close(struct kern_dev *dev);
// Fills in name, memory and dtypes of the device; the other fields are 0.
void cuda_info(struct kern_info *out, struct kern_dev *dev);
// Allocates `bytes` bytes of device memory or (KERN_HOST) pinned memory, which
// the other devices of the process can use as well; 0 bytes have an address of
// their own, too. The dev becomes the calling thread's device. cuda_release
// frees it. SL_ENOMEM: too little memory of either kind.
enum sl_err cuda_alloc(struct kern_mem *out, struct kern_dev *dev, size_t bytes,
                       enum kern_place place);
// Frees what cuda_alloc gave and zeroes *mem; an empty *mem is allowed. A
// failure is only noted in the dev.
void cuda_release(struct kern_dev *dev, struct kern_mem *mem);
// Makes a stream, for cuda_stream_free; with a `priority` above 0 its work goes
// before that of other streams. The dev becomes the calling thread's device.
enum sl_err cuda_stream_new(struct kern_stream **out, struct kern_dev *dev,
                            int priority);
// Calls dev->stream_ends, if it is set, and destroys the stream; does not wait
// for its work. A failure is only noted in the dev. NULL is allowed.
void cuda_stream_free(struct kern_stream *s);
// Waits for all work that was enqueued on `s`. Returns SL_OK, or the error of
// work that failed.
enum sl_err cuda_stream_sync(struct kern_stream *s);
// Enqueues a copy of `bytes` bytes; host memory that is not pinned may make the
// call wait. Both places stay as they are until it is done.
enum sl_err cuda_copy(struct kern_stream *s, void *to, const void *from,
                      size_t bytes, enum kern_dir dir);
// Enqueues setting `bytes` bytes of device memory to `byte`, 0 to 255.
enum sl_err cuda_fill(struct kern_stream *s, void *to, int byte, size_t bytes);
// Frees a plan of a CUDA backend (cuda_plan.free), of which no run is under
// way. NULL is allowed.
void cuda_plan_free(struct kern_plan *plan);
// Enqueues what the plan computes on `s` (cuda_plan.run). SL_ELOST at once if
// the dev is lost.
enum sl_err cuda_run(struct kern_plan *plan, struct kern_stream *s,
                     void *const *io, void *workspace);

// ---- Events: order between streams ----------------------------------------

// Makes an event, which measures no times; cuda_event_free frees it. The dev
// becomes the calling thread's device. SL_ENOMEM.
enum sl_err cuda_event_new(struct cuda_event **out, struct kern_dev *dev);
// Destroys the event; a failure is only noted in the dev. NULL is allowed.
void cuda_event_free(struct cuda_event *e);
// Enqueues the event on `s`: it has happened once all that was enqueued before
// is done. Replaces an earlier record.
enum sl_err cuda_event_record(struct cuda_event *e, struct kern_stream *s);
// Makes what follows on `s` wait for the last record of `e`; the caller does
// not wait.
enum sl_err cuda_event_wait(struct kern_stream *s, struct cuda_event *e);
// Returns SL_OK if the event has happened or was never recorded, SL_EBUSY if
// not yet; else the error of work that failed.
enum sl_err cuda_event_query(struct cuda_event *e);
// Makes the calling thread wait until the event has happened; fails as
// cuda_stream_sync does.
enum sl_err cuda_event_sync(struct cuda_event *e);

// ---- Several devices ------------------------------------------------------

// Joins n devs that swap by copies, directly where the hardware can; writes to
// how[size] how many pairs can, also if it then fails. Changes the calling
// thread's device to that of devs[0]. SL_ENOTSUP: more than KERN_PEERS, and
// how[size] stays; else as cuda_fail. On failure none has joined.
enum sl_err cuda_join(struct kern_dev *const *devs, unsigned n, char *how,
                      size_t size, struct sl_error *err);
// Enqueues the copies from the other devs to this one (kern_backend.exchange).
// SL_ELOST if the devs were parted (cuda_part): then one of them is lost, and
// from now on this one counts as lost.
enum sl_err cuda_exchange(struct kern_stream *s, const struct kern_exchange *x);
// Marks n devs as not joined; their next cuda_exchange fails. Any thread.
void cuda_part(struct kern_dev *const *devs, unsigned n);

// ---- Recording ------------------------------------------------------------

// Begins a recording: what is enqueued on `s` until cuda_record_end is not run
// but kept. Other threads may use CUDA meanwhile.
enum sl_err cuda_record_begin(struct kern_stream *s);
// Ends the recording and makes a plan, for cuda_plan_free, that enqueues all of
// it at once (io and workspace of its run are not looked at: addresses are
// those of the recording). On failure, also one of a call in between, there is
// no plan, and `s` records no more.
enum sl_err cuda_record_end(struct kern_plan **out, struct kern_stream *s);

// ---- For the parts --------------------------------------------------------

// Returns the dev as its backend's struct.
static inline struct cuda_dev *cuda_dev(struct kern_dev *dev)
{
    return (struct cuda_dev *)dev;
}

// Returns CUDA's handle of a stream; the default stream for NULL.
static inline cudaStream_t cuda_stream(struct kern_stream *s)
{
    return s ? ((struct cuda_stream *)s)->at : NULL;
}

// Fills in what every plan begins with. `impl` lives as long as the plan; `run`
// enqueues the plan's work, `free` frees it.
static inline void
cuda_plan_init(struct cuda_plan *p, struct cuda_dev *dev, const char *impl,
               enum sl_err (*run)(struct cuda_plan *p, cudaStream_t s,
                                  void *const *io, void *workspace),
               void (*free)(struct cuda_plan *p))
{
    p->base.backend = dev->base.backend;
    p->base.impl = impl;
    p->dev = dev;
    p->run = run;
    p->free = free;
}

// Returns SL_OK, or what `rc` means: SL_ELOST (and from then on for every call
// of this dev, a success too), SL_ENOMEM or SL_EINTERNAL; dev->fault keeps the
// text. `what` is the call, for the text. CUDA's own last error is cleared,
// unless the dev is lost.
enum sl_err cuda_result(struct cuda_dev *dev, cudaError_t rc, const char *what);
// Returns what cuda_result does, and fills *err with the text of a failure.
enum sl_err cuda_fail(struct cuda_dev *dev, cudaError_t rc, const char *what,
                      struct sl_error *err);

// Launches gx x gy blocks of CUDA_THREADS of `kernel` on `s` with the arguments
// args[bytes], which are copied; nothing, SL_OK, if gx or gy is 0. Use the
// macro: it takes the arguments' size from their type.
enum sl_err cuda_launch_bytes(struct cuda_dev *dev, cudaStream_t s,
                              enum cuda_kernel kernel, int64_t gx, int64_t gy,
                              const void *args, size_t bytes);
#define CUDA_LAUNCH(dev, s, kernel, gx, gy, args)                              \
    cuda_launch_bytes(dev, s, kernel, gx, gy, args, sizeof(*(args)))

// ---- Our own kernels ------------------------------------------------------

// Returns 100 if our kernels compute `desc`, which is checked: every op but
// products and convolutions, no f64 but the stats, and at most 2^31 - 1 in one
// dimension; else 0.
int cuda_own_score(struct kern_dev *dev, const struct kern_desc *desc);
// Makes the plan of an op with a score (cuda_own_score) above 0. SL_ENOMEM: no
// memory, or the op wants more workspace than the cap.
enum sl_err cuda_own_plan(struct kern_plan **out, size_t *workspace_bytes,
                          struct kern_dev *dev, const struct kern_desc *desc,
                          size_t workspace_cap_bytes, struct sl_error *err);

// Enqueues one update of an optimizer, or of a moving statistic (`o` NULL),
// over n elements in device memory: struct kern_backend's `optim`. SL_EINVAL:
// there is no kernel for `o`, as for one of whole variables (optim_is_whole).
enum sl_err cuda_optim(struct kern_stream *s, const struct optim *o, size_t n,
                       const float *grad, float *w, float *const *slots,
                       const struct optim_consts *consts);

#endif
