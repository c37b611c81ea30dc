// SPDX-License-Identifier: Apache-2.0
// coordinator/core/quotas.c -- the sums over the jobs of each tenant.
#include "coordinator/core/quotas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/quota_list.h"
#include "coordinator/core/shards/place.h"
#include "proto/spec.h"

// Finds the number of the tenant of a job.
static enum sl_err number_of_job(struct coord *c, uint64_t job, uint32_t *out,
                                 struct sl_error *err)
{
    char tenant[JOURNAL_TENANT];
    enum sl_err rc = journal_job_tenant(c->journal, job, tenant, err);

    if (rc != SL_OK)
        return coord_fatal(c, err);
    *out = quotas_tenant_number(c->quotas, tenant);
    return *out != 0 ? SL_OK
                     : sl_fail(err, SL_ENOMEM, "no memory for one more tenant");
}

// ---- what one job has

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// `shards` are those on psservers, `elements` those of all parameters.
static struct quota_use use_of_spec(const struct coord *c,
                                    const Sluice__V1__JobSpec *spec,
                                    uint32_t shards, uint64_t elements)
{
    uint64_t vector = times(elements, sizeof(float));
    const Sluice__V1__OptimizerSpec *o = spec_shard_optimizer(spec);
    uint64_t bytes =
        times(vector, 1 + (o == NULL ? 0 : spec_optimizer_slots(o)));
    struct quota_use use = {.n = {[QUOTA_JOBS] = 1, [QUOTA_KEPT] = 1}};

    use.n[QUOTA_SHARDS] = shards;
    if (!mode_of(c, spec)->on_workers)
        use.n[QUOTA_PARAMETERS] = times(vector, spec_kept_vectors(spec));
    // What the job may come to keep, so that no cut is refused that a caller
    // waits for.
    use.n[QUOTA_CHECKPOINTS] = times(bytes, spec->checkpoint->keep);
    return use;
}

static uint64_t stored_by(const struct job *job)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < job->cuts.count; i++)
        bytes += job->cuts.list[i].checkpoint->bytes;
    return bytes;
}

// Measures a job that is not placed, once: a model may have 10,000 layers. One
// that cannot be measured will not be placed either.
static void quotas_measure(struct coord *c, struct job *job)
{
    if (job->measured.done)
        return;
    job->measured.done = true;
    if (place_measure(c, job->spec, &job->measured.shards,
                      &job->measured.elements, NULL) != SL_OK)
        job->measured.shards = 0, job->measured.elements = 0;
}

// Returns the use of a job that has not ended, or ended lately.
static struct quota_use use_of_job(struct coord *c, struct job *job)
{
    struct quota_use use = {.n = {[QUOTA_KEPT] = 1}};
    uint64_t elements = job->shards.parameters, stored = stored_by(job);
    uint32_t shards = job_psserver_shards(job);

    if (job_ended(job)) {
        use.n[QUOTA_CHECKPOINTS] = stored;
        return use;
    }
    if (!job->shards.placed) {
        quotas_measure(c, job);
        shards = job->measured.shards;
        elements = job->measured.elements;
    }
    use = use_of_spec(c, job->spec, shards, elements);
    if (use.n[QUOTA_CHECKPOINTS] < stored)
        use.n[QUOTA_CHECKPOINTS] = stored;
    return use;
}

static enum sl_err add_cut(void *arg, const struct journal_cut *row,
                           struct sl_error *err)
{
    ProtobufCMessage *reply = NULL;
    const Sluice__V1__CheckpointsReply *one;
    uint64_t *bytes = arg;

    if (row->state != JOURNAL_CUT_PUBLISHED ||
        wire_load(&reply, &sluice__v1__checkpoints_reply__descriptor,
                  row->checkpoint.data, row->checkpoint.bytes, err) != SL_OK)
        return SL_OK; // an unreadable row has no size either
    one = (const Sluice__V1__CheckpointsReply *)reply;
    for (size_t i = 0; i < one->n_checkpoints; i++)
        *bytes += one->checkpoints[i]->bytes;
    wire_free(reply);
    return SL_OK;
}

// Measures a job that ended a while ago, and changes no more.
static enum sl_err measure_ended(struct coord *c, struct ended_job *e,
                                 struct sl_error *err)
{
    uint64_t bytes = 0;
    enum sl_err rc = journal_each_cut(c->journal, e->id, add_cut, &bytes, err);

