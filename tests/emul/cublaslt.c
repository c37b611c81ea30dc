// SPDX-License-Identifier: Apache-2.0
// tests/emul/cublaslt.c -- a stand-in for libcublasLt, as far as gemm.c uses
// it: column-major products by their definition, in double.
//
// It refuses what the header and manual of the real one refuse: dims, leading
// dimensions and batches that do not fit, combinations of types, a bias
// without an address or of another type, a small or unaligned workspace,
// addresses that are less aligned than was promised, handles made while a
// stream records. Results come in the order: one that says of itself that it
// is none; SPLIT, which reads 16 bytes at a time and wants a workspace that
// grows with D; ANY, which takes everything.
#include <cublasLt.h>
#include <stdlib.h>

#include "tests/emul/emul.h"
#include "tests/emul/products.h"
#include "tests/emul/typed.h"
#include "tests/emul/wrong.h"

enum { NONE = 1, SPLIT, ANY };
#define PARTS 2 // sums that SPLIT adds up
#define ALIGN_UNSAID 256
#define ALIGN_WORKSPACE 16

struct how {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    cudaDataType_t bias_type;
    const void *bias;
};

struct layout {
    cudaDataType_t type;
    int64_t rows, cols, ld, apart;
    int32_t batch;
};

struct wishes {
    size_t workspace_bytes;
    uint32_t sums, align[4];
};

// ---- Descriptions ---------------------------------------------------------

// Notes why, and refuses.
static cublasStatus_t refuse(cublasStatus_t rc, const char *why)
{
    emul_products_say(why);
    return rc;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    if (emul_products_records("a handle of cuBLASLt is made"))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *out = malloc(1);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    if (emul_products_records("a handle of cuBLASLt is ended"))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t rc)
{
    return rc == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the stand-in";
}

