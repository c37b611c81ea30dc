// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/vendor.c -- options, handles, and what both libraries share.
#include "kernels/cuda/vendor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/run/log.h"
#include "common/base/mem.h"

// A part and no fixed size: 1 GiB is too little for cuDNN's engines with tensor
// cores in imagenette's second convolution, from batch 384 on.
#define WORKSPACE_SHARE 4 // by default one plan may have 1/4 of the memory

// ---- Options --------------------------------------------------------------

static bool vendor_parse_number(int64_t *out, const char *text, int64_t most)
{
    char *end = NULL;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= 0 &&
           *out <= most;
}

static enum sl_err vendor_parse_option(struct vendor_options *o,
                                       const char *word, struct sl_error *err)
{
    const struct {
        const char *key;
        bool *to;
    } switches[] = {
        {"tf32=", &o->tf32},         {"deterministic=", &o->deterministic},
        {"autotune=", &o->autotune}, {"nccl=", &o->nccl},
        {"prove=", &o->prove},
    };
    int64_t n;

    for (unsigned i = 0; i < SL_COUNT(switches); i++) {
        size_t len = strlen(switches[i].key);

        if (strncmp(word, switches[i].key, len) == 0 &&
            vendor_parse_number(&n, word + len, 1)) {
            *switches[i].to = n != 0;
            return SL_OK;
        }
    }
    if (strncmp(word, "workspace=", 10) == 0 &&
        vendor_parse_number(&n, word + 10, 1 << 20)) {
        o->workspace_bytes = (size_t)n << 20;
        return SL_OK;
    }
    if (strncmp(word, "plans=", 6) == 0) {
        sl_free(o->plans);
        o->plans = sl_strdup(word + 6);
        return o->plans ? SL_OK : sl_no_memory(err);
    }
    return sl_fail(err, SL_EINVAL,
                   "backend cuda: option \"%s\" is not tf32=0|1, "
                   "deterministic=0|1, autotune=0|1, nccl=0|1, prove=0|1, "
                   "workspace=MIB or plans=FILE",
                   word);
}

enum sl_err vendor_options_read(struct vendor_options *out, const char *text,
                                struct sl_error *err)
{
    struct vendor_options o = {
        .tf32 = true, // as TensorFlow
        .nccl = true,
        .deterministic = true,
        .prove = true,
        .workspace_bytes = VENDOR_WORKSPACE_AUTO,
    };
    char *scratch = sl_strdup(text ? text : ""), *left = scratch;
    enum sl_err rc = SL_OK;

    if (!scratch)
        return sl_no_memory(err);
    while (rc == SL_OK && left && *left)
        rc = vendor_parse_option(&o, strsep(&left, ","), err);
    sl_free(scratch);
    if (rc == SL_OK)
        *out = o;
    else
        sl_free(o.plans);
    return rc;
}

// ---- Life -----------------------------------------------------------------

bool vendor_dnn_fits(size_t version)
{
    return version / 10000 == CUDNN_MAJOR;
}

static enum sl_err check_versions(struct sl_error *err)
{
    size_t dnn = cudnnGetVersion(), built = CUDNN_VERSION;

    if (!vendor_dnn_fits(dnn))
        return sl_fail(err, SL_ENOTSUP,
                       "this build needs cuDNN %d; version %zu is installed",
                       CUDNN_MAJOR, dnn);
    if (dnn / 100 < built / 100)
        LOG(INFO, "cuDNN is older than the one this was built with",
            "version=%zu built_with=%zu", dnn, built);
    return SL_OK;
}

enum sl_err vendor_new(struct cuda_dev *dev, struct vendor_options *options,
                       struct sl_error *err)
{
    struct vendor *v = NULL;
    enum sl_err rc = check_versions(err);

    if (rc == SL_OK) {
        v = sl_calloc(1, sizeof(*v));
        if (!v)
            rc = sl_no_memory(err);
    }
    if (rc != SL_OK) {
        sl_free(options->plans);
        return rc;
    }
    v->options = *options;
    if (v->options.workspace_bytes == VENDOR_WORKSPACE_AUTO)
        v->options.workspace_bytes = (size_t)(dev->bytes / WORKSPACE_SHARE);
    plans_open(&v->plans, v->options.plans);
    dev->vendor = v;
    dev->stream_ends = conv_stream_ends;
    return SL_OK;
}

// After a device is lost its handles cannot be taken down; the process is to
// end anyway.
void vendor_free(struct cuda_dev *dev)
{
    struct vendor *v = dev->vendor;

    if (!v)
        return;
    if (v->blas && !dev->lost)
        cublasLtDestroy(v->blas);
    if (v->dnn && !dev->lost)
        cudnnDestroy(v->dnn);
    plans_close(&v->plans);
    judge_book_release(&v->book);
    sl_free(v->options.plans);
    sl_free(v);
    dev->vendor = NULL;
    dev->stream_ends = NULL;
}

