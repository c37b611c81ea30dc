// SPDX-License-Identifier: Apache-2.0
// Rows of tables in rounds (train.mode sync): what a round makes of the rows of
// its contributions. SGD at rate 1 from a constant.
#include "state/shard/round_rows.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "plan/tables.h"
#include "state/base/element.h"
#include "tests/harness/crash_fs.h"
#include "tests/unit/psserver/kit.h"

enum { ELEMENTS = 4, IDS = 16, TABLES = 2, SLOTS = 4, USERS = 0, TAGS = 1 };
static const uint32_t dims[TABLES] = {3, 1};
#define DIM_MOST 3
#define FIRST KIT_FIRST

// A shard with rounds of `slots`; a tag has a row from the second update on.
// `beside`: it has rows alone, and a ring decides its rounds.
static struct shard *make_shard(struct kit *k, uint32_t slots, bool beside)
{
    static const uint64_t shape[] = {ELEMENTS, 0};
    struct shard *s = NULL;
    struct plan plan;

    kit_init(k);
    kit_clear(k);
    if (!beside)
        kit_variable(k, "w", shape);
    k->spec.decided = beside;
    kit_optimizer(k, "sgd", 1);
    k->geometry.samples = 40;
    k->geometry.steps_per_closure = 1;
    k->spec.contributions = slots;
    if (beside)
        kit_table(k, "users", dims[USERS]);
    T_ASSERT(plan_read(&plan, &k->spec, NULL) == SL_OK);
    plan_release_tables(&plan);
    plan.tenant = NULL;
    plan.tables = sl_calloc(TABLES, sizeof(*plan.tables));
    T_ASSERT(plan.tables != NULL);
    plan.table_count = TABLES;
    plan.tables[USERS] = kit_plan_table("users", &plan, USERS, dims[USERS]);
    plan.tables[TAGS] = kit_plan_table("tags", &plan, TAGS, dims[TAGS]);
    plan.tables[TAGS].spec.min_count = 2;
    T_ASSERT(shard_new(&s, &plan) == SL_OK);
    return s;
}

static struct shard *shard_of_rounds(struct kit *k, uint32_t slots)
{
    struct shard *s = make_shard(k, slots, false);

    shard_admit(s, 1);
    return s;
}

// What a contribution has: a gradient for some ids, the same in both tables.
struct slot {
    uint64_t samples;
    enum wire_type type;
    bool has[IDS];
    float grads[IDS][DIM_MOST];
    float values; // gradient of each value; NAN: the contribution is skipped
};

static uint64_t sorted[IDS]; // 0 to IDS - 1, by hash

static void sort_ids(void)
{
    for (size_t i = 0; i < IDS; i++)
        sorted[i] = i;
    qsort(sorted, IDS, sizeof(sorted[0]), kit_ids_by_hash);
}

static uint32_t ids_of(const struct slot *c, uint64_t *ids)
{
    uint32_t n = 0;

    for (size_t i = 0; i < IDS; i++)
        if (c->has[sorted[i]])
            ids[n++] = sorted[i];
    return n;
}

#define MESSAGE_BYTES                                                          \
    (TABLES * (TABLE_ROWS_HEAD + IDS * 8 + IDS * DIM_MOST * 4 + 8))

static size_t put_rows(uint8_t *to, const struct slot *c)
{
    uint8_t *at = to;
    uint64_t ids[IDS];
    uint32_t n = ids_of(c, ids);

    for (uint32_t t = 0; t < TABLES && n > 0; t++) {
        size_t row = table_rows_row_bytes(dims[t], c->type);

        at = table_rows_head(at, t, n, c->type);
        memcpy(at, ids, n * sizeof(ids[0]));
        at += n * sizeof(ids[0]);
        for (uint32_t i = 0; i < n; i++)
            element_write_rows(c->type, 1, dims[t], at + i * row,
                               c->grads[ids[i]]);
        at += table_rows_elements_bytes(n, dims[t], c->type);
    }
    return (size_t)(at - to);
}

static enum sl_err give(struct shard *s, uint64_t closure, const struct slot *c,
                        enum wire_push_result *result, struct sl_error *err)
{
    uint8_t rows[MESSAGE_BYTES] = {0};
    struct sl_slice one = {rows, put_rows(rows, c)};
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;
    struct kit_payload payload;
    enum sl_err rc;

