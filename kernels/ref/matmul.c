// SPDX-License-Identifier: Apache-2.0
// kernels/ref/matmul.c -- C = relu?(op(A) op(B) + bias).
#include "kernels/ref/ref.h"

struct ref_product {
    struct kern_matmul_dims s;
    bool trans_a, trans_b;
};

static double at_a(const struct ref_product *p, const real *a, int64_t i,
                   int64_t k)
{
    return p->trans_a ? a[k * p->s.m + i] : a[i * p->s.k + k];
}

static double at_b(const struct ref_product *p, const real *b, int64_t k,
                   int64_t j)
{
    return p->trans_b ? b[j * p->s.k + k] : b[k * p->s.n + j];
}

// One product of [m,k] and [k,n].
static void ref_matmul_multiply(const struct kern_desc *d,
                                const struct ref_product *p, const real *a,
                                const real *b, const real *bias, real *c)
{
    for (int64_t i = 0; i < p->s.m; i++) {
        for (int64_t j = 0; j < p->s.n; j++) {
            double sum = bias ? bias[j] : 0;

            for (int64_t k = 0; k < p->s.k; k++)
                sum += at_a(p, a, i, k) * at_b(p, b, k, j);
            if (kern_has(d, KERN_ACCUM))
                sum += c[i * p->s.n + j];
            if (kern_has(d, KERN_RELU) && sum < 0)
                sum = 0;
            c[i * p->s.n + j] = (real)sum;
        }
    }
}

void REF(matmul)(const struct kern_desc *d, void *const *io)
{
    struct ref_product p = {.trans_a = d->u.matmul.trans_a,
                            .trans_b = d->u.matmul.trans_b};
    const real *bias = kern_has(d, KERN_BIAS) ? io[2] : NULL;
    const real *a = io[0], *b = io[1];
    real *c = io[d->inputs];

    kern_matmul_dims(&p.s, d);
    for (int64_t t = 0; t < p.s.batch; t++)
        ref_matmul_multiply(d, &p, a + t * p.s.m * p.s.k, b + t * p.s.k * p.s.n,
                            bias, c + t * p.s.m * p.s.n);

    for (int64_t i = 0; kern_has(d, KERN_BGRAD) && i < p.s.m; i++) {
        double sum = 0;

        for (int64_t k = 0; k < p.s.k; k++)
            sum += at_a(&p, a, i, k);
        ref_put(d, (real *)io[d->inputs + 1] + i, sum);
    }
}