size_t cublasLtGetVersion(void)
{
    return emul_blas_version != 0 ? emul_blas_version : 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct how *h = calloc(1, sizeof(*h));

    if (!h)
        abort();
    *h = (struct how){.compute = compute, .scale = scale, .bias_type = -1};
    *out = (cublasLtMatmulDesc_t)h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

// Copies if the size is that of the attribute.
static cublasStatus_t take(void *to, size_t want, const void *from, size_t n)
{
    if (!from || n != want)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the size of an attribute");
    memcpy(to, from, n);
    return CUBLAS_STATUS_SUCCESS;
}
#define TAKE(field) take(&(field), sizeof(field), from, n)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a,
                                              const void *from, size_t n)
{
    struct how *h = (struct how *)d;

    switch (a) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return TAKE(h->a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return TAKE(h->b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return TAKE(h->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return TAKE(h->bias_type);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return TAKE(h->bias);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    struct layout *l = calloc(1, sizeof(*l));

    if (!l)
        abort();
    *l = (struct layout){.type = type,
                         .rows = (int64_t)rows,
                         .cols = (int64_t)cols,
                         .ld = ld,
                         .batch = 1};
    *out = (cublasLtMatrixLayout_t)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t a,
                                 const void *from, size_t n)
{
    struct layout *l = (struct layout *)layout;

    switch (a) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return TAKE(l->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return TAKE(l->apart);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    struct wishes *w = calloc(1, sizeof(*w));

    if (!w)
        return CUBLAS_STATUS_ALLOC_FAILED;
    for (int i = 0; i < 4; i++)
        w->align[i] = ALIGN_UNSAID;
    w->sums = CUBLASLT_REDUCTION_SCHEME_MASK;
    *out = (cublasLtMatmulPreference_t)w;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t w)
{
    free(w);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wishes,
                                     cublasLtMatmulPreferenceAttributes_t a,
                                     const void *from, size_t n)
{
    struct wishes *w = (struct wishes *)wishes;

    switch (a) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return TAKE(w->workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return TAKE(w->sums);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return TAKE(w->align[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

// ---- What is refused ------------------------------------------------------

struct product {
    uint64_t number; // of the algorithm
    struct how how;  // as they were when it was asked for
    struct layout a, b, d;
    void *scratch; // NULL: it wants none
    size_t scratch_bytes;
    const void *at_a, *at_b;
    void *at_d;
    int64_t k;
    float alpha, beta;
};

static bool biased(const struct how *h)
{
    return h->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static cudaDataType_t bias_type(const struct product *p)
{
    return p->how.bias_type == (cudaDataType_t)-1 ? p->d.type
                                                  : p->how.bias_type;
}

static enum kern_dtype dtype(cudaDataType_t t)
{
    return t == CUDA_R_16F ? KERN_F16 : t == CUDA_R_16BF ? KERN_BF16 : KERN_F32;
}

static size_t width(cudaDataType_t t)
{
    return kern_dtype_bytes(dtype(t));
}

// Why dims do not fit, or NULL; also finds the length of the sums.
static const char *judge_dims(struct product *p)
{
    const struct layout *all[] = {&p->a, &p->b, &p->d};
    bool at = p->how.a == CUBLAS_OP_T, bt = p->how.b == CUBLAS_OP_T;

    for (int i = 0; i < 3; i++) {
        if (all[i]->rows < 1 || all[i]->cols < 1)
            return "a matrix of nothing";
        if (all[i]->ld < all[i]->rows)
            return "a leading dimension below the rows";
        if (all[i]->batch < 1 || all[i]->batch != p->d.batch)
            return "batches of different lengths";
    }
    p->k = at ? p->a.rows : p->a.cols;
    return (at ? p->a.cols : p->a.rows) == p->d.rows &&
                   (bt ? p->b.rows : p->b.cols) == p->d.cols &&
                   (bt ? p->b.cols : p->b.rows) == p->k
               ? NULL
               : "the shapes of a product";
}

// What the table of cublasLtMatmul() has, of our types: sums and scale of f32;
// 16 bits give the same or f32, f32 gives f32, and only f32 may become TF32.
static const char *judge_types(const struct product *p)
{
    cudaDataType_t a = p->a.type;

    if (p->how.scale != CUDA_R_32F)
        return "the scale's type";
    if (p->how.compute != CUBLAS_COMPUTE_32F &&
        (p->how.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || a != CUDA_R_32F))
        return "the compute type";
    if (p->b.type != a || (p->d.type != a && p->d.type != CUDA_R_32F))
        return "the types of a product";
    if (biased(&p->how) && !p->how.bias)
        return "a bias without an address";
    if (biased(&p->how) && bias_type(p) != p->d.type)
        return "the type of a bias";
    return NULL;
}

static const char *judge(struct product *p)
{
    const char *why = judge_dims(p);

    return why ? why : judge_types(p);
}

static struct product described(cublasLtMatmulDesc_t how,
                                cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t d)
{
    return (struct product){.how = *(struct how *)how,
                            .a = *(struct layout *)a,
                            .b = *(struct layout *)b,
                            .d = *(struct layout *)d};
}

// ---- Algorithms -----------------------------------------------------------

static size_t workspace_of(uint64_t algo, const struct product *p)
{
    return algo == SPLIT
               ? (size_t)(PARTS * p->d.rows * p->d.cols * p->d.batch) *
                     sizeof(float)
               : 0;
}

static bool even(const struct layout *l)
{
    return (size_t)l->ld * width(l->type) % 16 == 0 &&
           (l->batch == 1 || (size_t)l->apart * width(l->type) % 16 == 0);
}

// SPLIT's columns begin at 16 bytes, as does a bias.
static bool can(uint64_t algo, const struct product *p)
{
    return algo == ANY ||
           (algo == SPLIT && even(&p->a) && even(&p->b) && even(&p->d) &&
            (!biased(&p->how) || (uintptr_t)p->how.bias % 16 == 0));
}

// An algorithm is of one combination of types, transpositions and epilogue.
static uint64_t kind_of(const struct product *p)
{
    return (uint64_t)p->a.type | (uint64_t)p->d.type << 8 |
           (uint64_t)p->how.compute << 16 | (uint64_t)p->how.a << 32 |
           (uint64_t)p->how.b << 40 | (uint64_t)p->how.epilogue << 48;
}

// The alignment that an address has, as far as one is counted on.
static uint64_t promised(const void *at)
{
    uintptr_t bits = (uintptr_t)at | ALIGN_UNSAID;

    return bits & -bits;
}

static const char *judge_wishes(const struct wishes *w)
{
    if (w->sums & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                   CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE))
        return "sums in the type of the output"; // gemm.c must not wish that
    for (int i = 0; i < 4; i++)
        if (w->align[i] == 0 || (w->align[i] & (w->align[i] - 1)))
            return "an alignment that is no power of 2";
    return NULL;
}

static uint64_t least(const struct wishes *w)
{
    uint32_t n = w->align[0];

    for (int i = 1; i < 4; i++)
        n = w->align[i] < n ? w->align[i] : n;
    return n;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t pref, int most,
    cublasLtMatmulHeuristicResult_t *out, int *count)
{
    const struct wishes *w = (const struct wishes *)pref;
    struct product p = described(how, a, b, d);
    const char *why = judge(&p);

    *count = 0;
    if (!handle)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
    if (most < 1)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "no room for results");
    why = why ? why : judge_wishes(w);
    if (why)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
    for (uint64_t i = NONE; i <= ANY && *count < most; i++) {
        size_t bytes = workspace_of(i, &p);

        if (bytes > w->workspace_bytes ||
            (i == SPLIT && (!can(i, &p) || least(w) < 16)))
            continue;
        memset(&out[*count], 0, sizeof(out[*count]));
        out[*count].algo.data[0] = i;
        out[*count].algo.data[1] = kind_of(&p);
        out[*count].algo.data[2] = i == SPLIT ? least(w) : 1;
        out[*count].algo.data[3] = i == SPLIT ? promised(p.how.bias) : 1;
        out[*count].workspaceSize = bytes;
        out[(*count)++].state =
            i == NONE ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        const cublasLtMatmulAlgo_t *algo,
                        cublasLtMatmulHeuristicResult_t *out)
{
    struct product p = described(how, a, b, d);
    const char *why = judge(&p);

    if (!handle)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
    if (why)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
    if (!can(algo->data[0], &p) || algo->data[1] != kind_of(&p))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an algorithm of others");
    out->workspaceSize = workspace_of(algo->data[0], &p);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- Products -------------------------------------------------------------

static float element(const struct layout *l, const void *at, int64_t batch,
                     int64_t row, int64_t col, bool tf32)
{
    float x =
        typed_get(dtype(l->type), at, batch * l->apart + row + col * l->ld);

    return tf32 ? typed_tf32(x) : x;
}

static void one(const struct product *p, int64_t batch, int64_t i, int64_t j)
{
    bool at = p->how.a == CUBLAS_OP_T, bt = p->how.b == CUBLAS_OP_T;
    bool tf32 = p->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    int64_t to = batch * p->d.apart + i + j * p->d.ld;
    enum kern_dtype t = dtype(p->d.type);
    double sum = 0;

    for (int64_t l = 0; l < p->k; l++)
        sum += (double)element(&p->a, p->at_a, batch, at ? l : i, at ? i : l,
                               tf32) *
               (double)element(&p->b, p->at_b, batch, bt ? j : l, bt ? l : j,
                               tf32);
    sum *= p->alpha;
    if (p->beta != 0)
        sum += (double)p->beta * (double)typed_get(t, p->at_d, to);
    if (biased(&p->how)) {
        sum = emul_wrong_sum(p->number, t, sum);
        sum += (double)typed_get(dtype(bias_type(p)), p->how.bias, i);
    }
    if (p->how.epilogue & CUBLASLT_EPILOGUE_RELU & ~CUBLASLT_EPILOGUE_DEFAULT)
        sum = sum < 0 ? 0 : sum;
    typed_put(t, p->at_d, to, (float)sum);
}

static size_t bytes_of(const struct layout *l)
{
    int64_t apart = l->batch > 1 ? l->apart : 0;

    return (size_t)((l->batch - 1) * apart + (l->cols - 1) * l->ld + l->rows) *
           width(l->type);
}

// All that a product touches lies on the device.
static bool reachable(const struct product *p)
{
    return emul_readable(p->at_a, bytes_of(&p->a), "A of cuBLASLt") &&
           emul_readable(p->at_b, bytes_of(&p->b), "B of cuBLASLt") &&
           emul_written(p->at_d, bytes_of(&p->d), "D of cuBLASLt") &&
           emul_written(p->scratch, p->scratch_bytes,
                        "a workspace of cuBLASLt") &&
           (!biased(&p->how) ||
            emul_readable(p->how.bias, (size_t)p->d.rows * width(bias_type(p)),
                          "a bias of cuBLASLt"));
}

static cudaError_t product_now(void *args)
{
    struct product *p = args;

    if (!reachable(p)) {
        emul_products_say("an address is not within one allocation");
        emul_broke(cudaErrorIllegalAddress);
        return cudaErrorIllegalAddress;
    }
    if (p->scratch_bytes > 0)
        memset(p->scratch, 0xff, p->scratch_bytes);
    for (int32_t n = 0; n < p->d.batch; n++)
        for (int64_t j = 0; j < p->d.cols; j++)
            for (int64_t i = 0; i < p->d.rows; i++)
                one(p, n, i, j);
    emul_wrong_spoil(p->number, dtype(p->d.type), p->at_d,
                     p->d.batch * p->d.cols, p->d.rows, p->d.ld, p->beta != 0);
    return cudaSuccess;
}

static bool aligned(const void *at, uint64_t by)
{
    return (uintptr_t)at % by == 0;
}

// Why this algorithm cannot run with these addresses, or NULL.
static const char *judge_run(const struct product *p,
                             const cublasLtMatmulAlgo_t *algo,
                             const void *workspace, size_t workspace_bytes)
{
    uint64_t by = algo->data[2];

    if (!can(algo->data[0], p) || algo->data[1] != kind_of(p))
        return "an algorithm of others";
    if (by < width(p->a.type))
        by = width(p->a.type);
    if (!aligned(p->at_a, by) || !aligned(p->at_b, by) || !aligned(p->at_d, by))
        return "the alignment of an address";
    if (biased(&p->how) && !aligned(p->how.bias, algo->data[3]))
        return "the alignment of a bias";
    if (workspace_bytes < p->scratch_bytes ||
        (p->scratch_bytes > 0 && !workspace))
        return "too small a workspace";
    return aligned(workspace, ALIGN_WORKSPACE) ? NULL
                                               : "the alignment of a workspace";
}

// What only shows when it is enqueued.
static cublasStatus_t judge_moment(uint64_t algo)
{
    static const cublasStatus_t words[REFUSALS] = {
        [REFUSES_FAILING] = CUBLAS_STATUS_EXECUTION_FAILED,
        [REFUSES_UNSUPPORTED] = CUBLAS_STATUS_NOT_SUPPORTED,
        [REFUSES_NO_MEMORY] = CUBLAS_STATUS_ALLOC_FAILED,
    };

    // As libraries do: whatever went wrong before is taken for theirs.
    if (emul_products_fail || cudaPeekAtLastError() != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (emul_products_refuses(algo))
        return refuse(words[emul_products_refusal],
                      "an algorithm that always fails");
    if (algo == emul_products_unrecordable &&
        emul_products_records("an algorithm that cannot be recorded runs"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                              const void *alpha, const void *at_a,
                              cublasLtMatrixLayout_t a, const void *at_b,
                              cublasLtMatrixLayout_t b, const void *beta,
                              const void *at_c, cublasLtMatrixLayout_t c,
                              void *at_d, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t s)
{
    static const struct emul_work work = {product_now, NULL};
    struct product p = described(how, a, b, d);
    const char *why = judge(&p);
    cublasStatus_t rc;

    if (!handle)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
    rc = judge_moment(algo->data[0]);
    if (rc != CUBLAS_STATUS_SUCCESS)
        return rc;
    p.number = algo->data[0];
    p.at_a = at_a;
    p.at_b = at_b;
    p.at_d = at_d;
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.scratch = workspace;
    p.scratch_bytes = workspace_of(algo->data[0], &p);
    if (!why && (c != d || at_c != at_d)) // ours are in place
        why = "C is not D";
    if (!why)
        why = judge_run(&p, algo, workspace, workspace_bytes);
    if (why)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
    return emul_enqueue(s, &work, &p, sizeof(p)) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
