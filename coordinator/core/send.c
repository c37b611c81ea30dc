// SPDX-License-Identifier: Apache-2.0
// coordinator/core/send.c -- messages downwards, one function each.
//
// Everything is borrowed from job and spec for the length of the call, except
// the small arrays of pointers that repeated fields want.
#include "coordinator/core/send.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/quota_list.h"
#include "coordinator/core/cuts/cut_fits.h"
#include "coordinator/core/tokens.h"
#include "proto/spec.h"

typedef Sluice__V1__AttendDown down_t;

void send_down(struct coord *c, uint64_t member,
               const Sluice__V1__AttendDown *down)
{
    if (!c->dead)
        c->io.send(c->io.arg, member, down);
}

#define DOWN(name_, KIND, field_, value_)                                      \
    down_t name_ = SLUICE__V1__ATTEND_DOWN__INIT;                              \
    name_.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_##KIND;                    \
    name_.field_ = (value_)

// Lets a member count as silent since ever, so that the next tick sends it away
// and it comes back: without the message it would wait for ever.
void send_give_up(struct coord *c, uint64_t member)
{
    struct member *m = members_get(&c->members, member);

    LOG(ERROR, "out of memory for a message", "member=%llu", (ull)member);
    if (m != NULL)
        m->seen_ms = 0;
}

void send_welcome(struct coord *c, const struct member *m)
{
    Sluice__V1__Welcome msg = SLUICE__V1__WELCOME__INIT;
    uint8_t key[TOKEN_KEY_BYTES];
    DOWN(down, WELCOME, welcome, &msg);

    msg.term = c->term;
    msg.member = m->id;
    msg.cluster = c->cluster.id;
    msg.heartbeat_ms = c->options.heartbeat_ms;
    msg.lease_ms = c->options.lease_ms;
    msg.complete_by_map = true;
    // Never to a worker: it could make tokens of any job.
    if (m->role == MEMBER_PSSERVER && tokens_key(c, key)) {
        msg.token_key = (ProtobufCBinaryData){sizeof(key), key};
        msg.tokens_required = tokens_required(c);
    }
    send_down(c, m->id, &down);
    explicit_bzero(key, sizeof(key));
}

void send_ack(struct coord *c, const struct member *m, uint64_t seq)
{
    Sluice__V1__HeartbeatAck msg = SLUICE__V1__HEARTBEAT_ACK__INIT;
    DOWN(down, HEARTBEAT_ACK, heartbeat_ack, &msg);

    msg.seq = seq;
    send_down(c, m->id, &down);
}

void send_goodbye(struct coord *c, const struct member *m, const char *why)
{
    Sluice__V1__Goodbye msg = SLUICE__V1__GOODBYE__INIT;
    DOWN(down, GOODBYE, goodbye, &msg);

    msg.why = (char *)why;
    send_down(c, m->id, &down);
}

// ---- psservers

// The pieces of one shard, and the variables in them.
struct shard_parts {
    Sluice__V1__Piece **pieces; // borrowed run of the layout
    size_t pieces_count;
    Sluice__V1__Variable **variables; // ours: pointers only
    Sluice__V1__Variable *copies;     // ours; NULL: they are the layout's
    uint32_t *ids;                    // ours
};

// Returns the first piece of a shard: pieces lie in the order of their shards.
static size_t first_piece(const Sluice__V1__CheckpointsReply *l, uint32_t shard)
{
    size_t low = 0, high = l->n_pieces;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->pieces[mid]->shard < shard)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// Makes the shard keep nothing of a moving statistic: it becomes what is
// pushed.
static enum sl_err parts_keep_nothing(struct shard_parts *p)
{
    p->copies = sl_malloc_array(p->pieces_count, sizeof(p->copies[0]));
    if (p->copies == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < p->pieces_count; i++) {
        p->copies[i] = *p->variables[i];
        if (p->copies[i].momentum < 1) // else it stays
            p->copies[i].momentum = 0;
        p->variables[i] = &p->copies[i];
    }
    return SL_OK;
}

