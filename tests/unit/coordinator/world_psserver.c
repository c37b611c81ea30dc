// SPDX-License-Identifier: Apache-2.0
// The psserver of the world: shards with a counted set and snapshots on a disk
// that survives its process.
#include <string.h>

#include "tests/unit/coordinator/world_members.h"

static void forget(struct fake_shard *f)
{
    counted_release(&f->counted);
    memset(&f->counted, 0, sizeof(f->counted));
    memset(f->newest, 0, sizeof(f->newest));
    f->placed = f->loaded = f->admitted = f->prepares = f->handed = false;
    f->want_snapshot = 0;
    f->feed = f->follow = 0;
    f->feeds = f->whole = f->bound = f->misses = f->ready = false;
    f->follows = f->lags = false;
    f->incarnation = 0;
    f->rates = 0;
}

void fake_psserver_drop(struct fake_member *m)
{
    for (unsigned s = 0; s < WORLD_SHARDS; s++)
        forget(&m->shards[s]);
}

static void send_hello(struct world *w, struct fake_member *m, uint32_t shard)
{
    struct fake_shard *f = &m->shards[shard];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__ShardHello hello = SLUICE__V1__SHARD_HELLO__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__Tag loaded = wire_tag_msg(f->from);
    struct wire_counted set;

    T_OK(wire_counted_init(&set, &f->counted));
    counts.counted = counts.applied = counts.version =
        counted_steps(&f->counted);
    hello.job = w->job;
    hello.job_incarnation = 1;
    hello.job_uid = w->uid;
    hello.shard = shard;
    hello.live_incarnation = f->incarnation;
    hello.loaded = &loaded;
    hello.counted = &set.msg;
    hello.counts = &counts;
    hello.prepared = f->prepares;
    hello.follow = f->prepares ? f->follow : 0;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO;
    up.shard_hello = &hello;
    fake_send(m, &up);
    wire_counted_release(&set);
}

void fake_hello_live(struct world *w, struct fake_member *m)
{
    for (uint32_t s = 0; s < WORLD_SHARDS; s++) {
        if (m->shards[s].incarnation != 0)
            send_hello(w, m, s);
    }
}

// The highest snapshot of the shard on any disk.
static const struct fake_snap *newest_of_all(const struct world *w,
                                             const struct fake_shard *f)
{
    const struct fake_snap *best = NULL;
    size_t shard = 0;

    for (unsigned m = 0; m < WORLD_MEMBERS; m++)
        if (f >= w->members[m].shards &&
            f < w->members[m].shards + WORLD_SHARDS)
            shard = (size_t)(f - w->members[m].shards);
    for (unsigned m = 0; m < WORLD_MEMBERS; m++) {
        const struct fake_shard *at = &w->members[m].shards[shard];

        for (unsigned i = 0; i < at->snaps_count; i++)
            if (best == NULL || wire_tag_cmp(at->snaps[i].tag, best->tag) > 0)
                best = &at->snaps[i];
    }
    return best;
}

// The highest snapshot, or the seed; or, where the disk was slow to come back
// or somebody restored an old one, any of them.
static void load(struct world *w, struct fake_shard *f, bool highest)
{
    const struct fake_snap *best = NULL;

    if (w->one_store)
        best = newest_of_all(w, f);
    for (unsigned i = 0; i < f->snaps_count; i++) {
        if (!highest && world_below(w, 2) == 0)
            continue;
        if (best == NULL || wire_tag_cmp(f->snaps[i].tag, best->tag) > 0)
            best = &f->snaps[i];
    }
    forget(f);
    if (best == NULL) {
        T_OK(counted_init(&f->counted, &w->schedule));
        f->from = (struct wire_tag){0, 0};
    } else {
        T_OK(counted_copy(&f->counted, &best->counted));
        f->from = best->tag;
    }
    f->placed = f->loaded = true;
}

static uint64_t last_rate(Sluice__V1__RateStep *const *rates, size_t count)
{
    return count > 0 ? rates[count - 1]->closure : 0;
}

static void take_rates(struct world *w, struct fake_member *m,
                       const Sluice__V1__Rates *rates)
{
    struct fake_shard *f = &m->shards[rates->shard];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RatesTaken taken = SLUICE__V1__RATES_TAKEN__INIT;

    if (!f->loaded || m->old)
        return;
    f->rates = last_rate(rates->rates, rates->n_rates);
    taken.job = rates->job;
    taken.job_uid = rates->job_uid;
    taken.shard = rates->shard;
    taken.closure = f->rates;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RATES_TAKEN;
    up.rates_taken = &taken;
    fake_send(m, &up);
}

static void take_rows_quota(struct fake_shard *f,
                            const Sluice__V1__RowsQuota *q)
{
    if (q == NULL)
        return;
    f->rows_most = q->limited ? q->most : 0;
    f->rows_disk_most = q->disk_limited ? q->disk_most : 0;
    f->rows_told++;
}

