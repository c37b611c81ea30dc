// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_job.c -- the life of a job: submitted, moved on,
// ended, deleted.
#include "coordinator/core/coord_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/broken.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "coordinator/journal/manifest.h"
#include "proto/spec.h"

// ---- counters

void coord_count(struct job *job, uint64_t *counter)
{
    (*counter)++;
    job->counters_changed = true;
    job->changes++;
}

// What was counted is in the journal before anybody is answered.
void coord_flush_counters(struct coord *c, struct job *job)
{
    struct sl_error err = SL_ERROR_INIT;
    struct journal_counters now = job->counters;

    if (!job->counters_changed || job_ended(job) || c->dead)
        return;
    job->counters_changed = false;
    now.elapsed_ms = job_elapsed_ms(job, coord_now(c));
    coord_wrote(c, journal_job_counters(c->journal, job->id, &now, &err), &err);
}

// ---- moving on

static void enter_running(struct coord *c, struct job *job)
{
    struct sl_error err = SL_ERROR_INIT;

    job_enter(job, JOB_RUNNING);
    job->running_since_ms = coord_now(c) == 0 ? 1 : coord_now(c);
    job->cut_last_ms = coord_now(c);
    coord_wrote(c, journal_job_state(c->journal, job->id, JOB_RUNNING, &err),
                &err);
    HISTORY("geometry",
            "job=%llu uid=%llx samples=%llu batch=%llu epochs=%llu "
            "steps_per_closure=%llu shards=%u window=%u keep=%u",
            (unsigned long long)job->id, (unsigned long long)job->uid,
            (unsigned long long)job->schedule.samples,
            (unsigned long long)job->schedule.batch,
            (unsigned long long)job->schedule.epochs,
            (unsigned long long)job->schedule.steps_per_closure, job->shards,
            (unsigned)job->spec->train->window_closures,
            (unsigned)job->spec->checkpoint->keep);
    LOG(INFO, "job runs", "job=%s name=%s", job->id_text, job->name);
}

// E1: counted is not finished. Between them a shard may come back with less.
static void follow_evidence(struct job *job)
{
    bool full = evidence_full(&job->evidence);

    if (job->state == JOB_RUNNING && full) {
        job_enter(job, JOB_FINISHING);
        LOG(INFO, "all is counted", "job=%s", job->id_text);
    } else if (job->state == JOB_FINISHING && !full && !BROKEN(rule_E1_back)) {
        job_enter(job, JOB_RUNNING);
        LOG(WARN, "a shard is back with less", "job=%s", job->id_text);
    }
}

void coord_advance(struct coord *c, struct job *job)
{
    if (c->dead || job_ended(job))
        return;
    if (!job->placed)
        coord_place_job(c, job);
    if (c->dead || job_ended(job) || !job->placed)
        return;
    if (job->state == JOB_PLACING && job_served(job))
        enter_running(c, job);
    if (c->dead || job->state == JOB_PLACING)
        return;
    follow_evidence(job);
    coord_cut_check(c, job);
    if (c->dead || job_ended(job))
        return;
    coord_eval_check(c, job);
    if (c->dead || job_ended(job))
        return;
    if (job->state == JOB_FINISHING &&
        ((job->cut == NULL && coord_cut_complete(job) &&
          !coord_eval_pending(job)) ||
         BROKEN(finish_early)))
        coord_end_job(c, job, JOB_FINISHED, "");
}

// ---- the end

static void stop_clock(struct coord *c, struct job *job)
{
    job->counters.elapsed_ms = job_elapsed_ms(job, coord_now(c));
    job->running_since_ms = 0;
}

// E2: the journal's commit comes before anybody is told.
static bool commit_end(struct coord *c, struct job *job)
{
    struct buf packed = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    job->final = status_job(c, job, true, false);
    if (job->final != NULL)
        status_settle(job->final, job);
    rc = job->final == NULL ? SL_ENOMEM : wire_pack(&job->final->base, &packed);
    if (rc != SL_OK)
        rc = sl_fail(&err, rc, "the end of job %s", job->id_text);
    else
        rc = journal_job_end(c->journal, job->id, (int)job->state,
                             job->reason == NULL ? "" : job->reason,
                             job->ended_us,
                             (struct journal_blob){packed.data, packed.len},
                             &job->counters, &err);
    buf_release(&packed);
    return coord_wrote(c, rc, &err);
}

// Takes all leases of the job from everybody.
static void clear_leases(struct member *m, struct job *job)
{
    list_for_safe(n, &m->leases)
    {
        struct work *w = list_entry(n, struct work, on_holder);

        if (w->job == job && !BROKEN(keep_leases)) {
            closure_cancel(&w->closure);
            coord_unlease(w);
        }
    }
}

