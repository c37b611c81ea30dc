// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/evaluation.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

TEST(evaluation, runs_against_the_first_cut_that_holds_the_epoch)
{
    static const struct evaluation_cut cuts[] = {
        {1, 0}, {2, 1}, {4, 3}, {5, 3}};
    struct evaluation_plan p;

    T_TRUE(evaluation_next(&p, 1, 0, cuts, 4));
    T_EQ(p.cut, 2);
    T_EQ(p.first_epoch, 1);
    T_EQ(p.last_epoch, 1);
    T_TRUE(evaluation_next(&p, 1, 1, cuts, 4)); // 2 and 3 share a cut
    T_EQ(p.cut, 4);
    T_EQ(p.first_epoch, 2);
    T_EQ(p.last_epoch, 3);
    T_FALSE(evaluation_next(&p, 1, 3, cuts, 4));
    T_FALSE(evaluation_next(&p, 0, 0, cuts, 4));
}

TEST(evaluation, only_multiples_are_due)
{
    static const struct evaluation_cut cuts[] = {{1, 1}, {2, 3}, {3, 5}};
    struct evaluation_plan p;

    T_TRUE(evaluation_next(&p, 2, 0, cuts, 3));
    T_EQ(p.cut, 2);
    T_EQ(p.last_epoch, 2);
    T_TRUE(evaluation_next(&p, 2, 2, cuts, 3));
    T_EQ(p.cut, 3);
    T_EQ(p.first_epoch, 4);
    T_EQ(p.last_epoch, 4);
    T_FALSE(evaluation_next(&p, 2, 4, cuts, 3));
}

TEST(evaluation, keeps_the_cuts_that_it_will_read)
{
    static const struct evaluation_cut cuts[] = {
        {1, 1}, {2, 1}, {3, 2}, {4, 2}};
    bool needed[4];

    evaluation_needs(needed, 1, 0, cuts, 4);
    T_TRUE(needed[0] && !needed[1] && needed[2] && !needed[3]);
    evaluation_needs(needed, 1, 1, cuts, 4);
    T_TRUE(!needed[0] && !needed[1] && needed[2] && !needed[3]);
    evaluation_needs(needed, 1, 2, cuts, 4);
    T_TRUE(!needed[0] && !needed[1] && !needed[2] && !needed[3]);
}

#define WORKER 7

static struct work *lease(struct evaluation *e, uint64_t worker)
{
    static uint64_t attempts;
    struct work *w = evaluation_offer(e, worker, false);

    T_TRUE(w != NULL);
    T_PTR(evaluation_offer(e, worker, false), w); // to be asked makes no more
    T_OK(
        closure_lease(&w->closure, worker, (struct attempt){1, ++attempts}, 0));
    return w;
}

// Leases all of a few ranges.
static void lease_all(struct evaluation *e)
{
    while (evaluation_offer(e, WORKER, true) != NULL)
        lease(e, WORKER);
}

static void counted(struct evaluation *e, struct work *w)
{
    T_OK(closure_finish(&w->closure, w->closure.attempt, SL_OK));
    evaluation_settle(e, w);
}

// Its result is taken, and it is done.
static void done(struct evaluation *e, uint64_t range,
                 const struct meter_sums *sums,
                 const Sluice__V1__ScoreSums *scores)
{
    T_OK(evaluation_take(e, range, sums, scores));
    T_FAILS(SL_EEXIST, evaluation_take(e, range, sums, scores));
    counted(e, evaluation_range(e, range));
    T_FAILS(SL_EEXIST, evaluation_take(e, range, sums, scores));
}