    kit_payload_equal(&payload, isnan(c->values) ? 0 : c->values, ELEMENTS, 0);
    push.incarnation = s->incarnation;
    if (!isnan(c->values)) {
        if (!s->plan.decided)
            push = kit_push(closure, 0, &payload);
        push.skip = false;
        push.rows = slices_one(&one);
        push.rows_bytes = one.len;
    }
    push.samples = c->samples;
    push.based_on = once_version(&s->once);
    rc = shard_push(s, &push, &reply, NULL, err);
    if (rc == SL_OK)
        *result = reply.result;
    kit_payload_release(&payload);
    return rc;
}

static void given(struct shard *s, uint64_t closure, const struct slot *c,
                  enum wire_push_result want)
{
    enum wire_push_result result;

    T_OK(give(s, closure, c, &result, t_err()));
    T_EQ(result, want);
}

// The rows of a table, by id, as who computes a contribution of a closure reads
// them; 0: no closure is named.
static void read_table(struct shard *s, uint64_t before_round_of, uint32_t t,
                       float rows[IDS][DIM_MOST])
{
    uint8_t ask[TABLE_ROWS_HEAD + IDS * 8];
    struct sl_slice one = {ask, sizeof(ask)};
    struct wire_pull pull = {.job = 7,
                             .job_incarnation = 1,
                             .shard = 2,
                             .before_round_of = before_round_of,
                             .payload = slices_one(&one)};
    struct wire_pull_reply reply;
    uint8_t *out;
    size_t bytes;

    memcpy(table_rows_head(ask, t, IDS, WIRE_F32), sorted, sizeof(sorted));
    T_OK(shard_pull_rows(s, &pull, &reply, &out, &bytes, t_err()));
    for (size_t i = 0; i < IDS; i++)
        memcpy(rows[sorted[i]], out + i * dims[t] * 4, dims[t] * 4);
    sl_free(out);
}

static float first_of(struct shard *s, uint32_t t, uint64_t id)
{
    float rows[IDS][DIM_MOST];

    read_table(s, 0, t, rows);
    return rows[id][0];
}

static struct rowset_counts counts_of(const struct shard *s, uint32_t t)
{
    struct rowset_counts c;

    rowset_counts(s->tables.sets[t], &c);
    return c;
}

static struct slot a_slot(uint64_t samples, uint64_t id, uint64_t other,
                          float grad)
{
    struct slot c = {.samples = samples, .type = WIRE_F32};

    c.has[id] = c.has[other] = true;
    for (size_t i = 0; i < IDS; i++)
        for (size_t d = 0; d < DIM_MOST; d++)
            c.grads[i][d] = grad;
    return c;
}

TEST(round_rows, T7_a_round_is_one_update_of_a_row)
{
    const struct slot one = a_slot(1, 1, 2, 4), two = a_slot(3, 2, 3, 8);
    struct shard *s;
    struct kit k;

    sort_ids();
    s = shard_of_rounds(&k, 2);
    given(s, 1, &two, WIRE_PUSH_HELD);
    given(s, 1, &one, WIRE_PUSH_HELD); // a copy: the first one stays
    T_EQ(counts_of(s, USERS).rows, 0);
    T_EQ(first_of(s, USERS, 2), FIRST);
    given(s, 0, &one, WIRE_PUSH_COUNTED);
    given(s, 1, &two, WIRE_PUSH_DUPLICATE);
    T_EQ(counts_of(s, USERS).rows, 3);
    T_EQ(first_of(s, USERS, 1), FIRST - 4 * 1 / 4.0f);
    T_EQ(first_of(s, USERS, 2), FIRST - (4 * 1 + 8 * 3) / 4.0f);
    T_EQ(first_of(s, USERS, 3), FIRST - 8 * 3 / 4.0f);
    T_EQ(once_version(&s->once), 1);
    // Two contributions had id 2, and one update.
    T_EQ(counts_of(s, TAGS).rows, 0);
    T_EQ(counts_of(s, TAGS).waiting, 3);
    given(s, 2, &one, WIRE_PUSH_HELD);
    given(s, 3, &one, WIRE_PUSH_COUNTED);
    T_EQ(counts_of(s, TAGS).rows, 2);
    T_EQ(first_of(s, TAGS, 2), FIRST - 4);
    T_EQ(first_of(s, TAGS, 3), FIRST);
    shard_unref(s);
}

