// SPDX-License-Identifier: Apache-2.0
// proto/spec_train.c -- the check of how long a job runs, in which pieces,
// where, and what is kept of it.
#include "proto/spec_check.h"

#include <math.h>
#include <string.h>

#include "common/base/num.h"

#define SHARD_BYTES_MAX (UINT64_C(32) << 20) // a push is one message

// What stands still for so long hangs. A worker of ours says with every
// heartbeat that it got on, operation by operation; a program of the user's
// perhaps only at the end of its closure. A contribution of mode local, of many
// steps, is counted by its end.
#define STALL_SECONDS 60
#define STALL_SECONDS_LONG 600
#define STALL_SECONDS_MIN 1 // a few heartbeats
#define STALL_SECONDS_MAX 1e6

#define LOSS_SCALE_MAX 1e30 // it and its inverse are normal f32s

#define STEP_SAMPLES_MAX (1 << 24) // f32 counts them one by one

static enum sl_err check_train_ranges(const Sluice__V1__TrainSpec *t,
                                      struct sl_error *err)
{
    const struct {
        const char *path;
        uint32_t value, max;
    } ranges[] = {
        {"train.batch", t->batch, 1 << 20},
        {"train.epochs", t->epochs, 65536},
        {"train.steps_per_closure", t->steps_per_closure,
         WIRE_CLOSURE_STEPS_MAX},
        {"train.max_nonfinite", t->max_nonfinite, UINT32_MAX},
        {"train.max_attempts", t->max_attempts, 1000},
        {"train.window_closures", t->window_closures, WIRE_SPARSE_MAX},
    };

