// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster_send.c -- the roster's messages to the coordinator.
//
// A message that cannot be built for want of memory is not sent: the next
// attachment, or the coordinator's asking again, makes up for it.
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "state/shard/counts.h"
#include "psserver/roster/roster_inner.h"
#include "state/shard/replica.h"

// Reports that a shard may miss while its lock is taken; then its lock is
// waited for.
#define MISSED_MAX 4

static void roster_send_up(struct roster *r,
                           Sluice__V1__AttendUp__KindCase kind,
                           ProtobufCMessage *msg)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;

    up.kind_case = kind;
    switch (kind) {
    case SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT:
        up.heartbeat = (Sluice__V1__Heartbeat *)msg;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO:
        up.shard_hello = (Sluice__V1__ShardHello *)msg;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_RATES_TAKEN:
        up.rates_taken = (Sluice__V1__RatesTaken *)msg;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_DELETED:
        up.deleted = (Sluice__V1__JobDeleted *)msg;
        break;
    default:
        up.snapshot = (Sluice__V1__SnapshotReport *)msg;
        break;
    }
    r->setup.send(r->setup.arg, &up);
}

static void send_failure(struct hosted *h, const struct sl_error *failure,
                         Sluice__V1__ShardHello *m)
{
    // The coordinator shows the text as it is, so it names the kind of failure.
    char text[SL_ERROR_TEXT + 32];

    snprintf(text, sizeof(text), "%s%s",
             failure->code == SL_ECORRUPT ? "DATA_LOSS: " : "", failure->text);
    m->failure = text;
    roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO,
                   &m->base);
}

// Sends a hello with counts. SL_ERANGE: it is not sent, since a message that is
// too large would end the stream for all shards.
static enum sl_err send_memory(struct hosted *h, Sluice__V1__ShardHello *m,
                               struct sl_error *err)
{
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    struct once once = {0};
    struct shard_brief brief;
    Sluice__V1__Tag from;
    enum sl_err rc = shard_once(h->shard, &once);

    if (rc == SL_OK)
        rc = wire_counted_init(&set, &once.counted);
    if (rc == SL_OK)
        rc = counts_of_once(&counts, &once);
    if (rc == SL_OK)
        rc = wire_counted_fits(&set.msg, &counts.msg, err);
    if (rc == SL_OK) {
        (void)shard_brief(h->shard, true, &brief);
        from = wire_tag_msg(brief.from);
        m->loaded = &from;
        m->counted = &set.msg;
        m->counts = &counts.msg;
        FAULT("server.register");
        HISTORY("shard_hello",
                "job=%" PRIu64 " uid=%" PRIx64 " shard=%u live=%" PRIu64
                " from_i=%" PRIu64 " from_n=%" PRIu64 " steps=%" PRIu64,
                h->spec->job, h->spec->job_uid, h->spec->shard,
                m->live_incarnation, from.incarnation, from.sequence,
                counted_steps(&once.counted));
        roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO,
                       &m->base);
    }
    counts_release(&counts);
    wire_counted_release(&set);
    once_release(&once);
    return rc;
}

void hosted_send_hello(struct hosted *h)
{
    Sluice__V1__ShardHello m = SLUICE__V1__SHARD_HELLO__INIT;
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__Tag base = SLUICE__V1__TAG__INIT;
    struct shard_brief brief;
    struct shard_ring ring;
    enum sl_err rc;

    m.job = h->spec->job;
    m.job_incarnation = h->spec->job_incarnation;
    m.shard = h->spec->shard;
    m.job_uid = h->spec->job_uid;
    m.prepared = h->prepares;
    m.follow = h->follow;
    h->untold = true;
    if (h->state == HOSTED_FAILED) {
        send_failure(h, &h->failure, &m);
        return;
    }
    if (h->state == HOSTED_ADMITTED) {
        shard_brief(h->shard, true, &brief);
        m.live_incarnation = brief.incarnation;
    }
    if (h->state == HOSTED_ADMITTED && h->shard->plan.decided) {
        shard_ring(h->shard, &ring);
        base = wire_tag_msg(ring.base);
        m.rounds = ring.rounds;
        m.base_tag = &base;
        m.whole = ring.whole;
    }
    rc = send_memory(h, &m, &err);
    if (rc == SL_ERANGE)
        send_failure(h, &err, &m);
    else if (rc != SL_OK)
        LOG(ERROR, "hello not sent: out of memory",
            "job=%" PRIu64 " shard=%" PRIu32, m.job, m.shard);
}

void hosted_send_feed_ended(struct hosted *h, const char *failure)
{
    Sluice__V1__FeedEnded m = SLUICE__V1__FEED_ENDED__INIT;

    m.job = h->spec->job;
    m.job_incarnation = h->spec->job_incarnation;
    m.shard = h->spec->shard;
    m.incarnation = h->feeds.incarnation;
    m.order = h->feeds.order;
    m.failure = (char *)failure;
    roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_FEED_ENDED, &m.base);
}

