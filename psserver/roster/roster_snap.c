// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_snap.c -- snapshots: when they are taken, and which
// may go.
//
// One at a time per shard. A request that comes meanwhile waits, because steps
// that it wants may have been counted after the one that is being written
// began; only the newest request waits, since a newer snapshot holds more.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/cgroup.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/run/background.h"
#include "psserver/roster/roster_inner.h"

// ---- taking

struct snapping {
    struct list_node on_writing;
    struct hosted *hosted;
    struct shard *shard; // a reference
    char *folder;        // owned
    struct snap_wish wish;
    // Beside a ring: the instant, which is taken on the loop, between two
    // rounds.
    struct shard_image image;
    bool fed; // wish.feed began with the image
    enum sl_err rc;
    struct sl_error err;
    struct snap_written written;
    uint64_t begun_us;
};

// A feed waits so long for an instant at which nothing is held.
#define FEED_WAIT_MS 5000
// Its log has room for what workers push while the follower loads: this part of
// the memory, up to a limit; and for so many payloads of the shard, and some
// small ones, wherever it is.
#define FEED_PART 8
#define FEED_MOST_BYTES ((size_t)1 << 30)
#define FEED_PAYLOADS 8
#define FEED_LEAST_BYTES ((size_t)64 << 20)

static void snapping_free(struct snapping *s)
{
    shard_image_release(&s->image);
    shard_unref(s->shard);
    snap_written_release(&s->written);
    sl_free(s->folder);
    sl_free(s);
}

static size_t feed_room(const struct plan *plan)
{
    size_t room = FEED_LEAST_BYTES + FEED_PAYLOADS * plan_values_bytes(plan);
    struct cgroup_memory memory;

    cgroup_memory(&memory, "");
    if (room < memory.limit_bytes / FEED_PART)
        room = (size_t)(memory.limit_bytes / FEED_PART);
    return sl_min(room, FEED_MOST_BYTES);
}

// Takes the image, and begins the feed with it.
static enum sl_err snapping_begin_feed(struct snapping *s)
{
    if (FAULT_ERR("feed.begin") != SL_OK) // the shard goes by files
        return SL_OK;
    return shard_feed_begin(s->shard, s->wish.incarnation, s->wish.feed,
                            feed_room(&s->shard->plan), FEED_WAIT_MS, &s->image,
                            &s->fed, &s->err);
}

static void snapping_write_file(void *arg)
{
    struct snapping *s = arg;
    struct fs *fs = s->hosted->roster->setup.fs;

    s->rc = roster_store(s->hosted->roster, &s->err);
    if (s->rc == SL_OK && s->wish.feed != 0 && s->image.shard == NULL)
        s->rc = snapping_begin_feed(s);
    if (s->rc != SL_OK)
        return;
    if (s->image.shard == NULL) {
        s->rc = snap_write(fs, s->folder, s->shard, s->wish.incarnation,
                           &s->written, &s->err);
        return;
    }
    s->rc = snap_write_image(fs, s->folder, &s->image, &s->written, &s->err);
    shard_image_release(&s->image);
}

// Writes a snapshot; on a pool thread. In the background, unless the server
// ends and waits for the file, or the shard's workers wait for it.
static void snap_work(void *arg)
{
    const struct snapping *s = arg;

    if (s->wish.save || s->wish.last || s->wish.feed != 0)
        snapping_write_file(arg);
    else
        background_run(snapping_write_file, arg);
}

static void one_saved(struct roster *r)
{
    if (--r->saving == 0) {
        void (*done)(void *arg) = r->saved;

        r->saved = NULL;
        done(r->saved_arg);
    }
}

static void send_failed(struct hosted *h, uint64_t request,
                        const struct sl_error *err)
{
    if (request != 0)
        roster_send_no_snapshot(h->roster, h->spec->job,
                                h->spec->job_incarnation, h->spec->shard,
                                request, err->text);
}

static void snapping_count_result(struct roster *r, const struct snapping *s)
{
    r->full = s->rc != SL_OK && strstr(s->err.text, strerror(ENOSPC)) != NULL;
    if (s->rc != SL_OK) {
        if (r->full)
            r->no_space++;
        else
            r->unwritten++;
        return;
    }
    r->written++;
    r->written_bytes = s->written.bytes;
    histogram_add(&r->took, sl_real_us() - s->begun_us);
}

