// SPDX-License-Identifier: Apache-2.0
// A round of a rank that is alone, and what of its sum is on its way when the
// contributor says that a slot is done.
#include "trainer/lease/ring_round.h"

#include "common/base/mem.h"
#include "tests/unit/trainer/ring_world.h"
#include "tests/unit/worker/nets.h"

#define BUCKET_BYTES 64

// A rank, and a contributor whose gradients are at hand.
struct alone {
    struct contributor base; // first
    struct world world;
    struct lease lease;
    struct nonfinite nonfinite;
    struct ring_round round;
    enum sl_err done;   // what becomes of the last slot, behind its gradient
    uint64_t under_way; // buckets of the sum that were started by then
};

static enum sl_err alone_place(struct contributor *c, struct sl_error *err)
{
    (void)c, (void)err;
    return SL_OK;
}

static enum sl_err alone_choose(struct contributor *c,
                                const struct round_key *const rounds[2],
                                const uint32_t counts[2], struct sl_error *err)
{
    (void)c, (void)rounds, (void)counts, (void)err;
    return SL_OK;
}

static enum sl_err alone_compute(struct contributor *c, struct ring_round *r,
                                 uint32_t slot, struct sl_error *err)
{
    struct alone *a = (struct alone *)c;

    gradient(c->ring->grads, slot);
    for (uint32_t b = c->ring->buckets_count; b-- > 0;)
        T_OK(round_whole(r, b, true, 1, err));
    a->under_way = sum_outstanding(&c->ring->sum);
    if (slot + 1 < r->slots || a->done == SL_OK)
        return SL_OK;
    return sl_fail(err, a->done, "a shard lacks its rows");
}

static void alone_leave(struct contributor *c)
{
    (void)c;
}

static const struct contributor_ops ops = {.place = alone_place,
                                           .choose = alone_choose,
                                           .compute = alone_compute,
                                           .leave = alone_leave};

static void alone_open(struct alone *a, bool beside)
{
    static const struct spec_optimizer optimizer;
    static struct model *model;

    *a = (struct alone){.base = {.ops = &ops, .beside = beside}};
    world_init(&a->world, (char *)"sgd");
    model = t_model("{'type': 'external', 'variables': ["
                    "{'name': 'a', 'shape': [6, 5]}, {'name': 'b', 'shape': "
                    "[5]}, {'name': 'c', 'shape': [4, 3]}]}");
    T_OK(record_new(&a->lease.record, &a->world.open, t_err()));
    a->lease.job = 7;
    pthread_mutex_init(&a->lease.progress.lock, NULL);
    atomic_init(&a->lease.gate.lease_ends_ms, UINT64_MAX);
    a->base.clock = sl_clock_real();
    a->base.model = model;
    a->base.optimizer = &optimizer;
    a->nonfinite = nonfinite_rule(&a->world.train);
    a->base.nonfinite = &a->nonfinite;
    T_OK(job_ring_new(&a->base.ring, model, BUCKET_BYTES));
    a->base.ring->own = sl_malloc(ELEMENTS * sizeof(float));
    a->base.ring->grads = a->base.ring->own;
    T_OK(job_ring_sum(a->base.ring, ELEMENTS, t_err()));
    T_OK(rank_load(&a->base.ring->rank, &a->world.job, &a->world.begin,
                   t_err()));
    a->world.begin.n_ranks = 1;
    round_init(&a->round, &a->base, &a->lease);
}

static void alone_join(struct alone *a)
{
    T_OK(round_join(&a->round, 1, 0, 2, 0, false, t_err()));
    T_OK(sum_join(&a->base.ring->sum, NULL, &a->world.begin, WIRE_F32, 0,
                  t_err()));
}

static void alone_close(struct alone *a)
{
    sum_leave(&a->base.ring->sum);
    round_release(&a->round);
    job_ring_free(a->base.ring);
    model_free((struct model *)a->base.model);
    record_unref(a->lease.record);
    pthread_mutex_destroy(&a->lease.progress.lock);
}

// One bucket is kept back until the contributor has pushed the rows of its
// slots: where a shard lacks some, no rank gets this sum.
TEST(ring_round, R8_a_sum_is_not_whole_before_its_rows_are_held)
{
    uint32_t buckets;
    struct alone a;

    alone_open(&a, true);
    alone_join(&a);
    buckets = a.base.ring->buckets_count;
    T_GT(buckets, 2);
    T_EQ(round_run(&a.round, t_err()), ROUND_DONE);
    T_EQ(a.under_way, buckets - 1);
    T_EQ(a.base.ring->rank.tag.sequence, 1);
    a.done = SL_ECANCELED; // the generation ends meanwhile
    T_EQ(round_run(&a.round, t_err()), ROUND_LEFT);
    T_EQ(sum_outstanding(&a.base.ring->sum), buckets - 1);
    T_EQ(a.base.ring->rank.tag.sequence, 1);
    alone_close(&a);
}

TEST(ring_round, without_rows_each_bucket_leaves_when_it_is_whole)
{
    struct alone a;

    alone_open(&a, false);
    alone_join(&a);
    T_EQ(round_run(&a.round, t_err()), ROUND_DONE);
    T_EQ(a.under_way, a.base.ring->buckets_count);
    alone_close(&a);
}
