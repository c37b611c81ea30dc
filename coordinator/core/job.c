// SPDX-License-Identifier: Apache-2.0
// coordinator/core/job.c -- a job and its state machine.
//
//   PLACING ------> RUNNING <------------> FINISHING -----> FINISHED
//      |   all shards  |   a shard is back     |   E1: a published cut
//      |   are served  |   with less (E1)      |   holds it all, and every
//      |               |   / all is counted    |   evaluation is done
//      +---------------+-----------------------+-----> FAILED, STOPPED
//
// job_new begins in PLACING, also for a job that the journal knows as RUNNING:
// its shards' hellos move it on. One that the journal knows as ended is
// restored as what it ended as.
//
// PLACING    waits for the facts of its data, for psservers, or for shards to
//            load.
// RUNNING    closures are issued while every shard is served.
// FINISHING  all evidence is full; it waits for the cut that holds it.
//            Workers stay leasable.
// Ended states are final, and in the journal before any member is notified
// (E2).
#include "coordinator/core/job.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/history.h"
#include "common/base/mem.h"
#include "coordinator/core/mode.h"
#include "coordinator/rules/member.h"
#include "common/base/moves.h"
#include "proto/spec.h"

#define ENDS (MOVES_TO(JOB_FAILED) | MOVES_TO(JOB_STOPPED))

const unsigned job_moves[JOB_STATES] = {
    [JOB_PLACING] = MOVES_TO(JOB_RUNNING) | ENDS,
    [JOB_RUNNING] = MOVES_TO(JOB_FINISHING) | ENDS,
    [JOB_FINISHING] = MOVES_TO(JOB_RUNNING) | MOVES_TO(JOB_FINISHED) | ENDS,
};

void job_enter(struct job *job, enum job_state next)
{
    assert(moves_have(job_moves, job->state, next));
    job->state = next;
    job->changes++;
    JOB_HISTORY(job, "job", " state=%s", job_state_name(next));
}

void job_restore(struct job *job, enum job_state ended)
{
    assert(job->state == JOB_PLACING);
    job->state = ended;
}

bool job_ended(const struct job *job)
{
    return job->state >= JOB_FINISHED;
}

bool job_able(const struct job *job, const struct member *m)
{
    return m->edition >= job->edition &&
           (!job->external || job->mode->able == NULL || job->mode->able(m));
}

uint32_t job_streams(const struct job *job)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;

    return spec_streams(train) ? spec_fragments(train) + 1 : 0;
}

// Returns true if a variable of a layer begins as an older psserver cannot make
// it.
static bool begins_anew(const Sluice__V1__ModelSpec *model)
{
    for (size_t i = 0; i < model->n_layers; i++) {
        const Sluice__V1__LayerSpec *l = model->layers[i];
        const char *words[] = {
            l->kernel_initializer,     l->recurrent_initializer,
            l->depthwise_initializer,  l->pointwise_initializer,
            l->embeddings_initializer, l->alpha_initializer,
            l->gamma_initializer,      l->bias_initializer};

        if (model_recurrent(l->type))
            return true;
        for (size_t k = 0; k < SL_COUNT(words); k++)
            if (words[k] != NULL && strcmp(words[k], "orthogonal") == 0)
                return true;
    }
    return false;
}

