// SPDX-License-Identifier: Apache-2.0
// proto/spec_tables.c -- sparse tables: what they may be, in which jobs.
#include "proto/spec_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/map.h"
#include "plan/tables.h"
#include "proto/model_build.h"

#define SCALE_MAX 1e6 // of a table's rate over the job's
#define COUNT_MAX 1000000
#define ROWS_MAX (UINT64_C(1) << 40)

// Optimizers of tables: those of variables, and two more.
static const char *const types[] = {
#define OPTIMIZER(code, name, ...) name,
#include "plan/optimizers.def"
    "rowwise_adagrad",
    "ftrl",
};
enum { ROWWISE_ADAGRAD = OPTIM_KIND_COUNT - 1, FTRL };

#define ANY                                                                    \
    " type learning_rate weight_decay clipvalue initial_accumulator_value "

// ---- in which jobs

// Returns the rate of the job that those of tables are compared with: the
// first, or the one that a warm-up ends with.
static double job_rate(const Sluice__V1__OptimizerSpec *o)
{
    struct rate rate;

    spec_schedule(&rate, o);
    if (rate.kind == RATE_PIECEWISE)
        return rate.value[0];
    return rate.has_warmup ? rate.warmup_target : rate.rate;
}

static uint64_t tables_job_steps(const Sluice__V1__JobSpec *spec)
{
    const struct schedule s = {
        .samples = spec->data->train->samples,
        .batch = spec_step_samples(spec),
        .epochs = spec->train->epochs,
        .steps_per_closure = spec->train->steps_per_closure,
    };

    return schedule_check(&s, NULL) == SL_OK ? schedule_steps(&s) : 0;
}

static enum sl_err check_tables_job(const Sluice__V1__JobSpec *spec,
                                    struct sl_error *err)
{
    if (spec_external(spec) && (spec_hybrid(spec) || spec_local(spec)))
        return sl_fail(err, SL_EINVAL,
                       "model.tables: programs have tables in mode async or "
                       "allreduce, and train.mode is %s; take one of these%s",
                       spec->train->mode,
                       spec_hybrid(spec) ? ", or layers with 'rows: dynamic'"
                                         : "");
    if (spec_local(spec))
        return sl_fail(err, SL_EINVAL,
                       "model.tables: a job with tables trains in mode async, "
                       "sync, hybrid or allreduce, and train.mode is local");
    if (spec_staleness(spec->train).rule == SPEC_STALENESS_DC)
        return sl_fail(err, SL_EINVAL,
                       "model.tables: train.staleness is dc, which wants the "
                       "parameters as they were read, and rows are not kept; "
                       "take inverse");
    if (tables_job_steps(spec) > TABLE_STEPS_MOST)
        return sl_fail(err, SL_EINVAL,
                       "model.tables: the job has %" PRIu64
                       " steps, and one with tables at most %u; take fewer "
                       "epochs, or a larger train.batch",
                       tables_job_steps(spec), TABLE_STEPS_MOST);
    if (!(job_rate(spec->optimizer) > 0))
        return sl_fail(err, SL_EINVAL,
                       "model.tables: a table's learning rate is a multiple of "
                       "the job's, which begins with 0; begin "
                       "optimizer.schedule with a rate above 0");
    return spec_range("model.tables", spec->model->n_tables, 1, TABLES_MOST,
                      err);
}

// ---- the optimizer