TEST(evaluation, each_range_counts_once_and_whole)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 25, 10, 4);
    struct meter_sums ten = {.samples = 10, .correct = 5, .loss_sum = 20};
    struct meter_sums five = {.samples = 5, .correct = 5, .loss_sum = 5};
    struct work *w;

    T_EQ(e->count, 3);
    T_EQ(lease(e, 1)->closure.id, 0);
    T_FAILS(SL_ERANGE, evaluation_take(e, 1, &ten, NULL)); // nobody had it
    w = lease(e, 9);
    T_EQ(lease(e, 1)->first, 20);
    T_EQ(evaluation_range(e, 2)->count, 5);
    done(e, 0, &ten, NULL);
    T_PTR(evaluation_range(e, 0), NULL);
    T_FAILS(SL_EINVAL, evaluation_take(e, 2, &ten, NULL)); // not its samples
    T_FAILS(SL_ERANGE, evaluation_take(e, 3, &ten, NULL));
    done(e, 2, &five, NULL);
    T_FALSE(evaluation_complete(e));
    T_PTR(evaluation_offer(e, 1, true), NULL); // all are out
    closure_lost(&w->closure);
    evaluation_settle(e, w);
    T_PTR(evaluation_offer(e, 9, false), NULL);
    T_PTR(evaluation_offer(e, 9, true), w);
    T_EQ(lease(e, 1)->closure.id, 1);
    done(e, 1, &ten, NULL);
    T_TRUE(evaluation_complete(e));
    T_NEAR(evaluation_loss(e), 45.0 / 25, 1e-12);
    T_NEAR(evaluation_accuracy(e), 15.0 / 25, 1e-12);
    evaluation_free(e);
}

// However many ranges a spec names: what is there are those that are out.
TEST(evaluation, ranges_cost_nothing_before_they_are_leased)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    uint64_t before = sl_mem_live(), most;
    struct evaluation *e = evaluation_new(&plan, NULL, UINT64_C(1) << 40, 1, 4);
    struct meter_sums one = {.samples = 1, .loss_sum = 1};

    T_EQ(e->count, UINT64_C(1) << 40); // not cut to 32 bits
    T_TRUE(sl_mem_live() < before + 4);
    for (int i = 0; i < 3; i++)
        lease(e, WORKER);
    most = sl_mem_live();
    for (uint64_t i = 0; i < 20000; i++) {
        done(e, i, &one, NULL);
        T_EQ(lease(e, WORKER)->first, i + 3);
        T_EQ(sl_mem_live(), most);
    }
    T_EQ(e->low, 20000);
    evaluation_free(e);
    T_EQ(sl_mem_live(), before);
}

TEST(evaluation, ranges_above_2_to_the_32nd_are_others)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    const uint64_t far = UINT64_C(1) << 33;
    struct evaluation *e = evaluation_new(&plan, NULL, 3 * far + 1, 3, 4);
    struct meter_sums one = {.samples = 1, .loss_sum = 1};

    T_EQ(e->count, far + 1);
    e->low = e->next = far;
    T_EQ(lease(e, WORKER)->first, 3 * far);
    T_EQ(evaluation_range(e, far)->count, 1);
    T_FAILS(SL_EEXIST, evaluation_take(e, 0, &one, NULL));
    done(e, far, &one, NULL);
    T_TRUE(evaluation_complete(e));
    evaluation_free(e);
}

// A range that nobody gets done holds back a window of others, and no more.
TEST(evaluation, results_wait_for_a_window_at_most)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 1u << 20, 1, 4);
    struct meter_sums one = {.samples = 1, .correct = 1, .loss_sum = 1};

    lease(e, WORKER);
    for (uint64_t i = 1; i < EVALUATION_WINDOW; i++) {
        lease(e, 2);
        done(e, i, &one, NULL);
    }
    T_PTR(evaluation_offer(e, 2, true), NULL);
    T_EQ(e->low, 0);
    T_EQ(e->made.len, EVALUATION_WINDOW);
    done(e, 0, &one, NULL);
    T_EQ(e->low, EVALUATION_WINDOW);
    T_EQ(e->made.len, 0);
    T_NEAR(evaluation_loss(e), 1, 0);
    T_EQ(lease(e, 2)->first, EVALUATION_WINDOW);
    evaluation_free(e);
}

static void give_back(void *arg, struct work *w)
{
    closure_unstarted(&w->closure, true);
    evaluation_settle(arg, w);
}

