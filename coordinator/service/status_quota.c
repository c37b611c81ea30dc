// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_quota.c -- the list of tenants' quotas and use.
#include "coordinator/service/status_lists.h"

#include "common/base/mem.h"
#include "coordinator/core/quotas.h"

static void status_quota_fill_figure(Sluice__V1__QuotaFigure *out,
                                     const struct quotas_tenant *t,
                                     enum quota_kind kind)
{
    *out = (Sluice__V1__QuotaFigure)SLUICE__V1__QUOTA_FIGURE__INIT;
    out->used = t->use.n[kind];
    out->limited = t->quota != NULL && t->quota->most[kind] != QUOTA_FREE;
    if (out->limited)
        out->most = t->quota->most[kind];
}

static enum sl_err status_quota_add_tenant(Sluice__V1__QuotaReply *m,
                                           const struct quotas_tenant *t)
{
    Sluice__V1__QuotaFigure of[QUOTA_KINDS];
    Sluice__V1__QuotaTenant one = SLUICE__V1__QUOTA_TENANT__INIT;
    ProtobufCMessage *copy = NULL;
    enum sl_err rc;

    for (unsigned i = 0; i < QUOTA_KINDS; i++)
        status_quota_fill_figure(&of[i], t, (enum quota_kind)i);
    one.tenant = (char *)t->name;
    one.jobs = &of[QUOTA_JOBS];
    one.shards = &of[QUOTA_SHARDS];
    one.parameters = &of[QUOTA_PARAMETERS];
    one.checkpoints = &of[QUOTA_CHECKPOINTS];
    one.kept = &of[QUOTA_KEPT];
    one.rows = &of[QUOTA_ROWS];
    one.rows_disk = &of[QUOTA_ROWS_DISK];
    rc = wire_dup(&copy, &one.base);
    if (rc == SL_OK)
        m->tenants[m->n_tenants++] = (Sluice__V1__QuotaTenant *)copy;
    return rc;
}

enum sl_err status_quota(struct coord *c,
                         const Sluice__V1__QuotaRequest *request,
                         Sluice__V1__QuotaReply **reply, struct sl_error *err)
{
    struct quotas_tenant *list = NULL;
    Sluice__V1__QuotaReply *m;
    size_t count = 0;
    enum sl_err rc = quotas_list(c, &list, &count, err);

    (void)request;
    if (rc != SL_OK)
        return rc;
    m = wire_new(&sluice__v1__quota_reply__descriptor);
    if (m != NULL)
        m->tenants = sl_calloc(count, sizeof(*m->tenants));
    rc = m == NULL || m->tenants == NULL ? SL_ENOMEM : SL_OK;
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = status_quota_add_tenant(m, &list[i]);
    sl_free(list);
    if (rc != SL_OK) {
        wire_free((ProtobufCMessage *)m);
        return sl_fail(err, rc, "a list of tenants");
    }
    *reply = m;
    return SL_OK;
}
