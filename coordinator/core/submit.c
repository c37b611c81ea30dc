// SPDX-License-Identifier: Apache-2.0
// coordinator/core/submit.c -- the submission of a job: checked, resolved,
// journalled, answered, begun.
#include "coordinator/core/coord.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/rng.h"
#include "common/run/log.h"
#include "coordinator/core/advance.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/quotas.h"
#include "coordinator/core/cuts/start_from.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/tenants.h"
#include "proto/spec.h"

static enum sl_err reply_to(Sluice__V1__SubmitReply **out, uint64_t job,
                            const char *id, const char *explanation,
                            bool existed)
{
    Sluice__V1__SubmitReply msg = SLUICE__V1__SUBMIT_REPLY__INIT;
    ProtobufCMessage *copy = NULL;
    enum sl_err rc;

    msg.job = job;
    msg.id = (char *)id;
    msg.explanation = (char *)explanation;
    msg.existed = existed;
    rc = wire_dup(&copy, &msg.base);
    *out = (Sluice__V1__SubmitReply *)copy;
    return rc;
}

// Reads the cut or the weights that the request names to start from; else *out
// stays NULL.
static enum sl_err read_resume(struct coord *c,
                               const Sluice__V1__SubmitRequest *request,
                               const Sluice__V1__JobSpec *spec,
                               Sluice__V1__ResumeSource **out,
                               struct sl_error *err)
{
    if (request->weights != NULL || request->n_table_weights > 0)
        return resumed_weights(request, spec, out, err);
    return request->resume[0] == '\0'
               ? SL_OK
               : resumed_read(c, request->resume, spec, out, err);
}

static enum sl_err submit_explain(struct coord *c,
                                  const Sluice__V1__SubmitRequest *request,
                                  const Sluice__V1__JobSpec *spec,
                                  Sluice__V1__SubmitReply **reply,
                                  struct sl_error *err)
{
    Sluice__V1__ResumeSource *resume = NULL;
    struct buf text = BUF_INIT;
    enum sl_err rc = place_possible(c, spec, err);

    if (rc == SL_OK)
        rc = read_resume(c, request, spec, &resume, err);
    wire_free((ProtobufCMessage *)resume);
    if (rc == SL_OK)
        rc = quotas_admit(c, spec, err);
    if (rc == SL_OK)
        rc = place_explain(c, spec, &text, err);

    if (rc == SL_OK)
        rc = reply_to(reply, 0, "", buf_text(&text), false);
    buf_release(&text);
    return rc;
}

// Answers a request id that came before: with the same job, if the request asks
// for the same.
static enum sl_err same_request(const struct job *job, const struct buf *packed,
                                const Sluice__V1__SubmitRequest *request,
                                Sluice__V1__SubmitReply **reply,
                                struct sl_error *err)
{
    struct buf had = BUF_INIT;
    bool same;
    enum sl_err rc;

    if (job->unreadable)
        return sl_fail(err, SL_ESTATE, "request '%s' was job %s: %s",
                       request->request_id, job->id_text, job->end.reason);
    rc = wire_pack(&job->spec->base, &had);
    same = rc == SL_OK && had.len == packed->len &&
           memcmp(had.data, packed->data, had.len) == 0 &&
           (job->resume != NULL) == (request->resume[0] != '\0') &&
           resumed_same_weights(job, request);
    buf_release(&had);
    if (rc != SL_OK)
        return rc;
    if (!same)
        return sl_fail(err, SL_EEXIST,
                       "request '%s' was job %s, with another spec",
                       request->request_id, job->id_text);
    return reply_to(reply, job->id, job->id_text, "", true);
}

static uint64_t submit_draw_uid(struct coord *c)
{
    return sl_mix64(c->options.seed + sl_mix64(++c->draws));
}

// Journals and lists the new job. Takes spec and resume on success.
static enum sl_err submit_add_job(struct coord *c, Sluice__V1__JobSpec *spec,
                                  Sluice__V1__ResumeSource *resume,
                                  const struct buf *packed,
                                  const struct buf *packed_resume,
                                  const Sluice__V1__SubmitRequest *request,
                                  struct job **out, struct sl_error *err)
{
    struct journal_job row = {
        .uid = submit_draw_uid(c),
        .incarnation = 1,
        .name = spec->name,
        .request_id = request->request_id,
        .tenant = c->asker.tenant,
        .queued = request->queue,
        .state = JOB_PLACING,
        .spec = {packed->data, packed->len},
        .resume = {packed_resume->data, packed_resume->len},
        .submitted_us = sl_wall_us(c->options.clock),
    };
    struct job *job = job_new(0, row.uid, 1, spec->name, request->request_id,
                              spec, mode_of(c, spec));
    uint64_t id = 0;
    enum sl_err rc;

    if (job == NULL || map_reserve(&c->jobs.by_id, 1) != SL_OK) {
        if (job != NULL)
            job->spec = NULL; // still the caller's
        job_free(job);
        return sl_fail(err, SL_ENOMEM, "no memory for one more job");
    }
    rc = journal_job_add(c->journal, &row, &id, err);
    if (rc != SL_OK) {
        coord_fatal(c, err);
        job->spec = NULL;
        job_free(job);
        return rc;
    }
    job->id = id;
    job_start_from(job, resume);
    snprintf(job->id_text, sizeof(job->id_text), "j-%llu", (ull)id);
    job->submitted_us = row.submitted_us;
    job->map.version = c->term << 32; // rises over restarts
    map_put(&c->jobs.by_id, id, job);
    list_push_back(&c->jobs.active, &job->on_active);
    c->jobs.last = c->jobs.given = id;
    if (row.queued)
        queue_join(c, job, row.tenant);
    *out = job;
    return SL_OK;
}

