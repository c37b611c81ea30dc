// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shards.c -- admission of shards, the map of their
// psservers, and psservers that fall silent.
#include "coordinator/core/shards/shards.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/run/log.h"
#include "coordinator/core/recovery/behind.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/leases/recount.h"
#include "coordinator/core/send.h"
#include "coordinator/core/status/job_status.h"
#include "coordinator/rules/admit.h"
#include "proto/spec.h"

// ---- the map

static void map_changed(struct coord *c, struct job *job)
{
    job->map.version++;
    job->map.changed = true;
    job->changes++;
}

// Marks the entries of the map that differ from the ones last sent.
static void note_changes(struct job *job)
{
    for (uint32_t i = 0; i < job->shards.count; i++) {
        struct job_shard *s = &job->shards.list[i];
        uint64_t incarnation = job->shards.evidence.shard[i].incarnation;

        if (s->told_version != 0 && s->told_server == s->server &&
            s->told_incarnation == incarnation)
            continue;
        s->told_server = s->server;
        s->told_incarnation = incarnation;
        s->told_version = job->map.version;
    }
}

static void flush(struct coord *c, struct job *job)
{
    job->map.changed = false;
    note_changes(job);
    send_maps(c, job);
}

void shards_send_map(struct coord *c, const struct member *m, struct job *job,
                     uint64_t have)
{
    note_changes(job);
    send_map(c, m, job, have);
}

// Leases are given only while every shard is served, and a change is flushed
// before the dispatch that follows it. While shards are missing, a thousand of
// them may come at once: changes until then go with the tick.
void shards_flush_map(struct coord *c, struct job *job, bool tick)
{
    if (job->map.changed && !job_ended(job) && !c->dead &&
        (tick || job_served(job)))
        flush(c, job);
}

// ---- admission

// Pauses a job after its shard showed more than the journal (I7): no number of
// it is given any more.
static void shards_pause_behind(struct coord *c, const struct member *m,
                                struct job *job,
                                const Sluice__V1__ShardHello *h,
                                uint64_t newest)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t shown = h->live_incarnation > h->loaded->incarnation
                         ? h->live_incarnation
                         : h->loaded->incarnation;

    sl_fail(&err, SL_ESTATE,
            "psserver %s shows shard %u at incarnation %llu, this journal "
            "knows only %llu",
            m->name, h->shard, (ull)shown, (ull)newest);
    behind_pause(c, job, &err);
}

// Replaces a text for people; without memory it becomes NULL.
static void shards_replace_text(char **to, const char *text)
{
    char *copy = text == NULL ? NULL : sl_strdup(text);

    sl_free(*to);
    *to = copy;
}

// Most incarnations in one commit, which takes a few milliseconds.
#define RESERVED_MOST 1000

// Says whether this psserver will show another shard that has to be admitted
// anew: it was never admitted, or by an earlier process. So no live memory of
// it exists that a higher number would fence.
static bool comes_next(const struct member *m, const struct job *job,
                       uint32_t shard)
{
    const struct job_shard *s = &job->shards.list[shard];
    uint64_t newest = job->shards.evidence.shard[shard].incarnation;

    return s->server == 0 && s->silent_server == 0 && s->reserved <= newest &&
           (newest == 0 || (s->process != 0 && s->process != m->process)) &&
           strcmp(s->psserver, m->name) == 0;
}

// Commits the incarnation that this shard is admitted with (I1) and, in the
// same commit, those of shards that the same process will show.
static bool shards_reserve_incarnations(struct coord *c, const struct member *m,
                                        struct job *job, uint32_t shard)
{
    struct journal_incarnation list[RESERVED_MOST];
    uint64_t newest = job->shards.evidence.shard[shard].incarnation;
    size_t count = 0;