static void tell_end(struct coord *c, struct job *job)
{
    char why[64];

    snprintf(why, sizeof(why), "the job has %s", job_state_name(job->state));
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_PSSERVER) {
            for (uint32_t i = 0; i < job->shards; i++) {
                if (strcmp(job->shard[i].psserver, m->name) == 0) {
                    send_close(c, m, job->id, job->uid, false);
                    break;
                }
            }
        } else if (map_get(&m->opened, job->id) != NULL) {
            send_revoke_job(c, m, job, why);
            sl_free(map_remove(&m->opened, job->id));
        }
        map_remove(&m->losing, job->id);
        sl_free(map_remove(&m->conduct, job->id));
    }
}

void coord_end_job(struct coord *c, struct job *job, enum job_state how,
                   const char *reason)
{
    if (job_ended(job))
        return;
    list_for(n, &c->members.all)
    {
        clear_leases(list_entry(n, struct member, node), job);
    }
    if (job->cut != NULL && !job->cut->writing)
        coord_cut_give_up(c, job, "the job has ended");
    job->reason = sl_strdup(reason); // without memory it has none
    job->ended_us = sl_wall_us(c->options.clock);
    stop_clock(c, job);
    job_enter(job, how);
    FAULT("job.finish");
    if (BROKEN(rule_E2))
        tell_end(c, job);
    if (!commit_end(c, job))
        return;
    FAULT("job.finished");
    LOG(INFO, "job ended", "job=%s state=%s reason=%s", job->id_text,
        job_state_name(how), reason);
    list_remove(&job->on_active);
    tell_end(c, job);
    job_release_work(job);
    c->io.changed(c->io.arg, job->id);
}

void coord_fail_job(struct coord *c, struct job *job, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;

    va_start(ap, fmt);
    buf_vappendf(&text, fmt, ap);
    va_end(ap);
    coord_end_job(c, job, JOB_FAILED, buf_text(&text));
    buf_release(&text);
}

// ---- clients

static enum sl_err find(struct coord *c, const char *id, struct job **out,
                        struct sl_error *err)
{
    struct job *by_name = NULL;
    unsigned long long number;
    size_t at = 0;
    void *value;
    int end = 0;

    if (sscanf(id, "j-%llu%n", &number, &end) == 1 && id[end] == '\0') {
        *out = coord_job(c, number);
        return *out != NULL ? SL_OK
                            : sl_fail(err, SL_ENOENT, "there is no job %s", id);
    }
    while (map_next(&c->jobs, &at, NULL, &value)) {
        struct job *job = value;

        if (strcmp(job->name, id) != 0)
            continue;
        if (by_name != NULL)
            return sl_fail(err, SL_ESTATE,
                           "several jobs are named '%s'; say which by its id, "
                           "like %s",
                           id, by_name->id_text);
        by_name = job;
    }
    if (by_name == NULL)
        return sl_fail(err, SL_ENOENT,
                       "there is no job '%s'; ids look like j-7", id);
    *out = by_name;
    return SL_OK;
}

enum sl_err coord_find(struct coord *c, const char *id, uint64_t *job,
                       struct sl_error *err)
{
    struct job *found = NULL;
    enum sl_err rc = find(c, id, &found, err);

    if (rc == SL_OK)
        *job = found->id;
    return rc;
}

uint64_t coord_changes(const struct coord *c, uint64_t id, bool *ended)
{
    struct job *job = coord_job(c, id);

    if (job == NULL)
        return 0;
    *ended = job_ended(job);
    return job->changes + 1;
}

// ---- submit

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

// The cut to start from, if the request names one; else *out stays NULL.
static enum sl_err read_resume(struct coord *c,
                               const Sluice__V1__SubmitRequest *request,
                               const Sluice__V1__JobSpec *spec,
                               Sluice__V1__ResumeSource **out,
                               struct sl_error *err)
{
    return request->resume[0] == '\0'
               ? SL_OK
               : coord_resume_read(c, request->resume, spec, out, err);
}

static enum sl_err explain(struct coord *c,
                           const Sluice__V1__SubmitRequest *request,
                           const Sluice__V1__JobSpec *spec,
                           Sluice__V1__SubmitReply **reply,
                           struct sl_error *err)
{
    Sluice__V1__ResumeSource *resume = NULL;
    struct buf text = BUF_INIT;
    enum sl_err rc = read_resume(c, request, spec, &resume, err);

