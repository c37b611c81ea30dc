// SPDX-License-Identifier: Apache-2.0
#include "state/shard/shard.h"

#include <math.h>

#include "common/base/mem.h"
#include "kernels/half.h"
#include "state/shard/counts.h"
#include "tests/unit/psserver/kit.h"

// Elements of kit_init's shard: kernel 35, moving mean 3, bias 9.
enum { KERNEL = 35, MOVING = 3, BIAS = 9, ALL = KERNEL + MOVING + BIAS };

static void uniform(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)((double)t_below(2000001) / 1e6 - 1.0);
}

// ---- S5, I3, I6

TEST(shard, S5_nothing_is_answered_before_admission_and_after_the_end)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_ask ask = kit_ask(0, 1);
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply pushed;
    struct wire_pull_reply pulled;
    struct wire_ask_reply asked;
    float values[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_shard(&k);
    for (int round = 0; round < 2; round++) {
        T_FAILS(SL_EUNAVAIL, shard_ask(s, &ask, &asked, t_err()));
        T_FAILS(SL_EUNAVAIL, shard_push(s, &push, &pushed, values, t_err()));
        T_FAILS(SL_EUNAVAIL, shard_pull(s, &pull, &pulled, values, t_err()));
        shard_admit(s, 1);
        T_OK(shard_ask(s, &ask, &asked, t_err()));
        T_OK(shard_pull(s, &pull, &pulled, values, t_err()));
        if (round == 0)
            shard_close(s);
        else
            break;
        T_FAILS(SL_EUNAVAIL, shard_ask(s, &ask, &asked, t_err()));
        shard_unref(s);
        s = kit_shard(&k);
    }
    shard_unref(s);
}

TEST(shard, I3_another_incarnation_is_refused_and_named)
{
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply reply;
    struct shard_brief brief;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_shard(&k);
    shard_admit(s, 5);
    for (uint64_t i = 4; i <= 6; i += 2) { // I3, older and newer
        push.incarnation = i;
        T_OK(shard_push(s, &push, &reply, NULL, t_err()));
        T_EQ(reply.result, WIRE_PUSH_REFUSED);
        T_EQ(reply.refused.why, WIRE_REFUSED_INCARNATION);
        T_EQ(reply.incarnation, 5);
    }
    push.incarnation = 5;
    push.job_incarnation = 0; // I6: of a past from before a restore
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.refused.why, WIRE_REFUSED_JOB_INCARNATION);
    T_EQ(reply.refused.job_incarnation, 1);
    push.job_incarnation = 2; // of a future that we have not heard of
    T_FAILS(SL_EUNAVAIL, shard_push(s, &push, &reply, NULL, t_err()));
    T_TRUE(shard_brief(s, false, &brief));
    T_EQ(brief.steps, 0);
    T_EQ(brief.counts.refused, 3);
    shard_unref(s);
}

TEST(shard, I1_an_incarnation_never_falls)
{
    struct shard_brief brief;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_shard(&k);
    shard_admit(s, 5);
    shard_admit(s, 3);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.incarnation, 5);
    shard_unref(s);
}

// ---- I4, S2

TEST(shard, I4_an_older_attempt_is_refused_once_a_newer_one_was_seen)
{
    struct wire_ask ask = kit_ask(3, 9);
    struct wire_push push = kit_push(3, 0, NULL);
    struct wire_push_reply reply;
    struct wire_ask_reply asked;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    T_OK(shard_ask(s, &ask, &asked, t_err())); // the ask alone fences
    T_EQ(asked.refused.why, WIRE_REFUSED_NOT);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_REFUSED);
    T_EQ(reply.refused.why, WIRE_REFUSED_ATTEMPT);
    T_EQ(reply.refused.newest.n, 9);
    ask.attempt.n = 8;
    T_OK(shard_ask(s, &ask, &asked, t_err()));
    T_EQ(asked.refused.why, WIRE_REFUSED_ATTEMPT);
    // I5: a newer term outranks any n, and an older term is no reason by
    // itself.
    push.attempt = (struct wire_attempt){2, 1};
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    push = kit_push(4, 0, NULL);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    shard_unref(s);
}

TEST(shard, S2_a_counted_key_is_acknowledged_and_ignored)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct shard_brief brief;
    struct wire_push push;
    float fresh[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 1, 2.0f);
    kit_payload_equal(&payload, 1, ALL, 0);
    push = kit_push(0, 1, &payload);
    push.attempt = (struct wire_attempt){0, 1}; // older: harmless here
    for (int i = 0; i < 3; i++) {
        T_OK(shard_push(s, &push, &reply, fresh, t_err()));
        T_EQ(reply.result, WIRE_PUSH_DUPLICATE);
        T_EQ(reply.version, 1);
        T_EQ(fresh[0], -2.0f); // with fresh parameters all the same
    }
    push.skip = true; // and also when it now comes as a skip
    push.payload = SL_SLICES_NONE;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_DUPLICATE);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.steps, 1);
    T_EQ(brief.counts.duplicates, 4);
    kit_payload_release(&payload);
    shard_unref(s);
}

