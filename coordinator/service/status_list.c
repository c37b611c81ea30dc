// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_list.c -- lists of jobs, and of the checkpoints of
// one.
#include "coordinator/service/status.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/classes.h"
#include "coordinator/core/ended.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/status.h"
#include "coordinator/core/tenants.h"

#define LIST_DEFAULT 100

// Whether there is a job of this number that the request asks for.
static bool is_asked(const struct coord *c, uint64_t id,
                     const Sluice__V1__ListRequest *request)
{
    const struct job *job = jobs_get(c, id);
    const struct ended_job *ended = jobs_ended(c, id);

    if (job == NULL && ended == NULL)
        return false; // it was deleted
    return request->name[0] == '\0' ||
           strcmp(request->name, job != NULL ? job->name : ended->name) == 0;
}

static enum sl_err add_line(struct coord *c, uint64_t id,
                            Sluice__V1__ListReply *m, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = ended_open(c, id, LOAD_LINE, &job, err);

    if (rc != SL_OK)
        return rc;
    m->jobs[m->n_jobs] = status_job(c, job, false, false);
    ended_close(job);
    return m->jobs[m->n_jobs++] == NULL
               ? sl_fail(err, SL_ENOMEM, "a list of jobs")
               : SL_OK;
}

enum sl_err status_list(struct coord *c, const Sluice__V1__ListRequest *request,
                        Sluice__V1__ListReply **reply, struct sl_error *err)
{
    uint32_t limit = request->limit == 0 ? LIST_DEFAULT : request->limit;
    uint64_t id = request->before == 0 || request->before > c->jobs.last
                      ? c->jobs.last
                      : request->before - 1;
    Sluice__V1__ListReply *m = wire_new(&sluice__v1__list_reply__descriptor);
    size_t all = c->jobs.by_id.len + c->jobs.ended.len;
    size_t most = all < limit ? all : limit;

    if (m != NULL)
        m->jobs = sl_calloc(most, sizeof(*m->jobs));
    if (m == NULL || m->jobs == NULL) {
        wire_free((ProtobufCMessage *)m);
        return sl_fail(err, SL_ENOMEM, "a list of jobs");
    }
    for (; id > 0 && !m->more; id--) {
        enum sl_err rc = SL_OK;

        if (!is_asked(c, id, request) || tenants_hide(c, id))
            continue;
        m->more = m->n_jobs == most;
        if (!m->more)
            rc = add_line(c, id, m, err);
        if (rc != SL_OK) {
            wire_free(&m->base);
            return rc;
        }
    }
    *reply = m;
    return SL_OK;
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

    list = sl_malloc_array(job->cuts_count, sizeof(*list));
    copies = sl_malloc_array(job->cuts_count, sizeof(*copies));
    for (size_t i = 0; list != NULL && copies != NULL && i < job->cuts_count;
         i++) {
        copies[i] = *job->cuts[i].checkpoint;
        copies[i].manifest = job->cuts[i].path;
        copies[i].best = job->watched.best.on && job->callbacks.best.has &&
                         job->callbacks.best.cut == job->cuts[i].n;
        copies[i].restored = restored && final == &job->cuts[i];
        list[i] = &copies[i];
    }
    view.checkpoints = list;
    view.n_checkpoints = job->cuts_count;
    view.job = job->id;
    view.job_incarnation = job->incarnation;
    if (!job->unreadable && job->spec->data != NULL) {
        view.classes = job->spec->data->classes;
        view.n_classes = job->spec->data->n_classes;
    }
    if (job->layout != NULL) {
        view.variables = job->layout->variables;
        view.n_variables = job->layout->n_variables;
        view.pieces = job->layout->pieces;
        view.n_pieces = job->layout->n_pieces;
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
    ended_close(job);
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "a list of checkpoints");
}
