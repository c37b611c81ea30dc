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
#include "common/base/rng.h"
#include "kernels/cuda/own.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/vendor.h"

#define GEMM_WORKSPACE ((size_t)32 << 20) // as cuBLAS itself takes on Hopper
#define GEMM_WAYS 3 // of a plan: the chosen algorithm, and what may stand in

struct gemm {
    struct cuda_plan base;
    struct kern_desc desc;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c; // cuBLASLt's names: a is our B
    struct {
        cublasLtMatmulAlgo_t algo;
        size_t workspace_bytes;
    } way[GEMM_WAYS];       // chosen algorithm, and its stand-ins
    unsigned ways, at;      // number of the way that runs
    size_t workspace_bytes; // of the hungriest
    struct kern_plan *sums; // of op(A)'s rows, for BGRAD; or NULL
    size_t sums_bytes;      // its workspace
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
                          : rc == CUBLAS_STATUS_ALLOC_FAILED   ? SL_ENOMEM
                                                               : SL_EINTERNAL,
                          cublasLtGetStatusString(rc));
}

// What cuBLASLt does not fuse: the sums of op(A)'s rows.
static enum sl_err run_sums(struct gemm *p, cudaStream_t s, void *const *io,
                            void *workspace)
{
    struct cuda_plan *sums = (struct cuda_plan *)p->sums;

    return sums ? sums->run(sums, s, (void *[]){io[0], io[c_at(&p->desc) + 1]},
                            workspace)
                : SL_OK;
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

// The whole op by one candidate.
static enum sl_err gemm_try_whole(void *arg, unsigned i, cudaStream_t s,
                                  void *const *io, void *workspace)
{
    struct gemm_candidates *c = arg;
    enum sl_err rc = gemm_try_candidate(arg, i, s, io, workspace);

    return rc == SL_OK ? run_sums(c->p, s, io, workspace) : rc;
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

static void gemm_name(struct gemm *p, const cublasLtMatmulAlgo_t *algo)
{
    snprintf(p->impl, sizeof(p->impl), "cublaslt:%" PRIu64,
             algo->data[0] & 0xffff);
}

static void add_way(struct gemm *p, const cublasLtMatmulAlgo_t *algo,
                    size_t workspace_bytes)
{
    p->way[p->ways].algo = *algo;
    p->way[p->ways++].workspace_bytes = workspace_bytes;
    if (workspace_bytes > p->workspace_bytes)
        p->workspace_bytes = workspace_bytes;
}

static size_t gemm_most_bytes(const struct gemm_candidates *c)
{
    size_t most = c->p->sums_bytes;

    for (int i = 0; i < c->count; i++)
        if (c->at[i].workspaceSize > most)
            most = c->at[i].workspaceSize;
    return most;
}

static struct judge_candidate gemm_candidate(struct gemm_candidates *c,
                                             unsigned i)
{
    const cublasLtMatmulAlgo_t *algo = &c->at[i].algo;

    gemm_name(c->p, algo);
    return (struct judge_candidate){
        .run = gemm_try_whole,
        .arg = c,
        .i = i,
        .impl = c->p->impl,
        .identity = sl_hash64(algo->data, sizeof(algo->data)),
        .version = cublasLtGetVersion(),
    };
}

// Leaves out the candidates that are wrong on this device; of those that are
// right the first `most` stay.
static enum sl_err gemm_keep_right(struct gemm_candidates *c, int most,
                                   struct sl_error *err)
{
    struct judge j;
    int kept = 0;
    enum sl_err rc = SL_OK;

    judge_init(&j, c->p->base.dev, &c->p->desc, gemm_most_bytes(c));
    for (int i = 0; i < c->count && kept < most && rc == SL_OK; i++) {
        struct judge_candidate one = gemm_candidate(c, (unsigned)i);
        bool right = true;

        rc = judge_try(&right, &j, &one);
        if (right)
            c->at[kept++] = c->at[i];
    }
    judge_release(&j);
    c->count = kept;
    return rc == SL_OK ? rc : judge_fail(&j, rc, err);
}

// The fastest, or cuBLASLt's first; then the others in its order. No way at
// all: every algorithm is wrong here.
static enum sl_err gemm_choose_algo(struct gemm *p, size_t cap_bytes,
                                    struct sl_error *err)
{
    bool autotune = vendor(p->base.dev)->options.autotune;
    struct gemm_candidates c = {.p = p};
    unsigned winner = 0;
    enum sl_err rc = gemm_find_candidates(&c, cap_bytes, err);

    if (rc == SL_OK)
        rc = gemm_keep_right(&c, autotune ? VENDOR_TRIES : GEMM_WAYS, err);
    if (rc != SL_OK || c.count == 0)
        return rc;
    if (autotune)
        winner = tune_fastest(p->base.dev, &p->desc, (unsigned)c.count,
                              gemm_most_bytes(&c), gemm_try_candidate, &c);
    add_way(p, &c.at[winner].algo, c.at[winner].workspaceSize);
    for (unsigned i = 0; i < (unsigned)c.count && p->ways < GEMM_WAYS; i++)
        if (i != winner)
            add_way(p, &c.at[i].algo, c.at[i].workspaceSize);
    return SL_OK;
}

// A kept algorithm has what may stand in for it too, as far as that is known to
// be right: its library may be another build of the same version.
static void gemm_add_stand_ins(struct gemm *p, size_t cap_bytes)
{
    struct gemm_candidates c = {.p = p};
    struct judge j;

    if (gemm_find_candidates(&c, cap_bytes, NULL) != SL_OK)
        return;
    judge_init(&j, p->base.dev, &p->desc, 0);
    for (int i = 0; i < c.count && p->ways < GEMM_WAYS; i++) {
        struct judge_candidate one = gemm_candidate(&c, (unsigned)i);

        if (memcmp(&c.at[i].algo, &p->way[0].algo, sizeof(c.at[i].algo)) != 0 &&
            judge_trusts(&j, &one))
            add_way(p, &c.at[i].algo, c.at[i].workspaceSize);
    }
}

// ---- Kept algorithms ------------------------------------------------------

// An algorithm is eight words, as hexadecimal; cuBLASLt says whether it still
// knows it for this product.
static bool gemm_find_kept(struct gemm *p, uint64_t key, size_t cap_bytes)
{
    struct cuda_dev *dev = p->base.dev;
    struct gemm_candidates c = {.p = p, .count = 1};
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
                                p->c, &algo,
                                &c.at[0]) != CUBLAS_STATUS_SUCCESS ||
        c.at[0].workspaceSize > cap_bytes)
        return false;
    c.at[0].algo = algo;
    if (gemm_keep_right(&c, 1, NULL) != SL_OK || c.count == 0)
        return false;
    add_way(p, &algo, c.at[0].workspaceSize);
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

// What it refuses, and leaves the device whole, is not asked again.
static enum sl_err run_some_way(struct gemm *p, cudaStream_t s, void *const *io,
                                void *workspace)
{
    enum sl_err rc = run_way(p, s, io, workspace);

    while (p->at + 1 < p->ways && vendor_try_next(s, rc) &&
           vendor_aligned(c_at(&p->desc) + 1, io)) {
        vendor_tell_next(p->base.dev, &p->desc, p->impl);
        p->at++;
        gemm_name(p, &p->way[p->at].algo);
        rc = run_way(p, s, io, workspace);
    }
    return rc;
}

static enum sl_err gemm_run(struct cuda_plan *plan, cudaStream_t s,
                            void *const *io, void *workspace)
{
    struct gemm *p = (struct gemm *)plan;
    enum sl_err rc = run_some_way(p, s, io, workspace);

    return rc == SL_OK ? run_sums(p, s, io, workspace) : rc;
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
        judge_recall_left_out(p->base.dev, d, cublasLtGetVersion(), key);
        gemm_add_stand_ins(p, cap_bytes);
        snprintf(p->impl, sizeof(p->impl), "cublaslt:kept");
        return SL_OK;
    }
    rc = gemm_choose_algo(p, cap_bytes, err);
    if (rc == SL_OK && p->ways > 0) {
        if (judge_sure(&vendor(p->base.dev)->book, d)) {
            gemm_keep_algo(p, key);
            judge_keep_left_out(p->base.dev, d, cublasLtGetVersion(), key);
        }
        gemm_name(p, &p->way[0].algo);
    }
    return rc;
}

