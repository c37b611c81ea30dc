// SPDX-License-Identifier: Apache-2.0
// kernels/kern.h -- what a compute backend can do: describe, plan, run.
//
// A caller fills a kern_desc (builders below), asks a device for a plan, and
// runs the plan as often as it likes on addresses of its own. "ref" is plain C
// with double sums, always built, and defines what is correct. A host backend
// that scores 0 for an op is filled in from ref, with one log line per op; a
// device backend that scores 0 for an op of the model is refused.
//
// Threads  A dev, its streams and its plans belong to the thread that opened
//          it. Different devs may be used by different threads.
// Order    Ops on one stream run in call order and may still be running when
//          kern_run() returns; results may be read after stream_sync(). Host
//          backends have finished on return.
// Memory   Addresses are in the dev's own memory, from alloc() (of a host
//          backend: any memory aligned to its element). On a device backend
//          all tensors of MATMUL and CONV_* start at multiples of KERN_ALIGN:
//          libraries have few or no ways for less. Outputs never overlap
//          inputs unless the op says so. Run allocates nothing, takes no lock.
//          Descriptors, shapes and strings are read during the call and not
//          kept. Free plans, streams, events and memory before their dev.
// Units    Elements, unless a name ends in _bytes. Strides are in elements.
// Errors   Plan says what it cannot do. Run fails only if the device is lost
//          (SL_ELOST) or the library under it refuses (SL_EINTERNAL; on a
//          device also SL_ENOMEM or SL_ENOTSUP); the op's outputs are undefined
//          then. A call that makes something leaves *out untouched if it fails.
//          `err` may be NULL.
//
// Layout   Activations NHWC, filters OHWI, dense weights [out,in]; padding
//          before and after may differ, as TensorFlow's SAME wants.
//          Tensors are dense (contiguous) unless the op says otherwise.
#ifndef KERNELS_KERN_H
#define KERNELS_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct optim; // plan/optimizer.h
struct optim_consts;
struct prover; // kernels/prove/prove.h
struct proofs;

// Raised when a backend of before would compute an op wrongly.
#define KERN_ABI 3
#define KERN_ALIGN 16 // bytes
#define KERN_DIMS 6
#define KERN_IO 12

// Numbers are part of the abi: append, never reorder.
enum kern_dtype {
    KERN_F32 = 1,
    KERN_F16,
    KERN_BF16,
    KERN_F64,
    KERN_I8,
    KERN_U8,
    KERN_I32,
    KERN_I64,
    KERN_BOOL,
};

// Order n,h,w,c. stride[] counts elements.
struct kern_shape {
    uint8_t dtype; // enum kern_dtype
    uint8_t nd;    // number of dimensions, at most KERN_DIMS
    uint8_t pad_[6];
    int64_t dim[KERN_DIMS], stride[KERN_DIMS];
};

// Memory of a device: kind of place.
enum kern_place {
    KERN_DEVICE = 1, // where the arithmetic happens
    KERN_HOST,       // host memory that copies fast (pinned, for a GPU)
};

// A piece of memory; zeroed: none.
struct kern_mem {
    void *at;
    size_t bytes;
};

// Which way a copy goes.
enum kern_dir {
    KERN_TO_DEVICE = 1, // from host memory
    KERN_TO_HOST,       // from the device's memory
    KERN_ON_DEVICE,     // within it
};

