// SPDX-License-Identifier: Apache-2.0
// proto/spec_ring.c -- the check of what only a job in allreduce mode says: its
// ranks, its rounds, its buckets.
#include "proto/spec_check.h"

#include <string.h>

// What a shard can hold of a round (state/shard/contributions.h).
#define CONTRIBUTIONS_OF_ROWS 1024
#define BUCKET_BYTES (UINT64_C(4) << 20)
#define BUCKET_BYTES_MIN 4096
#define BUCKET_BYTES_MAX (UINT64_C(1) << 30)

static const char *const resizes[] = {"keep_batch", "scale"};

bool spec_allreduce(const Sluice__V1__JobSpec *spec)
{
    return spec->train != NULL && spec->train->mode != NULL &&
           strcmp(spec->train->mode, "allreduce") == 0;
}

bool spec_ring_rows(const Sluice__V1__JobSpec *spec)
{
    return spec_allreduce(spec) && spec->model != NULL &&
           spec->model->n_tables > 0;
}

bool spec_ring_scales(const Sluice__V1__JobSpec *spec)
{
    const char *word = spec->train->on_resize;

    return word != NULL && strcmp(word, resizes[1]) == 0;
}

static enum sl_err check_strange(const Sluice__V1__TrainSpec *t,
                                 struct sl_error *err)
{
    const char *field = t->workers != NULL     ? "workers"
                        : t->on_resize != NULL ? "on_resize"
                        : t->has_bucket_bytes  ? "bucket_bytes"
                                               : NULL;

    return field == NULL
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "train.%s: says something of allreduce alone, and "
                         "train.mode is %s",
                         field, t->mode);
}

static enum sl_err check_workers(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    enum sl_err rc =
        spec_message(&t->workers, &sluice__v1__workers_spec__descriptor);

    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->workers, min, 1);
    SPEC_DEFAULT(t->workers, max, 0);
    rc = spec_range("train.workers.min", t->workers->min, 1, WIRE_RANKS_MAX,
                    err);
    if (rc == SL_OK && t->workers->max != 0)
        rc = spec_range("train.workers.max", t->workers->max, t->workers->min,
                        WIRE_RANKS_MAX, err);
    if (rc == SL_OK && t->has_max_workers && t->max_workers != 0)
        rc = sl_fail(err, SL_EINVAL,
                     "train.max_workers: in allreduce it is called "
                     "train.workers.max");
    return rc;
}

static enum sl_err check_round(Sluice__V1__TrainSpec *t, struct sl_error *err)
{
    unsigned resize = 0;
    enum sl_err rc = spec_string(&t->on_resize, resizes[0]);

    if (rc == SL_OK)
        rc = spec_word("train.on_resize", t->on_resize, resizes,
                       SL_COUNT(resizes), &resize, err);
    if (rc != SL_OK || !t->has_contributions)
        return rc;
    if (resize == 1)
        return sl_fail(err, SL_EINVAL,
                       "train.contributions: with train.on_resize scale there "
                       "is one of each rank");
    return spec_range("train.contributions", t->contributions, 1,
                      WIRE_CONTRIBUTIONS_MAX, err);
}

// A psserver holds the rows of a round, so it must know which closures are in
// it before any worker is there.
static enum sl_err check_round_of_rows(Sluice__V1__JobSpec *spec,
                                       struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;

    if (spec_rows_only(spec))
        return sl_fail(err, SL_EINVAL,
                       "train.mode: allreduce sums gradients of variables, and "
                       "the model has tables alone; list model.variables, or "
                       "take mode async");
    if (t->steps_per_closure != 1)
        return sl_fail(err, SL_EINVAL,
                       "train.steps_per_closure: wants 1 in allreduce with "
                       "tables, where a closure is one contribution, got %u",
                       t->steps_per_closure);
    if (strcmp(t->on_resize, resizes[0]) != 0)
        return sl_fail(err, SL_EINVAL,
                       "train.on_resize: a round of a job with tables has the "
                       "same contributions whatever the workers; leave it out");
    if (t->has_audit && t->audit > 0)
        return sl_fail(err, SL_EINVAL,
                       "train.audit: rounds of allreduce are not audited if "
                       "the job has tables; leave it out");
    if (!t->has_contributions && t->workers->max == 0)
        return sl_fail(err, SL_EINVAL,
                       "train.contributions: say how many steps are one update "
                       "(or train.workers.max), as the job has tables");
    SPEC_DEFAULT(t, contributions, t->workers->max);
    return spec_range("train.contributions", t->contributions, 1,
                      CONTRIBUTIONS_OF_ROWS, err);
}

enum sl_err spec_check_ring(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;
    enum sl_err rc;

    if (!spec_allreduce(spec))
        return check_strange(t, err);
    if (t->max_delay != 0 || strcmp(t->staleness, "none") != 0)
        return sl_fail(err, SL_EINVAL, "train.%s: nothing is late in allreduce",
                       t->max_delay != 0 ? "max_delay" : "staleness");
    rc = check_workers(t, err);
    if (rc == SL_OK)
        rc = check_round(t, err);
    if (rc == SL_OK && spec_has_tables(spec))
        rc = check_round_of_rows(spec, err);
    SPEC_DEFAULT(t, bucket_bytes, BUCKET_BYTES);
    if (rc == SL_OK)
        rc = spec_range("train.bucket_bytes", t->bucket_bytes, BUCKET_BYTES_MIN,
                        BUCKET_BYTES_MAX, err);
    return rc;
}
