// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recover.c -- the way from the journal to a coordinator that
// may let people in.
//
//   1. term + 1, committed; the store is the one that it was
//   2. jobs with shards, cuts, evaluations, blames
//   3. K6: an intent without an outcome: the manifest is there: published;
//      not there: aborted, also if it turns up later
//   4. I7: a manifest that the journal does not know: its job is paused
//   5. a job whose rows cannot be read is put aside; the others go on
//
// Evidence starts empty, under the newest incarnations: the shards will say
// what they have counted. Attempts are forgotten, which costs only work.
#include "coordinator/core/recover.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/behind.h"
#include "coordinator/core/cluster.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/unreadable.h"
#include "coordinator/journal/manifest.h"

struct loading {
    struct coord *c;
    struct job *job;
    // shards, collected before the job can be placed
    struct journal_shard *shards; // their names are ours
    uint32_t count;
    // intents to settle, collected while their rows are being walked
    struct job_cut *intent_cuts;
    size_t intents_count;
};

// ---- messages

// A packed message of the journal, on the heap. What cannot be read is
// SL_ECORRUPT.
static enum sl_err load(ProtobufCMessage **out,
                        const ProtobufCMessageDescriptor *of,
                        struct journal_blob blob, const char *what,
                        struct sl_error *err)
{
    enum sl_err rc = wire_load(out, of, blob.data, blob.bytes, err);

    return rc == SL_OK || rc == SL_ENOMEM
               ? rc
               : sl_prefix(err, SL_ECORRUPT, "journal: %s", what);
}

// ---- rows

static enum sl_err take_shard(void *arg, const struct journal_shard *row,
                              struct sl_error *err)
{
    struct loading *l = arg;
    struct journal_shard *more =
        sl_realloc_array(l->shards, l->count + 1, sizeof(*more));

    if (more == NULL)
        return sl_fail(err, SL_ENOMEM, "shards");
    l->shards = more;
    more[l->count] = *row;
    more[l->count].psserver = sl_strdup(row->psserver);
    return more[l->count++].psserver == NULL ? sl_fail(err, SL_ENOMEM, "shards")
                                             : SL_OK;
}

static enum sl_err load_cut(struct job_cut *out, const struct journal_cut *row,
                            struct sl_error *err)
{
    ProtobufCMessage *reply = NULL, *checkpoint = NULL, *counts = NULL;
    Sluice__V1__CheckpointsReply *one;
    enum sl_err rc = load(&reply, &sluice__v1__checkpoints_reply__descriptor,
                          row->checkpoint, "a cut", err);

    if (rc != SL_OK)
        return rc;
    one = (Sluice__V1__CheckpointsReply *)reply;
    rc = one->n_checkpoints == 1
             ? wire_dup(&checkpoint, &one->checkpoints[0]->base)
             : sl_fail(err, SL_ECORRUPT, "journal: a cut without checkpoint");
    wire_free(reply);
    if (rc == SL_OK)
        rc = load(&counts, &sluice__v1__job_status__descriptor, row->counts,
                  "counts of a cut", err);
    if (rc != SL_OK) {
        wire_free(checkpoint);
        return rc;
    }
    *out = (struct job_cut){
        .n = row->cut,
        .epochs = row->epochs,
        .path = sl_strdup(row->path),
        .checkpoint = (Sluice__V1__Checkpoint *)checkpoint,
        .counts = (Sluice__V1__JobStatus *)counts,
    };
    if (out->path != NULL)
        return SL_OK;
    job_cut_release(out);
    return sl_fail(err, SL_ENOMEM, "cuts");
}

static enum sl_err add_intent(struct loading *l, struct job_cut *cut)
{
    struct job_cut *more =
        sl_realloc_array(l->intent_cuts, l->intents_count + 1, sizeof(*more));

    if (more == NULL)
        return SL_ENOMEM;
    l->intent_cuts = more;
    l->intent_cuts[l->intents_count++] = *cut;
    return SL_OK;
}

static void note_outcome(const struct job *job, const struct journal_cut *row)
{
    if (row->state != JOURNAL_CUT_INTENT)
        JOB_HISTORY(job, "cut_outcome", " cut=%llu state=%s", (ull)row->cut,
                    row->state == JOURNAL_CUT_PUBLISHED ? "published"
                    : row->state == JOURNAL_CUT_DROPPED ? "dropped"
                                                        : "aborted");
}

