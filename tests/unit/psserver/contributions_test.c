// SPDX-License-Identifier: Apache-2.0
// Rounds at a shard (train.mode sync): what is held, when it is counted, and
// what comes of it.
#include "state/shard/contributions.h"

#include <math.h>
#include <string.h>

#include "tests/unit/psserver/kit.h"

#define ALL 12

// One variable of 12, SGD at rate 1; 10 closures of one step per epoch, so that
// rounds of 4 end with one of 2.
static struct shard *small(struct kit *k, uint32_t contributions)
{
    static const uint64_t shape[] = {ALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 10;
    k->geometry.steps_per_closure = 1;
    k->spec.contributions = contributions;
    return kit_admitted(k);
}

static struct shard_brief brief_of(struct shard *s)
{
    struct shard_brief b;

    T_TRUE(shard_brief(s, true, &b));
    return b;
}

// A contribution of equal elements (NAN: a skip), by an attempt, of the values
// as they are.
static struct wire_push_reply push_by(struct shard *s, uint64_t n,
                                      uint64_t closure, float g,
                                      uint64_t samples, float values[ALL])
{
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;
    struct kit_payload payload;

    kit_payload_equal(&payload, isnan(g) ? 0 : g, ALL, 7);
    if (!isnan(g))
        push = kit_push(closure, 0, &payload);
    push.attempt.n = n;
    push.samples = samples;
    push.based_on = brief_of(s).counts.version;
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    kit_payload_release(&payload);
    return reply;
}

static void is_everywhere(const float *values, double want)
{
    for (unsigned i = 0; i < ALL; i++)
        T_NEAR(values[i], want, 1e-6);
}

TEST(contributions, Y1_a_copy_of_a_slot_is_the_same_slot)
{
    struct wire_push_reply reply;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2);
    T_EQ(push_by(s, 1, 0, 4, 1, values).result, WIRE_PUSH_HELD);
    // Again, by the same and by a newer attempt, with another gradient: the
    // first one stays, and the round is not whole by it.
    T_EQ(push_by(s, 1, 0, 9, 1, values).result, WIRE_PUSH_HELD);
    T_EQ(push_by(s, 2, 0, 9, 1, values).result, WIRE_PUSH_HELD);
    T_EQ(brief_of(s).steps, 0);
    reply = push_by(s, 1, 1, 2, 1, values);
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    is_everywhere(values, -3);
    // And after it: acknowledged, ignored (S2).
    T_EQ(push_by(s, 3, 0, 9, 1, values).result, WIRE_PUSH_DUPLICATE);
    is_everywhere(values, -3);
    T_EQ(brief_of(s).steps, 2);
    shard_unref(s);
}

TEST(contributions, Y2_what_is_held_is_counted_with_its_round)
{
    struct wire_ask_reply told;
    struct wire_ask ask = kit_ask(0, 1);
    float values[ALL];
    struct once once;
    struct shard *s;
    struct kit k;

    s = small(&k, 2);
    push_by(s, 1, 0, 4, 1, values);
    T_EQ(brief_of(s).steps, 0);
    T_EQ(brief_of(s).counts.version, 0);
    T_OK(shard_ask(s, &ask, &told, t_err()));
    T_EQ(told.counted[0], 0);
    T_OK(shard_once(s, &once)); // what a snapshot takes
    T_EQ(counted_steps(&once.counted), 0);
    once_release(&once);
    push_by(s, 1, 1, 2, 1, values);
    T_EQ(brief_of(s).steps, 2);
    T_EQ(brief_of(s).counts.applied, 2); // keys
    T_EQ(brief_of(s).counts.version, 1); // updates
    T_OK(shard_once(s, &once));
    T_EQ(counted_steps(&once.counted), 2);
    once_release(&once);
    shard_unref(s);
}