TEST(shard, an_ask_tells_which_steps_are_counted)
{
    struct wire_ask ask = kit_ask(9, 1);
    struct wire_ask_reply reply;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    k.geometry.steps_per_closure = 11;
    s = kit_admitted(&k);
    kit_count(s, 9, 0, 0);
    kit_count(s, 9, 9, 0);
    T_OK(shard_ask(s, &ask, &reply, t_err()));
    T_EQ(reply.counted_bytes, 2);
    T_EQ(reply.counted[0], 1);
    T_EQ(reply.counted[1], 2);
    T_EQ(reply.version, 2);
    ask.closure = 100;
    T_FAILS(SL_ERANGE, shard_ask(s, &ask, &reply, t_err()));
    shard_unref(s);
}

TEST(shard, a_skip_counts_and_changes_nothing)
{
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply reply;
    struct shard_brief brief;
    float fresh[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_count(s, 0, 1, 1.0f);
    T_OK(shard_push(s, &push, &reply, fresh, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.version, 1);
    T_EQ(fresh[KERNEL - 1], -1.0f);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.counts.skipped, 1);
    T_EQ(brief.steps, 2);
    shard_unref(s);
}

// ---- attempts that nobody was leased, as far as can be seen

TEST(shard, I4_who_proves_no_lease_fences_nobody)
{
    struct wire_ask ask = kit_ask(0, UINT64_MAX), own = kit_ask(0, 2);
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply pushed;
    struct wire_ask_reply asked;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    ask.unproven = push.unproven = true;
    push.attempt = (struct wire_attempt){1, UINT64_MAX};
    T_OK(shard_ask(s, &ask, &asked, t_err()));
    T_EQ(asked.refused.why, WIRE_REFUSED_NOT); // it is answered all the same
    for (int i = 0; i < 2; i++) {              // counted, then a duplicate
        T_OK(shard_push(s, &push, &pushed, NULL, t_err()));
        T_EQ(pushed.result, i == 0 ? WIRE_PUSH_COUNTED : WIRE_PUSH_DUPLICATE);
    }
    T_OK(shard_ask(s, &own, &asked, t_err()));
    T_EQ(asked.refused.why, WIRE_REFUSED_NOT);
    T_EQ(once_newest(&s->once, 0).n, 2);
    push.step = 1;
    push.attempt.n = 1; // and is fenced by who does
    T_OK(shard_push(s, &push, &pushed, NULL, t_err()));
    T_EQ(pushed.refused.why, WIRE_REFUSED_ATTEMPT);
    shard_unref(s);
}

// ---- the window (C5)

static enum wire_push_result skip_one(struct shard *s, uint64_t closure)
{
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply = {0};

    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    if (reply.result == WIRE_PUSH_REFUSED)
        T_EQ(reply.refused.why, WIRE_REFUSED_ATTEMPT);
    return reply.result;
}

TEST(shard, C5_closures_that_no_lease_can_be_for_are_refused)
{
    uint64_t most = wire_window_most(4096, 5000);
    struct wire_ask ask = kit_ask(most, UINT64_MAX);
    struct wire_ask_reply asked;
    struct once once;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    kit_long_closures(&k);
    s = kit_admitted(&k);
    for (uint64_t c = 1; c < 2 * most; c++)
        T_EQ(skip_one(s, c), c < most ? WIRE_PUSH_COUNTED : WIRE_PUSH_REFUSED);
    T_OK(shard_ask(s, &ask, &asked, t_err()));
    T_EQ(asked.refused.why, WIRE_REFUSED_ATTEMPT);
    T_OK(shard_once(s, &once));
    T_EQ(counted_sparse(&once.counted), most - 1);
    T_OK(counts_fit(&once, t_err())); // so it can always be told
    once_release(&once);
    for (uint32_t step = 0; step < 4096; step++) // the watermark gets on
        kit_count(s, 0, step, 0);
    T_EQ(skip_one(s, most), WIRE_PUSH_COUNTED);
    shard_unref(s);
}

// ---- a bad payload changes nothing

static void must_refuse(struct shard *s, const struct wire_push *push,
                        enum sl_err want, const char *words)
{
    struct once before, after;
    struct wire_push_reply reply;
    struct sl_error err = SL_ERROR_INIT;
    size_t bytes = s->region.bytes;
    void *was = sl_malloc(bytes);

    memcpy(was, s->region.data, bytes);
    T_OK(shard_once(s, &before));
    T_FAILS(want, shard_push(s, push, &reply, NULL, &err));
    T_HAS(err.text, words);
    T_OK(shard_once(s, &after));
    T_MEM(s->region.data, was, bytes);
    T_TRUE(counted_equal(&before.counted, &after.counted));
    T_EQ(after.counts.refused, before.counts.refused + 1);
    T_EQ(after.counts.applied, before.counts.applied);
    T_EQ(s->once.attempts.len, before.counts.applied == 0 ? 0 : 1);
    once_release(&before);
    once_release(&after);
    sl_free(was);
}

TEST(shard, a_payload_of_the_wrong_size_changes_nothing)
{
    struct kit_payload payload;
    float values[ALL + 1] = {0};
    struct wire_push push;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (size_t n = 0; n <= ALL + 1; n += n == 0 ? ALL - 1 : 2) {
        kit_payload_init(&payload, values, n, 0);
        push = kit_push(0, 0, &payload);
        must_refuse(s, &push, SL_EINVAL, "has 188");
        kit_payload_release(&payload);
    }
    kit_payload_init(&payload, values, ALL, 0);
    push = kit_push(0, 0, &payload);
    push.skip = true;
    must_refuse(s, &push, SL_EINVAL, "skip");
    push = kit_push(30, 0, &payload);
    must_refuse(s, &push, SL_ERANGE, "closure 30");
    kit_payload_release(&payload);
    shard_unref(s);
}

// The last element straddles the last two slices, at every cut.
TEST(shard, a_value_that_is_not_finite_changes_nothing_wherever_it_lies)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    struct kit_payload payload;
    struct wire_push push;
    float values[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.01);
    s = kit_admitted(&k);
    kit_count(s, 1, 0, 0.5f);
    for (size_t at = 0; at < ALL; at += at == 0 ? ALL - 1 : ALL)
        for (size_t cut = 1; cut <= 4 * ALL; cut += 2) {
            uniform(values, ALL);
            values[at] = bad[cut % 3];
            kit_payload_init(&payload, values, ALL, cut);
            push = kit_push(1, 1, &payload);
            must_refuse(s, &push, SL_ENUMERIC,
                        at == 0 ? "element 0 of dense/kernel"
                                : "element 8 of dense/bias");
            kit_payload_release(&payload);
        }
    shard_unref(s);
}