    wire_free((ProtobufCMessage *)resume);
    if (rc == SL_OK)
        rc = coord_explain(c, spec, &text, err);

    if (rc == SL_OK)
        rc = reply_to(reply, 0, "", buf_text(&text), false);
    buf_release(&text);
    return rc;
}

// The same request id again: the same job, if it asks for the same.
static enum sl_err same_request(struct coord *c, uint64_t id,
                                const struct buf *packed,
                                const Sluice__V1__SubmitRequest *request,
                                Sluice__V1__SubmitReply **reply,
                                struct sl_error *err)
{
    struct job *job = coord_job(c, id);
    struct buf had = BUF_INIT;
    bool same;
    enum sl_err rc;

    if (job == NULL)
        return sl_fail(err, SL_EINTERNAL, "job j-%llu is not loaded",
                       (unsigned long long)id);
    rc = wire_pack(&job->spec->base, &had);
    same = rc == SL_OK && had.len == packed->len &&
           memcmp(had.data, packed->data, had.len) == 0 &&
           (job->resume != NULL) == (request->resume[0] != '\0');
    buf_release(&had);
    if (rc != SL_OK)
        return rc;
    if (!same)
        return sl_fail(err, SL_EEXIST,
                       "request '%s' was job %s, with another spec",
                       request->request_id, job->id_text);
    return reply_to(reply, job->id, job->id_text, "", true);
}

// Takes spec and resume on success.
static enum sl_err add_job(struct coord *c, Sluice__V1__JobSpec *spec,
                           Sluice__V1__ResumeSource *resume,
                           const struct buf *packed,
                           const struct buf *packed_resume, const char *request,
                           struct job **out, struct sl_error *err)
{
    struct journal_job row = {
        .uid = coord_random(c),
        .incarnation = 1,
        .name = spec->name,
        .request_id = request,
        .state = JOB_PLACING,
        .spec = {packed->data, packed->len},
        .resume = {packed_resume->data, packed_resume->len},
        .submitted_us = sl_wall_us(c->options.clock),
    };
    struct job *job = job_new(0, row.uid, 1, spec->name, request, spec);
    uint64_t id = 0;
    enum sl_err rc;

    if (job == NULL || map_reserve(&c->jobs, 1) != SL_OK) {
        if (job != NULL)
            job->spec = NULL; // still the caller's
        job_free(job);
        return sl_fail(err, SL_ENOMEM, "one more job");
    }
    rc = journal_job_add(c->journal, &row, &id, err);
    if (!coord_wrote(c, rc, err)) {
        job->spec = NULL;
        job_free(job);
        return rc;
    }
    job->id = id;
    job->resume = resume;
    snprintf(job->id_text, sizeof(job->id_text), "j-%llu",
             (unsigned long long)id);
    job->submitted_us = row.submitted_us;
    job->map_version = c->term << 32; // rises over restarts
    map_put(&c->jobs, id, job);
    list_push_back(&c->active, &job->on_active);
    c->last_job = id;
    *out = job;
    return SL_OK;
}

// A request that is new. Takes *spec on success.
static enum sl_err accept_new(struct coord *c, Sluice__V1__JobSpec **spec,
                              const struct buf *packed,
                              const Sluice__V1__SubmitRequest *request,
                              struct job **out, struct sl_error *err)
{
    Sluice__V1__ResumeSource *resume = NULL;
    struct buf packed_resume = BUF_INIT;
    enum sl_err rc = read_resume(c, request, *spec, &resume, err);

    if (rc == SL_OK && resume != NULL)
        rc = wire_pack(&resume->base, &packed_resume);
    if (rc == SL_OK)
        rc = add_job(c, *spec, resume, packed, &packed_resume,
                     request->request_id, out, err);
    if (rc == SL_OK)
        *spec = NULL; // the job's now
    else
        wire_free((ProtobufCMessage *)resume);
    buf_release(&packed_resume);
    return rc;
}

static void accepted(struct coord *c, struct job *job)
{
    HISTORY("submitted", "job=%llu uid=%llx name=%s",
            (unsigned long long)job->id, (unsigned long long)job->uid,
            job->name);
    FAULT("api.submitted");
    LOG(INFO, "job accepted", "job=%s name=%s", job->id_text, job->name);
    if (job->resume != NULL)
        LOG(INFO, "job resumes",
            "job=%s from=j-%llu cut=%llu steps=%llu even=%d", job->id_text,
            (unsigned long long)job->resume->cut->job,
            (unsigned long long)job->resume->cut->checkpoints[0]->cut,
            (unsigned long long)job_resumed_steps(job), job->resume->even);
    coord_advance(c, job);
    coord_dispatch(c);
}