enum sl_err vendor_blas(struct cuda_dev *dev, struct sl_error *err)
{
    struct vendor *v = vendor(dev);
    cublasStatus_t rc;

    if (v->blas)
        return SL_OK;
    rc = cublasLtCreate(&v->blas);
    if (rc == CUBLAS_STATUS_SUCCESS)
        return SL_OK;
    v->blas = NULL;
    return sl_fail(err,
                   rc == CUBLAS_STATUS_ALLOC_FAILED ? SL_ENOMEM : SL_EINTERNAL,
                   "cuBLASLt does not open on GPU %d: %s", dev->ordinal,
                   cublasLtGetStatusString(rc));
}

enum sl_err vendor_dnn(struct cuda_dev *dev, struct sl_error *err)
{
    struct vendor *v = vendor(dev);
    cudnnStatus_t rc;

    if (v->dnn)
        return SL_OK;
    rc = cudnnCreate(&v->dnn);
    if (rc == CUDNN_STATUS_SUCCESS)
        return SL_OK;
    v->dnn = NULL;
    return sl_fail(err, SL_EINTERNAL, "cuDNN does not open on GPU %d: %s",
                   dev->ordinal, cudnnGetErrorString(rc));
}

// ---- Questions ------------------------------------------------------------

bool vendor_tf32(const struct vendor *v, const struct kern_desc *d)
{
    return d->math == KERN_MATH_TF32 ||
           (d->math == KERN_MATH_DEVICE && v->options.tf32);
}

uint64_t vendor_key(struct cuda_dev *dev, const struct kern_desc *d,
                    size_t cap_bytes)
{
    const struct vendor *v = vendor(dev);
    struct kern_desc as = *d;
    // All that a choice depends on: a plan kept under a smaller cap, or by an
    // older library, would stay in use where a better one can be had.
    const uint64_t facts[] = {
        v->options.deterministic,
        v->options.autotune,
        cap_bytes,
        cudnnGetVersion(),
        cublasLtGetVersion(),
        (uint64_t)dev->sm,
        dev->bytes,
    };
    uint64_t h;

    as.math = vendor_tf32(v, d) ? KERN_MATH_TF32 : KERN_MATH_F32;
    h = kern_desc_hash(&as);
    for (unsigned i = 0; i < SL_COUNT(facts); i++)
        h = (h ^ facts[i]) * 0x100000001b3u;
    for (const char *c = dev->name; *c; c++)
        h = (h ^ (uint8_t)*c) * 0x100000001b3u;
    return h;
}

bool vendor_aligned(unsigned n, void *const *at)
{
    uintptr_t bits = 0;

    for (unsigned i = 0; i < n; i++)
        bits |= (uintptr_t)at[i];
    return bits % KERN_ALIGN == 0;
}

// ---- Refusals -------------------------------------------------------------

static bool recording(cudaStream_t s)
{
    enum cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing(s, &now) == cudaSuccess &&
           now != cudaStreamCaptureStatusNone;
}

bool vendor_try_next(cudaStream_t s, enum sl_err rc)
{
    return rc != SL_OK && rc != SL_ELOST && !recording(s);
}

enum sl_err vendor_refused(struct cuda_dev *dev, cudaStream_t s, enum sl_err rc,
                           const char *what)
{
    cudaError_t cuda = cudaPeekAtLastError();
    enum sl_err code;

    // A kernel may have failed without a report so far: wait for it.
    if (cuda == cudaSuccess && rc == SL_ELOST && !recording(s))
        cuda = cudaStreamSynchronize(s);
    code = cuda_result(dev, cuda, what);
    if (code != SL_OK)
        return code; // CUDA itself says why
    snprintf(dev->fault, sizeof(dev->fault),
             "GPU %d (%s): %s: the library refused", dev->ordinal, dev->name,
             what);
    return rc == SL_ELOST ? SL_EINTERNAL : rc;
}

void vendor_tell_next(struct cuda_dev *dev, const struct kern_desc *d,
                      const char *impl)
{
    LOG(WARN, "GPU library refuses an op; trying another way",
        "op=%s by=%s error=%s", kern_op_name((enum kern_op)d->op), impl,
        dev->fault);
}

// ---- Tensor cores ---------------------------------------------------------

// True the first time that this op is seen.
static bool is_news(struct vendor *v, const struct kern_desc *d)
{
    uint64_t h = kern_desc_hash(d);

    for (unsigned i = 0; i < v->told_count; i++)
        if (v->told[i] == h)
            return false;
    if (v->told_count == VENDOR_TOLD)
        return false;
    v->told[v->told_count++] = h;
    return true;
}