TEST(contributions, are_averaged_by_their_samples)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 4);
    push_by(s, 1, 0, 1, 10, values);
    push_by(s, 1, 1, 2, 20, values);
    push_by(s, 1, 2, 3, 30, values);
    T_EQ(push_by(s, 1, 3, 4, 40, values).result, WIRE_PUSH_COUNTED);
    is_everywhere(values, -(10 + 40 + 90 + 160) / 100.0);
    shard_unref(s);
}

TEST(contributions, the_order_of_their_coming_changes_no_bit)
{
    static const uint64_t orders[][4] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    float first[ALL], values[ALL];
    struct shard *s;
    struct kit k;

    for (unsigned o = 0; o < SL_COUNT(orders); o++) {
        s = small(&k, 4);
        for (unsigned i = 0; i < 4; i++)
            push_by(s, 1, orders[o][i], 0.1f + 0.7f * (float)orders[o][i],
                    3 + orders[o][i], values);
        if (o == 0)
            memcpy(first, values, sizeof(first));
        T_EQ(memcmp(first, values, sizeof(first)), 0);
        shard_unref(s);
    }
}

TEST(contributions, one_that_is_skipped_skips_the_round)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2);
    T_EQ(push_by(s, 1, 0, 4, 1, values).result, WIRE_PUSH_HELD);
    T_EQ(push_by(s, 1, 1, NAN, 1, values).result, WIRE_PUSH_COUNTED);
    is_everywhere(values, 0);
    T_EQ(brief_of(s).counts.skipped, 2);
    T_EQ(brief_of(s).counts.applied, 0);
    T_EQ(brief_of(s).counts.version, 0);
    // So does a mean that is not finite, though its parts are.
    push_by(s, 1, 2, 3e38f, 100, values);
    T_EQ(push_by(s, 1, 3, 3e38f, 100, values).result, WIRE_PUSH_COUNTED);
    is_everywhere(values, 0);
    T_EQ(brief_of(s).counts.skipped, 4);
    shard_unref(s);
}

// Samples are what a worker says: none at all, or so many that their sum is
// none.
TEST(contributions, a_mean_over_no_samples_is_skipped)
{
    static const uint64_t samples[][2] = {{0, 0}, {5, -UINT64_C(5)}};
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2);
    for (unsigned i = 0; i < SL_COUNT(samples); i++) {
        push_by(s, 1, 2 * i, 1, samples[i][0], values);
        T_EQ(push_by(s, 1, 2 * i + 1, 1, samples[i][1], values).result,
             WIRE_PUSH_COUNTED);
        is_everywhere(values, 0);
        T_EQ(brief_of(s).counts.skipped, 2 * i + 2);
    }
    shard_unref(s);
}

TEST(contributions, a_later_round_is_refused_and_an_epoch_ends_with_a_short_one)
{
    struct wire_push_reply reply;
    struct wire_ask_reply told;
    struct wire_ask ask = kit_ask(4, 1);
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 4);
    reply = push_by(s, 1, 4, 1, 1, values);
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(reply.refused.why, WIRE_REFUSED_ROUND);
    T_OK(shard_ask(s, &ask, &told, t_err()));
    T_EQ(told.refused.why, WIRE_REFUSED_ROUND);
    for (uint64_t closure = 0; closure < 10; closure++)
        reply = push_by(s, 1, closure, 1, 1, values);
    // 4, 4, 2: the last of the epoch is whole with two.
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.version, 3);
    T_EQ(brief_of(s).steps, 10);
    T_EQ(push_by(s, 1, 10, 1, 1, values).result, WIRE_PUSH_HELD);
    shard_unref(s);
}