static enum sl_err accept(struct coord *c, Sluice__V1__JobSpec **spec,
                          const Sluice__V1__SubmitRequest *request,
                          Sluice__V1__SubmitReply **reply, struct sl_error *err)
{
    struct buf packed = BUF_INIT;
    struct job *job = NULL;
    uint64_t id = 0;
    enum sl_err rc = wire_pack(&(*spec)->base, &packed);

    if (rc != SL_OK)
        return sl_fail(err, rc, "the spec");
    rc =
        request->request_id[0] == '\0'
            ? SL_ENOENT
            : journal_job_by_request(c->journal, request->request_id, &id, err);
    if (rc == SL_OK) {
        rc = same_request(c, id, &packed, request, reply, err);
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
        rc = request->dry_run ? explain(c, request, spec, reply, err)
                              : accept(c, &spec, request, reply, err);
    if (spec != NULL)
        wire_free(&spec->base);
    return rc;
}

// ---- get, stop, delete

enum sl_err coord_get(struct coord *c, const Sluice__V1__JobRequest *request,
                      Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = find(c, request->id, &job, err);

    if (rc != SL_OK)
        return rc;
    *reply = status_job(c, job, request->shards, request->spec);
    return *reply == NULL ? sl_fail(err, SL_ENOMEM, "a status") : SL_OK;
}

enum sl_err coord_stop(struct coord *c, const Sluice__V1__StopRequest *request,
                       Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = find(c, request->id, &job, err);

    if (rc != SL_OK)
        return rc;
    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    coord_end_job(c, job, JOB_STOPPED, "stopped by request");
    if (c->dead)
        return sl_fail(err, SL_EIO, "the journal could not be written");
    coord_dispatch(c);
    *reply = status_job(c, job, false, false);
    return *reply == NULL ? sl_fail(err, SL_ENOMEM, "a status") : SL_OK;
}

static void tell_deleted(struct coord *c, struct job *job)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        for (uint32_t i = 0; m->role == MEMBER_PSSERVER && i < job->shards;
             i++) {
            if (strcmp(job->shard[i].psserver, m->name) == 0) {
                send_close(c, m, job->id, job->uid, true);
                break;
            }
        }
    }
}

static enum sl_err delete_job(struct coord *c, struct job *job,
                              struct sl_error *err)
{
    struct sl_error litter = SL_ERROR_INIT;
    enum sl_err rc = journal_job_delete(c->journal, job->id, err);

    if (!coord_wrote(c, rc, err))
        return rc;
    for (size_t i = 0; i < job->cuts_count; i++) {
        if (manifest_remove(c->options.fs, job->cuts[i].path, &litter) != SL_OK)
            LOG(WARN, "manifest not removed", "job=%s why=%s", job->id_text,
                litter.text);
    }
    tell_deleted(c, job);
    HISTORY("deleted", "job=%llu uid=%llx", (unsigned long long)job->id,
            (unsigned long long)job->uid);
    LOG(INFO, "job deleted", "job=%s name=%s", job->id_text, job->name);
    map_remove(&c->jobs, job->id);
    c->io.changed(c->io.arg, job->id);
    job_free(job);
    return SL_OK;
}

enum sl_err coord_delete(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__DeleteReply **reply, struct sl_error *err)
{
    Sluice__V1__DeleteReply msg = SLUICE__V1__DELETE_REPLY__INIT;
    ProtobufCMessage *copy = NULL;
    const struct job *needs;
    struct job *job = NULL;
    enum sl_err rc = find(c, request->id, &job, err);

    if (rc != SL_OK)
        return rc;
    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    needs = coord_resumed_by(c, job);
    if (needs != NULL)
        return sl_fail(err, SL_ESTATE,
                       "job %s was resumed from a checkpoint of job %s and has "
                       "none of its own yet; try again later, or stop it",
                       needs->id_text, job->id_text);
    if (!job_ended(job))
        return sl_fail(err, SL_ESTATE,
                       "job %s is %s; stop it first: sluice stop %s",
                       job->id_text, job_state_name(job->state), job->id_text);
    if (job->cut != NULL)
        return sl_fail(err, SL_EBUSY,
                       "a checkpoint of job %s is being written; try again",
                       job->id_text);
    rc = wire_dup(&copy, &msg.base);
    if (rc == SL_OK)
        rc = delete_job(c, job, err);
    if (rc == SL_OK)
        *reply = (Sluice__V1__DeleteReply *)copy;
    else
        wire_free(copy);
    return rc;
}