// ---- the arithmetic

static void push_once(struct shard *s, uint32_t step, const float *g, size_t n,
                      size_t cut)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    kit_payload_init(&payload, g, n, cut);
    push = kit_push(0, step, &payload);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    kit_payload_release(&payload);
}

TEST(shard, the_result_does_not_depend_on_where_the_wire_cuts)
{
    const char *names[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    float gradients[4][ALL];
    struct shard *whole, *cut;
    struct kit k;

    for (int i = 0; i < 4; i++)
        uniform(gradients[i], ALL);
    for (size_t o = 0; o < SL_COUNT(names); o++) {
        kit_init(&k);
        kit_optimizer(&k, names[o], 0.01);
        whole = kit_admitted(&k);
        for (uint32_t i = 0; i < 4; i++)
            push_once(whole, i, gradients[i], ALL, 0);
        for (size_t at = 1; at <= 4 * ALL; at += 2) {
            cut = kit_admitted(&k);
            for (uint32_t i = 0; i < 4; i++)
                push_once(cut, i, gradients[i], ALL, at);
            T_EQ(cut->region.bytes, whole->region.bytes);
            T_MEM(cut->region.data, whole->region.data, whole->region.bytes);
            shard_unref(cut);
        }
        shard_unref(whole);
    }
}

// The shard hands the optimizer the right elements, slots, t and rate.
TEST(shard, an_update_is_the_kernels_with_t_from_the_shards_own_count)
{
    float g[ALL], w[ALL] = {0}, slot[2][ALL] = {{0}};
    float *kernel_slots[] = {slot[0], slot[1]};
    float *bias_slots[] = {slot[0] + KERNEL + MOVING,
                           slot[1] + KERNEL + MOVING};
    Sluice__V1__ScheduleSpec rate = SLUICE__V1__SCHEDULE_SPEC__INIT;
    struct wire_push skip = kit_push(1, 0, NULL);
    struct wire_push_reply reply;
    struct shard *s;
    double lr;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.1);
    rate.type = (char *)"exponential_decay";
    rate.has_decay_steps = rate.has_decay_rate = 1;
    rate.decay_steps = 10;
    rate.decay_rate = 0.5;
    k.optimizer.schedule = &rate;
    s = kit_admitted(&k);
    T_EQ(optim_slots(&s->plan.optim), 2);
    for (uint32_t i = 0; i < 4; i++) {
        uniform(g, ALL);
        lr = 0.1 * pow(0.5, i / 10.0); // s = t - 1
        T_NEAR(rate_at(&s->plan.rate, i), lr, 1e-15);
        optim_apply(&s->plan.optim, i + 1, rate_at(&s->plan.rate, i), KERNEL, g,
                    w, kernel_slots);
        optim_apply(&s->plan.optim, i + 1, rate_at(&s->plan.rate, i), BIAS,
                    g + KERNEL + MOVING, w + KERNEL + MOVING, bias_slots);
        for (int m = KERNEL; m < KERNEL + MOVING; m++)
            w[m] = 0.5f * w[m] + 0.5f * g[m];
        push_once(s, i, g, ALL, 7);
        if (i == 1) // a skip must not move t
            T_OK(shard_push(s, &skip, &reply, NULL, t_err()));
    }
    T_MEM(s->memory.values, w, sizeof(w));
    T_MEM(s->memory.slots[0], slot[0], sizeof(w));
    T_MEM(s->memory.slots[1], slot[1], sizeof(w));
    shard_unref(s);
}