    if (rc != SL_OK)
        return coord_fatal(c, err);
    rc = number_of_job(c, e->id, &e->tenant, err);
    if (rc == SL_OK)
        e->stored = bytes;
    return rc;
}

// ---- what all jobs have

struct sums {
    struct coord *c;
    struct quota_use *of; // by the tenant's number - 1
    uint32_t space;
};

static enum sl_err quotas_add_use(struct sums *s, uint32_t tenant,
                                  const struct quota_use *use,
                                  struct sl_error *err)
{
    struct quota_use *more;

    if (tenant > s->space) {
        more = sl_realloc_array(s->of, 2 * (size_t)tenant, sizeof(*more));
        if (more == NULL)
            return sl_fail(err, SL_ENOMEM, "quotas");
        memset(more + s->space, 0, (2 * tenant - s->space) * sizeof(*more));
        s->of = more;
        s->space = 2 * tenant;
    }
    quota_add(&s->of[tenant - 1], use);
    return SL_OK;
}

static enum sl_err add_jobs(struct sums *s, struct sl_error *err)
{
    size_t at = 0;
    void *value;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && map_next(&s->c->jobs.by_id, &at, NULL, &value)) {
        struct job *job = value;
        struct quota_use use = use_of_job(s->c, job);
        uint32_t tenant = 0;

        rc = number_of_job(s->c, job->id, &tenant, err);
        if (rc == SL_OK)
            rc = quotas_add_use(s, tenant, &use, err);
    }
    return rc;
}

static enum sl_err quotas_add_ended(struct sums *s, struct sl_error *err)
{
    size_t at = 0;
    void *value;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && map_next(&s->c->jobs.ended, &at, NULL, &value)) {
        struct quota_use use = {.n = {[QUOTA_KEPT] = 1}};
        struct ended_job *e = value;

        if (e->tenant == 0)
            rc = measure_ended(s->c, e, err);
        use.n[QUOTA_CHECKPOINTS] = e->stored;
        if (rc == SL_OK)
            rc = quotas_add_use(s, e->tenant, &use, err);
    }
    return rc;
}

// Sums the use of all jobs; sums_release must follow in every case. Counted
// anew at each submission: two jobs cannot both get the last place, and a
// restart changes nothing.
static enum sl_err sums_make(struct sums *s, struct coord *c,
                             struct sl_error *err)
{
    enum sl_err rc;

    *s = (struct sums){.c = c};
    rc = add_jobs(s, err);
    return rc == SL_OK ? quotas_add_ended(s, err) : rc;
}

static void sums_release(struct sums *s)
{
    sl_free(s->of);
}

static struct quota_use quotas_tenant_sum(const struct sums *s, uint32_t tenant)
{
    return tenant <= s->space ? s->of[tenant - 1]
                              : (struct quota_use){.n = {0}};
}

enum sl_err quotas_admit(struct coord *c, const Sluice__V1__JobSpec *spec,
                         struct sl_error *err)
{
    const char *tenant = c->asker.tenant;
    const struct quota *q = quotas_of_tenant(c->quotas, tenant);
    struct quota_use used, more;
    uint64_t elements = 0;
    uint32_t shards = 0, number;
    struct sums sums;
    enum sl_err rc;

    if (q == NULL)
        return SL_OK;
    number = quotas_tenant_number(c->quotas, tenant);
    if (number == 0)
        return sl_fail(err, SL_ENOMEM, "quotas");
    rc = place_measure(c, spec, &shards, &elements, err);
    if (rc != SL_OK)
        return rc;
    rc = sums_make(&sums, c, err);
    if (rc == SL_OK) {
        used = quotas_tenant_sum(&sums, number);
        more = use_of_spec(c, spec, shards, elements);
        rc = quota_allow(q, tenant, &used, &more, err);
    }
    sums_release(&sums);
    return rc;
}

// ---- rows of tables, on each psserver

// What the rows of one shard take.
struct shard_use {
    uint32_t tenant;
    uint64_t server;
    struct rows_sum rows;
};

struct shard_uses {
    struct shard_use *list; // owned
    size_t count, room;
};

static enum sl_err shard_uses_add(struct shard_uses *u,
                                  const struct shard_use *one,
                                  struct sl_error *err)
{
    if (u->count == u->room) {
        size_t room = 2 * u->room + 64;
        struct shard_use *more = sl_realloc_array(u->list, room, sizeof(*more));

        if (more == NULL)
            return sl_fail(err, SL_ENOMEM, "quotas");
        u->list = more;
        u->room = room;
    }
    u->list[u->count++] = *one;
    return SL_OK;
}

