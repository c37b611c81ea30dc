// SPDX-License-Identifier: Apache-2.0
// Rounds of which directions are averaged (train.average), against the same in
// double.
#include "state/shard/mean.h"

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/unit/psserver/kit.h"

#define W 3000 // elements of each variable, more than a chunk
#define B 70
#define E 40
#define M 20
#define ALL (W + B + E + M)
#define MOST 4

static const struct {
    size_t first, n;
    bool plain;
} pieces[] = {{0, W, false},
              {W, B, false},
              {W + B, E, true}, // an embedding
              {W + B + E, M, true}};

static void kit_of(struct kit *k, bool open)
{
    static const uint64_t shapes[][2] = {{W, 0}, {B, 0}, {E, 0}, {M, 0}};
    static const char *const names[] = {"a/w", "a/b", "e/embeddings", "n/mean"};
    Sluice__V1__Variable *v = NULL;

    kit_init(k);
    kit_clear(k);
    for (unsigned i = 0; i < SL_COUNT(names); i++)
        v = kit_variable(k, names[i], shapes[i]);
    v->kind = SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING;
    v->momentum = 0;
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = MOST * 3;
    k->geometry.steps_per_closure = 1;
    k->spec.directions = true;
    k->spec.contributions = open ? 0 : MOST;
    k->spec.open_contributions = open ? MOST : 0;
}

static enum wire_push_result push_of(struct shard *s, uint64_t closure,
                                     enum wire_type type, uint64_t samples,
                                     float *g)
{
    static uint8_t bytes[4 * ALL];
    struct sl_slice one = {bytes, coded_bytes(&s->plan.coded, type)};
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;

    coded_write(&s->plan.coded, type, g, bytes);
    push.skip = false;
    push.wire = type;
    push.payload = slices_one(&one);
    push.samples = samples;
    push.based_on = once_version(&s->once);
    coded_read(&s->plan.coded, type, &push.payload, g); // as it arrives
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    return reply.result;
}

static double norm_of(const double *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

// The mean of one piece, as it is published.
static void mean_of_piece(float g[][ALL], const uint64_t *samples, size_t count,
                          unsigned p, double *out)
{
    size_t first = pieces[p].first, n = pieces[p].n;
    double all = 0, size = 0, norm;
    static double v[ALL];

    memset(out, 0, n * sizeof(*out));
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < n; i++)
            v[i] = (double)g[k][first + i];
        norm = norm_of(v, n);
        all += (double)samples[k];
        size += (double)samples[k] * norm;
        for (size_t i = 0; i < n && (norm > 0 || pieces[p].plain); i++)
            out[i] += (double)samples[k] * v[i] / (pieces[p].plain ? 1 : norm);
    }
    norm = norm_of(out, n);
    for (size_t i = 0; i < n; i++)
        out[i] *= pieces[p].plain ? 1 / all : norm > 0 ? size / all / norm : 0;
}

// Elements of a round were what they should be; `before` are those before it.
static void is_mean(const struct shard *s, const float *before, float g[][ALL],
                    const uint64_t *samples, size_t count)
{
    static double mean[ALL];

    for (unsigned p = 0; p < SL_COUNT(pieces); p++) {
        bool moving = p == SL_COUNT(pieces) - 1;

        mean_of_piece(g, samples, count, p, mean);
        for (size_t i = 0; i < pieces[p].n; i++) {
            size_t at = pieces[p].first + i;

            T_NEAR(s->memory.values[at],
                   moving ? mean[i] : (double)before[at] - mean[i], 2e-5);
        }
    }
}

static void random_change(struct rng *r, float size, float *g)
{
    for (size_t i = 0; i < ALL; i++)
        g[i] = size * ((float)rng_below(r, 20001) / 1e4f - 1);
}

static void check_rounds(bool open, const enum wire_type *types)
{
    static float g[MOST][ALL], before[ALL];
    uint64_t samples[MOST], closure = 0;
    struct rng r;
    struct shard *s;
    struct kit k;

    rng_init(&r, t_seed(), open);
    kit_of(&k, open);
    s = kit_admitted(&k);
    for (unsigned round = 0; round < 3; round++) {
        memcpy(before, s->memory.values, sizeof(before));
        for (size_t i = 0; i < MOST; i++) {
            samples[i] = 1 + rng_below(&r, 500);
            random_change(&r, 0.01f + (float)i, g[i]);
            if (round > 0) // a zero; in the last round of all
                memset(g[i], 0, (i == 1 || round == 2 ? W : 0) * sizeof(float));
            T_EQ(push_of(s, closure++, types[i], samples[i], g[i]),
                 i + 1 < MOST ? WIRE_PUSH_HELD : WIRE_PUSH_COUNTED);
        }
        is_mean(s, before, g, samples, MOST);
    }
    shard_unref(s);
}

