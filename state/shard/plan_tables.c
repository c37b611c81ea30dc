// SPDX-License-Identifier: Apache-2.0
// state/shard/plan_tables.c -- the tables of a shard from its spec. What a spec
// may say was checked by proto/spec_tables.c; a message may say anything.
#include "state/shard/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/spec.h"

// Returns a rule that rows alone have, with its defaults; false: there is none
// of that name.
static bool rule_of_rows(struct row_rule *out, const char *name)
{
    static const enum row_rule_kind kinds[] = {ROW_RULE_ROWWISE_ADAGRAD,
                                               ROW_RULE_FTRL};

    for (size_t i = 0; name != NULL && i < SL_COUNT(kinds); i++) {
        row_rule_defaults(out, kinds[i], OPTIM_ADAGRAD);
        if (strcmp(name, row_rule_name(out)) == 0)
            return true;
    }
    return false;
}

static enum sl_err read_rule(struct row_rule *out,
                             const Sluice__V1__OptimizerSpec *o,
                             struct sl_error *err)
{
    struct spec_optimizer of;
    enum sl_err rc;

    if (!rule_of_rows(out, o->type)) {
        rc = spec_optimizer(&of, o, err);
        if (rc == SL_OK)
            *out = (struct row_rule){.kind = ROW_RULE_OPTIM, .optim = of.optim};
        return rc;
    }
    out->optim.initial_accumulator = o->initial_accumulator_value;
    out->optim.weight_decay = o->weight_decay;
    out->optim.clipvalue = o->clipvalue;
    if (out->kind == ROW_RULE_ROWWISE_ADAGRAD)
        out->optim.epsilon = o->epsilon;
    out->power = o->learning_rate_power;
    out->l1 = o->l1;
    out->l2 = o->l2;
    out->l2_shrinkage = o->l2_shrinkage;
    out->beta = o->beta;
    return SL_OK;
}

static enum sl_err read_initial(struct initial *out, const Sluice__V1__Table *m,
                                struct sl_error *err)
{
    *out = (struct initial){m->init, m->init_a, m->init_b};
    if ((int)m->init < 0 ||
        m->init > SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL)
        return sl_fail(err, SL_EINVAL, "there are no initial values %d",
                       (int)m->init);
    if (!isfinite((float)m->init_a) || !isfinite((float)m->init_b))
        return sl_fail(err, SL_EINVAL, "initial values of %g and %g", m->init_a,
                       m->init_b);
    return SL_OK;
}

static enum sl_err read_table(struct rowset_spec *out,
                              const Sluice__V1__ShardSpec *spec,
                              uint32_t number, struct sl_error *err)
{
    const Sluice__V1__Table *m = spec->tables[number];
    enum sl_err rc;

    *out = (struct rowset_spec){
        .table = number,
        .dim = m->dim,
        .buckets = m->buckets,
        .shard = spec->shard - spec->first_rows,
        .shards = spec->shards - spec->first_rows,
        .seed = spec->seed,
        .scale = m->scale,
        .min_count = m->min_count,
        .probability = m->probability,
        .max_rows = m->max_rows,
        .unused_steps = m->unused_steps,
        .least_norm = m->least_norm,
    };
    if (m->optimizer == NULL)
        return sl_fail(err, SL_EINVAL, "it has no optimizer");
    rc = read_rule(&out->rule, m->optimizer, err);
    if (rc == SL_OK)
        rc = read_initial(&out->initial, m, err);
    return rc == SL_OK ? rowset_check_spec(out, err) : rc;
}

// A snapshot has tables by their names.
static enum sl_err take_table_name(char **out, struct strmap *taken,
                                   const char *name, struct sl_error *err)
{
    if (name[0] == '\0' || strlen(name) > WIRE_NAME_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "its name has %zu bytes; 1 to %d are possible",
                       strlen(name), WIRE_NAME_BYTES);
    if (strmap_get(taken, name) != NULL)
        return sl_fail(err, SL_EINVAL, "another one has this name");
    *out = sl_strdup(name);
    return *out == NULL ? SL_ENOMEM : strmap_put(taken, name, taken);
}

static enum sl_err read_each_table(struct plan *p,
                                   const Sluice__V1__ShardSpec *spec,
                                   struct strmap *taken, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < spec->n_tables; i++) {
        struct plan_table *t = &p->tables[p->table_count++];

        rc = take_table_name(&t->name, taken, spec->tables[i]->name, err);
        if (rc == SL_OK)
            rc = read_table(&t->spec, spec, i, err);
        if (rc != SL_OK)
            return sl_prefix(err, rc, "table %u (%.80s)", i,
                             spec->tables[i]->name);
    }
    return rc;
}

// Versions of rows have 32 bits; staleness dc keeps parameters of many
// versions, and of rows none are kept.
static enum sl_err check_shard_job(const struct plan *p, size_t tables,
                                   struct sl_error *err)
{
    if (tables > TABLES_MOST)
        return sl_fail(err, SL_EINVAL, "%zu tables; at most %d", tables,
                       TABLES_MOST);
    if (p->stale.kind == STALE_DC)
        return sl_fail(err, SL_EINVAL, "tables do not go with staleness dc");
    if (schedule_steps(&p->schedule) > TABLE_STEPS_MOST)
        return sl_fail(err, SL_EINVAL,
                       "%" PRIu64 " steps; at most %u with tables",
                       schedule_steps(&p->schedule), TABLE_STEPS_MOST);
    return SL_OK;
}

enum sl_err plan_read_tables(struct plan *p, const Sluice__V1__ShardSpec *spec,
                             struct sl_error *err)
{
    struct strmap taken;
    enum sl_err rc;

    p->shards = spec->shards;
    p->first_rows = spec->first_rows;
    if (spec->n_tables == 0)
        return SL_OK;
    if (spec->first_rows > 0 &&
        (spec->first_rows > spec->shard || spec->shard >= spec->shards))
        return sl_fail(err, SL_EINVAL,
                       "shards of rows are %u to %u, and this is %u",
                       spec->first_rows, spec->shards, spec->shard);
    if (spec->rows != NULL &&
        (p->tenant = sl_strdup(spec->rows->tenant)) == NULL)
        return sl_no_memory(err);
    rc = check_shard_job(p, spec->n_tables, err);
    if (rc != SL_OK)
        return rc;
    p->tables = sl_calloc(spec->n_tables, sizeof(*p->tables));
    if (p->tables == NULL)
        return sl_no_memory(err);
    strmap_init(&taken);
    rc = read_each_table(p, spec, &taken, err);
    strmap_release(&taken);
    return rc;
}

void plan_release_tables(struct plan *p)
{
    for (size_t i = 0; i < p->table_count; i++)
        sl_free(p->tables[i].name);
    sl_free(p->tables);
    sl_free(p->tenant);
}
