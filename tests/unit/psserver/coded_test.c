// SPDX-License-Identifier: Apache-2.0
// Coded payloads of a shard, and the parameters that its workers have of them.
#include "state/shard/coded.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "state/shard/mean.h"
#include "state/shard/mirror.h"
#include "tests/unit/psserver/kit.h"

#define FRONT 5000 // elements before a moving statistic of MOVING, and behind
#define MOVING 300
#define BACK 70
#define ALL (FRONT + MOVING + BACK)

static const enum wire_type codes[] = {WIRE_INT8, WIRE_E3M0, WIRE_TOPK2};

static void form_init(struct coded *form)
{
    *form = (struct coded){NULL, 0};
    T_OK(coded_add(form, 4000, false));
    T_OK(coded_add(form, FRONT - 4000, false)); // another variable
    T_OK(coded_add(form, MOVING, true));
    T_OK(coded_add(form, BACK, false));
    T_EQ(form->count, 3);
}

static void random_values(struct rng *r, float *values)
{
    for (size_t i = 0; i < ALL; i++)
        values[i] = (float)rng_below(r, 20001) / 1e4f - 1;
}

// A payload cut anywhere.
struct cut {
    uint8_t bytes[4 * ALL];
    struct sl_slice at[4];
    struct sl_slices slices;
};

static void cut_payload(struct cut *c, struct rng *r, size_t bytes)
{
    size_t from = 0, to;

    for (unsigned i = 0; i < 4; i++, from = to) {
        to = i == 3 ? bytes : from + rng_below(r, bytes - from);
        c->at[i] = (struct sl_slice){c->bytes + from, to - from};
    }
    c->slices = slices_all(c->at, 4);
}

TEST(coded, sizes_depend_on_the_form_alone)
{
    struct coded form;

    form_init(&form);
    T_EQ(coded_bytes(&form, WIRE_F32), 4 * ALL);
    T_EQ(coded_bytes(&form, WIRE_BF16), 2 * ALL);
    // 19 blocks and one of 136; 300 exact; one of 70.
    T_EQ(coded_bytes(&form, WIRE_INT8),
         19 * 260 + 4 + 136 + 4 * MOVING + 4 + BACK);
    T_EQ(coded_bytes(&form, WIRE_E3M0),
         19 * 132 + 4 + 68 + 4 * MOVING + 4 + BACK / 2);
    // 4096 elements, 904 of which 15 are sent, 70 of which 2 are.
    T_EQ(coded_bytes(&form, WIRE_TOPK2),
         120 + (8 + 23 + 4) + 4 * MOVING + (8 + 3 + 1));
    coded_release(&form);
}

TEST(coded, what_is_read_is_near_and_moving_statistics_are_exact)
{
    static struct cut c;
    float in[ALL], out[ALL];
    struct coded form;
    struct rng r;

    rng_init(&r, t_seed(), 1);
    form_init(&form);
    for (unsigned k = 0; k < SL_COUNT(codes); k++) {
        random_values(&r, in);
        coded_write(&form, codes[k], in, c.bytes);
        cut_payload(&c, &r, coded_bytes(&form, codes[k]));
        T_OK(coded_check(&form, codes[k], &c.slices, t_err()));
        coded_read(&form, codes[k], &c.slices, out);
        T_MEM(out + FRONT, in + FRONT, MOVING * sizeof(*in));
        for (size_t i = 0; i < ALL; i++)
            if (codes[k] == WIRE_INT8)
                T_NEAR(out[i], in[i], 0.5 / 127 + 1e-6);
            else
                T_TRUE(fabsf(out[i] - in[i]) <= 1);
    }
    coded_release(&form);
}