// 64 KiB of values, so that slots behind one another would lie that far apart.
// What a snapshot reads is all of it, in order, wherever it lies.
TEST(shard, arrays_that_are_walked_together_lie_no_power_of_two_apart)
{
    enum { N = 16384 };
    struct kit k;
    struct shard *s;

    kit_clear(&k);
    kit_optimizer(&k, "adam", 0.1);
    kit_variable(&k, "dense/kernel", (uint64_t[]){N, 0});
    s = kit_admitted(&k);
    for (unsigned i = 0; i < 2; i++) {
        const float *before = i == 0 ? s->memory.values : s->memory.slots[0];
        size_t apart = (size_t)((char *)s->memory.slots[i] - (char *)before);

        T_TRUE(apart >= N * sizeof(float));
        T_EQ(apart % 64, 0);
        T_NE(apart % 4096, 0);
    }
    for (size_t at = 0, n; at < shard_bytes(s); at += n) {
        const void *want = at < N * sizeof(float)
                               ? s->memory.values
                               : s->memory.slots[at / (N * sizeof(float)) - 1];

        T_TRUE(shard_memory_at(s, at, &n) == want);
        T_EQ(n, N * sizeof(float));
    }
    // As far as the largest there are.
    for (size_t bytes = N; bytes <= (size_t)512 << 20; bytes *= 2)
        T_NE((region_array_at(bytes, 2) - region_array_at(bytes, 1)) % 4096, 0);
    shard_unref(s);
}

// ---- steps of several micro-batches

// What a worker pushes for a statistic that `n` micro-batches had.
static float pushed_for(double momentum, const double *seen, unsigned n)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum = momentum * sum + seen[i];
    return (float)(sum * (1 - momentum) / (1 - pow(momentum, n)));
}

// 8 samples are 4 micro-batches; of the last step of an epoch it may be fewer,
// and the last of those may be short.
TEST(shard, a_statistic_moves_once_for_each_micro_batch)
{
    static const struct {
        uint64_t samples;
        unsigned moves;
    } steps[] = {{8, 4}, {7, 4}, {6, 3}, {5, 3}, {2, 1}, {1, 1}};
    const double momentum = 0.9;
    struct kit_payload payload;
    struct wire_push_reply reply;
    struct wire_push push;
    double seen[4], want = 0;
    struct shard *s;
    float g[ALL];
    struct kit k;

    kit_init(&k);
    k.variables[1].momentum = momentum;
    k.geometry.samples = 64;
    k.geometry.batch = 8;
    k.spec.accumulate = 4;
    s = kit_admitted(&k);
    for (uint32_t i = 0; i < SL_COUNT(steps); i++) {
        for (unsigned m = 0; m < steps[i].moves; m++) {
            seen[m] = (double)t_below(1000) / 100;
            want = momentum * want + (1 - momentum) * seen[m];
        }
        uniform(g, ALL);
        for (int m = KERNEL; m < KERNEL + MOVING; m++)
            g[m] = pushed_for(momentum, seen, steps[i].moves);
        kit_payload_init(&payload, g, ALL, 0);
        push = kit_push(i / 4, i % 4, &payload);
        push.samples = steps[i].samples;
        T_OK(shard_push(s, &push, &reply, NULL, t_err()));
        kit_payload_release(&payload);
        for (int m = KERNEL; m < KERNEL + MOVING; m++)
            T_NEAR(s->memory.values[m], want, 1e-5);
    }
    shard_unref(s);
}

// ---- 16 bits

static const enum wire_type narrow[] = {WIRE_BF16, WIRE_F16};

static float rounded(enum wire_type type, float x)
{
    return type == WIRE_BF16 ? half_from_bf16(half_to_bf16(x))
                             : half_from_f16(half_to_f16(x));
}

