// SPDX-License-Identifier: Apache-2.0
// bench/floor.c -- see floor.h.
#include "bench/floor.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "bench/program.h"

// ---- operations

// Is there anything to train at or below the node? Then the gradient by its
// output is wanted.
static bool trains(const struct model *m, uint32_t node)
{
    const struct model_node *n = &m->nodes[node];

    if (n->weight[MODEL_KERNEL] != MODEL_NONE && n->type != MODEL_INPUT)
        return true;
    for (uint32_t i = 0; i < n->inputs; i++) {
        if (trains(m, n->input[i]))
            return true;
    }
    return false;
}

// Products per pass: forward, by weights, by data.
static unsigned passes(const struct model *m, const struct model_node *n)
{
    return trains(m, n->input[0]) ? 3 : 2;
}

double floor_flop(const struct model *m, uint32_t batch)
{
    double sum = 0;

    for (uint32_t i = 1; i < m->nodes_count; i++) {
        const struct model_node *n = &m->nodes[i];
        double outputs = (double)model_shape_elements(&n->out), depth;

        if (n->type == MODEL_DENSE)
            depth = (double)n->in.dim[n->in.rank - 1];
        else if (n->type == MODEL_CONV2D)
            depth = (double)n->window[0] * n->window[1] *
                    (double)(n->in.dim[2] / n->groups);
        else
            continue;
        sum += passes(m, n) * 2 * depth * outputs;
    }
    return sum * batch;
}

// ---- the peak

// As wide as this machine's registers are, and enough of them on their way
// that the units never wait for a result.
#ifdef __AVX512F__
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#ifdef __x86_64__
#define IN_REGISTER "+x"
#else
#define IN_REGISTER "+w"
#endif
#define NARROW_WIDTH (WIDTH < 8 ? WIDTH : 8)
#define CHAINS 12
#define FMAS 20000

typedef float vec __attribute__((vector_size(WIDTH * sizeof(float))));
typedef float narrow_vec
    __attribute__((vector_size(NARROW_WIDTH * sizeof(float))));

// Operations per second of vectors of that type. The loop is not to be thought
// away, nor kept in memory.
#define PEAK(name, type)                                                       \
    static double name(void)                                                   \
    {                                                                          \
        type sum[CHAINS] = {0}, a = (type){0} + 0.999f, b = (type){0} + 1e-3f; \
        double began = program_now_s();                                        \
                                                                               \
        for (int i = 0; i < FMAS; i++) {                                       \
            for (int k = 0; k < CHAINS; k++)                                   \
                sum[k] = sum[k] * a + b;                                       \
            for (int k = 0; k < CHAINS; k++)                                   \
                __asm__ volatile("" : IN_REGISTER(sum[k]));                    \
        }                                                                      \
        return 2.0 * (sizeof(type) / sizeof(float)) * CHAINS * FMAS /          \
               (program_now_s() - began);                                      \
    }

PEAK(one_peak, vec)
PEAK(one_narrow_peak, narrow_vec)

double floor_fma_peak(bool narrow)
{
    double best = 0;

    for (int i = 0; i < 100; i++) {
        double now = narrow ? one_narrow_peak() : one_peak();

        if (now > best)
            best = now;
    }
    return best;
}

// ---- products alone

struct gemm {
    char trans_a, trans_b;
    dnnl_dim_t m, n, k;
    float *a, *b, *c; // a and b are other gemms' or the model's; all owned
};

struct floor_gemms {
    unsigned count;
    struct gemm *gemm;
};

static void add(struct floor_gemms *g, char trans_a, char trans_b, dnnl_dim_t m,
                dnnl_dim_t n, dnnl_dim_t k)
{
    struct gemm *one = &g->gemm[g->count++];

    *one = (struct gemm){trans_a, trans_b, m, n, k, NULL, NULL, NULL};
    one->a = program_memory((size_t)(m * k) * sizeof(float));
    one->b = program_memory((size_t)(k * n) * sizeof(float));
    one->c = program_memory((size_t)(m * n) * sizeof(float));
    for (dnnl_dim_t i = 0; i < m * k; i++)
        one->a[i] = 1e-3f * (float)(i % 1000);
    for (dnnl_dim_t i = 0; i < k * n; i++)
        one->b[i] = 1e-3f * (float)(i % 999);
}

struct floor_gemms *floor_gemms_new(const struct model *m, uint32_t batch)
{
    struct floor_gemms *g = calloc(1, sizeof(*g));

    if (g != NULL)
        g->gemm = calloc(3 * m->nodes_count, sizeof(*g->gemm));
    if (g == NULL || g->gemm == NULL)
        program_die("no memory for the products");
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        const struct model_node *n = &m->nodes[i];
        dnnl_dim_t in = (dnnl_dim_t)n->in.dim[0];
        dnnl_dim_t out = (dnnl_dim_t)n->out.dim[0];

        if (n->type != MODEL_DENSE)
            continue;
        add(g, 'N', 'T', batch, out, in); // y = x W'
        add(g, 'T', 'N', out, in, batch); // dW = dy' x
        if (passes(m, n) == 3)
            add(g, 'N', 'N', batch, in, out); // dx = dy W
    }
    return g;
}

void floor_gemms_run(struct floor_gemms *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        const struct gemm *one = &g->gemm[i];
        dnnl_dim_t lda = one->trans_a == 'N' ? one->k : one->m;
        dnnl_dim_t ldb = one->trans_b == 'N' ? one->n : one->k;

        if (dnnl_sgemm(one->trans_a, one->trans_b, one->m, one->n, one->k, 1,
                       one->a, lda, one->b, ldb, 0, one->c,
                       one->n) != dnnl_success)
            program_die("oneDNN's sgemm failed");
    }
}

void floor_gemms_free(struct floor_gemms *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        free(g->gemm[i].a);
        free(g->gemm[i].b);
        free(g->gemm[i].c);
    }
    free(g->gemm);
    free(g);
}
