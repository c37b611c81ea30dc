// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_status.c -- the status of a job. Every number is
// one that a shard or a worker reported, or that the journal holds; none is
// extrapolated except the remaining time, which says so by its name.
#include "coordinator/core/status/job_status.h"
#include "coordinator/core/job.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/modes/status_groups.h"
#include "coordinator/core/status/status_pause.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "coordinator/core/leases/bad.h"
#include "coordinator/core/leases/classes.h"
#include "coordinator/core/cuts/cuts.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/leases/excluded.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/job_queue.h"
#include "coordinator/core/status/skipped.h"
#include "proto/spec.h"

// ---- the reason of a wait

static const char *lost_shard(const struct coord *c, const struct job *job,
                              uint32_t *shard)
{
    for (uint32_t i = 0; i < job->shards.count; i++) {
        if (job->shards.list[i].server == 0) {
            *shard = i;
            return job->shards.list[i].psserver;
        }
    }
    return NULL;
}

static void reason_shard(const struct coord *c, const struct job *job,
                         uint32_t shard, char *out, size_t size)
{
    const struct job_shard *s = &job->shards.list[shard];
    double since = (double)(coord_now(c) - s->since_ms) / 1000.0;
    bool there = members_psserver(&c->members, s->psserver) != NULL;

    if (s->failure != NULL)
        snprintf(out, size, "psserver %s cannot load shard %u: %s", s->psserver,
                 shard, s->failure);
    else if (there && s->waiting != NULL)
        snprintf(out, size, "waiting for a checkpoint to be written");
    else if (there)
        snprintf(out, size, "waiting for psserver %s to load shard %u",
                 s->psserver, shard);
    else if (s->was_lost)
        snprintf(out, size, "waiting for psserver %s (lost %.0f s ago)",
                 s->psserver, since);
    else
        snprintf(out, size, "waiting for psserver %s", s->psserver);
}

// Says whether a ready worker is attached; `useful`: one that may be given
// leases of this job.
static bool worker_there(const struct coord *c, const struct job *job,
                         bool useful)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_WORKER && job_suits(job, m) &&
            m->state == MEMBER_READY &&
            (!useful || (m->owes.job == 0 && !excluded_now(c, m, job))))
            return true;
    }
    return false;
}

// Says whether a ready worker would suit the job if its program were newer.
static bool older_there(const struct coord *c, const struct job *job)
{
    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_WORKER && m->external == job->external &&
            m->state == MEMBER_READY && !job_able(job, m))
            return true;
    }
    return false;
}

static void reason_older(const struct job *job, char *out, size_t size)
{
    if (job->external && job->mode->seat != NULL)
        snprintf(out, size,
                 "waiting for an external worker that can be a %s (libsluice): "
                 "the attached workers are older; start newer ones",
                 job->mode->seat);
    else if (job->external && job->mode->able != NULL)
        snprintf(out, size,
                 "waiting for a program that takes steps by itself "
                 "(sluice_options.local), as the job's train.mode wants: the "
                 "attached programs do not; start such a one");
    else
        snprintf(out, size,
                 "waiting for a worker that knows the job's layers (edition "
                 "%u): the attached workers are older; start newer ones",
                 job->edition);
}

bool status_reason_older(const struct coord *c, const struct job *job,
                         char *out, size_t size)
{
    if (worker_there(c, job, false) || !older_there(c, job))
        return false;
    reason_older(job, out, size);
    return true;
}

static void reason_worker(const struct coord *c, const struct job *job,
                          char *out, size_t size)
{
    if (status_reason_older(c, job, out, size))
        return;
    snprintf(out, size, "waiting for %s%s",
             job->external ? "an external worker" : "a worker",
             worker_there(c, job, false)
                 ? ": the attached workers make no progress or are excluded "
                   "from the job; `sluice status` says why"
                 : "");
}

static void reason_queued(const struct coord *c, const struct job *job,
                          char *out, size_t size)
{
    const struct job *last;
    uint32_t before = queue_before(c, job, &last);

    if (last != NULL)
        snprintf(out, size, "queued behind %s (jobs before this one: %u)",
                 last->id_text, before);
    else
        snprintf(out, size, "queued: its turn has come");
}

