// SPDX-License-Identifier: Apache-2.0
// The tables of a plan: what a message says, and what it may not say.
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "state/shard/plan.h"
#include "tests/unit/psserver/kit.h"

TEST(plan_tables, a_table_is_read_whole)
{
    const struct rowset_spec *s;
    Sluice__V1__Table *t;
    struct plan p;
    struct kit k;

    kit_init(&k);
    kit_table(&k, "users", 16);
    t = kit_table(&k, "items", 3);
    t->optimizer->type = (char *)"adamw";
    t->optimizer->beta_1 = 0.5;
    t->optimizer->weight_decay = 0.25;
    t->init = SLUICE__V1__INIT_KIND__INIT_NORMAL;
    t->init_a = 1;
    t->init_b = 2;
    t->scale = 0.125;
    t->min_count = 3;
    t->probability = 0.5;
    t->max_rows = 99;
    t->unused_steps = 7;
    t->least_norm = 0.75;
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_EQ(p.shards, 4);
    T_EQ(p.table_count, 2);
    T_STR(p.tables[0].name, "users");
    T_EQ(p.tables[0].spec.rule.kind, ROW_RULE_ROWWISE_ADAGRAD);
    T_NEAR(p.tables[0].spec.rule.optim.epsilon, 1e-8, 0);
    T_NEAR(p.tables[0].spec.rule.optim.initial_accumulator, 0, 0);
    T_STR(p.tables[1].name, "items");
    s = &p.tables[1].spec;
    T_EQ(s->table, 1);
    T_EQ(s->dim, 3);
    T_EQ(s->buckets, 8);
    T_EQ(s->shard, 2);
    T_EQ(s->shards, 4);
    T_EQ(s->seed, k.spec.seed);
    T_EQ(s->rule.kind, ROW_RULE_OPTIM);
    T_EQ(s->rule.optim.kind, OPTIM_ADAMW);
    T_NEAR(s->rule.optim.beta_1, 0.5, 0);
    T_NEAR(s->rule.optim.weight_decay, 0.25, 0);
    T_EQ(s->initial.kind, SLUICE__V1__INIT_KIND__INIT_NORMAL);
    T_NEAR(s->initial.a + s->initial.b, 3, 0);
    T_NEAR(s->scale, 0.125, 0);
    T_EQ(s->min_count, 3);
    T_NEAR(s->probability, 0.5, 0);
    T_EQ(s->max_rows, 99);
    T_EQ(s->unused_steps, 7);
    T_NEAR(s->least_norm, 0.75, 0);
    plan_release(&p);
}

TEST(plan_tables, ftrl_has_its_numbers)
{
    Sluice__V1__OptimizerSpec *o;
    const struct row_rule *r;
    struct plan p;
    struct kit k;

    kit_init(&k);
    o = kit_table(&k, "users", 16)->optimizer;
    o->type = (char *)"ftrl";
    o->initial_accumulator_value = 0.5;
    o->learning_rate_power = -0.25;
    o->l1 = 1;
    o->l2 = 2;
    o->l2_shrinkage = 3;
    o->beta = 4;
    o->clipvalue = 5;
    T_OK(plan_read(&p, &k.spec, t_err()));
    r = &p.tables[0].spec.rule;
    T_EQ(r->kind, ROW_RULE_FTRL);
    T_NEAR(r->optim.initial_accumulator, 0.5, 0);
    T_NEAR(r->optim.clipvalue, 5, 0);
    T_NEAR(r->power, -0.25, 0);
    T_NEAR(r->l1, 1, 0);
    T_NEAR(r->l2, 2, 0);
    T_NEAR(r->l2_shrinkage, 3, 0);
    T_NEAR(r->beta, 4, 0);
    plan_release(&p);
}

// ---- refusals

static void no_dim(struct kit *k)
{
    k->tables[1].dim = 0;
}

static void wide(struct kit *k)
{
    k->tables[1].dim = TABLE_DIM_MOST + 1;
}

static void no_buckets(struct kit *k)
{
    k->tables[1].buckets = 0;
}

static void no_shards(struct kit *k)
{
    k->spec.shards = 0;
}

static void few_shards(struct kit *k)
{
    k->spec.shards = k->spec.shard;
}

static void no_optimizer(struct kit *k)
{
    k->tables[1].optimizer = NULL;
}

static void nameless_optimizer(struct kit *k)
{
    k->table_optimizers[1].type = NULL;
}

static void strange_optimizer(struct kit *k)
{
    k->table_optimizers[1].type = (char *)"sophia";
}

static void bad_power(struct kit *k)
{
    k->table_optimizers[1].type = (char *)"ftrl";
    k->table_optimizers[1].learning_rate_power = 1;
}

static void bad_epsilon(struct kit *k)
{
    k->table_optimizers[1].epsilon = NAN;
}

static void bad_initial(struct kit *k)
{
    k->tables[1].init = (Sluice__V1__InitKind)9;
}

static void infinite_initial(struct kit *k)
{
    k->tables[1].init_b = 1e300;
}

static void bad_scale(struct kit *k)
{
    k->tables[1].scale = -1;
}