// "f32[512,128,128,32]"
static void vendor_format_shape(char *to, size_t n, const struct kern_shape *s)
{
    const char *dtype = s->dtype == KERN_F16    ? "f16"
                        : s->dtype == KERN_BF16 ? "bf16"
                                                : "f32";
    int used = snprintf(to, n, "%s[", dtype);

    for (unsigned i = 0; i < s->nd && used >= 0 && (size_t)used < n; i++)
        used += snprintf(to + used, n - (size_t)used, "%s%" PRId64,
                         i > 0 ? "," : "", s->dim[i]);
    if (used >= 0 && (size_t)used < n)
        snprintf(to + used, n - (size_t)used, "]");
}

void vendor_tell_cores(struct cuda_dev *dev, const struct kern_desc *d,
                       const struct graph_picks *p, size_t cap_bytes)
{
    bool advice =
        p->cores == GRAPH_CORES_RANKED || p->cores == GRAPH_CORES_SLOWER;
    enum log_level level = advice ? LOG_LEVEL_INFO : LOG_LEVEL_WARN;
    char first[64], second[64];

    if (p->cores <= GRAPH_CORES_FORBIDDEN || !is_news(vendor(dev), d))
        return;
    vendor_format_shape(first, sizeof(first), &d->io[0]);
    vendor_format_shape(second, sizeof(second), &d->io[1]);
    if (log_on(level))
        log_event(level, "op goes without tensor cores",
                  "op=%s of=%s with=%s why=%s workspace_mib=%zu wanted_mib=%zu",
                  kern_op_name((enum kern_op)d->op), first, second,
                  graph_cores_name(p->cores), cap_bytes >> 20,
                  (p->missed_bytes + ((1u << 20) - 1)) >> 20);
}

void vendor_about(char *out, size_t n, struct cuda_dev *dev)
{
    const struct vendor *v = vendor(dev);
    int used = snprintf(out, n, "up to %zu MiB of workspace for an op",
                        v->options.workspace_bytes >> 20);

    if (v->told_count > 0 && used >= 0 && (size_t)used < n)
        used += snprintf(out + used, n - (size_t)used,
                         "; ops without tensor cores: %u", v->told_count);
    if (v->book.counts.wrong > 0 && used >= 0 && (size_t)used < n)
        snprintf(out + used, n - (size_t)used,
                 "; kernels that are wrong here: %u of %u",
                 v->book.counts.wrong, v->book.counts.checked);
}

// ---- Products over nothing ------------------------------------------------

static void desc_plan_free(struct cuda_plan *plan)
{
    sl_free(plan);
}

enum sl_err
desc_plan_new(struct kern_plan **out, size_t *workspace_bytes,
              struct cuda_dev *dev, const struct kern_desc *d, const char *impl,
              enum sl_err (*run)(struct cuda_plan *p, cudaStream_t s,
                                 void *const *io, void *workspace),
              struct sl_error *err)
{
    struct desc_plan *p = sl_calloc(1, sizeof(*p));

    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, impl, run, desc_plan_free);
    p->desc = *d;
    *out = &p->base.base;
    *workspace_bytes = 0;
    return SL_OK;
}

static enum sl_err nothing_run(struct cuda_plan *plan, cudaStream_t s,
                               void *const *io, void *workspace)
{
    const struct kern_desc *d = &((struct desc_plan *)plan)->desc;
    enum sl_err rc = SL_OK;

    if (kern_has(d, KERN_ACCUM))
        return SL_OK;
    for (unsigned i = d->inputs; i < d->inputs + d->outputs && rc == SL_OK;
         i++) {
        size_t bytes = kern_shape_bytes(&d->io[i]);

        if (bytes > 0)
            rc = cuda_result(plan->dev, cudaMemsetAsync(io[i], 0, bytes, s),
                             "filling memory");
    }
    return rc;
}

enum sl_err nothing_plan(struct kern_plan **out, size_t *workspace_bytes,
                         struct cuda_dev *dev, const struct kern_desc *d,
                         struct sl_error *err)
{
    return desc_plan_new(out, workspace_bytes, dev, d, "nothing", nothing_run,
                         err);
}

enum sl_err rows_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_shape *x,
                      bool accum, size_t cap_bytes, struct sl_error *err)
{
    struct kern_desc d;

    kern_desc_reduce(&d, x->nd, x->dim, accum ? KERN_ACCUM : 0);
    kern_desc_dtype(&d, (enum kern_dtype)x->dtype);
    return cuda_own_plan(out, workspace_bytes, &dev->base, &d, cap_bytes, err);
}
