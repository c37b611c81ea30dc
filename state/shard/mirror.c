// SPDX-License-Identifier: Apache-2.0
// state/shard/mirror.c -- what workers have, and the last change of it.
#include "state/shard/mirror.h"

#include <string.h>

#include "common/base/copy.h"
#include "common/base/mem.h"

enum sl_err mirror_init(struct mirror *m, const struct plan *plan)
{
    *m = (struct mirror){NULL};
    if (plan->down == WIRE_F32)
        return SL_OK;
    m->plan = plan;
    m->change_bytes = coded_bytes(&plan->coded, plan->down);
    m->change = sl_malloc(m->change_bytes);
    m->values = sl_aligned(64, plan_values_bytes(plan));
    return m->change != NULL && m->values != NULL ? SL_OK : SL_ENOMEM;
}

void mirror_release(struct mirror *m)
{
    sl_free(m->change);
    sl_free(m->values);
    *m = (struct mirror){NULL};
}

void mirror_begin(struct mirror *m, const float *values)
{
    if (m->values == NULL)
        return;
    memcpy(m->values, values, plan_values_bytes(m->plan));
    m->version = 0;
}

float *mirror_keep(const struct mirror *m, float *keep)
{
    if (m->values == NULL || keep == NULL)
        return keep;
    sl_copy_away(keep, m->values, plan_values_bytes(m->plan));
    sl_copy_settle();
    return NULL;
}

void mirror_follow(struct mirror *m, const float *values, uint64_t version)
{
    if (m->values == NULL)
        return;
    m->version = coded_follow(&m->plan->coded, m->plan->down, values, m->values,
                              m->change)
                     ? version
                     : 0;
}

const uint8_t *mirror_change(const struct mirror *m, uint64_t have,
                             uint64_t version, size_t *bytes)
{
    if (m->values == NULL || have == 0)
        return NULL;
    *bytes = have == version + 1 ? 0 : m->change_bytes;
    if (*bytes > 0 && (have != version || version != m->version))
        return NULL;
    return m->change;
}