// ---------------------------------------------------------------------------
// The ops. Each line: inputs -> outputs, in the order of io[]. (x) is there
// only with the epilogue bit named beside it. n is the batch and may be 0:
// then outputs that are sums become 0, and nothing else is touched.
// [...] is any shape of at most KERN_DIMS dimensions.
//
// MATMUL       A, B, (bias [N]: BIAS) -> C [M,N], (rowsum [M]: BGRAD)
//              C = relu?(op(A) op(B) + bias); RELU. A is [M,K], or [K,M] with
//              trans_a; B is [K,N], or [N,K] with trans_b. batch > 1: all of
//              A, B, C have a leading dimension batch; no bias, no rowsum.
//              Dense forward:  x, W, b: trans_b, BIAS (| RELU)
//              Dense dgrad:    dy, W
//              Dense wgrad:    dy, x: trans_a; BGRAD: rowsum of op(A) is db
//              ACCUM adds to C (and to rowsum) instead of setting it.
// CONV_FWD     x [n,h,w,ci], w [co,kh,kw,ci/groups], (bias [co]: BIAS)
//              -> y [n,oh,ow,co].  RELU.
// CONV_DGRAD   dy [n,oh,ow,co], w -> dx [n,h,w,ci]
// CONV_WGRAD   x, dy -> dw, (db [co]: BGRAD).  ACCUM adds to dw and db.
// POOL_FWD     x [n,h,w,c] -> y [n,oh,ow,c], (aux [n,oh,ow,c]: AUX)
//              MAX: padding is -inf; aux is the winner's place in its window,
//              kh * KW + kw, the first of equals; u8 if the window has at most
//              254 taps, else i32. DRELU (with AUX): x is a ReLU's output, and
//              a winner that is not positive is noted as no tap (255 or -1),
//              so that POOL_BWD applies ReLU's mask as well.
//              AVG: padding is not counted, as in TensorFlow. A window of the
//              whole image is the global average pool.
// POOL_BWD     MAX: dy, aux -> dx, (dsum [c]: BGRAD);  AVG: dy -> dx
//              dsum is the sum of dx per channel: the bias gradient of a
//              convolution in front, four times cheaper here than there.
//              ACCUM adds to dsum.
// BN_FWD       x [...,c], gamma [c], beta [c] -> y, mean [c], var [c]
//              Statistics of this batch; var is the biased one. y may be x.
// BN_INFER     x, gamma, beta, mean, var -> y.  y may be x.
// BN_BWD       x, dy, gamma, mean, var -> dx, dgamma [c], dbeta [c],
//              (dsum [c]: BGRAD)
//              DRELU: x is a ReLU's output, dx is 0 where x <= 0. dsum is the
//              sum of dx per channel, as POOL_BWD's. ACCUM adds to dgamma,
//              dbeta and dsum. dx may be dy.
// UNARY_FWD    x [...] -> y.  y may be x.
// UNARY_BWD    saved, dy -> dx.  saved is x or y, kern_unary_saves_input()
//              says which. dx may be dy.
// BINARY       x1, x2, ... (2 to 8 of one shape) -> y.  y may be any input.
//              ADD, MUL: of all; SUB: exactly two, x1 - x2; MAX, MIN: of all.
// AXPBY        x [...] -> y:  y = a x + b y. Same dims, any strides; b = 0
//              does not read y. Copies, concatenates (one per input, into a
//              view of the output), splits, scales, accumulates. y may be
//              x, with the same strides.
// FILL         -> y [...]: y = a.  Any strides.
// SOFTMAX_FWD  x [...,c] -> y.  Over the last axis. y may be x.
// SOFTMAX_BWD  y, dy -> dx.  dx may be dy.
// XENT         logits [n,c], labels, scale f32[1] -> dlogits, stats f64[2]
//              Softmax and cross-entropy in one. labels: i32 [n] or f32 [n,c]
//              (rows sum to 1). dlogits = scale (softmax - labels), so scale
//              is 1/batch for Keras' mean, times the loss scale. stats: sum of
//              the rows' losses, count of rows in which the largest logit
//              (first of equals) is the label's, or with `top` is among so
//              many. A label outside 0..c-1 makes its row and the loss NaN.
//              With `smoothing` s labels are (1 - s) labels + s / c; what is
//              right stays. ACCUM adds to stats. dlogits may be logits.
//              WEIGHT: one input more, weight f32 [n], by which the gradient
//              and the loss of a row are multiplied, and not its count. Then
//              labels that are i32 are [n,2]: the second of two is not read.
// BCE          x [...,c], target (same shape), scale f32[1] -> dx, stats
//              Binary cross-entropy, mean over the last axis, of logits or
//              (kind PROBABILITIES) of probabilities clipped to [e, 1-e],
//              e = 1e-7. stats: sum of the rows' means; sum of the rows'
//              shares of right answers (p > 0.5 against target > 0.5). With
//              `smoothing` s targets are (1 - s) targets + s / 2. WEIGHT: as
//              XENT, weight f32 [dim 0 of x], where x has two axes or more.
// MSE          x [...,c], target, scale f32[1] -> dx, stats
//              Mean square over the last axis, or (kind ABSOLUTE) mean of
//              absolute errors, with slope 0 at 0. stats: sums of the rows'
//              means, and of their mean absolute errors, which WEIGHT (as
//              BCE) leaves alone.
//              dx may be x, in both.
// DROPOUT      x [...], key i64[2] -> y.  y may be x. key is {seed, step}.
//              y = x / (1 - rate) or 0, by a Philox4x32-10 word of (seed,
//              step, layer, element): the same op on dy is the backward.
// IMAGE_U8     x u8 [...,c] -> y [...,c or more]: y = a x + b, and 0 in the
//              channels that x has not (kern_desc_image_pad).
// REDUCE       x [...,c] -> y [c]: sum over all other axes. ACCUM.
// UNSCALE_CHECK  g [...], scale f32[1] -> h, stats f64[2]: h = scale g;
//              stats: sum of h^2 over the finite elements, in fixed order;
//              count of elements of h that are not finite. h may be g.
//              ACCUM adds to stats.
// PICK         dy, x1, x2, ... (2 to 8, all of one shape) -> dx: dy where x
//              number `which` is the first of the largest (kind MAX) or of the
//              smallest (MIN), else 0: what BINARY's inputs get. dx may be dy.
// LN_FWD       x [...,c], gamma [c], beta [c] -> y: as BN_FWD, with statistics
//              of each row. y may be x.
// LN_BWD       x, dy, gamma -> dx, t f32 [...,c]: t is dy times what gamma was
//              multiplied with; its REDUCE is dgamma, dy's dbeta. dx may be dy.
// GATHER       ids f32 [n], table f32 [v,c] -> y [n,c]: rows of the table. An
//              id is a whole number (what is behind the point is cut off); one
//              outside 0..v-1 makes its row NaN.
// GATHER_BWD   ids, dy [n,c] -> dtable f32 [v,c]: sums of the rows of dy, in
//              their order. An id that is none adds nothing.
// PENALTY      w [...], scale f32[1], unscale f32[1] -> h f32, stats f64[2]
//              p = l1 |w| + l2 w^2 per element; h = rows scale unscale p', and
//              p' is l1's part 0 at 0. stats: rows times the sum of p; 0. ACCUM
//              adds to stats.
// ---------------------------------------------------------------------------
#define KERN_OP_MAP(X)                                                         \
    X(MATMUL, "matmul")                                                        \
    X(CONV_FWD, "conv_fwd")                                                    \
    X(CONV_DGRAD, "conv_dgrad")                                                \
    X(CONV_WGRAD, "conv_wgrad")                                                \
    X(POOL_FWD, "pool_fwd")                                                    \
    X(POOL_BWD, "pool_bwd")                                                    \
    X(BN_FWD, "bn_fwd")                                                        \
    X(BN_INFER, "bn_infer")                                                    \
    X(BN_BWD, "bn_bwd")                                                        \
    X(UNARY_FWD, "unary_fwd")                                                  \
    X(UNARY_BWD, "unary_bwd")                                                  \
    X(BINARY, "binary")                                                        \
    X(AXPBY, "axpby")                                                          \
    X(FILL, "fill")                                                            \
    X(SOFTMAX_FWD, "softmax_fwd")                                              \
    X(SOFTMAX_BWD, "softmax_bwd")                                              \
    X(XENT, "xent")                                                            \
    X(BCE, "bce")                                                              \
    X(MSE, "mse")                                                              \
    X(DROPOUT, "dropout")                                                      \
    X(IMAGE_U8, "image_u8")                                                    \
    X(REDUCE, "reduce")                                                        \
    X(UNSCALE_CHECK, "unscale_check")                                          \
    X(PICK, "pick")                                                            \
    X(LN_FWD, "ln_fwd")                                                        \
    X(LN_BWD, "ln_bwd")                                                        \
    X(GATHER, "gather")                                                        \
    X(GATHER_BWD, "gather_bwd")                                                \
    X(PENALTY, "penalty")

