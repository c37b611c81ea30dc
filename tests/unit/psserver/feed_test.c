// SPDX-License-Identifier: Apache-2.0
// A shard that another one follows: what its log has, and what the follower
// comes to (state/shard/oplog.h).
#include "state/shard/oplog.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/unit/psserver/kit.h"

enum { ALL = 12, ORDER = 5, LOG_BYTES = 1 << 20 };

// One variable of 12, Adam; 3 epochs of 10 closures of one step.
static void few(struct kit *k)
{
    static const uint64_t shape[] = {ALL, 0};

    kit_init(k);
    kit_clear(k);
    kit_variable(k, "w", shape);
    kit_optimizer(k, "adam", 0.5);
    k->geometry.samples = 10;
    k->geometry.epochs = 3;
    k->geometry.steps_per_closure = 1;
}

// A source and its follower.
struct pair {
    struct kit kit;
    struct shard *source, *follower;
    uint64_t sent;
};

// Loads what is written of an image into a follower.
static void pair_follow(struct pair *p, struct shard_image *image)
{
    struct snap_written written = {0};
    struct wire_tag tag = image->tag;
    static unsigned stores; // one for each pair
    char folder[600];

    snprintf(folder, sizeof(folder), "%s/%u", t_tmpdir(), stores++);
    T_OK(snap_write_image(fs_posix(), folder, image, &written, t_err()));
    shard_image_release(image);
    snap_written_release(&written);
    T_OK(kit_load(fs_posix(), folder, &p->kit, tag, NULL, &p->follower,
                  t_err()));
    shard_follow_begin(p->follower, ORDER, 1);
}

static void pair_begin(struct pair *p, size_t most)
{
    struct shard_image image;
    bool fed = false;

    p->sent = 0;
    p->source = kit_admitted(&p->kit);
    T_OK(shard_feed_begin(p->source, 1, ORDER, most, 0, &image, &fed, t_err()));
    T_TRUE(fed);
    pair_follow(p, &image);
}

static void pair_end(struct pair *p)
{
    shard_unref(p->source);
    shard_unref(p->follower);
}

static enum sl_err tell(struct pair *p, uint64_t order, uint64_t number,
                        const struct oplog_record *r,
                        struct wire_follow_reply *reply)
{
    const struct sl_slice one = {r->data, r->bytes};
    const struct wire_follow m = {.job = 7,
                                  .job_incarnation = 1,
                                  .incarnation = 1,
                                  .order = order,
                                  .number = number,
                                  .shard = 2,
                                  .payload = slices_one(&one)};

    return shard_follow(p->follower, &m, reply, t_err());
}

static struct oplog_record *next(struct pair *p)
{
    struct oplog_record *r = NULL;

    T_OK(shard_feed_next(p->source, ORDER, p->sent, &r, t_err()));
    return r;
}

// Sends what is in the log. Returns whether the follower is whole.
static bool pump(struct pair *p)
{
    struct wire_follow_reply reply = {0};
    struct oplog_record *r;

    while ((r = next(p)) != NULL) {
        T_OK(tell(p, ORDER, ++p->sent, r, &reply));
        T_EQ(reply.applied, p->sent);
        shard_feed_acked(p->source, ORDER, reply.applied);
        oplog_unref(r);
    }
    return reply.whole;
}

static void are_alike(const struct pair *p)
{
    T_TRUE(counted_equal(&p->source->once.counted, &p->follower->once.counted));
    T_EQ(once_version(&p->source->once), once_version(&p->follower->once));
    T_EQ(p->source->once.counts.applied, p->follower->once.counts.applied);
    T_EQ(p->source->once.counts.skipped, p->follower->once.counts.skipped);
    T_MEM(p->source->memory.values, p->follower->memory.values,
          ALL * sizeof(float));
    for (unsigned i = 0; i < optim_slots(&p->source->plan.optim); i++)
        T_MEM(p->source->memory.slots[i], p->follower->memory.slots[i],
              ALL * sizeof(float));
}

// A push of equal elements; 0: a skip.
static enum wire_push_result push_of(struct shard *s, uint64_t closure, float g)
{
    struct wire_push push = kit_push(closure, 0, NULL);
    struct wire_push_reply reply;
    struct kit_payload payload;

