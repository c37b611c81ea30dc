// SPDX-License-Identifier: Apache-2.0
// What a delay changes: refusals at the limit, the rates of what is applied,
// and the correction by the values that were read.
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "state/shard/stale.h"
#include "tests/unit/psserver/kit.h"

#define ALL 12

// One variable of 12, SGD at rate 1, nothing moving.
static struct shard *small(struct kit *k, uint64_t max_delay,
                           Sluice__V1__StalenessRule rule, double lambda)
{
    static const uint64_t shape[] = {ALL, 0};
    static Sluice__V1__Staleness staleness;

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    sluice__v1__staleness__init(&staleness);
    staleness.max_delay = max_delay;
    staleness.rule = rule;
    staleness.lambda = lambda;
    k->spec.staleness = &staleness;
    return kit_admitted(k);
}

// Pushes the next step, whose gradient is g everywhere and of `based_on`.
static struct wire_push_reply push_of(struct shard *s, uint32_t n, float g,
                                      uint64_t based_on, bool late,
                                      float values[ALL])
{
    struct kit_payload payload;
    struct wire_push_reply reply;
    struct wire_push push;

    kit_payload_equal(&payload, g, ALL, 7);
    push = kit_push(n / 4, n % 4, &payload);
    push.based_on = based_on;
    push.late = late;
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    kit_payload_release(&payload);
    return reply;
}

static void is_everywhere(const float *values, double want)
{
    for (unsigned i = 0; i < ALL; i++)
        T_NEAR(values[i], want, 1e-6);
}

static struct shard_brief brief_of(struct shard *s)
{
    struct shard_brief b;

    T_TRUE(shard_brief(s, true, &b));
    return b;
}

TEST(stale, applied_only_while_the_delay_is_below_the_limit)
{
    struct wire_push_reply reply;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2, SLUICE__V1__STALENESS_RULE__STALENESS_NONE, 0);
    for (uint32_t i = 0; i < 3; i++)
        T_EQ(push_of(s, i, 1, i, false, values).result, WIRE_PUSH_COUNTED);
    is_everywhere(values, -3);
    reply = push_of(s, 3, 1, 1, false, values); // delay 2
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(reply.refused.why, WIRE_REFUSED_STALE);
    T_EQ(reply.version, 3);
    T_EQ(brief_of(s).counts.stale, 1);
    T_EQ(brief_of(s).counts.refused, 1);
    T_EQ(brief_of(s).steps, 3);
    reply = push_of(s, 3, 1, 2, false, values); // delay 1, computed again
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.staleness, 1);
    is_everywhere(values, -4); // at the whole rate
    // A key that is counted is acknowledged, whatever its delay (S2).
    T_EQ(push_of(s, 3, 1, 0, false, values).result, WIRE_PUSH_DUPLICATE);
    T_EQ(brief_of(s).counts.late, 0);
    shard_unref(s);
}

TEST(stale, a_limit_of_one_is_one_after_the_other)
{
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 1, SLUICE__V1__STALENESS_RULE__STALENESS_NONE, 0);
    T_EQ(push_of(s, 0, 1, 0, false, values).result, WIRE_PUSH_COUNTED);
    T_EQ(push_of(s, 1, 1, 0, false, values).result, WIRE_PUSH_REFUSED);
    T_EQ(push_of(s, 1, 1, 1, false, values).result, WIRE_PUSH_COUNTED);
    shard_unref(s);
}

TEST(stale, who_was_refused_before_is_applied_at_the_rate_over_the_delay)
{
    struct wire_push_reply reply;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 2, SLUICE__V1__STALENESS_RULE__STALENESS_NONE, 0);
    for (uint32_t i = 0; i < 4; i++)
        push_of(s, i, 1, i, false, values);
    reply = push_of(s, 4, 1, 0, true, values); // delay 4
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.staleness, 4);
    is_everywhere(values, -4.25);
    T_EQ(brief_of(s).counts.late, 1);
    T_EQ(brief_of(s).counts.stale, 0);
    // Below the limit the word changes nothing.
    push_of(s, 5, 1, 4, true, values);
    is_everywhere(values, -5.25);
    T_EQ(brief_of(s).counts.late, 1);
    shard_unref(s);
}

