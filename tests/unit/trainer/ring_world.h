// SPDX-License-Identifier: Apache-2.0
// tests/unit/trainer/ring_world.h -- a job of a few elements whose state ranks
// have, without a coordinator.
//
// Memory   a world owns nothing and points into itself: it is not moved.
#ifndef TESTS_UNIT_TRAINER_RING_WORLD_H
#define TESTS_UNIT_TRAINER_RING_WORLD_H

#include <string.h>

#include "common/base/rng.h"
#include "tests/harness/t.h"
#include "trainer/ring/rank.h"

#define VARIABLES 3
#define ELEMENTS (6 * 5 + 5 + 4 * 3)
#define UID 0x1234567890

// A job of three variables in two parts, one of them a moving statistic.
struct world {
    Sluice__V1__JobOpen open;
    Sluice__V1__JobSpec spec;
    Sluice__V1__TrainSpec train;
    Sluice__V1__OptimizerSpec optimizer;
    Sluice__V1__Geometry geometry;
    Sluice__V1__Variable variables[VARIABLES], *variable_list[VARIABLES];
    Sluice__V1__Piece pieces[VARIABLES], *piece_list[VARIABLES];
    uint64_t shapes[VARIABLES][2];
    struct rank_job job;
    Sluice__V1__RingBegin begin; // without holders
    Sluice__V1__Tag base;
};

// Sets variable i, of `rank` dimensions (1: a; 2: a, b), and its piece, all of
// it in that part; drawn at first. `name` is borrowed.
static inline void variable(struct world *w, uint32_t i, char *name,
                            size_t rank, uint64_t a, uint64_t b, uint32_t part)
{
    Sluice__V1__Variable *v = &w->variables[i];
    Sluice__V1__Piece *p = &w->pieces[i];

    sluice__v1__variable__init(v);
    v->name = name;
    w->shapes[i][0] = a;
    w->shapes[i][1] = b;
    v->shape = w->shapes[i];
    v->n_shape = rank;
    v->init = SLUICE__V1__INIT_KIND__INIT_NORMAL;
    v->init_b = 1;
    w->variable_list[i] = v;
    sluice__v1__piece__init(p);
    p->variable = i;
    p->rows = a;
    p->shard = part;
    p->elements = a * (rank > 1 ? b : 1);
    w->piece_list[i] = p;
}

// Sets *w to that job, 7, of 40 samples in steps of 4, with this optimizer,
// whose name is borrowed; w->begin is of generation 3, from the seed.
static inline void world_init(struct world *w, char *optimizer)
{
    memset(w, 0, sizeof(*w));
    sluice__v1__job_open__init(&w->open);
    sluice__v1__job_spec__init(&w->spec);
    sluice__v1__train_spec__init(&w->train);
    sluice__v1__optimizer_spec__init(&w->optimizer);
    sluice__v1__geometry__init(&w->geometry);
    sluice__v1__ring_begin__init(&w->begin);
    sluice__v1__tag__init(&w->base);
    variable(w, 0, (char *)"a/kernel", 2, 6, 5, 0);
    variable(w, 1, (char *)"a/mean", 1, 5, 1, 1);
    variable(w, 2, (char *)"b/kernel", 2, 4, 3, 1);
    w->variables[1].kind = SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING;
    w->variables[1].momentum = 0.9;
    w->optimizer.type = optimizer;
    w->optimizer.learning_rate = 0.125;
    w->optimizer.has_learning_rate = 1;
    w->train.seed = 5;
    w->train.has_seed = 1;
    w->spec.optimizer = &w->optimizer;
    w->spec.train = &w->train;
    w->geometry.samples = 40;
    w->geometry.batch = 4;
    w->geometry.epochs = 2;
    w->geometry.steps_per_closure = 5;
    w->open.job = 7;
    w->open.job_incarnation = 1;
    w->open.job_name = (char *)"ring";
    w->open.spec = &w->spec;
    w->open.geometry = &w->geometry;
    w->open.variables = w->variable_list;
    w->open.n_variables = VARIABLES;
    w->open.pieces = w->piece_list;
    w->open.n_pieces = VARIABLES;
    w->job = (struct rank_job){.open = &w->open, .uid = UID, .fs = fs_posix()};
    w->begin.job = 7;
    w->begin.generation = 3;
    w->begin.base_tag = &w->base;
}

// Draws the gradient of this number, ELEMENTS floats, the same each time.
static inline void gradient(float *g, uint64_t number)
{
    rng_fill_normal(g, 11, number, 0, ELEMENTS);
}

// Returns the n-th step of the job, from 0, as it is counted.
static inline struct once_step step_of(uint64_t n)
{
    return (struct once_step){.closure = n / 5,
                              .step = (uint32_t)(n % 5),
                              .samples = 4,
                              .digest = n * 17};
}

// Returns how many contributions of round n have a gradient of each variable,
// in `space` (VARIABLES floats): the first variable, the last, all or none may
// lack it. NULL: none lacks it.
static inline const float *present_in(float *space, uint64_t n)
{
    for (uint32_t i = 0; i < VARIABLES; i++)
        space[i] = 2;
    space[0] = n % 3 == 1 ? 0 : 2;
    space[2] = n % 4 == 1 ? 0 : 2;
    space[1] = n % 5 == 1 ? 0 : 2;
    return n % 5 == 2 ? NULL : space;
}

// Returns true if both passed the same numbers; a missing list has zeroes.
static inline bool same_passed(const struct once *a, const struct once *b)
{
    size_t n =
        a->passed_count > b->passed_count ? a->passed_count : b->passed_count;
    bool same = true;

    for (size_t i = 0; i < n; i++)
        same = same && (a->passed == NULL ? 0 : a->passed[i]) ==
                           (b->passed == NULL ? 0 : b->passed[i]);
    return same;
}

// Returns true if two ranks, with as many parts, have the same state, bit by
// bit, and the same tag.
static inline bool same_state(const struct rank *a, const struct rank *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct shard *x = a->parts[i], *y = b->parts[i];

        if (x->region.bytes != y->region.bytes ||
            memcmp(x->region.data, y->region.data, x->region.bytes) != 0 ||
            memcmp(x->memory.values, y->memory.values,
                   plan_values_bytes(&x->plan)) != 0 ||
            !counted_equal(&x->once.counted, &y->once.counted) ||
            once_version(&x->once) != once_version(&y->once) ||
            !same_passed(&x->once, &y->once))
            return false;
    }
    return wire_tag_cmp(a->tag, b->tag) == 0;
}

#endif