// Pushes `g` in 16 bits, and checks the parameters that come back.
static void push_narrow(struct shard *s, enum wire_type type, uint32_t step,
                        const float *g, size_t cut)
{
    uint8_t space[2 * ALL + 2];
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    uint16_t h;

    memset(space, 0xee, sizeof(space));
    kit_payload_wire(&payload, type, g, ALL, cut);
    push = kit_push(0, step, &payload);
    push.wire = type;
    T_OK(shard_push(s, &push, &reply, space + 1, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.wire, type);
    for (size_t i = 0; i < ALL; i++) {
        float w = s->memory.values[i];

        memcpy(&h, space + 1 + 2 * i, 2);
        T_EQ(h, type == WIRE_BF16 ? half_to_bf16(w) : half_to_f16(w));
    }
    T_TRUE(space[0] == 0xee && space[2 * ALL + 1] == 0xee);
    kit_payload_release(&payload);
}

// Slots and values are f32: what they would be, had the rounded gradient come
// in f32; wherever the wire cuts, also inside an element.
TEST(shard, a_gradient_of_16_bits_is_one_of_f32_that_was_rounded)
{
    float gradients[4][ALL], wide[ALL];
    struct shard *want, *cut;
    struct kit k;

    kit_init(&k);
    kit_optimizer(&k, "adam", 0.01);
    for (int i = 0; i < 4; i++)
        uniform(gradients[i], ALL);
    for (size_t t = 0; t < SL_COUNT(narrow); t++) {
        want = kit_admitted(&k);
        for (uint32_t i = 0; i < 4; i++) {
            for (size_t e = 0; e < ALL; e++)
                wide[e] = rounded(narrow[t], gradients[i][e]);
            push_once(want, i, wide, ALL, 0);
        }
        for (size_t at = 1; at <= 2 * ALL; at++) {
            cut = kit_admitted(&k);
            for (uint32_t i = 0; i < 4; i++)
                push_narrow(cut, narrow[t], i, gradients[i], at);
            T_MEM(cut->region.data, want->region.data, want->region.bytes);
            shard_unref(cut);
        }
        shard_unref(want);
    }
}

TEST(shard, sixteen_bits_that_do_not_fit_or_are_not_finite_change_nothing)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    struct kit_payload payload;
    struct wire_push push;
    float values[ALL + 1];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (size_t t = 0; t < SL_COUNT(narrow); t++) {
        uniform(values, ALL + 1);
        kit_payload_wire(&payload, narrow[t], values, ALL + 1, 5);
        push = kit_push(1, 1, &payload);
        push.wire = narrow[t];
        must_refuse(s, &push, SL_EINVAL,
                    t == 0 ? "has 94 in bf16" : "has 94 in f16");
        push.wire = WIRE_F32; // 96 bytes
        must_refuse(s, &push, SL_EINVAL, "has 188 in f32");
        kit_payload_release(&payload);
        for (size_t cut = 1; cut <= 2 * ALL; cut++) {
            uniform(values, ALL);
            values[ALL - 1] = bad[cut % 3];
            kit_payload_wire(&payload, narrow[t], values, ALL, cut);
            push = kit_push(1, 1, &payload);
            push.wire = narrow[t];
            must_refuse(s, &push, SL_ENUMERIC, "element 8 of dense/bias");
            kit_payload_release(&payload);
        }
    }
    shard_unref(s);
}

// Parameters that f16 cannot say stay numbers; the shard keeps what they are.
TEST(shard, too_large_for_16_bits_is_the_largest_there_is)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    uint16_t got[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    s->memory.values[0] = 1e9f;
    s->memory.values[1] = -65520;
    s->memory.values[2] = INFINITY; // not ours to hide
    pull.wire = WIRE_F16;
    T_OK(shard_pull(s, &pull, &reply, got, t_err()));
    T_EQ(reply.wire, WIRE_F16);
    T_EQ(got[0], 0x7bff);
    T_EQ(got[1], 0xfbff);
    T_EQ(got[2], 0x7c00);
    T_EQ(s->memory.values[0], 1e9f);
    pull.wire = WIRE_BF16;
    T_OK(shard_pull(s, &pull, &reply, got, t_err()));
    T_EQ(got[0], half_to_bf16(1e9f));
    shard_unref(s);
}

// A copy of the parameters, new or shown; in either case what they are now.
static struct pool_buf *pull_copy(struct shard *s, bool *was_shown)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    struct pool_buf *copy, *other;
    float values[ALL];

    T_OK(shard_pull_shown(s, &pull, &reply, &copy, t_err()));
    *was_shown = copy != NULL;
    if (copy == NULL) {
        T_ASSERT(pool_take(s->pool, plan_values_bytes(&s->plan), &copy) ==
                 SL_OK);
        T_OK(shard_pull_show(s, &pull, &reply, copy, t_err()));
    }
    T_OK(shard_pull(s, &pull, &reply, values, t_err()));
    T_TRUE(memcmp(values, copy->memory.data, sizeof(values)) == 0);
    pull.wire = WIRE_BF16; // that would be another
    T_OK(shard_pull_shown(s, &pull, &reply, &other, t_err()));
    T_TRUE(other == NULL);
    return copy;
}

TEST(shard, who_pulls_the_same_shares_a_copy_until_a_push)
{
    struct pool_buf *first, *second, *third;
    struct shard *s;
    struct kit k;
    bool shown;

    kit_init(&k);
    s = kit_admitted(&k);
    first = pull_copy(s, &shown);
    T_FALSE(shown);
    second = pull_copy(s, &shown);
    T_TRUE(shown && second == first);
    kit_count(s, 0, 0, -1);
    third = pull_copy(s, &shown);
    T_FALSE(shown);
    pool_give(second);
    second = pull_copy(s, &shown);
    T_TRUE(shown && second == third);
    pool_give(first);
    pool_give(second);
    pool_give(third);
    first = pull_copy(s, &shown); // it waits for who wants it
    T_TRUE(shown && first == third);
    pool_give(first);
    shard_unref(s);
}

TEST(shard, a_copy_is_shown_only_to_who_may_pull)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    struct pool_buf *copy, *none;
    struct shard *s;
    struct kit k;
    bool shown;

    kit_init(&k);
    s = kit_admitted(&k);
    copy = pull_copy(s, &shown);
    pull.incarnation = 2;
    T_FAILS(SL_ESTALE, shard_pull_shown(s, &pull, &reply, &none, t_err()));
    T_TRUE(none == NULL);
    shard_close(s);
    pull.incarnation = 1;
    T_FAILS(SL_EUNAVAIL, shard_pull_shown(s, &pull, &reply, &none, t_err()));
    T_FAILS(SL_EUNAVAIL, shard_pull_show(s, &pull, &reply, copy, t_err()));
    pool_give(copy);
    shard_unref(s);
}