// Says whether psservers are attached, and all are too old for the job.
static bool older_psservers(const struct coord *c, const struct job *job)
{
    bool older = false;

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        if (m->role == MEMBER_PSSERVER && job_shard_able(job, m))
            return false;
        older = older || m->role == MEMBER_PSSERVER;
    }
    return older;
}

// Returns what a psserver of the edition that the job needs does.
static const char *status_new_psserver(const struct job *job)
{
    const Sluice__V1__OptimizerSpec *o = job->spec->optimizer;
    unsigned edition = job_shard_edition(job);

    return o != NULL && spec_optim_edition(o) == edition ? "knows its optimizer"
           : edition == MODEL_EDITION_ORTHOGONAL ? "draws orthogonal matrices"
           : spec_rows_only(job->spec)           ? "keeps tables alone"
           : job->spec->model->n_tables > 0      ? "keeps tables"
                                                 : "knows its train.mode local";
}

static void reason_placing(const struct coord *c, const struct job *job,
                           char *out, size_t size)
{
    if (job_samples(job) == 0 && status_reason_older(c, job, out, size))
        return;
    if (job_samples(job) == 0)
        snprintf(out, size, "%s",
                 worker_there(c, job, true)
                     ? "a worker opens the data"
                     : "waiting for a worker to open the data");
    else if (c->members.psservers == 0 &&
             mode_wants_psservers(job->mode, job->spec))
        snprintf(out, size, "waiting for a psserver");
    else if (older_psservers(c, job))
        snprintf(out, size,
                 "waiting for a psserver that %s (edition %u): the attached "
                 "psservers are older; start newer ones",
                 status_new_psserver(job), job_shard_edition(job));
    else
        snprintf(out, size, "waiting for psservers to settle");
}

static void reason_paused(const struct job *job, char *out, size_t size)
{
    snprintf(
        out, size,
        "paused (I7): %s. The journal is older than what ran: restore the "
        "newest journal.sqlite, or give the job up (`sluice stop %s`; "
        "`sluice submit --resume` of its last manifest goes on from there)",
        job->behind.why == NULL ? "" : job->behind.why, job->id_text);
}

static const struct work *dropped_work(const struct job *job)
{
    size_t at = 0;
    uint64_t closure;
    void *value;

    while (map_next(&job->leases.active, &at, &closure, &value)) {
        const struct work *w = value;

        if (w->closure.drops > CLOSURE_DROPS_FREE)
            return w;
    }
    return NULL;
}

static void reason_dropped(const struct work *w, char *out, size_t size)
{
    if (w != NULL)
        snprintf(out, size,
                 "closure %llu was handed back %u times in a row, last by %s",
                 (ull)w->closure.id, w->closure.drops, w->dropped);
}

// Writes the reason of a wait for callbacks: they judge an evaluation first, or
// not every shard knows the rate that they set.
static void reason_hold(const struct job *job, char *out, size_t size)
{
    snprintf(out, size,
             "waiting for the evaluation after step %llu (callbacks)",
             (ull)evidence_steps(&job->shards.evidence));
}

// Writes which shard does not know yet a rate that callbacks have reduced;
// false: all do.
static bool reason_rates(const struct job *job, char *out, size_t size)
{
    if (monitor_limit(job) > evidence_low(&job->shards.evidence))
        return false;
    for (uint32_t i = job->shards.parts; i < job->shards.count; i++)
        if (job->shards.list[i].rates_known != monitor_limit(job)) {
            snprintf(out, size,
                     "waiting for psserver %s to take the reduced learning "
                     "rate of shard %u (an older program cannot: upgrade it)",
                     job->shards.list[i].psserver, i);
            break;
        }
    return true;
}

static void reason_last_cut(const struct job *job, char *out, size_t size)
{
    char cut[200];

    cuts_trouble(job, cut, sizeof(cut));
    snprintf(out, size, "waiting for the checkpoint that holds all steps%s%s",
             cut[0] == '\0' ? "" : "; ", cut);
}

