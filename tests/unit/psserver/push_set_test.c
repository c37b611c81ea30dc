// SPDX-License-Identifier: Apache-2.0
// Pushes that count several closures at a shard: all of them in one update, or
// none.
#include "state/shard/push_set.h"

#include "tests/unit/psserver/kit.h"

#define ALL 12

// One variable of 12, SGD at rate 1; 3 epochs of 10 closures of `steps` steps.
static struct shard *made(struct kit *k, uint32_t steps, uint32_t open,
                          uint32_t slots)
{
    static const uint64_t shape[] = {ALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 10 * steps;
    k->geometry.epochs = 3;
    k->geometry.steps_per_closure = steps;
    k->spec.open_contributions = open;
    k->spec.contributions = slots;
    return kit_admitted(k);
}

static struct wire_push set_of(const struct kit_payload *payload,
                               const uint64_t *closures, size_t n)
{
    struct wire_push push = kit_push(closures[0], 0, payload);

    push.samples = 10;
    push.digest = 1;
    for (size_t i = 1; i < n; i++)
        wire_push_add(&push, &(struct wire_push_key){.closure = closures[i],
                                                     .attempt = push.attempt,
                                                     .samples = 10,
                                                     .digest = 1});
    return push;
}

// Pushes equal elements for closures, which end with 0.
static struct wire_push_reply push_of(struct shard *s, float g,
                                      const uint64_t *closures)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    float values[ALL];
    size_t n = 0;

    while (closures[n] != 0)
        n++;
    kit_payload_equal(&payload, g, ALL, 7);
    push = set_of(&payload, closures, n);
    T_OK(shard_push(s, &push, &reply, values, t_err()));
    kit_payload_release(&payload);
    return reply;
}

#define PUSH(s, g, ...) push_of(s, g, (const uint64_t[]){__VA_ARGS__, 0})

static struct shard_brief brief_of(struct shard *s)
{
    struct shard_brief b;

    T_TRUE(shard_brief(s, true, &b));
    return b;
}

static void is_everywhere(const struct shard *s, double want)
{
    for (unsigned i = 0; i < ALL; i++)
        T_NEAR(s->memory.values[i], want, 1e-6);
}

TEST(push_set, L5_all_closures_of_a_push_are_counted_in_one_update)
{
    struct once once;
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 0, 0);
    T_EQ(PUSH(s, 4, 8, 3, 12).result, WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.version, 1); // updates
    T_EQ(brief_of(s).counts.applied, 3); // keys
    is_everywhere(s, -4);
    T_EQ(PUSH(s, 9, 8, 3, 12).result, WIRE_PUSH_DUPLICATE);
    T_EQ(PUSH(s, 9, 12).result, WIRE_PUSH_DUPLICATE); // each is counted
    T_EQ(PUSH(s, 9, 3, 8).result, WIRE_PUSH_DUPLICATE);
    T_EQ(brief_of(s).counts.duplicates, 6);
    is_everywhere(s, -4);
    T_OK(shard_once(s, &once));
    T_EQ(once.epoch_count, 2);
    T_EQ(once.epochs[0].samples, 20); // closures 3 and 8
    T_EQ(once.epochs[0].digest, 2);
    T_EQ(once.epochs[1].samples, 10);
    T_OK(once_check(&once, t_err()));
    once_release(&once);
    shard_unref(s);
}

TEST(push_set, L5_a_push_of_which_a_part_is_counted_is_refused_whole)
{
    struct wire_push_reply reply;
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 0, 0);
    PUSH(s, 1, 4);
    reply = PUSH(s, 2, 3, 4, 5);
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(reply.refused.why, WIRE_REFUSED_SET);
    T_EQ(brief_of(s).steps, 1);
    is_everywhere(s, -1);
    T_EQ(PUSH(s, 2, 3, 5).result, WIRE_PUSH_COUNTED);
    is_everywhere(s, -3);
    shard_unref(s);
}

