// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_blas.c -- calls of cuBLASLt with a mistake
// (planted_calls.h).
#include <cublasLt.h>

#include "tests/emul/planted_calls.h"
#include "tests/emul/streams.h"

#define WRAP(name, ...)                                                        \
    cublasStatus_t __real_##name(__VA_ARGS__);                                 \
    cublasStatus_t __wrap_##name(__VA_ARGS__);                                 \
    cublasStatus_t __wrap_##name(__VA_ARGS__)

// ---- Describing -----------------------------------------------------------

WRAP(cublasLtMatmulDescCreate, cublasLtMatmulDesc_t *out,
     cublasComputeType_t compute, cudaDataType_t scale)
{
    if (PLANTED(blas_tf32_of_16_bits))
        compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    if (PLANTED(blas_scale_of_16_bits))
        scale = CUDA_R_16BF;
    return __real_cublasLtMatmulDescCreate(out, compute, scale);
}

WRAP(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t d,
     cublasLtMatmulDescAttributes_t name, const void *from, size_t n)
{
    static const void *const even = (const void *)(uintptr_t)256;
    cudaDataType_t half = CUDA_R_16F;

    if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) {
        uintptr_t at = *(const uintptr_t *)from;

        if (PLANTED(blas_bias_unsaid) ||
            (PLANTED(blas_bias_of_the_plan) && at > 256))
            return CUBLAS_STATUS_SUCCESS;
        if (PLANTED(blas_bias_promised_256) && at <= 256)
            from = &even;
    }
    if (PLANTED(blas_bias_of_another_type) &&
        name == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
        from = &half;
    if (PLANTED(blas_transposition_unsaid) &&
        name == CUBLASLT_MATMUL_DESC_TRANSA)
        return CUBLAS_STATUS_SUCCESS;
    return __real_cublasLtMatmulDescSetAttribute(d, name, from, n);
}

WRAP(cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t *out, cudaDataType type,
     uint64_t rows, uint64_t cols, int64_t ld)
{
    if (PLANTED(blas_ld_below_the_rows))
        ld--;
    return __real_cublasLtMatrixLayoutCreate(out, type, rows, cols, ld);
}

WRAP(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t layout,
     cublasLtMatrixLayoutAttribute_t name, const void *from, size_t n)
{
    if (PLANTED(blas_batch_unsaid) &&
        name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && planted_first())
        return CUBLAS_STATUS_SUCCESS;
    if (PLANTED(blas_batch_apart_unsaid) &&
        name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return CUBLAS_STATUS_SUCCESS;
    return __real_cublasLtMatrixLayoutSetAttribute(layout, name, from, n);
}

WRAP(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t wishes,
     cublasLtMatmulPreferenceAttributes_t name, const void *from, size_t n)
{
    static const uint32_t all = CUBLASLT_REDUCTION_SCHEME_MASK;
    bool align = name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ||
                 name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ||
                 name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES ||
                 name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;

    if (PLANTED(blas_align_unsaid) && align)
        return CUBLAS_STATUS_SUCCESS;
    if (PLANTED(blas_sums_in_the_output) &&
        name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        from = &all;
    if (PLANTED(blas_workspace_in_32_bits) &&
        name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        n = sizeof(uint32_t);
    return __real_cublasLtMatmulPreferenceSetAttribute(wishes, name, from, n);
}

// ---- Running --------------------------------------------------------------

// What a run may get wrong by itself.
struct given {
    cublasLtHandle_t handle;
    const void *b, *beta, *c;
    void *workspace;
    size_t workspace_bytes;
    cudaStream_t s;
    cublasLtMatmulAlgo_t algo;
};

static void change(struct given *g)
{
    static const float nothing;
    static _Alignas(256) char host[4096];

    if (PLANTED(blas_no_handle))
        g->handle = NULL;
    if (PLANTED(blas_address_of_the_host))
        g->b = host;
    if (PLANTED(blas_beta_forgotten))
        g->beta = &nothing;
    if (PLANTED(blas_c_elsewhere))
        g->c = g->b;
    if (PLANTED(blas_workspace_unsaid))
        g->workspace_bytes = 0;
    if (PLANTED(blas_workspace_unaligned) && g->workspace)
        g->workspace = (char *)g->workspace + 4;
    if (PLANTED(blas_default_stream))
        g->s = NULL;
    if (PLANTED(blas_algorithm_of_others)) // as a wrong key of a kept one does
        g->algo.data[1] ^= 1;
    if (PLANTED(blas_waits_while_recording) && emul_recording())
        cudaStreamSynchronize(g->s);
}

WRAP(cublasLtMatmul, cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
     const void *alpha, const void *at_a, cublasLtMatrixLayout_t a,
     const void *at_b, cublasLtMatrixLayout_t b, const void *beta,
     const void *at_c, cublasLtMatrixLayout_t c, void *at_d,
     cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
     void *workspace, size_t workspace_bytes, cudaStream_t s)
{
    struct given g = {handle,          at_b, beta, at_c, workspace,
                      workspace_bytes, s,    *algo};

    if (PLANTED(blas_handle_while_recording) && emul_recording()) {
        if (cublasLtCreate(&g.handle) != CUBLAS_STATUS_SUCCESS)
            return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    change(&g);
    return __real_cublasLtMatmul(g.handle, how, alpha, at_a, a, g.b, b, g.beta,
                                 g.c, c, at_d, d, &g.algo, g.workspace,
                                 g.workspace_bytes, g.s);
}
