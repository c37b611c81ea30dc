// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_list.c -- lists of jobs, and of the checkpoints of
// one.
#include "coordinator/service/status_lists.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/leases/classes.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/status/job_status.h"

#define LIST_DEFAULT 100

static enum sl_err status_list_add_line(struct coord *c, uint64_t id,
                                        Sluice__V1__ListReply *m,
                                        struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = ended_open(c, id, LOAD_LINE, &job, err);

    if (rc != SL_OK)
        return rc;
    m->jobs[m->n_jobs] = status_job(c, job, false, false);
    ended_close(job);
    if (m->jobs[m->n_jobs] == NULL)
        return sl_fail(err, SL_ENOMEM, "a list of jobs");
    m->jobs[m->n_jobs++]->job = id; // the client asks with it for what follows
    return SL_OK;
}

static uint32_t status_list_limit(const Sluice__V1__ListRequest *request)
{
    return request->limit == 0 ? LIST_DEFAULT : request->limit;
}

bool status_list_goes_on(const Sluice__V1__ListRequest *request,
                         const Sluice__V1__ListReply *reply)
{
    return reply->more && reply->n_jobs < status_list_limit(request);
}

// Finds the jobs that come next: those below the last one in the reply.
static enum sl_err find_next(struct coord *c,
                             const Sluice__V1__ListRequest *request,
                             const Sluice__V1__ListReply *m, uint64_t *ids,
                             size_t most, size_t *count, struct sl_error *err)
{
    struct journal_list which = {
        .before = request->before,
        .tenant = c->asker.only ? c->asker.tenant : NULL,
        .name = request->name,
    };
    enum sl_err rc;

    if (m->n_jobs > 0)
        which.before = m->jobs[m->n_jobs - 1]->job;
    if (which.before == 0 || which.before > c->jobs.last)
        which.before = c->jobs.last + 1;
    rc = journal_jobs_list(c->journal, &which, ids, most, count, err);
    return rc == SL_OK ? SL_OK : coord_fatal(c, err);
}

static enum sl_err status_list_begin(Sluice__V1__ListReply **out,
                                     const struct coord *c,
                                     const Sluice__V1__ListRequest *request)
{
    size_t all = c->jobs.by_id.len + c->jobs.ended.len;
    size_t limit = status_list_limit(request);
    Sluice__V1__ListReply *m = wire_new(&sluice__v1__list_reply__descriptor);

    if (m != NULL)
        m->jobs = sl_calloc(limit < all ? limit : all, sizeof(*m->jobs));
    if (m == NULL || m->jobs == NULL) {
        wire_free((ProtobufCMessage *)m);
        return SL_ENOMEM;
    }
    *out = m;
    return SL_OK;
}

static enum sl_err add_lines(struct coord *c,
                             const Sluice__V1__ListRequest *request,
                             Sluice__V1__ListReply *m, struct sl_error *err)
{
    size_t room = status_list_limit(request) - m->n_jobs, count = 0;
    size_t most = room < STATUS_LIST_TURN ? room : STATUS_LIST_TURN;
    uint64_t ids[STATUS_LIST_TURN + 1];
    enum sl_err rc = find_next(c, request, m, ids, most + 1, &count, err);

    for (size_t i = 0; rc == SL_OK && i < count && i < most; i++)
        rc = status_list_add_line(c, ids[i], m, err);
    m->more = count > most && m->n_jobs > 0;
    return rc;
}

enum sl_err status_list_turn(struct coord *c,
                             const Sluice__V1__ListRequest *request,
                             Sluice__V1__ListReply **reply,
                             struct sl_error *err)
{
    Sluice__V1__ListReply *m = *reply;
    enum sl_err rc = m == NULL ? status_list_begin(&m, c, request) : SL_OK;

    if (rc != SL_OK)
        return sl_fail(err, rc, "a list of jobs");
    rc = add_lines(c, request, m, err);
    if (rc == SL_OK)
        *reply = m;
    else if (*reply == NULL)
        wire_free(&m->base);
    return rc;
}

enum sl_err status_list(struct coord *c, const Sluice__V1__ListRequest *request,
                        Sluice__V1__ListReply **reply, struct sl_error *err)
{
    Sluice__V1__ListReply *m = NULL;
    enum sl_err rc;

    do
        rc = status_list_turn(c, request, &m, err);
    while (rc == SL_OK && status_list_goes_on(request, m));
    if (rc == SL_OK)
        *reply = m;
    else
        wire_free((ProtobufCMessage *)m);
    return rc;
}

static enum sl_err checkpoints(const struct job *job,
                               Sluice__V1__CheckpointsReply **reply)
{
    Sluice__V1__CheckpointsReply view = SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    const struct job_cut *final = job_final_cut(job);
    bool restored = final != job_last_cut(job);
    Sluice__V1__Checkpoint **list, *copies;
    ProtobufCMessage *copy = NULL;
    enum sl_err rc;

    list = sl_malloc_array(job->cuts.count, sizeof(*list));
    copies = sl_malloc_array(job->cuts.count, sizeof(*copies));
    for (size_t i = 0; list != NULL && copies != NULL && i < job->cuts.count;
         i++) {
        copies[i] = *job->cuts.list[i].checkpoint;
        copies[i].manifest = job->cuts.list[i].path;
        copies[i].best = job->monitor.watched.best.on &&
                         job->monitor.callbacks.best.has &&
                         job->monitor.callbacks.best.cut == job->cuts.list[i].n;
        copies[i].restored = restored && final == &job->cuts.list[i];
        list[i] = &copies[i];
    }
    view.checkpoints = list;
    view.n_checkpoints = job->cuts.count;
    view.job = job->id;
    view.job_incarnation = job->incarnation;
    if (!job->unreadable && job->spec->data != NULL) {
        view.classes = job->spec->data->classes;
        view.n_classes = job->spec->data->n_classes;
    }
    if (!job->unreadable) {
        view.tables = job->spec->model->tables;
        view.n_tables = job->spec->model->n_tables;
    }
    if (job->shards.layout != NULL) {
        view.variables = job->shards.layout->variables;
        view.n_variables = job->shards.layout->n_variables;
        view.pieces = job->shards.layout->pieces;
        view.n_pieces = job->shards.layout->n_pieces;
        view.rows_shards = job->shards.layout->rows_shards;
    }
    rc = list == NULL || copies == NULL ? SL_ENOMEM
                                        : wire_dup(&copy, &view.base);
    sl_free(list);
    sl_free(copies);
    if (rc == SL_OK)
        *reply = (Sluice__V1__CheckpointsReply *)copy;
    return rc;
}

enum sl_err status_checkpoints(struct coord *c,
                               const Sluice__V1__JobRequest *request,
                               Sluice__V1__CheckpointsReply **reply,
                               struct sl_error *err)
{
    struct job *job = NULL;
    uint64_t number = 0;
    enum sl_err rc = jobs_find(c, request->id, &number, err);

    if (rc == SL_OK)
        rc = ended_open(c, number, LOAD_WHOLE, &job, err);
    if (rc != SL_OK)
        return rc;
    rc = checkpoints(job, reply);
    if (rc == SL_OK)
        classes_put(c, job, &(*reply)->n_classes, &(*reply)->classes);
    if (rc == SL_OK)
        tainted_list(c, NULL, job->id_text, &(*reply)->tainted,
                     &(*reply)->n_tainted);
    ended_close(job);
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "a list of checkpoints");
}