// Whatever pieces it is read in, and whichever of the parts is a payload.
TEST(coded, a_mean_in_pieces_has_the_bits_of_one_at_once)
{
    static struct cut c;
    static float parts[3][ALL], want[ALL], got[ALL];
    struct mean_part of[3];
    struct mean m = {.parts = of, .count = 3, .elements = ALL, .by = 0.25f};
    struct coded form;
    struct rng r;
    float most;

    rng_init(&r, t_seed(), 9);
    form_init(&form);
    m.coded = &form;
    for (unsigned round = 0; round < 12; round++) {
        unsigned last = round % 3;

        m.type = round < 9 ? codes[round / 3] : WIRE_BF16;
        for (unsigned k = 0; k < 3; k++) {
            random_values(&r, parts[k]);
            of[k] = (struct mean_part){
                .values = parts[k], .weight = (float)(k + 1), .most = 1};
        }
        coded_write(&form, m.type, parts[last], c.bytes);
        cut_payload(&c, &r, coded_bytes(&form, m.type));
        m.payload = c.slices;
        most = coded_read(&form, m.type, &c.slices, parts[last]);
        T_TRUE(most <= coded_bound(&form, m.type, &c.slices));
        of[last].values = NULL;
        for (size_t i = 0; i < ALL; i++) {
            T_TRUE(fabsf(parts[last][i]) <= most);
            want[i] = parts[0][i];
            want[i] += 2 * parts[1][i];
            want[i] += 3 * parts[2][i];
            want[i] *= 0.25f;
        }
        T_TRUE(mean_finite(&m));
        mean_begin(&m);
        for (size_t at = 0, n; at < ALL; at += n) {
            n = 1 + rng_below(&r, ALL - at);
            mean_take(&m, n, got + at);
        }
        T_MEM(got, want, sizeof(want));
    }
    of[0].values = parts[0];
    of[0].most = 3e38f; // only what is there decides
    T_TRUE(mean_finite(&m));
    parts[0][ALL - 1] = 3e38f;
    of[0].weight = 2;
    T_FALSE(mean_finite(&m));
    coded_release(&form);
}

TEST(coded, a_payload_is_checked_whole)
{
    static struct cut c;
    struct sl_error err = SL_ERROR_INIT;
    float in[ALL];
    struct coded form;
    struct rng r;

    rng_init(&r, t_seed(), 2);
    form_init(&form);
    for (unsigned k = 0; k < SL_COUNT(codes); k++) {
        size_t bytes = coded_bytes(&form, codes[k]);

        random_values(&r, in);
        cut_payload(&c, &r, bytes - 1);
        T_FAILS(SL_EINVAL, coded_check(&form, codes[k], &c.slices, &err));
        cut_payload(&c, &r, bytes);
        in[FRONT + 7] = INFINITY;
        coded_write(&form, codes[k], in, c.bytes);
        T_FAILS(SL_ENUMERIC, coded_check(&form, codes[k], &c.slices, &err));
        in[FRONT + 7] = 0;
        in[ALL - 1] = NAN;
        coded_write(&form, codes[k], in, c.bytes);
        T_FAILS(SL_ENUMERIC, coded_check(&form, codes[k], &c.slices, &err));
        T_HAS(err.text, "at element 5300");
    }
    coded_release(&form);
}

// What was left out comes with later payloads: their sum keeps up with the sum
// of what was to be sent.
TEST(coded, what_is_left_out_is_sent_later)
{
    static float rest[ALL];
    static struct cut c;
    static double wanted[ALL], sent[ALL];
    float in[ALL], out[ALL];
    struct coded form;
    struct rng r;

    rng_init(&r, t_seed(), 3);
    form_init(&form);
    random_values(&r, in);
    memset(rest, 0, sizeof(rest));
    for (unsigned round = 0; round < 400; round++) {
        coded_write_rest(&form, WIRE_TOPK2, 1, in, rest, c.bytes);
        cut_payload(&c, &r, coded_bytes(&form, WIRE_TOPK2));
        T_OK(coded_check(&form, WIRE_TOPK2, &c.slices, t_err()));
        coded_read(&form, WIRE_TOPK2, &c.slices, out);
        T_MEM(out + FRONT, in + FRONT, MOVING * sizeof(*in));
        for (size_t i = 0; i < ALL; i++) {
            wanted[i] += (double)in[i];
            sent[i] += (double)out[i];
        }
    }
    for (size_t i = 0; i < FRONT; i++)
        T_NEAR(sent[i] + (double)rest[i], wanted[i], 0.05);
    for (size_t i = 0; i < FRONT; i++) // of 400 at most, and one in 64 is sent
        T_TRUE(fabs(wanted[i] - sent[i]) < 130);
    // The last one of a worker brings the rest.
    coded_write_rest(&form, WIRE_BF16, 1, in, rest, c.bytes);
    for (size_t i = 0; i < ALL; i++)
        T_TRUE(fabsf(rest[i]) < 1);
    coded_release(&form);
}

