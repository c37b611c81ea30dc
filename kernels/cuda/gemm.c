// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/gemm.c -- matrix products by cuBLASLt.
//
// cuBLASLt's matrices are column-major: a row-major [r,c] is its c x r. So
// C = op(A) op(B) is asked as C' = op(B)' op(A)', with our B in A's place; a
// bias, which cuBLASLt lays along the rows of its D, then lies along our
// features.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "common/base/mem.h"
#include "kernels/cuda/vendor.h"

#define GEMM_WORKSPACE ((size_t)32 << 20) // as cuBLAS itself takes on Hopper

struct gemm {
    struct cuda_plan base;
    struct kern_desc desc;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c; // cuBLASLt's names: a is our B
    struct {
        cublasLtMatmulAlgo_t algo;
        size_t workspace_bytes;
    } way[VENDOR_TRIES];    // chosen algorithm, and its stand-ins
    unsigned ways, at;      // number of the way that runs
    size_t workspace_bytes; // of the hungriest
    struct kern_plan *sums; // of op(A)'s rows, for BGRAD; or NULL
    char impl[32];
};

static unsigned c_at(const struct kern_desc *d)
{
    return d->inputs;
}

// All of one dtype, or f32 from 16 bits without a bias (which would have to be
// f32 as well); the row sums only where A is transposed, as every gradient
// has it.
int gemm_score(struct cuda_dev *dev, const struct kern_desc *d)
{
    uint8_t t = d->io[0].dtype, c = d->io[c_at(d)].dtype;
    bool bias = kern_has(d, KERN_BIAS);

    if (t != KERN_F32 && t != KERN_F16 && t != KERN_BF16)
        return 0;
    if (d->io[1].dtype != t || (bias && d->io[2].dtype != c))
        return 0;
    if (c != t && (c != KERN_F32 || bias))
        return 0;
    if (kern_has(d, KERN_BGRAD) && !d->u.matmul.trans_a)
        return 0;
    if (kern_desc_empty(d) && bias && kern_shape_count(&d->io[c_at(d)]) > 0)
        return 0;
    return 100;
}

// ---- Describing to cuBLASLt -----------------------------------------------

static cudaDataType_t gemm_data_type(uint8_t t)
{
    return t == KERN_F16    ? CUDA_R_16F
           : t == KERN_BF16 ? CUDA_R_16BF
                            : CUDA_R_32F;
}

static enum sl_err blas_fail(cublasStatus_t rc, const char *what,
                             struct sl_error *err)
{
    if (rc == CUBLAS_STATUS_SUCCESS)
        return SL_OK;
    return sl_fail(err,
                   rc == CUBLAS_STATUS_NOT_SUPPORTED  ? SL_ENOTSUP
                   : rc == CUBLAS_STATUS_ALLOC_FAILED ? SL_ENOMEM
                                                      : SL_EINTERNAL,
                   "cuBLASLt: %s: %s", what, cublasLtGetStatusString(rc));
}

static cublasLtEpilogue_t epilogue_of(const struct kern_desc *d)
{
    bool bias = kern_has(d, KERN_BIAS), relu = kern_has(d, KERN_RELU);

    return bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
           : bias       ? CUBLASLT_EPILOGUE_BIAS
           : relu       ? CUBLASLT_EPILOGUE_RELU
                        : CUBLASLT_EPILOGUE_DEFAULT;
}

#define SET(rc, to, name, value)                                               \
    do {                                                                       \
        if ((rc) == CUBLAS_STATUS_SUCCESS)                                     \
            (rc) = to(name, &(value), sizeof(value));                          \
    } while (0)

