// SPDX-License-Identifier: Apache-2.0
// coordinator/core/calls.c -- the calls of clients for one job: its status, its
// stop, its deletion, a cut of it.
#include "coordinator/core/advance.h"
#include "coordinator/core/coord.h"

#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/run/log.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/removals.h"
#include "coordinator/core/cuts/start_from.h"
#include "coordinator/core/send.h"
#include "coordinator/core/leases/serve.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/status/job_status.h"

enum sl_err coord_find(struct coord *c, const char *id, uint64_t *job,
                       struct sl_error *err)
{
    return jobs_find(c, id, job, err);
}

// Opens the job that a client names; ended_close.
static enum sl_err calls_open_job(struct coord *c, const char *id,
                                  enum load_part part, struct job **out,
                                  struct sl_error *err)
{
    uint64_t number = 0;
    enum sl_err rc = jobs_find(c, id, &number, err);

    return rc == SL_OK ? ended_open(c, number, part, out, err) : rc;
}

uint64_t coord_changes(const struct coord *c, uint64_t id, bool *ended)
{
    struct job *job = jobs_get(c, id);

    *ended = job == NULL || job_ended(job);
    if (job == NULL)
        return jobs_ended(c, id) == NULL ? 0 : 1;
    return job->changes + 1;
}

enum sl_err coord_get(struct coord *c, const Sluice__V1__JobRequest *request,
                      Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = calls_open_job(
        c, request->id, request->shards ? LOAD_STATUS : LOAD_LINE, &job, err);

    if (rc != SL_OK)
        return rc;
    *reply = status_job(c, job, request->shards, request->spec);
    ended_close(job);
    return *reply == NULL ? sl_fail(err, SL_ENOMEM, "a status") : SL_OK;
}

// Returns true if a cut that holds more can be made now, or after a move. I7
// holds a paused job: nothing would begin one.
static bool may_be_cut(const struct coord *c, const struct job *job)
{
    return cuts_worth(job) ||
           (!job->behind.paused && job_is_moving(job, coord_now(c)));
}

static void calls_stop_job(struct coord *c, struct job *job, bool checkpoint)
{
    struct cut_wish wish;

    if (!checkpoint || !may_be_cut(c, job)) {
        end_job(c, job, JOB_STOPPED, "stopped by request");
        return;
    }
    if (job->cuts.stop_after)
        return;
    wish = cuts_wish_now(job);
    (void)cuts_want(job, &wish);
    job->cuts.stop_after = true;
    advance_job(c, job);
}

enum sl_err coord_stop(struct coord *c, const Sluice__V1__StopRequest *request,
                       Sluice__V1__JobStatus **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = calls_open_job(c, request->id, LOAD_LINE, &job, err);

    if (rc != SL_OK)
        return rc;
    if (c->dead)
        rc = sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    else
        calls_stop_job(c, job, request->checkpoint);
    if (rc == SL_OK && c->dead)
        rc = sl_fail(err, SL_EIO, "the journal could not be written");
    if (rc == SL_OK) {
        serve_workers(c);
        *reply = status_job(c, job, false, false);
        if (*reply == NULL)
            rc = sl_fail(err, SL_ENOMEM, "a status");
    }
    ended_close(job);
    return rc;
}

// ---- a cut

static enum sl_err judge_checkpoint(const struct job *job, struct sl_error *err)
{
    const struct job_cut *last = job_last_cut(job);

    if (job_ended(job))
        return sl_fail(err, SL_ESTATE,
                       "job %s is %s: it gets no more checkpoints; %s",
                       job->id_text, job_state_name(job->state),
                       last == NULL ? "it has none" : last->path);
    if (job->behind.paused)
        return sl_fail(err, SL_ESTATE,
                       "job %s is paused, because the journal is older than "
                       "what ran (I7): `sluice status %s` says how to go on",
                       job->id_text, job->id_text);
    if (job->mode->on_workers && job->pause.row.state == JOURNAL_PAUSE_HOLDS)
        return sl_fail(err, SL_ESTATE,
                       "job %s is paused, and its workers, which had its "
                       "state, are released: `sluice resume %s` first",
                       job->id_text, job->id_text);
    if (!job->shards.placed)
        return sl_fail(err, SL_ESTATE,
                       "job %s has no state to write into a checkpoint yet: "
                       "`sluice status %s` says what it waits for",
                       job->id_text, job->id_text);
    return SL_OK;
}