TEST(stale, inverse_divides_the_rate)
{
    double want = 0;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 0, SLUICE__V1__STALENESS_RULE__STALENESS_INVERSE, 0);
    for (uint32_t i = 0; i < 8; i++) { // delays 0, 1, 2 ...
        T_EQ(push_of(s, i, 1, 0, false, values).result, WIRE_PUSH_COUNTED);
        want -= 1 / fmax(1, i);
        is_everywhere(values, want);
    }
    shard_unref(s);
}

TEST(stale, a_skip_has_no_delay)
{
    struct wire_push push;
    struct wire_push_reply reply;
    float values[ALL];
    struct shard *s;
    struct kit k;

    s = small(&k, 1, SLUICE__V1__STALENESS_RULE__STALENESS_NONE, 0);
    push_of(s, 0, 1, 0, false, values);
    push = kit_push(0, 1, NULL);
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    shard_unref(s);
}

// Against the formula in double: SGD, so that w falls by the corrected
// gradient. Delays wander below the limit; each version's values are known.
TEST(stale, dc_corrects_by_the_values_that_were_read)
{
    enum { LIMIT = 5, STEPS = 12 };
    double past[STEPS + 1], w = 0, lambda = 0.3;
    float values[ALL];
    struct shard *s;
    struct rng rng;
    struct kit k;

    rng_init(&rng, t_seed(), 3);
    s = small(&k, LIMIT, SLUICE__V1__STALENESS_RULE__STALENESS_DC, lambda);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t delay = (uint32_t)rng_below(&rng, i < LIMIT ? i + 1 : LIMIT);
        double g = 0.5 + 0.1 * (double)i;

        past[i] = w;
        T_EQ(push_of(s, i, (float)g, i - delay, false, values).result,
             WIRE_PUSH_COUNTED);
        w -= g + lambda * g * g * (w - past[i - delay]);
        is_everywhere(values, w);
        w = values[0]; // what is f32 stays f32
    }
    // At the limit it is refused; over it, what was read is not known any more.
    T_EQ(push_of(s, STEPS, 1, STEPS - LIMIT, false, values).result,
         WIRE_PUSH_REFUSED);
    push_of(s, STEPS, 1, STEPS - LIMIT, true, values);
    is_everywhere(values, w - 1.0 / LIMIT);
    shard_unref(s);
}

TEST(stale, dc_is_the_same_however_the_payload_comes)
{
    enum { MANY = 40000 };
    float *g = sl_malloc_array(MANY, sizeof(*g));
    float *w = sl_malloc_array(MANY, sizeof(*w));
    float *read = sl_malloc_array(MANY, sizeof(*read));
    float *out = sl_malloc_array(MANY + 1, sizeof(*out));

    for (unsigned i = 0; i < MANY; i++) {
        g[i] = (float)i / MANY - 0.5f;
        w[i] = (float)(i % 17);
        read[i] = (float)(i % 13);
    }
    // At any address, and in place.
    memcpy((char *)out + 1, g, MANY * sizeof(*g));
    stale_compensate(0.25, MANY, (char *)out + 1, w, read, g);
    for (unsigned i = 0; i < MANY; i++) {
        double x = (double)((float)i / MANY - 0.5f);

        T_NEAR(g[i], x + 0.25 * x * x * (double)(w[i] - read[i]), 1e-5);
    }
    sl_free(g);
    sl_free(w);
    sl_free(read);
    sl_free(out);
}

TEST(stale, a_message_that_asks_for_what_is_not_there_is_refused)
{
    static const struct {
        uint64_t max_delay;
        int rule;
        double lambda;
    } bad[] = {{0, 2, 0.1}, {65, 2, 0.1}, {4, 3, 0.1}, {4, 2, NAN}};
    Sluice__V1__Staleness m;
    struct plan plan;
    struct kit k;

    kit_init(&k);
    k.spec.staleness = &m;
    for (unsigned i = 0; i < SL_COUNT(bad); i++) {
        sluice__v1__staleness__init(&m);
        m.max_delay = bad[i].max_delay;
        m.rule = (Sluice__V1__StalenessRule)bad[i].rule;
        m.lambda = bad[i].lambda;
        T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, t_err()));
    }
}