static enum sl_err take_parts(struct shard_parts *out, const struct job *job,
                              uint32_t shard)
{
    Sluice__V1__CheckpointsReply *l = job->shards.layout;
    size_t first = first_piece(l, shard), last = first;

    while (last < l->n_pieces && l->pieces[last]->shard == shard)
        last++;
    *out = (struct shard_parts){.pieces = l->pieces + first,
                                .pieces_count = last - first};
    // A shard holds one run of rows of a variable, so no variable twice.
    out->variables =
        sl_malloc_array(out->pieces_count, sizeof(out->variables[0]));
    out->ids = sl_malloc_array(out->pieces_count, sizeof(out->ids[0]));
    if (out->variables == NULL || out->ids == NULL)
        return SL_ENOMEM; // place_parts_release frees the other
    for (size_t i = 0; i < out->pieces_count; i++) {
        out->ids[i] = out->pieces[i]->variable;
        out->variables[i] = l->variables[out->ids[i]];
    }
    return job->mode->changes ? parts_keep_nothing(out) : SL_OK;
}

// The files that hold the rows of a shard, for a resumed job.
struct source_parts {
    Sluice__V1__SourceFile *files; // ours; their texts are borrowed
    Sluice__V1__SourceFile **list; // ours
    size_t count;
};

static void source_parts_release(struct source_parts *p)
{
    sl_free(p->files);
    sl_free(p->list);
}

#define WEIGHTS_BASE_BYTES (UINT64_C(64) << 20)
#define WEIGHTS_EACH_BYTES (16 * sizeof(float)) // per parameter

// Returns the most bytes that the file of weights may have: the size given at
// submission, but no more than some times the model, since it may hold other
// variables, slots, wider types.
static uint64_t weights_most(const struct job *job)
{
    uint64_t said = job_weights_file(job)->bytes;
    uint64_t most =
        WEIGHTS_BASE_BYTES + job->shards.parameters * WEIGHTS_EACH_BYTES;

    return said == 0 || said > most ? most : said;
}

static Sluice__V1__SourceFile
send_weights_file(const Sluice__V1__WeightsFile *from, uint64_t most)
{
    Sluice__V1__SourceFile file = SLUICE__V1__SOURCE_FILE__INIT;

    file.most_bytes = most;
    file.folder = from->folder;
    file.file = from->file;
    file.sha256 = from->sha256;
    file.weights = true;
    return file;
}

Sluice__V1__SourceFile send_weights(const struct job *job)
{
    return send_weights_file(job_weights_file(job), weights_most(job));
}

static enum sl_err source_parts_make(struct source_parts *out, size_t room)
{
    out->files = sl_malloc_array(room, sizeof(out->files[0]));
    out->list = sl_malloc_array(room, sizeof(out->list[0]));
    if (out->files != NULL && out->list != NULL)
        return SL_OK;
    source_parts_release(out);
    *out = (struct source_parts){0};
    return SL_ENOMEM;
}

static void source_parts_add(struct source_parts *p,
                             const Sluice__V1__SourceFile *file)
{
    p->files[p->count] = *file;
    p->list[p->count] = &p->files[p->count];
    p->count++;
}

static enum sl_err send_fill_weights(struct source_parts *out,
                                     const struct job *job)
{
    const Sluice__V1__ResumeSource *from = job->weights;
    Sluice__V1__SourceFile file;

    if (source_parts_make(out, 1 + from->n_tables) != SL_OK)
        return SL_ENOMEM;
    if (from->weights != NULL) {
        file = send_weights(job);
        source_parts_add(out, &file);
    }
    for (size_t i = 0; i < from->n_tables; i++) {
        file = send_weights_file(from->tables[i]->file,
                                 from->tables[i]->file->bytes);
        file.table = from->tables[i]->table;
        source_parts_add(out, &file);
    }
    return SL_OK;
}

static enum sl_err take_sources(struct source_parts *out, const struct job *job,
                                uint32_t shard)
{
    bool needed[WIRE_SHARDS_MAX];
    const Sluice__V1__Checkpoint *cut;

    *out = (struct source_parts){0};
    if (job->weights != NULL)
        return send_fill_weights(out, job);
    if (job->resume == NULL)
        return SL_OK;
    cut = job->resume->cut->checkpoints[0];
    resume_needs(job->resume, job->shards.layout, shard, needed);
    resume_needs_rows(job->resume, job->spec->model, shard - job->shards.parts,
                      job_psserver_shards(job), needed);
    // A shard without elements and buckets wants the counted steps alone: its
    // own, which an uneven cut needs, or those of any, as all are the same.
    if (memchr(needed, true, cut->n_shards) == NULL)
        needed[shard < cut->n_shards ? shard : 0] = true;
    if (source_parts_make(out, cut->n_shards) != SL_OK)
        return SL_ENOMEM;
    for (size_t i = 0; i < cut->n_shards; i++) {
        Sluice__V1__SourceFile file = SLUICE__V1__SOURCE_FILE__INIT;

        if (!needed[i])
            continue;
        file.folder = cut->shards[i]->folder;
        file.file = cut->shards[i]->file;
        file.sha256 = cut->shards[i]->sha256;
        source_parts_add(out, &file);
    }
    return SL_OK;
}