// Whoever adds each change has the bits of the mirror, and these follow the
// values: what a change leaves out is part of the next one.
TEST(coded, who_adds_each_change_has_the_same_bits)
{
    static struct cut c;
    static float values[ALL], held[ALL], worker[ALL];
    struct coded form;
    struct rng r;

    rng_init(&r, t_seed(), 4);
    form_init(&form);
    for (unsigned k = 0; k < 2; k++) { // topk2 is of contributions
        random_values(&r, values);
        memcpy(held, values, sizeof(held));
        memcpy(worker, values, sizeof(held));
        for (unsigned round = 0; round < 30; round++) {
            if (round < 15)
                for (size_t i = 0; i < ALL; i++)
                    values[i] += (float)rng_below(&r, 2001) / 1e5f - 0.01f;
            T_TRUE(coded_follow(&form, codes[k], values, held, c.bytes));
            cut_payload(&c, &r, coded_bytes(&form, codes[k]));
            T_OK(coded_check(&form, codes[k], &c.slices, t_err()));
            coded_apply(&form, codes[k], &c.slices, worker);
            T_MEM(worker, held, sizeof(held));
            T_MEM(held + FRONT, values + FRONT, MOVING * sizeof(*held));
        }
        for (size_t i = 0; i < ALL; i++)
            T_NEAR(held[i], values[i], 1e-5);
    }
    values[3] = INFINITY;
    T_FALSE(coded_follow(&form, WIRE_E3M0, values, held, c.bytes));
    T_MEM(held, values, 256 * sizeof(*held));
    coded_release(&form);
}

// ---- at a shard

#define SMALL 12

// One variable of 12, SGD at rate 1, rounds of 2.
static struct shard *small(struct kit *k, uint32_t down)
{
    static const uint64_t shape[] = {SMALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 10;
    k->geometry.steps_per_closure = 1;
    k->spec.contributions = 2;
    k->spec.down = down;
    return kit_admitted(k);
}

static struct wire_push_reply push_code(struct shard *s, uint64_t closure,
                                        enum wire_type type, const float *g)
{
    uint8_t bytes[4 * SMALL];
    struct sl_slice one = {bytes, coded_bytes(&s->plan.coded, type)};
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;
    struct shard_brief brief;

    coded_write(&s->plan.coded, type, g, bytes);
    T_TRUE(shard_brief(s, true, &brief));
    push.skip = false;
    push.wire = type;
    push.based_on = brief.counts.version;
    push.payload = slices_one(&one);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    return reply;
}

static void whole_round(struct shard *s, uint64_t round, const float *g)
{
    T_EQ(push_code(s, 2 * round, WIRE_INT8, g).result, WIRE_PUSH_HELD);
    T_EQ(push_code(s, 2 * round + 1, WIRE_E3M0, g).result, WIRE_PUSH_COUNTED);
}

TEST(coded, contributions_of_any_code_are_averaged)
{
    float g[SMALL], values[SMALL];
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    struct shard *s;
    struct kit k;

    s = small(&k, 0);
    for (unsigned i = 0; i < SMALL; i++)
        g[i] = ldexpf(i % 2 ? 127 : -127, -(int)(i % 3));
    T_EQ(push_code(s, 0, WIRE_E3M0, g).wire, WIRE_F32); // of its answer
    T_EQ(push_code(s, 1, WIRE_E3M0, g).result, WIRE_PUSH_COUNTED);
    T_OK(shard_pull(s, &pull, &reply, values, t_err()));
    for (unsigned i = 0; i < SMALL; i++)
        T_EQ(values[i], -g[i]);
    shard_unref(s);
}

TEST(coded, a_code_is_of_contributions_alone)
{
    struct sl_error err = SL_ERROR_INIT;
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    struct shard *s;
    struct kit k;

    kit_init(&k);
    s = kit_admitted(&k);
    kit_payload_equal(&payload, 0, 4, 0);
    push = kit_push(0, 0, &payload);
    push.wire = WIRE_E3M0;
    T_FAILS(SL_EINVAL, shard_push(s, &push, &reply, NULL, &err));
    T_HAS(err.text, "the job has no rounds");
    kit_payload_release(&payload);
    shard_unref(s);
    k.spec.down = WIRE_E3M0;
    T_FAILS(SL_EINVAL, plan_read(&(struct plan){0}, &k.spec, &err));
    k.spec.contributions = 2;
    k.geometry.steps_per_closure = 1;
    k.spec.down = WIRE_TOPK2;
    T_FAILS(SL_EINVAL, plan_read(&(struct plan){0}, &k.spec, &err));
}

// Pulls as a worker that has version `have` - 1; returns the type of the
// answer, whose bytes go to `out`.
static enum wire_type change_of(struct shard *s, uint64_t have, uint64_t before,
                                uint64_t incarnation, uint8_t *out,
                                size_t *bytes)
{
    const struct wire_pull pull = {.job = 7,
                                   .job_incarnation = 1,
                                   .shard = 2,
                                   .incarnation = incarnation,
                                   .wire = WIRE_E3M0,
                                   .before_round_of = before,
                                   .have = have};
    struct wire_pull_reply reply;

    T_OK(shard_pull_change(s, &pull, &reply, out, bytes, t_err()));
    return reply.wire;
}

TEST(coded, a_worker_of_the_version_before_is_sent_what_changed)
{
    uint8_t out[4 * SMALL];
    float g[SMALL], whole[SMALL], worker[SMALL] = {0};
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    struct sl_slice one = {out, 0};
    struct sl_slices payload;
    struct shard *s;
    struct kit k;

    s = small(&k, WIRE_E3M0);
    T_EQ(change_of(s, 0, 0, 1, out, &one.len), WIRE_F32); // it has none
    T_EQ(change_of(s, 1, 0, 1, out, &one.len), WIRE_E3M0);
    T_EQ(one.len, 0); // it has the version
    for (uint64_t round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SMALL; i++)
            g[i] = 0.1f * (float)i + 0.01f * (float)round;
        whole_round(s, round, g);
        T_EQ(change_of(s, round + 1, 0, 1, out, &one.len), WIRE_E3M0);
        T_EQ(one.len, coded_bytes(&s->plan.coded, WIRE_E3M0));
        payload = slices_one(&one);
        T_OK(coded_check(&s->plan.coded, WIRE_E3M0, &payload, t_err()));
        coded_apply(&s->plan.coded, WIRE_E3M0, &payload, worker);
        T_OK(shard_pull(s, &pull, &reply, whole, t_err()));
        T_MEM(worker, whole, sizeof(whole)); // as another worker gets them
        T_NE(memcmp(whole, s->memory.values, sizeof(whole)), 0);
    }
    // It missed a round; is ahead of a shard that fell back; or has values of
    // another incarnation.
    T_EQ(change_of(s, 2, 0, 1, out, &one.len), WIRE_F32);
    T_EQ(change_of(s, 5, 0, 1, out, &one.len), WIRE_F32);
    T_EQ(change_of(s, 3, 0, 0, out, &one.len), WIRE_F32);
    // A slot of the last round is computed again from what workers had.
    T_EQ(change_of(s, 3, 5, 1, out, &one.len), WIRE_E3M0);
    T_EQ(one.len, 0);
    T_EQ(change_of(s, 2, 5, 1, out, &one.len), WIRE_F32);
    shard_unref(s);
}