// Of many magnitudes, so that the order of a sum shows.
static void draw_slot(struct rng *r, struct slot *c)
{
    *c = (struct slot){.samples = 1 + rng_below(r, 9),
                       .type = (enum wire_type)rng_below(r, WIRE_ROW_TYPES),
                       .values = 1};
    for (size_t i = 0; i < IDS; i++) {
        c->has[i] = rng_below(r, 4) > 0; // the order of two alone is no matter
        for (size_t d = 0; d < DIM_MOST; d++)
            c->grads[i][d] = ((float)rng_below(r, 2001) / 1000 - 1) *
                             (float)(1u << rng_below(r, 12));
    }
}

// A user's gradient of a round in f32, in the order of slots.
static float mean_of(const struct slot *slots, size_t id, size_t d, bool *has)
{
    uint64_t samples = 0;
    float sum = 0, wide[DIM_MOST];
    uint8_t wire[4 * (DIM_MOST + 1)];

    *has = false;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct slot *c = &slots[i];

        samples += c->samples;
        if (!c->has[id])
            continue;
        element_write_rows(c->type, 1, DIM_MOST, wire, c->grads[id]);
        element_read_row(c->type, DIM_MOST, wide, wire);
        sum = *has ? sum + (float)c->samples * wide[d]
                   : wide[d] * (float)c->samples;
        *has = true;
    }
    return sum * (1.0f / (float)samples);
}

static void apply_to(float rows[IDS][DIM_MOST], const struct slot *slots)
{
    bool has;

    for (size_t id = 0; id < IDS; id++)
        for (size_t d = 0; d < DIM_MOST; d++) {
            float mean = mean_of(slots, id, d, &has);

            if (has)
                rows[id][d] -= mean;
        }
}

// In whatever order they come, as the sum in the order of slots says.
TEST(round_rows, T7_sums_go_in_the_order_of_slots)
{
    static const uint64_t orders[][SLOTS] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    struct slot slots[SLOTS];
    float want[IDS][DIM_MOST], got[IDS][DIM_MOST];
    struct shard *s;
    struct rng r;
    struct kit k;

    rng_init(&r, t_seed(), 1);
    sort_ids();
    s = shard_of_rounds(&k, SLOTS);
    for (size_t i = 0; i < IDS; i++)
        for (size_t d = 0; d < DIM_MOST; d++)
            want[i][d] = FIRST;
    for (uint64_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < SLOTS; i++)
            draw_slot(&r, &slots[i]);
        for (size_t i = 0; i < SLOTS; i++) {
            uint64_t slot = orders[round % 3][i];

            given(s, SLOTS * round + slot, &slots[slot],
                  i + 1 < SLOTS ? WIRE_PUSH_HELD : WIRE_PUSH_COUNTED);
        }
        apply_to(want, slots);
        read_table(s, 0, USERS, got);
        T_EQ(memcmp(want, got, sizeof(want)), 0);
    }
    shard_unref(s);
}

TEST(round_rows, a_round_that_is_skipped_changes_no_row)
{
    struct slot one = a_slot(1, 1, 2, 4), skip = one, large;
    struct shard *s;
    struct kit k;

    sort_ids();
    s = shard_of_rounds(&k, 2);
    skip.values = NAN;
    given(s, 0, &one, WIRE_PUSH_HELD);
    given(s, 1, &skip, WIRE_PUSH_COUNTED);
    T_EQ(counts_of(s, USERS).rows, 0);
    T_EQ(once_version(&s->once), 0);
    // So does a mean of rows that is not finite, though its parts are. The
    // values are not changed either.
    large = a_slot(100, 1, 2, 3e38f);
    large.values = 1;
    given(s, 2, &large, WIRE_PUSH_HELD);
    given(s, 3, &large, WIRE_PUSH_COUNTED);
    T_EQ(counts_of(s, USERS).rows, 0);
    T_EQ(once_version(&s->once), 0);
    T_TRUE(s->memory.values[0] == 0);
    // And one of values that is not finite leaves rows alone.
    large = a_slot(100, 1, 2, 1);
    large.values = 3e38f;
    given(s, 4, &large, WIRE_PUSH_HELD);
    given(s, 5, &large, WIRE_PUSH_COUNTED);
    T_EQ(counts_of(s, USERS).rows, 0);
    T_EQ(counted_steps(&s->once.counted), 6);
    shard_unref(s);
}