// Reports a snapshot. Requests are for one incarnation: if the shard has
// another one by now, the tag says so and the coordinator decides (K4).
static void report(struct hosted *h, struct snapping *s)
{
    snapping_count_result(h->roster, s);
    if (s->rc == SL_OK) {
        h->saved_ms = sl_real_ms();
        h->saved_steps = counted_steps(&s->written.once.counted);
        LOG(INFO, "snapshot written",
            "job=%" PRIu64 " shard=%" PRIu32 " file=%s bytes=%" PRIu64
            " steps=%" PRIu64,
            h->spec->job, h->spec->shard, s->written.file, s->written.bytes,
            h->saved_steps);
        if (s->wish.request != 0)
            hosted_send_snapshot(h, s->wish.request, s->fed ? s->wish.feed : 0,
                                 &s->written);
        return;
    }
    shard_feed_stop(s->shard, s->wish.feed, "its snapshot was not written");
    if (s->err.text[0] == '\0')
        sl_fail(&s->err, s->rc, "%s", sl_err_text(s->rc));
    LOG(ERROR, "snapshot failed",
        "job=%" PRIu64 " shard=%" PRIu32 " error=%s reason=%s", h->spec->job,
        h->spec->shard, sl_err_name(s->rc), s->err.text);
    send_failed(h, s->wish.request, &s->err);
}

// Returns true if the memory has counted steps that the newest snapshot lacks.
static bool is_dirty(struct hosted *h, uint64_t *incarnation)
{
    struct shard_brief brief;

    if (h->state != HOSTED_ADMITTED)
        return false;
    shard_brief(h->shard, true, &brief);
    *incarnation = brief.incarnation;
    return brief.steps != h->saved_steps;
}

static void hosted_start_snapshot(struct hosted *h, struct snap_wish wish);

// Starts what waited for the snapshot before: a request, and after that the
// save, which has nothing left to write as a rule.
static void hosted_start_next(struct hosted *h)
{
    uint64_t incarnation;

    if (!h->gone && h->wanted) {
        h->wanted = false;
        hosted_start_snapshot(h, h->wish);
    }
    if (!h->save || h->snapping != NULL)
        return;
    h->save = false;
    if (!h->gone && is_dirty(h, &incarnation))
        hosted_start_snapshot(
            h, (struct snap_wish){.incarnation = incarnation, .save = true});
    else
        one_saved(h->roster);
}

static void start_deletes(struct roster *r);

static void snap_done(void *arg)
{
    struct snapping *s = arg;
    struct hosted *h = s->hosted;
    struct roster *r = h->roster;

    h->snapping = NULL;
    list_remove(&s->on_writing);
    // A shard dropped or loaded anew meanwhile is another memory.
    if (!h->gone && h->shard == s->shard)
        report(h, s);
    hosted_start_next(h);
    start_deletes(r);
    if (s->wish.save)
        one_saved(r);
    snapping_free(s);
    hosted_unpin(h);
    roster_worked(r);
}

static enum sl_err start_work(struct hosted *h, struct snapping *s)
{
    enum sl_err rc;

    s->hosted = h;
    s->begun_us = sl_real_us();
    s->folder = sl_strdup(h->folder);
    if (s->folder == NULL)
        return SL_ENOMEM;
    rc = roster_work(h->roster, snap_work, snap_done, s);
    if (rc == SL_OK) {
        h->snapping = s;
        list_push_back(&h->roster->writing, &s->on_writing);
        hosted_pin(h);
    }
    return rc;
}

// The last one is asked for once no other is being written: what it holds is
// all that this memory ever counts, whoever pushes meanwhile (M1).
static void hosted_start_snapshot(struct hosted *h, struct snap_wish wish)
{
    struct sl_error err = SL_ERROR_INIT;
    struct snapping *s = NULL;
    enum sl_err rc = SL_ENOMEM;

    if (h->shard == NULL || h->state != HOSTED_ADMITTED) {
        rc = sl_fail(&err, SL_ESTATE, "the shard is not admitted here");
    } else if ((s = sl_calloc(1, sizeof(*s))) != NULL) {
        s->shard = shard_ref(h->shard);
        s->wish = wish;
        rc = !h->shard->plan.decided
                 ? SL_OK
                 : shard_freeze(h->shard, wish.incarnation, &s->image, &err);
        if (rc == SL_OK && wish.last) {
            shard_hand_over(h->shard, wish.incarnation);
            FAULT("move.stopped");
        }
        if (rc == SL_OK)
            rc = start_work(h, s);
    }
    if (rc == SL_OK)
        return;
    if (s != NULL)
        snapping_free(s);
    if (err.text[0] == '\0')
        sl_fail(&err, rc, "%s", sl_err_text(rc));
    send_failed(h, wish.request, &err);
    if (wish.save)
        one_saved(h->roster);
}

// ---- beside a ring

