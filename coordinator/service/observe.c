// SPDX-License-Identifier: Apache-2.0
// coordinator/service/observe.c -- see observe.h.
//
//   tick -> every job that asks for it: a status -> curves_take -> pool:
//   curves_write -> loop: logged if it failed
//   the job has ended: its last status, and then it is let go
#include "coordinator/service/observe.h"

#include <stdio.h>

#include "common/base/fs.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "proto/curves.h"

#define TICK_MS 1000

struct observe {
    struct loop *loop;
    const struct sl_clock *clock;
    struct coord *coord; // NULL: none for now
    char *root;          // owned
    struct loop_timer *tick;
    struct list jobs; // struct observed
};

struct observed {
    struct list_node node;
    struct observe *of; // NULL: freed while the pool wrote
    uint64_t job;
    struct curves *curves; // NULL: all is written
    bool histograms;
    bool last;    // the job has ended, and its last status was taken
    bool writing; // on the pool
    bool failing; // the last write failed, and that was logged
    enum sl_err rc;
    struct sl_error err;
};

static void free_one(struct observed *o)
{
    list_remove(&o->node);
    curves_free(o->curves);
    sl_free(o);
}

// Frees the curves of a job. The entry stays in the list while its job is in
// memory, so that it is not begun again.
static void observe_release_curves(struct observed *o)
{
    curves_free(o->curves);
    o->curves = NULL;
    if (o->of == NULL)
        free_one(o);
}

// ---- on the pool, and back

static void observe_write_curves(void *arg)
{
    struct observed *o = arg;

    o->err = (struct sl_error)SL_ERROR_INIT;
    o->rc = curves_write(o->curves, &o->err);
}

static void observe_on_written(void *arg)
{
    struct observed *o = arg;

    o->writing = false;
    if (o->rc != SL_OK && !o->failing)
        LOG(WARN, "curves cannot be written; trying again", "job=j-%llu why=%s",
            (unsigned long long)o->job, o->err.text);
    if (o->rc == SL_OK && o->failing)
        LOG(INFO, "curves are written again", "job=j-%llu",
            (unsigned long long)o->job);
    o->failing = o->rc != SL_OK;
    if (o->of == NULL || (o->last && o->rc == SL_OK))
        observe_release_curves(o);
}

static void begin_write(struct observed *o)
{
    o->writing = true;
    if (loop_work(o->of->loop, observe_write_curves, observe_on_written, o) ==
        SL_OK)
        return;
    o->writing = false; // no memory: written with the next point
    if (o->last)
        observe_release_curves(o);
}

// ---- on the loop

static enum sl_err observe_take_point(struct observed *o)
{
    Sluice__V1__JobRequest ask = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    struct sl_error err = SL_ERROR_INIT;
    char id[24];
    enum sl_err rc;

    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)o->job);
    ask.id = id;
    ask.spec = true;
    ask.shards = o->histograms;
    rc = coord_get(o->of->coord, &ask, &status, &err);
    if (rc == SL_OK) {
        // a point that cannot be taken is left out
        (void)curves_take(o->curves, status, o->last);
        wire_free(&status->base);
    }
    return rc;
}

static void observe_one(struct observed *o)
{
    bool ended = false;
    bool gone = coord_changes(o->of->coord, o->job, &ended) == 0;

    if (o->writing)
        return;
    if (o->curves == NULL) {
        if (jobs_get(o->of->coord, o->job) == NULL)
            free_one(o);
        return;
    }
    o->last = ended || gone;
    if (!o->last && !curves_due(o->curves) && !o->failing)
        return;
    // A failed write is tried again while the job is in memory.
    if (o->failing && jobs_get(o->of->coord, o->job) == NULL)
        gone = true;
    if (gone || observe_take_point(o) == SL_ENOENT) {
        observe_release_curves(o);
        return;
    }
    if (curves_wait(o->curves))
        begin_write(o);
    else if (o->last)
        observe_release_curves(o);
}

static enum sl_err observe_job_folder(struct buf *out, struct observe *o,
                                      const struct job *job)
{
    char tenant[JOURNAL_TENANT] = "";
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        journal_job_tenant(o->coord->journal, job->id, tenant, &err);

    if (rc != SL_OK)
        return rc;
    return buf_appendf(out, "%s%s%s", tenant, tenant[0] != '\0' ? "/" : "",
                       job->spec->observe->tensorboard);
}

static void observe_begin_job(struct observe *o, const struct job *job)
{
    struct curves_options options = {
        .root = o->root,
        .job = job->id_text,
        .histograms = job->spec->observe->histograms,
        .clock = o->clock,
    };
    struct observed *new = sl_calloc(1, sizeof(*new));
    struct buf below = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        new == NULL ? SL_ENOMEM : observe_job_folder(&below, o, job);

    options.below = buf_text(&below);
    if (rc == SL_OK)
        rc = curves_new(&new->curves, &options, &err);
    buf_release(&below);
    if (rc != SL_OK) { // tried again at the next tick
        sl_free(new);
        return;
    }
    list_push_back(&o->jobs, &new->node);
    new->of = o;
    new->job = job->id;
    new->histograms = options.histograms;
}

static bool is_observed(const struct observe *o, const struct job *job)
{
    list_for(n, &o->jobs)
    {
        if (list_entry(n, struct observed, node)->job == job->id)
            return true;
    }
    return false;
}

static void observe_begin_new(struct observe *o, const struct job *job)
{
    if (job->spec != NULL && job->spec->observe != NULL && !is_observed(o, job))
        observe_begin_job(o, job);
}

void observe_changed(struct observe *o, uint64_t job)
{
    struct job *ended =
        o == NULL || o->coord == NULL ? NULL : jobs_get(o->coord, job);

    if (ended != NULL)
        observe_begin_new(o, ended);
}

static void observe_on_tick(void *arg)
{
    struct observe *o = arg;

    if (o->coord == NULL)
        return;
    list_for(n, &o->coord->jobs.active)
    {
        observe_begin_new(o, list_entry(n, struct job, on_active));
    }
    list_for_safe(n, &o->jobs)
    {
        observe_one(list_entry(n, struct observed, node));
    }
}

// ---- life

enum sl_err observe_new(struct observe **out, struct loop *loop,
                        const struct sl_clock *clock, const char *root,
                        struct sl_error *err)
{
    enum sl_err rc = fs_mkdirs(fs_private(), root, err);
    struct observe *o;

    if (rc != SL_OK)
        return rc;
    o = sl_calloc(1, sizeof(*o));
    if (o == NULL)
        return sl_fail(err, SL_ENOMEM, "curves");
    o->loop = loop;
    o->clock = clock;
    list_init(&o->jobs);
    o->root = sl_strdup(root);
    if (o->root == NULL ||
        loop_timer_new(&o->tick, loop, observe_on_tick, o) != SL_OK) {
        observe_free(o);
        return sl_fail(err, SL_ENOMEM, "curves");
    }
    loop_timer_start(o->tick, TICK_MS, TICK_MS);
    *out = o;
    return SL_OK;
}

void observe_set_coord(struct observe *o, struct coord *c)
{
    if (o != NULL)
        o->coord = c;
}

void observe_free(struct observe *o)
{
    if (o == NULL)
        return;
    list_for_safe(n, &o->jobs)
    {
        struct observed *one = list_entry(n, struct observed, node);

        one->of = NULL;
        list_remove(&one->node);
        if (!one->writing)
            free_one(one);
    }
    loop_timer_free(o->tick);
    sl_free(o->root);
    sl_free(o);
}
