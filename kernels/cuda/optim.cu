// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/optim.cu -- the optimizers, as kernels/optim_loops.c.
//
// The same formulas in the same order, and no operation contracted, so that an
// update has the bits that it has on the host.
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/optim.h"

// A float with every operation rounded by itself.
struct exact {
    float v;
};

DEV struct exact ex(float v)
{
    struct exact e = {v};
    return e;
}
DEV struct exact operator+(struct exact a, struct exact b)
{
    return ex(__fadd_rn(a.v, b.v));
}
DEV struct exact operator-(struct exact a, struct exact b)
{
    return ex(__fsub_rn(a.v, b.v));
}
DEV struct exact operator*(struct exact a, struct exact b)
{
    return ex(__fmul_rn(a.v, b.v));
}
DEV struct exact operator/(struct exact a, struct exact b)
{
    return ex(__fdiv_rn(a.v, b.v));
}
DEV struct exact root(struct exact a)
{
    return ex(__fsqrt_rn(a.v));
}

// One element: its gradient, parameter and slots.
struct element {
    struct exact g, w, s[3];
};

struct constants {
    struct exact decay, lr, a, b, rest, epsilon, outer, far;
};

DEV struct exact decayed(const struct element &e, const struct constants &k)
{
    return e.w - e.w * k.decay;
}

struct sgd {
    enum { slots = 0 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        e.w = decayed(e, k) - k.lr * e.g;
    }
};

struct sgd_momentum {
    enum { slots = 1 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        e.s[0] = k.a * e.s[0] - k.lr * e.g;
        e.w = decayed(e, k) + k.far * e.s[0];
    }
};

struct sgd_nesterov {
    enum { slots = 1 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact step = k.lr * e.g;

        e.s[0] = k.a * e.s[0] - step;
        e.w = decayed(e, k) + k.far * (k.a * e.s[0] - step);
    }
};

struct sgd_delayed {
    enum { slots = 2 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact g = k.b * e.g, all = e.s[1] + g;

        if (k.rest.v == 0) {
            e.s[1] = all;
            e.w = decayed(e, k) - k.lr * g;
            return;
        }
        e.s[0] = k.a * e.s[0] + all;
        e.s[1].v = 0;
        e.w = decayed(e, k) - k.lr * (g + k.a * e.s[0]);
    }
};

template <bool amsgrad> struct adam_rule {
    enum { slots = amsgrad ? 3 : 2 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact top;

        e.s[0] = e.s[0] + (e.g - e.s[0]) * k.a;
        e.s[1] = e.s[1] + (e.g * e.g - e.s[1]) * k.b;
        top = e.s[1];
        if (amsgrad)
            e.s[2] = top = e.s[1].v > e.s[2].v ? e.s[1] : e.s[2];
        e.w = decayed(e, k) - k.lr * e.s[0] / (root(top) + k.epsilon);
    }
};

typedef adam_rule<false> adam;
typedef adam_rule<true> adam_amsgrad;

struct adamax {
    enum { slots = 2 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact size = ex(fabsf(e.g.v)) + k.outer, kept = k.b * e.s[1];

        e.s[0] = e.s[0] + (e.g - e.s[0]) * k.a;
        e.s[1] = kept.v > size.v ? kept : size;
        e.w = decayed(e, k) - k.lr * e.s[0] / (e.s[1] + k.epsilon);
    }
};

struct nadam {
    enum { slots = 2 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        e.s[0] = e.s[0] + (e.g - e.s[0]) * k.a;
        e.s[1] = e.s[1] + (e.g * e.g - e.s[1]) * k.b;
        e.w = decayed(e, k) -
              (k.lr * e.s[0] + k.far * e.g) / (root(e.s[1]) + k.epsilon);
    }
};

struct lion {
    enum { slots = 1 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact to = e.s[0] * k.a + e.g * k.outer;
        struct exact move = ex(to.v > 0 ? k.lr.v : to.v < 0 ? -k.lr.v : 0);

        e.w = decayed(e, k) - move;
        e.s[0] = e.s[0] * k.b + e.g * k.rest;
    }
};

struct adagrad {
    enum { slots = 1 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        e.s[0] = e.s[0] + e.g * e.g;
        e.w = decayed(e, k) - k.lr * e.g / (root(e.s[0] + k.epsilon) + k.outer);
    }
};

// Slots: velocity, (momentum), (average gradient).
template <bool centered, bool momentum> struct rmsprop_rule {
    enum { slots = 1 + centered + momentum, mean = momentum ? 2 : 1 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        struct exact v, step;

        v = e.s[0] = k.b * e.s[0] + k.rest * (e.g * e.g);
        if (centered) {
            e.s[mean] = k.b * e.s[mean] + k.rest * e.g;
            v = v - e.s[mean] * e.s[mean];
        }
        step = k.lr * e.g / (root(v + k.epsilon) + k.outer);
        if (momentum) {
            e.s[1] = k.a * e.s[1] + step;
            step = k.far * e.s[1];
        }
        e.w = decayed(e, k) - step;
    }
};

typedef rmsprop_rule<false, false> rmsprop;
typedef rmsprop_rule<false, true> rmsprop_momentum;
typedef rmsprop_rule<true, false> rmsprop_centered;
typedef rmsprop_rule<true, true> rmsprop_both;

// No optimizer: the mean or variance of a batch norm.
struct moving {
    enum { slots = 0 };
    static __device__ __forceinline__ void step(struct element &e,
                                                const struct constants &k)
    {
        e.w = k.a * e.w + k.b * e.g;
    }
};

// NaN passes through: both comparisons are false.
DEV struct exact cuda_optim_clipped(float g, float clip)
{
    float low = g < -clip ? -clip : g;

    return ex(low > clip ? clip : low);
}

template <class Rule> DEV void update(const struct args_optim &a)
{
    const int V = 4;
    int64_t at = thread_number() * V;
    float g[V], w[V], s[3][V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);
    const struct optim_consts c = *a.consts;
    const struct constants k = {ex(c.decay), ex(c.lr),   ex(c.a),
                                ex(c.b),     ex(c.rest), ex(c.epsilon),
                                ex(c.outer), ex(c.far)};

    pack_load(g, a.grad + at, m, a.wide);
    pack_load(w, a.w + at, m, a.wide);
    for (int i = 0; i < Rule::slots; i++)
        pack_load(s[i], a.slot[i] + at, m, a.wide);
    for (int l = 0; l < V; l++) {
        struct element e = {cuda_optim_clipped(g[l], c.clip), ex(w[l])};

        for (int i = 0; i < Rule::slots; i++)
            e.s[i].v = s[i][l];
        Rule::step(e, k);
        w[l] = e.w.v;
        for (int i = 0; i < Rule::slots; i++)
            s[i][l] = e.s[i].v;
    }
    pack_store(a.w + at, w, m, a.wide);
    for (int i = 0; i < Rule::slots; i++)
        pack_store(a.slot[i] + at, s[i], m, a.wide);
}

#define RULE(name, ...) ENTRY(optim_##name, update<name>, optim)
#include "plan/optimizers.def"
ENTRY(optim_moving, update<moving>, optim)
