// SPDX-License-Identifier: Apache-2.0
// tests/emul/cublaslt.c -- a stand-in for libcublasLt, as far as gemm.c uses
// it: column-major products by their definition, in double.
//
// It refuses what the real one refuses (dims that do not fit, another dtype of
// bias, a small workspace, unaligned tensors) and spoils the workspace. Its
// first two results are: one of another state, and one that wants a workspace.
#include <cublasLt.h>
#include <stdlib.h>

#include "tests/emul/products.h"
#include "tests/emul/typed.h"

#define WORKSPACE 256

bool emul_products_fail;
uint64_t emul_products_bad;

struct how {
    cublasComputeType_t compute;
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

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = malloc(1);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t rc)
{
    return rc == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the stand-in";
}

size_t cublasLtGetVersion(void)
{
    return 1;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct how *h = calloc(1, sizeof(*h));

    if (!h || scale != CUDA_R_32F)
        abort();
    *h = (struct how){.compute = compute, .bias_type = -1};
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
    if (!to || n != want)
        return CUBLAS_STATUS_INVALID_VALUE;
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
    *out = calloc(1, sizeof(struct wishes));
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
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

// ---- Products -------------------------------------------------------------

// D's rows, columns and the length of the sums; false if dims do not fit.
static bool sizes(int64_t *k, const struct how *h, const struct layout *a,
                  const struct layout *b, const struct layout *d)
{
    bool at = h->a == CUBLAS_OP_T, bt = h->b == CUBLAS_OP_T;

    *k = at ? a->rows : a->cols;
    return (at ? a->cols : a->rows) == d->rows &&
           (bt ? b->rows : b->cols) == d->cols &&
           (bt ? b->cols : b->rows) == *k && a->ld >= a->rows &&
           b->ld >= b->rows && d->ld >= d->rows && a->batch == d->batch &&
           b->batch == d->batch && a->type == b->type;
}

static bool biased(const struct how *h)
{
    return h->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

// What is asked for must be something that the real one is documented to have.
static bool known(const struct how *h, const struct layout *a,
                  const struct layout *d)
{
    bool half = a->type != CUDA_R_32F;

    if (half && h->compute != CUBLAS_COMPUTE_32F)
        return false;
    if (d->type != a->type && d->type != CUDA_R_32F)
        return false;
    return !biased(h) || (h->bias_type == d->type && h->bias && d->batch == 1);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t pref, int most,
    cublasLtMatmulHeuristicResult_t *out, int *count)
{
    const struct wishes *w = (const struct wishes *)pref;
    int64_t k;

    *count = 0;
    if (!sizes(&k, (struct how *)how, (struct layout *)a, (struct layout *)b,
               (struct layout *)d) ||
        !known((struct how *)how, (struct layout *)a, (struct layout *)d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (w->sums & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                   CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE))
        return CUBLAS_STATUS_NOT_SUPPORTED; // a wish that gemm.c must not have
    for (int i = 0; i < 4; i++)
        if (w->align[i] != KERN_ALIGN)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 3 && i < most; i++) {
        size_t bytes = i == 1 ? WORKSPACE : 0;

        if (bytes > w->workspace_bytes)
            continue;
        memset(&out[*count], 0, sizeof(out[*count]));
        out[*count].algo.data[0] = (uint64_t)i + 1;
        out[*count].workspaceSize = bytes;
        out[(*count)++].state =
            i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
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
    if (algo->data[0] != 2 && algo->data[0] != 3)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    out->workspaceSize = algo->data[0] == 2 ? WORKSPACE : 0;
    return CUBLAS_STATUS_SUCCESS;
}

static enum kern_dtype dtype(cudaDataType_t t)
{
    return t == CUDA_R_16F ? KERN_F16 : t == CUDA_R_16BF ? KERN_BF16 : KERN_F32;
}

static float element(const struct layout *l, const void *at, int64_t batch,
                     int64_t row, int64_t col, bool tf32)
{
    float x =
        typed_get(dtype(l->type), at, batch * l->apart + row + col * l->ld);

    return tf32 ? typed_tf32(x) : x;
}

struct product {
    struct how how; // as they were when it was asked for
    struct layout a, b, d;
    void *scratch; // NULL: it wants none
    const void *at_a, *at_b;
    void *at_d;
    int64_t k;
    float alpha, beta;
};

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
    if (biased(&p->how))
        sum += (double)typed_get(dtype(p->how.bias_type), p->how.bias, i);
    if (p->how.epilogue & CUBLASLT_EPILOGUE_RELU & ~CUBLASLT_EPILOGUE_DEFAULT)
        sum = sum < 0 ? 0 : sum;
    typed_put(t, p->at_d, to, (float)sum);
}

static cudaError_t product_now(void *args)
{
    struct product *p = args;

    if (p->scratch)
        memset(p->scratch, 0xff, WORKSPACE);
    for (int32_t n = 0; n < p->d.batch; n++)
        for (int64_t j = 0; j < p->d.cols; j++)
            for (int64_t i = 0; i < p->d.rows; i++)
                one(p, n, i, j);
    return cudaSuccess;
}

static bool unaligned(const void *at)
{
    return (uintptr_t)at % KERN_ALIGN != 0;
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
    struct product p = {.how = *(struct how *)how,
                        .a = *(struct layout *)a,
                        .b = *(struct layout *)b,
                        .d = *(struct layout *)d,
                        .at_a = at_a,
                        .at_b = at_b,
                        .at_d = at_d,
                        .alpha = *(const float *)alpha,
                        .beta = *(const float *)beta};

    // As libraries do: whatever went wrong before is taken for theirs.
    if (emul_products_fail || emul_products_bad == algo->data[0] ||
        cudaPeekAtLastError() != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!sizes(&p.k, &p.how, &p.a, &p.b, &p.d) || !known(&p.how, &p.a, &p.d) ||
        c != d || at_c != at_d || unaligned(at_a) || unaligned(at_b) ||
        unaligned(at_d) || (biased(&p.how) && unaligned(p.how.bias)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->data[0] == 2) {
        if (workspace_bytes < WORKSPACE || !workspace)
            return CUBLAS_STATUS_INVALID_VALUE;
        p.scratch = workspace;
    } else if (algo->data[0] != 3) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return emul_enqueue(s, &work, &p, sizeof(p)) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