static enum sl_err shard_uses_of_job(struct shard_uses *u, struct coord *c,
                                     const struct job *job,
                                     struct sl_error *err)
{
    struct shard_use one = {0};
    enum sl_err rc = number_of_job(c, job->id, &one.tenant, err);

    for (uint32_t i = 0; rc == SL_OK && i < job->shards.count; i++) {
        const struct job_shard *s = &job->shards.list[i];

        one.server = s->server;
        one.rows = shard_rows_sum(&s->rows);
        if (one.server != 0 && one.rows.bytes + one.rows.disk > 0)
            rc = shard_uses_add(u, &one, err);
    }
    return rc;
}

static int shard_use_order(const void *a, const void *b)
{
    const struct shard_use *x = a, *y = b;

    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    return x->server < y->server ? -1 : x->server > y->server;
}

// Sets each tenant's use of rows, and of disk for them, to that on the psserver
// where it is largest.
static enum sl_err sums_add_rows(struct sums *s, struct sl_error *err)
{
    struct shard_uses u = {0};
    enum sl_err rc = SL_OK;
    struct rows_sum here = {0};

    list_for(n, &s->c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);

        if (rc == SL_OK && job->shards.placed && !job_ended(job))
            rc = shard_uses_of_job(&u, s->c, job, err);
    }
    if (rc == SL_OK && u.count > 0)
        qsort(u.list, u.count, sizeof(*u.list), shard_use_order);
    for (size_t i = 0; rc == SL_OK && i < u.count; i++) {
        struct quota_use *of = &s->of[u.list[i].tenant - 1];
        const struct rows_sum *rows = &u.list[i].rows;

        if (i == 0 || shard_use_order(&u.list[i - 1], &u.list[i]) != 0)
            here = (struct rows_sum){0};
        here.bytes += rows->bytes;
        here.disk += rows->disk;
        if (here.bytes > of->n[QUOTA_ROWS])
            of->n[QUOTA_ROWS] = here.bytes;
        if (here.disk > of->n[QUOTA_ROWS_DISK])
            of->n[QUOTA_ROWS_DISK] = here.disk;
    }
    sl_free(u.list);
    return rc;
}

// ---- for people

static bool had(const struct quota_use *use)
{
    for (unsigned i = 0; i < QUOTA_KINDS; i++) {
        if (use->n[i] > 0)
            return true;
    }
    return false;
}

static bool quotas_has_tenant(const struct quotas *q, const char *tenant)
{
    for (size_t i = 0; i < q->count; i++) {
        if (strcmp(q->list[i].tenant, tenant) == 0)
            return true;
    }
    return false;
}

// Numbers the tenants that have a quota and no job yet.
static enum sl_err meet_named(struct coord *c, struct sl_error *err)
{
    const struct quotas *q = c->quotas;
    bool met = quotas_tenant_number(c->quotas, c->asker.tenant) != 0;

    for (size_t i = 0; met && i < q->count; i++) {
        if (strcmp(q->list[i].tenant, "*") != 0)
            met = quotas_tenant_number(c->quotas, q->list[i].tenant) != 0;
    }
    return met ? SL_OK : sl_fail(err, SL_ENOMEM, "quotas");
}

enum sl_err quotas_list(struct coord *c, struct quotas_tenant **out,
                        size_t *count, struct sl_error *err)
{
    const struct quotas *q = c->quotas;
    struct quotas_tenant *list = NULL;
    struct sums sums;
    size_t n = 0;
    enum sl_err rc = sums_make(&sums, c, err);

    if (rc == SL_OK)
        rc = sums_add_rows(&sums, err);
    if (rc == SL_OK)
        rc = meet_named(c, err);
    if (rc == SL_OK) {
        list = sl_malloc_array(q->names_count, sizeof(*list));
        rc = list != NULL ? SL_OK : sl_fail(err, SL_ENOMEM, "quotas");
    }
    for (uint32_t i = 0; rc == SL_OK && i < q->names_count; i++) {
        struct quotas_tenant one = {
            .name = q->names[i],
            .use = quotas_tenant_sum(&sums, i + 1),
            .quota = quota_of(q->list, q->count, q->names[i]),
        };

        if (c->asker.only ? strcmp(one.name, c->asker.tenant) == 0
                          : had(&one.use) || quotas_has_tenant(q, one.name))
            list[n++] = one;
    }
    sums_release(&sums);
    if (rc != SL_OK)
        return rc;
    *out = list;
    *count = n;
    return SL_OK;
}