// Returns the edition that a psserver must know for what the mode and the model
// of the job ask of its shards.
static unsigned shard_edition(const struct job *job)
{
    return spec_follows(job->spec->placement)       ? MODEL_EDITION_FOLLOWS
           : spec_aged(job->spec->train)            ? MODEL_EDITION_WEIGHTS
           : job->spec->placement->replicas > 0     ? MODEL_EDITION_REPLICAS
           : begins_anew(job->spec->model)          ? MODEL_EDITION_ORTHOGONAL
           : spec_moments(job->spec).vectors > 0    ? MODEL_EDITION_MOMENTS
           : spec_directions(job->spec->train)      ? MODEL_EDITION_AVERAGES
           : spec_sets(job->spec->train)            ? MODEL_EDITION_SETS
           : spec_coded(job->spec)                  ? MODEL_EDITION_CODED
           : spec_open(job->spec->train)            ? MODEL_EDITION_OPEN
           : job->spec->model->n_tables == 0        ? 0
           : spec_ring_rows(job->spec)              ? MODEL_EDITION_BESIDE_RINGS
           : spec_rows_only(job->spec)              ? MODEL_EDITION_BESIDE
           : spec_rows_wire(job->spec) == WIRE_INT8 ? MODEL_EDITION_INT8
           : spec_accumulate(job->spec) > 1         ? MODEL_EDITION_PARTS
           : job->mode->by_round                    ? MODEL_EDITION_ROUNDS
           : job->external                          ? MODEL_EDITION_TABLES
                                                    : MODEL_EDITION_ROWS;
}

unsigned job_shard_edition(const struct job *job)
{
    unsigned rest = shard_edition(job);
    unsigned optim = job->spec->optimizer != NULL
                         ? spec_optim_edition(job->spec->optimizer)
                         : 0;

    return optim > rest ? optim : rest;
}

bool job_shard_able(const struct job *job, const struct member *m)
{
    return m->edition >= job_shard_edition(job);
}

bool job_suits(const struct job *job, const struct member *m)
{
    return m->external == job->external && job_able(job, m) &&
           (m->only_job == 0 || m->only_job == job->id);
}

bool job_rests(const struct job *job)
{
    return job->behind.paused || job->pause.row.state == JOURNAL_PAUSE_HOLDS;
}

const char *job_word(const struct job *job)
{
    return job_rests(job) && !job_ended(job) ? "paused"
                                             : job_state_name(job->state);
}

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATES] = {
        "unknown",  "placing", "running", "finishing",
        "finished", "failed",  "stopped"};

    return (unsigned)state < JOB_STATES ? names[state] : names[0];
}

struct job *job_new(uint64_t id, uint64_t uid, uint64_t incarnation,
                    const char *name, const char *request_id,
                    Sluice__V1__JobSpec *spec, const struct mode *mode)
{
    struct job *job = sl_calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->id = id;
    job->uid = uid;
    job->incarnation = incarnation;
    snprintf(job->id_text, sizeof(job->id_text), "j-%llu", (ull)id);
    job->name = sl_strdup(name);
    job->request_id = sl_strdup(request_id == NULL ? "" : request_id);
    if (job->name == NULL || job->request_id == NULL) {
        job_free(job);
        return NULL;
    }
    job->state = JOB_PLACING;
    job->spec = spec;
    job->external = spec_external(spec);
    job->edition = spec->model != NULL ? spec->model->edition : 0;
    job->mode = mode;
    job->monitor.watched = spec_callbacks(spec);
    callbacks_begin(&job->monitor.callbacks,
                    spec->optimizer != NULL ? spec->optimizer->learning_rate
                                            : 0);
    closure_init(&job->leases.probe.closure, 0, spec->train->max_attempts);
    job->leases.probe.kind = WORK_PROBE;
    job->leases.probe.job = job;
    map_init(&job->leases.active);
    map_init(&job->leases.holders);
    meter_init(&job->reports.meter);
    if (mode->made != NULL)
        mode->made(job);
    return job;
}

static void release_shards(struct job *job)
{
    for (uint32_t i = 0; job->shards.list != NULL && i < job->shards.count;
         i++) {
        struct job_shard *s = &job->shards.list[i];

        sl_free(s->psserver);
        sl_free(s->replica.psserver);
        sl_free(s->replica.missed);
        sl_free(s->failure);
        shard_rows_release(&s->rows);
        wire_free((ProtobufCMessage *)s->waiting);
    }
    sl_free(job->shards.list);
    job->shards.list = NULL;
}

