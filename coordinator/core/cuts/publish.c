// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/publish.c -- the writing of a cut, from its intent to
// its outcome (K4), and the dropping of older ones.
#include "coordinator/core/cuts/publish.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/storemark.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/cuts/removals.h"
#include "coordinator/core/send.h"
#include "coordinator/journal/journal_manifest.h"

#define CUTS_MAX 4096 // kept cuts of one job

// Work on a pool thread can outlive the coord that began it.
struct publish {
    struct coord *coord;       // NULL: the coord is gone
    struct list_node on_coord; // in coord.publishing
    struct fs *fs;
    char *store; // owned
    uint64_t cluster, job;
    struct buf text;
    struct job_cut made; // moved to the job on success
    bool begun;          // our file may exist, whatever rc says
    enum sl_err rc;
    struct sl_error err;
    enum sl_err gone; // SL_OK: the file is gone
    struct sl_error why;
    bool waits; // waits for the next publish_tick
    uint64_t again_ms;
};

static void publish_free(struct publish *p)
{
    list_remove(&p->on_coord);
    buf_release(&p->text);
    sl_free(p->store);
    job_cut_release(&p->made);
    sl_free(p);
}

static void *publish_alloc_list(size_t count)
{
    return sl_calloc(count, sizeof(void *));
}

static enum sl_err publish_fill_shard(Sluice__V1__CheckpointShard **out,
                                      uint32_t shard,
                                      const struct cut_shard *from)
{
    Sluice__V1__CheckpointShard s = SLUICE__V1__CHECKPOINT_SHARD__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(from->tag);
    ProtobufCMessage *copy = NULL;
    enum sl_err rc;

    s.shard = shard;
    s.psserver = from->psserver;
    s.address = from->address;
    s.tag = &tag;
    s.folder = from->folder;
    s.file = from->file;
    s.file_bytes = from->file_bytes;
    s.sha256.data = (uint8_t *)from->sha256;
    s.sha256.len = sizeof(from->sha256);
    s.steps = counted_steps(&from->counted);
    s.below = from->below;
    rc = wire_dup(&copy, &s.base);
    *out = (Sluice__V1__CheckpointShard *)copy;
    return rc;
}

static enum sl_err publish_make_checkpoint(struct coord *c,
                                           const struct cut *cut,
                                           Sluice__V1__Checkpoint **out)
{
    Sluice__V1__Checkpoint *msg = sl_malloc(sizeof(*msg));
    enum sl_err rc = SL_OK;

    if (msg == NULL)
        return SL_ENOMEM;
    *msg = (Sluice__V1__Checkpoint)SLUICE__V1__CHECKPOINT__INIT;
    msg->cut = cut->n;
    msg->unix_time = (double)sl_wall_us(c->options.clock) / 1e6;
    msg->bytes = cut_file_bytes(cut);
    msg->epoch = cut_epochs(cut);
    msg->steps = cut_steps(cut);
    msg->complete = cut_full(cut);
    msg->shards = publish_alloc_list(cut->shards);
    if (msg->shards == NULL)
        rc = SL_ENOMEM;
    for (uint32_t i = 0; rc == SL_OK && i < cut->shards; i++) {
        msg->n_shards = i + 1;
        msg->not_finite |= cut->shard[i].not_finite;
        rc = publish_fill_shard(&msg->shards[i], i, &cut->shard[i]);
    }
    if (rc != SL_OK)
        wire_free(&msg->base);
    else
        *out = msg;
    return rc;
}

static enum sl_err make_counts(const struct job *job, const struct cut *cut,
                               Sluice__V1__JobStatus **out)
{
    Sluice__V1__JobStatus *msg = sl_malloc(sizeof(*msg));
    enum sl_err rc = SL_OK;

    if (msg == NULL)
        return SL_ENOMEM;
    *msg = (Sluice__V1__JobStatus)SLUICE__V1__JOB_STATUS__INIT;
    msg->job = job->id;
    msg->id = sl_strdup(job->id_text);
    msg->name = sl_strdup(job->name);
    msg->shards = publish_alloc_list(cut->shards);
    if (msg->id == NULL || msg->name == NULL || msg->shards == NULL)
        rc = SL_ENOMEM;
    for (uint32_t i = 0; rc == SL_OK && i < cut->shards; i++) {
        Sluice__V1__ShardStatus s = SLUICE__V1__SHARD_STATUS__INIT;
        ProtobufCMessage *copy = NULL;

        s.shard = i;
        s.incarnation = cut->shard[i].tag.incarnation;
        s.counts = cut->shard[i].counts;
        rc = wire_dup(&copy, &s.base);
        msg->shards[i] = (Sluice__V1__ShardStatus *)copy;
        msg->n_shards = i + 1;
    }
    if (rc != SL_OK)
        wire_free(&msg->base);
    else
        *out = msg;
    return rc;
}

