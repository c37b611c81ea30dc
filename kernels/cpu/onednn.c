// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/onednn.c -- oneDNN's engine, threads, plans of products.
#include "kernels/cpu/product.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

const char *cpu_onednn_name(void)
{
    static char name[32]; // every thread writes the same bytes
    const dnnl_version_t *v = dnnl_version();

    snprintf(name, sizeof(name), "oneDNN %d.%d.%d", v->major, v->minor,
             v->patch);
    return name;
}

// oneDNN runs on the OpenMP of its own build, whichever that is; its thread
// count can only be set through that library's own function.
static void set_threads(int threads)
{
    void (*set)(int) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");

    memcpy(&set, &symbol, sizeof(set));
    if (set)
        set(threads);
}

// The status is no matter: it says that oneDNN has begun without.
static void cap_isa(const char *isa)
{
    if (strcmp(isa, "avx2") == 0)
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    else if (strcmp(isa, "base") == 0)
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
}

enum sl_err cpu_onednn_open(struct cpu_onednn **out, int threads,
                            const char *isa, struct sl_error *err)
{
    struct cpu_onednn *o = sl_calloc(1, sizeof(*o));
    enum sl_err rc;

    if (!o)
        return sl_fail(err, SL_ENOMEM, "oneDNN: out of memory");
    o->threads = threads;
    set_threads(threads);
    if (isa)
        cap_isa(isa);
    rc = prog_status(dnnl_engine_create(&o->engine, dnnl_cpu, 0),
                     "make an engine", err);
    if (rc == SL_OK)
        rc = prog_status(dnnl_stream_create(&o->stream, o->engine,
                                            dnnl_stream_default_flags),
                         "make a stream", err);
    if (rc != SL_OK) {
        cpu_onednn_close(o);
        return rc;
    }
    *out = o;
    return SL_OK;
}

void cpu_onednn_close(struct cpu_onednn *o)
{
    if (!o)
        return;
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
    sl_free(o);
}

// Without such instructions oneDNN emulates, which is slower than f32.
bool cpu_product_knows(enum kern_dtype t)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(), want = 0;

    if (t == KERN_BF16)
        want = (unsigned)dnnl_cpu_isa_avx512_core_bf16;
#if OB_V3
    if (t == KERN_F16)
        want = (unsigned)dnnl_cpu_isa_avx512_core_fp16;
#endif
    return t == KERN_F32 || (want != 0 && (isa & want) == want);
}

// ---- Tails ----------------------------------------------------------------

static void run_tail(const struct product *p, const struct product_tail *t,
                     void *const *io, void *workspace)
{
    const struct cpu_dev *dev = p->base.dev;
    char *space = workspace;
    void *own[2];

    for (int i = 0; i < 2; i++)
        own[i] = t->io[i] >= 0 ? io[t->io[i]] : space + t->at[i];
    cpu_loop(dev, dev->loops[t->desc.op], &t->desc, own,
             space + t->workspace_at);
}

// ---- Plans ----------------------------------------------------------------

static enum sl_err run_product(struct cpu_plan *base, void *const *io,
                               void *workspace)
{
    struct product *p = (struct product *)base;
    enum sl_err rc = prog_run(&p->prog, io, workspace);

    for (int i = 0; i < p->tails && rc == SL_OK; i++)
        run_tail(p, &p->tail[i], io, workspace);
    return rc;
}

static void free_product(struct cpu_plan *base)
{
    struct product *p = (struct product *)base;

    prog_release(&p->prog);
    sl_free(p);
}

// What comes behind the primitives are loops of f32.
static bool product_dtype_fits(const struct kern_desc *d)
{
    enum kern_dtype t = (enum kern_dtype)d->io[0].dtype;

    return t == KERN_F32 ||
           (cpu_product_knows(t) && !kern_has(d, KERN_BGRAD | KERN_ACCUM));
}

enum sl_err cpu_product_plan(struct cpu_plan **out, size_t *workspace_bytes,
                             struct cpu_dev *dev, const struct kern_desc *d,
                             struct sl_error *err)
{
    struct product *p;
    enum sl_err rc;

    if (!product_dtype_fits(d))
        return sl_fail(err, SL_ENOTSUP,
                       "oneDNN does not do this %s in 16 bits here",
                       kern_op_name((enum kern_op)d->op));
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cpu: out of memory");
    p->base.run = run_product;
    p->base.free = free_product;
    p->base.dev = dev;
    prog_init(&p->prog, dev->onednn);
    rc = d->op == KERN_MATMUL ? product_matmul(p, dev, d, err)
                              : product_conv(p, dev, d, err);
    if (rc != SL_OK) {
        free_product(&p->base);
        return rc;
    }
    for (int i = 0; i < p->tails; i++) {
        const struct kern_desc *t = &p->tail[i].desc;

        p->tail[i].workspace_at =
            prog_bytes(&p->prog, cpu_loop_bytes(dev, dev->loops[t->op], t));
    }
    p->base.base.impl = p->impl;
    *out = &p->base;
    *workspace_bytes = p->prog.bytes;
    return SL_OK;
}

// Whether oneDNN has more than reference code for an op only shows when it is
// asked to plan it; that costs about a millisecond, once per plan.
int cpu_product_score(struct cpu_dev *dev, const struct kern_desc *d)
{
    struct cpu_plan *p = NULL;
    size_t bytes;

    enum sl_err rc = cpu_product_plan(&p, &bytes, dev, d, NULL);

    if (rc == SL_OK)
        p->free(p);
    // Another failure is planning's to report, not a reason to be slow.
    return rc == SL_ENOTSUP ? 0 : 100;
}