TEST(mean, directions_and_norms_are_averaged_by_themselves)
{
    static const enum wire_type types[][MOST] = {
        {WIRE_F32, WIRE_F32, WIRE_F32, WIRE_F32},
        {WIRE_E3M0, WIRE_INT8, WIRE_TOPK2, WIRE_E3M0},
        {WIRE_TOPK2, WIRE_BF16, WIRE_E3M0, WIRE_TOPK2}};

    for (unsigned k = 0; k < SL_COUNT(types); k++) {
        check_rounds(false, types[k]);
        check_rounds(true, types[k]);
    }
}

// Whoever is last is averaged as all others are; and the next round has nothing
// of this one.
TEST(mean, a_round_that_is_ended_early_averages_what_it_holds)
{
    static float g[MOST][ALL], before[ALL];
    uint64_t samples[MOST] = {3, 5, 0, 0};
    struct rng r;
    struct shard *s;
    struct kit k;

    rng_init(&r, t_seed(), 7);
    kit_of(&k, true);
    s = kit_admitted(&k);
    for (unsigned round = 0; round < 2; round++) {
        memcpy(before, s->memory.values, sizeof(before));
        for (size_t i = 0; i < 2; i++) {
            random_change(&r, 0.5f, g[i]);
            T_EQ(push_of(s, 2 * round + i, WIRE_E3M0, samples[i], g[i]),
                 WIRE_PUSH_HELD);
        }
        T_TRUE(shard_close_round(s, k.spec.job_incarnation, 2 * round));
        is_mean(s, before, g, samples, 2);
    }
    shard_unref(s);
}

// Two that are opposite leave no direction: nothing moves by their rounding.
TEST(mean, directions_that_cancel_are_none)
{
    static float g[ALL], back[ALL], before[ALL];
    struct rng r;
    struct shard *s;
    struct kit k;

    rng_init(&r, t_seed(), 8);
    for (unsigned open = 0; open < 2; open++) {
        kit_of(&k, open);
        k.spec.contributions = open ? 0 : 2;
        k.spec.open_contributions = open ? 2 : 0;
        s = kit_admitted(&k);
        memcpy(before, s->memory.values, sizeof(before));
        random_change(&r, 1, g);
        for (size_t i = 0; i < ALL; i++)
            back[i] = -3 * g[i];
        T_EQ(push_of(s, 0, WIRE_F32, 7, g), WIRE_PUSH_HELD);
        T_EQ(push_of(s, 1, WIRE_F32, 7, back), WIRE_PUSH_COUNTED);
        T_MEM(s->memory.values, before, (W + B) * sizeof(float));
        for (size_t i = W + B; i < W + B + E; i++) // the plain mean does not
            T_NEAR(s->memory.values[i], before[i] + g[i], 1e-6);
        shard_unref(s);
    }
}

// Norms in f32 would be infinite, or zero. What is too large skips its round,
// and what is too small is a zero.
TEST(mean, very_large_and_very_small_ones)
{
    static const struct {
        float size;
        double moved;
        bool skipped;
    } rows[] = {{1e30f, 1e30, false},
                {1e-25f, 1e-25, false},
                {1e-40f, 0, false},
                {3e38f, 0, true}};
    static float g[2][ALL];
    struct shard *s;
    struct kit k;

    for (unsigned z = 0; z < SL_COUNT(rows); z++) {
        kit_of(&k, false);
        k.spec.contributions = 2;
        s = kit_admitted(&k);
        memset(s->memory.values, 0, ALL * sizeof(float)); // swallows no change
        for (size_t i = 0; i < ALL; i++)
            g[0][i] = g[1][i] = i < W + B ? rows[z].size : 0;
        T_EQ(push_of(s, 0, WIRE_F32, 1, g[0]), WIRE_PUSH_HELD);
        T_EQ(push_of(s, 1, WIRE_F32, 2, g[1]), WIRE_PUSH_COUNTED);
        T_EQ(s->once.counts.skipped, rows[z].skipped ? 2 : 0);
        for (size_t i = 0; i < W + B; i++)
            T_NEAR(-(double)s->memory.values[i], rows[z].moved,
                   1e-5 * rows[z].moved);
        shard_unref(s);
    }
}

TEST(mean, of_directions_wants_rounds)
{
    struct plan p;
    struct kit k;

    kit_of(&k, false);
    k.spec.contributions = 0;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
}