// A plan of one of cuBLASLt's algorithms. *right is false, and there is no
// plan, if all of them are wrong here.
static enum sl_err gemm_plan_whole(struct kern_plan **out, bool *right,
                                   size_t *workspace_bytes,
                                   struct cuda_dev *dev,
                                   const struct kern_desc *d, size_t cap_bytes,
                                   struct sl_error *err)
{
    size_t cap = vendor_cap(dev, cap_bytes);
    struct gemm *p = sl_calloc(1, sizeof(*p));
    enum sl_err rc = SL_OK;

    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, p->impl, gemm_run, gemm_free);
    p->desc = *d;
    if (kern_has(d, KERN_BGRAD))
        rc = rows_plan(&p->sums, &p->sums_bytes, dev, &d->io[0],
                       kern_has(d, KERN_ACCUM), cap_bytes, err);
    if (rc == SL_OK)
        rc = gemm_set_up(p, cap < GEMM_WORKSPACE ? cap : GEMM_WORKSPACE, err);
    *right = rc == SL_OK && p->ways > 0;
    if (!*right) {
        gemm_free(&p->base);
        return rc;
    }
    *out = &p->base.base;
    *workspace_bytes =
        p->workspace_bytes > p->sums_bytes ? p->workspace_bytes : p->sums_bytes;
    *workspace_bytes = (*workspace_bytes + 63) & ~(size_t)63;
    return SL_OK;
}

// ---- A bias apart ---------------------------------------------------------