static enum sl_err publish_make_manifest(struct coord *c, struct job *job,
                                         struct publish *p)
{
    struct manifest m = {
        .job = job->id,
        .job_uid = job->uid,
        .job_incarnation = job->incarnation,
        .term = c->term,
        .job_name = job->name,
        .spec = job->spec,
        .schedule = &job->shards.schedule,
        .layout = job->shards.layout,
        .checkpoint = p->made.checkpoint,
        .counts = p->made.counts,
    };
    struct buf path = BUF_INIT;
    enum sl_err rc =
        manifest_path(&path, c->store, job->name, job->id, job->uid, p->made.n);

    if (rc == SL_OK) {
        p->made.path = sl_strdup(buf_text(&path));
        if (p->made.path == NULL)
            rc = SL_ENOMEM;
    }
    buf_release(&path);
    return rc == SL_OK ? manifest_text(&p->text, &m) : rc;
}

static struct publish *publish_new(struct coord *c, struct job *job)
{
    struct publish *p = sl_calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->coord = c;
    list_push_back(&c->publishing, &p->on_coord);
    p->fs = c->options.fs;
    p->store = sl_strdup(c->store);
    p->cluster = c->cluster.id;
    p->job = job->id;
    p->made.n = job->cuts.now->n;
    p->made.epochs = cut_epochs(job->cuts.now);
    if (p->store == NULL ||
        publish_make_checkpoint(c, job->cuts.now, &p->made.checkpoint) !=
            SL_OK ||
        make_counts(job, job->cuts.now, &p->made.counts) != SL_OK ||
        publish_make_manifest(c, job, p) != SL_OK) {
        publish_free(p);
        return NULL;
    }
    return p;
}

static enum sl_err write_intent(struct coord *c, struct job *job,
                                const struct publish *p, struct sl_error *err)
{
    struct buf checkpoint = BUF_INIT, counts = BUF_INIT;
    struct journal_cut row = {
        .cut = p->made.n,
        .path = p->made.path,
        .epochs = p->made.epochs,
        .low = cut_low(job->cuts.now),
    };
    Sluice__V1__CheckpointsReply one = SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    Sluice__V1__Checkpoint *list[1] = {p->made.checkpoint};
    enum sl_err rc;

    FAULT("journal.watermark");
    one.checkpoints = list;
    one.n_checkpoints = 1;
    rc = wire_pack(&one.base, &checkpoint);
    if (rc == SL_OK)
        rc = wire_pack(&p->made.counts->base, &counts);
    if (rc != SL_OK) {
        rc = sl_fail(err, rc, "cut %llu", (ull)p->made.n);
    } else {
        row.checkpoint = (struct journal_blob){checkpoint.data, checkpoint.len};
        row.counts = (struct journal_blob){counts.data, counts.len};
        rc = journal_cut_intent(c->journal, job->id, &row, err);
    }
    buf_release(&checkpoint);
    buf_release(&counts);
    return rc;
}

// ---- for the history

static void note_intent(const struct job *job, const struct publish *p)
{
    JOB_HISTORY(job, "cut_intent", " cut=%llu shards=%u path=%s",
                (ull)p->made.n, job->shards.count, p->made.path);
    for (uint32_t i = 0; i < p->made.checkpoint->n_shards; i++)
        JOB_HISTORY(job, "cut_shard",
                    " cut=%llu shard=%u incarnation=%llu "
                    "sequence=%llu newest=%llu steps=%llu",
                    (ull)p->made.n, i,
                    (ull)p->made.checkpoint->shards[i]->tag->incarnation,
                    (ull)p->made.checkpoint->shards[i]->tag->sequence,
                    (ull)job->shards.evidence.shard[i].incarnation,
                    (ull)counted_steps(&job->cuts.now->shard[i].counted));
}

static void publish_note_outcome(const struct job *job, uint64_t cut,
                                 const char *state)
{
    JOB_HISTORY(job, "cut_outcome", " cut=%llu state=%s", (ull)cut, state);
}

// ---- after the file