static enum sl_err make_how(struct gemm *p, struct sl_error *err)
{
    const struct kern_desc *d = &p->desc;
    bool tf32 =
        d->io[0].dtype == KERN_F32 && vendor_tf32(vendor(p->base.dev), d);
    // "FAST" may convert f32 down to TF32; the plain type may not.
    cublasComputeType_t sums =
        tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t a = d->u.matmul.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = d->u.matmul.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(d);
    cudaDataType_t bias = gemm_data_type(d->io[c_at(d)].dtype);
    // Only its alignment is read before a run; nothing is read there. Without
    // an address cuBLASLt refuses a bias, also where it only checks a kept
    // algorithm.
    const void *aligned = (const void *)(uintptr_t)KERN_ALIGN;
    cublasStatus_t rc = cublasLtMatmulDescCreate(&p->how, sums, CUDA_R_32F);

#define HOW(name, value, size)                                                 \
    cublasLtMatmulDescSetAttribute(p->how, name, value, size)
    SET(rc, HOW, CUBLASLT_MATMUL_DESC_TRANSA, a);
    SET(rc, HOW, CUBLASLT_MATMUL_DESC_TRANSB, b);
    SET(rc, HOW, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (kern_has(d, KERN_BIAS)) {
        SET(rc, HOW, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias);
        SET(rc, HOW, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
    }
#undef HOW
    return blas_fail(rc, "describing a product", err);
}

// A dense tensor [batch,] rows x cols as cuBLASLt's cols x rows.
static enum sl_err gemm_make_layout(cublasLtMatrixLayout_t *out,
                                    const struct kern_shape *s,
                                    struct sl_error *err)
{
    int64_t rows = s->dim[s->nd - 2], cols = s->dim[s->nd - 1];
    int64_t apart = rows * cols;
    cublasStatus_t rc = cublasLtMatrixLayoutCreate(
        out, gemm_data_type(s->dtype), (uint64_t)cols, (uint64_t)rows, cols);

#define LAYOUT(name, value, size)                                              \
    cublasLtMatrixLayoutSetAttribute(*out, name, value, size)
    if (s->nd == 3) {
        int32_t batch = (int32_t)s->dim[0];

        SET(rc, LAYOUT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
        SET(rc, LAYOUT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, apart);
    }
#undef LAYOUT
    return blas_fail(rc, "describing a matrix", err);
}

// ---- Choosing an algorithm ------------------------------------------------

// Split sums are added in the compute type or not at all: adding partial sums
// in the 16-bit output type would round each of them.
static enum sl_err make_wishes(cublasLtMatmulPreference_t *out,
                               size_t workspace_bytes, struct sl_error *err)
{
    uint32_t sums =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t align = KERN_ALIGN;
    cublasStatus_t rc = cublasLtMatmulPreferenceCreate(out);

#define WISH(name, value, size)                                                \
    cublasLtMatmulPreferenceSetAttribute(*out, name, value, size)
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums);
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align);
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align);
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align);
    SET(rc, WISH, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align);
#undef WISH
    return blas_fail(rc, "saying what we prefer", err);
}

// The bias' address belongs to the description, not to the call.
static cublasStatus_t run_algo(struct gemm *p, const cublasLtMatmulAlgo_t *algo,
                               size_t workspace_bytes, cudaStream_t s,
                               void *const *io, void *workspace)
{
    const struct kern_desc *d = &p->desc;
    float alpha = 1, beta = kern_has(d, KERN_ACCUM) ? 1.0f : 0.0f;
    void *c = io[c_at(d)];
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;

    if (kern_has(d, KERN_BIAS))
        rc = cublasLtMatmulDescSetAttribute(
            p->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &io[2], sizeof(io[2]));
    if (rc != CUBLAS_STATUS_SUCCESS)
        return rc;
    return cublasLtMatmul(vendor(p->base.dev)->blas, p->how, &alpha, io[1],
                          p->a, io[0], p->b, &beta, c, p->c, c, p->c, algo,
                          workspace, workspace_bytes, s);
}

static enum sl_err run_checked(struct gemm *p, const cublasLtMatmulAlgo_t *algo,
                               size_t workspace_bytes, cudaStream_t s,
                               void *const *io, void *workspace)
{
    cublasStatus_t rc;

    if (!vendor_aligned(c_at(&p->desc) + 1, io))
        return vendor_refused(p->base.dev, s, SL_EINTERNAL,
                              "unaligned tensors");
    rc = run_algo(p, algo, workspace_bytes, s, io, workspace);
    if (rc == CUBLAS_STATUS_SUCCESS)
        return SL_OK;
    return vendor_refused(p->base.dev, s,
                          rc == CUBLAS_STATUS_EXECUTION_FAILED ? SL_ELOST
                                                               : SL_EINTERNAL,
                          cublasLtGetStatusString(rc));
}

struct gemm_candidates {
    struct gemm *p;
    cublasLtMatmulHeuristicResult_t at[VENDOR_TRIES];
    int count;
};

static enum sl_err gemm_try_candidate(void *arg, unsigned i, cudaStream_t s,
                                      void *const *io, void *workspace)
{
    struct gemm_candidates *c = arg;

    return run_checked(c->p, &c->at[i].algo, c->at[i].workspaceSize, s, io,
                       workspace);
}