enum kern_op {
    KERN_OP_NONE,
#define KERN_OP_ENUM(name, text) KERN_##name,
    KERN_OP_MAP(KERN_OP_ENUM)
#undef KERN_OP_ENUM
        KERN_OP_COUNT
};

// Fused parts, offered as bits: which op takes which is said above.
enum {
    KERN_BIAS = 1,     // adds a bias
    KERN_RELU = 2,     // the output goes through ReLU
    KERN_DRELU = 16,   // ReLU's mask is applied, or noted
    KERN_BGRAD = 32,   // also computes the gradient of a bias
    KERN_ACCUM = 64,   // adds to what the outputs hold
    KERN_AUX = 128,    // also writes aux
    KERN_WEIGHT = 256, // rows have weights
};

enum kern_pool_kind { KERN_POOL_MAX = 1, KERN_POOL_AVG };

// The activations. relu6 is min(max(x, 0), 6); leaky_relu has slope a; elu and
// its a; selu has Keras' constants; gelu is the exact one (erf), gelu_tanh the
// approximation. hard_sigmoid is min(max(x + 3, 0), 6) / 6, and hard_silu x
// times that.
//
// X(CODE, name, saves): the backward pass reads what the forward pass saved,
// its OUTPUT, or its INPUT where the slope is no function of the output. Each
// backend has functions <backend>_<name> and <backend>_<name>_slope; a missing
// one does not compile.
#define KERN_UNARY_MAP(X)                                                      \
    X(LINEAR, linear, OUTPUT)                                                  \
    X(RELU, relu, OUTPUT)                                                      \
    X(RELU6, relu6, OUTPUT)                                                    \
    X(LEAKY_RELU, leaky_relu, OUTPUT)                                          \
    X(ELU, elu, OUTPUT)                                                        \
    X(SELU, selu, OUTPUT)                                                      \
    X(SIGMOID, sigmoid, OUTPUT)                                                \
    X(TANH, tanh, OUTPUT)                                                      \
    X(GELU, gelu, INPUT)                                                       \
    X(GELU_TANH, gelu_tanh, INPUT)                                             \
    X(SOFTPLUS, softplus, INPUT)                                               \
    X(SILU, silu, INPUT)                                                       \
    X(SOFTSIGN, softsign, OUTPUT)                                              \
    X(EXPONENTIAL, exponential, OUTPUT)                                        \
    X(HARD_SIGMOID, hard_sigmoid, OUTPUT)                                      \
    X(HARD_SILU, hard_silu, INPUT)                                             \
    X(MISH, mish, INPUT)                                                       \
    X(HARD_TANH, hard_tanh, OUTPUT)

enum kern_unary_kind {
    KERN_UNARY_NONE,
#define KERN_UNARY_ENUM(code, name, saves) KERN_UNARY_##code,
    KERN_UNARY_MAP(KERN_UNARY_ENUM)
#undef KERN_UNARY_ENUM
        KERN_UNARY_COUNT
};

enum kern_binary_kind { KERN_ADD = 1, KERN_SUB, KERN_MUL, KERN_MAX, KERN_MIN };

enum kern_bce_kind { KERN_BCE_LOGITS = 1, KERN_BCE_PROBABILITIES };

enum kern_mse_kind { KERN_MSE_SQUARE, KERN_MSE_ABSOLUTE };

