// SPDX-License-Identifier: Apache-2.0
// Where a closure resumes, as a table: W1 and W2 without a network.
#include "tests/harness/t.h"

#include "trainer/push/evidence.h"

static void take(struct step_evidence *e, uint64_t incarnation, uint8_t bits)
{
    evidence_take(e, incarnation, &bits, 1);
}

TEST(evidence, W1_resumes_at_the_first_step_not_counted_everywhere)
{
    static const struct {
        uint8_t a, b, c; // bits of three shards
        uint32_t steps, from;
        enum evidence_next next;
        uint32_t step;
    } cases[] = {
        {0x00, 0x00, 0x00, 4, 0, EVIDENCE_STEP, 0},
        {0x01, 0x00, 0x01, 4, 0, EVIDENCE_STEP, 0},
        {0x01, 0x01, 0x01, 4, 0, EVIDENCE_STEP, 1},
        {0x07, 0x03, 0x0f, 4, 0, EVIDENCE_STEP, 2},
        {0x0f, 0x0f, 0x0f, 4, 0, EVIDENCE_FULL, 0},
        {0x0f, 0x0f, 0x0f, 5, 0, EVIDENCE_STEP, 4},
        {0x0b, 0x0f, 0x0f, 4, 0, EVIDENCE_STEP, 2}, // a hole
        {0x00, 0x00, 0x00, 4, 2, EVIDENCE_STEP, 2},
        {0x00, 0x00, 0x00, 4, 4, EVIDENCE_FULL, 0},
        {0x0f, 0x07, 0x0f, 4, 3, EVIDENCE_STEP, 3},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct step_evidence e[3];
        uint32_t step = 99;

        take(&e[0], 1, cases[i].a);
        take(&e[1], 1, cases[i].b);
        take(&e[2], 1, cases[i].c);
        T_EQ(evidence_first_missing(e, sizeof(e[0]), 3, cases[i].steps,
                                    cases[i].from, &step),
             cases[i].next);
        if (cases[i].next == EVIDENCE_STEP)
            T_EQ(step, cases[i].step);
    }
}

TEST(evidence, an_unknown_shard_is_asked_first)
{
    struct step_evidence e[2];
    uint32_t step = 0;

    take(&e[0], 1, 0xff);
    evidence_void(&e[1]);
    T_EQ(evidence_first_missing(e, sizeof(e[0]), 2, 8, 0, &step), EVIDENCE_ASK);
}

TEST(evidence, W1_another_incarnation_voids_it)
{
    struct step_evidence e;

    take(&e, 5, 0x03);
    T_TRUE(evidence_note(&e, 5, 2));
    T_TRUE(evidence_has(&e, 0) && evidence_has(&e, 2));
    T_FALSE(evidence_has(&e, 3));
    T_FALSE(evidence_note(&e, 6, 3));
    T_FALSE(evidence_known(&e));
    T_FALSE(evidence_note(&e, 6, 3)); // nothing is known before an Ask
    T_FALSE(evidence_known(&e));
}

TEST(evidence, W1_a_map_of_another_incarnation_voids_it)
{
    struct step_evidence e;

    take(&e, 5, 0x03);
    T_TRUE(evidence_map(&e, 5));
    T_TRUE(evidence_map(&e, 0)); // not admitted now: it may come back as it was
    T_TRUE(evidence_has(&e, 1));
    T_FALSE(evidence_map(&e, 6));
    T_FALSE(evidence_known(&e));
    T_TRUE(evidence_map(&e, 7)); // nothing there to lose
}

TEST(evidence, steps_beyond_its_bits_are_not_counted)
{
    struct step_evidence e;

    evidence_take(&e, 1, NULL, 0);
    T_TRUE(evidence_known(&e));
    T_FALSE(evidence_has(&e, EVIDENCE_STEPS));
    T_TRUE(evidence_note(&e, 1, EVIDENCE_STEPS));
    T_FALSE(evidence_has(&e, EVIDENCE_STEPS));
    T_TRUE(evidence_note(&e, 1, EVIDENCE_STEPS - 1));
    T_TRUE(evidence_has(&e, EVIDENCE_STEPS - 1));
}
