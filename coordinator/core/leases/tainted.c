// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/tainted.c -- see tainted.h.
#include "coordinator/core/leases/tainted.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/job.h"
#include "coordinator/journal/journal.h"

// ---- records

// Removes the record of the worker that contributed longest ago.
static void tainted_evict(struct map *records)
{
    uint64_t key, oldest = 0, least = UINT64_MAX;
    size_t at = 0;
    void *value;

    while (map_next(records, &at, &key, &value)) {
        if (contributed_newest(value) < least) {
            least = contributed_newest(value);
            oldest = key;
        }
    }
    sl_free(map_remove(records, oldest));
}

// Returns the record of a worker, made if there is none; NULL: no memory.
static struct contributed *tainted_record(struct job *job,
                                          const struct member *m)
{
    struct map *records = &job->audit.contributed;
    struct contributed *r = map_get(records, m->identity);

    if (r != NULL)
        return r;
    if (records->len >= TAINTED_WORKERS)
        tainted_evict(records);
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL || map_put(records, m->identity, r) == SL_OK)
        return r;
    sl_free(r);
    return NULL;
}

void tainted_contributed(const struct work *w, uint64_t steps)
{
    struct contributed *r =
        w->kind == WORK_TRAIN ? tainted_record(w->job, w->holder) : NULL;

    if (r != NULL)
        contributed_add(r, w->closure.id, steps);
}

void tainted_clean(struct job *job, const struct member *m, uint64_t closure)
{
    struct contributed *r = tainted_record(job, m);
    const struct job_cut *cut = job_last_cut(job);

    if (r != NULL)
        contributed_clean(r, closure, cut == NULL ? 0 : cut->n);
}

const struct contributed *tainted_of(const struct job *job, const char *name)
{
    return map_get(&job->audit.contributed, sl_hash64(name, strlen(name)));
}

// ---- what is kept of suspects

struct tainted {
    struct list_node node; // link in coord.tainted
    Sluice__V1__TaintedWork *work;
};

static void tainted_free(struct tainted *t)
{
    list_remove(&t->node);
    wire_free(&t->work->base);
    sl_free(t);
}

void tainted_release(struct coord *c)
{
    struct list_node *n;

    while ((n = list_first(&c->tainted)) != NULL)
        tainted_free(list_entry(n, struct tainted, node));
}

// Adds a copy of `work`.
static enum sl_err tainted_append(struct coord *c,
                                  const Sluice__V1__TaintedWork *work)
{
    struct tainted *t = sl_calloc(1, sizeof(*t));
    ProtobufCMessage *copy = NULL;

    if (t == NULL || wire_dup(&copy, &work->base) != SL_OK) {
        sl_free(t);
        return SL_ENOMEM;
    }
    t->work = (Sluice__V1__TaintedWork *)copy;
    list_push_back(&c->tainted, &t->node);
    return SL_OK;
}

static enum sl_err tainted_load_row(void *arg, struct journal_blob work,
                                    struct sl_error *err)
{
    ProtobufCMessage *m = NULL;
    enum sl_err rc = wire_load(&m, &sluice__v1__tainted_work__descriptor,
                               work.data, work.bytes, err);

    if (rc == SL_OK)
        rc = tainted_append(arg, (const Sluice__V1__TaintedWork *)m);
    wire_free(m);
    return rc == SL_OK ? SL_OK
                       : sl_fail(err, rc, "what suspect workers contributed");
}

enum sl_err tainted_load(struct coord *c, struct sl_error *err)
{
    return journal_each_taint(c->journal, tainted_load_row, c, err);
}

static void tainted_write(struct coord *c, const struct job *job,
                          const Sluice__V1__TaintedWork *work)
{
    struct buf bytes = BUF_INIT;

    if (tainted_append(c, work) == SL_OK &&
        wire_pack(&work->base, &bytes) == SL_OK)
        coord_wrote(c,
                    journal_taint(c->journal, work->worker, job->id,
                                  (struct journal_blob){bytes.data, bytes.len},
                                  &c->err));
    buf_release(&bytes);
}

static void tainted_keep_job(struct coord *c, const struct job *job,
                             const char *name)
{
    const struct contributed *r = tainted_of(job, name);
    Sluice__V1__TaintedWork work = SLUICE__V1__TAINTED_WORK__INIT;
    Sluice__V1__TaintedRange ranges[CONTRIBUTED_RANGES],
        *list[CONTRIBUTED_RANGES];

    if (r == NULL || r->count == 0)
        return;
    for (uint32_t i = 0; i < r->count; i++) {
        ranges[i] = (Sluice__V1__TaintedRange)SLUICE__V1__TAINTED_RANGE__INIT;
        ranges[i].first = r->ranges[i].first;
        ranges[i].last = r->ranges[i].last;
        list[i] = &ranges[i];
    }
    work.worker = (char *)name;
    work.job = (char *)job->id_text;
    work.audited = r->audited;
    work.closure = r->closure;
    work.cut = r->cut;
    work.closures = contributed_total(r, false);
    work.steps = contributed_total(r, true);
    work.rough = contributed_rough(r);
    work.ranges = list;
    work.n_ranges = r->count;
    tainted_write(c, job, &work);
}

void tainted_keep(struct coord *c, const char *name)
{
    tainted_drop(c, name);
    list_for(n, &c->jobs.active)
    {
        if (!c->dead)
            tainted_keep_job(c, list_entry(n, struct job, on_active), name);
    }
}

void tainted_drop(struct coord *c, const char *name)
{
    bool any = false;

    list_for_safe(n, &c->tainted)
    {
        struct tainted *t = list_entry(n, struct tainted, node);

        if (strcmp(t->work->worker, name) != 0)
            continue;
        any = true;
        tainted_free(t);
    }
    if (any)
        coord_wrote(c, journal_untaint(c->journal, name, &c->err));
}

// ---- lists

static bool tainted_add(const Sluice__V1__TaintedWork *work,
                        Sluice__V1__TaintedWork ***list, size_t *count)
{
    Sluice__V1__TaintedWork **more =
        sl_realloc_array(*list, *count + 1, sizeof(*more));
    ProtobufCMessage *copy = NULL;

    if (more != NULL)
        *list = more;
    if (more == NULL || wire_dup(&copy, &work->base) != SL_OK)
        return false;
    more[(*count)++] = (Sluice__V1__TaintedWork *)copy;
    return true;
}

void tainted_list(const struct coord *c, const char *name, const char *job,
                  Sluice__V1__TaintedWork ***list, size_t *count)
{
    list_for(n, &c->tainted)
    {
        const Sluice__V1__TaintedWork *work =
            list_entry(n, struct tainted, node)->work;

        if ((name == NULL || strcmp(work->worker, name) == 0) &&
            (job == NULL || strcmp(work->job, job) == 0) &&
            !tainted_add(work, list, count))
            return;
    }
}