static void no_chance(struct kit *k)
{
    k->tables[1].probability = 0;
}

static void bad_norm(struct kit *k)
{
    k->tables[1].least_norm = INFINITY;
}

static void no_name(struct kit *k)
{
    k->tables[1].name = (char *)"";
}

static void long_name(struct kit *k)
{
    static char name[1000];

    memset(name, 'a', sizeof(name) - 1);
    k->tables[1].name = name;
}

static void same_name(struct kit *k)
{
    k->tables[1].name = k->tables[0].name;
}

TEST(plan_tables, what_a_table_may_not_say)
{
    static const struct {
        void (*spoil)(struct kit *k);
        const char *why;
    } wrong[] = {
        {no_dim, "dim is 0"},
        {wide, "dim is 4097"},
        {no_buckets, "it has 0 buckets"},
        {no_shards, "shard 2 of 0"},
        {few_shards, "shard 2 of 2"},
        {no_optimizer, "it has no optimizer"},
        {nameless_optimizer, "optimizer.type is missing"},
        {strange_optimizer, "optimizer.type: unknown 'sophia'"},
        {bad_power, "-learning_rate_power is -1"},
        {bad_epsilon, "epsilon is nan"},
        {bad_initial, "there are no initial values 9"},
        {infinite_initial, "initial values of 0 and 1e+300"},
        {bad_scale, "scale -1"},
        {no_chance, "probability is 0"},
        {bad_norm, "least norm inf"},
        {no_name, "its name has 0 bytes"},
        {long_name, "its name has 999 bytes"},
        {same_name, "another one has this name"},
    };

    for (size_t i = 0; i < SL_COUNT(wrong); i++) {
        struct sl_error err = SL_ERROR_INIT;
        struct plan p;
        struct kit k;

        kit_init(&k);
        kit_table(&k, "a", 4);
        kit_table(&k, "b", 4);
        wrong[i].spoil(&k);
        T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, &err));
        T_HAS(err.text, wrong[i].why);
        T_HAS(err.text, "job 7 shard 2: table ");
    }
}

TEST(plan_tables, a_job_with_tables_has_no_more_steps_than_versions)
{
    struct sl_error err = SL_ERROR_INIT;
    struct plan p;
    struct kit k;

    kit_init(&k);
    k.geometry.samples = UINT64_C(1) << 31;
    T_OK(plan_read(&p, &k.spec, t_err()));
    plan_release(&p);
    kit_table(&k, "a", 4);
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, &err));
    T_HAS(err.text, "tables");
}

TEST(plan_tables, a_shard_may_have_rows_alone)
{
    struct sl_error err = SL_ERROR_INIT;
    struct plan p;
    struct kit k;

    kit_init(&k);
    k.spec.n_pieces = 0;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, &err));
    T_HAS(err.text, "the shard has no pieces");
    kit_table(&k, "a", 4);
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_EQ(p.piece_count + p.run_count + p.elements, 0);
    T_EQ(p.table_count, 1);
    plan_release(&p);
}

TEST(plan_tables, steps_of_micro_batches_have_rows)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    k.geometry.batch = 2;
    k.spec.accumulate = 2;
    kit_table(&k, "a", 4);
    T_OK(plan_read(&p, &k.spec, t_err()));
    T_EQ(p.table_count, 1);
    plan_release(&p);
}

TEST(plan_tables, staleness_dc_has_no_rows)
{
    Sluice__V1__Staleness stale = SLUICE__V1__STALENESS__INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct plan p;
    struct kit k;

    kit_init(&k);
    kit_table(&k, "a", 4);
    stale.max_delay = 4;
    stale.rule = SLUICE__V1__STALENESS_RULE__STALENESS_INVERSE;
    k.spec.staleness = &stale;
    T_OK(plan_read(&p, &k.spec, t_err()));
    plan_release(&p);
    stale.rule = SLUICE__V1__STALENESS_RULE__STALENESS_DC;
    T_FAILS(SL_EINVAL, plan_read(&p, &k.spec, &err));
    T_HAS(err.text, "tables do not go with staleness dc");
}

// From weights, which have variables alone, or from another job's snapshots,
// which have rows too.
TEST(plan_tables, a_shard_with_tables_may_start_from_files)
{
    Sluice__V1__SourceFile source = SLUICE__V1__SOURCE_FILE__INIT;
    Sluice__V1__SourceFile *list = &source;
    uint8_t sha256[SHA256_BYTES] = {0};
    struct plan p;
    struct kit k;

    kit_init(&k);
    kit_table(&k, "a", 4);
    source.file = (char *)"x.shard";
    source.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    k.spec.sources = &list;
    k.spec.n_sources = 1;
    for (int weights = 0; weights < 2; weights++) {
        source.weights = weights == 1;
        T_OK(plan_read(&p, &k.spec, t_err()));
        T_EQ(p.table_count, 1);
        plan_release(&p);
    }
}

TEST(plan_tables, out_of_memory_is_an_answer)
{
    struct plan p;
    struct kit k;

    kit_init(&k);
    kit_table(&k, "a", 4);
    kit_table(&k, "b", 4);
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