// Results that say of themselves that they are none.
static void drop_unsure(struct gemm_candidates *c)
{
    int kept = 0;

    for (int i = 0; i < c->count; i++)
        if (c->at[i].state == CUBLAS_STATUS_SUCCESS)
            c->at[kept++] = c->at[i];
    c->count = kept;
}

static enum sl_err gemm_find_candidates(struct gemm_candidates *c,
                                        size_t cap_bytes, struct sl_error *err)
{
    struct gemm *p = c->p;
    cublasLtMatmulPreference_t wishes = NULL;
    enum sl_err rc = make_wishes(&wishes, cap_bytes, err);

    if (rc == SL_OK)
        rc = blas_fail(cublasLtMatmulAlgoGetHeuristic(
                           vendor(p->base.dev)->blas, p->how, p->a, p->b, p->c,
                           p->c, wishes, VENDOR_TRIES, c->at, &c->count),
                       "asking for algorithms", err);
    if (wishes)
        cublasLtMatmulPreferenceDestroy(wishes);
    drop_unsure(c);
    if (rc == SL_OK && c->count == 0)
        rc = sl_fail(err, SL_ENOTSUP,
                     "cuBLASLt has no algorithm for this "
                     "product");
    return rc;
}

static void add_way(struct gemm *p, const cublasLtMatmulAlgo_t *algo,
                    size_t workspace_bytes)
{
    p->way[p->ways].algo = *algo;
    p->way[p->ways++].workspace_bytes = workspace_bytes;
    if (workspace_bytes > p->workspace_bytes)
        p->workspace_bytes = workspace_bytes;
}

// The fastest, or cuBLASLt's first; then the others in its order.
static enum sl_err gemm_choose_algo(struct gemm *p, size_t cap_bytes,
                                    struct sl_error *err)
{
    struct gemm_candidates c = {.p = p};
    size_t most = 0;
    unsigned winner = 0;
    enum sl_err rc = gemm_find_candidates(&c, cap_bytes, err);

    if (rc != SL_OK)
        return rc;
    for (int i = 0; i < c.count; i++)
        if (c.at[i].workspaceSize > most)
            most = c.at[i].workspaceSize;
    if (vendor(p->base.dev)->options.autotune)
        winner = tune_fastest(p->base.dev, &p->desc, (unsigned)c.count, most,
                              gemm_try_candidate, &c);
    add_way(p, &c.at[winner].algo, c.at[winner].workspaceSize);
    for (unsigned i = 0; i < (unsigned)c.count; i++)
        if (i != winner)
            add_way(p, &c.at[i].algo, c.at[i].workspaceSize);
    return SL_OK;
}

// A kept algorithm has what may stand in for it too: its library may be another
// build of the same version.
static void gemm_add_stand_ins(struct gemm *p, size_t cap_bytes)
{
    struct gemm_candidates c = {.p = p};

    if (gemm_find_candidates(&c, cap_bytes, NULL) != SL_OK)
        return;
    for (int i = 0; i < c.count && p->ways < VENDOR_TRIES; i++)
        if (memcmp(&c.at[i].algo, &p->way[0].algo, sizeof(c.at[i].algo)) != 0)
            add_way(p, &c.at[i].algo, c.at[i].workspaceSize);
}

// ---- Kept algorithms ------------------------------------------------------

// An algorithm is eight words, as hexadecimal; cuBLASLt says whether it still
// knows it for this product.
static bool gemm_find_kept(struct gemm *p, uint64_t key, size_t cap_bytes)
{
    struct cuda_dev *dev = p->base.dev;
    cublasLtMatmulHeuristicResult_t known;
    cublasLtMatmulAlgo_t algo;
    struct buf text = BUF_INIT;
    const char *at;
    int used = 0;
    bool found = plans_find(&text, &vendor(dev)->plans, "gemm",
                            cublasLtGetVersion(), key);

    at = buf_text(&text);
    for (unsigned i = 0; found && i < SL_COUNT(algo.data); i++) {
        found = sscanf(at, "%" SCNx64 " %n", &algo.data[i], &used) == 1;
        at += used;
    }
    buf_release(&text);
    if (!found ||
        cublasLtMatmulAlgoCheck(vendor(dev)->blas, p->how, p->a, p->b, p->c,
                                p->c, &algo, &known) != CUBLAS_STATUS_SUCCESS ||
        known.workspaceSize > cap_bytes)
        return false;
    add_way(p, &algo, known.workspaceSize);
    return true;
}