static void take_place(struct world *w, struct fake_member *m,
                       const Sluice__V1__Place *place)
{
    struct fake_shard *f = &m->shards[place->shard->shard];

    T_EQ(place->shard->geometry->samples, 40);
    T_GT(place->shard->n_pieces + place->shard->n_tables, 0);
    T_GT(place->shard->shards, place->shard->shard);
    f->sources = place->shard->n_sources;
    f->tables = place->shard->n_tables;
    take_rows_quota(f, place->shard->rows);
    for (size_t i = 0; i < f->tables; i++) {
        f->width = place->shard->tables[i]->dim;
        f->scale = place->shard->tables[i]->scale;
    }
    if (!place->prepare && f->prepares &&
        (f->whole || (f->follow != 0 && f->follow == place->replica)))
        f->follow = 0;
    else if (f->incarnation == 0 || place->prepare || f->prepares)
        load(w, f, place->prepare || world_below(w, 4) != 0);
    f->prepares = place->prepare;
    if (place->prepare && w->feeds)
        f->follow = place->follow;
    f->rates = last_rate(place->shard->rates, place->shard->n_rates);
    send_hello(w, m, place->shard->shard);
}

// The tag that the last published cut names.
static struct wire_tag last_cut(struct world *w, uint32_t shard)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts = NULL;
    struct wire_tag tag = {0, 0};
    char id[24];

    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)w->job);
    request.id = id;
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    if (cuts->n_checkpoints > 0)
        tag = wire_tag_of(
            cuts->checkpoints[cuts->n_checkpoints - 1]->shards[shard]->tag);
    wire_free(&cuts->base);
    return tag;
}

static void take_admit(struct world *w, struct fake_member *m,
                       const Sluice__V1__Admit *admit)
{
    struct fake_shard *f = &m->shards[admit->shard];

    if (!f->loaded || f->prepares)
        return;                        // dropped meanwhile
    f->feeds = f->feeds && !f->handed; // M3
    f->handed = false;
    take_rows_quota(f, admit->rows);
    if (f->incarnation == 0) {
        // I1: a new one, and higher than any before.
        T_GT(admit->incarnation, w->incarnations[admit->shard]);
        w->incarnations[admit->shard] = admit->incarnation;
        T_GE(wire_tag_cmp(f->from, last_cut(w, admit->shard)), 0); // K7
        f->sequence = 0;
    } else if (f->incarnation != admit->incarnation) {
        T_LT(f->incarnation, admit->incarnation); // by an older hello
    }
    f->incarnation = admit->incarnation;
    f->admitted = true;
}

static void take_refuse(struct world *w, struct fake_member *m,
                        const Sluice__V1__Refuse *refuse)
{
    struct fake_shard *f = &m->shards[refuse->shard];

    if (refuse->load == NULL) {
        forget(f);
        return;
    }
    load(w, f, true);
    T_GE(wire_tag_cmp(f->from, wire_tag_of(refuse->load)), 0); // K3, K7
    send_hello(w, m, refuse->shard);
}

// K3: what a Keep names stays; what is below the oldest of it goes.
static void take_keep(struct fake_member *m, const Sluice__V1__Keep *keep)
{
    struct fake_shard *f = &m->shards[keep->shard];
    struct wire_tag oldest = wire_tag_of(keep->tags[0]);
    unsigned kept = 0;

    for (size_t i = 1; i < keep->n_tags; i++) {
        if (wire_tag_cmp(wire_tag_of(keep->tags[i]), oldest) < 0)
            oldest = wire_tag_of(keep->tags[i]);
    }
    for (unsigned i = 0; i < f->snaps_count; i++) {
        if (wire_tag_cmp(f->snaps[i].tag, oldest) < 0)
            counted_release(&f->snaps[i].counted);
        else
            f->snaps[kept++] = f->snaps[i];
    }
    f->snaps_count = kept;
}

void fake_psserver_read(struct world *w, struct fake_member *m,
                        Sluice__V1__AttendDown *message)
{
    struct fake_shard *f;

    switch (message->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_PLACE:
        take_place(w, m, message->place);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_ADMIT:
        take_admit(w, m, message->admit);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_RATES:
        take_rates(w, m, message->rates);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REFUSE:
        take_refuse(w, m, message->refuse);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_HELLO_WANTED:
        fake_hello_live(w, m);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_SNAPSHOT:
        f = &m->shards[message->snapshot->shard];
        if (f->admitted && f->incarnation == message->snapshot->incarnation)
            f->want_snapshot = message->snapshot->request;
        if (f->want_snapshot != 0 && w->feeds)
            f->feed = message->snapshot->feed;
        if (f->admitted && message->snapshot->last) {
            f->handed = true;
            f->lasts++;
        }
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_FEED:
        f = &m->shards[message->feed->shard];
        f->feeds = f->feed == message->feed->order && !message->feed->replica;
        f->bound = f->feed == message->feed->order && message->feed->replica;
        f->follows = f->bound && message->feed->follow;
        f->misses = f->ready = false;
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_REPLICA_OUT:
        f = &m->shards[message->replica_out->shard];
        if (f->bound && f->feed == message->replica_out->order)
            f->bound = f->misses = f->ready = false;
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_KEEP:
        take_keep(m, message->keep);
        break;
    case SLUICE__V1__ATTEND_DOWN__KIND_CLOSE_JOB:
        fake_beat(w, m); // what it counted in the end
        fake_psserver_drop(m);
        break;
    default:
        break;
    }
}

