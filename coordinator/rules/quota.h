// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/quota.h -- a tenant's limits, and whether one more job is
// within them.
//
// Quotas apply when a job is submitted: a job that was accepted is never
// refused for one later. So checkpoints count as what jobs may come to, not as
// what they happen to have. Rows of sparse tables are the exception: what they
// may come to is not known, so psservers count them (state/rows/row_memory.h),
// and the job that needs more than is left fails.
//
// Threads  pure.
// Memory   values; quota_of returns an item of the caller's list. Texts are
//          borrowed for the call. No pointer is NULL but where it is said.
// Units    jobs, shards, bytes. A limit is the most that is allowed.
// Errors   SL_EINVAL of a text that is no quota. SL_EBUSY names the figure,
//          what is had of it, and what to do. `err` may be NULL.
#ifndef COORDINATOR_RULES_QUOTA_H
#define COORDINATOR_RULES_QUOTA_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum quota_kind {
    QUOTA_JOBS,       // jobs that have not ended
    QUOTA_SHARDS,     // shards of those jobs, on psservers
    QUOTA_PARAMETERS, // bytes of parameters and optimizer slots of those jobs
    // bytes: for ended jobs what is stored, for others what checkpoint.keep may
    // come to
    QUOTA_CHECKPOINTS,
    QUOTA_KEPT, // jobs that were not deleted, ended ones too
    // bytes of the rows of those jobs on each psserver, which keeps this limit;
    // used: on that which has most
    QUOTA_ROWS,
    QUOTA_ROWS_DISK, // likewise, bytes of the psserver's --rows-dir
    QUOTA_KINDS
};

#define QUOTA_TENANT 65 // bytes, with the 0
#define QUOTA_FREE UINT64_MAX

struct quota {
    // Tenant; "*": each tenant without a quota of its own; "": jobs without a
    // tenant.
    char tenant[QUOTA_TENANT];
    uint64_t most[QUOTA_KINDS]; // QUOTA_FREE: no limit
};

struct quota_use {
    uint64_t n[QUOTA_KINDS];
};

// Reads a text such as "a:jobs=3,shards=64,parameters=2GiB,checkpoints=10GiB"
// into *out: the tenant, then one limit or more, of these, kept=N, rows=BYTES
// and rows_disk=BYTES, each once at most; what is not said is QUOTA_FREE. A
// tenant is up to 64 of letters, digits and ".-_", or "*"; "-" alone stands for
// jobs without a tenant, and becomes "". A limit of 0 allows none. Returns
// SL_OK; SL_EINVAL names the mistake, and leaves *out alone.
enum sl_err quota_read(struct quota *out, const char *text,
                       struct sl_error *err);

// Returns the first quota of the `count` in `list` that is for `tenant`, or
// that of "*" if the tenant has none of its own; NULL: no limit. A job without
// a tenant ("") never gets that of "*". `list` may be NULL if `count` is 0.
const struct quota *quota_of(const struct quota *list, size_t count,
                             const char *tenant);

// Adds each figure of `more` to that of `sum`; one that would overflow becomes
// UINT64_MAX.
void quota_add(struct quota_use *sum, const struct quota_use *more);

// Returns SL_OK if a tenant that has `used` may have a job that takes `more`,
// under the quota q, which is not NULL; else SL_EBUSY for the first figure, in
// the order of enum quota_kind, that would exceed its limit. A figure that
// `more` does not raise is not checked, even if it is above the limit already.
// `more` has 0 of QUOTA_ROWS and QUOTA_ROWS_DISK. `tenant` ("": none) is only
// for the text of the error.
enum sl_err quota_allow(const struct quota *q, const char *tenant,
                        const struct quota_use *used,
                        const struct quota_use *more, struct sl_error *err);

#endif