// What is handed back is leased again before any that nobody has had.
TEST(evaluation, a_range_that_is_handed_back_comes_first)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 100, 1, 4);
    struct meter_sums one = {.samples = 1, .loss_sum = 1};

    for (int i = 0; i < 5; i++)
        lease(e, WORKER);
    done(e, 3, &one, NULL);
    give_back(e, evaluation_range(e, 1));
    T_EQ(lease(e, 2)->closure.id, 1);
    T_EQ(lease(e, 2)->closure.id, 5);
    evaluation_each_leased(e, give_back, e);
    for (int i = 0; i < 5; i++)
        T_TRUE(lease(e, 2)->closure.id <= 5);
    T_EQ(lease(e, 2)->closure.id, 6);
    evaluation_free(e);
}

TEST(evaluation, without_memory_no_range_is_offered)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 100, 1, 4);

    for (uint64_t n = 1;; n++) {
        struct work *w;

        sl_mem_fail_at(n);
        w = evaluation_offer(e, WORKER, false);
        sl_mem_fail_at(0);
        if (w != NULL)
            break;
        T_EQ(e->next, 0);
        T_EQ(e->made.len, 0);
    }
    evaluation_free(e);
}

// 25 steps an epoch, of 7 closures with 4 steps, the last with 1.
TEST(evaluation, by_steps_it_ends_with_a_closure)
{
    const struct schedule s = {
        .samples = 100, .batch = 4, .epochs = 2, .steps_per_closure = 4};
    struct evaluation_steps e = {.schedule = &s, .every = 10};

    T_EQ(evaluation_mark(&e, 1), 3); // step 10 is in the third
    T_EQ(evaluation_steps_below(&s, 3), 12);
    T_EQ(evaluation_mark(&e, 2), 5);
    T_EQ(evaluation_mark(&e, 3), 7 + 2); // in the next epoch
    T_EQ(evaluation_steps_below(&s, 9), 33);
    T_EQ(evaluation_mark(&e, 5), 14);
    T_EQ(evaluation_mark(&e, 6), 14); // there is none
    T_EQ(evaluation_marks(&e, 11), 0);
    T_EQ(evaluation_marks(&e, 12), 1);
    T_EQ(evaluation_marks(&e, 32), 2);
    T_EQ(evaluation_marks(&e, 50), 5);
    e.every = 1; // several share a closure
    T_EQ(evaluation_marks(&e, 3), 0);
    T_EQ(evaluation_marks(&e, 4), 4);
    T_EQ(evaluation_epochs_end(&s, 1), 7);
    T_EQ(evaluation_epochs_end(&s, 3), 14);
}

TEST(evaluation, in_sync_it_ends_with_a_round)
{
    const struct schedule s = {
        .samples = 100, .batch = 4, .epochs = 2, .steps_per_closure = 1};
    const struct evaluation_steps e = {.schedule = &s, .every = 10, .round = 4};

    T_EQ(evaluation_mark(&e, 1), 12);
    T_EQ(evaluation_mark(&e, 2), 20);
    T_EQ(evaluation_mark(&e, 3), 25 + 8); // rounds do not span epochs
    T_EQ(evaluation_mark(&e, 5), 50);
}

TEST(evaluation, without_samples_it_is_complete)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 0, 10, 4);

    T_TRUE(evaluation_complete(e));
    T_PTR(evaluation_offer(e, 0, true), NULL);
    evaluation_free(e);
}

// ---- metrics

#define METRIC(name) (1u << SPEC_METRIC_##name)

struct told {
    Sluice__V1__ScoreSums sums;
    uint64_t positives[WIRE_SCORE_BUCKETS], negatives[WIRE_SCORE_BUCKETS];
};

static struct told *told(struct told *t)
{
    *t = (struct told){.sums = SLUICE__V1__SCORE_SUMS__INIT};
    t->sums.n_positives = t->sums.n_negatives = WIRE_SCORE_BUCKETS;
    t->sums.positives = t->positives;
    t->sums.negatives = t->negatives;
    return t;
}

static struct evaluation *of_ranges(uint64_t samples, uint64_t each)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};

    return evaluation_new(&plan, NULL, samples, each, 4);
}

