// SPDX-License-Identifier: Apache-2.0
// Moments of a worker's own optimizer at a shard (train.inner.moments store):
// when they are kept, and what takes them.
#include "state/shard/moments.h"

#include <math.h>
#include <string.h>

#include "tests/unit/psserver/kit.h"

#define ALL 12
#define VECTORS 2

enum rounds { EACH, SLOTS, OPEN };

// One variable of 12, SGD at rate 1; 3 epochs of 10 closures of one step, in
// rounds of two if there are rounds. Two vectors of moments.
static void few(struct kit *k, enum rounds rounds, enum wire_type wire)
{
    static const uint64_t shape[] = {ALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 10;
    k->geometry.epochs = 3;
    k->geometry.steps_per_closure = 1;
    k->spec.contributions = rounds == SLOTS ? 2 : 0;
    k->spec.open_contributions = rounds == OPEN ? 2 : 0;
    k->spec.moments = VECTORS;
    k->spec.moments_wire = wire;
}

static struct shard *shard_of(struct kit *k, enum rounds rounds)
{
    few(k, rounds, WIRE_F32);
    return kit_admitted(k);
}

// A push whose moments are `value` in the first vector and one more in the
// second; `t` 0: it has none.
static enum sl_err push_with(struct shard *s, uint64_t closure, float value,
                             uint64_t t, size_t elements,
                             enum wire_push_result *result)
{
    float moments[VECTORS * ALL], values[ALL];
    struct kit_payload payload, behind;
    struct wire_push_reply reply = {.result = WIRE_PUSH_UNKNOWN};
    struct wire_push push;
    enum sl_err rc;

    for (size_t i = 0; i < elements; i++)
        moments[i] = value + (i >= ALL);
    kit_payload_equal(&payload, 1, ALL, 7);
    kit_payload_init(&behind, moments, elements, 5);
    push = kit_push(closure, 0, &payload);
    push.based_on = once_version(&s->once);
    push.moments_t = t;
    if (t > 0) {
        push.rows = behind.slices;
        push.rows_bytes = behind.slices.bytes;
    }
    rc = shard_push(s, &push, &reply, values, NULL);
    if (result != NULL)
        *result = reply.result;
    kit_payload_release(&behind);
    kit_payload_release(&payload);
    return rc;
}

static void pushes(struct shard *s, uint64_t closure, float value, uint64_t t,
                   enum wire_push_result want)
{
    enum wire_push_result result;

    T_OK(push_with(s, closure, value, t, VECTORS * ALL, &result));
    T_EQ(result, want);
}

// What a worker that begins with `closure` is given; NAN: nothing.
static float pulled(struct shard *s, uint64_t closure, uint64_t *t)
{
    const struct wire_pull pull = {.job = s->plan.job,
                                   .job_incarnation = 1,
                                   .incarnation = 1,
                                   .shard = s->plan.shard,
                                   .moments = true,
                                   .before_round_of = closure + 1};
    struct moments_set *m = NULL;
    struct wire_pull_reply reply;
    float got[VECTORS * ALL] = {NAN};

    T_OK(shard_pull_moments(s, &pull, &reply, &m, t_err()));
    *t = reply.moments_t;
    if (m == NULL)
        return NAN;
    T_EQ(reply.wire, s->plan.moments_wire);
    T_EQ(m->bytes, sizeof(got));
    memcpy(got, m->data, sizeof(got));
    for (unsigned i = 1; i < VECTORS * ALL; i++)
        T_NEAR(got[i], got[0] + (i >= ALL), 0);
    moments_unref(m);
    return got[0];
}

static void gives(struct shard *s, uint64_t closure, float value, uint64_t t)
{
    uint64_t seen;

    T_NEAR(pulled(s, closure, &seen), value, 0);
    T_EQ(seen, t);
}

static void gives_none(struct shard *s, uint64_t closure)
{
    uint64_t seen;

    T_TRUE(isnan(pulled(s, closure, &seen)));
    T_EQ(seen, 0);
}

// And a worker that computes a slot again is given those from before its round.
TEST(moments, L9_they_are_kept_with_the_count_of_their_contribution)
{
    struct kit k;
    struct shard *s = shard_of(&k, SLOTS);

    pushes(s, 0, 5, 100, WIRE_PUSH_HELD);
    gives_none(s, 0);
    pushes(s, 1, 0, 0, WIRE_PUSH_COUNTED);
    gives(s, 2, 5, 100);
    gives_none(s, 0); // again, for another shard
    gives_none(s, 1);
    pushes(s, 2, 7, 200, WIRE_PUSH_HELD);
    gives(s, 2, 5, 100);
    gives(s, 3, 5, 100);
    pushes(s, 3, 0, 0, WIRE_PUSH_COUNTED);
    gives(s, 4, 7, 200);
    gives(s, 3, 5, 100);
    pushes(s, 4, 0, 0, WIRE_PUSH_HELD); // a round without moments
    pushes(s, 5, 0, 0, WIRE_PUSH_COUNTED);
    gives(s, 6, 7, 200);
    gives(s, 4, 7, 200);
    shard_unref(s);
}

TEST(moments, L9_an_open_round_keeps_them_when_it_ends)
{
    struct kit k;
    struct shard *s = shard_of(&k, OPEN);

    pushes(s, 8, 5, 100, WIRE_PUSH_HELD);
    pushes(s, 8, 9, 900, WIRE_PUSH_HELD); // again: the first
    gives_none(s, 3);
    T_TRUE(shard_close_round(s, 1, 8));
    gives(s, 3, 5, 100);
    pushes(s, 2, 7, 70, WIRE_PUSH_HELD);
    pushes(s, 3, 8, 80, WIRE_PUSH_COUNTED); // the last one's
    gives(s, 4, 8, 80);
    shard_unref(s);
}

// A step that is not finite is counted at once, and not those that wait.
TEST(moments, L9_a_skipped_step_leaves_those_of_an_open_round_held)
{
    struct kit k;
    struct shard *s = shard_of(&k, OPEN);
    struct wire_push_reply reply = {0};
    float values[ALL];
    struct kit_payload payload;
    struct wire_push push;

    pushes(s, 8, 5, 100, WIRE_PUSH_HELD);
    kit_payload_equal(&payload, 1, ALL, 7);
    push = kit_push(9, 0, &payload);
    push.based_on = once_version(&s->once);
    push.skip = true;
    push.payload = (struct sl_slices){0};
    T_OK(shard_push(s, &push, &reply, values, NULL));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    gives_none(s, 3);
    T_TRUE(shard_close_round(s, 1, 8));
    gives(s, 3, 5, 100);
    kit_payload_release(&payload);
    shard_unref(s);
}

TEST(moments, L9_a_push_that_counts_nothing_changes_none)
{
    struct kit k;
    struct shard *s = shard_of(&k, EACH);

    pushes(s, 0, 5, 100, WIRE_PUSH_COUNTED);
    gives(s, 1, 5, 100);
    pushes(s, 0, 6, 200, WIRE_PUSH_DUPLICATE);
    gives(s, 1, 5, 100);
    s->incarnation = 2;
    pushes(s, 1, 6, 200, WIRE_PUSH_REFUSED); // it was replaced
    s->incarnation = 1;
    gives(s, 1, 5, 100);
    shard_unref(s);
}

TEST(moments, what_does_not_fit_is_refused_and_counts_nothing)
{
    struct kit k;
    struct shard_brief brief;
    struct shard *s = shard_of(&k, EACH);

    T_FAILS(SL_EINVAL, push_with(s, 0, 5, 100, ALL, NULL));
    T_FAILS(SL_ENUMERIC, push_with(s, 0, INFINITY, 100, VECTORS * ALL, NULL));
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.steps, 0);
    T_EQ(brief.moments_of, 0);
    pushes(s, 3, 5, 100, WIRE_PUSH_COUNTED);
    T_TRUE(shard_brief(s, true, &brief));
    T_EQ(brief.moments_of, 4);
    shard_unref(s);
    few(&k, EACH, WIRE_F32);
    k.spec.moments = 0;
    s = kit_admitted(&k);
    T_FAILS(SL_EINVAL, push_with(s, 0, 5, 100, VECTORS * ALL, NULL));
    shard_unref(s);
}

