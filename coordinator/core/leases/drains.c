// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/drains.c -- the list of drains, as in the journal.
#include "coordinator/core/leases/drains.h"

#include <string.h>

#include "common/base/mem.h"

static void drain_free(struct drain *d)
{
    list_remove(&d->node);
    sl_free(d->name);
    sl_free(d->who);
    sl_free(d->why);
    sl_free(d);
}

void drains_release(struct coord *c)
{
    struct list_node *n;

    while ((n = list_first(&c->drains)) != NULL)
        drain_free(list_entry(n, struct drain, node));
}

static struct drain *drains_find_entry(const struct coord *c,
                                       enum member_role role, const char *name)
{
    list_for(n, &c->drains)
    {
        struct drain *d = list_entry(n, struct drain, node);

        if (d->role == role && strcmp(d->name, name) == 0)
            return d;
    }
    return NULL;
}

const struct drain *drains_find(const struct coord *c, enum member_role role,
                                const char *name)
{
    return drains_find_entry(c, role, name);
}

static struct drain *drains_append(struct coord *c, enum member_role role,
                                   const char *name, const char *who,
                                   const char *why)
{
    struct drain *d = sl_calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->role = role;
    d->name = sl_strdup(name);
    d->who = sl_strdup(who);
    d->why = sl_strdup(why);
    list_push_back(&c->drains, &d->node);
    if (d->name != NULL && d->who != NULL && d->why != NULL)
        return d;
    drain_free(d);
    return NULL;
}

static enum sl_err drains_load_row(void *arg, int role, const char *name,
                                   const char *who, const char *why,
                                   struct sl_error *err)
{
    return drains_append(arg, (enum member_role)role, name, who, why) != NULL
               ? SL_OK
               : sl_fail(err, SL_ENOMEM, "drained members");
}

enum sl_err drains_load(struct coord *c, struct sl_error *err)
{
    return journal_each_drain(c->journal, drains_load_row, c, err);
}

static size_t drains_count(const struct coord *c)
{
    size_t n = 0;

    list_for(node, &c->drains) n++;
    return n;
}

enum sl_err drains_set(struct coord *c, enum member_role role, const char *name,
                       const char *who, const char *why, struct sl_error *err)
{
    struct drain *old = drains_find_entry(c, role, name), *d;

    if (old == NULL && drains_count(c) >= DRAINS_MAX)
        return sl_fail(err, SL_EBUSY,
                       "%d members are drained, which is the limit: undrain "
                       "members that will not come back",
                       DRAINS_MAX);
    d = drains_append(c, role, name, who, why);
    if (d == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for one more drained member");
    if (!coord_wrote(
            c, journal_drain(c->journal, (int)role, name, who, why, &c->err)))
        return sl_fail(err, SL_EIO, "the journal could not be written");
    if (old != NULL)
        drain_free(old);
    return SL_OK;
}

void drains_clear(struct coord *c, enum member_role role, const char *name)
{
    struct drain *d = drains_find_entry(c, role, name);

    if (d != NULL && coord_wrote(c, journal_drain(c->journal, (int)role, name,
                                                  NULL, NULL, &c->err)))
        drain_free(d);
}

void drains_reason(const struct coord *c, const struct member *m,
                   struct buf *out)
{
    const struct drain *d =
        m->drained ? drains_find(c, m->role, m->name) : NULL;

    if (d != NULL)
        (void)buf_appendf(out, "%s%s%s%s%s; `sluice undrain %s` takes it back",
                          out->len > 0 ? "; " : "",
                          drain_is_audit(d) ? "suspect" : "drained by ", d->who,
                          d->why[0] == '\0' ? "" : ": ", d->why, d->name);
}
