// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/load.c -- the way of one job from its rows to its
// struct.
#include "coordinator/core/recovery/load.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/recovery/stored.h"

struct job_loading {
    struct coord *c;
    enum load_part part;
    struct job *job;
    // collected before the job can be placed
    struct journal_shard *shards; // owned, with their names
    uint32_t count;
    // intents to settle, collected during the walk over their rows
    struct job_cut *intent_cuts;
    size_t intents_count;
};

// ---- messages

// Unpacks a message of the journal onto the heap. A message that cannot be read
// is SL_ECORRUPT.
// The limits of the wire do not hold here: a cut counts every shard and epoch,
// and a start that refuses its own rows would end for all jobs.
static enum sl_err load_message(ProtobufCMessage **out,
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

static enum sl_err load_shard_row(void *arg, const struct journal_shard *row,
                                  struct sl_error *err)
{
    struct job_loading *l = arg;
    struct journal_shard *more =
        sl_realloc_array(l->shards, l->count + 1, sizeof(*more));

    if (more == NULL)
        return sl_fail(err, SL_ENOMEM, "shards");
    l->shards = more;
    more[l->count] = *row;
    more[l->count].psserver = sl_strdup(row->psserver);
    more[l->count].replica =
        row->replica[0] == '\0' ? NULL : sl_strdup(row->replica);
    l->count++;
    if (more[l->count - 1].psserver == NULL ||
        (row->replica[0] != '\0' && more[l->count - 1].replica == NULL))
        return sl_fail(err, SL_ENOMEM, "shards");
    return SL_OK;
}

static enum sl_err load_cut_whole(struct job_cut *out,
                                  const struct journal_cut *row,
                                  struct sl_error *err)
{
    ProtobufCMessage *reply = NULL, *checkpoint = NULL, *counts = NULL;
    Sluice__V1__CheckpointsReply *one;
    enum sl_err rc =
        load_message(&reply, &sluice__v1__checkpoints_reply__descriptor,
                     row->checkpoint, "a cut", err);

    if (rc != SL_OK)
        return rc;
    one = (Sluice__V1__CheckpointsReply *)reply;
    rc = one->n_checkpoints == 1
             ? wire_dup(&checkpoint, &one->checkpoints[0]->base)
             : sl_fail(err, SL_ECORRUPT, "journal: a cut without checkpoint");
    wire_free(reply);
    if (rc == SL_OK)
        rc = load_message(&counts, &sluice__v1__job_status__descriptor,
                          row->counts, "counts of a cut", err);
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

static enum sl_err load_cut_path(struct job_cut *out,
                                 const struct journal_cut *row,
                                 struct sl_error *err)
{
    *out = (struct job_cut){.n = row->cut, .path = sl_strdup(row->path)};
    return out->path != NULL ? SL_OK : sl_fail(err, SL_ENOMEM, "cuts");
}

static enum sl_err load_add_intent(struct job_loading *l, struct job_cut *cut)
{
    struct job_cut *more =
        sl_realloc_array(l->intent_cuts, l->intents_count + 1, sizeof(*more));

    if (more == NULL)
        return SL_ENOMEM;
    l->intent_cuts = more;
    l->intent_cuts[l->intents_count++] = *cut;
    return SL_OK;
}

static void load_note_outcome(const struct job_loading *l,
                              const struct journal_cut *row)
{
    if (l->part == LOAD_START && row->state != JOURNAL_CUT_INTENT)
        JOB_HISTORY(l->job, "cut_outcome", " cut=%llu state=%s", (ull)row->cut,
                    row->state == JOURNAL_CUT_PUBLISHED ? "published"
                    : row->state == JOURNAL_CUT_DROPPED ? "dropped"
                                                        : "aborted");
}

static enum sl_err take_cut(void *arg, const struct journal_cut *row,
                            struct sl_error *err)
{
    struct job_loading *l = arg;
    struct job_cut cut;
    enum sl_err rc;

    if (row->cut > l->job->cuts.last)
        l->job->cuts.last = row->cut;
    load_note_outcome(l,
                      row); // the process that committed it may have died then
    if (row->state == JOURNAL_CUT_DROPPED)
        l->job->cuts.published++;
    if (row->state == JOURNAL_CUT_ABORTED || row->state == JOURNAL_CUT_DROPPED)
        return SL_OK;
    rc = l->part < LOAD_WHOLE ? load_cut_path(&cut, row, err)
                              : load_cut_whole(&cut, row, err);
    if (rc != SL_OK)
        return rc;
    if (row->state == JOURNAL_CUT_INTENT) {
        rc = load_add_intent(l, &cut);
    } else {
        rc = job_add_cut(l->job, &cut);
        l->job->cuts.published++;
    }
    if (rc != SL_OK) {
        job_cut_release(&cut);
        return sl_fail(err, rc, "cuts");
    }
    return SL_OK;
}

static enum sl_err load_evaluation_row(void *arg,
                                       const struct journal_evaluation *row,
                                       struct sl_error *err)
{
    struct job_loading *l = arg;

    if (job_reserve_evaluations(l->job, 1) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "evaluations");
    job_add_evaluation(l->job, row);
    return SL_OK;
}

static enum sl_err load_callbacks(struct job_loading *l, uint64_t id,
                                  struct sl_error *err)
{
    struct buf packed = BUF_INIT;
    enum sl_err rc = journal_callbacks_read(l->c->journal, id, &packed, err);

    if (rc == SL_OK)
        rc = monitor_load(l->job, &packed, err);
    buf_release(&packed);
    return rc;
}

static enum sl_err take_blame(void *arg, uint64_t closure, uint64_t worker,
                              struct sl_error *err)
{
    struct job_loading *l = arg;
    struct work *w = leases_work(l->job, closure);

    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "blames");
    closure_remember(&w->closure, worker);
    buf_appendf(&w->story, "%sone before the restart",
                w->story.len > 0 ? ", " : "");
    return SL_OK;
}

// ---- K6

static enum sl_err settle_published(struct job_loading *l, struct job_cut *cut,
                                    struct sl_error *err)
{
    uint32_t shards = (uint32_t)cut->checkpoint->n_shards;
    struct wire_tag *tags = sl_malloc_array(shards, sizeof(*tags));
    enum sl_err rc;

    if (tags == NULL)
        return sl_fail(err, SL_ENOMEM, "cuts");
    if (shards != l->count) {
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
            l->job->shards.list[i].cut = tags[i];
        l->job->cuts.published++;
    }
    sl_free(tags);
    return rc;
}

static enum sl_err settle_intents(struct job_loading *l, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < l->intents_count; i++) {
        struct job_cut *cut = &l->intent_cuts[i];
        uint64_t n = cut->n;
        bool there = false;

        rc = stored_settle(l->c->stored, cut->path, &there, err);
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

// ---- a job

static enum sl_err load_place_job(struct job_loading *l,
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
    if (rc != SL_OK)
        return rc == SL_ENOMEM
                   ? rc
                   : sl_prefix(err, SL_ECORRUPT, "journal: a layout");
    if (l->job->mode->load != NULL)
        rc = l->job->mode->load(l->c, l->job, l->shards[0].incarnation, err);
    for (uint32_t i = 0; rc == SL_OK && i < l->count; i++) {
        l->job->shards.evidence.shard[i].incarnation = l->shards[i].incarnation;
        l->job->shards.list[i].cut = l->shards[i].cut;
        l->job->shards.list[i].since_ms = coord_now(l->c);
        l->job->shards.list[i].replica =
            (struct shard_replica){.psserver = (char *)l->shards[i].replica,
                                   .feed = l->shards[i].feed};
        l->shards[i].replica = NULL; // the job's
    }
    return rc;
}

static enum sl_err load_layout(struct job_loading *l,
                               const struct journal_job *row,
                               struct sl_error *err)
{
    ProtobufCMessage *layout = NULL;
    Sluice__V1__CheckpointsReply *typed;
    enum sl_err rc;

    if (l->count == 0)
        return SL_OK; // not placed yet, or not part of `part`
    rc = load_message(&layout, &sluice__v1__checkpoints_reply__descriptor,
                      row->layout, "a layout", err);
    if (rc != SL_OK)
        return rc;
    typed = (Sluice__V1__CheckpointsReply *)layout;
    for (size_t i = 0; rc == SL_OK && i < typed->n_pieces; i++) {
        if (typed->pieces[i]->shard >= l->count)
            rc = sl_fail(err, SL_ECORRUPT, "journal: a piece on shard %u of %u",
                         typed->pieces[i]->shard, l->count);
    }
    if (rc == SL_OK)
        rc = load_place_job(l, typed, err);
    if (rc != SL_OK)
        wire_free(layout);
    return rc;
}

static enum sl_err load_cuts(struct job_loading *l, uint64_t id,
                             struct sl_error *err)
{
    struct journal *j = l->c->journal;
    enum sl_err rc = journal_cuts_past(j, id, &l->job->cuts.published, err);

    if (rc != SL_OK)
        return rc;
    return l->part < LOAD_WHOLE ? journal_each_cut_path(j, id, take_cut, l, err)
                                : journal_each_cut(j, id, take_cut, l, err);
}

static enum sl_err load_parts(struct job_loading *l,
                              const struct journal_job *row,
                              struct sl_error *err)
{
    struct journal *j = l->c->journal;
    enum sl_err rc =
        l->part < LOAD_WHOLE
            ? SL_OK
            : journal_each_shard(j, row->id, load_shard_row, l, err);

    if (rc == SL_OK)
        rc = load_layout(l, row, err);
    if (rc == SL_OK)
        rc = load_cuts(l, row->id, err);
    if (rc == SL_OK)
        rc = load_callbacks(l, row->id, err);
    if (rc != SL_OK || l->part < LOAD_START)
        return rc;
    rc = settle_intents(l, err);
    if (rc == SL_OK)
        rc = journal_each_evaluation(j, row->id, load_evaluation_row, l, err);
    if (rc == SL_OK)
        rc = journal_each_blame(j, row->id, take_blame, l, err);
    return rc;
}

static void loading_release(struct job_loading *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        sl_free((char *)l->shards[i].psserver);
        sl_free((char *)l->shards[i].replica);
    }
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
    rc = load_message(&resume, &sluice__v1__resume_source__descriptor,
                      row->resume, "a resumed cut", err);
    job_start_from(job, (Sluice__V1__ResumeSource *)resume);
    if (rc == SL_OK && job->resume != NULL &&
        job->resume->cut->n_checkpoints != 1)
        rc = sl_fail(err, SL_ECORRUPT, "journal: a resumed job without a cut");
    return rc;
}

static enum sl_err load_make_job(struct coord *c, const struct journal_job *row,
                                 struct job **out, struct sl_error *err)
{
    ProtobufCMessage *spec = NULL;
    struct job *job;
    enum sl_err rc = load_message(&spec, &sluice__v1__job_spec__descriptor,
                                  row->spec, "a spec", err);

    if (rc != SL_OK)
        return rc;
    job = job_new(row->id, row->uid, row->incarnation, row->name,
                  row->request_id, (Sluice__V1__JobSpec *)spec,
                  mode_of(c, (Sluice__V1__JobSpec *)spec));
    if (job == NULL) {
        wire_free(spec);
        return sl_fail(err, SL_ENOMEM, "job %s", row->name);
    }
    rc = load_resume(job, row, err);
    if (rc != SL_OK) {
        job_free(job);
        return rc;
    }
    job->reports.has_facts = row->has_facts;
    job->reports.facts = row->facts;
    job->submitted_us = row->submitted_us;
    job->end.us = row->ended_us;
    job->counters = row->counters;
    job->monitor.fresh = job->counters.trained;
    job->map.version = c->term << 32; // rises over restarts
    if (row->has_facts)
        closure_counted(&job->leases.probe.closure);
    rc = queue_load(c, job, err);
    if (rc != SL_OK) {
        job_free(job);
        return rc;
    }
    *out = job;
    return SL_OK;
}

// ---- the last status

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

// Returns the number of the field at *at, and moves *at behind it. A broken
// field reaches to the end: the later unpacking reports it.
static uint32_t load_skip_field(const uint8_t **at, const uint8_t *end)
{
    uint64_t key = 0, value = 0, bytes = 0;
    bool ok = read_varint(at, end, &key);

    switch (key & 7) {
    case 0:
        ok = ok && read_varint(at, end, &value);
        break;
    case 1:
        bytes = 8;
        break;
    case 2:
        ok = ok && read_varint(at, end, &bytes);
        break;
    default:
        bytes = 4;
        break;
    }
    *at = ok && bytes <= (uint64_t)(end - *at) ? *at + bytes : end;
    return (uint32_t)(key >> 3);
}

// Copies a status without its shards, of which there may be thousands: a list
// needs a few numbers alone.
static enum sl_err without_shards(struct buf *out, struct journal_blob final)
{
    const ProtobufCFieldDescriptor *shards =
        protobuf_c_message_descriptor_get_field_by_name(
            &sluice__v1__job_status__descriptor, "shards");
    const uint8_t *at = final.data, *end = at + final.bytes;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && at < end) {
        const uint8_t *from = at;

        if (load_skip_field(&at, end) != shards->id)
            rc = buf_append(out, from, (size_t)(at - from));
    }
    return rc;
}