void job_release_work(struct job *job)
{
    size_t at = 0;
    void *value;

    assert(job->leases.held == 0);
    while (map_next(&job->leases.active, &at, NULL, &value)) {
        struct work *w = value;

        sl_free(w->copy);
        buf_release(&w->story);
        sl_free(w);
    }
    map_release(&job->leases.active);
    map_release(&job->leases.holders);
    evaluation_free(job->evaluations.running);
    job->evaluations.running = NULL;
    evidence_release(&job->shards.evidence);
    ring_release(&job->ring);
    groups_release(&job->groups);
    votes_release(&job->audit.votes);
    differences_release(&job->audit.differences);
    ring_results_forget(&job->results);
    map_release_owned(&job->audit.contributed);
    buf_release(&job->leases.probe.story);
}

void job_cut_release(struct job_cut *cut)
{
    sl_free(cut->path);
    wire_free((ProtobufCMessage *)cut->checkpoint);
    wire_free((ProtobufCMessage *)cut->counts);
    memset(cut, 0, sizeof(*cut));
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    job_release_work(job);
    release_shards(job);
    cut_free(job->cuts.now);
    for (unsigned i = 0; i < JOB_WARNINGS; i++)
        sl_free(job->warnings[i]);
    sl_free(job->tables.done);
    map_release_owned(&job->bad.by_key);
    sl_free(job->guard);
    sl_free(job->cuts.why);
    for (size_t i = 0; i < job->cuts.count; i++)
        job_cut_release(&job->cuts.list[i]);
    sl_free(job->cuts.list);
    sl_free(job->evaluations.list);
    wire_free((ProtobufCMessage *)job->shards.layout);
    wire_free((ProtobufCMessage *)job->spec);
    wire_free((ProtobufCMessage *)job->resume);
    wire_free((ProtobufCMessage *)job->weights);
    wire_free((ProtobufCMessage *)job->end.status);
    sl_free(job->name);
    sl_free(job->request_id);
    sl_free(job->end.reason);
    sl_free(job->behind.why);
    sl_free(job);
}

void job_start_from(struct job *job, Sluice__V1__ResumeSource *source)
{
    if (source != NULL && source->cut == NULL)
        job->weights = source;
    else
        job->resume = source;
}

uint64_t job_samples(const struct job *job)
{
    const Sluice__V1__DataSpec *data = job->spec->data;

    if (job->reports.has_facts)
        return job->reports.facts.train_samples;
    if (job->external && data != NULL && data->train != NULL)
        return data->train->samples;
    return 0;
}

static enum sl_err make_shards(struct job *job, const char *const *names,
                               uint32_t shards)
{
    job->shards.list = sl_calloc(shards, sizeof(*job->shards.list));
    if (job->shards.list == NULL)
        return SL_ENOMEM;
    job->shards.count = shards;
    for (uint32_t i = 0; i < shards; i++) {
        job->shards.list[i].psserver = sl_strdup(names[i]);
        if (job->shards.list[i].psserver == NULL)
            return SL_ENOMEM;
    }
    return SL_OK;
}

enum sl_err job_place(struct job *job, Sluice__V1__CheckpointsReply *layout,
                      const char *const *names, uint32_t shards,
                      struct sl_error *err)
{
    const Sluice__V1__TrainSpec *train = job->spec->train;
    enum sl_err rc;

    job->shards.schedule = (struct schedule){
        .samples = job_samples(job),
        .batch = spec_step_samples(job->spec),
        .epochs = train->epochs,
        .steps_per_closure = train->steps_per_closure,
    };
    rc = evidence_init(&job->shards.evidence, &job->shards.schedule, shards,
                       err);
    if (rc == SL_OK) {
        rc = make_shards(job, names, shards);
        if (rc != SL_OK)
            rc = sl_fail(err, rc, "%u shards of job %s", shards, job->id_text);
    }
    if (rc != SL_OK) {
        evidence_release(&job->shards.evidence);
        release_shards(job);
        job->shards.count = 0;
        return rc;
    }
    job->shards.parameters = 0;
    for (size_t i = 0; i < layout->n_pieces; i++) {
        job->shards.list[layout->pieces[i]->shard].elements +=
            layout->pieces[i]->elements;
        job->shards.parameters += layout->pieces[i]->elements;
    }
    job->shards.parts =
        job->mode->on_workers ? shards - layout->rows_shards : 0;
    if (job->mode->placed != NULL)
        job->mode->placed(job);
    job->shards.layout = layout;
    job->shards.placed = true;
    job->changes++;
    return SL_OK;
}

