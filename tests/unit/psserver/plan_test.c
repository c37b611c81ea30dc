// SPDX-License-Identifier: Apache-2.0
#include "state/shard/plan.h"

#include <math.h>

#include "common/base/mem.h"
#include "proto/spec.h"
#include "tests/unit/psserver/kit.h"

TEST(plan, neighbours_that_are_updated_alike_are_one_run)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    kit_variable(&k, "more/kernel", (uint64_t[]){2, 2, 0});
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_EQ(p.elements, 35 + 3 + 9 + 4);
    T_EQ(p.run_count, 3);
    T_FALSE(p.runs[0].moving);
    T_TRUE(p.runs[1].moving);
    T_EQ(p.runs[2].first, 38);
    T_EQ(p.runs[2].elements, 13);
    T_STR(plan_piece_of(&p, 34)->name, "dense/kernel");
    T_STR(plan_piece_of(&p, 35)->name, "norm/moving_mean");
    T_STR(plan_piece_of(&p, 50)->name, "more/kernel");
    plan_release(&p);
}

TEST(plan, what_does_not_fit_is_refused_with_its_name)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    k.pieces[2].first_row = 1;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.pieces[1].variable = 99;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.spec.n_pieces = 0;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.geometry.batch = 0;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.optimizer.type = (char *)"sophia";
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    kit_variable(&k, "huge", (uint64_t[]){1u << 25, 0});
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.geometry.steps_per_closure = 5000;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
    kit_init(&k);
    k.geometry.batch = 8;
    k.spec.accumulate = 3;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, t_err()));
}

TEST(plan, out_of_memory_is_an_answer)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    for (uint64_t n = 1;; n++) {
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = plan_read(&p, &k.spec, NULL);
        if (!sl_mem_failed()) {
            T_OK(rc);
            break;
        }
        T_EQ(rc, SL_ENOMEM);
    }
    plan_release(&p);
}

// A psserver has no other part of it to look at.
TEST(plan, a_variable_that_is_updated_as_a_whole_is_here_as_a_whole)
{
    static const struct {
        const char *optimizer;
        bool refused;
    } rows[] = {{"lamb", true}, {"muon", true}, {"lion", false}};
    struct sl_error err;
    struct plan p;
    struct kit k;

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        kit_init(&k);
        kit_optimizer(&k, rows[i].optimizer, 0.1);
        k.pieces[0].rows--;
        k.pieces[0].elements -= k.variables[0].shape[1];
        if (!rows[i].refused) {
            T_OK(plan_read(&p, &k.spec, t_err()));
            plan_release(&p);
            continue;
        }
        T_EQ(plan_read(&p, &k.spec, &err), SL_EINVAL);
        T_HAS(err.text, "4 of its 5 rows");
    }
}

// Rows of one variable, wherever the cut lies, begin with the same values.
TEST(plan, initial_values_do_not_depend_on_the_sharding)
{
    enum { ROWS = 40, COLUMNS = 7 };
    static const Sluice__V1__InitKind kinds[] = {
        SLUICE__V1__INIT_KIND__INIT_CONSTANT,
        SLUICE__V1__INIT_KIND__INIT_UNIFORM,
        SLUICE__V1__INIT_KIND__INIT_NORMAL,
        SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL,
        SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL,
        SLUICE__V1__INIT_KIND__INIT_ONES_WITHIN,
    };
    float whole[ROWS * COLUMNS], part[ROWS * COLUMNS];
    Sluice__V1__Variable *v;
    struct plan p;
    struct kit k;

    for (size_t i = 0; i < SL_COUNT(kinds); i++) {
        for (uint64_t cut = 0; cut < ROWS; cut += cut == 0 ? 1 : 6) {
            kit_clear(&k);
            v = kit_variable(&k, "w", (uint64_t[]){ROWS, COLUMNS, 0});
            v->init = kinds[i];
            v->init_a = -0.25;
            v->init_b = 0.75;
            if (kinds[i] >= SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL) {
                v->init_a = ROWS;
                v->init_b = COLUMNS;
            }
            kit_rows(&k, cut, ROWS - cut);
            T_OK(plan_read(&p, &k.spec, t_err()));
            T_OK(plan_seed(&p, cut == 0 ? whole : part));
            if (cut > 0)
                T_MEM(part, whole + cut * COLUMNS,
                      (ROWS - cut) * COLUMNS * sizeof(float));
            plan_release(&p);
        }
    }
}