    if (job->shards.list[shard].reserved > newest)
        return true;
    list[count++] = (struct journal_incarnation){shard, newest + 1};
    for (uint32_t n = 1; n < job->shards.count && count < RESERVED_MOST; n++) {
        uint32_t i = (shard + n) % job->shards.count;

        if (comes_next(m, job, i))
            list[count++] = (struct journal_incarnation){
                i, job->shards.evidence.shard[i].incarnation + 1};
    }
    if (!coord_wrote(c, journal_shard_incarnations(c->journal, job->id, list,
                                                   count, &c->err)))
        return false;
    for (size_t i = 0; i < count; i++)
        job->shards.list[list[i].shard].reserved = list[i].incarnation;
    return true;
}

// Tells people of an admission with `incarnation`.
static void say_admitted(struct coord *c, const struct member *m,
                         struct job *job, const Sluice__V1__ShardHello *h,
                         bool renew, uint64_t incarnation)
{
    const struct counted *counted =
        evidence_counted(&job->shards.evidence, h->shard);

    LOG(INFO, "shard admitted",
        "job=%s shard=%u member=%s incarnation=%llu renewed=%d low=%llu",
        job->id_text, h->shard, m->name, (ull)incarnation, renew,
        (ull)counted_low(counted));
    if (!renew && incarnation > 1) // the first is how it was placed
        happened_job(c, EVENT_SHARD_SERVED, job, m,
                     "shard %u is served by %s again, with %llu steps (of "
                     "snapshot %llu.%llu)",
                     h->shard, m->name, (ull)counted_steps(counted),
                     (ull)h->loaded->incarnation, (ull)h->loaded->sequence);
}

// Notes which process serves a shard from now on, by the present map.
static void shards_note_server(struct coord *c, const struct member *m,
                               struct job *job, uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];

    s->server = m->id;
    s->moving = s->stopped = false;
    s->process = m->process;
    s->silent_server = 0;
    s->since_ms = coord_now(c);
    s->was_lost = false;
    shards_replace_text(&s->failure, NULL);
    evidence_name(&job->shards.evidence, shard, job->map.version);
    // D1: before the shard answers any worker
    monitor_admits(c, m, job, shard);
}

void shards_settle(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__ShardHello *h)
{
    const struct wire_tag base = job->ring.base;

    job_counts_reset(job, h->shard);
    job_counts_take(job, h->shard, h->counts);
    JOB_HISTORY(job, "settled",
                " shard=%u generation=%llu live=%llu rounds=%llu whole=%d "
                "from_i=%llu from_n=%llu base_g=%llu base_n=%llu",
                h->shard, (ull)job->ring.generation, (ull)h->live_incarnation,
                (ull)h->rounds, h->whole, (ull)h->loaded->incarnation,
                (ull)h->loaded->sequence, (ull)base.incarnation,
                (ull)base.sequence);
    LOG(INFO, "shard settled",
        "job=%s shard=%u member=%s generation=%llu rounds=%llu live=%llu",
        job->id_text, h->shard, m->name, (ull)job->ring.generation,
        (ull)base.sequence, (ull)h->live_incarnation);
    job->shards.list[h->shard].beside.settled = true;
    map_changed(c, job); // I2: every admission
    shards_note_server(c, m, job, h->shard);
    send_admit(c, m, job, h->shard);
    send_keep(c, m->id, job, h->shard);
}

