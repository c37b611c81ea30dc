// SPDX-License-Identifier: Apache-2.0
// coordinator/core/drains.h -- members that an admin has drained: they are
// given nothing, whatever they say of themselves.
//
// It is the name that is drained, in the journal: also of the process that has
// it next, until somebody undrains it.
//
// Threads  the loop.
// Memory   a drain holds until it is taken back.
// Errors   SL_EBUSY: there are DRAINS_MAX; a journal that fails is fatal.
#ifndef COORDINATOR_CORE_DRAINS_H
#define COORDINATOR_CORE_DRAINS_H

#include "common/base/buf.h"
#include "coordinator/core/coord_inner.h"

#define DRAINS_MAX 10000

struct drain {
    struct list_node node; // in coord.drains
    enum member_role role;
    char *name, *who, *why; // owned
};

enum sl_err drains_load(struct coord *c, struct sl_error *err);
void drains_release(struct coord *c);

// NULL: it is not.
const struct drain *drains_find(const struct coord *c, enum member_role role,
                                const char *name);

// Journalled when it returns; again is another who and why.
enum sl_err drains_set(struct coord *c, enum member_role role, const char *name,
                       const char *who, const char *why, struct sl_error *err);
// One that is.
void drains_clear(struct coord *c, enum member_role role, const char *name);

// Adds who has drained it and why, for people; nothing if nobody has.
void drains_reason(const struct coord *c, const struct member *m,
                   struct buf *out);

#endif
