// SPDX-License-Identifier: Apache-2.0
// lib/jobs.c -- what a session keeps of a job: its vectors, its optimizer's
// settings, and the way to its shards.
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "lib/inner.h"
#include "lib/space.h"
#include "trainer/push/sync_ps.h"

#define JOBS_KEPT 8 // per session, so many vectors at most

struct job_map_wish {
    struct sluice *session;
    uint64_t job, have;
};

static void jobs_on_want_map(void *arg)
{
    struct job_map_wish *w = arg;

    worker_member_want_map(w->session->member, w->job, w->have);
    sl_free(w);
}

// Without memory the wish is dropped: it comes again.
static void jobs_want_map(void *arg, uint64_t job, uint64_t have)
{
    struct job_map_wish *w = sl_malloc(sizeof(*w));
    struct sluice *s = arg;

    if (w == NULL)
        return;
    *w = (struct job_map_wish){s, job, have};
    if (loop_post(s->loop, jobs_on_want_map, w) != SL_OK)
        sl_free(w);
}

static void drop_sync(struct kept_job *j)
{
    if (j->sync == NULL)
        return;
    record_attach(j->record, NULL);
    j->sync->ops->free(j->sync);
    j->sync = NULL;
}

static void job_drop(struct kept_job *j)
{
    drop_sync(j);
    job_tables_free(j->tables);
    job_ring_free(j->ring);
    hybrid_free(j->hybrid);
    model_free(j->model);
    record_unref(j->record);
    if (j->space_bytes > 0) {
        space_free(j->params, j->space_bytes);
        space_free(j->grads, j->space_bytes);
        space_free(j->narrow, j->space_bytes / 2);
    } else {
        sl_free(j->params);
        sl_free(j->grads);
    }
    sl_free(j);
}

static enum sl_err jobs_read_spec(struct kept_job *j, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = j->record->open->spec;
    enum sl_err rc = model_make(&j->model, spec->model, err);

    if (rc == SL_OK && !j->model->external)
        rc = sl_fail(err, SL_ENOTSUP, "the job's model is not external");
    if (rc == SL_OK)
        rc = record_fits(j->record, j->model, err);
    if (rc == SL_OK)
        rc = job_tables_new(
            &j->tables, spec->model,
            j->record->layout.shards_count - j->record->first_range, err);
    if (rc != SL_OK)
        return rc;
    j->nonfinite = nonfinite_rule(spec->train);
    return spec->optimizer == NULL // mode local
               ? SL_OK
               : spec_optimizer(&j->optimizer, spec->optimizer, err);
}

// Address space alone.
static enum sl_err jobs_make_spaces(struct kept_job *j, struct sl_error *err)
{
    size_t bytes = (size_t)j->record->layout.elements * sizeof(float);
    bool narrow = spec_wire(j->record->open->spec) != WIRE_F32;

    j->space_bytes = bytes;
    j->params = space_new(bytes);
    j->grads = space_new(bytes);
    j->narrow = narrow ? space_new(bytes / 2) : NULL;
    if (j->params == NULL || j->grads == NULL || (j->narrow == NULL) == narrow)
        return sl_fail(err, SL_ENOMEM,
                       "no address space for %" PRIu64 " parameters and "
                       "gradients (ulimit -v, vm.overcommit_memory)",
                       j->record->layout.elements);
    return SL_OK;
}

static enum sl_err jobs_make_vectors(struct kept_job *j, struct sl_error *err)
{
    size_t bytes = (size_t)j->record->layout.elements * sizeof(float);

    j->params = sl_aligned(64, bytes);
    j->grads = sl_aligned(64, bytes);
    if (j->params == NULL || j->grads == NULL)
        return sl_fail(err, SL_ENOMEM,
                       "no memory for %" PRIu64 " parameters and gradients",
                       j->record->layout.elements);
    memset(j->params, 0, bytes);
    memset(j->grads, 0, bytes);
    return SL_OK;
}

static enum sl_err jobs_make_sync(struct sluice *s, struct kept_job *j,
                                  struct sl_error *err)
{
    struct sync_ps_options o = record_sync(j->record);
    enum sl_err rc;

    o.params = j->params;
    o.grads = j->grads;
    o.by_range = s->by_range;
    o.narrow = j->narrow;
    o.peers = s->peers;
    o.clock = sl_clock_real();
    o.want_map = jobs_want_map;
    o.patient = j->ring != NULL ? session_ring_patient : session_patient;
    o.arg = s;
    rc = sync_ps_new(&j->sync, &o, err);
    if (rc == SL_OK)
        record_attach(j->record, j->sync);
    return rc;
}