// How products and convolutions may read f32: TF32 keeps 10 bits of the
// fraction and is many times faster on a GPU. Host backends have f32 only.
enum kern_math {
    KERN_MATH_DEVICE, // as the device was opened (cuda: tf32=)
    KERN_MATH_F32,
    KERN_MATH_TF32,
};

// A sliding window: rows then columns. dilation 1 is a dense window.
struct kern_window {
    int32_t size[2], stride[2], dilation[2], pad_before[2], pad_after[2];
};

// Describes an op completely and is the key of a plan cache: it is hashed and
// compared byte by byte, so start from zero (the builders do).
struct kern_desc {
    uint32_t size; // sizeof(struct kern_desc)
    uint32_t op;   // enum kern_op
    uint32_t epilogue;
    uint8_t inputs, outputs;
    uint8_t math; // enum kern_math, of products and convolutions of f32
    uint8_t pad_;
    struct kern_shape io[KERN_IO]; // inputs, then outputs
    union {
        struct {
            struct kern_window win;
            int32_t groups;
        } conv;
        struct {
            struct kern_window win; // dilation is 1
            int32_t kind;
        } pool;
        struct {
            int32_t trans_a, trans_b, batch;
        } matmul;
        struct {
            int32_t kind;
            float a, b; // unary: slope or alpha; axpby, fill, image: a and b
        } unary;
        struct {
            float epsilon;
        } norm;
        struct {
            int32_t kind;
            float smoothing; // share s of the labels' smoothing, [0, 1)
            int32_t top;     // xent: 0 or more; 0 is 1
        } loss;
        struct {
            int32_t kind, which; // which: number of the x, from 0
        } pick;
        struct {
            float l1, l2, rows;
        } penalty;
        struct {
            float rate;
            uint32_t layer; // tells the dropouts of one model apart
            uint64_t first; // elements before x, if it is part of a tensor
        } dropout;
        uint8_t raw[96];
    } u;
};

// A device, stream or plan begins with these; the rest is its backend's.
struct kern_dev {
    const struct kern_backend *backend;
    struct kern_dev *fallback; // ref, for a host backend; owned
    uint64_t logged;           // ops with a logged fallback, by bit
    struct prover *prover;     // what proofs have shown; owned; NULL: plans are
                               // used as they are (prove=0, ref)
};
struct kern_stream {
    struct kern_dev *dev;
};
struct kern_event {
    struct kern_dev *dev;
};
struct kern_plan {
    const struct kern_backend *backend;
    const char *impl; // what will run, for logs and tests: "jit:avx2", "loops"
};

struct kern_info {
    char name[64];    // "cpu: oneDNN 2.6.3, avx512, 2 threads"
    uint64_t bytes;   // memory of the device; 0: the host's
    uint32_t dtypes;  // bit per enum kern_dtype that it computes in
    uint32_t threads; // host backends
    bool tf32;        // products of f32 that do not say may use TF32
};

// What devs of one process swap, as one of them sees it.
struct kern_exchange {
    unsigned self, n;          // number of this dev, and of devs that joined
    const void *const *mine;   // [n] here: what goes to each
    const size_t *bytes;       // [n] of that; [self] comes from each of them
    const void *const *theirs; // [n] there: what comes from each
    void *const *to;           // [n] here: where it comes to
};

#define KERN_PEERS 8 // devs that may join

// The seam for modules. Append-only: `size` tells what a module knows, and an
// entry beyond it is not called. All entries run on the dev's own thread.
struct kern_backend {
    uint32_t abi;  // KERN_ABI; anything else is refused
    uint32_t size; // bytes of this struct as the module knows it
    const char *name;
    bool host; // dev memory is host memory; run() has finished on return

    // Returns the number of usable devices; 0, with the reason in why[n], if
    // there is none. Never aborts.
    int (*probe)(char *why, size_t n);

    // Opens device `ordinal`, from 0; close frees it. `options` is
    // "key=value,key=value", or NULL; unknown keys are SL_EINVAL. SL_ENOTSUP
    // means "not on this host" and is not worth a log line. Else SL_OK or the
    // errors of kern_open.
    enum sl_err (*open)(struct kern_dev **out, int ordinal, const char *options,
                        struct sl_error *err);
    void (*close)(struct kern_dev *dev); // NULL is allowed
    // Fills in all fields of *out for the device.
    void (*info)(struct kern_info *out, struct kern_dev *dev);

    // Allocates at least `bytes` bytes (0: an address of its own, too) in
    // `place`, aligned to 64; contents are undefined. SL_OK, SL_ENOMEM, or an
    // error of the device. release frees it and zeroes *mem; an empty one is
    // allowed.
    enum sl_err (*alloc)(struct kern_mem *out, struct kern_dev *dev,
                         size_t bytes, enum kern_place place);
    void (*release)(struct kern_dev *dev, struct kern_mem *mem);

    // Makes a stream; with a `priority` above 0 its work goes before that of
    // other streams. SL_OK, SL_ENOMEM, or an error of the device. stream_sync
    // waits for all that was enqueued, and returns the error of what failed.
    enum sl_err (*stream_new)(struct kern_stream **out, struct kern_dev *dev,
                              int priority);
    void (*stream_free)(struct kern_stream *s); // NULL is allowed
    enum sl_err (*stream_sync)(struct kern_stream *s);

