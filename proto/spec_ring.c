// SPDX-License-Identifier: Apache-2.0
// proto/spec_ring.c -- the check of what only a job in allreduce mode says: its
// ranks, its rounds, its buckets.
#include "proto/spec_check.h"

#include <string.h>

#define BUCKET_BYTES (UINT64_C(4) << 20)
#define BUCKET_BYTES_MIN 4096
#define BUCKET_BYTES_MAX (UINT64_C(1) << 30)

static const char *const resizes[] = {"keep_batch", "scale"};

bool spec_allreduce(const Sluice__V1__JobSpec *spec)
{
    return spec->train != NULL && spec->train->mode != NULL &&
           strcmp(spec->train->mode, "allreduce") == 0;
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
    SPEC_DEFAULT(t, bucket_bytes, BUCKET_BYTES);
    if (rc == SL_OK)
        rc = spec_range("train.bucket_bytes", t->bucket_bytes, BUCKET_BYTES_MIN,
                        BUCKET_BYTES_MAX, err);
    return rc;
}