TEST(moments, a_snapshot_has_those_that_are_kept)
{
    struct fs *fs = fs_posix();
    const char *folder = t_tmpdir();
    struct shard *s, *back = NULL;
    struct wire_tag tag;
    struct kit k;

    s = shard_of(&k, OPEN);
    tag = kit_snap(fs, folder, s);
    T_OK(kit_load(fs, folder, &k, tag, NULL, &back, t_err()));
    shard_admit(back, 1);
    gives_none(back, 0);
    shard_unref(back);
    pushes(s, 0, 5, 100, WIRE_PUSH_HELD);
    pushes(s, 1, 0, 0, WIRE_PUSH_COUNTED);
    pushes(s, 2, 9, 900, WIRE_PUSH_HELD);
    tag = kit_snap(fs, folder, s);
    T_OK(kit_load(fs, folder, &k, tag, NULL, &back, t_err()));
    shard_admit(back, 1);
    gives(back, 2, 5, 100);
    T_EQ(back->moments.kept->closure, 0);
    shard_unref(back);
    shard_unref(s);
}

TEST(moments, a_plan_refuses_what_no_shard_can_keep)
{
    struct plan plan = {0};
    struct kit k;

    few(&k, SLOTS, WIRE_INT8);
    T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, NULL));
    k.spec.moments_wire = WIRE_BF16;
    k.spec.moments = 100;
    T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, NULL));
    k.spec.moments = 2;
    T_OK(plan_read(&plan, &k.spec, t_err()));
    T_EQ(moments_bytes(&plan), VECTORS * ALL * 2);
    plan_release(&plan);
}