    kit_payload_equal(&payload, g, ALL, 7);
    if (g != 0)
        push = kit_push(closure, 0, &payload);
    push.samples = 1 + closure % 3;
    push.digest = closure * 77;
    push.based_on = once_version(&s->once);
    T_OK(shard_push(s, &push, &reply, NULL, t_err()));
    kit_payload_release(&payload);
    return reply.result;
}

TEST(feed, M5_a_follower_comes_to_what_its_source_came_to)
{
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    T_EQ(push_of(p.source, 4, -1), WIRE_PUSH_COUNTED);
    T_EQ(push_of(p.source, 4, -1), WIRE_PUSH_DUPLICATE); // no operation
    T_FALSE(pump(&p));
    T_EQ(push_of(p.source, 1, 0), WIRE_PUSH_COUNTED); // a skip
    T_EQ(push_of(p.source, 2, 0.25f), WIRE_PUSH_COUNTED);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    T_EQ(p.sent, 5);
    T_TRUE(shard_followed(p.follower, ORDER));
    T_FALSE(shard_followed(p.follower, ORDER + 1));
    are_alike(&p);
    shard_admit(p.follower, 2);
    T_EQ(p.follower->once.counts.duplicates, 0);
    pair_end(&p);
}

TEST(feed, M5_a_push_keeps_its_type_its_rows_and_its_absent_pieces)
{
    struct wire_push push;
    struct wire_push_reply reply;
    struct kit_payload payload;
    float values[47];
    struct pair p;

    kit_init(&p.kit); // three variables
    kit_optimizer(&p.kit, "adam", 0.5);
    pair_begin(&p, LOG_BYTES);
    for (int i = 0; i < 47; i++)
        values[i] = (float)(i - 20) / 8;
    for (int type = WIRE_F32; type < WIRE_TYPES; type++) {
        kit_payload_wire(&payload, (enum wire_type)type, values, 47, 5);
        push = kit_push(0, (uint32_t)type, &payload);
        push.wire = (enum wire_type)type;
        push.absent_bytes = type == WIRE_BF16;
        push.absent[0] = 4;
        T_OK(shard_push(p.source, &push, &reply, NULL, t_err()));
        T_EQ(reply.result, WIRE_PUSH_COUNTED);
        kit_payload_release(&payload);
    }
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    T_MEM(p.source->memory.values, p.follower->memory.values, sizeof(values));
    T_EQ(p.follower->once.passed[2], 1);
    pair_end(&p);
}

// Contributions in rounds: they are held at both.
TEST(feed, M5_a_round_closes_at_both)
{
    struct pair p;

    few(&p.kit);
    p.kit.spec.contributions = 2;
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 1, 3), WIRE_PUSH_HELD);
    T_FALSE(pump(&p));
    T_EQ(p.follower->contributions.held, 1);
    T_EQ(push_of(p.source, 0, -1), WIRE_PUSH_COUNTED);
    T_EQ(push_of(p.source, 2, 5), WIRE_PUSH_HELD);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    are_alike(&p);
    shard_admit(p.follower, 2);
    T_EQ(p.follower->contributions.held, 1);
    pair_end(&p);
}

TEST(feed, M5_an_open_round_ends_at_both)
{
    struct pair p;

    few(&p.kit);
    p.kit.spec.open_contributions = 3;
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 7, 3), WIRE_PUSH_HELD);
    T_EQ(push_of(p.source, 7, 3), WIRE_PUSH_HELD);    // again
    T_EQ(push_of(p.source, 9, 0), WIRE_PUSH_COUNTED); // a skip, by itself
    T_TRUE(shard_close_round(p.source, 1, 7));
    T_FALSE(shard_close_round(p.source, 1, 7)); // no operation
    T_EQ(push_of(p.source, 3, 1), WIRE_PUSH_HELD);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    are_alike(&p);
    T_EQ(p.follower->open.held, 1);
    pair_end(&p);
}