    // Enqueue a copy of `bytes` bytes, and setting as many to `byte`. Memory
    // stays as it is until that is done. SL_OK, or an error of the device.
    enum sl_err (*copy)(struct kern_stream *s, void *to, const void *from,
                        size_t bytes, enum kern_dir dir);
    enum sl_err (*fill)(struct kern_stream *s, void *to, int byte,
                        size_t bytes);

    // Returns 0 if it cannot compute `desc`, which was checked. Otherwise how
    // well, so that the compiler above can choose between a fused op and its
    // parts. ref scores 1.
    int (*score)(struct kern_dev *dev, const struct kern_desc *desc);

    // Makes a plan, for plan_free; fails as kern_plan_new does. May be slow:
    // compiles, and may time candidates. `desc` has passed kern_desc_check and
    // is not kept. *workspace_bytes is what run() wants, aligned to 64; never
    // more than the cap.
    enum sl_err (*plan)(struct kern_plan **out, size_t *workspace_bytes,
                        struct kern_dev *dev, const struct kern_desc *desc,
                        size_t workspace_cap_bytes, struct sl_error *err);
    void (*plan_free)(struct kern_plan *plan); // NULL is allowed

    // Enqueues the op, and returns what kern_run says. Allocates nothing and
    // waits for nothing. io[] holds the addresses in the order of desc.io.
    // Workspace may be shared by all plans that run on one stream, and be NULL
    // if the plan wants none. One plan may run with many io[].
    enum sl_err (*run)(struct kern_plan *plan, struct kern_stream *s,
                       void *const *io, void *workspace);

    // From here on NULL on host backends, where all has happened on return.

    // Marks in streams: what follows wait on `s` runs after what was before the
    // last record. query: SL_OK, or SL_EBUSY if it is not there yet. sync waits
    // until it is there. An event that was never recorded counts as there. All
    // may fail as alloc does.
    enum sl_err (*event_new)(struct kern_event **out, struct kern_dev *dev);
    void (*event_free)(struct kern_event *e); // NULL is allowed
    enum sl_err (*event_record)(struct kern_event *e, struct kern_stream *s);
    enum sl_err (*event_wait)(struct kern_stream *s, struct kern_event *e);
    enum sl_err (*event_query)(struct kern_event *e);
    enum sl_err (*event_sync)(struct kern_event *e);

    // What is enqueued on `s` in between is kept instead of run, with its
    // addresses; running the plan enqueues all of it at once (its io and
    // workspace are not looked at). A failure in between ends with record_end.
    // Nothing is recorded on `s` yet. record_end follows, also after a failure
    // in between; plan_free frees its plan. Both fail as alloc does.
    enum sl_err (*record_begin)(struct kern_stream *s);
    enum sl_err (*record_end)(struct kern_plan **out, struct kern_stream *s);

    // Returns what failed last on the dev, for a log: if it said SL_ELOST, why;
    // "" if nothing has failed. The text is the dev's.
    const char *(*fault)(struct kern_dev *dev);

    // Writes what people want to know of how the dev computes so far to out[n].
    void (*about)(char *out, size_t n, struct kern_dev *dev);

    // Enqueues an update of n elements in device memory, of w and of the slots
    // of `o`, with the constants that lie at `consts` there; the bits are those
    // of optim_apply(). Without `o`: of a moving statistic, which becomes a w +
    // b grad by these constants, each operation rounded by itself. SL_OK;
    // SL_EINVAL: it cannot do `o`, which is not optim_is_whole; or an error of
    // the device. NULL: it has no optimizers (kern_has_optim).
    enum sl_err (*optim)(struct kern_stream *s, const struct optim *o, size_t n,
                         const float *grad, float *w, float *const *slots,
                         const struct optim_consts *consts);
    // Joins devs that one process drives; NULL: theirs meet in host memory only
    // (kern_has_peers). The thread of the first lets all of them join, once,
    // while nothing is under way on any; how[size] says by what they reach each
    // other. SL_OK, SL_ENOTSUP, or an error of the device: they have not joined
    // then.
    enum sl_err (*join)(struct kern_dev *const *devs, unsigned n, char *how,
                        size_t size, struct sl_error *err);
    // Enqueues on a stream of each, in one order on all: what is at theirs[i]
    // comes to to[i], for all i but its own. What it reads on other devs is
    // there, and stays until this is over: the caller sees to that (event_wait
    // takes events of any of them). All of them call it, or none. SL_OK;
    // SL_ELOST also if they were parted.
    enum sl_err (*exchange)(struct kern_stream *s,
                            const struct kern_exchange *x);
    // Parts devs that joined, when one is lost: waits of the other devs end,
    // with undefined contents, and the devs count as not joined. Any thread.
    void (*part)(struct kern_dev *const *devs, unsigned n);
    // Sets *out to the counts of the proofs that plans of a device backend have
    // made; NULL: it makes none (kern_proofs).
    void (*proofs)(struct proofs *out, struct kern_dev *dev);
    // Returns what such a proof had left out, as kern_left_out does; NULL: it
    // cannot say.
    const char *(*left_out)(struct kern_dev *dev, const struct kern_desc *d,
                            unsigned i);
};