static enum sl_err take_cut(void *arg, const struct journal_cut *row,
                            struct sl_error *err)
{
    struct loading *l = arg;
    struct job_cut cut;
    enum sl_err rc;

    if (row->cut > l->job->last_cut)
        l->job->last_cut = row->cut;
    note_outcome(l->job, row); // whoever committed it may have died at that
    if (row->state == JOURNAL_CUT_DROPPED)
        l->job->cuts_published++;
    if (row->state == JOURNAL_CUT_ABORTED || row->state == JOURNAL_CUT_DROPPED)
        return SL_OK;
    rc = load_cut(&cut, row, err);
    if (rc != SL_OK)
        return rc;
    if (row->state == JOURNAL_CUT_INTENT) {
        rc = add_intent(l, &cut);
    } else {
        rc = job_add_cut(l->job, &cut);
        l->job->cuts_published++;
    }
    if (rc != SL_OK) {
        job_cut_release(&cut);
        return sl_fail(err, rc, "cuts");
    }
    return SL_OK;
}

static enum sl_err take_evaluation(void *arg,
                                   const struct journal_evaluation *row,
                                   struct sl_error *err)
{
    struct loading *l = arg;

    return job_add_evaluation(l->job, row) == SL_OK
               ? SL_OK
               : sl_fail(err, SL_ENOMEM, "evaluations");
}

static enum sl_err take_blame(void *arg, uint64_t closure, uint64_t worker,
                              struct sl_error *err)
{
    struct loading *l = arg;
    struct work *w = leases_work(l->job, closure);

    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "blames");
    closure_remember(&w->closure, worker);
    buf_appendf(&w->story, "%sone before the restart",
                w->story.len > 0 ? ", " : "");
    return SL_OK;
}

// ---- K6

static enum sl_err settle_published(struct loading *l, struct job_cut *cut,
                                    struct sl_error *err)
{
    uint32_t shards = (uint32_t)cut->checkpoint->n_shards;
    struct wire_tag *tags = sl_malloc_array(shards, sizeof(*tags));
    enum sl_err rc;

    if (tags == NULL || shards != l->count) {
        sl_free(tags);
        return sl_fail(err, SL_ECORRUPT, "journal: cut %llu has %u shards",
                       (ull)cut->n, shards);
    }
    for (uint32_t i = 0; i < shards; i++)
        tags[i] = wire_tag_of(cut->checkpoint->shards[i]->tag);
    rc = journal_cut_publish(l->c->journal, l->job->id, cut->n, tags, shards,
                             err);
    if (rc == SL_OK && job_add_cut(l->job, cut) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "cuts");
    if (rc == SL_OK) {
        memset(cut, 0, sizeof(*cut));
        for (uint32_t i = 0; i < shards; i++)
            l->job->shard[i].cut = tags[i];
        l->job->cuts_published++;
    }
    sl_free(tags);
    return rc;
}

static enum sl_err settle_intents(struct loading *l, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < l->intents_count; i++) {
        struct job_cut *cut = &l->intent_cuts[i];
        uint64_t n = cut->n;
        bool there = false;

        rc = manifest_settle(l->c->options.fs, cut->path, &there, err);
        if (rc == SL_OK)
            rc = there ? settle_published(l, cut, err)
                       : journal_cut_abort(l->c->journal, l->job->id, n, err);
        JOB_HISTORY(l->job, "cut_outcome", " cut=%llu state=%s", (ull)n,
                    there ? "published" : "aborted");
        if (rc == SL_OK)
            LOG(INFO, "open intent settled", "job=%s cut=%llu published=%d",
                l->job->id_text, (ull)n, there);
    }
    return rc;
}

// ---- I7

static enum sl_err check_manifests(struct loading *l, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct buf folder = BUF_INIT;
    uint64_t highest = 0;
    enum sl_err rc = manifest_folder(&folder, l->c->store, l->job->name,
                                     l->job->id, l->job->uid);

    if (rc == SL_OK)
        rc = manifest_highest(l->c->options.fs, buf_text(&folder), &highest,
                              err);
    if (rc == SL_OK && highest > l->job->last_cut) {
        sl_fail(&why, SL_ESTATE,
                "%s holds cut %llu, this journal knows only %llu",
                buf_text(&folder), (ull)highest, (ull)l->job->last_cut);
        behind_pause(l->c, l->job, &why);
    }
    buf_release(&folder);
    return rc;
}

