// SPDX-License-Identifier: Apache-2.0
// coordinator/core/quota_list.h -- the quotas that the operator has said, and
// the tenants that were met.
//
// Threads  the loop.
// Memory   grows by a copied name for each tenant; names and quotas stay where
//          they are until quotas_free. No pointer is NULL but where it is said.
// Errors   SL_ENOMEM; `err` is not NULL.
#ifndef COORDINATOR_CORE_QUOTA_LIST_H
#define COORDINATOR_CORE_QUOTA_LIST_H

#include "coordinator/core/coord.h"
#include "coordinator/rules/quota.h"

struct quotas {
    struct quota *list; // owned
    size_t count;
    char **names; // known tenants; number n is names[n - 1]; owned
    uint32_t names_count;
};

// Makes *out with a copy of the quotas of `options`, for quotas_free. SL_ENOMEM
// leaves *out as it was.
enum sl_err quotas_new(struct quotas **out, const struct coord_options *options,
                       struct sl_error *err);
// Frees q, with its quotas and names. NULL is allowed.
void quotas_free(struct quotas *q);

// Returns the number of a tenant, from 1, given to it at the first call; 0: no
// memory.
uint32_t quotas_tenant_number(struct quotas *q, const char *tenant);

// Returns the quota that holds for a tenant (quota_of), borrowed from q; NULL:
// no limit.
const struct quota *quotas_of_tenant(const struct quotas *q,
                                     const char *tenant);

#endif