// A round without a row is an update all the same, and one of some tables only
// leaves the others' rows.
TEST(round_rows, a_round_may_have_no_rows)
{
    struct slot none = {.samples = 1, .type = WIRE_F32, .values = 1};
    struct shard *s;
    struct kit k;

    s = shard_of_rounds(&k, 2);
    given(s, 0, &none, WIRE_PUSH_HELD);
    given(s, 1, &none, WIRE_PUSH_COUNTED);
    T_EQ(once_version(&s->once), 1);
    T_EQ(counts_of(s, USERS).rows, 0);
    T_TRUE(s->memory.values[0] == -1);
    shard_unref(s);
}

static void rows_are(struct shard *s, uint64_t before_round_of, uint64_t id,
                     float users, float tags)
{
    float rows[IDS][DIM_MOST];

    read_table(s, before_round_of, USERS, rows);
    T_EQ(rows[id][0], users);
    T_EQ(rows[id][dims[USERS] - 1], users);
    read_table(s, before_round_of, TAGS, rows);
    T_EQ(rows[id][0], tags);
}

TEST(round_rows, T8_a_slot_is_computed_again_from_the_rows_before_its_round)
{
    struct slot one = a_slot(1, 1, 2, 4), two = a_slot(1, 2, 3, 2), skip = one;
    struct shard *s;
    struct kit k;

    sort_ids();
    skip.values = NAN;
    s = shard_of_rounds(&k, 2);
    for (uint64_t round = 0; round < 2; round++) {
        rows_are(s, 2 * round + 1, 2, FIRST - 3 * (float)round, FIRST);
        given(s, 2 * round, &one, WIRE_PUSH_HELD);
        given(s, 2 * round + 1, &two, WIRE_PUSH_COUNTED);
    }
    // Both slots of round 1, the open round, and what names none.
    rows_are(s, 3, 2, FIRST - 3, FIRST);
    rows_are(s, 4, 2, FIRST - 3, FIRST);
    rows_are(s, 5, 2, FIRST - 6, FIRST - 3);
    rows_are(s, 0, 2, FIRST - 6, FIRST - 3);
    rows_are(s, 3, 9, FIRST, FIRST); // no slot has it
    // Of rounds before the last one nothing is kept, nor of one skipped.
    rows_are(s, 1, 2, FIRST - 6, FIRST - 3);
    given(s, 4, &one, WIRE_PUSH_HELD);
    given(s, 5, &skip, WIRE_PUSH_COUNTED);
    rows_are(s, 5, 2, FIRST - 6, FIRST - 3);
    shard_unref(s);
}

// ---- memory

static struct sl_error wrong;

// S4: neither the contribution that did not fit is held, nor its round counted;
// it may come again.
TEST(round_rows, without_memory_a_contribution_is_refused_as_a_whole)
{
    struct slot one = a_slot(1, 1, 2, 4), two = a_slot(1, 3, 4, 4);
    enum wire_push_result result;
    struct shard *s;
    struct kit k;
    uint64_t had;

    sort_ids();
    s = shard_of_rounds(&k, 2);
    had = s->tables.account->bytes;
    given(s, 0, &one, WIRE_PUSH_HELD);
    T_TRUE(s->tables.account->bytes > had);
    row_memory_set(s->tables.account->bytes + 8, 0);
    T_FAILS(SL_ERANGE, give(s, 1, &two, &result, &wrong));
    T_HAS(wrong.text, "a contribution of the round: no memory");
    T_TRUE(contributions_has(&s->contributions, 0));
    T_TRUE(!contributions_has(&s->contributions, 1));
    // Held, and then the round has no memory for its mean, or its rows.
    for (uint64_t more = 128; more < 4096; more += 64) {
        row_memory_set(s->tables.account->bytes + more, 0);
        if (give(s, 1, &two, &result, &wrong) == SL_OK)
            break;
        T_TRUE(!contributions_has(&s->contributions, 1));
        T_EQ(once_version(&s->once), 0);
        T_EQ(counts_of(s, USERS).rows, 0);
    }
    row_memory_set(0, 0);
    T_HAS(wrong.text, "table ");
    given(s, 1, &two, WIRE_PUSH_DUPLICATE);
    T_EQ(counts_of(s, USERS).rows, 4);
    T_EQ(first_of(s, USERS, 4), FIRST - 2);
    shard_unref(s); // which gives everything back
}