// The tables of a job, as a shard is told of them.
struct table_parts {
    Sluice__V1__Table *tables; // ours; what they point at is the spec's
    Sluice__V1__Table **list;  // ours
    size_t count;
};

static enum sl_err take_tables(struct table_parts *out, const struct job *job)
{
    size_t n = job->spec->model->n_tables;

    *out = (struct table_parts){.count = n};
    if (n == 0)
        return SL_OK;
    out->tables = sl_malloc_array(n, sizeof(out->tables[0]));
    out->list = sl_malloc_array(n, sizeof(out->list[0]));
    if (out->tables == NULL || out->list == NULL)
        return SL_ENOMEM; // place_parts_release frees the other
    for (size_t i = 0; i < n; i++) {
        spec_table(&out->tables[i], job->spec, i);
        out->list[i] = &out->tables[i];
    }
    return SL_OK;
}

// What a ShardSpec points at.
struct place_parts {
    struct source_parts sources;
    struct shard_parts shard;
    struct table_parts tables;
};

static void place_parts_release(struct place_parts *p)
{
    source_parts_release(&p->sources);
    sl_free(p->shard.variables);
    sl_free(p->shard.copies);
    sl_free(p->shard.ids);
    sl_free(p->tables.tables);
    sl_free(p->tables.list);
}

static enum sl_err place_parts_take(struct place_parts *out,
                                    const struct job *job, uint32_t shard)
{
    enum sl_err rc;

    *out = (struct place_parts){.tables = {0}};
    rc = take_sources(&out->sources, job, shard);
    if (rc != SL_OK)
        return rc;
    rc = take_parts(&out->shard, job, shard);
    if (rc == SL_OK)
        rc = take_tables(&out->tables, job);
    if (rc != SL_OK)
        place_parts_release(out);
    return rc;
}

static void place_parts_say(Sluice__V1__ShardSpec *out,
                            const struct place_parts *p)
{
    out->pieces = p->shard.pieces;
    out->n_pieces = p->shard.pieces_count;
    out->variables = p->shard.variables;
    out->n_variables = p->shard.pieces_count;
    out->variable_ids = p->shard.ids;
    out->n_variable_ids = p->shard.pieces_count;
    out->sources = p->sources.list;
    out->n_sources = p->sources.count;
    out->tables = p->tables.list;
    out->n_tables = p->tables.count;
}

// Fills in the rule of staleness; returns false if a delay changes nothing.
static bool take_staleness(Sluice__V1__Staleness *out,
                           const Sluice__V1__TrainSpec *train)
{
    struct spec_staleness how = spec_staleness(train);

    sluice__v1__staleness__init(out);
    out->max_delay = how.max_delay;
    out->rule = (Sluice__V1__StalenessRule)how.rule;
    out->lambda = how.lambda;
    return how.max_delay > 0 || how.rule != SPEC_STALENESS_NONE;
}

struct rates_parts {
    Sluice__V1__RateStep steps[RATES_MAX], *list[RATES_MAX];
};

static void rates_list(struct rates_parts *out, const struct rates *rates)
{
    for (uint32_t i = 0; i < rates->count; i++) {
        sluice__v1__rate_step__init(&out->steps[i]);
        out->steps[i].closure = rates->step[i].closure;
        out->steps[i].rate = rates->step[i].rate;
        out->list[i] = &out->steps[i];
    }
}

void send_rates(struct coord *c, uint64_t member, const struct job *job,
                uint32_t shard, uint64_t hold)
{
    Sluice__V1__Rates msg = SLUICE__V1__RATES__INIT;
    struct rates_parts rates;
    DOWN(down, RATES, rates, &msg);

    rates_list(&rates, &job->monitor.callbacks.rates);
    msg.term = c->term;
    msg.job = job->id;
    msg.job_uid = job->uid;
    msg.shard = shard;
    msg.rates = rates.list;
    msg.n_rates = job->monitor.callbacks.rates.count;
    msg.hold = hold;
    send_down(c, member, &down);
}