TEST(shard, staleness_is_the_updates_between)
{
    struct wire_push push = kit_push(2, 0, NULL);
    struct kit_payload payload;
    struct wire_push_reply reply;
    float zero[ALL] = {0};
    struct shard_brief brief;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (uint32_t i = 0; i < 4; i++)
        kit_count(s, 0, i, 0);
    kit_payload_init(&payload, zero, ALL, 0);
    push = kit_push(1, 0, &payload);
    push.based_on = 1;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.staleness, 3);
    // Based on a version of an earlier incarnation that we do not have again:
    // v - v_pulled must not wrap.
    push = kit_push(1, 1, &payload);
    push.based_on = 1000;
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    T_EQ(reply.staleness, 0);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.counts.staleness[once_bucket(3)], 2); // 0-based pushes: 0 1 2 3
    kit_payload_release(&payload);
    shard_unref(s);
}

// ---- many at once

struct crowd {
    struct shard *shard;
    unsigned thread;
    uint64_t counted, duplicates, skipped, refused;
};

enum { CROWD = 4, CROWD_PUSHES = 3000 };

static void *crowd_run(void *arg)
{
    struct crowd *c = arg;
    float values[ALL], fresh[ALL];
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    struct rng rng;

    rng_init(&rng, 5, c->thread);
    for (int i = 0; i < ALL; i++)
        values[i] = i >= KERNEL && i < KERNEL + MOVING ? 0 : -1;
    kit_payload_init(&payload, values, ALL, 13);
    for (int i = 0; i < CROWD_PUSHES; i++) {
        bool skip = rng_below(&rng, 8) == 0;

        push = kit_push(rng_below(&rng, 30), (uint32_t)rng_below(&rng, 4),
                        skip ? NULL : &payload);
        push.attempt.n = rng_below(&rng, 3);
        T_ASSERT(shard_push(c->shard, &push, &reply, fresh, NULL) == SL_OK);
        c->counted += reply.result == WIRE_PUSH_COUNTED;
        c->skipped += reply.result == WIRE_PUSH_COUNTED && skip;
        c->duplicates += reply.result == WIRE_PUSH_DUPLICATE;
        c->refused += reply.result == WIRE_PUSH_REFUSED;
        if (reply.result == WIRE_PUSH_REFUSED)
            continue;
        // Torn-free: all elements are of the version that the reply names.
        for (int e = 0; e < ALL; e++)
            T_ASSERT(fresh[e] == (e >= KERNEL && e < KERNEL + MOVING
                                      ? 0
                                      : (float)reply.version));
    }
    kit_payload_release(&payload);
    return NULL;
}

// Invariant `once`: applied + skipped = counted, and each key counted once.
TEST(shard, each_key_counts_once_whatever_the_crowd_does)
{
    struct crowd crowd[CROWD], all = {0};
    pthread_t threads[CROWD];
    struct shard_brief brief;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = (struct crowd){.shard = s, .thread = i};
        pthread_create(&threads[i], NULL, crowd_run, &crowd[i]);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        pthread_join(threads[i], NULL);
        all.counted += crowd[i].counted;
        all.skipped += crowd[i].skipped;
        all.duplicates += crowd[i].duplicates;
        all.refused += crowd[i].refused;
    }
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.steps, all.counted);
    T_EQ(brief.counts.applied + brief.counts.skipped, brief.steps);
    T_EQ(brief.counts.skipped, all.skipped);
    T_EQ(brief.counts.duplicates, all.duplicates);
    T_EQ(brief.counts.refused, all.refused);
    T_OK(once_check(&s->once, t_err()));
    T_EQ(s->memory.values[0], (float)brief.counts.applied);
    T_LE(brief.steps, 120);
    T_GT(brief.steps, 60);
    shard_unref(s);
}

// ---- D1

// Closures 0 to 3 at rate 1, then 4 and 5 at a half, then at a quarter; in
// whatever order they come, told before or after.
TEST(shard, D1_a_step_is_applied_at_the_rate_of_its_closure)
{
    static const struct {
        uint64_t closure;
        float rate;
    } steps[] = {{5, 0.5f}, {0, 1.0f}, {6, 0.25f}, {4, 0.5f}, {3, 1.0f}};
    Sluice__V1__RateStep first = SLUICE__V1__RATE_STEP__INIT,
                         *list[] = {&first};
    struct rates rates = {.count = 0};
    struct shard *s;
    struct kit k;
    float is = 0;

    kit_init(&k);
    first.closure = 4;
    first.rate = 0.5;
    k.spec.rates = list;
    k.spec.n_rates = 1;
    s = kit_admitted(&k);
    rates_add(&rates, 4, 0.5);
    rates_add(&rates, 6, 0.25);
    for (unsigned i = 0; i < SL_COUNT(steps); i++) {
        kit_count(s, steps[i].closure, 0, 1.0f);
        is -= steps[i].rate;
        T_EQ(s->memory.values[0], is);
        shard_rates(s, &rates); // told once more it is no smaller
    }
    shard_unref(s);
}

