// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cuda_module.c -- the backend "cuda", and the only symbol of its
// module.
//
// Our own kernels (own*.c), cuBLASLt (gemm.c) and cuDNN (conv.c) behind one
// vtable. Sticky errors of the device end in SL_ELOST, from whichever part.
#include "kernels/module.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/cuda/hostside.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/vendor.h"

const struct kern_backend *kern_module(uint32_t abi,
                                       const struct kern_host *host);

static const struct kern_backend cuda;

static void close_dev(struct kern_dev *dev)
{
    if (!dev)
        return;
    nccl_leave(cuda_dev(dev));
    vendor_free(cuda_dev(dev));
    cuda_close(dev);
}

static enum sl_err open_dev(struct kern_dev **out, int ordinal,
                            const char *text, struct sl_error *err)
{
    struct vendor_options options;
    struct cuda_dev *dev = NULL;
    enum sl_err rc = vendor_options_read(&options, text, err);

    if (rc != SL_OK)
        return rc;
    rc = cuda_dev_open(&dev, &cuda, ordinal, err);
    if (rc != SL_OK) {
        sl_free(options.plans);
        return rc;
    }
    rc = vendor_new(dev, &options, err);
    if (rc != SL_OK) {
        cuda_close(&dev->base);
        return rc;
    }
    *out = &dev->base;
    return SL_OK;
}

static int cuda_module_score(struct kern_dev *dev, const struct kern_desc *d)
{
    switch (d->op) {
    case KERN_MATMUL:
        return gemm_score(cuda_dev(dev), d);
    case KERN_CONV_FWD:
    case KERN_CONV_DGRAD:
    case KERN_CONV_WGRAD:
        return conv_score(cuda_dev(dev), d);
    default:
        return cuda_own_score(dev, d);
    }
}

static enum sl_err cuda_module_plan(struct kern_plan **out,
                                    size_t *workspace_bytes,
                                    struct kern_dev *dev,
                                    const struct kern_desc *d, size_t cap_bytes,
                                    struct sl_error *err)
{
    if (cuda_dev(dev)->lost)
        return sl_fail(err, SL_ELOST, "%s", cuda_dev(dev)->fault);
    switch (d->op) {
    case KERN_MATMUL:
        return gemm_plan(out, workspace_bytes, cuda_dev(dev), d, cap_bytes,
                         err);
    case KERN_CONV_FWD:
    case KERN_CONV_DGRAD:
    case KERN_CONV_WGRAD:
        return conv_plan(out, workspace_bytes, cuda_dev(dev), d, cap_bytes,
                         err);
    default:
        return cuda_own_plan(out, workspace_bytes, dev, d, cap_bytes, err);
    }
}

static void cuda_module_about(char *out, size_t n, struct kern_dev *dev)
{
    vendor_about(out, n, cuda_dev(dev));
}

static const char *cuda_module_fault(struct kern_dev *dev)
{
    return cuda_dev(dev)->fault;
}

// ---- Events: a kern_event is a cuda_event ---------------------------------

static enum sl_err event_new(struct kern_event **out, struct kern_dev *dev)
{
    struct cuda_event *e = NULL;
    enum sl_err rc = cuda_event_new(&e, dev);

    if (rc == SL_OK)
        *out = (struct kern_event *)e;
    return rc;
}

static void event_free(struct kern_event *e)
{
    cuda_event_free((struct cuda_event *)e);
}

static enum sl_err event_record(struct kern_event *e, struct kern_stream *s)
{
    return cuda_event_record((struct cuda_event *)e, s);
}

static enum sl_err event_wait(struct kern_stream *s, struct kern_event *e)
{
    return cuda_event_wait(s, (struct cuda_event *)e);
}

static enum sl_err event_query(struct kern_event *e)
{
    return cuda_event_query((struct cuda_event *)e);
}

static enum sl_err event_sync(struct kern_event *e)
{
    return cuda_event_sync((struct cuda_event *)e);
}

// ---- Several devices: by NCCL, or by copies -------------------------------

static enum sl_err cuda_module_join(struct kern_dev *const *devs, unsigned n,
                                    char *how, size_t size,
                                    struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc = SL_ENOTSUP;
    size_t len;

    if (vendor(cuda_dev(devs[0]))->options.nccl)
        rc = nccl_join(devs, n, how, size, &why);
    if (rc == SL_OK)
        return rc;
    rc = cuda_join(devs, n, how, size, err);
    len = strlen(how);
    if (rc == SL_OK && why.text[0] != '\0')
        snprintf(how + len, size - len, " (%.40s)", why.text);
    return rc;
}

static enum sl_err cuda_module_exchange(struct kern_stream *s,
                                        const struct kern_exchange *x)
{
    return cuda_dev(s->dev)->peers.comm ? nccl_exchange(s, x)
                                        : cuda_exchange(s, x);
}

static void cuda_module_part(struct kern_dev *const *devs, unsigned n)
{
    nccl_part(devs, n);
    cuda_part(devs, n);
}

static void cuda_module_info(struct kern_info *out, struct kern_dev *dev)
{
    cuda_info(out, dev);
    out->tf32 = vendor(cuda_dev(dev))->options.tf32;
}

static void cuda_module_proofs(struct proofs *out, struct kern_dev *dev)
{
    *out = vendor(cuda_dev(dev))->book.counts;
}

static const char *cuda_module_left_out(struct kern_dev *dev,
                                        const struct kern_desc *d, unsigned i)
{
    return judge_left_out(&vendor(cuda_dev(dev))->book, d, i);
}

// ---- The vtable -----------------------------------------------------------

static const struct kern_backend cuda = {
    .abi = KERN_ABI,
    .size = sizeof(cuda),
    .name = "cuda",
    .probe = cuda_probe,
    .open = open_dev,
    .close = close_dev,
    .info = cuda_module_info,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_sync = cuda_stream_sync,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .score = cuda_module_score,
    .plan = cuda_module_plan,
    .plan_free = cuda_plan_free,
    .run = cuda_run,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .fault = cuda_module_fault,
    .about = cuda_module_about,
    .optim = cuda_optim,
    .join = cuda_module_join,
    .exchange = cuda_module_exchange,
    .part = cuda_module_part,
    .proofs = cuda_module_proofs,
    .left_out = cuda_module_left_out,
};

__attribute__((visibility("default"))) const struct kern_backend *
kern_module(uint32_t abi, const struct kern_host *host)
{
    return abi == KERN_ABI && hostside_set(host) ? &cuda : NULL;
}