static void snapshot(struct world *w, struct fake_member *m, uint32_t shard)
{
    struct fake_shard *f = &m->shards[shard];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__SnapshotReport report = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    struct fake_snap *snap;
    struct wire_counted set;
    uint8_t sha[32] = {1};

    T_LT(f->snaps_count, WORLD_SNAPS);
    snap = &f->snaps[f->snaps_count++];
    snap->tag = (struct wire_tag){f->incarnation, ++f->sequence};
    T_OK(counted_copy(&snap->counted, &f->counted));
    T_OK(wire_counted_init(&set, &f->counted));
    tag = wire_tag_msg(snap->tag);
    counts.counted = counts.applied = counts.version =
        counted_steps(&f->counted);
    report.job = w->job;
    report.job_incarnation = 1;
    report.shard = shard;
    report.tag = &tag;
    report.file = "shard.safetensors";
    report.folder = "/ps";
    report.file_bytes = 10;
    report.sha256.data = sha;
    report.sha256.len = sizeof(sha);
    report.counted = &set.msg;
    report.counts = &counts;
    report.request = f->want_snapshot;
    report.feed = f->feed;
    report.not_finite = m->overflows ? "dense/kernel" : "";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT;
    up.snapshot = &report;
    fake_send(m, &up);
    wire_counted_release(&set);
    f->want_snapshot = 0;
}

// The psserver that follows the feed; NULL: it is gone.
static struct fake_shard *follower(struct world *w, uint32_t shard,
                                   uint64_t order)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_shard *f = &w->members[i].shards[shard];

        if (f->prepares && f->follow == order)
            return f;
    }
    return NULL;
}

// Stops and sends all that was counted, or finds nobody there.
static void feed(struct world *w, struct fake_member *m, uint32_t shard)
{
    struct fake_shard *f = &m->shards[shard];
    struct fake_shard *to = follower(w, shard, f->feed);
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__FeedEnded ended = SLUICE__V1__FEED_ENDED__INIT;

    f->handed = true;
    f->feeds = false;
    if (to != NULL) {
        counted_release(&to->counted);
        T_OK(counted_copy(&to->counted, &f->counted));
        to->from = (struct wire_tag){f->incarnation, f->sequence};
        to->whole = true;
    }
    ended.job = w->job;
    ended.job_incarnation = 1;
    ended.shard = shard;
    ended.incarnation = f->incarnation;
    ended.order = f->feed;
    ended.failure = to == NULL ? "the follower is gone" : "";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FEED_ENDED;
    up.feed_ended = &ended;
    fake_send(m, &up);
}

bool fake_replica_take(struct world *w, struct fake_shard *f, uint32_t shard)
{
    struct fake_shard *to = f->bound ? follower(w, shard, f->feed) : NULL;

    if (!f->bound)
        return true;
    if (f->misses || to == NULL)
        return false;
    if (f->lags)
        return true;
    counted_release(&to->counted);
    T_OK(counted_copy(&to->counted, &f->counted));
    to->from = (struct wire_tag){f->incarnation, f->sequence};
    return true;
}

bool fake_may_say(struct world *w, struct fake_shard *f, uint32_t shard)
{
    return f->follows || fake_replica_take(w, f, shard);
}

void fake_replica_report(struct world *w, struct fake_member *m, uint32_t shard)
{
    struct fake_shard *f = &m->shards[shard];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__ReplicaReport report = SLUICE__V1__REPLICA_REPORT__INIT;

    report.job = w->job;
    report.job_incarnation = 1;
    report.shard = shard;
    report.incarnation = f->incarnation;
    report.order = f->feed;
    report.ready = f->ready = fake_replica_take(w, f, shard);
    report.lag = f->lag;
    f->misses = !f->ready; // for good, until it is told
    report.failure = f->ready ? "" : "it does not answer";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_REPLICA;
    up.replica = &report;
    fake_send(m, &up);
}

// Tells what there is to tell of the replicas of its shards.
static bool tell_replicas(struct world *w, struct fake_member *m)
{
    for (uint32_t s = 0; s < WORLD_SHARDS; s++) {
        struct fake_shard *f = &m->shards[s];

        if (!f->bound || f->misses || m->stream == 0 ||
            (f->ready && fake_replica_take(w, f, s)))
            continue;
        fake_replica_report(w, m, s);
        return true;
    }
    return false;
}

void fake_psserver_work(struct world *w, struct fake_member *m)
{
    if (tell_replicas(w, m))
        return;
    for (uint32_t s = 0; s < WORLD_SHARDS; s++) {
        if (m->shards[s].feeds && m->stream != 0) {
            feed(w, m, s);
            return;
        }
    }
    for (uint32_t s = 0; s < WORLD_SHARDS; s++) {
        if (m->shards[s].want_snapshot != 0 && m->stream != 0) {
            snapshot(w, m, s);
            return;
        }
    }
}