TEST(shard, rates_that_do_not_rise_are_refused)
{
    Sluice__V1__RateStep steps[2] = {SLUICE__V1__RATE_STEP__INIT,
                                     SLUICE__V1__RATE_STEP__INIT};
    Sluice__V1__RateStep *list[] = {&steps[0], &steps[1]};
    struct rates rates = {.count = 7};

    steps[0].closure = 4;
    steps[1].closure = 4;
    T_FAILS(SL_EINVAL, plan_rates(&rates, list, 2, t_err()));
    T_EQ(rates.count, 7); // as it was
    steps[1].closure = 5;
    T_OK(plan_rates(&rates, list, 2, t_err()));
    steps[1].rate = -1;
    T_FAILS(SL_EINVAL, plan_rates(&rates, list, 2, t_err()));
}

// ---- without a gradient

// A push of all elements, of which those pieces (bits) are absent.
static void push_absent(struct shard *s, uint64_t closure, uint8_t absent,
                        const float *g)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    float fresh[ALL];

    kit_payload_init(&payload, g, ALL, 7);
    push = kit_push(closure, 0, &payload);
    push.absent_bytes = absent != 0;
    push.absent[0] = absent;
    T_OK(shard_push(s, &push, &reply, fresh, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_MEM(fresh, s->memory.values, sizeof(fresh));
    kit_payload_release(&payload);
}

// What is absent in some steps is, to the bit, what it would be had only the
// other steps been there: values, slots and Adam's own count.
TEST(shard, a_piece_without_a_gradient_is_left_alone)
{
    const char *names[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    float g[6][ALL], space[ALL];
    struct shard *s, *kernel, *rest;
    struct kit k;

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        kit_init(&k);
        kit_optimizer(&k, names[i], 0.1);
        if (i == 0)
            k.optimizer.momentum = 0.9;
        s = kit_admitted(&k);
        kernel = kit_admitted(&k);
        rest = kit_admitted(&k);
        for (unsigned step = 0; step < 6; step++) {
            uniform(g[step], ALL);
            push_absent(s, step, step % 2 == 1 ? 1 : 0, g[step]);
            push_absent(rest, step, 0, g[step]);
            if (step % 2 == 0)
                push_absent(kernel, step, 0, g[step]);
        }
        T_MEM(s->memory.values, kernel->memory.values, KERNEL * sizeof(float));
        T_MEM(s->memory.values + KERNEL, rest->memory.values + KERNEL,
              (MOVING + BIAS) * sizeof(float));
        for (unsigned n = 0; n < optim_slots(&s->plan.optim); n++) {
            T_MEM(s->memory.slots[n], kernel->memory.slots[n],
                  KERNEL * sizeof(float));
            T_MEM(s->memory.slots[n] + KERNEL, rest->memory.slots[n] + KERNEL,
                  (MOVING + BIAS) * sizeof(float));
        }
        T_EQ(s->once.passed[0], 3);
        T_EQ(s->once.passed[2], 0);
        T_EQ(once_version(&s->once), 6);
        memcpy(space, s->memory.values, sizeof(space));
        push_absent(s, 6, 7, g[0]); // all of it: counted, and nothing moves
        T_MEM(space, s->memory.values, sizeof(space));
        T_EQ(once_version(&s->once), 7);
        shard_unref(s);
        shard_unref(kernel);
        shard_unref(rest);
    }
}

TEST(shard, what_is_absent_is_looked_at_before_it_is_believed)
{
    struct wire_push push = kit_push(0, 0, NULL);
    struct wire_push_reply reply;
    float fresh[ALL];
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    push.skip = false;
    push.absent_bytes = 1;
    push.absent[0] = 5; // the moving mean has one, but there is no payload
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, fresh, t_err()));
    push.absent[0] = 8 | 7; // of a piece that is not there
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, fresh, t_err()));
    T_EQ(once_version(&s->once), 0);
    push.absent[0] = 7;
    T_OK(shard_push(s, &push, &reply, fresh, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(s->once.passed[1], 1);
    T_OK(shard_push(s, &push, &reply, fresh, t_err())); // S2
    T_EQ(reply.result, WIRE_PUSH_DUPLICATE);
    T_EQ(s->once.passed[1], 1);
    shard_unref(s);
    kit_init(&k);
    k.spec.contributions = 2;
    k.geometry.steps_per_closure = 1;
    s = kit_admitted(&k);
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, fresh, t_err()));
    shard_unref(s);
}

// ---- groups