void hosted_reached(struct hosted *h)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shard_brief brief;
    struct shard_ring ring;
    uint64_t steps = schedule_steps(&h->shard->plan.schedule);

    if (h->later_round == 0)
        return;
    shard_ring(h->shard, &ring);
    shard_brief(h->shard, true, &brief);
    if (ring.rounds < h->later_round && brief.steps < steps)
        return;
    if (ring.rounds > h->later_round)
        sl_fail(&err, SL_ESTALE, "that round is past");
    else if (h->snapping != NULL)
        sl_fail(&err, SL_EBUSY, "the snapshot before is being written");
    if (err.text[0] != '\0')
        send_failed(h, h->later_request, &err);
    else
        hosted_start_snapshot(
            h, (struct snap_wish){.incarnation = brief.incarnation,
                                  .request = h->later_request});
    h->later_round = 0;
}

// Takes a request for the state after a round; another one takes its place.
static bool hosted_later(struct hosted *h, const Sluice__V1__SnapshotRequest *m)
{
    struct shard_brief brief;

    if (m->at_round == 0 || h->state != HOSTED_ADMITTED ||
        !h->shard->plan.decided)
        return false;
    shard_brief(h->shard, true, &brief);
    if (brief.incarnation != m->incarnation)
        return false; // and the snapshot fails by that
    h->later_round = m->at_round;
    h->later_request = m->request;
    hosted_reached(h);
    return true;
}

static bool same_wish(const struct snap_wish *a, const struct snap_wish *b)
{
    return a->request == b->request && a->incarnation == b->incarnation;
}

void roster_snapshot(struct roster *r, const Sluice__V1__SnapshotRequest *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);
    const struct snap_wish wish = {.incarnation = m->incarnation,
                                   .request = m->request,
                                   .last = m->last,
                                   .feed = r->setup.io == NULL ? 0 : m->feed};
    struct sl_error newer = SL_ERROR_INIT;

    if (h == NULL) {
        roster_send_no_snapshot(r, m->job, 0, m->shard, m->request,
                                "this psserver does not hold the shard");
        return;
    }
    // The same request again: the answer is on its way. With another
    // incarnation it is another request.
    if ((h->snapping != NULL && same_wish(&wish, &h->snapping->wish)) ||
        (h->wanted && same_wish(&wish, &h->wish)))
        return;
    if (hosted_later(h, m))
        return;
    if (h->snapping == NULL) {
        hosted_start_snapshot(h, wish);
        return;
    }
    if (h->wanted) {
        sl_fail(&newer, SL_ECANCELED, "a newer request took its place");
        send_failed(h, h->wish.request, &newer);
    }
    h->wanted = true;
    h->wish = wish;
}

void roster_save(struct roster *r, void (*done)(void *arg), void *arg)
{
    struct pairmap_at at = {0};
    uint64_t incarnation;
    struct hosted *h;

    r->saved = done;
    r->saved_arg = arg;
    r->saving = 1; // this call: done must not run before the walk has ended
    while ((h = pairmap_next(&r->hosted, &at)) != NULL) {
        if (!is_dirty(h, &incarnation))
            continue;
        r->saving++;
        if (h->snapping != NULL) // may have begun before the newest steps
            h->save = true;
        else
            hosted_start_snapshot(
                h,
                (struct snap_wish){.incarnation = incarnation, .save = true});
    }
    one_saved(r);
}

// ---- the removal of snapshots

struct collect {
    struct list_node on_deleting;
    struct roster *roster;
    struct shard *hosted; // a reference; NULL: the whole job's files go
    char *folder;         // owned
    uint64_t job, uid;
    uint32_t shard;
    struct snap_keep keep; // owned
    unsigned removed;
    bool whole; // all files of the job; the coordinator is told
    enum sl_err rc;
    struct sl_error err;
};

static void collect_work(void *arg)
{
    struct collect *c = arg;

    c->rc = snap_collect(c->roster->setup.fs, c->folder, c->shard, &c->keep,
                         &c->hosted->tagged, &c->removed, &c->err);
}

static void delete_work(void *arg)
{
    struct collect *c = arg;

    // A store that is not mounted deletes nothing: its files would come back
    // with it, and the coordinator would have forgotten the job.
    c->rc = roster_store(c->roster, &c->err);
    if (c->rc == SL_OK)
        c->rc = snap_delete_job(c->roster->setup.fs, c->folder, c->job, c->uid,
                                &c->err);
}

static void collect_free(struct collect *c)
{
    shard_unref(c->hosted);
    sl_free(c->folder);
    sl_free(c->keep.tags);
    sl_free(c);
}

static void collect_done(void *arg)
{
    struct collect *c = arg;

    if (c->rc != SL_OK)
        LOG(WARN, "snapshots not deleted", "job=%" PRIu64 " reason=%s", c->job,
            c->err.text);
    else if (c->removed > 0)
        LOG(DEBUG, "snapshots deleted",
            "job=%" PRIu64 " shard=%" PRIu32 " files=%u", c->job, c->shard,
            c->removed);
    if (c->rc == SL_OK && c->whole && c->uid != 0)
        roster_send_deleted(c->roster, c->job, c->uid);
    roster_worked(c->roster);
    collect_free(c);
}