TEST(feed, D1_a_follower_has_the_reduced_rates)
{
    struct rates rates = {.count = 0};
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    rates_add(&rates, 3, 0.125);
    T_EQ(push_of(p.source, 1, 3), WIRE_PUSH_COUNTED);
    shard_rates(p.source, &rates);
    T_EQ(push_of(p.source, 5, 3), WIRE_PUSH_COUNTED);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    are_alike(&p);
    T_EQ(p.follower->rates.count, 1);
    pair_end(&p);
}

struct beginning {
    struct shard *source;
    struct shard_image image;
    bool fed;
    enum sl_err rc;
};

static void *begin(void *arg)
{
    struct beginning *b = arg;

    b->rc = shard_feed_begin(b->source, 1, ORDER, LOG_BYTES, 600000, &b->image,
                             &b->fed, NULL);
    return NULL;
}

static bool waits(struct shard *s)
{
    bool arming;

    pthread_mutex_lock(&s->lock);
    arming = s->arming != NULL;
    pthread_mutex_unlock(&s->lock);
    return arming;
}

// What is held is in no image, so a follower would lack it.
TEST(feed, M5_a_feed_begins_when_nothing_is_held)
{
    struct beginning b = {.fed = false};
    pthread_t thread;
    struct pair p;

    few(&p.kit);
    p.kit.spec.contributions = 2;
    p.sent = 0;
    p.source = b.source = kit_admitted(&p.kit);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_HELD);
    T_OK(shard_feed_begin(p.source, 1, 4, LOG_BYTES, 0, &b.image, &b.fed,
                          t_err()));
    T_FALSE(b.fed);
    shard_image_release(&b.image);
    T_ASSERT(pthread_create(&thread, NULL, begin, &b) == 0);
    while (!waits(p.source))
        sched_yield();
    T_EQ(push_of(p.source, 1, 5), WIRE_PUSH_COUNTED);
    T_EQ(push_of(p.source, 2, 5), WIRE_PUSH_HELD);
    T_ASSERT(pthread_join(thread, NULL) == 0);
    T_OK(b.rc);
    T_TRUE(b.fed);
    T_EQ(counted_steps(&b.image.once.counted), 2);
    pair_follow(&p, &b.image);
    T_EQ(push_of(p.source, 3, 1), WIRE_PUSH_COUNTED);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_TRUE(pump(&p));
    T_EQ(p.sent, 3);
    are_alike(&p);
    pair_end(&p);
}

TEST(feed, M5_operations_are_done_once_and_in_their_order)
{
    struct wire_follow_reply reply;
    struct oplog_record *first, *second;
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    T_EQ(push_of(p.source, 1, 2), WIRE_PUSH_COUNTED);
    first = next(&p);
    p.sent = 1;
    second = next(&p);
    T_FAILS(SL_ESTATE, tell(&p, ORDER, 2, second, &reply));
    T_FAILS(SL_ESTATE, tell(&p, ORDER + 1, 1, first, &reply));
    T_OK(tell(&p, ORDER, 1, first, &reply));
    T_OK(tell(&p, ORDER, 1, first, &reply)); // its answer was lost
    T_EQ(reply.applied, 1);
    T_EQ(counted_steps(&p.follower->once.counted), 1);
    T_OK(tell(&p, ORDER, 2, second, &reply));
    T_EQ(reply.applied, 2);
    are_alike(&p);
    shard_admit(p.follower, 2); // it follows nobody then
    T_FAILS(SL_ESTATE, tell(&p, ORDER, 3, second, &reply));
    oplog_unref(first);
    oplog_unref(second);
    pair_end(&p);
}

TEST(feed, M5_another_outcome_ends_it)
{
    struct wire_follow_reply reply;
    struct oplog_record *r;
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    r = next(&p);
    T_OK(tell(&p, ORDER, 1, r, &reply));
    T_FAILS(SL_ECORRUPT, tell(&p, ORDER, 2, r, &reply)); // as a new operation
    T_FAILS(SL_ESTATE, tell(&p, ORDER, 2, r, &reply));
    oplog_unref(r);
    r = oplog_end(&(struct oplog_sum){.steps = 1});
    pair_end(&p);
    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    r->data[OPLOG_RECORD_HEAD - 1] = OPLOG_END;
    T_FAILS(SL_ECORRUPT, tell(&p, ORDER, 1, r, &reply)); // it has none
    T_FALSE(shard_followed(p.follower, ORDER));
    oplog_unref(r);
    pair_end(&p);
}

