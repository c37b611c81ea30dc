// SPDX-License-Identifier: Apache-2.0
// Sums for metrics, against the definitions: every threshold tried, every class
// compared. Keras' own numbers: tests/system/metrics_test.py.
#include "trainer/lease/score.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define ALL ((1u << SPEC_METRIC_COUNT) - 1)
#define MANY 2000

static struct score_rule rule(enum spec_loss loss, uint32_t outputs,
                              bool logits)
{
    return (struct score_rule){.rows = 1,
                               .loss = loss,
                               .metrics = ALL,
                               .top_k = 2,
                               .outputs = outputs,
                               .logits = logits};
}

TEST(score, classes)
{
    static const float z[] = {
        0,          1, 2,       // class 1: second
        5,          0, 0,       // class 0: first, p = 0.987
        logf(8),    0, logf(1), // class 2: the third of two that are alike
        (float)NAN, 1, 0,       // class 0: nobody knows
    };
    static const int32_t labels[] = {1, 0, 2, 0};
    static const float hot[] = {0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0};
    struct score_rule sparse =
        rule(SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, 3, true);
    struct score_rule dense = rule(SPEC_LOSS_CATEGORICAL_CROSSENTROPY, 3, true);
    struct score a = {0}, b = {0};

    T_OK(score_add(&a, &sparse, z, labels, 4));
    T_OK(score_add(&b, &dense, z, hot, 2));
    T_OK(score_add(&b, &dense, z + 6, hot + 6, 2)); // in two batches
    T_EQ(a.top, 2);
    // Above 1/2: class 2 of the first (p 0.665), which is wrong; the second;
    // class 0 of the third (p 0.8), which is wrong.
    T_EQ(a.true_positives, 1);
    T_EQ(a.false_positives, 2);
    T_EQ(a.false_negatives, 3);
    T_TRUE(isnan(a.absolute));
    a.absolute = b.absolute = a.squared = b.squared = 0; // NaN
    T_EQ(memcmp(&a, &b, sizeof(a)), 0);
}

TEST(score, a_weight_behind_a_label_is_not_looked_at)
{
    static const float z[] = {0, 1, 2, 5, 0, 0}, heavy = 1e9f;
    int32_t labels[] = {1, 77, 0, 78};
    float hot[] = {0, 1, 0, heavy, 1, 0, 0, heavy};
    struct score_rule sparse =
        rule(SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, 3, true);
    struct score_rule dense = rule(SPEC_LOSS_CATEGORICAL_CROSSENTROPY, 3, true);
    struct score a = {0}, b = {0};

    sparse.weighted = dense.weighted = true;
    T_OK(score_add(&a, &sparse, z, labels, 2));
    T_OK(score_add(&b, &dense, z, hot, 2));
    T_EQ(a.top, 2);
    T_EQ(a.true_positives, 1);
    T_EQ(memcmp(&a, &b, sizeof(a)), 0);
}

TEST(score, distances_are_means_over_a_sample)
{
    static const float y[] = {1, 2, 3, 4}, p[] = {2, 2, 1, 4.5f};
    struct score_rule r = rule(SPEC_LOSS_MEAN_SQUARED_ERROR, 2, false);
    struct score s = {0};

    r.metrics = 1u << SPEC_METRIC_MEAN_ABSOLUTE_ERROR;
    T_OK(score_add(&s, &r, p, y, 2));
    T_NEAR(s.absolute, 0.5 + 1.25, 1e-12);
    T_NEAR(s.squared, 0.5 + 2.125, 1e-12);
    T_EQ(s.true_positives + s.false_positives + s.false_negatives, 0);
}

TEST(score, logits_become_probabilities)
{
    static const float z[] = {0, 0.1f, -3, 100}, y[] = {1, 1, 0, 1};
    struct score_rule r = rule(SPEC_LOSS_BINARY_CROSSENTROPY, 1, true);
    struct score s = {0};

    r.metrics &= ~(1u << SPEC_METRIC_TOP_K);
    T_OK(score_add(&s, &r, z, y, 4));
    T_EQ(s.true_positives, 2); // 1/2 itself is not above it
    T_EQ(s.false_negatives, 1);
    T_EQ(s.false_positives, 0);
    T_NEAR(s.absolute, 0.5 + (1 - 0.5249791875) + 0.0474258732, 1e-6);
    T_EQ(s.positives[198], 1);
}

// What is in buckets i and behind is what lies above threshold i / 199.
TEST(score, buckets_are_what_lies_above_each_threshold)
{
    static float p[MANY], y[MANY];
    struct score_rule r = rule(SPEC_LOSS_BINARY_CROSSENTROPY, 1, false);
    struct score s = {0};
    uint64_t random = t_seed();

    for (unsigned i = 0; i < MANY; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        p[i] = (float)(random >> 40) / (float)(1 << 24);
        y[i] = (random >> 20 & 3) == 0;
    }
    p[0] = 0;
    p[1] = 1;
    p[2] = 1e-45f;
    p[3] = (float)NAN;
    r.metrics = 1u << SPEC_METRIC_AUC;
    T_OK(score_add(&s, &r, p, y, MANY));
    for (unsigned t = 1; t < WIRE_SCORE_BUCKETS; t++) {
        uint64_t want[2] = {0, 0}, got[2] = {0, 0};

        for (unsigned i = 0; i < MANY; i++)
            want[y[i] != 0] += p[i] * 199.0f > (float)t;
        for (unsigned b = t; b < WIRE_SCORE_BUCKETS; b++) {
            got[0] += s.negatives[b];
            got[1] += s.positives[b];
        }
        T_EQ(got[0], want[0]);
        T_EQ(got[1], want[1]);
    }
}