// What is held is in no snapshot (Y2).
TEST(round_rows, held_rows_are_in_no_snapshot)
{
    struct crash_fs *disk = crash_fs_new(t_seed());
    struct fs *fs = crash_fs_ops(disk);
    const struct slot one = a_slot(1, 1, 2, 4);
    struct shard *s, *back;
    struct wire_tag tag;
    struct kit k;

    sort_ids();
    s = shard_of_rounds(&k, 2);
    given(s, 0, &one, WIRE_PUSH_HELD);
    given(s, 1, &one, WIRE_PUSH_COUNTED);
    given(s, 2, &one, WIRE_PUSH_HELD);
    tag = kit_snap(fs, "d", s);
    shard_unref(s);
    back = shard_of_rounds(&k, 2);
    T_OK(snap_read(fs, "d", tag, tag, back, t_err()));
    T_EQ(counted_steps(&back->once.counted), 2);
    T_EQ(back->contributions.held, 0);
    T_EQ(first_of(back, USERS, 2), FIRST - 4);
    given(back, 2, &one, WIRE_PUSH_HELD);
    given(back, 3, &one, WIRE_PUSH_COUNTED);
    T_EQ(first_of(back, USERS, 2), FIRST - 8);
    shard_unref(back);
    crash_fs_free(disk);
}

// ---- beside a ring

static struct wire_tag tag_of(uint64_t generation, uint64_t rounds)
{
    return (struct wire_tag){generation, rounds};
}

// A shard beside a ring, in generation 1 and without rounds.
static struct shard *shard_beside(struct kit *k)
{
    struct shard *s = make_shard(k, 2, true);

    sort_ids();
    T_OK(shard_settle(s, 1, tag_of(0, 0), false, t_err()));
    return s;
}

static void hold_round(struct shard *s, uint64_t first)
{
    const struct slot one = a_slot(1, 1, 2, 4), two = a_slot(3, 2, 3, 8);

    given(s, first + 1, &two, WIRE_PUSH_HELD);
    given(s, first, &one, WIRE_PUSH_HELD);
}

static struct shard_ring ring_of(struct shard *s)
{
    struct shard_ring r;

    shard_ring(s, &r);
    return r;
}

TEST(round_rows, R8_what_is_held_whole_is_applied_when_the_ring_has_decided)
{
    const struct slot one = a_slot(1, 1, 2, 4);
    struct shard *s;
    struct kit k;

    s = shard_beside(&k);
    given(s, 0, &one, WIRE_PUSH_HELD);
    T_FALSE(ring_of(s).whole);
    T_FAILS(SL_ESTALE, shard_decide(s, 1, 1, false, t_err()));
    given(s, 1, &one, WIRE_PUSH_HELD);
    given(s, 1, &one, WIRE_PUSH_HELD);
    T_TRUE(ring_of(s).whole);
    T_EQ(first_of(s, USERS, 1), FIRST);
    T_EQ(counted_steps(&s->once.counted), 0);
    T_TRUE(shard_round_open(s, 1));
    T_OK(shard_decide(s, 2, 1, false, t_err())); // of another generation
    T_FAILS(SL_ESTALE, shard_decide(s, 1, 2, false, t_err()));
    T_EQ(counted_steps(&s->once.counted), 0);
    T_OK(shard_decide(s, 1, 1, false, t_err()));
    T_OK(shard_decide(s, 1, 1, false, t_err())); // sent again
    T_EQ(first_of(s, USERS, 1), FIRST - 4);
    T_EQ(counted_steps(&s->once.counted), 2);
    T_EQ(ring_of(s).rounds, 1);
    T_FALSE(ring_of(s).whole);
    T_FALSE(shard_round_open(s, 1));
    given(s, 0, &one, WIRE_PUSH_DUPLICATE);
    shard_unref(s);
}

TEST(round_rows, R8_a_round_that_the_ring_skips_changes_no_row)
{
    struct shard *s;
    struct kit k;

    s = shard_beside(&k);
    hold_round(s, 0);
    T_OK(shard_decide(s, 1, 1, true, t_err()));
    T_EQ(first_of(s, USERS, 2), FIRST);
    T_EQ(counts_of(s, USERS).rows, 0);
    T_EQ(counted_steps(&s->once.counted), 2);
    T_EQ(s->once.counts.skipped, 2);
    T_EQ(ring_of(s).rounds, 1);
    shard_unref(s);
}

