// SPDX-License-Identifier: Apache-2.0
// Rounds without slots at a shard (train.quorum): what is held, what ends a
// round, and what comes of it.
#include "state/shard/open_round.h"

#include <math.h>

#include "tests/unit/psserver/kit.h"

#define ALL 12

// One variable of 12, SGD at rate 1; 3 epochs of 10 closures of one step.
static struct shard *few_of(struct kit *k, uint32_t most, bool aged)
{
    static const uint64_t shape[] = {ALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 10;
    k->geometry.epochs = 3;
    k->geometry.steps_per_closure = 1;
    k->spec.open_contributions = most;
    k->spec.aged = aged;
    return kit_admitted(k);
}

static struct shard *few(struct kit *k, uint32_t most)
{
    return few_of(k, most, false);
}

static struct shard_brief brief_of(struct shard *s)
{
    struct shard_brief b;

    T_TRUE(shard_brief(s, true, &b));
    return b;
}

// A contribution of equal elements (NAN: a skip) that began with a version.
static enum wire_push_result push_of(struct shard *s, uint64_t closure, float g,
                                     uint64_t samples, uint64_t based_on,
                                     float values[ALL])
{
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;
    struct kit_payload payload;

    kit_payload_equal(&payload, isnan(g) ? 0 : g, ALL, 7);
    if (!isnan(g))
        push = kit_push(closure, 0, &payload);
    push.samples = samples;
    push.based_on = based_on;
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    kit_payload_release(&payload);
    return reply.result;
}

static void is_everywhere(const struct shard *s, double want)
{
    for (unsigned i = 0; i < ALL; i++)
        T_NEAR(s->memory.values[i], want, 1e-6);
}

TEST(open_round, L1_what_is_held_is_counted_with_its_round)
{
    float values[ALL];
    struct once once;
    struct shard *s;
    struct kit k;

    s = few(&k, 3);
    T_EQ(push_of(s, 7, 4, 10, 0, values), WIRE_PUSH_HELD);
    T_EQ(push_of(s, 7, 9, 10, 0, values), WIRE_PUSH_HELD); // again: the first
    T_EQ(push_of(s, 12, 2, 30, 0, values), WIRE_PUSH_HELD);
    T_EQ(brief_of(s).steps, 0);
    T_OK(shard_once(s, &once)); // what a snapshot takes
    T_EQ(counted_steps(&once.counted), 0);
    once_release(&once);
    is_everywhere(s, 0);
    T_EQ(push_of(s, 1, 1, 40, 0, values), WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.version, 1); // updates
    T_EQ(brief_of(s).counts.applied, 3); // keys, of two epochs
    is_everywhere(s, -(40 + 60 + 40) / 80.0);
    T_NEAR(values[3], -(40 + 60 + 40) / 80.0, 1e-6);
    T_EQ(push_of(s, 12, 9, 30, 0, values), WIRE_PUSH_DUPLICATE);
    T_EQ(brief_of(s).counts.applied, 3);
    shard_unref(s);
}

TEST(open_round, L2_a_round_is_ended_early_once_and_no_other_by_it)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few(&k, 3);
    T_FALSE(shard_close_round(s, k.spec.job_incarnation, 4)); // nothing is held
    push_of(s, 4, 4, 10, 0, values);
    T_FALSE(shard_close_round(s, k.spec.job_incarnation, 5));
    T_FALSE(shard_close_round(s, k.spec.job_incarnation + 1, 4));
    T_EQ(brief_of(s).steps, 0);
    T_TRUE(shard_close_round(s, k.spec.job_incarnation, 4));
    T_EQ(brief_of(s).steps, 1);
    is_everywhere(s, -4);
    // The message comes again, when the next round has begun.
    push_of(s, 5, 1, 10, 1, values);
    T_FALSE(shard_close_round(s, k.spec.job_incarnation, 4));
    T_EQ(brief_of(s).steps, 1);
    shard_close(s);
    T_FALSE(shard_close_round(s, k.spec.job_incarnation, 5));
    shard_unref(s);
}

TEST(open_round, L3_what_comes_late_is_in_the_round_that_is_open_then)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few(&k, 2);
    for (uint64_t i = 0; i < 8; i++) // 4 rounds
        push_of(s, i, 0, 1, i / 2, values);
    T_EQ(push_of(s, 20, 3, 30, 0, values), WIRE_PUSH_HELD); // 4 updates ago
    T_EQ(push_of(s, 9, 7, 10, 4, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, -(90 + 70) / 40.0);
    T_EQ(brief_of(s).counts.staleness[once_bucket(4)], 1);
    T_EQ(brief_of(s).counts.staleness[0], 9);
    T_EQ(brief_of(s).counts.stale, 0);
    shard_unref(s);
}

