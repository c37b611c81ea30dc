// SPDX-License-Identifier: Apache-2.0
// coordinator/core/quotas.h -- what tenants have, counted from their jobs, and
// whether they may have one more.
//
// All of it follows from jobs and checkpoints that there are, so nothing is
// journalled for it, and a restart changes nothing. A job that is not placed
// yet counts as what it would be on the psservers of now. What lies with
// workers (allreduce) is neither shards nor parameters here.
//
// Threads  the loop.
// Memory   of what ended jobs have stored a number per job, read from the
//          journal when it is first asked for.
// Errors   SL_EBUSY as in rules/quota.h; those of journal.h, which are fatal;
//          SL_ENOMEM.
#ifndef COORDINATOR_CORE_QUOTAS_H
#define COORDINATOR_CORE_QUOTAS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/quota.h"

struct quotas;

enum sl_err quotas_new(struct quotas **out, const struct coord_options *options,
                       struct sl_error *err);
void quotas_free(struct quotas *q); // NULL is allowed

// Whether the tenant that asks may have a job of this spec, too.
enum sl_err quotas_admit(struct coord *c, const Sluice__V1__JobSpec *spec,
                         struct sl_error *err);

struct quotas_tenant {
    const char *name; // "": nobody's; of struct quotas
    struct quota_use use;
    const struct quota *quota; // NULL: it has none
};

// Those that have jobs or a quota of their own, as far as who asks may see
// them; sl_free.
enum sl_err quotas_list(struct coord *c, struct quotas_tenant **out,
                        size_t *count, struct sl_error *err);

#endif