// ---- Opening, planning, running ------------------------------------------

// Returns backend number i, from 0, best first; NULL past the last. Only its
// name, probe and open are to be used: what open opens says its own backend.
const struct kern_backend *kern_backend_at(unsigned i);

// Opens a device: "cpu", "ref", "cuda" (the first) or "cuda:1"; or "auto", the
// first of the best backend that is usable, with a log line for each that is
// not. The module behind cuda is loaded only where a driver has devices.
//
// NULL options are none; a word "cuda.tf32=0" is for that backend alone.
// any    prove=0|1 (default 1: each plan of a host backend, and each product of
//        cuda, is compared with what is right before it is used, and an
//        implementation that is wrong is left out)
// cpu    proofs=FILE (what these comparisons have shown is kept there; a path
//        without commas; cuda keeps it with its plans)
// cpu    threads=N (up to 256; 0: as many as this process may run on; the
//        default is 1), autotune=0|1 (default 0: time the two ways to compute a
//        product in 16 bits), winograd=0|1 (default 1: fewer multiplications, a
//        few more units in the last place), direct=0|1|2 (own loops for
//        convolutions of few channels: never, where they are faster, wherever
//        they can; default 1), without=TEXT (oneDNN's implementations with TEXT
//        in their names are left out, and its next one is taken),
//        isa=base|avx2|avx512 (the widest instructions it uses)
// cuda   tf32=0|1 (default 1, for ops that do not say), deterministic=0|1
//        (default 1), autotune=0|1 (default 0: time the candidates of each
//        product), nccl=0|1 (default 1: devs that join swap by NCCL if there
//        is one), workspace=MIB (most of a library's kernel in one plan;
//        default: a quarter of the device's memory), plans=FILE (chosen plans
//        and proofs are kept there; a path without commas)
// kern_close frees *out. Returns SL_OK, or (*out is untouched then)
// SL_ENOENT: no such backend; SL_ENOTSUP: not on this host, or no device of
// that number ("cuda:1"); SL_EINVAL: an option that the backend does not know,
// or a wrong value; SL_ENOMEM; SL_ELOST, SL_EINTERNAL: the device, or its
// driver, fails. "auto" goes on after a device that fails, but not after
// SL_EINVAL or a host backend that fails. "cpu" and "ref" take no number.
enum sl_err kern_open(struct kern_dev **out, const char *name,
                      const char *options, struct sl_error *err);

// Writes what the backend tells people of how the device computes
// (backend->about) to out[n], cut if it is longer; "" if the backend tells
// nothing.
void kern_about(char *out, size_t n, struct kern_dev *dev);

// Returns how many plans of this device were compared with what is right so
// far, how many of them were wrong, and the ms that it took; zeroes where
// nothing is compared (prove=0, ref).
struct proofs kern_proofs(struct kern_dev *dev);

// Returns words about kernel number `i`, from 0, of those that this device
// leaves out because they computed wrong numbers or refused to run: for op *d,
// or for any op that was planned (`d` NULL). NULL: there are no more. The text
// is the device's, until its next plan.
const char *kern_left_out(struct kern_dev *dev, const struct kern_desc *d,
                          unsigned i);

// Returns true if backend->optim may be called; false for a module that is
// older, and for backends without it.
bool kern_has_optim(const struct kern_backend *backend);
// Returns true if the backend's join, exchange and part may be called; false
// for a module that is older, and for backends without them.
bool kern_has_peers(const struct kern_backend *backend);

// Frees the device; its plans, streams, events and memory were freed before.
// NULL is allowed.
void kern_close(struct kern_dev *dev);

// Returns how well this device computes `desc`, which kern_desc_check passes:
// the higher the better; on a host backend at least 1, by ref if by nothing
// else, as an op without elements always is; 0: it cannot. May load libraries:
// slow.
int kern_score(struct kern_dev *dev, const struct kern_desc *desc);

// Checks the descriptor and makes a plan for it, for kern_plan_free, which may
// take seconds. *workspace_bytes becomes the bytes that kern_run wants.
// workspace_cap_bytes 0 means no cap. Beats (kernels/beat.h). Returns SL_OK, or
// SL_EINVAL: it describes no op; SL_ENOTSUP: no backend here computes it;
// SL_EINTERNAL: this device computes it wrongly, which is not the caller's
// fault, or its library refuses; SL_ELOST: the device is; SL_ENOMEM: also for
// more workspace than the cap. On failure *out and *workspace_bytes are
// untouched. On a host backend the plan has proved itself (prove.h), and so has
// a product of cuda (kernels/cuda/judge.h), and with prove=1 any other op of a
// device; what is wrong is logged and left out.
enum sl_err kern_plan_new(struct kern_plan **out, size_t *workspace_bytes,
                          struct kern_dev *dev, const struct kern_desc *desc,
                          size_t workspace_cap_bytes, struct sl_error *err);
// Frees a plan that runs no more: on a device its stream was waited for. NULL
// is allowed.
void kern_plan_free(struct kern_plan *plan);