// Makes all changes of an admission, once it may happen.
static void shards_admit(struct coord *c, struct member *m, struct job *job,
                         const Sluice__V1__ShardHello *h, bool renew)
{
    struct job_shard *s = &job->shards.list[h->shard];
    uint64_t newest = job->shards.evidence.shard[h->shard].incarnation, before;
    struct sl_error err = SL_ERROR_INIT;
    struct counted counted;

    if (wire_counted_read(&counted, &job->shards.schedule, h->counted, &err) !=
        SL_OK) {
        send_refuse(c, m, job->id, h->shard, err.text, NULL);
        return;
    }
    if (!renew) { // I1: committed before the admission is sent
        if (!shards_reserve_incarnations(c, m, job, h->shard)) {
            counted_release(&counted);
            return;
        }
        newest = s->reserved;
        FAULT("map.commit");
        job_counts_reset(job, h->shard);
    }
    JOB_HISTORY(job, "admission",
                " shard=%u incarnation=%llu renewed=%d live=%llu "
                "from_i=%llu from_n=%llu cut_i=%llu cut_n=%llu steps=%llu",
                h->shard, (ull)newest, renew, (ull)h->live_incarnation,
                (ull)h->loaded->incarnation, (ull)h->loaded->sequence,
                (ull)s->cut.incarnation, (ull)s->cut.sequence,
                (ull)counted_steps(&counted));
    before = evidence_closures(&job->shards.evidence);
    evidence_admit(&job->shards.evidence, h->shard, newest, &counted); // C2
    figures_fell(c, job, before);
    job_counts_take(job, h->shard, h->counts);
    map_changed(c, job); // I2: every admission
    shards_note_server(c, m, job, h->shard);
    send_admit(c, m, job, h->shard);
    send_keep(c, m->id, job, h->shard);
    cuts_admitted(c, job, h->shard, renew);
    recount_heard(c, job, h->shard);
    if (!c->dead && !job_ended(job))
        say_admitted(c, m, job, h, renew, newest);
}

// Keeps a hello until the manifest is settled (K5). The newest hello of a shard
// counts.
static void keep_waiting(struct coord *c, struct member *m, struct job *job,
                         const Sluice__V1__ShardHello *h)
{
    struct job_shard *s = &job->shards.list[h->shard];
    ProtobufCMessage *copy = NULL;

    if (wire_dup(&copy, &h->base) != SL_OK) {
        m->seen_ms = 0; // no memory: it is sent away and asks again
        return;
    }
    wire_free((ProtobufCMessage *)s->waiting);
    s->waiting = (Sluice__V1__ShardHello *)copy;
    s->waiting_member = m->id;
}

static void stuck(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__ShardHello *h)
{
    struct job_shard *s = &job->shards.list[h->shard];

    LOG(ERROR, "shard cannot be loaded", "job=%s shard=%u member=%s why=%s",
        job->id_text, h->shard, m->name, h->failure);
    if (s->failure == NULL || strcmp(s->failure, h->failure) != 0)
        happened_job(c, EVENT_SHARD_STUCK, job, m,
                     "%s cannot load shard %u: %s", m->name, h->shard,
                     h->failure);
    shards_replace_text(&s->failure, h->failure);
    s->place_ms = coord_now(c);
    job->changes++;
}

// Says whether the hello answers a recount: the shard serves on, and nothing
// else is new.
static bool is_recount(const struct member *m, const struct job *job,
                       const Sluice__V1__ShardHello *h)
{
    return recount_waits(job, h->shard) && h->failure[0] == '\0' &&
           !job->shards.list[h->shard].stopped &&
           job->shards.list[h->shard].server == m->id &&
           h->live_incarnation ==
               job->shards.evidence.shard[h->shard].incarnation;
}

static void recount(struct coord *c, struct job *job,
                    const Sluice__V1__ShardHello *h)
{
    struct sl_error err = SL_ERROR_INIT;
    struct counted counted;

    if (wire_counted_read(&counted, &job->shards.schedule, h->counted, &err) !=
        SL_OK)
        return; // recount_check ends the wait
    evidence_admit(&job->shards.evidence, h->shard, h->live_incarnation,
                   &counted);
    job_counts_take(job, h->shard, h->counts);
    recount_heard(c, job, h->shard);
}

static void shards_judge_hello(struct coord *c, struct member *m,
                               struct job *job, const Sluice__V1__ShardHello *h)
{
    struct job_shard *s = &job->shards.list[h->shard];
    struct admit_case is = {
        .writing = job->cuts.now != NULL && job->cuts.now->writing,
        .failed = h->failure[0] != '\0',
        .live = h->live_incarnation,
        .loaded = wire_tag_of(h->loaded),
        .newest = job->shards.evidence.shard[h->shard].incarnation,
        .cut = s->cut, // also for what was a replica (P7)
    };