void hosted_send_replica(struct hosted *h, bool ready, const char *failure)
{
    Sluice__V1__ReplicaReport m = SLUICE__V1__REPLICA_REPORT__INIT;

    m.job = h->spec->job;
    m.job_incarnation = h->spec->job_incarnation;
    m.shard = h->spec->shard;
    m.incarnation = h->feeds.incarnation;
    m.order = h->feeds.order;
    m.ready = ready;
    m.lag = h->feeds.lag = h->shard == NULL ? 0 : replica_lag(h->shard);
    m.failure = (char *)failure;
    roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_REPLICA, &m.base);
}

void hosted_send_rates(struct hosted *h, uint64_t closure)
{
    Sluice__V1__RatesTaken m = SLUICE__V1__RATES_TAKEN__INIT;

    m.job = h->spec->job;
    m.job_uid = h->spec->job_uid;
    m.shard = h->spec->shard;
    m.closure = closure;
    roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_RATES_TAKEN, &m.base);
}

void roster_send_deleted(struct roster *r, uint64_t job, uint64_t uid)
{
    Sluice__V1__JobDeleted m = SLUICE__V1__JOB_DELETED__INIT;

    m.job = job;
    m.job_uid = uid;
    roster_send_up(r, SLUICE__V1__ATTEND_UP__KIND_DELETED, &m.base);
}

void roster_send_no_snapshot(struct roster *r, uint64_t job,
                             uint64_t job_incarnation, uint32_t shard,
                             uint64_t request, const char *why)
{
    Sluice__V1__SnapshotReport m = SLUICE__V1__SNAPSHOT_REPORT__INIT;

    m.job = job;
    m.job_incarnation = job_incarnation;
    m.shard = shard;
    m.request = request;
    m.failure = (char *)why;
    roster_send_up(r, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT, &m.base);
}

// The names of the files below a snapshot.
struct below_msg {
    Sluice__V1__SnapshotChain msg;
    Sluice__V1__SnapshotFile file[SHARD_CHAIN_MOST], *list[SHARD_CHAIN_MOST];
    char name[SHARD_CHAIN_MOST][SNAP_NAME_BYTES];
};

static void below_fill(struct below_msg *b, uint32_t shard,
                       const struct snap_written *w)
{
    sluice__v1__snapshot_chain__init(&b->msg);
    for (unsigned i = 0; i < w->below_count; i++) {
        sluice__v1__snapshot_file__init(&b->file[i]);
        snap_file_name(b->name[i], shard, w->below[i]);
        b->file[i].file = b->name[i];
        b->list[i] = &b->file[i];
    }
    b->msg.files = b->list;
    b->msg.n_files = w->below_count;
    b->msg.bytes = w->below_bytes;
}

void hosted_send_snapshot(struct hosted *h, uint64_t request, uint64_t feed,
                          const struct snap_written *w)
{
    Sluice__V1__SnapshotReport m = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(w->tag);
    struct wire_counted set = {0};
    struct counts_msg counts = {0};
    struct below_msg below;
    enum sl_err rc = wire_counted_init(&set, &w->once.counted);

    if (rc == SL_OK)
        rc = counts_of_once(&counts, &w->once);
    if (rc == SL_OK) {
        below_fill(&below, h->spec->shard, w);
        m.below = w->below_count > 0 ? &below.msg : NULL;
        m.job = h->spec->job;
        m.job_incarnation = h->spec->job_incarnation;
        m.shard = h->spec->shard;
        m.job_uid = h->spec->job_uid;
        m.tag = &tag;
        m.file = (char *)w->file;
        m.folder = h->folder;
        m.file_bytes = w->bytes;
        m.sha256.data = (uint8_t *)w->sha256;
        m.sha256.len = SHA256_BYTES;
        m.counted = &set.msg;
        m.counts = &counts.msg;
        m.request = request;
        m.feed = feed;
        m.not_finite = (char *)w->not_finite;
        HISTORY("snapshot_reported",
                "job=%" PRIu64 " uid=%" PRIx64 " shard=%u incarnation=%" PRIu64
                " sequence=%" PRIu64 " steps=%" PRIu64 " path=%s/%s",
                h->spec->job, h->spec->job_uid, h->spec->shard,
                w->tag.incarnation, w->tag.sequence,
                counted_steps(&w->once.counted), h->folder, w->file);
        roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT,
                       &m.base);
        FAULT("snap.reported");
    }
    counts_release(&counts);
    wire_counted_release(&set);
}

// ---- heartbeats

// Reads a shard's figures. Does not wait for an apply unless it has missed a
// few reports in a row: the loop has other things to do.
static void hosted_refresh_brief(struct hosted *h)
{
    if (shard_brief_each(h->shard, h->missed >= MISSED_MAX, &h->brief,
                         hosted_tables(h)))
        h->missed = 0;
    else
        h->missed++;
}