// Writes what the job waits for, or "" while it moves.
static void status_reason(const struct coord *c, const struct job *job,
                          char *out, size_t size)
{
    uint32_t shard = 0;

    out[0] = '\0';
    if (job_ended(job))
        snprintf(out, size, "%s",
                 job->end.reason == NULL ? "" : job->end.reason);
    else if (job->behind.paused)
        reason_paused(job, out, size);
    else if (job->cuts.stop_after)
        snprintf(out, size, "is being stopped: a checkpoint is made first");
    else if (status_pause_reason(job, out, size))
        return;
    else if (queue_waits(job))
        reason_queued(c, job, out, size);
    else if (!job->shards.placed)
        reason_placing(c, job, out, size);
    else if (job->mode->waits != NULL && !job_served(job))
        job->mode->waits(c, job, out, size);
    else if (lost_shard(c, job, &shard) != NULL)
        reason_shard(c, job, shard, out, size);
    else if (job->state == JOB_FINISHING && !job_cut_complete(job))
        reason_last_cut(job, out, size);
    else if (job->warnings[JOB_WARN_REACH] != NULL)
        snprintf(out, size, "%s", job->warnings[JOB_WARN_REACH]);
    else if (!worker_there(c, job, true) && job->leases.held == 0)
        reason_worker(c, job, out, size);
    else if (job->state == JOB_FINISHING)
        snprintf(out, size, "waiting for the evaluation");
    else if (evaluations_hold_it(job))
        reason_hold(job, out, size);
    else if (reason_rates(job, out, size))
        return;
    else
        reason_dropped(dropped_work(job), out, size);
}

// ---- shards

static Sluice__V1__ShardCounts *status_shard_counts(const struct job *job,
                                                    uint32_t shard)
{
    const struct job_counts *from = &job->shards.list[shard].counts;
    const struct job_cut *last = job_last_cut(job);
    Sluice__V1__ShardCounts msg = SLUICE__V1__SHARD_COUNTS__INIT;
    ProtobufCMessage *copy = NULL;

    msg.version = from->version;
    msg.applied = from->applied;
    msg.skipped = from->skipped;
    msg.counted = from->counted;
    msg.duplicates = from->duplicates;
    msg.stale = from->stale;
    msg.late = from->late;
    msg.refused = from->refused;
    msg.low = from->low;
    msg.n_staleness = WIRE_STALENESS_BUCKETS;
    msg.staleness = (uint64_t *)from->staleness;
    if (last != NULL && shard < last->counts->n_shards &&
        last->counts->shards[shard]->counts != NULL) {
        msg.epochs = last->counts->shards[shard]->counts->epochs;
        msg.n_epochs = last->counts->shards[shard]->counts->n_epochs;
    }
    return wire_dup(&copy, &msg.base) == SL_OK ? (Sluice__V1__ShardCounts *)copy
                                               : NULL;
}

// Returns the name of the rank that writes a part of a ring's state.
static const char *rank_name(const struct coord *c, const struct job_shard *s)
{
    const struct member *m = members_get(&c->members, s->server);

    return m == NULL ? "" : m->name;
}

static Sluice__V1__ShardStatus *
status_shard(const struct coord *c, const struct job *job, uint32_t shard)
{
    const struct job_shard *s = &job->shards.list[shard];
    Sluice__V1__ShardStatus *m =
        wire_new(&sluice__v1__shard_status__descriptor);

    if (m == NULL)
        return NULL;
    m->shard = shard;
    m->psserver =
        sl_strdup(job_on_workers(job, shard) ? rank_name(c, s) : s->psserver);
    m->incarnation =
        s->server == 0 ? 0 : job->shards.evidence.shard[shard].incarnation;
    if (job_replica(s) != NULL && !job_ended(job)) { // its feed is over
        m->replica = sl_strdup(job_replica(s));
        m->replica_lag = s->replica.lag;
        m->follows = spec_follows(job->spec->placement);
    }
    m->bytes = s->elements * 4;
    m->counts = status_shard_counts(job, shard);
    m->evidence_steps =
        counted_steps(evidence_counted(&job->shards.evidence, shard));
    if (m->psserver == NULL || m->replica == NULL || m->counts == NULL ||
        !shard_rows_show(&s->rows, m, coord_now(c))) {
        wire_free(&m->base);
        return NULL;
    }
    return m;
}

