// SPDX-License-Identifier: Apache-2.0
// coordinator/core/calls_drain.c -- the call of an admin that drains a member
// and takes it back.
//
// A drained worker ends the lease that it computes; those that wait behind it
// are taken back, and so is a place in a ring or a group, which has no end. A
// psserver gets no more shards, and those that it has move away (move.h).
#include "coordinator/core/coord.h"

#include <string.h>

#include "common/run/log.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/leases/tainted.h"

static void take_kind(struct coord *c, struct member *m, bool rings, bool all)
{
    bool kept = all;

    list_for_safe(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if ((w->kind == WORK_RING) != rings)
            continue;
        if (kept && !all)
            leases_take_back(c, m, w, "this worker is drained");
        else if (kept)
            leases_revoke(c, m, w, "this worker is drained");
        kept = true;
        if (c->dead)
            return;
    }
}

// Takes a drained worker's leases back, but for the first: it is computed,
// unless the worker computes within a place in a group.
static void calls_drain_revoke(struct coord *c, struct member *m)
{
    take_kind(c, m, false, m->seated);
    if (!c->dead)
        take_kind(c, m, true, true);
}

static enum sl_err calls_drain_member(struct coord *c, struct member *m,
                                      const Sluice__V1__DrainRequest *request,
                                      bool *changed, struct sl_error *err)
{
    const char *who = request->who[0] != '\0' ? request->who : "somebody";
    const struct drain *had = drains_find(c, m->role, m->name);
    enum sl_err rc;

    if (had != NULL && strcmp(had->who, who) == 0 &&
        strcmp(had->why, request->why) == 0)
        return SL_OK;
    rc = drains_set(c, m->role, m->name, who, request->why, err);
    if (rc != SL_OK)
        return rc;
    *changed = true;
    member_drain(m, true);
    LOG(INFO, "member drained", "kind=%s member=%s by=%s why=%s",
        member_role_name(m->role), m->name, who, request->why);
    happened(c, EVENT_MEMBER_DRAINS, m,
             "%s %s gets no more work: drained by %s%s%s",
             member_role_name(m->role), m->name, who,
             request->why[0] == '\0' ? "" : ": ", request->why);
    if (m->role == MEMBER_WORKER)
        calls_drain_revoke(c, m);
    return SL_OK;
}

static void undrain(struct coord *c, enum member_role role, const char *name,
                    struct member *m, bool *changed)
{
    drains_clear(c, role, name);
    if (role == MEMBER_WORKER && !c->dead)
        tainted_drop(c, name);
    *changed = true;
    LOG(INFO, "member undrained", "kind=%s member=%s", member_role_name(role),
        name);
    happened(c, EVENT_MEMBER_STAYS, m, "%s %s may get work again",
             member_role_name(role), name);
    if (m != NULL)
        member_drain(m, false);
}

// Finds the role of the named member: the request's, or the role of the member
// with that name. Returns false if no member has it.
static bool find_role(const struct coord *c,
                      const Sluice__V1__DrainRequest *request,
                      enum member_role *role)
{
    static const enum member_role roles[] = {MEMBER_WORKER, MEMBER_PSSERVER};

    for (size_t i = 0; i < SL_COUNT(roles); i++) {
        *role = roles[i];
        if (request->role[0] != '\0' &&
            strcmp(request->role, member_role_name(*role)) != 0)
            continue;
        if (members_find(&c->members, *role, request->name) != NULL ||
            (request->undrain && drains_find(c, *role, request->name) != NULL))
            return true;
    }
    return false;
}

static enum sl_err calls_drain_check(const struct coord *c,
                                     const Sluice__V1__DrainRequest *request,
                                     enum member_role *role,
                                     struct sl_error *err)
{
    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    if (request->role[0] != '\0' && strcmp(request->role, "worker") != 0 &&
        strcmp(request->role, "psserver") != 0)
        return sl_fail(err, SL_EINVAL,
                       "'%.60s' is not a role of a member; the roles are "
                       "worker and psserver",
                       request->role);
    if (!find_role(c, request, role))
        return sl_fail(
            err, SL_ENOENT,
            "no %s '%.100s' is attached%s; `sluice status` lists them",
            request->role[0] != '\0' ? request->role : "worker or psserver",
            request->name, request->undrain ? ", or drained" : "");
    return SL_OK;
}

enum sl_err coord_drain(struct coord *c,
                        const Sluice__V1__DrainRequest *request, bool *changed,
                        struct sl_error *err)
{
    enum member_role role = MEMBER_WORKER;
    struct member *m;
    enum sl_err rc = calls_drain_check(c, request, &role, err);

    if (rc != SL_OK)
        return rc;
    m = members_find(&c->members, role, request->name);
    if (!request->undrain)
        rc = calls_drain_member(c, m, request, changed, err);
    else if (drains_find(c, role, request->name) != NULL)
        undrain(c, role, request->name, m, changed);
    if (rc == SL_OK && !c->dead)
        serve_workers(c);
    return c->dead ? sl_fail(err, SL_EIO, "the journal could not be written")
                   : rc;
}
