// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tenants.c -- the calling tenant, compared with the tenants
// of jobs in the journal.
#include "coordinator/core/tenants.h"

#include <stdio.h>
#include <string.h>

void coord_ask_as(struct coord *c, const char *tenant, bool only)
{
    snprintf(c->asker.tenant, sizeof(c->asker.tenant), "%s", tenant);
    c->asker.only = only;
}

bool tenants_hide(const struct coord *c, uint64_t job)
{
    char tenant[JOURNAL_TENANT];
    struct sl_error err = SL_ERROR_INIT;

    if (!c->asker.only)
        return false;
    return journal_job_tenant(c->journal, job, tenant, &err) != SL_OK ||
           tenant[0] == '\0' || strcmp(tenant, c->asker.tenant) != 0;
}