static void gemm_keep_algo(struct gemm *p, uint64_t key)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < SL_COUNT(p->way[0].algo.data) && rc == SL_OK; i++)
        rc = buf_appendf(&text, "%" PRIx64 " ", p->way[0].algo.data[i]);
    if (rc == SL_OK)
        plans_add(&vendor(p->base.dev)->plans, "gemm", cublasLtGetVersion(),
                  key, &text);
    buf_release(&text);
}

// ---- Plans ----------------------------------------------------------------

static enum sl_err run_way(struct gemm *p, cudaStream_t s, void *const *io,
                           void *workspace)
{
    return run_checked(p, &p->way[p->at].algo, p->way[p->at].workspace_bytes, s,
                       io, workspace);
}

static void name(struct gemm *p)
{
    snprintf(p->impl, sizeof(p->impl), "cublaslt:%" PRIu64,
             p->way[p->at].algo.data[0] & 0xffff);
}

// What it refuses, and leaves the device whole, is not asked again.
static enum sl_err run_some_way(struct gemm *p, cudaStream_t s, void *const *io,
                                void *workspace)
{
    enum sl_err rc = run_way(p, s, io, workspace);

    while (p->at + 1 < p->ways && vendor_try_next(s, rc) &&
           vendor_aligned(c_at(&p->desc) + 1, io)) {
        vendor_tell_next(p->base.dev, &p->desc, p->impl);
        p->at++;
        name(p);
        rc = run_way(p, s, io, workspace);
    }
    return rc;
}

static enum sl_err gemm_run(struct cuda_plan *plan, cudaStream_t s,
                            void *const *io, void *workspace)
{
    struct gemm *p = (struct gemm *)plan;
    struct cuda_plan *sums = (struct cuda_plan *)p->sums;
    enum sl_err rc = run_some_way(p, s, io, workspace);

    if (rc == SL_OK && sums)
        rc = sums->run(sums, s, (void *[]){io[0], io[c_at(&p->desc) + 1]},
                       workspace);
    return rc;
}

static void gemm_free(struct cuda_plan *plan)
{
    struct gemm *p = (struct gemm *)plan;

    cuda_plan_free(p->sums);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->c)
        cublasLtMatrixLayoutDestroy(p->c);
    if (p->how)
        cublasLtMatmulDescDestroy(p->how);
    sl_free(p);
}

static enum sl_err gemm_set_up(struct gemm *p, size_t cap_bytes,
                               struct sl_error *err)
{
    const struct kern_desc *d = &p->desc;
    uint64_t key = vendor_key(p->base.dev, d, cap_bytes);
    enum sl_err rc = vendor_blas(p->base.dev, err);

    if (rc == SL_OK)
        rc = make_how(p, err);
    if (rc == SL_OK)
        rc = gemm_make_layout(&p->a, &d->io[1], err);
    if (rc == SL_OK)
        rc = gemm_make_layout(&p->b, &d->io[0], err);
    if (rc == SL_OK)
        rc = gemm_make_layout(&p->c, &d->io[c_at(d)], err);
    if (rc != SL_OK)
        return rc;
    if (gemm_find_kept(p, key, cap_bytes)) {
        gemm_add_stand_ins(p, cap_bytes);
        snprintf(p->impl, sizeof(p->impl), "cublaslt:kept");
        return SL_OK;
    }
    rc = gemm_choose_algo(p, cap_bytes, err);
    if (rc == SL_OK) {
        gemm_keep_algo(p, key);
        name(p);
    }
    return rc;
}

enum sl_err gemm_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err)
{
    size_t cap = vendor_cap(dev, cap_bytes), sums = 0;
    struct gemm *p;
    enum sl_err rc;

    if (kern_desc_empty(d))
        return nothing_plan(out, workspace_bytes, dev, d, err);
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, p->impl, gemm_run, gemm_free);
    p->desc = *d;
    rc = gemm_set_up(p, cap < GEMM_WORKSPACE ? cap : GEMM_WORKSPACE, err);
    if (rc == SL_OK && kern_has(d, KERN_BGRAD))
        rc = rows_plan(&p->sums, &sums, dev, &d->io[0], kern_has(d, KERN_ACCUM),
                       cap_bytes, err);
    if (rc != SL_OK) {
        gemm_free(&p->base);
        return rc;
    }
    *out = &p->base.base;
    *workspace_bytes = p->workspace_bytes > sums ? p->workspace_bytes : sums;
    *workspace_bytes = (*workspace_bytes + 63) & ~(size_t)63;
    return SL_OK;
}