// Sets w to the first update of the optimizer `name` by g, variable by
// variable.
static void update_whole(const struct plan *plan, const float g[ALL],
                         float w[ALL])
{
    static float slot[2][KERNEL], copy[KERNEL], space[4 * KERNEL];
    float *const slots[] = {slot[0], slot[1]};
    struct optim of_bias = plan->optim;
    struct optim_consts k;

    memset(slot, 0, sizeof(slot));
    memcpy(copy, g, sizeof(copy));
    optim_consts(&k, &plan->optim, 1, 0.1);
    optim_whole(&plan->optim, &k, 5, 7, copy, w, slots, space);
    memset(slot, 0, sizeof(slot));
    memcpy(copy, g + KERNEL + MOVING, BIAS * sizeof(float));
    of_bias.elementwise = true; // muon: no matrix
    if (optim_is_whole(&of_bias))
        optim_whole(&of_bias, &k, 1, BIAS, copy, w + KERNEL + MOVING, slots,
                    space);
    else
        optim_apply(&of_bias, 1, 0.1, BIAS, copy, w + KERNEL + MOVING, slots);
    for (int m = KERNEL; m < KERNEL + MOVING; m++)
        w[m] = 0.5f * w[m] + 0.5f * g[m];
}

// Fills a round of two contributions, whose mean is g.
static void push_round(struct shard *s, const float g[ALL])
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;

    for (uint32_t closure = 0; closure < 2; closure++) {
        kit_payload_init(&payload, g, ALL, 5);
        push = kit_push(closure, 0, &payload);
        push.samples = 1;
        T_OK(shard_push(s, &push, &reply, NULL, t_err()));
        T_EQ(reply.result, closure == 0 ? WIRE_PUSH_HELD : WIRE_PUSH_COUNTED);
        kit_payload_release(&payload);
    }
}

// An update of whole variables is the kernels', from a push and from the mean
// of a round; it may lie in any number of slices (above).
TEST(shard, some_optimizers_look_at_whole_variables)
{
    const char *names[] = {"lamb", "muon"};
    float g[ALL], w[ALL];
    struct shard *s;
    struct kit k;

    for (size_t i = 0; i < 2 * SL_COUNT(names); i++) {
        bool sync = i >= SL_COUNT(names);

        kit_init(&k);
        kit_optimizer(&k, names[i % 2], 0.1);
        if (sync) {
            k.spec.contributions = 2;
            k.geometry.steps_per_closure = 1;
        }
        s = kit_admitted(&k);
        T_TRUE(optim_is_whole(&s->plan.optim));
        memcpy(w, s->memory.values, sizeof(w));
        uniform(g, ALL);
        update_whole(&s->plan, g, w);
        if (sync)
            push_round(s, g);
        else
            push_once(s, 0, g, ALL, 3);
        T_MEM(s->memory.values, w, sizeof(w));
        shard_unref(s);
    }
}

// Each group is, to the bit, a job of its own with these numbers.
TEST(shard, groups_are_updated_with_numbers_of_their_own)
{
    const char *names[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    Sluice__V1__OptimizerGroup bias = SLUICE__V1__OPTIMIZER_GROUP__INIT;
    Sluice__V1__OptimizerGroup *list[] = {&bias};
    char *patterns[] = {(char *)"*/b?as"};
    struct shard *s, *plain, *other;
    struct apply_step step = {.t = 3, .rate = 0.1, .moves = 1};
    struct optim_consts k0, k2;
    float g[ALL];
    struct kit k;

    bias.n_variables = 1;
    bias.variables = patterns;
    bias.has_learning_rate_scale = bias.has_weight_decay = true;
    bias.has_momentum = bias.has_epsilon = true;
    bias.learning_rate_scale = 0.5;
    bias.weight_decay = 0.25;
    bias.epsilon = 0.125;
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        kit_init(&k);
        kit_optimizer(&k, names[i], 0.1);
        k.optimizer.momentum = 0.9;
        plain = kit_admitted(&k);
        k.optimizer.groups = list;
        k.optimizer.n_groups = 1;
        s = kit_admitted(&k);
        k.optimizer.n_groups = 0;
        kit_optimizer(&k, names[i], 0.05);
        k.optimizer.momentum = 1e-300; // 0, and the slot is there
        k.optimizer.has_weight_decay = true;
        k.optimizer.weight_decay = 0.25;
        k.optimizer.epsilon = 0.125;
        other = kit_admitted(&k);
        T_EQ(s->plan.run_count, 3);
        // muon has twins behind its two groups, for what is no matrix.
        T_EQ(s->plan.runs[2].group, s->plan.optim.kind == OPTIM_MUON ? 3 : 1);
        for (unsigned n = 0; n < 4; n++) {
            uniform(g, ALL);
            push_absent(s, n, n == 1 ? 1 : 0, g); // by piece, too
            push_absent(other, n, n == 1 ? 1 : 0, g);
            push_absent(plain, n, n == 1 ? 1 : 0, g);
        }
        T_MEM(s->memory.values, plain->memory.values,
              (KERNEL + MOVING) * sizeof(float));
        T_MEM(s->memory.values + KERNEL + MOVING,
              other->memory.values + KERNEL + MOVING, BIAS * sizeof(float));
        apply_consts(&k0, &s->plan, &s->plan.runs[0], &step);
        apply_consts(&k2, &s->plan, &s->plan.runs[2], &step);
        T_TRUE(k0.decay != k2.decay);
        shard_unref(s);
        shard_unref(plain);
        shard_unref(other);
    }
}