TEST(round_rows,
     R9_a_shard_applies_what_it_lacks_of_the_base_and_drops_the_rest)
{
    struct shard *s;
    struct kit k;

    s = shard_beside(&k);
    hold_round(s, 0);
    T_OK(shard_settle(s, 2, tag_of(1, 1), false, t_err()));
    T_EQ(s->incarnation, 2);
    T_EQ(first_of(s, USERS, 1), FIRST - 1);
    T_EQ(counted_steps(&s->once.counted), 2);
    hold_round(s, 2);
    T_OK(shard_settle(s, 3, tag_of(2, 1), false, t_err()));
    T_EQ(first_of(s, USERS, 1), FIRST - 1);
    T_FALSE(ring_of(s).whole);
    T_EQ(ring_of(s).rounds, 1);
    T_OK(shard_settle(s, 4, tag_of(2, 1), false, t_err())); // as 3 began
    T_OK(shard_settle(s, 2, tag_of(9, 9), false, t_err())); // late
    T_EQ(s->incarnation, 4);
    hold_round(s, 2);
    T_OK(shard_settle(s, 5, tag_of(4, 2), true, t_err()));
    T_EQ(first_of(s, USERS, 1), FIRST - 1);
    T_EQ(s->once.counts.skipped, 2);
    T_EQ(ring_of(s).rounds, 2);
    shard_unref(s);
}

TEST(round_rows, R9_a_shard_of_another_past_than_the_base_is_not_admitted)
{
    const struct slot one = a_slot(1, 1, 2, 4);
    struct shard *s;
    struct kit k;

    s = shard_beside(&k);
    hold_round(s, 0);
    T_OK(shard_decide(s, 1, 1, false, t_err()));
    T_FAILS(SL_ESTALE, shard_settle(s, 3, tag_of(2, 1), false, t_err()));
    hold_round(s, 2);
    T_FAILS(SL_ESTALE, shard_settle(s, 3, tag_of(2, 2), false, t_err()));
    T_FAILS(SL_ESTALE, shard_settle(s, 3, tag_of(1, 3), false, t_err()));
    T_FAILS(SL_ESTALE, shard_settle(s, 3, tag_of(1, 0), false, t_err()));
    T_EQ(s->incarnation, 1);
    T_TRUE(ring_of(s).whole);
    T_OK(shard_settle(s, 3, tag_of(1, 1), false, t_err()));
    given(s, 2, &one, WIRE_PUSH_HELD);
    T_FAILS(SL_ESTALE, shard_settle(s, 4, tag_of(3, 2), false, t_err()));
    T_EQ(ring_of(s).rounds, 1);
    shard_unref(s);
}

// The next closures that are not counted, of one epoch, as the ranks choose
// them.
TEST(round_rows, R8_rounds_are_those_of_the_ring)
{
    const struct slot one = a_slot(1, 1, 2, 4);
    struct shard *s;
    struct kit k;

    sort_ids();
    s = make_shard(&k, 3, true);
    for (uint64_t closure = 0; closure < 37; closure++)
        T_OK(counted_add(&s->once.counted, closure, 0));
    T_OK(shard_settle(s, 1, tag_of(0, 0), false, t_err()));
    given(s, 37, &one, WIRE_PUSH_HELD);
    given(s, 38, &one, WIRE_PUSH_HELD);
    T_FALSE(ring_of(s).whole);
    given(s, 40, &one, WIRE_PUSH_REFUSED); // of the next epoch
    given(s, 39, &one, WIRE_PUSH_HELD);
    T_OK(shard_decide(s, 1, 1, false, t_err()));
    given(s, 40, &one, WIRE_PUSH_HELD);
    T_EQ(counted_low(&s->once.counted), 40);
    shard_unref(s);
}

TEST(round_rows, a_shard_beside_a_ring_has_rows_alone)
{
    struct plan plan;
    struct kit k;

    kit_init(&k);
    k.geometry.steps_per_closure = 1;
    k.spec.decided = true;
    T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, t_err()));
    k.spec.contributions = 2;
    T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, t_err()));
    kit_clear(&k);
    k.geometry.steps_per_closure = 1;
    k.spec.contributions = 2;
    k.spec.decided = true;
    kit_table(&k, "users", 3);
    T_OK(plan_read(&plan, &k.spec, t_err()));
    plan_release(&plan);
    k.spec.first_rows = 3;
    T_FAILS(SL_EINVAL, plan_read(&plan, &k.spec, t_err()));
    k.spec.first_rows = 1;
    T_OK(plan_read(&plan, &k.spec, t_err()));
    T_EQ(plan.tables[0].spec.shard, 1);
    T_EQ(plan.tables[0].spec.shards, 3);
    plan_release(&plan);
}