// Makes a removal. Owns what->keep, also if it returns NULL, for want of
// memory; takes a reference of what->hosted.
static struct collect *collect_new(struct roster *r, const struct collect *what,
                                   const char *folder)
{
    struct collect *c = sl_malloc(sizeof(*c));

    if (c == NULL) {
        sl_free(what->keep.tags);
        return NULL;
    }
    *c = *what;
    c->roster = r;
    if (c->hosted != NULL)
        shard_ref(c->hosted);
    c->folder = sl_strdup(folder);
    if (c->folder != NULL)
        return c;
    collect_free(c);
    return NULL;
}

// Starts a removal; NULL: there is none. It may wait for ever, so a failure to
// start is not an error.
static void start_collect(struct collect *c, loop_fn work)
{
    if (c != NULL && roster_work(c->roster, work, collect_done, c) != SL_OK)
        collect_free(c);
}

// Returns true if a snapshot of the job is being written, also of a shard that
// was dropped.
static bool job_is_written(const struct roster *r, uint64_t job, uint64_t uid)
{
    list_for(n, &r->writing)
    {
        const struct snapping *s = list_entry(n, struct snapping, on_writing);
        const Sluice__V1__ShardSpec *spec = s->hosted->spec;

        if (spec->job == job && (uid == 0 || spec->job_uid == uid))
            return true;
    }
    return false;
}

// Starts the removals of jobs of which no snapshot is being written any more:
// its file would come behind them, and nothing would remove it.
static void start_deletes(struct roster *r)
{
    list_for_safe(n, &r->deleting)
    {
        struct collect *c = list_entry(n, struct collect, on_deleting);

        if (job_is_written(r, c->job, c->uid))
            continue;
        list_remove(n);
        start_collect(c, delete_work);
    }
}

// K3: deletes no snapshot that is named, nor any newer than all of those. The
// newest is of our incarnation or of an ended one, and so are all below it; a
// psserver that was replaced knows only an older one and deletes nothing.
void roster_keep(struct roster *r, const Sluice__V1__Keep *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);
    struct collect what = {.job = m->job, .shard = m->shard};
    struct shard_brief brief;

    if (!roster_term(r, m->term)) {
        LOG(WARN, "message of an older term ignored (K3)",
            "what=Keep term=%" PRIu64 " newest=%" PRIu64, m->term, r->term);
        return;
    }
    if (h == NULL || h->state != HOSTED_ADMITTED || m->n_tags == 0 ||
        snap_keep_read(&what.keep, m) != SL_OK)
        return;
    HISTORY("keep",
            "job=%" PRIu64 " shard=%u incarnation=%" PRIu64 " sequence=%" PRIu64
            " term=%" PRIu64,
            m->job, m->shard, what.keep.newest.incarnation,
            what.keep.newest.sequence, m->term);
    what.hosted = h->shard;
    what.keep.chains = h->shard->tables.count > 0;
    shard_brief(h->shard, true, &brief);
    if (what.keep.newest.incarnation <= brief.incarnation)
        start_collect(collect_new(r, &what, h->folder), collect_work);
    else
        sl_free(what.keep.tags);
}

// Returns the next hosted shard of a job (with this uid, if it is not 0), or
// NULL.
static struct hosted *hosted_of_job(struct roster *r, uint64_t job,
                                    uint64_t uid)
{
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        if (h->spec->job == job && (uid == 0 || h->spec->job_uid == uid))
            return h;
    return NULL;
}

void roster_close_job(struct roster *r, const Sluice__V1__CloseJob *m)
{
    struct collect what = {.job = m->job, .uid = m->job_uid, .whole = true};
    struct collect *c;
    struct hosted *h;

    if (!roster_term(r, m->term)) {
        LOG(WARN, "message of an older term ignored (I5)",
            "what=CloseJob term=%" PRIu64 " newest=%" PRIu64, m->term, r->term);
        return;
    }
    while ((h = hosted_of_job(r, m->job, m->job_uid)) != NULL) {
        if (h->state == HOSTED_ADMITTED)
            hosted_send_last(h);
        hosted_drop(h);
    }
    LOG(INFO, "job closed", "job=%" PRIu64 " delete=%d", m->job,
        m->delete_snapshots);
    if (!m->delete_snapshots)
        return;
    c = collect_new(r, &what, r->setup.folder);
    if (c != NULL)
        list_push_back(&r->deleting, &c->on_deleting);
    start_deletes(r);
}