static enum sl_err load_final(struct job_loading *l,
                              const struct journal_job *row,
                              struct sl_error *err)
{
    ProtobufCMessage *final = NULL;
    struct journal_blob from = row->final;
    struct buf line = BUF_INIT;
    enum sl_err rc = SL_OK;

    if (l->part == LOAD_LINE) {
        rc = without_shards(&line, from);
        from = (struct journal_blob){line.data, line.len};
    }
    if (rc == SL_OK)
        rc = load_message(&final, &sluice__v1__job_status__descriptor, from,
                          "a last status", err);
    else
        rc = sl_fail(err, rc, "a last status");
    buf_release(&line);
    l->job->end.status = (Sluice__V1__JobStatus *) final;
    return rc;
}

static enum sl_err load_end(struct job_loading *l,
                            const struct journal_job *row, struct sl_error *err)
{
    enum sl_err rc = load_final(l, row, err);

    if (rc != SL_OK)
        return rc;
    job_restore(l->job, (enum job_state)row->state);
    l->job->end.reason = sl_strdup(row->reason);
    job_release_work(l->job);
    return SL_OK;
}

// Sets the clock of a job that has run: it goes on, by the wall clock, from
// where it was seen last. If the wall clock was set back meanwhile, it stands.
static enum sl_err load_clock(struct job_loading *l,
                              const struct journal_job *row,
                              struct sl_error *err)
{
    uint64_t wall = sl_wall_us(l->c->options.clock), elapsed_ms, seen_us;
    enum sl_err rc =
        journal_clock_read(l->c->journal, row->id, &elapsed_ms, &seen_us, err);

