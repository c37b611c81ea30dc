// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/drains.h -- members that an admin has drained: they
// are given nothing, whatever their heartbeats say.
//
// A drain is of a name, in the journal: also of the process that has it next,
// until an admin undrains it.
//
// A worker that an audit found wrong is drained with `who` "" (A4).
//
// Threads  the loop.
// Memory   a drain holds until it is taken back or replaced. Texts, which are
//          not NULL, are copied.
// Errors   SL_EBUSY: there are DRAINS_MAX; SL_ENOMEM; a journal that fails is
//          fatal, but in drains_load. `err` may be NULL.
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

// Returns true if an audit made the drain (A4), false if a caller did.
static inline bool drain_is_audit(const struct drain *d)
{
    return d->who[0] == '\0';
}

// Reads all drains from the journal into c->drains, once after a start. Returns
// SL_OK, SL_ENOMEM, or the journal's error; a failure may leave a part of them,
// for drains_release.
enum sl_err drains_load(struct coord *c, struct sl_error *err);
// Frees all drains, in memory alone.
void drains_release(struct coord *c);

// Returns the drain of the member of that role and name, attached or not, valid
// until the next drains_set or drains_clear of that name; NULL: neither an
// admin nor an audit drains it.
const struct drain *drains_find(const struct coord *c, enum member_role role,
                                const char *name);

// Drains the name and journals that before it returns; a second call replaces
// `who` and `why`, those of an audit too. Does not change attached members: the
// caller calls member_drain. Returns SL_OK; after SL_EBUSY or SL_ENOMEM the
// drain is as it was; SL_EIO is fatal.
enum sl_err drains_set(struct coord *c, enum member_role role, const char *name,
                       const char *who, const char *why, struct sl_error *err);
// Ends the drain of the name and journals that; does nothing if there is none.
// Does not change attached members.
void drains_clear(struct coord *c, enum member_role role, const char *name);

// Appends, for people, which caller drained m and why, or that an audit did,
// and how to undrain m; after "; " if `out` has a text. Appends nothing if m is
// not drained by an admin or an audit.
void drains_reason(const struct coord *c, const struct member *m,
                   struct buf *out);

#endif