static void drop_old(struct coord *c, struct job *job)
{
    bool needed[CUTS_MAX], drop[CUTS_MAX];
    size_t count = job->cuts.count;

    if (count > CUTS_MAX)
        return;
    evaluations_need(job, needed);
    if (cut_prune(needed, count, job->spec->checkpoint->keep, drop) == 0)
        return;
    for (size_t i = count; i-- > 0;) {
        if (!drop[i])
            continue;
        if (!coord_wrote(c, journal_cut_drop(c->journal, job->id,
                                             job->cuts.list[i].n, &c->err)))
            return;
        publish_note_outcome(job, job->cuts.list[i].n, "dropped");
        FAULT("cut.gc");
        removals_add(c, job->cuts.list[i].path);
        job_remove_cut(job, i);
    }
}

static void keep_all(struct coord *c, struct job *job)
{
    for (uint32_t i = 0; i < job->shards.count; i++) {
        if (job->mode->keep != NULL)
            job->mode->keep(c, job, i);
        else if (job->shards.list[i].server != 0)
            send_keep(c, job->shards.list[i].server, job, i);
    }
}

// Notes why the manifest was not written, for people; without memory there is
// no text.
static void publish_note_failure(struct job *job, const struct publish *p)
{
    struct buf text = BUF_INIT;
    size_t n;

    sl_free(job->cuts.why);
    job->cuts.why = NULL;
    if (buf_appendf(&text, "its manifest was not written: %s", p->err.text) ==
        SL_OK)
        job->cuts.why = (char *)buf_detach(&text, &n);
    buf_release(&text);
    job->changes++;
}

static void published(struct coord *c, struct job *job, struct publish *p)
{
    struct cut *cut = job->cuts.now;
    struct wire_tag *tags = sl_malloc_array(cut->shards, sizeof(*tags));
    enum sl_err rc;

    if (tags == NULL || job_add_cut(job, &p->made) != SL_OK) {
        // The intent is in the journal: only a restart may settle it.
        sl_free(tags);
        coord_wrote(c,
                    sl_fail(&c->err, SL_ENOMEM, "no memory to publish a cut"));
        return;
    }
    memset(&p->made, 0, sizeof(p->made));
    for (uint32_t i = 0; i < cut->shards; i++)
        tags[i] = cut->shard[i].tag;
    rc = journal_cut_publish(c->journal, job->id, cut->n, tags, cut->shards,
                             &c->err);
    if (coord_wrote(c, rc)) {
        for (uint32_t i = 0; i < cut->shards; i++)
            job->shards.list[i].cut = tags[i];
        publish_note_outcome(job, cut->n, "published");
        job->cuts.published++;
        figures_cut(c, FIGURES_PUBLISHED);
        sl_free(job->cuts.why);
        job->cuts.why = NULL;
        job->cuts.last_ms = coord_now(c);
        job->counters_changed = true;
        LOG(INFO, "cut published",
            "job=%s cut=%llu steps=%llu complete=%d path=%s", job->id_text,
            (ull)cut->n, (ull)cut_steps(cut), cut_full(cut),
            job_last_cut(job)->path);
        happened_job(c, EVENT_CUT_MADE, job, NULL,
                     "checkpoint %llu holds %llu steps%s: %s", (ull)cut->n,
                     (ull)cut_steps(cut), cut_full(cut) ? ", all of them" : "",
                     job_last_cut(job)->path);
    }
    sl_free(tags);
}

// Aborts the cut: its manifest could not be written, and will not turn up
// later.
static void aborted(struct coord *c, struct job *job, struct publish *p)
{
    publish_note_outcome(job, p->made.n, "aborted");
    figures_cut(c, FIGURES_ABORTED);
    LOG(ERROR, "manifest not written", "job=%s why=%s", job->id_text,
        p->err.text);
    happened_job(c, EVENT_CUT_FAILED, job, NULL,
                 "checkpoint %llu was not written: %s", (ull)p->made.n,
                 p->err.text);
    publish_note_failure(job, p);
    coord_wrote(c, journal_cut_abort(c->journal, job->id, p->made.n, &c->err));
    job->cuts.after_ms = coord_now(c) + CUT_RETRY_MS;
}

static void publish_settle_cut(struct coord *c, struct job *job,
                               struct publish *p)
{
    if (p->rc == SL_OK) {
        monitor_cut(job, p->made.n);
        published(c, job, p);
    } else {
        aborted(c, job, p);
    }
    if (c->dead)
        return;
    cut_free(job->cuts.now);
    job->cuts.now = NULL;
    drop_old(c, job);
    keep_all(c, job);
    if (c->dead || job_ended(job))
        return;
    c->cut_settled(c, job);
}