TEST(contributions, a_gradient_of_older_values_is_refused)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 1);
    T_EQ(push_by(s, 1, 0, 1, 1, values).result, WIRE_PUSH_COUNTED);
    kit_payload_equal(&payload, 1, ALL, 0);
    push = kit_push(1, 0, &payload);
    push.based_on = 0;
    push.late = true; // nobody is late in sync
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    T_EQ(reply.refused.why, WIRE_REFUSED_STALE);
    kit_payload_release(&payload);
    shard_unref(s);
}
// A job that was resumed from async has counted what it has counted: the round
// is whole with the others.
TEST(contributions, what_was_counted_before_is_no_part_of_a_round)
{
    struct wire_push_reply reply;
    struct counted *counted;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 4);
    counted = &s->once.counted; // as a snapshot of async has it
    T_OK(counted_add_closure(counted, 0));
    T_OK(counted_add_closure(counted, 2));
    T_EQ(push_by(s, 1, 0, 9, 1, values).result, WIRE_PUSH_DUPLICATE);
    T_EQ(push_by(s, 1, 3, 4, 1, values).result, WIRE_PUSH_HELD);
    reply = push_by(s, 1, 1, 2, 1, values);
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    is_everywhere(values, -3);
    T_EQ(counted_low(counted), 4);
    shard_unref(s);
}

// The version of what who computes a contribution of this closure is given;
// all of its elements are to be `want`.
static uint64_t pulled_for(struct shard *s, uint64_t closure, double want)
{
    struct wire_pull pull = {.job = 7,
                             .job_incarnation = 1,
                             .shard = 2,
                             .before_round_of = closure + 1};
    struct wire_pull_reply reply;
    float values[ALL];

    T_OK(shard_pull(s, &pull, &reply, values, t_err()));
    is_everywhere(values, want);
    return reply.version;
}

TEST(contributions, a_slot_is_computed_again_from_what_its_round_began_with)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2);
    T_EQ(pulled_for(s, 0, 0), 0);
    push_by(s, 1, 0, 4, 1, values);
    push_by(s, 1, 1, 2, 1, values);
    is_everywhere(values, -3);
    T_EQ(pulled_for(s, 0, 0), 0); // where another shard lacks it
    T_EQ(pulled_for(s, 1, 0), 0);
    T_EQ(pulled_for(s, 2, -3), 1); // of the open round
    // One that is skipped changes no value; of those before it none are kept.
    push_by(s, 1, 2, NAN, 1, values);
    push_by(s, 1, 3, 1, 1, values);
    T_EQ(pulled_for(s, 3, -3), 1);
    T_EQ(pulled_for(s, 0, -3), 1);
    push_by(s, 1, 4, 1, 1, values);
    push_by(s, 1, 5, 1, 1, values);
    T_EQ(pulled_for(s, 5, -3), 1);
    T_EQ(pulled_for(s, 6, -4), 2);
    shard_unref(s);
}

static struct wire_pull_reply pulled(struct shard *s)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    float values[ALL];

    T_OK(shard_pull(s, &pull, &reply, values, t_err()));
    return reply;
}

// Who is told so need not ask what is counted of a slot of it.
TEST(contributions, the_open_round_is_told_while_nothing_of_it_is_counted)
{
    struct wire_push_reply pushed;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 4);
    T_EQ(pulled(s).open_first, 1);
    T_EQ(pulled(s).open_count, 4);
    T_TRUE(shard_round_open(s, 3));
    T_FALSE(shard_round_open(s, 4));
    for (uint64_t i = 0; i < 4; i++) {
        pushed = push_by(s, 1, i, 1, 1, values);
        T_EQ(pushed.open_first, i < 3 ? 0 : 5);
    }
    T_EQ(pushed.open_count, 4);
    T_FALSE(shard_round_open(s, 3));
    T_TRUE(shard_round_open(s, 4));
    T_EQ(pulled(s).open_first, 5);
    T_OK(counted_add_closure(&s->once.counted, 6)); // as a snapshot has it
    T_EQ(pulled(s).open_first, 0);
    T_TRUE(shard_round_open(s, 4));
    shard_close(s);
    T_FALSE(shard_round_open(s, 4));
    shard_unref(s);
}