// Runs the plan on io[], one address per tensor of the descriptor. `workspace`
// has *workspace_bytes of kern_plan_new; NULL if that is 0. `stream` may be
// NULL on a host backend. Returns SL_OK, or an error as said above (Errors).
static inline enum sl_err kern_run(struct kern_plan *plan,
                                   struct kern_stream *stream, void *const *io,
                                   void *workspace)
{
    return plan->backend->run(plan, stream, io, workspace);
}

// ---- Describing -----------------------------------------------------------
// The builders zero *d and compute output shapes; they do not judge. What they
// were given is judged by kern_desc_check, which kern_plan_new calls. x[nd] are
// dimensions, in elements; a wrong `nd` or count is refused there, too.

// Returns a dense shape with dims dim[nd]; one without dimensions if nd >
// KERN_DIMS, which kern_desc_check refuses.
struct kern_shape kern_shape(enum kern_dtype dtype, unsigned nd,
                             const int64_t *dim);
// Returns the bytes of one element; 0 for an unknown dtype.
size_t kern_dtype_bytes(enum kern_dtype dtype);
// Returns the number of elements, gaps of a strided shape not counted; 1 for a
// shape without dimensions. Overflow is not checked.
int64_t kern_shape_count(const struct kern_shape *s);
// Returns the bytes of a dense shape's elements; overflow is not checked.
size_t kern_shape_bytes(const struct kern_shape *s);
// Returns the elements from the first to the last that a strided shape touches,
// both counted; 0 if it has none.
int64_t kern_shape_extent(const struct kern_shape *s);
// Returns true if the elements lie one behind the other in row-major order; the
// stride of an axis of 1 is not looked at.
bool kern_shape_dense(const struct kern_shape *s);

// Returns how many inputs lie from the first to the last that a window reads
// along one axis (0: rows, 1: columns), both counted: dilation (size - 1) + 1.
int64_t kern_window_reach(const struct kern_window *w, int axis);
// Returns the outputs along one axis: floor((in + pads - reach) / stride) + 1,
// at least 0, with kern_window_reach. A size or stride below 1 gives 0.
int64_t kern_window_out(const struct kern_window *w, int axis, int64_t in);
// Returns a window of kh x kw with strides sh, sw; no dilation, no pads
// (VALID).
struct kern_window kern_window(int32_t kh, int32_t kw, int32_t sh, int32_t sw);

// Describes MATMUL, C[m,n] = op(A)[m,k] op(B)[k,n]; batch 1.
void kern_desc_matmul(struct kern_desc *d, int64_t m, int64_t n, int64_t k,
                      bool trans_a, bool trans_b, uint32_t epilogue);
// Describes MATMUL of `batch` products: each tensor has a leading dimension.
void kern_desc_matmul_batch(struct kern_desc *d, int64_t batch, int64_t m,
                            int64_t n, int64_t k, bool trans_a, bool trans_b,
                            uint32_t epilogue);
// Describes a convolution `op`, of any direction: x is n,h,w,ci, and co the
// number of filters; the filter size is the window's.
void kern_desc_conv(struct kern_desc *d, enum kern_op op, const int64_t x[4],
                    int64_t co, const struct kern_window *w, int32_t groups,
                    uint32_t epilogue);
// Describes a pool, of either direction: x is n,h,w,c. MAX and POOL_FWD: give
// KERN_AUX for training; POOL_BWD: AUX is implied by MAX.
void kern_desc_pool(struct kern_desc *d, enum kern_op op,
                    enum kern_pool_kind kind, const int64_t x[4],
                    const struct kern_window *w, uint32_t epilogue);
// Describes BN_FWD, BN_INFER or BN_BWD of x [...,c].
void kern_desc_norm(struct kern_desc *d, enum kern_op op, unsigned nd,
                    const int64_t *x, float epsilon, uint32_t epilogue);
// Describes UNARY_FWD or UNARY_BWD of x; `a` is the slope or alpha.
void kern_desc_unary(struct kern_desc *d, enum kern_op op,
                     enum kern_unary_kind kind, float a, unsigned nd,
                     const int64_t *x);
// Describes BINARY of `inputs` tensors (2 to 8) of the shape x[nd].
void kern_desc_binary(struct kern_desc *d, enum kern_binary_kind kind,
                      unsigned inputs, unsigned nd, const int64_t *x);
// Describes AXPBY of views: dims and strides are those of shapes x and y.
void kern_desc_axpby(struct kern_desc *d, const struct kern_shape *x,
                     const struct kern_shape *y, float a, float b);
// Describes FILL: every element of y, which may be a view, becomes a.
void kern_desc_fill(struct kern_desc *d, const struct kern_shape *y, float a);
// Describes SOFTMAX_FWD or SOFTMAX_BWD over the last axis of x[nd].
void kern_desc_softmax(struct kern_desc *d, enum kern_op op, unsigned nd,
                       const int64_t *x);
// Describes XENT of n rows of c. `sparse`: labels are i32 [n]; else f32 [n,c].
void kern_desc_xent(struct kern_desc *d, int64_t n, int64_t c, bool sparse,
                    uint32_t epilogue);
// Describes BCE of x[nd], which holds logits or probabilities as `kind` says;
// targets have the shape of x.
void kern_desc_bce(struct kern_desc *d, enum kern_bce_kind kind, unsigned nd,
                   const int64_t *x, uint32_t epilogue);