// 30 samples 4 updates old weigh as 6 do; what is counted is the same.
TEST(open_round, L3_an_older_contribution_may_weigh_less)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few_of(&k, 2, true);
    for (uint64_t i = 0; i < 8; i++)
        push_of(s, i, 0, 1, i / 2, values);
    T_EQ(push_of(s, 20, 3, 30, 0, values), WIRE_PUSH_HELD);
    T_EQ(push_of(s, 9, 7, 10, 4, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, -(3 * 6 + 7 * 10) / 16.0);
    T_EQ(brief_of(s).counts.staleness[once_bucket(4)], 1);
    T_EQ(brief_of(s).counts.applied, 10);
    // All of one age weigh their samples.
    T_EQ(push_of(s, 21, 4, 10, 4, values), WIRE_PUSH_HELD);
    T_EQ(push_of(s, 22, 1, 30, 4, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, -(3 * 6 + 7 * 10) / 16.0 - (40 + 30) / 40.0);
    shard_unref(s);
}

TEST(open_round, a_step_to_be_skipped_is_counted_at_once_and_spoils_no_round)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few(&k, 2);
    push_of(s, 3, 4, 10, 0, values);
    T_EQ(push_of(s, 4, NAN, 10, 0, values), WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.skipped, 1);
    T_EQ(brief_of(s).counts.version, 0);
    // What is held stays so, though another attempt would skip it.
    T_EQ(push_of(s, 3, NAN, 10, 0, values), WIRE_PUSH_HELD);
    T_EQ(brief_of(s).counts.skipped, 1);
    T_EQ(push_of(s, 5, 2, 10, 0, values), WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.applied, 2);
    is_everywhere(s, -3);
    shard_unref(s);
}

TEST(open_round, a_mean_that_is_too_large_is_skipped_whole)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few(&k, 2);
    push_of(s, 0, 3e38f, 100, 0, values);
    T_EQ(push_of(s, 1, 3e38f, 100, 0, values), WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.skipped, 2);
    is_everywhere(s, 0);
    T_EQ(push_of(s, 2, 1, 1, 0, values), WIRE_PUSH_HELD);
    T_EQ(push_of(s, 3, 3, 1, 0, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, -2);
    shard_unref(s);
}

TEST(open_round, a_mean_over_no_samples_is_skipped)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = few(&k, 2);
    push_of(s, 0, 1, 0, 0, values);
    T_EQ(push_of(s, 1, 1, 0, 0, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, 0);
    T_EQ(brief_of(s).counts.skipped, 2);
    // A sum of samples that is more than 64 bits hold is no 0.
    push_of(s, 2, 1, 5, 0, values);
    T_EQ(push_of(s, 3, 1, -UINT64_C(5), 0, values), WIRE_PUSH_COUNTED);
    is_everywhere(s, -1);
    T_EQ(brief_of(s).counts.skipped, 2);
    shard_unref(s);
}

// A message may end a round at any time, so space for the lines of all its
// epochs is there, whatever was counted meanwhile.
TEST(open_round, of_many_epochs_can_always_be_counted)
{
    static const uint64_t shape[] = {ALL, 0};
    float values[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    kit_clear(&k);
    kit_variable(&k, "w", shape);
    kit_optimizer(&k, "sgd", 1);
    k.geometry.samples = 10;
    k.geometry.epochs = 60;
    k.geometry.steps_per_closure = 1;
    k.spec.open_contributions = 40;
    s = kit_admitted(&k);
    for (uint64_t epoch = 0; epoch < 39; epoch++)
        push_of(s, 10 * epoch, 1, 1, 0, values);
    for (uint64_t epoch = 39; epoch < 60; epoch++)
        push_of(s, 10 * epoch, NAN, 1, 0, values);
    T_TRUE(shard_close_round(s, k.spec.job_incarnation, 0));
    T_EQ(brief_of(s).steps, 60);
    shard_unref(s);
}

TEST(open_round, of_a_wrong_spec_is_refused)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    k.geometry.steps_per_closure = 1;
    k.spec.open_contributions = OPEN_ROUND_MOST + 1;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    k.spec.open_contributions = k.spec.contributions = 2;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    k.spec.contributions = 0;
    k.geometry.steps_per_closure = 2;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
}