// What the rows of a job's tenant may take on each psserver.
struct rows_quota_parts {
    Sluice__V1__RowsQuota msg;
    char tenant[JOURNAL_TENANT];
};

// Returns the message; NULL: the job has no tables, or its tenant cannot be
// read, which ends the coordinator.
static Sluice__V1__RowsQuota *rows_quota_say(struct coord *c,
                                             struct rows_quota_parts *p,
                                             const struct job *job)
{
    const struct quota *q;
    struct sl_error err = SL_ERROR_INIT;

    if (job->spec->model->n_tables == 0)
        return NULL;
    if (journal_job_tenant(c->journal, job->id, p->tenant, &err) != SL_OK) {
        (void)coord_fatal(c, &err);
        return NULL;
    }
    q = quotas_of_tenant(c->quotas, p->tenant);
    sluice__v1__rows_quota__init(&p->msg);
    p->msg.tenant = p->tenant;
    p->msg.limited = q != NULL && q->most[QUOTA_ROWS] != QUOTA_FREE;
    p->msg.most = p->msg.limited ? q->most[QUOTA_ROWS] : 0;
    p->msg.disk_limited = q != NULL && q->most[QUOTA_ROWS_DISK] != QUOTA_FREE;
    p->msg.disk_most = p->msg.disk_limited ? q->most[QUOTA_ROWS_DISK] : 0;
    return &p->msg;
}

static void send_place_as(struct coord *c, const struct member *m,
                          struct job *job, uint32_t shard,
                          const struct wire_tag *tag, Sluice__V1__Place *msg)
{
    Sluice__V1__ShardSpec spec = SLUICE__V1__SHARD_SPEC__INIT;
    Sluice__V1__Geometry geometry = wire_geometry(&job->shards.schedule);
    Sluice__V1__Tag at_least = wire_tag_msg(*tag);
    uint32_t accumulate = job->mode->changes ? 1 : spec_accumulate(job->spec);
    Sluice__V1__Staleness staleness;
    const struct spec_moments moments = spec_moments(job->spec);
    struct place_parts parts;
    struct rates_parts rates;
    struct rows_quota_parts quota;
    DOWN(down, PLACE, place, msg);

    if (place_parts_take(&parts, job, shard) != SL_OK)
        return send_give_up(c, m->id);
    place_parts_say(&spec, &parts);
    spec.job = job->id;
    spec.job_incarnation = job->incarnation;
    spec.shard = shard;
    spec.shards = job->shards.count;
    spec.optimizer =
        (Sluice__V1__OptimizerSpec *)spec_shard_optimizer(job->spec);
    spec.geometry = &geometry;
    spec.seed = job->spec->train->seed;
    spec.job_name = job->name;
    spec.job_uid = job->uid;
    spec.contributions = job->shards.evidence.round;
    if (job->shards.parts > 0) {
        spec.contributions = job->spec->train->contributions;
        spec.decided = true;
        spec.first_rows = job->shards.parts;
    }
    spec.down = spec_down_code(job->spec);
    spec.open_contributions = job->shards.evidence.open;
    spec.directions = spec_directions(job->spec->train);
    spec.aged = spec_aged(job->spec->train);
    spec.moments = moments.vectors;
    spec.moments_wire = moments.wire;
    if (take_staleness(&staleness, job->spec->train))
        spec.staleness = &staleness;
    spec.accumulate = accumulate > 1 ? accumulate : 0;
    spec.rows = rows_quota_say(c, &quota, job);
    rates_list(&rates, &job->monitor.callbacks.rates);
    spec.rates = rates.list;
    spec.n_rates = job->monitor.callbacks.rates.count;
    msg->term = c->term;
    msg->shard = &spec;
    msg->at_least = &at_least;
    send_down(c, m->id, &down);
    place_parts_release(&parts);
}

void send_place(struct coord *c, const struct member *m, struct job *job,
                uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];
    Sluice__V1__Place msg = SLUICE__V1__PLACE__INIT;

    s->asked = m->id;
    s->place_ms = coord_now(c);
    msg.replica = job_replica_memory(s);
    send_place_as(c, m, job, shard, &s->cut, &msg);
}