    if (rc != SL_OK || row->state < JOB_RUNNING)
        return rc;
    if (seen_us != 0 && wall > seen_us)
        elapsed_ms += (wall - seen_us) / 1000;
    if (elapsed_ms > l->job->counters.elapsed_ms)
        l->job->counters.elapsed_ms = elapsed_ms;
    l->job->running_since_ms = coord_now(l->c) == 0 ? 1 : coord_now(l->c);
    l->job->counters_changed = true;
    return SL_OK;
}

// Loads the pause of a job, and how long it lasts, by the wall clock likewise.
static enum sl_err load_pause(struct job_loading *l,
                              const struct journal_job *row,
                              struct sl_error *err)
{
    uint64_t wall = sl_wall_us(l->c->options.clock);
    struct job_pause *p = &l->job->pause;
    enum sl_err rc = journal_pause_read(l->c->journal, row->id, &p->row, err);

    if (rc != SL_OK || p->row.state != JOURNAL_PAUSE_HOLDS)
        return rc;
    if (wall > p->row.since_us)
        p->row.total_ms += (wall - p->row.since_us) / 1000;
    p->from_ms = coord_now(l->c) == 0 ? 1 : coord_now(l->c);
    return SL_OK;
}

enum sl_err load_job(struct coord *c, const struct journal_job *row,
                     enum load_part part, struct job **out,
                     struct sl_error *err)
{
    struct job_loading l = {.c = c, .part = part};
    enum sl_err rc = load_make_job(c, row, &l.job, err);

    if (rc != SL_OK)
        return rc;
    rc = load_parts(&l, row, err);
    if (rc == SL_OK && row->state >= JOB_FINISHED)
        rc = load_end(&l, row, err);
    else if (rc == SL_OK)
        rc = load_clock(&l, row, err);
    if (rc == SL_OK && row->state < JOB_FINISHED)
        rc = load_pause(&l, row, err);
    loading_release(&l);
    if (rc == SL_OK)
        *out = l.job;
    else
        job_free(l.job);
    return rc;
}