TEST(evaluation, metrics_are_those_of_all_ranges)
{
    struct evaluation *e = of_ranges(8, 4);
    struct meter_sums four = {.samples = 4, .correct = 3, .loss_sum = 1};
    struct told a, b;

    e->metrics = METRIC(AUC) | METRIC(PRECISION);
    // Of label 1: 0.9, 0.8, 0.3, 0.55; of label 0: 0.1, 0.6, 0.3, 0.0.
    told(&a)->sums.true_positives = 2;
    a.positives[179]++, a.positives[159]++, a.negatives[19]++;
    a.negatives[119]++, a.sums.false_positives = 1;
    a.sums.absolute = 0.1 + 0.2 + 0.1 + 0.6;
    a.sums.squared = 0.01 + 0.04 + 0.01 + 0.36;
    told(&b)->sums.true_positives = 1;
    b.positives[59]++, b.positives[109]++, b.negatives[59]++, b.negatives[0]++;
    b.sums.false_negatives = 1;
    b.sums.absolute = 0.7 + 0.45 + 0.3;
    b.sums.squared = 0.49 + 0.2025 + 0.09;
    lease_all(e);
    done(e, 1, &four, &b.sums);
    done(e, 0, &four, &a.sums);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_ACCURACY), 0.75, 1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_PRECISION), 0.75, 1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_RECALL), 0.75, 1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_AUC), 0.84375, 1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_MEAN_ABSOLUTE_ERROR), 2.45 / 8,
           1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_MEAN_SQUARED_ERROR), 1.2025 / 8,
           1e-12);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_ROOT_MEAN_SQUARED_ERROR),
           0.38770155, 1e-7);
    evaluation_free(e);
}

// Nothing told positive, or nothing of a label: 0 as in Keras, no division.
TEST(evaluation, metrics_of_nothing_are_0)
{
    struct evaluation *e = of_ranges(2, 2);
    struct meter_sums two = {.samples = 2};
    struct told t;

    e->metrics = METRIC(AUC) | METRIC(PRECISION) | METRIC(RECALL);
    told(&t)->negatives[7] = 2;
    lease_all(e);
    done(e, 0, &two, &t.sums);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_PRECISION), 0, 0);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_RECALL), 0, 0);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_AUC), 0, 0);
    evaluation_free(e);
}

// Doubles are added by range: the same to the last bit, however they came.
TEST(evaluation, the_order_of_ranges_changes_no_bit)
{
    static const unsigned orders[2][3] = {{0, 1, 2}, {2, 0, 1}};
    static const double sums[3] = {1e16, 1, -1e16};
    double loss[2], error[2];

    for (int k = 0; k < 2; k++) {
        struct evaluation *e = of_ranges(3, 1);

        e->metrics = METRIC(MEAN_ABSOLUTE_ERROR);
        lease_all(e);
        for (unsigned i = 0; i < 3; i++) {
            unsigned r = orders[k][i];
            struct meter_sums one = {.samples = 1, .loss_sum = sums[r]};
            struct told t;

            told(&t)->sums.absolute = 1.0 / (3 + r);
            done(e, r, &one, &t.sums);
        }
        loss[k] = evaluation_loss(e);
        error[k] = evaluation_metric(e, SPEC_METRIC_MEAN_ABSOLUTE_ERROR);
        evaluation_free(e);
    }
    T_NEAR(loss[0], loss[1], 0);
    T_NEAR(error[0], error[1], 0);
}

TEST(evaluation, sums_that_cannot_be_are_not_taken)
{
    struct evaluation *e = of_ranges(4, 4);
    struct meter_sums four = {.samples = 4};
    struct told t;

    e->metrics = METRIC(AUC) | METRIC(TOP_K);
    lease_all(e);
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, NULL));
    told(&t);
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, &t.sums)); // of nothing
    t.positives[3] = 5;
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, &t.sums)); // no multiple
    t.positives[3] = UINT64_MAX - 3;
    t.negatives[0] = 8;
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, &t.sums)); // wraps to 4
    t.negatives[0] = 0;
    t.positives[3] = 8;
    t.sums.n_negatives = 199;
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, &t.sums));
    t.sums.n_negatives = WIRE_SCORE_BUCKETS;
    t.sums.top = 5;
    T_FAILS(SL_EINVAL, evaluation_take(e, 0, &four, &t.sums));
    t.sums.top = 3;
    done(e, 0, &four, &t.sums);
    T_NEAR(evaluation_metric(e, SPEC_METRIC_TOP_K), 0.75, 1e-12);
    evaluation_free(e);
}