static void publish_work(void *task)
{
    struct publish *p = task;

    FAULT("cut.manifest_tmp"); // fs.fsync, fs.rename and fs.dirsync follow
    // A store that was unmounted meanwhile would be made anew, as a folder.
    p->rc = storemark_check(p->fs, p->store, p->cluster, &p->err);
    p->begun = p->rc == SL_OK;
    if (p->begun)
        p->rc = manifest_write(p->fs, p->made.path, &p->text, &p->err);
    if (p->rc == SL_EEXIST)
        p->begun = false; // another coordinator's file, not ours to remove
}

// Returns the job of this cut. Without one the intent is settled by the next
// coordinator (K6).
static struct job *publish_find_job(const struct publish *p)
{
    struct coord *c = p->coord;
    struct job *job = c == NULL || c->dead ? NULL : jobs_get(c, p->job);

    return job != NULL && job->cuts.now != NULL && job->cuts.now->n == p->made.n
               ? job
               : NULL;
}

// ---- after a failure (K6)

// Asks whether the manifest is there after all. It is not removed: by the time
// that a removal is done another coordinator may have published the cut.
static void settle_work(void *task)
{
    struct publish *p = task;
    bool there = false;

    // On a store that is not mounted a missing manifest proves nothing.
    p->gone = storemark_check(p->fs, p->store, p->cluster, &p->why);
    if (p->gone == SL_OK)
        p->gone = manifest_settle(p->fs, p->made.path, &there, &p->why);
    if (p->gone == SL_OK && there)
        p->rc = SL_OK;
}

static void settle_done(void *task)
{
    struct publish *p = task;
    struct job *job = publish_find_job(p);

    if (job != NULL && p->gone != SL_OK) {
        LOG(WARN, "cut is not published yet", "job=%s cut=%llu why=%s",
            job->id_text, (ull)p->made.n, p->why.text);
        p->waits = true;
        p->again_ms = coord_now(p->coord) + CUT_RETRY_MS;
        return;
    }
    if (job != NULL)
        publish_settle_cut(p->coord, job, p);
    publish_free(p);
}

static void settle_begin(struct coord *c, struct publish *p)
{
    p->waits = false;
    if (c->io.work(c->io.arg, settle_work, settle_done, p) == SL_OK)
        return;
    p->gone = sl_fail(&p->why, SL_ENOMEM, "no pool thread");
    settle_done(p);
}

void publish_tick(struct coord *c)
{
    uint64_t now = coord_now(c);

    list_for_safe(n, &c->publishing)
    {
        struct publish *p = list_entry(n, struct publish, on_coord);

        if (p->waits && now >= p->again_ms)
            settle_begin(c, p);
        if (c->dead)
            return;
    }
}

bool publish_at_work(const struct coord *c)
{
    list_for(n, &c->publishing)
    {
        if (!list_entry(n, struct publish, on_coord)->waits)
            return true;
    }
    return false;
}

// ---- beginning a write

static void publish_done(void *task)
{
    struct publish *p = task;
    struct job *job = publish_find_job(p);

    if (job != NULL && p->rc != SL_OK && p->begun) {
        publish_note_failure(job, p);
        settle_begin(p->coord, p);
        return;
    }
    if (job != NULL)
        publish_settle_cut(p->coord, job, p);
    publish_free(p);
}

enum sl_err publish_cut(struct coord *c, struct job *job)
{
    struct publish *p = publish_new(c, job);

    if (p == NULL)
        return SL_ENOMEM;
    FAULT("cut.collected");
    note_intent(job, p);
    if (!coord_wrote(c, write_intent(c, job, p, &c->err))) {
        publish_free(p);
        return SL_OK; // the coordinator ends
    }
    cut_begin_write(job->cuts.now); // K5 begins
    if (c->io.work(c->io.arg, publish_work, publish_done, p) != SL_OK) {
        p->rc = sl_fail(&p->err, SL_ENOMEM, "no pool thread");
        publish_done(p);
    }
    return SL_OK;
}

void publish_release(struct coord *c)
{
    list_for_safe(n, &c->publishing)
    {
        struct publish *p = list_entry(n, struct publish, on_coord);

        p->coord = NULL;
        list_remove(n);
        if (p->waits)
            publish_free(p);
    }
}
