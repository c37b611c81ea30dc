// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own.c -- ops by our own kernels: which, and how work is cut.
#include "kernels/cuda/own.h"

#include "common/base/mem.h"

static const struct own_op *const table[KERN_OP_COUNT] = {
    [KERN_POOL_FWD] = &own_pool_fwd,
    [KERN_POOL_BWD] = &own_pool_bwd,
    [KERN_BN_FWD] = &own_bn_fwd,
    [KERN_BN_INFER] = &own_bn_infer,
    [KERN_BN_BWD] = &own_bn_bwd,
    [KERN_UNARY_FWD] = &own_unary_fwd,
    [KERN_UNARY_BWD] = &own_unary_bwd,
    [KERN_BINARY] = &own_binary,
    [KERN_AXPBY] = &own_axpby,
    [KERN_FILL] = &own_fill,
    [KERN_SOFTMAX_FWD] = &own_softmax_fwd,
    [KERN_SOFTMAX_BWD] = &own_softmax_bwd,
    [KERN_XENT] = &own_xent,
    [KERN_BCE] = &own_bce,
    [KERN_MSE] = &own_mse,
    [KERN_DROPOUT] = &own_dropout,
    [KERN_IMAGE_U8] = &own_image_u8,
    [KERN_REDUCE] = &own_reduce,
    [KERN_UNSCALE_CHECK] = &own_unscale_check,
    [KERN_PICK] = &own_pick,
    [KERN_LN_FWD] = &own_ln_fwd,
    [KERN_LN_BWD] = &own_ln_bwd,
    [KERN_GATHER] = &own_gather,
    [KERN_GATHER_BWD] = &own_gather_bwd,
    [KERN_PENALTY] = &own_penalty,
};

// ---- Plans ----------------------------------------------------------------

struct own_plan {
    struct cuda_plan base;
    struct kern_desc desc;
    const struct own_op *op;
};

// Kernels count columns, pixels and dims in 32 bits. The only f64 are stats.
static bool own_desc_in_range(const struct kern_desc *d)
{
    unsigned last = d->inputs + d->outputs - 1u;

    for (unsigned i = 0; i <= last; i++) {
        if (d->io[i].dtype == KERN_F64 && (i < last || i == d->inputs))
            return false;
        for (unsigned k = 0; k < d->io[i].nd; k++)
            if (d->io[i].dim[k] > INT32_MAX)
                return false;
    }
    return true;
}

int cuda_own_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    uint32_t known = kern_op_epilogues((enum kern_op)desc->op);

    return table[desc->op] && own_desc_in_range(desc) &&
                   (desc->epilogue & ~known) == 0
               ? 100
               : 0;
}

static enum sl_err own_run(struct cuda_plan *plan, cudaStream_t s,
                           void *const *io, void *workspace)
{
    struct own_plan *p = (struct own_plan *)plan;
    const struct own_call c = {p->base.dev, s, &p->desc, io, workspace};

    return p->op->run(&c);
}

static void own_free(struct cuda_plan *plan)
{
    sl_free(plan);
}

enum sl_err cuda_own_plan(struct kern_plan **out, size_t *workspace_bytes,
                          struct kern_dev *dev, const struct kern_desc *desc,
                          size_t workspace_cap_bytes, struct sl_error *err)
{
    const struct own_op *op = table[desc->op];
    size_t bytes = op->workspace_bytes ? op->workspace_bytes(desc) : 0;
    enum sl_err rc = kern_desc_fits(desc, bytes, workspace_cap_bytes, err);
    struct own_plan *p;

    if (rc != SL_OK)
        return rc;
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, cuda_dev(dev), "own", own_run, own_free);
    p->desc = *desc;
    p->op = op;
    *out = &p->base.base;
    *workspace_bytes = bytes;
    return SL_OK;
}

// ---- How work is cut ------------------------------------------------------

enum cuda_kernel own_typed(enum cuda_kernel f32, uint8_t dtype)
{
    return f32 + (dtype == KERN_F16 ? 1 : dtype == KERN_BF16 ? 2 : 0);
}

// 32: a pack of a loss' 16-bit input has 32 bytes of f32 labels beside it.
bool own_wide(unsigned n, void *const *at)
{
    uintptr_t bits = 0;

    for (unsigned i = 0; i < n; i++)
        bits |= (uintptr_t)at[i];
    return bits % 32 == 0;
}

// At least 4 rows per thread, and at most about 1024 blocks: enough for every
// multiprocessor, few enough to add up.
#define ROWS_LEAST 4
#define BLOCKS_MOST 1024

void own_tables(struct own_table *out, int64_t tables, int64_t rows,
                int64_t cols, uint8_t dtype, bool wide)
{
    int64_t pack = own_pack(dtype), packs = own_ceil(cols, pack), most;
    int64_t across = 1, least, down;

    while (across < packs && across < 32)
        across *= 2;
    out->across = own_ceil(packs, across);
    most = BLOCKS_MOST / (tables + !tables);
    down = out->across < most ? most / (out->across + !packs) : 1;
    least = ROWS_LEAST * CUDA_THREADS / across;
    out->t = (struct args_table){
        .rows = rows,
        .cols = cols,
        .chunk = own_ceil(rows, down) > least ? own_ceil(rows, down) : least,
        .across = (int32_t)across,
        .wide = wide && cols % pack == 0,
    };
    out->down = own_ceil(rows, out->t.chunk);
}

void own_table(struct own_table *out, const struct kern_shape *s, bool wide)
{
    own_tables(out, 1, kern_rows(s), kern_cols(s), s->dtype, wide);
}

size_t own_table_bytes(const struct own_table *t, int64_t sums)
{
    size_t bytes = (size_t)(t->down * sums * t->t.cols) * sizeof(float);

    return (bytes + 63) & ~(size_t)63;
}

#define END_COLS 8 // cuda_device.cuh

int64_t own_end_blocks(int64_t cols)
{
    return own_ceil(cols, END_COLS);
}

int64_t own_stats_blocks(const struct kern_shape *s)
{
    int64_t blocks = own_blocks(kern_shape_count(s), own_pack(s->dtype));

    return blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
}

size_t own_stats_bytes(int64_t blocks)
{
    return (size_t)blocks * 2 * sizeof(double);
}

enum sl_err own_stats_end(const struct own_call *c, int64_t blocks,
                          double *stats, double over)
{
    const struct args_stats_end a = {
        .partial = (const double *)c->workspace,
        .stats = stats,
        .over = over,
        .blocks = (int32_t)blocks,
        .accum = kern_has(c->d, KERN_ACCUM),
    };

    return OWN_LAUNCH(c, CUDA_stats_end, 1, 1, &a);
}