TEST(push_set, L5_a_push_of_which_a_part_is_held_is_refused_whole)
{
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 2, 0);
    T_EQ(PUSH(s, 4, 3, 4).result, WIRE_PUSH_HELD);
    T_EQ(PUSH(s, 9, 4, 5).refused.why, WIRE_REFUSED_SET);
    T_EQ(PUSH(s, 9, 3, 4).result, WIRE_PUSH_HELD);
    T_EQ(PUSH(s, 9, 4).result, WIRE_PUSH_HELD);
    T_EQ(brief_of(s).steps, 0);
    T_EQ(PUSH(s, 1, 5).result, WIRE_PUSH_COUNTED); // the second contribution
    T_EQ(brief_of(s).counts.version, 1);
    T_EQ(brief_of(s).counts.applied, 3);
    is_everywhere(s, -(4 * 20 + 10) / 30.0); // weighted by samples
    T_EQ(PUSH(s, 1, 6, 5).refused.why, WIRE_REFUSED_SET);
    T_EQ(PUSH(s, 1, 4, 5).result, WIRE_PUSH_DUPLICATE);
    T_EQ(PUSH(s, 1, 6).result, WIRE_PUSH_HELD);
    T_EQ(PUSH(s, 1, 5, 6).refused.why, WIRE_REFUSED_SET); // counted and held
    shard_unref(s);
}

// A round has room for the closures of all its contributions.
TEST(push_set, a_round_holds_contributions_of_many_closures)
{
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 3, 0);
    PUSH(s, 1, 1, 2, 3, 4, 5, 6, 7, 8);
    PUSH(s, 1, 11, 12, 13, 14, 15, 16, 17, 18);
    T_EQ(brief_of(s).steps, 0);
    T_TRUE(shard_close_round(s, k.spec.job_incarnation, 17));
    T_EQ(brief_of(s).steps, 16);
    is_everywhere(s, -1);
    shard_unref(s);
}

TEST(push_set, I4_an_older_attempt_of_one_closure_refuses_the_push)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_ask_reply told;
    struct wire_push push;
    struct wire_ask ask;
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 0, 0);
    kit_payload_equal(&payload, 1, ALL, 7);
    push = set_of(&payload, (const uint64_t[]){3, 4}, 2);
    ask = (struct wire_ask){.job = push.job,
                            .job_incarnation = push.job_incarnation,
                            .incarnation = push.incarnation,
                            .closure = 4,
                            .attempt = push.attempt};
    ask.attempt.n++;
    T_OK(shard_ask(s, &ask, &told, t_err()));
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.refused.why, WIRE_REFUSED_ATTEMPT);
    T_EQ(brief_of(s).steps, 0);
    kit_payload_release(&payload);
    shard_unref(s);
}

TEST(push_set, a_set_that_is_skipped_is_counted_and_applied_nowhere)
{
    struct wire_push_reply reply;
    struct wire_push push;
    struct shard *s;
    struct kit k;

    s = made(&k, 1, 2, 0);
    push = set_of(NULL, (const uint64_t[]){3, 4}, 2);
    T_TRUE(push.skip);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(brief_of(s).counts.skipped, 2);
    T_EQ(brief_of(s).counts.version, 0);
    is_everywhere(s, 0);
    shard_unref(s);
}

static void refuses(struct shard *s, const char *words)
{
    struct sl_error err = SL_ERROR_INIT;
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_equal(&payload, 1, ALL, 7);
    push = set_of(&payload, (const uint64_t[]){3, 4}, 2);
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, &err));
    T_HAS(err.text, words);
    kit_payload_release(&payload);
    shard_unref(s);
}

TEST(push_set, slots_and_steps_are_pushed_by_themselves)
{
    struct kit k;

    refuses(made(&k, 1, 0, 2), "push each by itself");
    refuses(made(&k, 2, 0, 0), "push each of them by itself");
}