static enum sl_err set_defaults(Sluice__V1__OptimizerSpec *o, unsigned type,
                                struct sl_error *err)
{
    if (type == ROWWISE_ADAGRAD) { // FBGEMM's
        SPEC_DEFAULT(o, learning_rate, 0.01);
        SPEC_DEFAULT(o, initial_accumulator_value, 0);
        SPEC_DEFAULT(o, epsilon, 1e-8);
        return spec_only("optimizer", &o->base, ANY " epsilon ", types[type],
                         err);
    }
    SPEC_DEFAULT(o, learning_rate, 0.001); // Keras'
    SPEC_DEFAULT(o, initial_accumulator_value, 0.1);
    SPEC_DEFAULT(o, learning_rate_power, -0.5);
    SPEC_DEFAULT(o, l1, 0);
    SPEC_DEFAULT(o, l2, 0);
    SPEC_DEFAULT(o, l2_shrinkage, 0);
    SPEC_DEFAULT(o, beta, 0);
    return spec_only("optimizer", &o->base,
                     ANY " learning_rate_power l1 l2 l2_shrinkage beta ",
                     types[type], err);
}

// Makes a table's optimizer that of the job, for rows.
static enum sl_err take_job_optimizer(Sluice__V1__OptimizerSpec **out,
                                      const Sluice__V1__OptimizerSpec *job,
                                      struct sl_error *err)
{
    Sluice__V1__OptimizerSpec o = *job;
    ProtobufCMessage *copy;
    enum sl_err rc;

    o.schedule = NULL;
    o.n_groups = 0;
    o.groups = NULL;
    if (spec_optim_of_jobs(&o) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "optimizer is missing, and the job's has %s, which rows "
                       "have not; say one, e.g. {type: rowwise_adagrad}",
                       spec_optim_of_jobs(&o));
    o.has_learning_rate = true;
    o.learning_rate = job_rate(job);
    rc = wire_dup(&copy, &o.base);
    if (rc == SL_OK)
        *out = (Sluice__V1__OptimizerSpec *)copy;
    return rc;
}

static enum sl_err check_table_rule(Sluice__V1__OptimizerSpec *o,
                                    struct sl_error *err)
{
    unsigned type;
    enum sl_err rc = spec_word("optimizer.type", o->type, types,
                               SL_COUNT(types), &type, err);

    if (rc != SL_OK)
        return rc;
    if (spec_optim_of_jobs(o) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.%s: not of a table; its rate follows that of "
                       "the job, and clipvalue clips its gradients",
                       spec_optim_of_jobs(o));
    if (o->has_delay)
        return sl_fail(err, SL_EINVAL,
                       "optimizer.delay: is of train.outer in local alone; "
                       "leave it out");
    if (type < ROWWISE_ADAGRAD)
        rc = spec_optim_no_whole(o, "rows are updated one by one", err);
    if (type < ROWWISE_ADAGRAD)
        return rc == SL_OK ? spec_check_optimizer(o, err) : rc;
    rc = set_defaults(o, type, err);
    return rc == SL_OK ? spec_optim_check_values(o, err) : rc;
}

static double table_scale(const Sluice__V1__JobSpec *spec,
                          const Sluice__V1__TableSpec *t)
{
    return t->optimizer->learning_rate / job_rate(spec->optimizer);
}

static enum sl_err check_table_optimizer(const Sluice__V1__JobSpec *spec,
                                         Sluice__V1__TableSpec *t,
                                         struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (t->optimizer == NULL)
        rc = take_job_optimizer(&t->optimizer, spec->optimizer, err);
    if (rc == SL_OK)
        rc = check_table_rule(t->optimizer, err);
    return rc == SL_OK
               ? spec_real("optimizer.learning_rate over the job's",
                           table_scale(spec, t), 0, SCALE_MAX, SPEC_CLOSED, err)
               : rc;
}

// ---- one table

static enum sl_err check_admit(Sluice__V1__TableSpec *t, struct sl_error *err)
{
    enum sl_err rc =
        spec_message(&t->admit, &sluice__v1__table_admit_spec__descriptor);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->admit, min_count, 1);
    SPEC_DEFAULT(t->admit, probability, 1);
    rc = spec_range("admit.min_count", t->admit->min_count, 1, COUNT_MAX, err);
    return rc == SL_OK ? spec_real("admit.probability", t->admit->probability,
                                   0, 1, SPEC_OPEN_LOW, err)
                       : rc;
}