    enum admit_verdict verdict = admit_judge(&is);

    // What a ring has decides about a shard beside it, not the shard's number.
    if (job->mode->hello != NULL && verdict != ADMIT_STUCK &&
        verdict != ADMIT_BEHIND) {
        keep_waiting(c, m, job, h);
        job->mode->hello(c, job, h->shard);
        return;
    }
    switch (verdict) {
    case ADMIT_RENEW:
        FAULT("recover.query");
        shards_admit(c, m, job, h, true);
        break;
    case ADMIT_NEW:
        shards_admit(c, m, job, h, false);
        break;
    case ADMIT_WAIT:
        keep_waiting(c, m, job, h);
        break;
    case ADMIT_RELOAD:
        send_refuse(c, m, job->id, h->shard,
                    is.live != 0 ? "a newer incarnation of it was admitted"
                                 : "K7: it lies before the last cut",
                    &s->cut);
        break;
    case ADMIT_STUCK:
        stuck(c, m, job, h);
        break;
    case ADMIT_BEHIND:
        shards_pause_behind(c, m, job, h, is.newest);
        break;
    }
}

// A psserver that is not the owner has to know the job's uid, which only those
// that were given the shard do.
static bool shows_more(const struct job *job, const struct member *m,
                       const Sluice__V1__ShardHello *h)
{
    uint64_t newest = job->shards.evidence.shard[h->shard].incarnation;
    bool owns = strcmp(job->shards.list[h->shard].psserver, m->name) == 0;

    return !job->behind.paused && (owns || h->job_uid != 0) &&
           !job_on_workers(job, h->shard) &&
           (h->live_incarnation > newest ||
            wire_tag_of(h->loaded).incarnation > newest);
}

struct job *shards_hello(struct coord *c, struct member *m,
                         const Sluice__V1__ShardHello *h)
{
    const struct ended_job *ended = jobs_ended(c, h->job);
    struct job *job = jobs_get(c, h->job);
    bool known = job != NULL || ended != NULL;
    uint64_t uid = job != NULL ? job->uid : known ? ended->uid : 0;

    if (ended != NULL && ended->unreadable != NULL) {
        return NULL; // its memory and its files are left as they are
    } else if (!known && behind_knows_not(c, h->job)) {
        behind_list(c, m, h);
    } else if (known && h->job_uid != 0 && h->job_uid != uid) {
        send_refuse(c, m, h->job, h->shard,
                    "this psserver has another job with this number", NULL);
    } else if (job == NULL || job_ended(job)) {
        send_refuse(c, m, h->job, h->shard, "the job has ended", NULL);
    } else if (job->incarnation != h->job_incarnation) {
        send_refuse(c, m, h->job, h->shard,
                    "the job has another incarnation now", NULL);
    } else if (h->shard < job->shards.count && shows_more(job, m, h)) {
        // I7, whoever shows it: the journal may lack the move to m, too.
        shards_judge_hello(c, m, job, h);
    } else if (h->shard >= job->shards.count ||
               strcmp(job->shards.list[h->shard].psserver, m->name) != 0) {
        send_refuse(c, m, h->job, h->shard, "the shard lies elsewhere", NULL);
    } else if (is_recount(m, job, h)) {
        recount(c, job, h);
        return job;
    } else if (!job->behind.paused) { // else its memory is left as it is (I7)
        shards_judge_hello(c, m, job, h);
        return job;
    }
    return NULL;
}

void shards_retry(struct coord *c, struct job *job)
{
    for (uint32_t i = 0; i < job->shards.count && !job_ended(job); i++) {
        struct job_shard *s = &job->shards.list[i];
        Sluice__V1__ShardHello *h = s->waiting;
        struct member *m = members_get(&c->members, s->waiting_member);

        s->waiting = NULL;
        if (h != NULL && m != NULL && !job->behind.paused)
            shards_judge_hello(c, m, job, h);
        wire_free((ProtobufCMessage *)h);
        if (c->dead)
            return;
    }
}