// So it is where a round has no slots: closures of any order.
TEST(coded, open_rounds_take_codes_and_send_what_changed)
{
    uint8_t out[4 * SMALL];
    float g[SMALL], worker[SMALL] = {0};
    struct sl_slice one = {out, 0};
    struct sl_slices payload;
    struct shard *s;
    struct kit k;

    s = small(&k, WIRE_E3M0);
    k.spec.contributions = 0;
    k.spec.open_contributions = 2;
    shard_unref(s);
    s = kit_admitted(&k);
    for (unsigned i = 0; i < SMALL; i++)
        g[i] = ldexpf(i % 2 ? 127 : -127, -(int)(i % 3));
    T_EQ(push_code(s, 7, WIRE_E3M0, g).result, WIRE_PUSH_HELD);
    T_EQ(change_of(s, 1, 0, 1, out, &one.len), WIRE_E3M0);
    T_EQ(one.len, 0);
    T_EQ(push_code(s, 3, WIRE_E3M0, g).result, WIRE_PUSH_COUNTED);
    for (unsigned i = 0; i < SMALL; i++)
        T_EQ(s->memory.values[i], -g[i]);
    T_EQ(change_of(s, 1, 0, 1, out, &one.len), WIRE_E3M0);
    payload = slices_one(&one);
    T_OK(coded_check(&s->plan.coded, WIRE_E3M0, &payload, t_err()));
    coded_apply(&s->plan.coded, WIRE_E3M0, &payload, worker);
    T_MEM(worker, s->mirror.values, sizeof(worker));
    T_MEM(worker, s->memory.values, sizeof(worker)); // of powers of two
    shard_unref(s);
}

// A shard that begins again with the values of a snapshot says so with a new
// incarnation; its mirror is equal to its values.
TEST(coded, a_mirror_begins_with_the_values)
{
    float g[SMALL], whole[SMALL];
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply reply;
    struct fs *fs = fs_posix();
    struct shard *s, *back = NULL;
    struct kit k;

    s = small(&k, WIRE_E3M0);
    for (unsigned i = 0; i < SMALL; i++)
        g[i] = 0.1f * (float)i;
    whole_round(s, 0, g);
    (void)kit_snap(fs, t_tmpdir(), s);
    T_OK(kit_load(fs, t_tmpdir(), &k, (struct wire_tag){0, 0}, NULL, &back,
                  t_err()));
    shard_admit(back, 2);
    T_OK(shard_pull(back, &pull, &reply, whole, t_err()));
    T_MEM(whole, s->memory.values, sizeof(whole));
    T_NE(memcmp(s->mirror.values, whole, sizeof(whole)), 0);
    shard_unref(s);
    shard_unref(back);
}