static bool status_add_shards(const struct coord *c, Sluice__V1__JobStatus *m,
                              const struct job *job)
{
    m->shards = sl_calloc(job->shards.count, sizeof(*m->shards));
    if (m->shards == NULL)
        return false;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        m->shards[i] = status_shard(c, job, i);
        m->n_shards = i + 1;
        if (m->shards[i] == NULL)
            return false;
    }
    return true;
}

// Returns the upper bound of the bucket that holds the median staleness.
static uint32_t staleness_p50(const struct job *job)
{
    static const uint32_t bound[WIRE_STALENESS_BUCKETS] = {
        0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    uint64_t sum[WIRE_STALENESS_BUCKETS] = {0}, all = 0, below = 0;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        for (size_t b = 0; b < WIRE_STALENESS_BUCKETS; b++) {
            sum[b] += job->shards.list[i].counts.staleness[b];
            all += job->shards.list[i].counts.staleness[b];
        }
    }
    for (size_t b = 0; b < WIRE_STALENESS_BUCKETS; b++) {
        below += sum[b];
        if (below * 2 >= all)
            return all == 0 ? 0 : bound[b];
    }
    return 0;
}

// ---- the job

static void fill_updates(Sluice__V1__JobStatus *m, const struct job *job)
{
    uint64_t fewest = UINT64_MAX;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        const struct job_counts *k = &job->shards.list[i].counts;
        const struct rows_sum rows = shard_rows_sum(&job->shards.list[i].rows);

        m->updates_refused += k->refused;
        m->duplicates += k->duplicates;
        m->updates_stale += k->stale;
        m->updates_late += k->late;
        m->rows += rows.rows;
        m->rows_bytes += rows.bytes;
        if (k->applied < fewest) {
            fewest = k->applied;
            m->updates_applied = k->applied;
            m->updates_skipped = k->skipped;
        }
    }
}

// Says whether the accuracy is known: an external program that reports 0
// correct samples may not count them.
static bool status_has_accuracy(const struct job *job, uint64_t correct)
{
    return job->external ? correct > 0 : spec_loss_counts(spec_loss(job->spec));
}

void status_progress(const struct coord *c, Sluice__V1__JobStatus *m,
                     const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);
    uint64_t now = coord_now(c);
    uint64_t samples;
    struct meter_sums loss;

    // C4: durable steps were counted, also while a shard is away and cannot say
    // so.
    m->steps_counted = job_steps(job);
    m->resumed_steps = job_resumed_steps(job);
    if (last != NULL && m->steps_counted < last->checkpoint->steps)
        m->steps_counted = last->checkpoint->steps;
    if (m->steps_counted < m->resumed_steps)
        m->steps_counted = m->resumed_steps;
    samples = schedule_samples(&job->shards.schedule, m->steps_counted);
    m->steps_asked = schedule_steps(&job->shards.schedule);
    m->samples_per_epoch = job->shards.schedule.samples;
    m->closures_asked = job->shards.evidence.closures;
    m->closures_counted = evidence_closures(&job->shards.evidence);
    m->epoch = evidence_epochs(&job->shards.evidence) + 1;
    if (last != NULL && m->epoch < last->epochs + 1)
        m->epoch = last->epochs + 1;
    if (m->epoch > m->epochs)
        m->epoch = m->epochs;
    loss = meter_loss(&job->reports.meter, m->epoch - 1);
    WIRE_SET_KNOWN(m, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS,
                   meter_mean_loss(&loss));
    if (status_has_accuracy(job, loss.correct))
        WIRE_SET_KNOWN(m, accuracy,
                       SLUICE__V1__JOB_STATUS__KNOWN_ACCURACY_ACCURACY,
                       meter_mean_accuracy(&loss));
    if (!job_ended(job))
        m->images_per_second = meter_rate(&job->reports.meter, now, samples);
    if (m->images_per_second > 0)
        m->remaining_seconds = (double)(job->shards.schedule.samples *
                                            job->shards.schedule.epochs -
                                        samples) /
                               m->images_per_second;
    m->staleness_p50 = staleness_p50(job);
    m->loss_scale = job->reports.loss_scale;
    if (job->mode->fill != NULL)
        job->mode->fill(m, job);
    fill_updates(m, job);
}