static enum sl_err check_evict(Sluice__V1__TableSpec *t, struct sl_error *err)
{
    enum sl_err rc =
        spec_message(&t->evict, &sluice__v1__table_evict_spec__descriptor);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->evict, max_rows, 0);
    SPEC_DEFAULT(t->evict, unused_steps, 0);
    SPEC_DEFAULT(t->evict, least_norm, 0);
    rc = spec_range("evict.max_rows", t->evict->max_rows, 0, ROWS_MAX, err);
    if (rc == SL_OK)
        rc = spec_range("evict.unused_steps", t->evict->unused_steps, 0,
                        TABLE_STEPS_MOST, err);
    return rc == SL_OK ? spec_real("evict.least_norm", t->evict->least_norm, 0,
                                   INFINITY, SPEC_CLOSED, err)
                       : rc;
}

static enum sl_err table_initial(struct model_init *out,
                                 const Sluice__V1__TableSpec *t,
                                 struct sl_error *err)
{
    return model_initializer(out, t->initializer, t->dim, t->dim, "initializer",
                             err);
}

static enum sl_err check_one_table(const Sluice__V1__JobSpec *spec,
                                   Sluice__V1__TableSpec *t,
                                   struct sl_error *err)
{
    struct model_init initial;
    enum sl_err rc;

    if (!t->has_dim)
        return sl_fail(err, SL_EINVAL,
                       "dim is missing: the numbers of a row, e.g. dim: 16");
    rc = spec_range("dim", t->dim, 1, TABLE_DIM_MOST, err);
    SPEC_DEFAULT(t, buckets, TABLE_BUCKETS);
    if (rc == SL_OK)
        rc = spec_range("buckets", t->buckets, 1, TABLE_BUCKETS_MOST, err);
    if (rc == SL_OK)
        rc = spec_string(&t->initializer, "random_uniform");
    if (rc == SL_OK)
        rc = table_initial(&initial, t, err);
    if (rc == SL_OK)
        rc = check_table_optimizer(spec, t, err);
    if (rc == SL_OK)
        rc = check_admit(t, err);
    return rc == SL_OK ? check_evict(t, err) : rc;
}

// ---- names

static enum sl_err take_name(struct strmap *taken, size_t i, const char *name,
                             struct sl_error *err)
{
    if (name == NULL || !model_name_ok(name, "_-./:", WIRE_NAME_BYTES))
        return sl_fail(err, SL_EINVAL,
                       "model.tables[%zu].name: wants 1 to %d letters, digits "
                       "or any of _-./:",
                       i, WIRE_NAME_BYTES);
    if (strmap_get(taken, name) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "model.tables[%zu].name: '%s' is the name of another "
                       "table, or of a variable; choose another",
                       i, name);
    return strmap_put(taken, name, taken);
}

static enum sl_err check_table_names(const Sluice__V1__ModelSpec *spec,
                                     const struct model *m,
                                     struct sl_error *err)
{
    struct strmap taken;
    enum sl_err rc = SL_OK;

    strmap_init(&taken);
    for (uint32_t i = 0; rc == SL_OK && i < m->variables_count; i++)
        rc = strmap_put(&taken, m->variables[i].name, &taken);
    for (size_t i = 0; rc == SL_OK && i < spec->n_tables; i++)
        rc = take_name(&taken, i, spec->tables[i]->name, err);
    strmap_release(&taken);
    return rc;
}

// Returns true if steps are audited with rows that older workers do not keep.
static bool tables_audited(const Sluice__V1__JobSpec *spec)
{
    return spec_audit(spec->train) > 0 &&
           (spec_contributions(spec->train) == 0 || spec_accumulate(spec) > 1);
}