// Accepts a new request. Takes *spec on success.
static enum sl_err accept_new(struct coord *c, Sluice__V1__JobSpec **spec,
                              const struct buf *packed,
                              const Sluice__V1__SubmitRequest *request,
                              struct job **out, struct sl_error *err)
{
    Sluice__V1__ResumeSource *resume = NULL;
    struct buf packed_resume = BUF_INIT;
    enum sl_err rc = place_possible(c, *spec, err);

    if (rc == SL_OK)
        rc = read_resume(c, request, *spec, &resume, err);
    if (rc == SL_OK)
        rc = quotas_admit(c, *spec, err);
    if (rc == SL_OK && resume != NULL)
        rc = wire_pack(&resume->base, &packed_resume);
    if (rc == SL_OK)
        rc = submit_add_job(c, *spec, resume, packed, &packed_resume, request,
                            out, err);
    if (rc == SL_OK)
        *spec = NULL; // the job's now
    else
        wire_free((ProtobufCMessage *)resume);
    buf_release(&packed_resume);
    return rc;
}

static void accepted_weights(const struct job *job)
{
    const Sluice__V1__ResumeSource *from = job->weights;

    if (from->weights != NULL)
        LOG(INFO, "job starts with weights", "job=%s file=%s", job->id_text,
            from->weights->file);
    for (size_t i = 0; i < from->n_tables; i++)
        LOG(INFO, "job starts with rows", "job=%s table=%s file=%s",
            job->id_text, from->tables[i]->table, from->tables[i]->file->file);
}

static void accepted(struct coord *c, struct job *job)
{
    JOB_HISTORY(job, "submitted", " name=%s", job->name);
    FAULT("api.submitted");
    LOG(INFO, "job accepted", "job=%s name=%s", job->id_text, job->name);
    happened_job(c, EVENT_JOB_SUBMITTED, job, NULL, "%s was submitted",
                 job->name);
    if (job->weights != NULL)
        accepted_weights(job);
    if (job->resume != NULL)
        LOG(INFO, "job resumes",
            "job=%s from=j-%llu cut=%llu steps=%llu even=%d", job->id_text,
            (ull)job->resume->cut->job,
            (ull)job->resume->cut->checkpoints[0]->cut,
            (ull)job_resumed_steps(job), job->resume->even);
    advance_job(c, job);
    serve_workers(c);
}

static enum sl_err submit_accept(struct coord *c, Sluice__V1__JobSpec **spec,
                                 const Sluice__V1__SubmitRequest *request,
                                 Sluice__V1__SubmitReply **reply,
                                 struct sl_error *err)
{
    struct buf packed = BUF_INIT;
    struct job *job = NULL, *had = NULL;
    uint64_t id = 0;
    enum sl_err rc = wire_pack(&(*spec)->base, &packed);

    if (rc != SL_OK)
        return sl_fail(err, rc, "the spec");
    rc =
        request->request_id[0] == '\0'
            ? SL_ENOENT
            : journal_job_by_request(c->journal, request->request_id, &id, err);
    if (rc == SL_OK) {
        rc = tenants_hide(c, id)
                 ? sl_fail(err, SL_EEXIST, "request '%s' is another tenant's",
                           request->request_id)
                 : ended_open(c, id, LOAD_LINE, &had, err);
        if (rc == SL_OK)
            rc = same_request(had, &packed, request, reply, err);
        ended_close(had);
    } else if (rc == SL_ENOENT) {
        rc = accept_new(c, spec, &packed, request, &job, err);
        if (rc == SL_OK)
            rc = reply_to(reply, job->id, job->id_text, "", false);
    } else {
        coord_fatal(c, err);
    }
    buf_release(&packed);
    if (job != NULL)
        accepted(c, job);
    return rc;
}

static enum sl_err judge_observe(const struct coord *c,
                                 const Sluice__V1__JobSpec *spec,
                                 struct sl_error *err)
{
    if (spec->observe == NULL || c->options.observes)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "observe.tensorboard: this coordinator writes no curves: it "
                   "was started without --observe-dir. Leave it out, and "
                   "follow the job with `sluice watch JOB --tensorboard DIR`");
}

static enum sl_err judge_mode(const struct coord *c,
                              const Sluice__V1__JobSpec *spec,
                              struct sl_error *err)
{
    const struct mode *mode = mode_of(c, spec);

    return mode->judge == NULL ? SL_OK : mode->judge(c, spec, err);
}

enum sl_err coord_submit(struct coord *c,
                         const Sluice__V1__SubmitRequest *request,
                         Sluice__V1__SubmitReply **reply, struct sl_error *err)
{
    ProtobufCMessage *copy = NULL;
    Sluice__V1__JobSpec *spec;
    enum sl_err rc;

    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    FAULT("api.submit");
    rc = wire_dup(&copy, &request->spec->base);
    if (rc != SL_OK)
        return sl_fail(err, rc, "the spec");
    spec = (Sluice__V1__JobSpec *)copy;
    rc = spec_check(spec, err);
    if (rc == SL_OK)
        rc = spec_check_new(spec, err);
    if (rc == SL_OK)
        rc = judge_observe(c, spec, err);
    if (rc == SL_OK)
        rc = judge_mode(c, spec, err);
    if (rc == SL_OK)
        rc = request->dry_run ? submit_explain(c, request, spec, reply, err)
                              : submit_accept(c, &spec, request, reply, err);
    if (spec != NULL)
        wire_free(&spec->base);
    return rc;
}