// The product in f32, and a kernel of ours that adds the bias: rounded once,
// where an epilogue of cuBLASLt rounds before it adds.
struct gemm_apart {
    struct cuda_plan base;
    struct kern_desc desc;
    struct kern_plan *product;
    size_t product_bytes; // its workspace; then the product
    char impl[48];
};

static enum sl_err apart_run(struct cuda_plan *plan, cudaStream_t s,
                             void *const *io, void *workspace)
{
    struct gemm_apart *p = (struct gemm_apart *)plan;
    struct cuda_plan *product = (struct cuda_plan *)p->product;
    const struct kern_shape *y = &p->desc.io[3];
    void *x = (char *)workspace + p->product_bytes;
    const struct args_bias a = {
        .x = x,
        .bias = io[2],
        .y = io[3],
        .n = kern_shape_count(y),
        .cols = (int32_t)kern_cols(y),
        .relu = kern_has(&p->desc, KERN_RELU),
        .wide = own_wide(2, (void *[]){x, io[3]}),
    };
    enum sl_err rc =
        product->run(product, s, (void *[]){io[0], io[1], x}, workspace);

    return rc != SL_OK
               ? rc
               : CUDA_LAUNCH(p->base.dev, s,
                             own_typed(CUDA_bias_rows_f32, y->dtype),
                             own_blocks(a.n, own_pack(y->dtype)), 1, &a);
}

static enum sl_err apart_try(void *arg, unsigned i, cudaStream_t s,
                             void *const *io, void *workspace)
{
    return apart_run(arg, s, io, workspace);
}

static void apart_free(struct cuda_plan *plan)
{
    cuda_plan_free(((struct gemm_apart *)plan)->product);
    sl_free(plan);
}

// Plans the product and asks whether all of it is right.
static enum sl_err apart_set_up(struct gemm_apart *p, bool *right,
                                size_t *workspace_bytes, size_t cap_bytes,
                                struct sl_error *err)
{
    const struct kern_desc *d = &p->desc;
    struct kern_matmul_dims m;
    struct judge_candidate one = {.run = apart_try, .arg = p, .impl = p->impl};
    struct kern_desc product;
    struct judge j;
    enum sl_err rc;

    kern_matmul_dims(&m, d);
    kern_desc_matmul(&product, m.m, m.n, m.k, d->u.matmul.trans_a,
                     d->u.matmul.trans_b, 0);
    kern_desc_dtype(&product, (enum kern_dtype)d->io[0].dtype);
    product.io[2].dtype = KERN_F32;
    product.math = d->math;
    rc = gemm_plan_whole(&p->product, right, &p->product_bytes, p->base.dev,
                         &product, cap_bytes, err);
    if (rc != SL_OK || !*right)
        return rc;
    *workspace_bytes = p->product_bytes + kern_shape_bytes(&product.io[2]);
    snprintf(p->impl, sizeof(p->impl), "%s, own bias", p->product->impl);
    rc = kern_desc_fits(d, *workspace_bytes, cap_bytes, err);
    if (rc != SL_OK)
        return rc;
    one.identity = sl_hash64(p->impl, strlen(p->impl));
    judge_init(&j, p->base.dev, d, *workspace_bytes);
    rc = judge_try(right, &j, &one);
    judge_release(&j);
    return rc == SL_OK ? rc : judge_fail(&j, rc, err);
}

static enum sl_err apart_plan(struct kern_plan **out, bool *right,
                              size_t *workspace_bytes, struct cuda_dev *dev,
                              const struct kern_desc *d, size_t cap_bytes,
                              struct sl_error *err)
{
    struct gemm_apart *p = sl_calloc(1, sizeof(*p));
    size_t bytes = 0;
    enum sl_err rc;

    *right = false;
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, p->impl, apart_run, apart_free);
    p->desc = *d;
    rc = apart_set_up(p, right, &bytes, cap_bytes, err);
    if (rc != SL_OK || !*right) {
        apart_free(&p->base);
        return rc == SL_ENOTSUP ? SL_OK : rc;
    }
    *out = &p->base.base;
    *workspace_bytes = bytes;
    return SL_OK;
}

// What has a bias, but nothing else that a product in f32 cannot have.
static bool apart_has(const struct kern_desc *d)
{
    return kern_has(d, KERN_BIAS) && !kern_has(d, KERN_ACCUM | KERN_BGRAD);
}

enum sl_err gemm_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err)
{
    bool right = false;
    enum sl_err rc;

    if (kern_desc_empty(d))
        return nothing_plan(out, workspace_bytes, dev, d, err);
    rc = gemm_plan_whole(out, &right, workspace_bytes, dev, d, cap_bytes, err);
    if (rc == SL_OK && !right && apart_has(d))
        rc = apart_plan(out, &right, workspace_bytes, dev, d, cap_bytes, err);
    return rc != SL_OK || right ? rc
                                : plain_plan(out, workspace_bytes, dev, d, err);
}