// Returns the text of what a wished cut waits for, or NULL.
static char *checkpoint_waits(const struct coord *c, const struct job *job)
{
    Sluice__V1__JobStatus *s = NULL;
    const char *why = "";
    char *text;

    if (!job_served(job)) {
        s = status_job(c, job, false, false);
        why = s == NULL ? "" : s->reason;
    } else if (job->cuts.why != NULL) {
        why = job->cuts.why;
    }
    text = sl_strdup(why);
    wire_free((ProtobufCMessage *)s);
    return text;
}

// Copies a checkpoint without its shards, of which there may be thousands.
static enum sl_err dup_checkpoint(ProtobufCMessage **out,
                                  const struct job_cut *cut)
{
    Sluice__V1__Checkpoint view = *cut->checkpoint;

    view.manifest = cut->path;
    view.n_shards = 0;
    return wire_dup(out, &view.base);
}

static enum sl_err reply_checkpoint(const struct coord *c,
                                    const struct job *job,
                                    const struct cut_wish *wish,
                                    Sluice__V1__CheckpointReply **reply,
                                    struct sl_error *err)
{
    const struct job_cut *cut = job_granted(job, wish);
    Sluice__V1__CheckpointReply *m =
        wire_new(&sluice__v1__checkpoint_reply__descriptor);
    ProtobufCMessage *copy = NULL;
    enum sl_err rc = SL_ENOMEM;

    if (m != NULL)
        m->asked = wire_new(&sluice__v1__checkpoint_asked__descriptor);
    if (m != NULL && m->asked != NULL) {
        m->asked->steps = wish->steps;
        m->asked->after = wish->after;
        m->waits = cut != NULL ? sl_strdup("") : checkpoint_waits(c, job);
        rc = m->waits == NULL ? SL_ENOMEM : SL_OK;
    }
    if (rc == SL_OK && cut != NULL)
        rc = dup_checkpoint(&copy, cut);
    if (rc != SL_OK) {
        wire_free((ProtobufCMessage *)m);
        return sl_fail(err, rc, "a checkpoint");
    }
    m->checkpoint = (Sluice__V1__Checkpoint *)copy;
    *reply = m;
    return SL_OK;
}

// Reads the wish that an earlier answer named, or makes one for now, if it can
// be granted.
static enum sl_err read_wish(struct cut_wish *out, const struct job *job,
                             const Sluice__V1__CheckpointAsked *asked,
                             struct sl_error *err)
{
    enum sl_err rc;

    if (asked != NULL) {
        // An earlier answer named these numbers, so that cut existed: a wish
        // for a later one than the next would have cuts follow each other for
        // ever.
        *out = (struct cut_wish){true, asked->steps,
                                 sl_min(asked->after, job->cuts.last)};
        return job_granted(job, out) != NULL ? SL_OK
                                             : judge_checkpoint(job, err);
    }
    rc = judge_checkpoint(job, err);
    if (rc == SL_OK)
        *out = cuts_wish_now(job);
    return rc;
}

enum sl_err coord_checkpoint(struct coord *c,
                             const Sluice__V1__CheckpointRequest *request,
                             Sluice__V1__CheckpointReply **reply,
                             struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = calls_open_job(c, request->id, LOAD_WHOLE, &job, err);
    struct cut_wish wish;
    bool begun = false;

    if (rc != SL_OK)
        return rc;
    rc = c->dead ? sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping")
                 : read_wish(&wish, job, request->asked, err);
    if (rc == SL_OK && job_granted(job, &wish) == NULL) {
        begun = cuts_want(job, &wish);
        advance_job(c, job);
        if (c->dead)
            rc = sl_fail(err, SL_EIO, "the journal could not be written");
        else
            serve_workers(c);
    }
    if (rc == SL_OK)
        rc = reply_checkpoint(c, job, &wish, reply, err);
    if (rc == SL_OK) {
        (*reply)->begun = begun;
        tainted_list(c, NULL, job->id_text, &(*reply)->tainted,
                     &(*reply)->n_tainted);
    }
    ended_close(job);
    return rc;
}

