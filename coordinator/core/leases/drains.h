// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/drains.h -- members that an admin has drained: they
// are given nothing, whatever their heartbeats say.
//
// A drain is of a name, in the journal: also of the process that has it next,
// until an admin undrains it.
//
// A worker that an audit found wrong is drained by nobody (A4).
//
// Threads  the loop.
// Memory   a drain holds until it is taken back or replaced. Texts, which are
//          not NULL, are copied.
// Errors   SL_EBUSY: there are DRAINS_MAX; SL_ENOMEM; a journal that fails is
//          fatal. `err` may be NULL.
#ifndef COORDINATOR_CORE_LEASES_DRAINS_H
#define COORDINATOR_CORE_LEASES_DRAINS_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"

#define DRAINS_MAX 10000 // most drains at a time

struct drain {
    struct list_node node; // link in coord.drains
    enum member_role role;
    // the member, the caller that drained it ("": an audit did, suspects.h),
    // and the reason; owned
    char *name, *who, *why;
};

// Says whether an audit made the drain, and not a caller (A4).
static inline bool drain_is_audit(const struct drain *d)
{
    return d->who[0] == '\0';
}

// Reads all drains from the journal, after a start. Errors of the journal, or
// SL_ENOMEM.
enum sl_err drains_load(struct coord *c, struct sl_error *err);
void drains_release(struct coord *c); // frees all drains

// Returns the drain of that name, or NULL.
const struct drain *drains_find(const struct coord *c, enum member_role role,
                                const char *name);

// Drains a name, and journals that before it returns; a second call replaces
// `who` and `why`. Attached members are not touched: member_drain. A failure
// leaves the drain as it was, unless it is fatal (SL_EIO).
enum sl_err drains_set(struct coord *c, enum member_role role, const char *name,
                       const char *who, const char *why, struct sl_error *err);
// Ends the drain of a name, if there is one, likewise.
void drains_clear(struct coord *c, enum member_role role, const char *name);

// Appends which caller drained m, and why, for people, after "; " if `out` has
// a text; nothing if it is not.
void drains_reason(const struct coord *c, const struct member *m,
                   struct buf *out);

#endif