// One shard's part of a heartbeat; one allocation holds all parts.
struct report {
    Sluice__V1__ShardReport msg;
    struct counts_msg counts; // msg.counts points here
};

// Fills in all fields of a report except its counts.
static void fill_report(struct report *to, const struct hosted *h,
                        const struct shard_brief *brief)
{
    sluice__v1__shard_report__init(&to->msg);
    to->msg.job = h->spec->job;
    to->msg.shard = h->spec->shard;
    to->msg.job_uid = h->spec->job_uid;
    to->msg.incarnation = brief->incarnation;
    to->msg.moments_of = brief->moments_of;
    to->msg.counts = &to->counts.msg;
}

// Fills in reports of the next admitted shards, from *at on, and returns how
// many.
static size_t fill_reports(struct roster *r, struct pairmap_at *at,
                           struct report *reports, struct table_reports *tables,
                           Sluice__V1__ShardReport **list, size_t cap)
{
    struct hosted *h;
    size_t n = 0;

    while (n < cap && (h = pairmap_next(&r->hosted, at)) != NULL) {
        if (h->state != HOSTED_ADMITTED)
            continue;
        hosted_refresh_brief(h);
        if (h->brief.incarnation == 0)
            continue; // its figures were never read
        counts_of_brief(&reports[n].counts, &h->brief);
        fill_report(&reports[n], h, &h->brief);
        if (h->missed == 0) // the figures are fresh
            table_reports_add(tables, h, &reports[n].msg);
        list[n] = &reports[n].msg;
        n++;
    }
    return n;
}

// Says in a heartbeat how much this process does, since the roster was made.
static void beat_usage(const struct roster *r, Sluice__V1__Heartbeat *m)
{
    wire_usage(m);
    m->known_pushes_case = SLUICE__V1__HEARTBEAT__KNOWN_PUSHES_PUSHES;
    m->pushes = histogram_count(&shard_waits) - r->pushes_before;
}

// Sends a heartbeat, which is no answer to a tick, with the one report.
static void hosted_send_report(struct hosted *h, struct report *report)
{
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__ShardReport *list[] = {&report->msg};

    m.shards = list;
    m.n_shards = 1;
    m.draining = h->roster->draining;
    m.empties = h->roster->empties;
    beat_usage(h->roster, &m);
    roster_send_up(h->roster, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT, &m.base);
}

void hosted_send_counted(struct hosted *h, uint64_t answers)
{
    struct report report = {0};
    struct wire_counted set = {0};
    struct once once = {0};

    shard_brief(h->shard, true, &h->brief);
    if (shard_once(h->shard, &once) == SL_OK &&
        wire_counted_init(&set, &once.counted) == SL_OK) {
        counts_of_brief(&report.counts, &h->brief);
        fill_report(&report, h, &h->brief);
        report.msg.counted = &set.msg;
        report.msg.answers = answers;
        hosted_send_report(h, &report);
        h->told_steps = counted_steps(&once.counted);
    }
    wire_counted_release(&set);
    once_release(&once);
}

void hosted_send_last(struct hosted *h)
{
    struct report report = {0};
    struct table_reports tables = {0};
    struct shard_brief brief;
    struct once once = {0};

    shard_close(h->shard); // no step is counted after this
    shard_brief_each(h->shard, true, &brief, hosted_tables(h));
    if (shard_once(h->shard, &once) == SL_OK &&
        counts_of_once(&report.counts, &once) == SL_OK) {
        fill_report(&report, h, &brief);
        table_reports_init_one(&tables, h);
        table_reports_add(&tables, h, &report.msg);
        hosted_send_report(h, &report);
    }
    table_reports_release(&tables);
    counts_release(&report.counts);
    once_release(&once);
}

void roster_send_heartbeat(struct roster *r, size_t admitted, uint64_t seq,
                           bool draining)
{
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;
    size_t cap = sl_min(admitted, ROSTER_REPORTS_MOST);
    struct report *reports = sl_calloc(cap, sizeof(*reports));
    Sluice__V1__ShardReport **list = sl_malloc_array(cap, sizeof(*list));
    struct pairmap_at at = {0};
    struct table_reports tables;

    table_reports_init(&tables, r, seq);
    r->draining = draining;
    m.seq = seq;
    m.draining = draining;
    m.empties = r->empties;
    beat_usage(r, &m);
    // Without memory for reports the heartbeat still says that we are here.
    do {
        if (reports != NULL && list != NULL) {
            m.n_shards = fill_reports(r, &at, reports, &tables, list, cap);
            m.shards = list;
        }
        roster_send_up(r, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT, &m.base);
    } while (m.n_shards > 0 && m.n_shards == cap && admitted > cap);
    table_reports_release(&tables);
    sl_free(reports);
    sl_free(list);
}