// The fewer of rows and columns have length 1 and no part along each other.
static void check_orthogonal(uint64_t rows, uint64_t columns)
{
    uint64_t few = rows < columns ? rows : columns;
    float w[512];
    Sluice__V1__Variable *v;
    struct plan p;
    struct kit k;

    kit_clear(&k);
    v = kit_variable(&k, "w", (uint64_t[]){rows, columns, 0});
    v->init = SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL;
    v->init_a = (double)rows;
    v->init_b = (double)columns;
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_OK(plan_seed(&p, w));
    for (uint64_t x = 0; x < few; x++) {
        for (uint64_t y = 0; y <= x; y++) {
            double sum = 0;

            for (uint64_t i = 0; i < rows * columns / few; i++)
                sum += rows < columns
                           ? (double)w[x * columns + i] * w[y * columns + i]
                           : (double)w[i * columns + x] * w[i * columns + y];
            T_NEAR(sum, x == y, 1e-5);
        }
    }
    plan_release(&p);
}

TEST(plan, orthogonal_matrices_are)
{
    check_orthogonal(40, 12);
    check_orthogonal(12, 40);
    check_orthogonal(16, 16);
    check_orthogonal(1, 5);
}

TEST(plan, ones_lie_where_they_are_asked_for)
{
    float w[12];
    Sluice__V1__Variable *v;
    struct plan p;
    struct kit k;

    kit_clear(&k);
    v = kit_variable(&k, "b", (uint64_t[]){12, 0});
    v->init = SLUICE__V1__INIT_KIND__INIT_ONES_WITHIN;
    v->init_a = 3;
    v->init_b = 6;
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_OK(plan_seed(&p, w));
    for (int i = 0; i < 12; i++)
        T_NEAR(w[i], i >= 3 && i < 6, 0);
    plan_release(&p);
}

TEST(plan, initial_values_are_drawn_as_asked)
{
    enum { N = 20000 };
    static float w[2][N];
    double sum = 0, squares = 0;
    Sluice__V1__Variable *v;
    struct plan p;
    struct kit k;

    kit_clear(&k);
    v = kit_variable(&k, "uniform", (uint64_t[]){N, 0});
    v->init = SLUICE__V1__INIT_KIND__INIT_UNIFORM;
    v->init_a = -2;
    v->init_b = 1;
    v = kit_variable(&k, "normal", (uint64_t[]){N, 0});
    v->init = SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL;
    v->init_a = 5;
    v->init_b = 3;
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_OK(plan_seed(&p, w[0]));
    for (int i = 0; i < N; i++) {
        T_TRUE(w[0][i] >= -2 && w[0][i] < 1);
        T_TRUE(fabs(w[1][i] - 5.0) <= 6.0 + 1e-5);
        sum += w[0][i];
        squares += (w[1][i] - 5.0) * (w[1][i] - 5.0);
    }
    T_NEAR(sum / N, -0.5, 0.03);
    // Cut at two deviations, a normal's deviation is 0.8796 of what it was.
    T_NEAR(sqrt(squares / N), 3 * 0.8796, 0.05);
    plan_release(&p);
}

// What counts against a tenant's quota is what is kept here.
TEST(plan, the_spec_knows_how_many_slots_there_are)
{
    static const char *const types[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    };
    unsigned seen = 0;

    for (unsigned i = 0; i < SL_COUNT(types) * 8; i++) {
        Sluice__V1__OptimizerSpec *o;
        struct plan p;
        struct kit k;

        kit_init(&k);
        o = &k.optimizer;
        o->type = (char *)types[i / 8];
        o->has_momentum = o->has_amsgrad = o->has_centered = true;
        o->momentum = i & 1 ? 0.9 : 0;
        o->amsgrad = i >> 1 & 1;
        o->centered = i >> 2 & 1;
        o->has_rho = o->has_beta_1 = o->has_beta_2 = o->has_epsilon = true;
        o->rho = o->beta_1 = o->beta_2 = 0.9;
        o->epsilon = 1e-7;
        T_OK(plan_read(&p, &k.spec, t_err()));
        T_EQ(spec_optimizer_slots(o), optim_slots(&p.optim));
        seen |= 1u << optim_slots(&p.optim);
        plan_release(&p);
    }
    T_EQ(seen, 0xfu); // 0, 1, 2 and 3
}