// Returns the edition that the members of a checked job with tables need.
static unsigned tables_edition(const Sluice__V1__JobSpec *spec)
{
    return spec_ring_rows(spec) && spec_external(spec)
               ? MODEL_EDITION_RING_PROGRAMS
           : spec_ring_rows(spec)                ? MODEL_EDITION_BESIDE_RINGS
           : spec_rows_only(spec)                ? MODEL_EDITION_BESIDE
           : tables_audited(spec)                ? MODEL_EDITION_AUDITED
           : spec_rows_wire(spec) == WIRE_INT8   ? MODEL_EDITION_INT8
           : spec_accumulate(spec) > 1           ? MODEL_EDITION_PARTS
           : spec_contributions(spec->train) > 0 ? MODEL_EDITION_ROUNDS
                                                 : MODEL_EDITION_TABLES;
}

static enum sl_err check_rows_wire(Sluice__V1__JobSpec *spec,
                                   struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;

    if (t->rows_wire == NULL)
        return SL_OK;
    if (spec->model->n_tables == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.rows_wire: %s, but the job has no tables; leave "
                       "it out, or say train.wire",
                       t->rows_wire);
    return spec_word("train.rows_wire", t->rows_wire, wire_type_names,
                     WIRE_ROW_TYPES, NULL, err);
}

static enum sl_err check_all_tables(Sluice__V1__JobSpec *spec,
                                    const struct model *m, struct sl_error *err)
{
    enum sl_err rc = check_rows_wire(spec, err);

    if (rc != SL_OK || spec->model->n_tables == 0)
        return rc;
    rc = check_tables_job(spec, err);
    if (rc == SL_OK)
        rc = check_table_names(spec->model, m, err);
    for (size_t i = 0; rc == SL_OK && i < spec->model->n_tables; i++) {
        rc = check_one_table(spec, spec->model->tables[i], err);
        if (rc != SL_OK)
            return sl_prefix(err, rc, "model.tables[%zu] (%s)", i,
                             spec->model->tables[i]->name);
    }
    if (rc == SL_OK)
        spec_needs(spec, tables_edition(spec));
    return rc;
}

enum sl_err spec_check_tables(Sluice__V1__JobSpec *spec, const struct model *m,
                              struct sl_error *err)
{
    Sluice__V1__ModelSpec *model = spec->model;
    struct spec_table_list had = {model->n_tables, model->tables}, made;
    enum sl_err rc;

    if (m->tables == 0 && model->n_tables > 0 && !m->external)
        return sl_fail(err, SL_EINVAL,
                       "model.tables: only an external model (type: external) "
                       "lists tables; a layer has rows of one by 'rows: "
                       "dynamic' (embedding)");
    if (m->tables == 0)
        return check_all_tables(spec, m, err);
    rc = spec_layer_tables(&made, model, m);
    if (rc != SL_OK)
        return rc;
    model->n_tables = made.count;
    model->tables = made.tables;
    rc = check_all_tables(spec, m, err);
    if (rc == SL_OK)
        rc = spec_same_tables(&had, model, err);
    spec_free_tables(&had);
    return rc;
}

// ---- what a shard is told

void spec_table(Sluice__V1__Table *out, const Sluice__V1__JobSpec *spec,
                size_t i)
{
    const Sluice__V1__TableSpec *t = spec->model->tables[i];
    struct model_init initial = {.kind = MODEL_INIT_CONSTANT};

    (void)table_initial(&initial, t, NULL); // its word was checked
    sluice__v1__table__init(out);
    out->name = t->name;
    out->dim = t->dim;
    out->buckets = t->buckets;
    out->init = (Sluice__V1__InitKind)initial.kind;
    out->init_a = initial.a;
    out->init_b = initial.b;
    out->optimizer = t->optimizer;
    out->scale = table_scale(spec, t);
    out->min_count = t->admit->min_count;
    out->probability = t->admit->probability;
    out->max_rows = t->evict->max_rows;
    out->unused_steps = t->evict->unused_steps;
    out->least_norm = t->evict->least_norm;
}
