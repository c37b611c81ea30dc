// SPDX-License-Identifier: Apache-2.0
// coordinator/core/quotas.h -- tenants' use, counted from their jobs, and
// whether they may have one more.
//
// Use follows from existing jobs and checkpoints, so none of it is journalled,
// and a restart changes nothing. A job that is not placed yet counts as it
// would have been placed when it was first counted. Shards that lie with
// workers (allreduce) count neither as shards nor as parameters. A job that has
// ended counts only as kept, with the checkpoints that it has.
//
// Threads  the loop.
// Memory   a number per ended job: its stored bytes, read from the journal on
//          the first call.
// Errors   SL_EBUSY as in rules/quota.h; those of journal.h, which are fatal;
//          SL_ENOMEM. Outputs are set on SL_OK alone. No pointer is NULL, `err`
//          neither.
#ifndef COORDINATOR_CORE_QUOTAS_H
#define COORDINATOR_CORE_QUOTAS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/quota.h"

// What quotas count of a job until it is placed: as it would have been placed
// when it was measured, once; zeroes if it could not be.
struct job_measured {
    bool done;
    uint32_t shards;   // on psservers
    uint64_t elements; // parameters of the model
};

// Checks whether the tenant of the present caller (c->asker) may have a job of
// this spec as well; rows of tables are not looked at. Returns SL_OK, also
// without a quota; SL_EBUSY: its quota; or the error of place_measure if the
// spec cannot be measured (SL_EINVAL: its model cannot be made or cut).
enum sl_err quotas_admit(struct coord *c, const Sluice__V1__JobSpec *spec,
                         struct sl_error *err);

struct quotas_tenant {
    const char *name; // "": jobs without a tenant; borrowed until quotas_free
    struct quota_use use;
    const struct quota *quota; // likewise; NULL: no limit
};

// Sets *out to an array of *count tenants, for sl_free, also where *count is 0;
// what its entries point at is borrowed. It has the tenants with jobs or with a
// quota of their own; for a caller that may see only its own tenant (c->asker),
// that one, with jobs or without.
enum sl_err quotas_list(struct coord *c, struct quotas_tenant **out,
                        size_t *count, struct sl_error *err);

#endif