bool job_on_workers(const struct job *job, uint32_t shard)
{
    return shard < job->shards.parts;
}

uint32_t job_psserver_shards(const struct job *job)
{
    return job->shards.count - job->shards.parts;
}

uint32_t job_lies_on(const struct job *job, const struct member *m)
{
    uint32_t shards = 0;

    for (uint32_t i = 0; m->role == MEMBER_PSSERVER && i < job->shards.count;
         i++)
        shards += strcmp(job->shards.list[i].psserver, m->name) == 0;
    return shards;
}

struct journal_facts job_facts_of(const Sluice__V1__DataFacts *facts)
{
    return (struct journal_facts){facts->train_samples, facts->test_samples,
                                  facts->train_hash, facts->test_hash};
}

bool job_has_replicas(const struct job *job)
{
    return job->spec->placement->replicas > 0;
}

static bool job_replica_owns(const struct job_shard *s)
{
    return s->replica.psserver != NULL &&
           strcmp(s->replica.psserver, s->psserver) == 0;
}

const char *job_replica(const struct job_shard *s)
{
    return job_replica_owns(s) ? NULL : s->replica.psserver;
}

bool job_has_replica_on(const struct job *job, const struct member *m)
{
    if (m->role != MEMBER_PSSERVER)
        return false;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        const char *name = job_replica(&job->shards.list[i]);

        if (name != NULL && strcmp(name, m->name) == 0)
            return true;
    }
    return false;
}

uint64_t job_replica_memory(const struct job_shard *s)
{
    return job_replica_owns(s) ? s->replica.feed : 0;
}

bool job_served(const struct job *job)
{
    if (job->mode->runs != NULL && !job->mode->runs(job))
        return false;
    for (uint32_t i = 0; i < job->shards.count; i++) {
        if (job->shards.list[i].server == 0)
            return false;
    }
    return job->shards.count > 0;
}

bool job_is_moving(const struct job *job, uint64_t now)
{
    bool moves = false;

    for (uint32_t i = 0; i < job->shards.count && !moves; i++) {
        const struct job_shard *s = &job->shards.list[i];

        moves =
            s->moving && s->server == 0 && now - s->since_ms < JOB_MOVING_MS;
    }
    return moves;
}

// ---- counts

void job_counts_reset(struct job *job, uint32_t shard)
{
    memset(&job->shards.list[shard].counts, 0,
           sizeof(job->shards.list[shard].counts));
    shard_rows_release(&job->shards.list[shard].rows);
}

void job_counts_take(struct job *job, uint32_t shard,
                     const Sluice__V1__ShardCounts *counts)
{
    struct job_counts *to = &job->shards.list[shard].counts;

    // A count above the steps of the job is impossible; and counts that are
    // kept only rise, so a wrong one would stay.
    if (counts->counted > schedule_steps(&job->shards.schedule) ||
        counts->applied > counts->counted ||
        counts->skipped > counts->counted - counts->applied ||
        counts->low > job->shards.evidence.closures ||
        counts->version > counts->counted || counts->counted < to->counted ||
        counts->version < to->version ||
        counts->duplicates + counts->refused < to->duplicates + to->refused)
        return;
    to->version = counts->version;
    to->applied = counts->applied;
    to->skipped = counts->skipped;
    to->counted = counts->counted;
    to->duplicates = counts->duplicates;
    to->stale = counts->stale;
    to->late = counts->late;
    to->refused = counts->refused;
    to->low = counts->low;
    memset(to->staleness, 0, sizeof(to->staleness));
    for (size_t i = 0; i < counts->n_staleness && i < WIRE_STALENESS_BUCKETS;
         i++)
        to->staleness[i] = counts->staleness[i];
    job->changes++;
}