void status_average(Sluice__V1__JobStatus *m, const struct job *job)
{
    double seconds = m->elapsed_seconds - m->paused_seconds;

    if (job_ended(job) && seconds > 0 && job->shards.placed)
        m->images_per_second =
            (double)(schedule_samples(&job->shards.schedule, m->steps_counted) -
                     schedule_samples(&job->shards.schedule,
                                      m->resumed_steps)) /
            seconds;
}

// Adds the metrics in the order of the spec.
static bool status_add_metrics(Sluice__V1__Evaluation *e,
                               const Sluice__V1__EvaluateSpec *spec,
                               const struct journal_evaluation *row)
{
    if (spec == NULL || spec->n_metrics == 0 || row->metrics == 0)
        return true;
    e->metrics = sl_calloc(spec->n_metrics, sizeof(*e->metrics));
    if (e->metrics == NULL)
        return false;
    for (size_t i = 0; i < spec->n_metrics; i++) {
        enum spec_metric at = spec_metric_named(spec->metrics[i]);
        Sluice__V1__Metric *m;

        if (at == SPEC_METRIC_COUNT || (row->metrics >> at & 1) == 0)
            continue;
        m = wire_new(&sluice__v1__metric__descriptor);
        if (m == NULL)
            return false;
        e->metrics[e->n_metrics++] = m;
        WIRE_SET_KNOWN(m, value, SLUICE__V1__METRIC__KNOWN_VALUE_VALUE,
                       row->metric[at]);
        m->name = sl_strdup(spec->metrics[i]);
        if (m->name == NULL)
            return false;
    }
    return true;
}

static void fill_evaluation(Sluice__V1__Evaluation *e, const struct job *job,
                            const struct journal_evaluation *row)
{
    bool accuracy = spec_loss_counts(spec_loss(job->spec));

    e->epoch = row->epoch;
    e->cut = row->cut;
    e->samples = row->samples;
    e->steps = row->steps;
    e->train_samples = row->train_samples;
    e->failed = e->samples == 0 && job->spec->data->test != NULL;
    WIRE_SET_KNOWN(e, loss, SLUICE__V1__EVALUATION__KNOWN_LOSS_LOSS, row->loss);
    WIRE_SET_KNOWN(e, train_loss,
                   SLUICE__V1__EVALUATION__KNOWN_TRAIN_LOSS_TRAIN_LOSS,
                   row->train_loss);
    if (!accuracy)
        return;
    WIRE_SET_KNOWN(e, accuracy, SLUICE__V1__EVALUATION__KNOWN_ACCURACY_ACCURACY,
                   row->accuracy);
    WIRE_SET_KNOWN(e, train_accuracy,
                   SLUICE__V1__EVALUATION__KNOWN_TRAIN_ACCURACY_TRAIN_ACCURACY,
                   row->train_accuracy);
}

static bool add_evaluations(Sluice__V1__JobStatus *m, const struct job *job)
{
    m->evaluations = sl_calloc(job->evaluations.count, sizeof(*m->evaluations));
    if (m->evaluations == NULL)
        return false;
    for (size_t i = 0; i < job->evaluations.count; i++) {
        Sluice__V1__Evaluation *e =
            wire_new(&sluice__v1__evaluation__descriptor);

        if (e == NULL)
            return false;
        fill_evaluation(e, job, &job->evaluations.list[i]);
        m->evaluations[i] = e;
        m->n_evaluations = i + 1;
        if (!status_add_metrics(e, job->spec->evaluate,
                                &job->evaluations.list[i]))
            return false;
    }
    return true;
}

// Warns if a fixed partitioner's number of parts differs from the number of
// shards, which follows from sizes and psservers.
static void warn_placement(const struct job *job, char *out, size_t size)
{
    const Sluice__V1__PlacementSpec *p = job->spec->placement;

    out[0] = '\0';
    if (job->shards.placed && !job->mode->on_workers && p != NULL &&
        strcmp(p->partitioner, "fixed") == 0 && p->shards != job->shards.count)
        snprintf(out, size,
                 "placement.shards: %u parts of each variable make %u shard%s "
                 "here, as parts that are small share one",
                 p->shards, job->shards.count,
                 job->shards.count == 1 ? "" : "s");
}

