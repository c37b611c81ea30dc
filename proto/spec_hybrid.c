// SPDX-License-Identifier: Apache-2.0
// proto/spec_hybrid.c -- the check of what only a job in hybrid mode says: how
// its workers are grouped.
#include "proto/spec_check.h"

#include <string.h>

#define GROUP_SIZE 4

static const char *const groupings[] = {"host", "any"};

bool spec_hybrid(const Sluice__V1__JobSpec *spec)
{
    return spec->train != NULL && spec->train->mode != NULL &&
           strcmp(spec->train->mode, "hybrid") == 0;
}

struct spec_group spec_group(const Sluice__V1__JobSpec *spec)
{
    const Sluice__V1__GroupSpec *g = spec->train->group;

    return (struct spec_group){
        .by_host = g == NULL || g->by == NULL || strcmp(g->by, "any") != 0,
        .size = g != NULL && g->has_size ? g->size : GROUP_SIZE,
    };
}

enum sl_err spec_check_hybrid(Sluice__V1__JobSpec *spec, struct sl_error *err)
{
    Sluice__V1__TrainSpec *t = spec->train;
    enum sl_err rc;

    if (!spec_hybrid(spec))
        return t->group == NULL
                   ? SL_OK
                   : sl_fail(err, SL_EINVAL,
                             "train.group: says something of hybrid alone, and "
                             "train.mode is %s",
                             t->mode);
    rc = spec_message(&t->group, &sluice__v1__group_spec__descriptor);
    if (rc != SL_OK)
        return rc;
    SPEC_DEFAULT(t->group, size, GROUP_SIZE);
    rc = spec_string(&t->group->by, groupings[0]);
    if (rc == SL_OK)
        rc = spec_word("train.group.by", t->group->by, groupings,
                       SL_COUNT(groupings), NULL, err);
    if (rc == SL_OK)
        rc = spec_range("train.group.size", t->group->size, 2, WIRE_GROUP_MAX,
                        err);
    return rc;
}
