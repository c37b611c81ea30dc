// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/quota.h -- what a tenant may have, and whether one job more
// is within it.
//
// Looked at when a job is submitted: a job that was accepted is never refused
// for it later. So checkpoints count as what jobs may come to, not as what they
// happen to have.
//
// Threads  pure.
// Units    jobs, shards, bytes.
// Errors   SL_EINVAL of a text that is no quota. SL_EBUSY names the figure,
//          what is had of it, and what to do.
#ifndef COORDINATOR_RULES_QUOTA_H
#define COORDINATOR_RULES_QUOTA_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum quota_kind {
    QUOTA_JOBS,        // that have not ended
    QUOTA_SHARDS,      // of those, on psservers
    QUOTA_PARAMETERS,  // bytes of those, with the optimizer's slots
    QUOTA_CHECKPOINTS, // bytes: of ended jobs what is stored, of others what
                       // checkpoint.keep may come to
    QUOTA_KEPT,        // jobs that were not deleted, ended ones too
    QUOTA_KINDS
};

#define QUOTA_TENANT 65 // bytes, with the 0
#define QUOTA_FREE UINT64_MAX

struct quota {
    char tenant[QUOTA_TENANT];  // "*": of those without one of their own; "":
                                // of jobs that are nobody's
    uint64_t most[QUOTA_KINDS]; // QUOTA_FREE: no limit
};

struct quota_use {
    uint64_t n[QUOTA_KINDS];
};

// Reads "a:jobs=3,shards=64,parameters=2GiB,checkpoints=10GiB"; "-" before the
// colon is nobody.
enum sl_err quota_read(struct quota *out, const char *text,
                       struct sl_error *err);

// Finds a tenant's, or NULL: it may have what it likes.
const struct quota *quota_of(const struct quota *list, size_t count,
                             const char *tenant);

// Adds up; what is too much for a number stays the largest.
void quota_add(struct quota_use *sum, const struct quota_use *more);

// Whether a tenant that has `used` may have a job that takes `more`.
enum sl_err quota_allow(const struct quota *q, const char *tenant,
                        const struct quota_use *used,
                        const struct quota_use *more, struct sl_error *err);

#endif