static bool add_warning(Sluice__V1__JobStatus *m, const char *text)
{
    char *copy;

    if (text == NULL || text[0] == '\0')
        return true;
    copy = sl_strdup(text);
    if (copy == NULL)
        return false;
    m->warnings[m->n_warnings++] = copy;
    return true;
}

static bool add_warnings(Sluice__V1__JobStatus *m, const struct job *job)
{
    char placed[160], skipped[160], dropped[256] = "";
    char cut[SL_ERROR_TEXT + 100]; // a service's own words come last
    bool ok;

    m->warnings = sl_calloc(JOB_WARNINGS + 4, sizeof(m->warnings[0]));
    if (m->warnings == NULL)
        return false;
    warn_placement(job, placed, sizeof(placed));
    skipped_warning(job, skipped, sizeof(skipped));
    cuts_trouble(job, cut, sizeof(cut));
    reason_dropped(dropped_work(job), dropped, sizeof(dropped));
    ok = add_warning(m, placed) && add_warning(m, skipped) &&
         add_warning(m, cut) && add_warning(m, dropped);
    for (unsigned i = 0; ok && i < JOB_WARNINGS; i++)
        ok = add_warning(m, job->warnings[i]);
    return ok;
}

static char *weights_text(const struct job *job)
{
    const Sluice__V1__WeightsFile *file = job_weights_file(job);

    return file == NULL ? sl_strdup("") : fs_join(file->folder, file->file);
}

// Returns "TABLE=PATH", to be freed; NULL: no memory.
static char *table_weights_text(const Sluice__V1__TableFile *from)
{
    char *path = fs_join(from->file->folder, from->file->file), *text = NULL;
    struct buf b = BUF_INIT;

    if (path != NULL && buf_appendf(&b, "%s=%s", from->table, path) == SL_OK)
        text = sl_strdup(buf_text(&b));
    buf_release(&b);
    sl_free(path);
    return text;
}

static bool add_table_weights(Sluice__V1__JobStatus *m, const struct job *job)
{
    size_t n = job->weights == NULL ? 0 : job->weights->n_tables;

    if (n == 0)
        return true;
    m->table_weights = sl_calloc(n, sizeof(m->table_weights[0]));
    if (m->table_weights == NULL)
        return false;
    for (; m->n_table_weights < n; m->n_table_weights++) {
        char *text =
            table_weights_text(job->weights->tables[m->n_table_weights]);

        if (text == NULL)
            return false;
        m->table_weights[m->n_table_weights] = text;
    }
    return true;
}

static bool add_texts(const struct coord *c, Sluice__V1__JobStatus *m,
                      const struct job *job)
{
    const struct job_cut *last = job_final_cut(job);
    char reason[512];

    status_reason(c, job, reason, sizeof(reason));
    m->id = sl_strdup(job->id_text);
    m->name = sl_strdup(job->name);
    m->reason = sl_strdup(
        job_ended(job) && job->end.reason != NULL ? job->end.reason : reason);
    m->checkpoint = sl_strdup(last == NULL ? "" : last->path);
    m->resumed_from = sl_strdup(
        job->resume == NULL ? "" : job->resume->cut->checkpoints[0]->manifest);
    m->weights = weights_text(job);
    return add_table_weights(m, job) && m->weights != NULL &&
           m->resumed_from != NULL && m->id != NULL && m->name != NULL &&
           m->reason != NULL && m->checkpoint != NULL;
}

static bool add_callbacks(Sluice__V1__JobStatus *m, const struct job *job)
{
    if (!spec_callbacks_any(&job->monitor.watched))
        return true;
    m->callbacks = monitor_status(job, job->state == JOB_RUNNING &&
                                           evaluations_hold_it(job));
    return m->callbacks != NULL;
}

static bool add_geometry(Sluice__V1__JobStatus *m, const struct job *job)
{
    m->geometry = wire_new(&sluice__v1__geometry__descriptor);
    if (m->geometry == NULL)
        return false;
    *m->geometry = wire_geometry(&job->shards.schedule);
    return true;
}