uint64_t job_steps(const struct job *job)
{
    uint64_t steps = UINT64_MAX;

    for (uint32_t i = 0; i < job->shards.count; i++) {
        uint64_t reported = job->shards.list[i].counts.counted;
        uint64_t known =
            counted_steps(evidence_counted(&job->shards.evidence, i));
        uint64_t of_shard = reported > known ? reported : known;

        if (of_shard < steps)
            steps = of_shard;
    }
    return job->shards.count == 0 ? 0 : steps;
}

uint64_t job_resumed_steps(const struct job *job)
{
    return job->resume == NULL ? 0 : job->resume->cut->checkpoints[0]->steps;
}

// ---- cuts and evaluations

const struct job_cut *job_final_cut(const struct job *job)
{
    uint64_t best =
        callbacks_restores(&job->monitor.callbacks, &job->monitor.watched);
    const struct job_cut *cut = job->state == JOB_FINISHED && best != 0
                                    ? job_find_cut(job, best)
                                    : NULL;

    return cut != NULL ? cut : job_last_cut(job);
}

const struct job_cut *job_last_cut(const struct job *job)
{
    return job->cuts.count == 0 ? NULL : &job->cuts.list[job->cuts.count - 1];
}

const Sluice__V1__WeightsFile *job_weights_file(const struct job *job)
{
    return job->weights == NULL ? NULL : job->weights->weights;
}

const struct job_cut *job_granted(const struct job *job,
                                  const struct cut_wish *wish)
{
    for (size_t i = job->cuts.count; i-- > 0;) {
        const struct job_cut *cut = &job->cuts.list[i];

        if (cut_grants(wish, cut->n, cut->checkpoint->steps,
                       cut->checkpoint->complete))
            return cut;
    }
    return NULL;
}

bool job_cut_complete(const struct job *job)
{
    const struct job_cut *last = job_last_cut(job);

    return last != NULL && last->checkpoint->complete;
}

const struct job_cut *job_find_cut(const struct job *job, uint64_t n)
{
    for (size_t i = 0; i < job->cuts.count; i++) {
        if (job->cuts.list[i].n == n)
            return &job->cuts.list[i];
    }
    return NULL;
}

enum sl_err job_add_cut(struct job *job, const struct job_cut *cut)
{
    struct job_cut *more = sl_realloc_array(job->cuts.list, job->cuts.count + 1,
                                            sizeof(*job->cuts.list));

    if (more == NULL)
        return SL_ENOMEM;
    job->cuts.list = more;
    job->cuts.list[job->cuts.count++] = *cut;
    job->changes++;
    return SL_OK;
}

void job_remove_cut(struct job *job, size_t index)
{
    job_cut_release(&job->cuts.list[index]);
    job->cuts.count--;
    memmove(&job->cuts.list[index], &job->cuts.list[index + 1],
            (job->cuts.count - index) * sizeof(*job->cuts.list));
}

enum sl_err job_reserve_evaluations(struct job *job, size_t more)
{
    struct journal_evaluation *list =
        sl_realloc_array(job->evaluations.list, job->evaluations.count + more,
                         sizeof(*job->evaluations.list));

    if (list == NULL)
        return SL_ENOMEM;
    job->evaluations.list = list;
    return SL_OK;
}

void job_add_evaluation(struct job *job, const struct journal_evaluation *row)
{
    job->evaluations.list[job->evaluations.count++] = *row;
    job->changes++;
}

// ---- time

uint64_t job_elapsed_ms(const struct job *job, uint64_t now_ms)
{
    uint64_t run =
        job->running_since_ms == 0 ? 0 : now_ms - job->running_since_ms;

    return job->counters.elapsed_ms + run;
}

uint64_t job_paused_ms(const struct job *job, uint64_t now_ms)
{
    uint64_t now = job->pause.from_ms == 0 ? 0 : now_ms - job->pause.from_ms;

    return job->pause.row.total_ms + now;
}