// Takes what a shard with open rounds says that it has counted (L4). What it
// was told to end and neither holds nor has counted was never there.
static void shards_take_counted(struct job *job,
                                const Sluice__V1__ShardReport *report)
{
    struct evidence *e = &job->shards.evidence;
    struct counted set;

    if (e->open == 0 || report->counted == NULL ||
        wire_counted_read(&set, &job->shards.schedule, report->counted, NULL) !=
            SL_OK)
        return;
    if (evidence_set_take(e, report->shard, report->incarnation, &set) ==
            SL_OK &&
        report->answers > 0)
        evidence_not_held(e, report->shard, report->incarnation,
                          report->answers - 1);
    JOB_HISTORY(job, "told", " shard=%u incarnation=%llu steps=%llu",
                report->shard, (ull)report->incarnation,
                (ull)counted_steps(&set));
    counted_release(&set);
    job->changes++;
}

static void shards_take_moments(struct job_shard *s,
                                const Sluice__V1__ShardReport *report)
{
    uint64_t low = report->counts != NULL ? report->counts->low : 0;

    s->moments_of = report->moments_of;
    s->moments_age = low > s->moments_of ? low - s->moments_of : 0;
}

void shards_report(struct coord *c, struct member *m,
                   const Sluice__V1__ShardReport *report)
{
    struct job *job = jobs_get(c, report->job);

    if (job == NULL) {
        ended_report(c, m, report);
        return;
    }
    if (report->job_uid != 0 && report->job_uid != job->uid)
        return;
    if (job_ended(job) && map_get(&m->closing, job->id) != NULL)
        status_final_report(c, m, job, report);
    if (job_ended(job) || report->shard >= job->shards.count)
        return;
    if (job->shards.evidence.shard[report->shard].incarnation !=
            report->incarnation ||
        job->shards.list[report->shard].server != m->id)
        return; // C1, for numbers too
    job_counts_take(job, report->shard, report->counts);
    shard_rows_take(&job->shards.list[report->shard].rows, report,
                    job->spec->model->n_tables, job->shards.count,
                    coord_now(c));
    shards_take_moments(&job->shards.list[report->shard], report);
    shards_take_counted(job, report);
    // A round that closed, and no worker lived to report it.
    if (job->mode->by_round)
        (void)evidence_low_take(&job->shards.evidence, report->shard,
                                report->incarnation, report->counts->low);
}

// ---- silence, and the end of it

// Notes that `m` served shards of the job until it fell silent or went away. A
// silent one that is lost later counts as lost then, once.
static void down_in_job(struct coord *c, struct member *m, struct job *job,
                        bool lost)
{
    bool was_silent = false;
    uint32_t fell = 0;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        struct job_shard *s = &job->shards.list[i];

        if (s->server == m->id) {
            s->server = 0;
            s->silent_server = lost ? 0 : m->id;
            s->since_ms = coord_now(c);
            s->was_lost = true;
            fell++;
        } else if (s->silent_server == m->id) {
            was_silent = true;
            if (lost)
                s->silent_server = 0;
        }
    }
    if (fell > 0)
        map_changed(c, job);
    if (lost && (fell > 0 || was_silent))
        jobs_count(job, &job->counters.psservers_lost);
    if (fell == 0)
        return;
    LOG(WARN, "shards are not served", "job=%s psserver=%s lost=%d",
        job->id_text, m->name, lost);
    happened_job(c, EVENT_SHARDS_DOWN, job, m,
                 "%s is %s: no psserver serves %u of the %u shards of %s",
                 m->name, lost ? "gone" : "silent", fell, job->shards.count,
                 job->name);
}

void shards_down(struct coord *c, struct member *m, bool lost)
{
    list_for(n, &c->jobs.active)
    {
        down_in_job(c, m, list_entry(n, struct job, on_active), lost);
    }
}