    for (unsigned i = 0; i < SL_COUNT(ranges); i++) {
        enum sl_err rc =
            spec_range(ranges[i].path, ranges[i].value, 1, ranges[i].max, err);

        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

uint32_t spec_accumulate(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__TrainSpec *t = spec->train;
    uint32_t accumulate = t != NULL && t->has_accumulate ? t->accumulate : 1;

    if (spec_local(spec))
        return spec_inner(t).closure;
    return spec_hybrid(spec) ? accumulate * spec_group(spec).size : accumulate;
}

uint64_t spec_step_samples(const Sluice__V1__JobSpec *spec)
{
    return (uint64_t)spec->train->batch * spec_accumulate(spec);
}

// Checks train.accumulate. Its default is not written into a spec: jobs without
// it keep the form that they had before the field existed.
static enum sl_err check_accumulate(const Sluice__V1__JobSpec *spec,
                                    struct sl_error *err)
{
    const Sluice__V1__TrainSpec *t = spec->train;
    uint32_t accumulate = t->has_accumulate ? t->accumulate : 1;
    enum sl_err rc =
        spec_range("train.accumulate", accumulate, 1, STEP_SAMPLES_MAX, err);

    if (rc != SL_OK)
        return rc;
    if (spec_external(spec) && accumulate > 1)
        return sl_fail(err, SL_EINVAL,
                       "train.accumulate: the model is external, so its own "
                       "program decides that; set train.batch to the samples "
                       "of a step");
    if (spec_step_samples(spec) > STEP_SAMPLES_MAX)
        return sl_fail(
            err, SL_EINVAL,
            "train.%s: %u micro-batches of %u samples; a step has at "
            "most %d samples",
            spec_local(spec) ? "inner.steps" : "accumulate",
            spec_accumulate(spec), t->batch, STEP_SAMPLES_MAX);
    return SL_OK;
}

bool spec_skips_nonfinite(const Sluice__V1__TrainSpec *train)
{
    return train->nonfinite == NULL || strcmp(train->nonfinite, "fail") != 0;
}

enum wire_type spec_wire(const Sluice__V1__JobSpec *spec)
{
    return spec_type_of(spec->train != NULL ? spec->train->wire : NULL,
                        WIRE_TYPES, WIRE_F32);
}

enum wire_type spec_rows_wire(const Sluice__V1__JobSpec *spec)
{
    return spec_type_of(spec->train != NULL ? spec->train->rows_wire : NULL,
                        WIRE_ROW_TYPES, spec_wire(spec));
}

static double stall_default(const Sluice__V1__JobSpec *spec)
{
    return spec_external(spec) || spec_local(spec) ? STALL_SECONDS_LONG
                                                   : STALL_SECONDS;
}

uint64_t spec_stall_ms(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__TrainSpec *t = spec->train;
    // Specs journalled before the field existed lack it.
    double seconds = t != NULL && t->has_stall_seconds ? t->stall_seconds
                                                       : stall_default(spec);

    return (uint64_t)(seconds * 1000);
}

static enum sl_err check_stall(const Sluice__V1__TrainSpec *t,
                               struct sl_error *err)
{
    if (t->stall_seconds == 0)
        return SL_OK;
    return spec_real("train.stall_seconds", t->stall_seconds, STALL_SECONDS_MIN,
                     STALL_SECONDS_MAX, SPEC_CLOSED, err);
}

// ---- precision

static const char *const precisions[] = {
    [SPEC_TF32] = "tf32",
    [SPEC_F32] = "f32",
    [SPEC_BF16] = "bf16",
    [SPEC_F16] = "f16",
};

const char *spec_precision_name(enum spec_precision precision)
{
    return precisions[precision];
}

enum spec_precision spec_precision(const Sluice__V1__JobSpec *spec)
{
    const char *word = spec->train != NULL ? spec->train->precision : NULL;

    for (unsigned i = 0; i < SL_COUNT(precisions) && word != NULL; i++) {
        if (strcmp(word, precisions[i]) == 0)
            return (enum spec_precision)i;
    }
    return SPEC_TF32; // journalled before there was such a field
}

// Keras' names for what we have, and what we have not.
static enum sl_err check_foreign(const char *word, struct sl_error *err)
{
    static const char *const known[][2] = {
        {"float32", "f32"},   {"mixed_float16", "f16"},
        {"float16", "f16"},   {"mixed_bfloat16", "bf16"},
        {"bfloat16", "bf16"},
    };

    if (strcmp(word, "float64") == 0 || strcmp(word, "f64") == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.precision: '%s' is not trained in: parameters "
                       "and gradients are f32 everywhere; say f32 (sums and "
                       "losses are kept in doubles where it matters)",
                       word);
    for (unsigned i = 0; i < SL_COUNT(known); i++) {
        if (strcmp(word, known[i][0]) == 0)
            return sl_fail(err, SL_EINVAL,
                           "train.precision: '%s' is called %s here", word,
                           known[i][1]);
    }
    return SL_OK;
}

// An external model computes as its own program likes.
static enum sl_err check_precision(Sluice__V1__TrainSpec *t, bool external,
                                   struct sl_error *err)
{
    unsigned precision = SPEC_TF32;
    enum sl_err rc;

    if (external && (t->precision != NULL || t->has_loss_scale))
        return sl_fail(err, SL_EINVAL,
                       "train.%s: the model is external, so its own program "
                       "decides that",
                       t->precision != NULL ? "precision" : "loss_scale");
    if (external)
        return SL_OK;
    rc = spec_string(&t->precision, precisions[SPEC_TF32]);
    if (rc == SL_OK)
        rc = check_foreign(t->precision, err);
    if (rc == SL_OK)
        rc = spec_word("train.precision", t->precision, precisions,
                       SL_COUNT(precisions), &precision, err);
    if (rc != SL_OK || !t->has_loss_scale)
        return rc;
    if (precision != SPEC_F16)
        return sl_fail(err, SL_EINVAL,
                       "train.loss_scale: only f16 has one, and "
                       "train.precision is %s",
                       t->precision);
    return spec_real("train.loss_scale", t->loss_scale, 1, LOSS_SCALE_MAX,
                     SPEC_CLOSED, err);
}

// ---- modes

#define CONTRIBUTIONS 2
#define CONTRIBUTIONS_MOST 1024
// An audited round takes the time of three: this is 0.2 % of the steps.
#define AUDIT 0.001

static bool is_mode(const Sluice__V1__TrainSpec *t, const char *mode)
{
    return t->mode != NULL && strcmp(t->mode, mode) == 0;
}

static bool is_sync(const Sluice__V1__TrainSpec *t)
{
    return is_mode(t, "sync");
}

// Returns true if contributions of a round become one update of the shards.
static bool has_rounds(const Sluice__V1__TrainSpec *t)
{
    return is_sync(t) || is_mode(t, "local");
}

uint32_t spec_contributions(const Sluice__V1__TrainSpec *t)
{
    return has_rounds(t) && !spec_open(t) ? t->contributions : 0;
}

uint32_t spec_backup(const Sluice__V1__TrainSpec *t)
{
    return has_rounds(t) && t->has_backup ? t->backup : 0;
}

double spec_audit(const Sluice__V1__TrainSpec *t)
{
    return t->has_audit ? t->audit : 0;
}

static enum sl_err check_audit(Sluice__V1__TrainSpec *t, bool external,
                               struct sl_error *err)
{
    bool rounds = is_sync(t) || is_mode(t, "allreduce");

    if (rounds && !external)
        SPEC_DEFAULT(t, audit, AUDIT);
    if (!t->has_audit)
        return SL_OK;
    if (external)
        return sl_fail(err, SL_EINVAL,
                       "train.audit: the model is external, so its own program "
                       "computes each step, once");
    return spec_real("train.audit", t->audit, 0, 1, SPEC_CLOSED, err);
}

static enum sl_err check_rounds(Sluice__V1__TrainSpec *t, bool external,
                                struct sl_error *err)
{
    enum sl_err rc;

    if (external && is_sync(t))
        return sl_fail(err, SL_EINVAL,
                       "train.mode: sync is for models of layers; programs of "
                       "the user's train in async, hybrid, local, or in "
                       "allreduce, where no gradient is late either");
    if (t->steps_per_closure != 1)
        return sl_fail(err, SL_EINVAL,
                       "train.steps_per_closure: wants 1 in %s, where a "
                       "closure is one contribution, got %u",
                       t->mode, t->steps_per_closure);
    if (t->max_delay > 0 ||
        (t->staleness != NULL && strcmp(t->staleness, "none") != 0))
        return sl_fail(err, SL_EINVAL,
                       "train.%s: in %s no gradient is late; leave it out",
                       t->max_delay > 0 ? "max_delay" : "staleness", t->mode);
    SPEC_DEFAULT(t, contributions, CONTRIBUTIONS);
    rc = spec_range("train.contributions", t->contributions, 1,
                    CONTRIBUTIONS_MOST, err);
    if (rc == SL_OK && t->has_backup)
        rc = spec_range("train.backup", t->backup, 0, t->contributions, err);
    return rc == SL_OK ? check_audit(t, external, err) : rc;
}

static enum sl_err check_mode(Sluice__V1__TrainSpec *t, bool external,
                              struct sl_error *err)
{
    static const char *const modes[] = {"async", "sync", "allreduce", "hybrid",
                                        "local"};
    enum sl_err rc =
        spec_word("train.mode", t->mode, modes, SL_COUNT(modes), NULL, err);

    if (rc != SL_OK)
        return rc;
    if (has_rounds(t))
        return check_rounds(t, external, err);
    if (t->has_backup)
        return sl_fail(err, SL_EINVAL,
                       "train.backup: copies are of the slots of a round in "
                       "sync and local, and train.mode is %s",
                       t->mode);
    if (t->has_contributions && strcmp(t->mode, "allreduce") != 0)
        return sl_fail(err, SL_EINVAL,
                       "train.contributions: rounds are of sync, local and "
                       "allreduce, and train.mode is %s",
                       t->mode);
    return check_audit(t, external, err);
}

// ---- delays

static const char *const staleness_rules[] = {
    [SPEC_STALENESS_NONE] = "none",
    [SPEC_STALENESS_INVERSE] = "inverse",
    [SPEC_STALENESS_DC] = "dc",
};

struct spec_staleness spec_staleness(const Sluice__V1__TrainSpec *t)
{
    struct spec_staleness out = {.max_delay = t->max_delay,
                                 .lambda = t->staleness_lambda};
    unsigned rule = SPEC_STALENESS_NONE;

    if (t->staleness != NULL) // journalled since there is such a field
        (void)spec_word("", t->staleness, staleness_rules,
                        SL_COUNT(staleness_rules), &rule, NULL);
    out.rule = (enum spec_staleness_rule)rule;
    return out;
}

bool spec_any_delay(const Sluice__V1__TrainSpec *train)
{
    struct spec_staleness how = spec_staleness(train);

    return how.max_delay == 0 && how.rule == SPEC_STALENESS_NONE;
}

static enum sl_err check_dc(Sluice__V1__TrainSpec *t,
                            const Sluice__V1__OptimizerSpec *o,
                            struct sl_error *err)
{
    if (t->max_delay < 1 || t->max_delay > SPEC_DC_DELAY_MAX)
        return sl_fail(
            err, SL_EINVAL,
            "train.staleness: dc wants train.max_delay from 1 to %d, got %u: "
            "psservers keep the parameters of that number of versions",
            SPEC_DC_DELAY_MAX, t->max_delay);
    if (o != NULL && (o->has_clipnorm || o->has_global_clipnorm))
        return sl_fail(err, SL_EINVAL,
                       "train.staleness: dc wants gradients as they are, but "
                       "optimizer.%s clips them on the worker; take clipvalue, "
                       "or staleness: inverse",
                       o->has_clipnorm ? "clipnorm" : "global_clipnorm");
    SPEC_DEFAULT(t, staleness_lambda, 0.04);
    return spec_real("train.staleness_lambda", t->staleness_lambda, 0, 1e6,
                     SPEC_CLOSED, err);
}

static enum sl_err check_staleness(Sluice__V1__JobSpec *spec,
                                   struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;
    unsigned rule = SPEC_STALENESS_NONE;
    enum sl_err rc = spec_string(&t->staleness, "none");

    SPEC_DEFAULT(t, max_delay, 0);
    if (rc == SL_OK)
        rc = spec_word("train.staleness", t->staleness, staleness_rules,
                       SL_COUNT(staleness_rules), &rule, err);
    if (rc == SL_OK)
        rc =
            spec_range("train.max_delay", t->max_delay, 0, SPEC_DELAY_MAX, err);
    if (rc != SL_OK)
        return rc;
    if (rule == SPEC_STALENESS_DC)
        return check_dc(t, spec->optimizer, err);
    if (t->has_staleness_lambda)
        return sl_fail(err, SL_EINVAL,
                       "train.staleness_lambda: only dc has one, and "
                       "train.staleness is %s",
                       t->staleness);
    return SL_OK;
}

uint64_t spec_kept_vectors(const Sluice__V1__JobSpec *spec)
{
    struct spec_staleness how = spec_staleness(spec->train);
    uint32_t contributions = spec_contributions(spec->train);
    const Sluice__V1__OptimizerSpec *o = spec_shard_optimizer(spec);
    struct spec_moments m = spec_moments(spec);
    uint64_t vectors = 1;

    if (o != NULL)
        vectors += spec_optimizer_slots(o);
    if (contributions > 0)
        vectors += contributions + 1;
    else if (spec_open_contributions(spec->train) > 0)
        vectors++;
    else if (how.rule == SPEC_STALENESS_DC)
        vectors += how.max_delay;
    vectors += spec_down_code(spec) > 0;
    return vectors + 2 * m.vectors * wire_type_bytes(m.wire) / sizeof(float);
}

uint64_t spec_window_most(const Sluice__V1__TrainSpec *t)
{
    return wire_window_most(t->steps_per_closure, t->epochs);
}

// What lies above a shard's watermark is a message of its own when it says
// hello: at worst one step of each closure of the window is counted.
static enum sl_err spec_check_window(const Sluice__V1__TrainSpec *t,
                                     struct sl_error *err)
{
    uint64_t most = spec_window_most(t);

    if (t->window_closures <= most)
        return SL_OK;
    return sl_fail(
        err, SL_EINVAL,
        "train.window_closures: %u closures of %u steps make a set of counted "
        "steps that does not fit into a message; set at most %llu closures",
        t->window_closures, t->steps_per_closure, (unsigned long long)most);
}

int32_t spec_priority(const Sluice__V1__TrainSpec *t)
{
    return t->has_priority ? t->priority : 0;
}

static enum sl_err check_priority(const Sluice__V1__TrainSpec *t,
                                  struct sl_error *err)
{
    int32_t priority = spec_priority(t);

    if (priority >= -SPEC_PRIORITY_MAX && priority <= SPEC_PRIORITY_MAX)
        return SL_OK;
    return sl_fail(err, SL_EINVAL, "train.priority: wants %d to %d, got %d",
                   -SPEC_PRIORITY_MAX, SPEC_PRIORITY_MAX, (int)priority);
}

enum sl_err spec_check_train(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    static const char *const nonfinite[] = {"skip", "fail"};
    Sluice__V1__TrainSpec *t;
    enum sl_err rc;

    rc = spec_message(&spec->train, &sluice__v1__train_spec__descriptor);
    if (rc != SL_OK)
        return rc;
    t = spec->train;
    SPEC_DEFAULT(t, batch, 32);
    SPEC_DEFAULT(t, epochs, 1);
    SPEC_DEFAULT(
        t, steps_per_closure,
        has_rounds(t) || (spec_allreduce(spec) && spec_has_tables(spec)) ? 1
                                                                         : 16);
    SPEC_DEFAULT(t, seed, 1);
    SPEC_DEFAULT(t, shuffle, true);
    SPEC_DEFAULT(t, max_nonfinite, 100);
    SPEC_DEFAULT(t, max_attempts, 4);
    SPEC_DEFAULT(t, max_workers, 0);
    SPEC_DEFAULT(t, window_closures, SPEC_WINDOW_DEFAULT);
    SPEC_DEFAULT(t, stall_seconds, stall_default(spec));
    rc = spec_string(&t->mode, "async");
    if (spec_has_rows(spec) && (!is_sync(t) || t->accumulate > 1))
        SPEC_DEFAULT(t, audit, 0); // older workers may compute it, too
    if (rc == SL_OK)
        rc = spec_string(&t->nonfinite, nonfinite[0]);
    if (rc == SL_OK)
        rc = check_mode(t, spec_external(spec), err);
    if (rc == SL_OK)
        rc =
            spec_word("train.nonfinite", t->nonfinite, nonfinite, 2, NULL, err);
    if (rc == SL_OK)
        rc = spec_string(&t->wire, wire_type_names[WIRE_F32]);
    if (rc == SL_OK)
        rc = spec_word("train.wire", t->wire, wire_type_names, WIRE_TYPES, NULL,
                       err);
    if (rc == SL_OK)
        rc = check_stall(t, err);
    if (rc == SL_OK)
        rc = check_precision(t, spec_external(spec), err);
    if (rc == SL_OK)
        rc = check_staleness(spec, err);
    if (rc == SL_OK)
        rc = spec_check_ring(spec, err);
    if (rc == SL_OK)
        rc = spec_check_hybrid(spec, err);
    if (rc == SL_OK)
        rc = spec_check_local(spec, err);
    if (rc == SL_OK)
        rc = check_train_ranges(t, err);
    if (rc == SL_OK)
        rc = check_priority(t, err);
    if (rc == SL_OK)
        rc = spec_check_window(t, err);
    return rc == SL_OK ? check_accumulate(spec, err) : rc;
}

// ---- placement

static const char *const partitioners[] = {
    [PART_AUTO] = "auto",
    [PART_FIXED] = "fixed",
    [PART_MIN_SIZE] = "min_size",
    [PART_MAX_SIZE] = "max_size",
};

// Keys that any partitioner has.
#define PLACED "move psservers replicas replicate "

static const char *const partitioner_fields[] = {
    [PART_AUTO] = " partitioner " PLACED "shard_bytes ",
    [PART_FIXED] = " partitioner " PLACED "shards ",
    [PART_MIN_SIZE] = " partitioner " PLACED "min_shard_bytes max_shards ",
    [PART_MAX_SIZE] = " partitioner " PLACED "max_shard_bytes max_shards ",
};

static const char *const placement_moves[] = {"auto", "manual"};
static const char *const replicates[] = {"ack", "follow"};

bool spec_follows(const Sluice__V1__PlacementSpec *placement)
{
    return placement->replicate != NULL &&
           strcmp(placement->replicate, replicates[1]) == 0;
}

// A replica follows by pushes (P1), which say all that changes a shard of
// values alone.
static enum sl_err check_replicas(Sluice__V1__JobSpec *spec,
                                  struct sl_error *err)
{
    Sluice__V1__PlacementSpec *p = spec->placement;
    const char *mode = spec->train->mode;
    enum sl_err rc;

    if (p->replicas > 1)
        return sl_fail(err, SL_EINVAL,
                       "placement.replicas: %u; a shard has one replica at "
                       "most: give 0 or 1",
                       p->replicas);
    if (p->replicas == 0)
        return p->replicate == NULL ? SL_OK
                                    : sl_fail(err, SL_EINVAL,
                                              "placement.replicate: it wants "
                                              "placement.replicas: 1");
    if (strcmp(mode, "async") != 0 && strcmp(mode, "sync") != 0)
        return sl_fail(err, SL_EINVAL,
                       "placement.replicas: mode %s has none; use mode async "
                       "or sync, or leave replicas out",
                       mode);
    if (spec_has_tables(spec))
        return sl_fail(err, SL_EINVAL,
                       "placement.replicas: a shard with rows of tables has "
                       "none; leave replicas out");
    if (spec_staleness(spec->train).rule == SPEC_STALENESS_DC)
        return sl_fail(err, SL_EINVAL,
                       "placement.replicas: a replica lacks the versions that "
                       "train.staleness: dc compares with; take staleness: "
                       "inverse, or leave replicas out");
    rc = spec_string(&p->replicate, "ack");
    return rc == SL_OK ? spec_word("placement.replicate", p->replicate,
                                   replicates, SL_COUNT(replicates), NULL, err)
                       : rc;
}

static enum sl_err check_rule(Sluice__V1__PlacementSpec *p, unsigned kind,
                              struct sl_error *err)
{
    switch (kind) {
    case PART_FIXED:
        return spec_range("placement.shards", p->shards, 1, PART_MAX_SHARDS,
                          err);
    case PART_MIN_SIZE: // TensorFlow's defaults
        SPEC_DEFAULT(p, min_shard_bytes, PART_MIN_SIZE_BYTES);
        SPEC_DEFAULT(p, max_shards, 1);
        if (p->min_shard_bytes == 0 || p->max_shards == 0)
            return sl_fail(err, SL_EINVAL,
                           "placement: min_shard_bytes and max_shards want at "
                           "least 1");
        return SL_OK;
    case PART_MAX_SIZE:
        if (p->max_shard_bytes == 0)
            return sl_fail(err, SL_EINVAL,
                           "placement.max_shard_bytes is missing");
        return SL_OK;
    default:
        SPEC_DEFAULT(p, shard_bytes, 0);
        if (p->shard_bytes == 0) // by the size of the model
            return SL_OK;
        return spec_range("placement.shard_bytes", p->shard_bytes,
                          PART_ELEMENT_BYTES, SHARD_BYTES_MAX, err);
    }
}

enum sl_err spec_check_placement(Sluice__V1__JobSpec *spec,
                                 struct sl_error *err)
{
    Sluice__V1__PlacementSpec *p;
    unsigned kind;
    enum sl_err rc;

    rc =
        spec_message(&spec->placement, &sluice__v1__placement_spec__descriptor);
    if (rc != SL_OK)
        return rc;
    p = spec->placement;
    SPEC_DEFAULT(p, psservers, 0);
    rc = spec_string(&p->partitioner, "auto");
    if (rc == SL_OK)
        rc = spec_word("placement.partitioner", p->partitioner, partitioners,
                       SL_COUNT(partitioners), &kind, err);
    if (rc == SL_OK)
        rc = spec_string(&p->move, "auto");
    if (rc == SL_OK)
        rc = spec_word("placement.move", p->move, placement_moves,
                       SL_COUNT(placement_moves), NULL, err);
    if (rc == SL_OK)
        rc = spec_only("placement", &p->base, partitioner_fields[kind],
                       partitioners[kind], err);
    if (rc == SL_OK && spec_rows_only(spec) &&
        (kind != PART_AUTO || p->shard_bytes != 0))
        return sl_fail(err, SL_EINVAL,
                       "placement: it says how variables are cut, and the "
                       "model has tables alone; leave all of it out but "
                       "psservers");
    if (rc == SL_OK)
        rc = check_replicas(spec, err);
    return rc == SL_OK ? check_rule(p, kind, err) : rc;
}

void spec_part_rule(struct part_rule *out, uint64_t *target_bytes,
                    const Sluice__V1__PlacementSpec *p)
{
    unsigned kind = PART_AUTO;

    spec_word("", p->partitioner, partitioners, SL_COUNT(partitioners), &kind,
              NULL);
    *target_bytes = p->has_shard_bytes ? p->shard_bytes : PART_TARGET_BYTES;
    *out = (struct part_rule){
        .kind = (enum part_kind)kind,
        .count = p->shards,
        .shard_bytes =
            kind == PART_MIN_SIZE ? p->min_shard_bytes : p->max_shard_bytes,
        .max_shards = p->max_shards,
    };
}

// ---- checkpoints and evaluation

#define CHECKPOINT_SECONDS_MOST 1e12 // no clock goes so far

uint64_t spec_checkpoint_ms(const Sluice__V1__CheckpointSpec *checkpoint)
{
    return (uint64_t)(fmin(checkpoint->every_seconds, CHECKPOINT_SECONDS_MOST) *
                      1000);
}

enum sl_err spec_check_checkpoint(Sluice__V1__JobSpec *spec,
                                  struct sl_error *err)
{
    Sluice__V1__CheckpointSpec *c;
    enum sl_err rc;

    rc = spec_message(&spec->checkpoint,
                      &sluice__v1__checkpoint_spec__descriptor);
    if (rc != SL_OK)
        return rc;
    c = spec->checkpoint;
    SPEC_DEFAULT(c, every_epoch, true);
    SPEC_DEFAULT(c, every_seconds, 30);
    SPEC_DEFAULT(c, keep, 3);
    rc = spec_real("checkpoint.every_seconds", c->every_seconds, 0, INFINITY,
                   SPEC_CLOSED, err);
    if (rc == SL_OK)
        rc = spec_range("checkpoint.keep", c->keep, 1, 1000, err);
    return rc;
}

uint64_t spec_range_samples(const Sluice__V1__JobSpec *spec)
{
    return (uint64_t)spec->evaluate->batch *
           spec->evaluate->batches_per_closure;
}

enum sl_err spec_check_ranges(const Sluice__V1__JobSpec *spec, uint64_t samples,
                              struct sl_error *err)
{
    const Sluice__V1__EvaluateSpec *e = spec->evaluate;
    uint64_t ranges, each;

    if (spec->data->test == NULL || (e->every_epochs == 0 && !e->every_steps))
        return SL_OK;
    ranges = sl_ceil_div(samples, spec_range_samples(spec));
    if (ranges <= SPEC_RANGES_MAX)
        return SL_OK;
    each = sl_ceil_div(sl_ceil_div(samples, SPEC_RANGES_MAX), e->batch);
    return sl_fail(err, SL_EINVAL,
                   "evaluate.batches_per_closure: %u batches of %u samples "
                   "make %llu ranges of the %llu samples of data.test; an "
                   "evaluation has at most %llu: set it to %llu or more",
                   e->batches_per_closure, e->batch, (unsigned long long)ranges,
                   (unsigned long long)samples,
                   (unsigned long long)SPEC_RANGES_MAX,
                   (unsigned long long)each);
}

enum sl_err spec_check_evaluate(Sluice__V1__JobSpec *spec,
                                const struct model *m, struct sl_error *err)
{
    bool test = spec->data->test != NULL;
    bool steps = spec->evaluate != NULL && spec->evaluate->every_steps > 0;
    Sluice__V1__EvaluateSpec *e;
    enum sl_err rc;

    rc = spec_message(&spec->evaluate, &sluice__v1__evaluate_spec__descriptor);
    if (rc != SL_OK)
        return rc;
    e = spec->evaluate;
    if (spec_external(spec) &&
        (steps || (e->has_every_epochs && e->every_epochs > 0)))
        return sl_fail(err, SL_EINVAL,
                       "evaluate.%s: the model is external, so no "
                       "worker can evaluate it; its own program can, from a "
                       "checkpoint (sluice export)",
                       steps ? "every_steps" : "every_epochs");
    if (steps && e->has_every_epochs && e->every_epochs > 0)
        return sl_fail(err, SL_EINVAL,
                       "evaluate: wants every_epochs or every_steps, not both");
    if (e->has_every_steps && !steps)
        return sl_fail(err, SL_EINVAL,
                       "evaluate.every_steps: wants 1 or more; leave it out to "
                       "evaluate by epochs");
    // What was trained can be judged without a test set.
    SPEC_DEFAULT(e, every_epochs,
                 (test || spec->callbacks != NULL) && !steps &&
                         !spec_external(spec)
                     ? 1
                     : 0);
    SPEC_DEFAULT(e, batch, 256);
    SPEC_DEFAULT(e, batches_per_closure, 4);
    if ((e->every_epochs > 0 || steps) && !test && spec->callbacks == NULL)
        return sl_fail(err, SL_EINVAL, "evaluate.%s: needs data.test",
                       steps ? "every_steps" : "every_epochs");
    rc = spec_range("evaluate.batch", e->batch, 1, 1 << 20, err);
    if (rc == SL_OK)
        rc = spec_range("evaluate.batches_per_closure", e->batches_per_closure,
                        1, WIRE_CLOSURE_STEPS_MAX, err);
    if (rc == SL_OK && test && spec->data->test->has_samples)
        rc = spec_check_ranges(spec, spec->data->test->samples, err);
    return rc == SL_OK ? spec_check_metrics(spec, m, err) : rc;
}