// ---- a job

static enum sl_err place(struct loading *l,
                         Sluice__V1__CheckpointsReply *layout,
                         struct sl_error *err)
{
    const char **names = sl_malloc_array(l->count, sizeof(*names));
    enum sl_err rc;

    if (names == NULL)
        return sl_fail(err, SL_ENOMEM, "shards");
    for (uint32_t i = 0; i < l->count; i++)
        names[i] = l->shards[i].psserver;
    rc = job_place(l->job, layout, names, l->count, err);
    sl_free(names);
    if (rc == SL_OK && l->job->allreduce) {
        l->job->ring.generation = l->shards[0].incarnation;
        rc = journal_ring_read(l->c->journal, l->job->id,
                               &l->job->contributions, err);
        if (rc == SL_OK)
            rc = journal_ring_redone_read(l->c->journal, l->job->id,
                                          &l->job->redone, err);
    }
    for (uint32_t i = 0; rc == SL_OK && i < l->count; i++) {
        l->job->evidence.shard[i].incarnation = l->shards[i].incarnation;
        l->job->shard[i].cut = l->shards[i].cut;
        l->job->shard[i].since_ms = coord_now(l->c);
    }
    return rc;
}

static enum sl_err load_layout(struct loading *l, const struct journal_job *row,
                               struct sl_error *err)
{
    ProtobufCMessage *layout = NULL;
    Sluice__V1__CheckpointsReply *typed;
    enum sl_err rc;

    if (l->count == 0)
        return SL_OK; // was not placed yet
    rc = load(&layout, &sluice__v1__checkpoints_reply__descriptor, row->layout,
              "a layout", err);
    if (rc != SL_OK)
        return rc;
    typed = (Sluice__V1__CheckpointsReply *)layout;
    for (size_t i = 0; rc == SL_OK && i < typed->n_pieces; i++) {
        if (typed->pieces[i]->shard >= l->count)
            rc = sl_fail(err, SL_ECORRUPT, "journal: a piece on shard %u of %u",
                         typed->pieces[i]->shard, l->count);
    }
    if (rc == SL_OK)
        rc = place(l, typed, err);
    if (rc != SL_OK)
        wire_free(layout);
    return rc;
}

static enum sl_err load_parts(struct loading *l, const struct journal_job *row,
                              struct sl_error *err)
{
    struct journal *j = l->c->journal;
    enum sl_err rc = journal_each_shard(j, row->id, take_shard, l, err);

    if (rc == SL_OK)
        rc = load_layout(l, row, err);
    if (rc == SL_OK)
        rc = journal_cuts_past(j, row->id, &l->job->cuts_published, err);
    if (rc == SL_OK)
        rc = journal_each_cut(j, row->id, take_cut, l, err);
    if (rc == SL_OK)
        rc = settle_intents(l, err);
    if (rc == SL_OK && row->state < JOB_FINISHED)
        rc = check_manifests(l, err);
    if (rc == SL_OK)
        rc = journal_each_evaluation(j, row->id, take_evaluation, l, err);
    if (rc == SL_OK)
        rc = journal_each_blame(j, row->id, take_blame, l, err);
    return rc;
}

static void loading_release(struct loading *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        sl_free((char *)l->shards[i].psserver);
    sl_free(l->shards);
    for (size_t i = 0; i < l->intents_count; i++)
        job_cut_release(&l->intent_cuts[i]);
    sl_free(l->intent_cuts);
}

static enum sl_err load_resume(struct job *job, const struct journal_job *row,
                               struct sl_error *err)
{
    ProtobufCMessage *resume = NULL;
    enum sl_err rc;

    if (row->resume.bytes == 0)
        return SL_OK;
    rc = load(&resume, &sluice__v1__resume_source__descriptor, row->resume,
              "a resumed cut", err);
    job->resume = (Sluice__V1__ResumeSource *)resume;
    if (rc == SL_OK && job->resume->cut->n_checkpoints != 1)
        rc = sl_fail(err, SL_ECORRUPT, "journal: a resumed job without a cut");
    return rc;
}

