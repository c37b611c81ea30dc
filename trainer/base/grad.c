// SPDX-License-Identifier: Apache-2.0
// trainer/base/grad.c -- the test for finite numbers, and clipping by norm,
// over a flat gradient.
#include "trainer/base/grad.h"

#include <math.h>
#include <string.h>

#include "common/base/num.h"
#include "common/base/rng.h"

// Multiplies the moving statistics among elements [first, first + count) by a
// number that depends on their momentum.
static void scale_statistics(float *g, const struct model *model,
                             uint64_t first, uint64_t count, uint32_t n,
                             double (*factor)(double momentum, uint32_t n))
{
    for (uint32_t i = 0; i < model->variables_count; i++) {
        const struct model_variable *v = &model->variables[i];
        uint64_t from = first > v->first ? first : v->first;
        uint64_t end = sl_min(first + count, v->first + v->elements);
        float by = v->kind == MODEL_MOVING ? (float)factor(v->momentum, n) : 1;

        for (uint64_t k = from; v->kind == MODEL_MOVING && k < end; k++)
            g[k] *= by;
    }
}

static double grad_mean_factor(double momentum, uint32_t n)
{
    return momentum < 1 ? (1 - momentum) / (1 - pow(momentum, n)) : 1;
}

static double grad_kept_factor(double momentum, uint32_t n)
{
    return pow(momentum, n);
}

// After k micro-batches a shard makes momentum^k w + (1 - momentum^k) pushed of
// its w; one move per micro-batch would make momentum^k w + sum (1 - momentum)
// momentum^(k - i) s_i of it: hence the factor.
void grad_statistics(float *g, const struct model *model, uint64_t first,
                     uint64_t count, uint32_t batches)
{
    if (batches > 1)
        scale_statistics(g, model, first, count, batches, grad_mean_factor);
}

void grad_statistics_share(float *g, const struct model *model, uint64_t first,
                           uint64_t count, uint32_t after)
{
    if (after > 0)
        scale_statistics(g, model, first, count, after, grad_kept_factor);
}

// Tests bits, which the compiler makes one vector loop of.
bool grad_finite(const float *g, size_t n)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &g[i], sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

uint64_t grad_digest(uint64_t before, const float *g, size_t n)
{
    // Four sums, so that their products overlap.
    uint64_t d[4] = {before, 1, 2, 3};
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t words[4];

        memcpy(words, g + i, sizeof(words));
        for (int k = 0; k < 4; k++) {
            d[k] = (d[k] ^ words[k]) * UINT64_C(0x9e3779b97f4a7c15);
            d[k] ^= d[k] >> 29;
        }
    }
    for (; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &g[i], sizeof(bits));
        d[i % 4] = sl_mix64(d[i % 4] ^ bits);
    }
    for (int k = 1; k < 4; k++)
        d[0] = sl_mix64(d[0]) ^ d[k];
    d[0] = sl_mix64(d[0] ^ n);
    return d[0] == 0 ? 1 : d[0];
}

static double sum_of_squares(const float *g, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

static float factor_of(double norm, double most)
{
    return norm > most ? (float)(most / norm) : 1;
}

static void shrink(float *g, uint64_t n, double norm, double most)
{
    float scale = factor_of(norm, most);

    if (!(norm > most))
        return;
    for (uint64_t i = 0; i < n; i++)
        g[i] *= scale;
}

bool grad_factors(float *factor, const double *squares, uint32_t variables,
                  double clipnorm, double global_clipnorm)
{
    double all = 0;
    bool any = false;

    for (uint32_t i = 0; i < variables; i++)
        all += squares[i];
    for (uint32_t i = 0; i < variables; i++) {
        factor[i] = 1;
        if (clipnorm > 0)
            factor[i] = factor_of(sqrt(squares[i]), clipnorm);
        else if (global_clipnorm > 0)
            factor[i] = factor_of(sqrt(all), global_clipnorm);
        any |= factor[i] != 1;
    }
    return any;
}

void grad_clipnorm(float *g, const struct model *model, double clipnorm)
{
    if (clipnorm <= 0)
        return;
    for (uint32_t i = 0; i < model->variables_count; i++) {
        const struct model_variable *v = &model->variables[i];
        float *at = g + v->first;

        if (v->kind == MODEL_TRAINABLE)
            shrink(at, v->elements, sqrt(sum_of_squares(at, v->elements)),
                   clipnorm);
    }
}

void grad_global_clipnorm(float *g, const struct model *model, double clipnorm)
{
    double sum = 0;

    if (clipnorm <= 0)
        return;
    for (uint32_t i = 0; i < model->variables_count; i++) {
        const struct model_variable *v = &model->variables[i];

        if (v->kind == MODEL_TRAINABLE)
            sum += sum_of_squares(g + v->first, v->elements);
    }
    for (uint32_t i = 0; i < model->variables_count; i++) {
        const struct model_variable *v = &model->variables[i];

        if (v->kind == MODEL_TRAINABLE)
            shrink(g + v->first, v->elements, sqrt(sum), clipnorm);
    }
}
