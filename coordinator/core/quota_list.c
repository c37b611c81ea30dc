// SPDX-License-Identifier: Apache-2.0
// coordinator/core/quota_list.c -- see quota_list.h.
#include "coordinator/core/quota_list.h"

#include <string.h>

#include "common/base/mem.h"

enum sl_err quotas_new(struct quotas **out, const struct coord_options *options,
                       struct sl_error *err)
{
    struct quotas *q = sl_calloc(1, sizeof(*q));

    if (q != NULL)
        q->list = sl_malloc_array(options->quotas_count, sizeof(*q->list));
    if (q == NULL || q->list == NULL) {
        sl_free(q);
        return sl_fail(err, SL_ENOMEM, "quotas");
    }
    q->count = options->quotas_count;
    if (q->count > 0)
        memcpy(q->list, options->quotas, q->count * sizeof(*q->list));
    *out = q;
    return SL_OK;
}

void quotas_free(struct quotas *q)
{
    if (q == NULL)
        return;
    for (uint32_t i = 0; i < q->names_count; i++)
        sl_free(q->names[i]);
    sl_free(q->names);
    sl_free(q->list);
    sl_free(q);
}

uint32_t quotas_tenant_number(struct quotas *q, const char *tenant)
{
    char **more;

    for (uint32_t i = 0; i < q->names_count; i++) {
        if (strcmp(q->names[i], tenant) == 0)
            return i + 1;
    }
    more = sl_realloc_array(q->names, q->names_count + 1, sizeof(*more));
    if (more == NULL)
        return 0;
    q->names = more;
    more[q->names_count] = sl_strdup(tenant);
    return more[q->names_count] != NULL ? ++q->names_count : 0;
}

const struct quota *quotas_of_tenant(const struct quotas *q, const char *tenant)
{
    return quota_of(q->list, q->count, tenant);
}