static enum sl_err make_job(struct coord *c, const struct journal_job *row,
                            struct job **out, struct sl_error *err)
{
    ProtobufCMessage *spec = NULL;
    struct job *job;
    enum sl_err rc = load(&spec, &sluice__v1__job_spec__descriptor, row->spec,
                          "a spec", err);

    if (rc != SL_OK)
        return rc;
    job = job_new(row->id, row->uid, row->incarnation, row->name,
                  row->request_id, (Sluice__V1__JobSpec *)spec);
    if (job == NULL) {
        wire_free(spec);
        return sl_fail(err, SL_ENOMEM, "job %s", row->name);
    }
    rc = load_resume(job, row, err);
    if (rc != SL_OK) {
        job_free(job);
        return rc;
    }
    job->has_facts = row->has_facts;
    job->facts = row->facts;
    job->submitted_us = row->submitted_us;
    job->ended_us = row->ended_us;
    job->counters = row->counters;
    job->map_version = c->term << 32; // rises over restarts
    if (row->has_facts)
        closure_counted(&job->probe.closure);
    *out = job;
    return SL_OK;
}

// A job that has not ended starts as PLACING; its shards' hellos move it on.
static enum sl_err revive(struct coord *c, struct job *job,
                          struct sl_error *err)
{
    list_push_back(&c->jobs.active, &job->on_active);
    job->counters.restarts++;
    return journal_job_counters(c->journal, job->id, &job->counters, err);
}

static enum sl_err bury(struct job *job, const struct journal_job *row,
                        struct sl_error *err)
{
    ProtobufCMessage *final = NULL;
    enum sl_err rc = load(&final, &sluice__v1__job_status__descriptor,
                          row->final, "a last status", err);

    if (rc != SL_OK)
        return rc;
    job->final = (Sluice__V1__JobStatus *) final;
    job_restore(job, (enum job_state)row->state);
    job->reason = sl_strdup(row->reason);
    job_release_work(job);
    return SL_OK;
}

static enum sl_err read_job(struct coord *c, const struct journal_job *row,
                            struct job **out, struct sl_error *err)
{
    struct loading l = {.c = c};
    enum sl_err rc = make_job(c, row, &l.job, err);

    if (rc != SL_OK)
        return rc;
    rc = load_parts(&l, row, err);
    if (rc == SL_OK)
        rc = row->state >= JOB_FINISHED ? bury(l.job, row, err)
                                        : revive(c, l.job, err);
    loading_release(&l);
    if (rc == SL_OK) {
        *out = l.job;
        return SL_OK;
    }
    list_remove(&l.job->on_active);
    job_free(l.job);
    return rc;
}

static enum sl_err load_job(void *arg, const struct journal_job *row,
                            struct sl_error *err)
{
    struct coord *c = arg;
    struct sl_error why = SL_ERROR_INIT;
    struct job *job = NULL;
    enum sl_err rc = read_job(c, row, &job, &why);

    if (rc == SL_ECORRUPT && !journal_failed(c->journal))
        rc = unreadable_job(&job, row, &why);
    if (rc == SL_OK && map_put(&c->jobs.by_id, row->id, job) != SL_OK) {
        list_remove(&job->on_active);
        job_free(job);
        rc = sl_fail(&why, SL_ENOMEM, "one more job");
    }
    if (rc != SL_OK)
        return sl_fail(err, rc, "job j-%llu: %s", (ull)row->id, why.text);
    JOB_HISTORY(row, "recovered", " state=%s", job_state_name(job->state));
    return SL_OK;
}

enum sl_err recover_coord(struct coord *c, struct sl_error *err)
{
    enum sl_err rc = journal_next_term(c->journal, &c->term, err);

    HISTORY("term", "term=%llu", (ull)c->term);
    FAULT("term.bump");
    if (rc == SL_OK)
        rc = cluster_open(c, err);
    if (rc == SL_OK)
        rc = journal_last_job(c->journal, &c->jobs.last, err);
    if (rc == SL_OK)
        rc = behind_skip_stored(c, err);
    if (rc == SL_OK)
        rc = journal_each_job(c->journal, load_job, c, err);
    if (rc == SL_OK)
        rc = journal_tidy(c->journal, err);
    FAULT("recover.journal");
    return rc;
}