void send_prepare(struct coord *c, const struct member *m, struct job *job,
                  uint32_t shard, const struct wire_tag *at_least,
                  uint64_t follow)
{
    Sluice__V1__Place msg = SLUICE__V1__PLACE__INIT;

    msg.prepare = true;
    msg.follow = follow;
    msg.follow_incarnation = at_least->incarnation;
    send_place_as(c, m, job, shard, at_least, &msg);
}

void send_feed(struct coord *c, uint64_t source, const struct member *target,
               const struct job *job, uint32_t shard, uint64_t order,
               bool replica)
{
    Sluice__V1__Feed msg = SLUICE__V1__FEED__INIT;
    DOWN(down, FEED, feed, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.shard = shard;
    msg.incarnation = job->shards.evidence.shard[shard].incarnation;
    msg.order = order;
    msg.address = target->address;
    msg.replica = replica;
    msg.follow = replica && spec_follows(job->spec->placement);
    send_down(c, source, &down);
}

void send_admit(struct coord *c, const struct member *m, const struct job *job,
                uint32_t shard)
{
    Sluice__V1__Admit msg = SLUICE__V1__ADMIT__INIT;
    Sluice__V1__Tag base = wire_tag_msg(job->ring.base);
    struct rows_quota_parts quota;
    DOWN(down, ADMIT, admit, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.shard = shard;
    msg.incarnation = job->shards.evidence.shard[shard].incarnation;
    msg.map_version = job->map.version;
    if (job->shards.parts > 0) {
        msg.base_tag = &base;
        msg.skip = job->ring.base_skipped;
    }
    msg.rows = rows_quota_say(c, &quota, job);
    send_down(c, m->id, &down);
}

static void send_refusal(struct coord *c, const struct member *m, uint64_t job,
                         uint32_t shard, const char *why,
                         const struct wire_tag *load, bool exact)
{
    Sluice__V1__Refuse msg = SLUICE__V1__REFUSE__INIT;
    Sluice__V1__Tag tag =
        wire_tag_msg(load == NULL ? (struct wire_tag){0, 0} : *load);
    DOWN(down, REFUSE, refuse, &msg);

    LOG(INFO, "shard refused", "member=%s job=%llu shard=%u why=%s", m->name,
        (ull)job, shard, why);
    msg.term = c->term;
    msg.job = job;
    msg.shard = shard;
    msg.why = (char *)why;
    msg.load = load == NULL ? NULL : &tag;
    msg.exact = exact;
    send_down(c, m->id, &down);
}

void send_refuse(struct coord *c, const struct member *m, uint64_t job,
                 uint32_t shard, const char *why, const struct wire_tag *load)
{
    send_refusal(c, m, job, shard, why, load, false);
}

void send_replica_out(struct coord *c, const struct member *m, uint64_t job,
                      uint32_t shard, uint64_t feed)
{
    Sluice__V1__ReplicaOut msg = SLUICE__V1__REPLICA_OUT__INIT;
    DOWN(down, REPLICA_OUT, replica_out, &msg);

    msg.term = c->term;
    msg.job = job;
    msg.shard = shard;
    msg.order = feed;
    send_down(c, m->id, &down);
}

void send_reload(struct coord *c, const struct member *m, const struct job *job,
                 uint32_t shard)
{
    send_refusal(c, m, job->id, shard, "R9: the ring goes back to the last cut",
                 &job->shards.list[shard].cut, true);
}

void send_close_round(struct coord *c, const struct member *m,
                      const struct job *job, uint32_t shard, uint64_t closure)
{
    Sluice__V1__CloseRound msg = SLUICE__V1__CLOSE_ROUND__INIT;
    DOWN(down, CLOSE_ROUND, close_round, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.shard = shard;
    msg.closure = closure;
    if (job->shards.parts > 0) {
        msg.generation = job->ring.generation;
        msg.rounds = job->rounds.counted;
        msg.skip = job->rounds.skipped;
    }
    send_down(c, m->id, &down);
}

void send_hello_wanted(struct coord *c, const struct member *m,
                       const struct job *job, uint32_t shard)
{
    Sluice__V1__HelloWanted msg = SLUICE__V1__HELLO_WANTED__INIT;
    DOWN(down, HELLO_WANTED, hello_wanted, &msg);

    msg.term = c->term;
    msg.job = job->id;
    msg.shard = shard;
    send_down(c, m->id, &down);
}

static void send_snapshot_as(struct coord *c, uint64_t member,
                             const struct job *job, uint32_t shard,
                             Sluice__V1__SnapshotRequest *msg)
{
    DOWN(down, SNAPSHOT, snapshot, msg);

    msg->job = job->id;
    msg->shard = shard;
    msg->incarnation = job->shards.evidence.shard[shard].incarnation;
    send_down(c, member, &down);
}

void send_snapshot(struct coord *c, uint64_t member, const struct job *job,
                   uint32_t shard)
{
    Sluice__V1__SnapshotRequest msg = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    msg.request = job->cuts.now->request;
    msg.at_round = job->cuts.round;
    send_snapshot_as(c, member, job, shard, &msg);
}

void send_move_snapshot(struct coord *c, uint64_t member, const struct job *job,
                        uint32_t shard, uint64_t request, bool last,
                        uint64_t feed)
{
    Sluice__V1__SnapshotRequest msg = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    msg.request = request;
    msg.last = last;
    msg.feed = feed;
    send_snapshot_as(c, member, job, shard, &msg);
}

void send_keep(struct coord *c, uint64_t member, const struct job *job,
               uint32_t shard)
{
    Sluice__V1__Keep msg = SLUICE__V1__KEEP__INIT;
    Sluice__V1__Tag **tags;
    DOWN(down, KEEP, keep, &msg);

    if (job->cuts.count == 0)
        return;
    tags = sl_malloc_array(job->cuts.count, sizeof(tags[0]));
    if (tags == NULL)
        return; // without memory: files stay until the next cut
    for (size_t i = 0; i < job->cuts.count; i++)
        tags[i] = job->cuts.list[i].checkpoint->shards[shard]->tag;
    msg.term = c->term;
    msg.job = job->id;
    msg.shard = shard;
    msg.tags = tags;
    msg.n_tags = job->cuts.count;
    send_down(c, member, &down);
    sl_free(tags);
}

void send_close(struct coord *c, const struct member *m, uint64_t job,
                uint64_t uid, bool delete_snapshots)
{
    Sluice__V1__CloseJob msg = SLUICE__V1__CLOSE_JOB__INIT;
    DOWN(down, CLOSE_JOB, close_job, &msg);

    msg.term = c->term;
    msg.job = job;
    msg.job_uid = uid;
    msg.delete_snapshots = delete_snapshots;
    send_down(c, m->id, &down);
}

// ---- workers

struct map_parts {
    Sluice__V1__JobMap msg;
    Sluice__V1__MapEntry *entries;   // ours
    Sluice__V1__MapEntry **pointers; // ours
};

static void map_parts_release(struct map_parts *p)
{
    sl_free(p->entries);
    sl_free(p->pointers);
    p->entries = NULL;
    p->pointers = NULL;
}

// Makes the map of the shards that changed after version `since`; 0: of all.
static enum sl_err send_make_map(struct coord *c, struct map_parts *out,
                                 const struct job *job, uint64_t since)
{
    uint32_t shards = job->shards.placed ? job->shards.count : 0, count = 0;

    *out = (struct map_parts){.msg = SLUICE__V1__JOB_MAP__INIT};
    out->entries = sl_malloc_array(shards, sizeof(out->entries[0]));
    out->pointers = sl_malloc_array(shards, sizeof(out->pointers[0]));
    if (out->entries == NULL || out->pointers == NULL) {
        map_parts_release(out);
        return SL_ENOMEM;
    }
    for (uint32_t i = 0; i < shards; i++) {
        const struct job_shard *s = &job->shards.list[i];
        Sluice__V1__MapEntry *e = &out->entries[count];
        struct member *m;

        if (since != 0 && s->told_version <= since)
            continue;
        m = members_get(&c->members, s->server);
        *e = (Sluice__V1__MapEntry)SLUICE__V1__MAP_ENTRY__INIT;
        e->shard = i;
        // incarnation 0: not admitted now, wait; workers that have the
        // state themselves need no map
        if (m != NULL && !job_on_workers(job, i)) {
            e->address = m->address;
            e->incarnation = job->shards.evidence.shard[i].incarnation;
        }
        out->pointers[count++] = e;
    }
    out->msg.job = job->id;
    out->msg.version = job->map.version;
    out->msg.shards = out->pointers;
    out->msg.n_shards = count;
    out->msg.since = since;
    return SL_OK;
}

// Returns the version from which on a worker is sent changes; 0: it is sent
// all.
static uint64_t map_base(const struct member *m, const struct opened *opened,
                         uint64_t have)
{
    bool changes = m->map_changes && opened != NULL && have != 0 &&
                   have == opened->map_version;

    return changes ? have : 0;
}

static void hand_map(struct coord *c, const struct member *m,
                     struct opened *opened, struct map_parts *map)
{
    DOWN(down, MAP, map, &map->msg);

    send_down(c, m->id, &down);
    if (opened != NULL)
        opened->map_version = map->msg.version;
}

void send_map(struct coord *c, const struct member *m, const struct job *job,
              uint64_t have)
{
    struct opened *opened = map_get(&m->opened, job->id);
    struct map_parts map;

    if (send_make_map(c, &map, job, map_base(m, opened, have)) != SL_OK)
        return send_give_up(c, m->id);
    hand_map(c, m, opened, &map);
    map_parts_release(&map);
}

// Sends the last map, or a new one if the worker needs another.
static void send_same(struct coord *c, struct member *m, const struct job *job,
                      struct opened *opened, struct map_parts *map, bool *made)
{
    uint64_t since = map_base(m, opened, opened->map_version);

    if (!*made || map->msg.since != since) {
        map_parts_release(map);
        *made = send_make_map(c, map, job, since) == SL_OK;
    }
    if (*made)
        hand_map(c, m, opened, map);
    else
        send_give_up(c, m->id);
}

// Workers that had the same version get the same map: one is made for a run of
// them.
void send_maps(struct coord *c, const struct job *job)
{
    struct map_parts map = {.msg = SLUICE__V1__JOB_MAP__INIT};
    bool made = false;

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);
        struct opened *opened = map_get(&m->opened, job->id);

        if (m->role == MEMBER_WORKER && opened != NULL && opened->placed)
            send_same(c, m, job, opened, &map, &made);
        FAULT("map.announce");
    }
    map_parts_release(&map);
}

void send_job_open(struct coord *c, const struct member *m,
                   const struct job *job)
{
    Sluice__V1__JobOpen msg = SLUICE__V1__JOB_OPEN__INIT;
    Sluice__V1__DataFacts facts = SLUICE__V1__DATA_FACTS__INIT;
    Sluice__V1__JobToken token = SLUICE__V1__JOB_TOKEN__INIT;
    Sluice__V1__Geometry geometry;
    struct map_parts map;
    DOWN(down, JOB_OPEN, job_open, &msg);

    struct opened *opened = map_get(&m->opened, job->id);

    if (send_make_map(c, &map, job, 0) != SL_OK)
        return send_give_up(c, m->id);
    if (opened != NULL)
        opened->map_version = job->map.version;
    msg.job = job->id;
    msg.job_incarnation = job->incarnation;
    msg.job_name = job->name;
    msg.spec = job->spec;
    msg.map = &map.msg;
    msg.loss_scale = job->reports.loss_scale;
    if (tokens_make(c, job, &token))
        msg.token = &token;
    if (job->shards.placed) {
        geometry = wire_geometry(&job->shards.schedule);
        msg.geometry = &geometry;
        msg.variables = job->shards.layout->variables;
        msg.n_variables = job->shards.layout->n_variables;
        msg.pieces = job->shards.layout->pieces;
        msg.n_pieces = job->shards.layout->n_pieces;
        msg.rows_shards = job->shards.layout->rows_shards;
    }
    if (job->reports.has_facts) {
        facts.train_samples = job->reports.facts.train_samples;
        facts.test_samples = job->reports.facts.test_samples;
        facts.train_hash = job->reports.facts.train_hash;
        facts.test_hash = job->reports.facts.test_hash;
        msg.facts = &facts;
    }
    send_down(c, m->id, &down);
    map_parts_release(&map);
}

static void send_fill_train(Sluice__V1__Lease *msg, const struct job *job,
                            uint64_t closure)
{
    msg->epoch = (uint32_t)schedule_epoch(&job->shards.schedule, closure);
    msg->steps = schedule_closure_steps(&job->shards.schedule, closure);
    schedule_closure_range(&job->shards.schedule, closure, &msg->first,
                           &msg->count);
}

// Fills in the tags of the cut that an evaluation reads.
static enum sl_err fill_evaluate(Sluice__V1__Lease *msg, const struct work *w)
{
    const struct job_cut *cut = job_find_cut(w->job, w->cut);

    msg->cut = w->cut;
    msg->first = w->first;
    msg->count = w->count;
    msg->tags =
        sl_malloc_array(cut->checkpoint->n_shards, sizeof(msg->tags[0]));
    if (msg->tags == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < cut->checkpoint->n_shards; i++)
        msg->tags[i] = cut->checkpoint->shards[i]->tag;
    msg->n_tags = cut->checkpoint->n_shards;
    return SL_OK;
}

// Storage for one lease of a message.
struct lease_parts {
    Sluice__V1__Lease msg;
    Sluice__V1__Attempt attempt;
    Sluice__V1__JobToken proof;
};

// Fills in a lease; msg.tags is to be freed.
static enum sl_err fill_lease(struct lease_parts *p, const struct coord *c,
                              const struct work *w)
{
    sluice__v1__lease__init(&p->msg);
    sluice__v1__job_token__init(&p->proof);
    p->attempt = wire_attempt_msg(
        (struct wire_attempt){w->closure.attempt.term, w->closure.attempt.n});
    p->msg.term = c->term;
    p->msg.job = w->job->id;
    p->msg.job_incarnation = w->job->incarnation;
    p->msg.closure = w->closure.id;
    p->msg.attempt = &p->attempt;
    p->msg.kind = (Sluice__V1__LeaseKind)w->kind;
    p->msg.map_version = w->job->map.version;
    p->msg.norm_most = w->norm_most;
    p->msg.closures = w->closures;
    if (w->kind == WORK_TRAIN && tokens_prove(c, w, &p->proof))
        p->msg.proof = &p->proof;
    if (w->kind == WORK_TRAIN)
        send_fill_train(&p->msg, w->job, w->closure.id);
    else if (w->kind == WORK_EVALUATE)
        return fill_evaluate(&p->msg, w);
    return SL_OK;
}

void send_leases(struct coord *c, struct member *m)
{
    struct lease_parts part[DISPATCH_LEASES_ALL];
    Sluice__V1__Lease *list[DISPATCH_LEASES_ALL];
    Sluice__V1__Leases msg = SLUICE__V1__LEASES__INIT;
    DOWN(down, LEASES, leases, &msg);
    const struct list_node *n = &m->leases.head;
    enum sl_err rc = SL_OK;

    msg.lease = list;
    msg.n_lease = m->leases_unsent;
    m->leases_unsent = 0;
    for (size_t i = 0; i < msg.n_lease; i++)
        n = n->prev;
    for (size_t i = 0; i < msg.n_lease; i++, n = n->next) {
        list[i] = &part[i].msg;
        if (fill_lease(&part[i], c, list_entry(n, struct work, on_holder)) !=
            SL_OK)
            rc = SL_ENOMEM;
    }
    if (rc == SL_OK)
        send_down(c, m->id, &down);
    else
        send_give_up(c, m->id);
    // After the send, before which one that leads no longer ends (H4).
    LOG(DEBUG, "leases sent", "worker=%s count=%zu", m->name, msg.n_lease);
    for (size_t i = 0; i < msg.n_lease; i++)
        sl_free(part[i].msg.tags);
}

void send_revoke(struct coord *c, const struct member *m, const struct work *w,
                 const char *why)
{
    Sluice__V1__Revoke msg = SLUICE__V1__REVOKE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    DOWN(down, REVOKE, revoke, &msg);

    attempt.term = w->closure.attempt.term;
    attempt.n = w->closure.attempt.n;
    msg.job = w->job->id;
    msg.closure = w->closure.id;
    msg.attempt = &attempt;
    msg.kind = (Sluice__V1__LeaseKind)w->kind;
    msg.why = (char *)why;
    send_down(c, m->id, &down);
}

void send_revoke_job(struct coord *c, const struct member *m,
                     const struct job *job, const char *why)
{
    Sluice__V1__Revoke msg = SLUICE__V1__REVOKE__INIT;
    Sluice__V1__Attempt none = SLUICE__V1__ATTEMPT__INIT;
    DOWN(down, REVOKE, revoke, &msg);

    msg.job = job->id;
    msg.attempt = &none;
    msg.why = (char *)why;
    msg.whole_job = true;
    send_down(c, m->id, &down);
}