static void fill_counters(const struct coord *c, Sluice__V1__JobStatus *m,
                          const struct job *job)
{
    const struct job *last;

    m->job = job->id;
    m->state = (Sluice__V1__JobState)job->state;
    m->incarnation = job->incarnation;
    m->epochs = job->spec->train->epochs;
    m->priority = spec_priority(job->spec->train);
    m->parameters = job->shards.parameters;
    m->workers = (uint32_t)job->leases.holders.len;
    m->closures_running = job->leases.held;
    m->closures_retried = job->counters.closures_retried;
    m->workers_lost = job->counters.workers_lost;
    m->psservers_lost = job->counters.psservers_lost;
    m->coordinator_restarts = job->counters.restarts;
    m->cuts = job->cuts.published;
    m->elapsed_seconds = (double)job_elapsed_ms(job, coord_now(c)) / 1000.0;
    m->submitted_unix = (double)job->submitted_us / 1e6;
    m->ended_unix = (double)job->end.us / 1e6;
    m->term = c->term;
    m->map_version = job->map.version;
    m->paused = job->behind.paused;
    m->queued = job->queue.turn != JOURNAL_TURN_NONE;
    m->queued_before = queue_before(c, job, &last);
}

static Sluice__V1__JobStatus *
status_live(const struct coord *c, const struct job *job, bool with_shards)
{
    Sluice__V1__JobStatus *m = wire_new(&sluice__v1__job_status__descriptor);
    bool ok;

    if (m == NULL)
        return NULL;
    fill_counters(c, m, job);
    ok = add_texts(c, m, job) && add_evaluations(m, job) &&
         add_warnings(m, job) && bad_status(job, m) &&
         status_pause(c, job, m) && add_callbacks(m, job);
    if (ok && job->shards.placed) {
        status_progress(c, m, job);
        status_average(m, job);
        ok = add_geometry(m, job) && groups_status(c, job, m) &&
             guard_fill(m, job) &&
             (!with_shards || status_add_shards(c, m, job));
    }
    if (ok)
        return m;
    wire_free(&m->base);
    return NULL;
}

static Sluice__V1__JobStatus *
status_ended(const struct coord *c, const struct job *job, bool with_shards)
{
    const struct job_cut *last = job_final_cut(job);
    ProtobufCMessage *copy = NULL;
    Sluice__V1__JobStatus *m, view = *job->end.status;

    if (!with_shards)
        view.n_shards = 0;
    if (last != NULL) // a cut may have been published just after the end
        view.checkpoint = last->path;
    view.cuts = job->cuts.published;
    view.term = c->term;
    view.spec = NULL;
    if (wire_dup(&copy, &view.base) != SL_OK)
        return NULL;
    m = (Sluice__V1__JobStatus *)copy;
    return m;
}

// Sets the tenant, which an ended job has in its last status; without memory
// there is no text.
static void set_tenant(const struct coord *c, const struct job *job,
                       Sluice__V1__JobStatus *m)
{
    struct sl_error err = SL_ERROR_INIT;
    char tenant[JOURNAL_TENANT];

    if (m->tenant[0] != '\0' ||
        journal_job_tenant(c->journal, job->id, tenant, &err) != SL_OK ||
        tenant[0] == '\0')
        return;
    m->tenant = sl_strdup(tenant);
    if (m->tenant == NULL)
        m->tenant = (char *)protobuf_c_empty_string;
}

Sluice__V1__JobStatus *status_job(const struct coord *c, const struct job *job,
                                  bool with_shards, bool with_spec)
{
    Sluice__V1__JobStatus *m = job->end.status != NULL
                                   ? status_ended(c, job, with_shards)
                                   : status_live(c, job, with_shards);
    ProtobufCMessage *copy = NULL;

    if (m != NULL)
        set_tenant(c, job, m);
    if (m == NULL || !with_spec || job->unreadable)
        return m;
    if (wire_dup(&copy, &job->spec->base) != SL_OK) {
        wire_free(&m->base);
        return NULL;
    }
    m->spec = (Sluice__V1__JobSpec *)copy;
    if (m->spec->data != NULL)
        classes_put(c, job, &m->spec->data->n_classes, &m->spec->data->classes);
    return m;
}