void shards_back(struct coord *c, struct member *m)
{
    list_for(n, &c->jobs.active)
    {
        struct job *job = list_entry(n, struct job, on_active);
        bool back = false;

        for (uint32_t i = 0; i < job->shards.count; i++) {
            struct job_shard *s = &job->shards.list[i];

            // No other psserver can have been admitted under its name
            // meanwhile.
            if (s->silent_server == m->id) {
                s->silent_server = 0;
                s->server = m->id;
                s->since_ms = coord_now(c);
                s->was_lost = false;
                back = true;
            }
        }
        if (back) {
            map_changed(c, job);
            happened_job(c, EVENT_SHARDS_BACK, job, m,
                         "%s sends heartbeats again, and serves its shards",
                         m->name);
        }
    }
}

// ---- a shard that moves

// Returns the vectors of each shard of the job: its values, and its slots.
static unsigned shards_vectors(const struct job *job)
{
    return 1 + spec_optimizer_slots(spec_shard_optimizer(job->spec));
}

static uint64_t shards_bytes_by(const struct job_shard *s, unsigned vectors)
{
    return s->elements * sizeof(float) * vectors +
           shard_rows_sum(&s->rows).bytes;
}

uint64_t shards_bytes(const struct job *job, const struct job_shard *s)
{
    return shards_bytes_by(s, shards_vectors(job));
}

uint64_t shards_weight(const struct job *job, const struct job_shard *s)
{
    return SHARDS_EACH + shards_bytes(job, s);
}

static void shards_weigh_one(const struct strmap *by_name, const char *name,
                             uint64_t weight)
{
    uint64_t *sum = name == NULL ? NULL : strmap_get(by_name, name);

    if (sum != NULL)
        *sum += weight;
}

void shards_weigh(const struct coord *c, const struct strmap *by_name)
{
    list_for(n, &c->jobs.active)
    {
        const struct job *job = list_entry(n, struct job, on_active);
        unsigned vectors = shards_vectors(job);

        for (uint32_t i = job->shards.parts; i < job->shards.count; i++) {
            const struct job_shard *s = &job->shards.list[i];
            uint64_t weight = SHARDS_EACH + shards_bytes_by(s, vectors);

            shards_weigh_one(by_name, s->psserver, weight);
            shards_weigh_one(by_name, job_replica(s), weight);
        }
    }
}

void shards_stop(struct coord *c, struct job *job, uint32_t shard)
{
    struct job_shard *s = &job->shards.list[shard];

    s->server = 0;
    s->moving = true;
    s->since_ms = coord_now(c);
    map_changed(c, job);
}

void shards_move(struct coord *c, struct job *job, uint32_t shard,
                 const struct member *m)
{
    struct job_shard *s = &job->shards.list[shard];
    char *name = sl_strdup(m->name);
    struct sl_error err = SL_ERROR_INIT;

    if (name == NULL) { // the journal has the move already
        sl_fail(&err, SL_ENOMEM, "no memory for a name");
        coord_fatal(c, &err);
        return;
    }
    sl_free(s->psserver);
    s->psserver = name;
    s->server = s->silent_server = s->process = 0;
    s->moving = true;
    s->moves_failed = 0;
    s->by_files = false;
    s->losses = (struct job_losses){0};
    s->since_ms = coord_now(c);
    wire_free((ProtobufCMessage *)s->waiting); // of where it was
    s->waiting = NULL;
    shard_rows_release(&s->rows);
    job->changes++;
}

void shards_stay(struct job *job, uint32_t shard, bool fed, uint64_t now,
                 uint64_t ms)
{
    struct job_shard *s = &job->shards.list[shard];

    s->stopped = s->moving || fed;
    s->moving = false;
    s->move_ms = now + (ms << sl_min(s->moves_failed, 6u));
    s->moves_failed++;
    s->by_files = fed && !s->by_files;
}

void shards_no_replica(struct job *job, uint32_t shard, uint64_t now,
                       uint64_t ms)
{
    struct shard_replica *r = &job->shards.list[shard].replica;

    r->again_ms = now + (ms << sl_min(r->failed, 4u));
    r->failed++;
}