// Describes MSE of x[nd], of squares; kern_desc_absolute changes that.
void kern_desc_mse(struct kern_desc *d, unsigned nd, const int64_t *x,
                   uint32_t epilogue);
// Describes DROPOUT. u.dropout.first, 0 here, lets a part of a batch have the
// mask that it has in the whole of it.
void kern_desc_dropout(struct kern_desc *d, float rate, uint32_t layer,
                       unsigned nd, const int64_t *x);
// Describes IMAGE_U8: bytes x[nd] become f32, a x + b; without padded channels
// (kern_desc_image_pad).
void kern_desc_image_u8(struct kern_desc *d, unsigned nd, const int64_t *x,
                        float a, float b);
// Describes REDUCE of x[nd] to the sums of its columns (last axis).
void kern_desc_reduce(struct kern_desc *d, unsigned nd, const int64_t *x,
                      uint32_t epilogue);
// Describes UNSCALE_CHECK of a gradient x[nd].
void kern_desc_unscale_check(struct kern_desc *d, unsigned nd, const int64_t *x,
                             uint32_t epilogue);

// Describes PICK: the gradient of x number `which`, from 0, of `inputs` x (2 to
// 8; dy is not counted). kind: MAX or MIN.
void kern_desc_pick(struct kern_desc *d, enum kern_binary_kind kind,
                    unsigned inputs, unsigned which, unsigned nd,
                    const int64_t *x);
// Describes LN_FWD or LN_BWD of x [...,c].
void kern_desc_ln(struct kern_desc *d, enum kern_op op, unsigned nd,
                  const int64_t *x, float epsilon);
// Describes GATHER or GATHER_BWD: n ids, a table of v rows of c.
void kern_desc_gather(struct kern_desc *d, enum kern_op op, int64_t n,
                      int64_t v, int64_t c);
// Describes PENALTY of weights x[nd] by the factors l1 and l2; `rows` is the
// number of samples that it is counted for.
void kern_desc_penalty(struct kern_desc *d, float l1, float l2, float rows,
                       unsigned nd, const int64_t *x, uint32_t epilogue);

// Sets the share `smoothing` of smoothed labels, in [0, 1), of an XENT or BCE.
// This and the functions below change a descriptor that a builder has filled.
void kern_desc_smooth(struct kern_desc *d, float smoothing);
// Has an XENT count a row as right if the label is among the `top` largest
// logits; 0 is 1.
void kern_desc_top(struct kern_desc *d, int32_t top);
// Makes an MSE the mean of absolute errors instead of squares.
void kern_desc_absolute(struct kern_desc *d);
// Gives an XENT, BCE or MSE a weight for each row of its first axis, as input
// number 3, behind the scale: sets KERN_WEIGHT, which the builder was not
// given, and makes labels that are i32 [n,2]. Called once per descriptor.
void kern_desc_weigh(struct kern_desc *d);

// Gives the output of an IMAGE_U8 `channels` channels, at least as many as the
// input has; those beyond the input's become 0.
void kern_desc_image_pad(struct kern_desc *d, int64_t channels);

// Gives an op mixed precision: the tensors that T (KERN_F16 or KERN_BF16;
// KERN_F32 undoes it) stands for get that dtype, all others stay as built.
//   MATMUL, CONV_*           everything but rowsum and db, which are sums. The
//                            output C or dw may be f32 instead (set it), and
//                            with ACCUM it is.
//   BN_*                     x, y, dx, dy; gamma, beta and statistics are f32
//   UNARY_*, BINARY, SOFTMAX_*   everything
//   POOL_*, DROPOUT          x, y; not aux, dsum, key
//   XENT, BCE, MSE           the first input and its gradient
//   AXPBY, FILL              x and y, which may also differ: this is the cast
//   IMAGE_U8                 y
//   REDUCE, UNSCALE_CHECK, PENALTY   the input; what comes out is f32
//   PICK                     everything
//   LN_*                     x, y, dx, dy; gamma, beta and t are f32
//   GATHER, GATHER_BWD       y; dy
// Arithmetic and sums are f32, stats f64; each output is rounded once, to
// nearest even, so that f16 may overflow to infinity.
void kern_desc_dtype(struct kern_desc *d, enum kern_dtype t);

// Changes the op to f64 in place of every float: only ref has it, and only the
// check of gradients by differences wants it.
void kern_desc_f64(struct kern_desc *d);

// Checks that *d describes an op: SL_OK, or SL_EINVAL with the reason in *err;
// no other error.
enum sl_err kern_desc_check(const struct kern_desc *d, struct sl_error *err);
// Returns the number of multiplications of a checked MATMUL or convolution,
// those with padding included; 0 for any other op.
double kern_desc_products(const struct kern_desc *d);
// Returns a hash (FNV-1a) of all bytes of *d, padding included.
uint64_t kern_desc_hash(const struct kern_desc *d);
// Returns true if all bytes are equal, padding included.
bool kern_desc_equal(const struct kern_desc *a, const struct kern_desc *b);

// Returns the name of an op, "conv_fwd", a static text; "?" for an unknown
// number.
const char *kern_op_name(enum kern_op op);

// Returns true if UNARY_BWD wants the op's input as `saved`; false if its
// output, and for an unknown kind.
bool kern_unary_saves_input(enum kern_unary_kind kind);

#endif