// ---- the deletion

static enum sl_err close_on(void *arg, uint64_t job, uint64_t uid,
                            const char *psserver, struct sl_error *err)
{
    struct coord *c = arg;
    const struct member *m =
        members_find(&c->members, MEMBER_PSSERVER, psserver);

    if (m != NULL)
        send_close(c, m, job, uid, true);
    return SL_OK;
}

// The journal knows by now which psservers its shards lay on; a job that cannot
// be read may have lain on any.
static void calls_close_deleted(struct coord *c, struct job *job)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (job->unreadable ||
            (job->mode->on_workers && m->role == MEMBER_WORKER))
            send_close(c, m, job->id, job->uid, true);
    }
    if (!job->unreadable)
        coord_wrote(c, journal_each_deleted_of(c->journal, job->id, close_on, c,
                                               &c->err));
}

static enum sl_err delete_job(struct coord *c, struct job *job,
                              struct sl_error *err)
{
    enum sl_err rc;

    if (job->unreadable) // only its rows tell of its cuts
        removals_add_job(c, job);
    rc = journal_job_delete(c->journal, job->id, err);
    if (rc != SL_OK)
        return coord_fatal(c, err);
    if (!job->unreadable)
        removals_add_job(c, job);
    JOB_HISTORY(job, "deleted", "");
    calls_close_deleted(c, job);
    LOG(INFO, "job deleted", "job=%s name=%s", job->id_text, job->name);
    happened_job(c, EVENT_JOB_DELETED, job, NULL, "%s was deleted", job->name);
    feed_forget(c->options.feed, job->uid);
    c->io.changed(c->io.arg, job->id); // its watchers look later
    ended_forget(c, job);
    return SL_OK;
}

static enum sl_err reply_deleted(Sluice__V1__DeleteReply **reply,
                                 struct sl_error *err)
{
    ProtobufCMessage *m = wire_new(&sluice__v1__delete_reply__descriptor);

    if (m == NULL)
        return sl_fail(err, SL_ENOMEM, "a reply");
    *reply = (Sluice__V1__DeleteReply *)m;
    return SL_OK;
}

static enum sl_err judge_delete(struct coord *c, const struct job *job,
                                struct sl_error *err)
{
    const struct job *needs = resumed_by(c, job);

    if (c->dead)
        return sl_fail(err, SL_EUNAVAIL, "the coordinator is stopping");
    if (needs != NULL)
        return sl_fail(err, SL_ESTATE,
                       "job %s was resumed from a checkpoint of job %s and has "
                       "none of its own yet; try again later, or stop it",
                       needs->id_text, job->id_text);
    if (!job_ended(job))
        return sl_fail(err, SL_ESTATE,
                       "job %s is %s; stop it first: sluice stop %s",
                       job->id_text, job_word(job), job->id_text);
    if (job->cuts.now != NULL)
        return sl_fail(err, SL_EBUSY,
                       "a checkpoint of job %s is being written; try again",
                       job->id_text);
    return SL_OK;
}

enum sl_err coord_delete(struct coord *c, const Sluice__V1__JobRequest *request,
                         Sluice__V1__DeleteReply **reply, struct sl_error *err)
{
    struct job *job = NULL;
    enum sl_err rc = calls_open_job(c, request->id, LOAD_LINE, &job, err);

    if (rc == SL_ENOENT && !c->asker.only) {
        rc = behind_delete(c, request->id, err);
        return rc == SL_OK ? reply_deleted(reply, err) : rc;
    }
    if (rc != SL_OK)
        return rc;
    rc = judge_delete(c, job, err);
    if (rc == SL_OK)
        rc = reply_deleted(reply, err);
    if (rc != SL_OK) {
        ended_close(job);
        return rc;
    }
    rc = delete_job(c, job, err);
    if (rc != SL_OK) {
        ended_close(job);
        wire_free(&(*reply)->base);
        *reply = NULL;
    }
    return rc;
}