// All that was answered is behind it, and nothing more is.
TEST(feed, M1_a_source_stops_before_the_end_of_its_feed)
{
    struct wire_push push = kit_push(1, 0, NULL);
    struct wire_push_reply reply;
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_FAILS(SL_EUNAVAIL, shard_push(p.source, &push, &reply, NULL, t_err()));
    T_TRUE(pump(&p));
    are_alike(&p);
    pair_end(&p);
}

// Its move is over (M3): it goes on, and stops no more for that feed.
static void goes_on(bool stopped)
{
    struct oplog_record *none = NULL;
    struct pair p;

    few(&p.kit);
    pair_begin(&p, LOG_BYTES);
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    T_FALSE(pump(&p));
    if (stopped)
        T_TRUE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_FALSE(stopped && shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    shard_admit(p.source, 1); // a renewal
    T_EQ(push_of(p.source, 2, 3), WIRE_PUSH_COUNTED);
    T_FALSE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_FAILS(SL_ESTATE,
            shard_feed_next(p.source, ORDER, p.sent, &none, t_err()));
    pair_end(&p);
}

TEST(feed, M3_a_source_that_goes_on_has_no_feed)
{
    goes_on(false);
    goes_on(true);
}

TEST(feed, a_log_has_a_bound)
{
    struct sl_error err = SL_ERROR_INIT;
    struct oplog_record *r = NULL;
    struct pair p;

    few(&p.kit);
    pair_begin(&p, 150); // one record
    T_EQ(push_of(p.source, 0, 3), WIRE_PUSH_COUNTED);
    T_FALSE(pump(&p));
    T_EQ(push_of(p.source, 1, 3), WIRE_PUSH_COUNTED);
    T_FALSE(shard_feed_hand_over(p.source, ORDER, 1)); // too much is left
    T_EQ(push_of(p.source, 2, 3), WIRE_PUSH_COUNTED);
    T_EQ(shard_feed_next(p.source, ORDER, 1, &r, &err), SL_ESTATE);
    T_HAS(err.text, "too slow");
    T_FALSE(shard_feed_hand_over(p.source, ORDER, LOG_BYTES));
    T_EQ(push_of(p.source, 3, 3), WIRE_PUSH_COUNTED);
    pair_end(&p);
}

// Whatever comes, a follower answers, and nothing happens to it.
TEST(feed, what_is_no_operation_is_refused)
{
    static const uint8_t bytes[][20] = {
        {1, 0, 0, 0, 0, 0, 0},                      // ends within a head
        {0, 0, 0, 0, 0, 0, 0, 0},                   // of no kind
        {0, 0, 0, 0, 0, 0, 0, OPLOG_KINDS},         // of no kind
        {9, 0, 0, 0, 0, 0, 0, OPLOG_CLOSE},         // longer than it is
        {0, 0, 0, 0, 0, 0, 0, OPLOG_CLOSE},         // no closure
        {8, 0, 0, 0, 0, 0, 0, OPLOG_RATES, 1},      // half a rate
        {8, 0, 0, 0, 0, 0, 0, OPLOG_END, 1},        // no end
        {4, 0, 0, 0, 0, 0, 0, OPLOG_COUNTED, 8, 1}, // a push without a job
    };
    static const size_t lengths[] = {7, 8, 8, 16, 8, 16, 16, 12};
    struct oplog_record *r = sl_malloc(sizeof(*r) + 20);
    struct wire_follow_reply reply;
    struct pair p;

    for (size_t i = 0; i < SL_COUNT(lengths); i++) {
        few(&p.kit);
        pair_begin(&p, LOG_BYTES);
        memcpy(r->data, bytes[i], lengths[i]);
        r->bytes = lengths[i];
        T_TRUE(tell(&p, ORDER, 1, r, &reply) != SL_OK);
        T_EQ(p.follower->follow.applied, 0);
        pair_end(&p);
    }
    sl_free(r);
}