// A rank's: its state outlives what JobOpen said before. Rows lie on psservers
// beside it.
static enum sl_err jobs_make_ring(struct sluice *s, struct kept_job *j,
                                  struct sl_error *err)
{
    const Sluice__V1__JobOpen *open = j->record->open;
    struct job_ring *ring = NULL;
    enum sl_err rc =
        job_ring_new(&ring, j->model, open->spec->train->bucket_bytes);

    if (rc != SL_OK)
        return sl_fail(err, rc, "no memory");
    ring->fresh = j->params;
    ring->grads = j->grads;
    if (j->ring != NULL)
        job_ring_hand(j->ring, ring, open);
    job_ring_free(j->ring);
    j->ring = ring;
    rc = job_ring_sum(ring, j->model->elements, err);
    return rc == SL_OK && j->tables != NULL ? jobs_make_sync(s, j, err) : rc;
}

static enum sl_err jobs_make_group(struct sluice *s, struct kept_job *j,
                                   struct sl_error *err)
{
    uint32_t n = j->model->variables_count;

    if (j->hybrid == NULL && hybrid_new(&j->hybrid) != SL_OK)
        return sl_no_memory(err);
    sl_free(j->hybrid->present);
    j->hybrid->present = sl_calloc(n, sizeof(*j->hybrid->present));
    j->hybrid->variables = j->hybrid->present == NULL ? 0 : n;
    if (j->hybrid->present == NULL)
        return sl_no_memory(err);
    return jobs_make_sync(s, j, err);
}

// A coordinator that has come back opens the job anew: the vectors stay where
// they are.
static enum sl_err jobs_renew(struct sluice *s, struct kept_job *j,
                              struct record *record, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = record->open->spec;
    enum sl_err rc;

    drop_sync(j);
    job_tables_free(j->tables);
    j->tables = NULL;
    model_free(j->model);
    j->model = NULL;
    record_unref(j->record);
    j->record = record_ref(record);
    rc = jobs_read_spec(j, err);
    if (rc == SL_OK && s->by_range && j->tables != NULL)
        rc = sl_fail(err, SL_ENOTSUP,
                     "model.tables: rows leave with the whole gradient, and "
                     "the program has it by range; open a session without "
                     "by_range");
    if (rc == SL_OK && j->params == NULL)
        rc = s->by_range ? jobs_make_spaces(j, err) : jobs_make_vectors(j, err);
    if (rc != SL_OK)
        return rc;
    if (spec_hybrid(spec))
        return jobs_make_group(s, j, err);
    return spec_allreduce(spec) ? jobs_make_ring(s, j, err)
                                : jobs_make_sync(s, j, err);
}

static struct kept_job *jobs_find_kept(struct sluice *s, uint64_t id)
{
    list_for(n, &s->jobs)
    {
        struct kept_job *j = list_entry(n, struct kept_job, node);

        if (j->id == id)
            return j;
    }
    return NULL;
}

static void drop_surplus(struct sluice *s)
{
    unsigned count = 0;

    list_for_safe(n, &s->jobs)
    {
        if (++count <= JOBS_KEPT)
            continue;
        list_remove(n);
        job_drop(list_entry(n, struct kept_job, node));
    }
}

enum sl_err jobs_take(struct sluice *s, struct lease *l, struct kept_job **out,
                      struct sl_error *err)
{
    struct kept_job *j = jobs_find_kept(s, l->job);
    enum sl_err rc = SL_OK;

    if (j != NULL) {
        list_remove(&j->node);
    } else {
        j = sl_calloc(1, sizeof(*j));
        if (j == NULL)
            return sl_no_memory(err);
        j->id = l->job;
    }
    list_push_front(&s->jobs, &j->node);
    drop_surplus(s);
    if (j->record != l->record || (j->sync == NULL && j->ring == NULL))
        rc = jobs_renew(s, j, l->record, err);
    if (rc != SL_OK) {
        list_remove(&j->node);
        job_drop(j);
        return rc;
    }
    *out = j;
    return SL_OK;
}

void jobs_forget(struct sluice *s, uint64_t id)
{
    struct kept_job *j = jobs_find_kept(s, id);

    if (j == NULL)
        return;
    list_remove(&j->node);
    job_drop(j);
}

void jobs_free(struct sluice *s)
{
    struct list_node *n;

    while ((n = list_pop_front(&s->jobs)) != NULL)
        job_drop(list_entry(n, struct kept_job, node));
}
