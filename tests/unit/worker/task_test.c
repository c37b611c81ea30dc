// SPDX-License-Identifier: Apache-2.0
// Leases from end to end: the compute thread against a psserver in the same
// process, over real RPC, with calls that fail, answers that get lost, shards
// that are replaced by older ones, and newer attempts.
#include "tests/harness/roots.h"
#include "tests/harness/t.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/run/spans.h"
#include "tests/unit/trainer/fake_ps.h"
#include "nets.h"
#include "proto/layout.h"
#include "proto/spec.h"
#include "worker/lease/reading.h"
#include "worker/lease/compute.h"
#include "worker/lease/contribution.h"
#include "worker/lease/task.h"

#define JOB 7
#define SHARDS 3

struct world {
    struct loop *loop;
    struct rpc_io *io;
    struct fake_ps *ps;
    struct peers *peers;
    struct local *local; // shared memory; NULL: none
    struct compute *compute;
    struct record *record;
    Sluice__V1__JobOpen *open; // owned by the record's maker: freed at the end
    Sluice__V1__JobSpec *spec;
    struct schedule schedule;
    char address[600];
    uint64_t incarnation[SHARDS], map_version;
    struct lease *done[16];
    unsigned done_count, waiting;
    unsigned maps_wanted, found;
    uint64_t attempt;
};

static Sluice__V1__JobSpec *read_spec(const char *extra)
{
    static const char base[] =
        "{'api_version': 'sluice/v1', 'kind': 'Job', 'name': 't',"
        "'model': {'input_shape': [6], 'layers': ["
        "{'type': 'dense', 'units': 8, 'activation': 'relu'},"
        "{'type': 'batch_normalization'},"
        "{'type': 'dense', 'units': 3}]},"
        "'loss': 'sparse_categorical_crossentropy',"
        "'optimizer': {'type': 'sgd', 'learning_rate': 0.1%s},"
        "'data': {'train': {'format': 'synthetic', 'generator': 'classes',"
        " 'classes': 3, 'samples': 100, 'seed': 4},"
        " 'test': {'format': 'synthetic', 'generator': 'classes',"
        " 'classes': 3, 'samples': 50, 'seed': 4}},"
        "'train': {'batch': 7, 'epochs': 2, 'steps_per_closure': 4%s},"
        "'evaluate': {'every_epochs': 1, 'batch': 20}}";
    const char *optimizer = "", *train = "";
    ProtobufCMessage *msg = NULL;
    char text[4096];
    json_t *value;

    if (strncmp(extra, "o:", 2) == 0)
        optimizer = extra + 2;
    else
        train = extra;
    snprintf(text, sizeof(text), base, optimizer, train);
    for (char *p = text; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    value = json_loads(text, 0, NULL);
    T_TRUE(value != NULL);
    T_OK(pbjson_read(&msg, &sluice__v1__job_spec__descriptor, value, "spec",
                     t_err()));
    json_decref(value);
    T_OK(spec_check((Sluice__V1__JobSpec *)msg, t_err()));
    return (Sluice__V1__JobSpec *)msg;
}

// Features so large that the loss is not finite.
static void blow_up(Sluice__V1__JobSpec *spec)
{
    spec->data->train->has_scale = 1;
    spec->data->train->scale = 3e38;
}

static void tell_map(struct world *w, struct record *r)
{
    Sluice__V1__JobMap map = SLUICE__V1__JOB_MAP__INIT;
    Sluice__V1__MapEntry entries[SHARDS], *list[SHARDS];

    for (uint32_t i = 0; i < SHARDS; i++) {
        sluice__v1__map_entry__init(&entries[i]);
        entries[i].shard = i;
        entries[i].address = w->address;
        entries[i].incarnation = w->incarnation[i];
        list[i] = &entries[i];
    }
    map.job = JOB;
    map.version = ++w->map_version;
    map.n_shards = SHARDS;
    map.shards = list;
    T_TRUE(record_map(r, &map));
}

// What JobOpen says that others' loss scale is.
static double heard;

// What JobOpen says that the first worker found; NULL: nothing.
static Sluice__V1__DataFacts *seen_first;

// What a shard has at most, but for the last.
#define SHARD_BYTES 64
static size_t most_bytes = SHARD_BYTES;

// A record as JobOpen would make it: the model cut into SHARDS.
static struct record *make_record(struct world *w, size_t counts[SHARDS])
{
    Sluice__V1__JobOpen open = SLUICE__V1__JOB_OPEN__INIT;
    Sluice__V1__Geometry geometry = wire_geometry(&w->schedule);
    struct part_rule rule = {.kind = PART_AUTO};
    struct part_plan plan;
    struct part_var *vars = NULL;
    struct model *m = NULL;
    struct record *r = NULL;

    T_OK(model_make(&m, w->spec->model, t_err()));
    T_OK(layout_part_vars(&vars, m));
    T_OK(part_plan_make(&plan, vars, m->variables_count, &rule, most_bytes,
                        SHARDS, t_err()));
    // Only so many shards: the rest joins the last.
    for (uint32_t i = 0; i < plan.piece_count; i++) {
        if (plan.pieces[i].shard >= SHARDS)
            plan.pieces[i].shard = SHARDS - 1;
    }
    T_OK(layout_variables(&open.variables, m));
    open.n_variables = m->variables_count;
    memset(counts, 0, SHARDS * sizeof(*counts));
    for (uint32_t i = 0; i < plan.piece_count; i++)
        counts[plan.pieces[i].shard] += plan.pieces[i].elements;
    T_OK(layout_pieces(&open.pieces, &plan));
    open.n_pieces = plan.piece_count;
    open.job = JOB;
    open.job_incarnation = 1;
    open.spec = w->spec;
    open.geometry = &geometry;
    open.loss_scale = heard;
    open.facts = seen_first;
    T_OK(record_new(&r, &open, t_err()));
    layout_variables_free(open.variables, open.n_variables);
    layout_pieces_free(open.pieces, open.n_pieces);
    part_plan_release(&plan);
    sl_free(vars);
    model_free(m);
    tell_map(w, r);
    return r;
}

static void on_done(void *arg, struct lease *l)
{
    struct world *w = arg;

    T_ASSERT(w->done_count < SL_COUNT(w->done));
    w->done[w->done_count++] = l;
    if (w->done_count >= w->waiting)
        loop_stop(w->loop);
}

static void on_want_map(void *arg, uint64_t job, uint64_t have)
{
    struct world *w = arg;

    T_ASSERT(job == JOB);
    w->maps_wanted++;
    tell_map(w, w->record);
}

static void on_found(void *arg)
{
    ((struct world *)arg)->found++;
}

// Whether worlds share memory, whatever the size of a payload.
static bool sharing;

static void local_open(struct world *w, const char *path)
{
    T_OK(local_new(&w->local, w->loop, path, "ps-0", t_err()));
}

// The devices that compute. ctest runs these tests with several of them too,
// and tests/emul with emulated ones.
static const char *task_device(void)
{
    const char *device = getenv("TASK_DEVICE");

    return device != NULL ? device : "ref";
}

static void world_open_with(struct world *w, const char *extra,
                            void (*change)(Sluice__V1__JobSpec *spec))
{
    struct rpc_io_options io = {.threads = 2};
    struct compute_setup setup = {.clock = sl_clock_real(),
                                  .device = task_device(),
                                  .done = on_done,
                                  .want_map = on_want_map,
                                  .found = on_found,
                                  .roots = t_roots(),
                                  .arg = w};
    struct fake_ps_options ps = {
        .shards = SHARDS, .job = JOB, .job_incarnation = 1, .rate = 0.3f};
    size_t counts[SHARDS];
    char local[600]; // the same for each world of a test: there may be many

    memset(w, 0, sizeof(*w));
    snprintf(local, sizeof(local), "%s/l", t_tmpdir());
    w->spec = read_spec(extra);
    if (change != NULL)
        change(w->spec);
    w->schedule = (struct schedule){.samples = 100,
                                    .batch = spec_step_samples(w->spec),
                                    .epochs = 2,
                                    .steps_per_closure =
                                        w->spec->train->steps_per_closure};
    for (uint32_t i = 0; i < SHARDS; i++)
        w->incarnation[i] = 1;
    snprintf(w->address, sizeof(w->address), "unix:%s/ps", t_tmpdir());
    w->record = make_record(w, counts);
    T_OK(loop_new(&w->loop, t_err()));
    T_OK(rpc_io_new(&w->io, &io, t_err()));
    ps.address = w->address;
    ps.counts = counts;
    if (sharing)
        local_open(w, local);
    ps.local = w->local;
    w->ps = fake_ps_new(w->io, &ps);
    T_OK(peers_new(&w->peers, w->io, NULL, t_err()));
    if (sharing)
        peers_share(w->peers, w->loop, sl_clock_real(), sizeof(float));
    setup.loop = w->loop;
    setup.peers = w->peers;
    T_OK(compute_new(&w->compute, &setup, t_err()));
}

static void world_open(struct world *w, const char *extra)
{
    world_open_with(w, extra, NULL);
}

static void clear(struct world *w)
{
    for (unsigned i = 0; i < w->done_count; i++)
        lease_free(w->done[i]);
    w->done_count = 0;
}

static void world_close(struct world *w)
{
    compute_free(w->compute);
    clear(w);
    fake_ps_free(w->ps);
    local_free(w->local);
    peers_free(w->peers);
    rpc_io_free(w->io);
    record_unref(w->record);
    wire_free(&w->spec->base);
    loop_free(w->loop);
}

static struct lease *train_lease(struct world *w, uint64_t closure)
{
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    struct lease *l = NULL;

    attempt.term = 1;
    attempt.n = ++w->attempt;
    m.job = JOB;
    m.job_incarnation = 1;
    m.closure = closure;
    m.attempt = &attempt;
    m.kind = SLUICE__V1__LEASE_KIND__LEASE_TRAIN;
    m.epoch = (uint32_t)schedule_epoch(&w->schedule, closure);
    schedule_closure_range(&w->schedule, closure, &m.first, &m.count);
    m.steps = schedule_closure_steps(&w->schedule, closure);
    T_OK(lease_new(&l, &m, w->record, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    return l;
}

// Runs until `count` outcomes are there.
static void run(struct world *w, unsigned count)
{
    w->waiting = count;
    if (w->done_count < count)
        loop_run(w->loop);
    T_EQ(w->done_count, count);
}

static struct lease *train(struct world *w, uint64_t closure)
{
    struct lease *l = train_lease(w, closure);

    clear(w);
    compute_submit(w->compute, l);
    run(w, 1);
    T_PTR(w->done[0], l);
    return l;
}

// Every step of the job is counted on every shard, with the right samples.
static void check_all_counted(struct world *w)
{
    struct fake_shard *shards = fake_ps_lock(w->ps);

    for (uint32_t i = 0; i < SHARDS; i++) {
        uint64_t digest[2] = {0, 0};

        for (uint64_t c = 0; c < schedule_closures(&w->schedule); c++) {
            for (uint32_t k = 0; k < schedule_closure_steps(&w->schedule, c);
                 k++) {
                T_ASSERT(shards[i].counted[c][k]);
                digest[schedule_epoch(&w->schedule, c)] +=
                    shards[i].digest[c][k];
            }
        }
        T_ASSERT(digest[0] == schedule_epoch_digest(&w->schedule, 0));
        T_ASSERT(digest[1] == schedule_epoch_digest(&w->schedule, 1));
    }
    fake_ps_unlock(w->ps);
}

static void check_evidence(struct world *w, const struct lease *l)
{
    T_EQ(l->outcome.kind, OUTCOME_COMPLETE);
    T_EQ(l->outcome.incarnations_count, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_EQ(l->outcome.incarnations[i], w->incarnation[i]);
}

// The losses that leases have told of each epoch. A closure's alone, of some 20
// samples, says too little of whether a job learns.
struct epochs {
    double loss[2], samples[2];
};

static void epochs_add(struct epochs *e, const struct world *w,
                       uint64_t closure, struct lease_metrics m)
{
    uint64_t epoch = schedule_epoch(&w->schedule, closure);

    e->loss[epoch] += m.loss_sum;
    e->samples[epoch] += (double)m.samples;
}

static void check_learned(const struct epochs *e)
{
    T_GT(e->samples[0], 0);
    T_GT(e->samples[1], 0);
    T_TRUE(e->loss[1] / e->samples[1] < e->loss[0] / e->samples[0]);
}

TEST(task, a_whole_job_counts_every_step_once)
{
    struct epochs learned = {{0}, {0}};
    struct world w;
    struct fake_shard *shards;
    uint64_t closures, steps;

    world_open(&w, "");
    closures = schedule_closures(&w.schedule);
    steps = schedule_steps(&w.schedule);
    for (uint64_t c = 0; c < closures; c++) {
        struct lease *l = train(&w, c);
        struct lease_metrics m = lease_progress(l);

        check_evidence(&w, l);
        T_EQ(m.steps, l->steps);
        T_EQ(m.samples, l->count);
        epochs_add(&learned, &w, c, m);
    }
    check_all_counted(&w);
    check_learned(&learned);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, steps);
        T_EQ(shards[i].pushes, steps); // none was sent twice
    }
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// ---- samples that cannot be read

static bool broken; // rows are; else the row that stands in for each is there

// 100 rows of which three are none; and each has the next row's numbers.
static void rows(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__SourceSpec *s = spec->data->train;
    FILE *f = fopen(t_path("rows.csv"), "w");

    for (unsigned i = 0; i < 100; i++) {
        bool bad = i == 10 || i == 11 || i == 99;
        unsigned of = !bad ? i : i == 99 ? 0 : 12;

        if (bad && broken)
            fprintf(f, "1,2,none,4,5,6,0\n");
        else
            fprintf(f, "%u,%u,%u,1,%u,2,%u\n", of % 5, of % 3, of % 7, of % 4,
                    of % 3);
    }
    T_EQ(fclose(f), 0);
    strcpy(s->format, "csv"); // a shorter word
    s->x = strdup(t_path("rows.csv"));
    s->label_column = strdup("6");
    s->delimiter = strdup(",");
    spec->data->skip_bad = broken ? 3 : 0;
    spec->data->has_skip_bad = true;
}

// All parameters, after two epochs.
static float *trained(struct world *w, size_t *count)
{
    struct fake_shard *shards;
    float *values = NULL;

    *count = 0;
    world_open_with(w, "", rows);
    for (uint64_t c = 0; c < schedule_closures(&w->schedule); c++) {
        struct lease *l = train(w, c);

        check_evidence(w, l);
        T_EQ(lease_progress(l).samples, l->count);
    }
    check_all_counted(w);
    shards = fake_ps_lock(w->ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        *count += shards[i].count;
    values = malloc(*count * sizeof(*values));
    for (uint32_t i = 0, at = 0; i < SHARDS; i++) {
        memcpy(values + at, shards[i].values,
               shards[i].count * sizeof(*values));
        at += (uint32_t)shards[i].count;
    }
    fake_ps_unlock(w->ps);
    return values;
}

// The digest is that of all samples, and the parameters are, to the bit, those
// of a file whose rows are what stands in for them.
TEST(task, the_next_sample_stands_in_for_one_that_cannot_be_read)
{
    struct bad_sample told[4];
    size_t n, m;
    float *with, *without;
    struct world w;

    broken = true;
    with = trained(&w, &n);
    T_GT(w.found, 0);
    T_EQ(bad_tell(w.record->bad, told, 4), 3);
    for (unsigned i = 0; i < 3; i++) {
        T_TRUE(told[i].number == 10 || told[i].number == 11 ||
               told[i].number == 99);
        T_HAS(told[i].what, "rows.csv: line ");
    }
    world_close(&w);
    broken = false;
    without = trained(&w, &m);
    T_EQ(n, m);
    T_MEM(with, without, n * sizeof(*with));
    T_TRUE(w.record->bad == NULL);
    T_EQ(w.found, 0);
    world_close(&w);
    free(with);
    free(without);
}

TEST(task, one_sample_too_many_fails_the_lease_and_names_all)
{
    struct lease *l = NULL;
    struct world w;

    broken = true;
    world_open_with(&w, "", rows);
    bad_unref(w.record->bad);
    w.record->bad = bad_new(2);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
        l = train(&w, c);
        if (l->outcome.kind != OUTCOME_COMPLETE)
            break;
    }
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_TRUE(l->outcome.job_error);
    T_EQ(l->outcome.err.code, SL_ERANGE);
    T_HAS(l->outcome.err.text, "3 samples cannot be read");
    T_HAS(l->outcome.err.text, "line 11,");
    T_HAS(l->outcome.err.text, "line 12,");
    T_HAS(l->outcome.err.text, "line 100,");
    world_close(&w);
}

// As rows(), with a column more: of ids, the last one of which is too large.
static void rows_with_ids(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__SourceSpec *s = spec->data->train;
    Sluice__V1__IdColumnSpec *c =
        wire_new(&sluice__v1__id_column_spec__descriptor);
    FILE *f;

    rows(spec);
    f = fopen(t_path("rows.csv"), "w");
    for (unsigned i = 0; i < 100; i++)
        fprintf(f, "%u,%u,%u,1,2,3,%u,1%s\n", i % 5, i % 3, i % 7, i % 3,
                i < 99 ? "|2" : "8446744073709551616");
    T_EQ(fclose(f), 0);
    c->name = strdup("7");
    s->ids = malloc(sizeof(*s->ids));
    s->ids[0] = c;
    s->n_ids = 1;
}

TEST(task, ids_of_the_spec_are_read_with_the_samples)
{
    struct lease *l = NULL;
    struct world w;

    broken = false;
    world_open_with(&w, "", rows_with_ids);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
        l = train(&w, c);
        if (l->outcome.kind != OUTCOME_COMPLETE)
            break;
    }
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_TRUE(l->outcome.job_error);
    T_HAS(l->outcome.err.text, "line 100, column 7 (7): element 0 of the bag");
    world_close(&w);
}

// JobOpen comes again, from a coordinator that has restarted: it is told all.
TEST(task, what_was_found_of_a_job_outlives_its_record)
{
    struct bad_sample s = {.number = 4}, told[2];
    struct record *next;
    struct world w;
    size_t counts[SHARDS];

    broken = true;
    world_open_with(&w, "", rows);
    T_OK(bad_note(w.record->bad, &s, t_err()));
    T_EQ(bad_tell(w.record->bad, told, 2), 1);
    next = make_record(&w, counts);
    record_follow(next, w.record);
    record_unref(w.record);
    w.record = next;
    T_TRUE(bad_has(next->bad, false, 4));
    T_EQ(bad_tell(next->bad, told, 2), 1);
    world_close(&w);
}

// A map that has what changed since the one that the record has.
static bool tell_change(struct record *r, uint64_t since, uint64_t version,
                        uint32_t shard, uint64_t incarnation)
{
    Sluice__V1__JobMap map = SLUICE__V1__JOB_MAP__INIT;
    Sluice__V1__MapEntry entry = SLUICE__V1__MAP_ENTRY__INIT,
                         *list[] = {&entry};

    entry.shard = shard;
    entry.address = "unix:/elsewhere";
    entry.incarnation = incarnation;
    map.job = JOB;
    map.since = since;
    map.version = version;
    map.n_shards = 1;
    map.shards = list;
    return record_map(r, &map);
}

TEST(task, a_map_of_changes_is_taken_where_it_fits)
{
    const Sluice__V1__JobMap *has;
    struct world w;

    world_open(&w, "");
    T_EQ(w.map_version, 1);
    T_TRUE(tell_change(w.record, 1, 5, 1, 9));
    has = w.record->shared.map;
    T_EQ(has->version, 5);
    T_EQ(has->n_shards, SHARDS);
    T_EQ(has->shards[0]->incarnation, 1);
    T_EQ(has->shards[1]->incarnation, 9);
    T_STR(has->shards[1]->address, "unix:/elsewhere");
    T_STR(has->shards[2]->address, w.address);
    T_FALSE(tell_change(w.record, 4, 7, 2, 9));      // since another version
    T_FALSE(tell_change(w.record, 5, 7, SHARDS, 9)); // a shard that is not
    T_EQ(w.record->shared.map->version, 5);
    T_TRUE(tell_change(w.record, 1, 3, 2, 9)); // an older one: ignored
    T_EQ(w.record->shared.map->version, 5);
    world_close(&w);
}

TEST(task, lost_calls_and_answers_change_no_count)
{
    struct world w;
    struct fake_shard *shards;
    uint64_t steps, duplicates = 0;

    world_open(&w, "");
    steps = schedule_steps(&w.schedule);
    fake_ps_luck(w.ps, 100, 150);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++)
        check_evidence(&w, train(&w, c));
    check_all_counted(&w);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, steps);
        duplicates += shards[i].duplicates;
    }
    T_GT(duplicates, 0); // of one shard all answers may have come
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// ---- several micro-batches

// Without batch norm, which sees micro-batches.
static void plain(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__ModelSpec *m = spec->model;

    wire_free(&m->layers[1]->base);
    m->layers[1] = m->layers[2];
    m->n_layers = 2;
}

// A whole job; the parameters that are left, of all shards.
static size_t train_job(const char *extra,
                        void (*change)(Sluice__V1__JobSpec *), float *values,
                        double *loss)
{
    struct lease_metrics m;
    struct fake_shard *shards;
    struct world w;
    size_t n = 0;

    world_open_with(&w, extra, change);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
        struct lease *l = train(&w, c);

        check_evidence(&w, l);
        m = lease_progress(l);
        T_EQ(m.steps, l->steps);
        T_EQ(m.samples, l->count);
        *loss = m.loss_sum / (double)m.samples;
    }
    check_all_counted(&w);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].pushes, schedule_steps(&w.schedule));
        memcpy(values + n, shards[i].values, shards[i].count * sizeof(float));
        n += shards[i].count;
    }
    fake_ps_unlock(w.ps);
    world_close(&w);
    return n;
}

static void dropout_before_the_end(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__LayerSpec *l = spec->model->layers[1];

    strcpy(l->type, "dropout"); // a shorter word
    l->has_rate = 1;
    l->rate = 0.5;
}

// Each micro-batch of a closure has a number of its own, for its dropout; the
// loss is that of all samples of its step; the last one's gradient comes out.
TEST(task, micro_batches_are_numbered_through_the_job)
{
    struct job_env env = {.clock = sl_clock_real()};
    struct step device = {.device = NULL};
    struct contribution c = {.device = &device};
    struct input *input = NULL;
    struct kern_dev *dev = NULL;
    struct worker_job *job = NULL;
    uint64_t digest = 0;
    int64_t next = 5 * 3; // of the second epoch
    struct lease *l;
    struct world w;

    world_open_with(&w, ", 'accumulate': 3", dropout_before_the_end);
    T_OK(kern_open(&dev, "ref", NULL, t_err()));
    env.dev = dev;
    T_OK(input_new(&input, 1, t_err()));
    T_OK(worker_job_new(&job, w.record, &env, t_err()));
    for (uint64_t closure = 2; closure < 4; closure++) {
        l = train_lease(&w, closure);
        T_OK(task_prepare(input, job, l, t_err()));
        c.input = input;
        c.job = job;
        for (uint32_t step = 0; step < l->steps; step++) {
            contribution_begin(&c, l->run, closure, step);
            T_EQ(c.count, 3);
            T_EQ(c.samples, closure == 3 ? 16 : 21);
            for (c.at = 0; c.at < 3; c.at++) {
                T_OK(contribution_get(&c, t_err()));
                T_OK(contribution_start(&c, t_err()));
                T_EQ(c.p->program->keys[1], next++);
                T_EQ(c.p->program->add, c.at > 0);
                T_EQ(c.p->program->samples, c.samples);
                T_EQ(device.held, c.at < 2);
                T_EQ(contribution_is_last(&c), c.at == 2);
                contribution_put(&c);
            }
            digest += c.digest;
        }
        task_unprepare(input, l);
        lease_free(l);
    }
    T_ASSERT(digest == schedule_epoch_digest(&w.schedule, 1));
    worker_job_free(job);
    input_free(input);
    kern_close(dev);
    world_close(&w);
}

// What is made when it is first wanted is seen when it is there.
TEST(task, a_job_says_what_it_takes)
{
    struct job_env env = {.clock = sl_clock_real()};
    struct job_program *program = NULL;
    struct kern_dev *dev = NULL;
    struct worker_job *job = NULL;
    struct world w;
    uint64_t before;

    world_open(&w, "");
    T_OK(kern_open(&dev, "ref", NULL, t_err()));
    env.dev = dev;
    env.peers = w.peers;
    T_OK(worker_job_new(&job, w.record, &env, t_err()));
    before = job_bytes(job);
    T_OK(job_program(job, JOB_TRAINS, 7, &program, t_err()));
    T_EQ(job_bytes(job) - before,
         job->memory.arena.bytes + job->memory.workspace.bytes);
    before = job_bytes(job);
    T_OK(job_cut(job, t_err()));
    T_EQ(job_bytes(job) - before, job->model->elements * sizeof(float));
    T_TRUE(job_bytes_least(w.record) >
           2 * job->model->elements * sizeof(float));
    worker_job_free(job);
    kern_close(dev);
    world_close(&w);
}

// 100 rows, of which a fifth is held out.
static void rows_to_divide(Sluice__V1__JobSpec *spec)
{
    rows(spec);
    spec->data->validation = 0.2;
    spec->data->has_validation = true;
}

// A set that is divided is counted once, also where a worker only evaluates.
TEST(task, a_divided_set_is_counted_wherever_a_part_is_open)
{
    struct job_env env = {.clock = sl_clock_real(), .roots = t_roots()};
    struct worker_job *job = NULL;
    struct data *d = NULL;
    uint64_t before, whole;
    struct world w;

    world_open_with(&w, "", rows_to_divide);
    T_OK(worker_job_new(&job, w.record, &env, t_err()));
    before = job_bytes(job);
    T_OK(job_data(job, true, &d, t_err()));
    whole = data_memory(job->whole);
    T_GT(whole, 0);
    T_EQ(job_bytes(job) - before, whole + data_memory(d));
    before = job_bytes(job);
    T_OK(job_data(job, false, &d, t_err()));
    T_EQ(job_bytes(job) - before, data_memory(d));
    worker_job_free(job);
    world_close(&w);
}

// Images of 4 x 4 bytes, with one change, which says nothing yet.
static void pictures(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__ModelSpec *m = spec->model;
    Sluice__V1__SourceSpec *s = spec->data->train;

    m->input_shape = realloc(m->input_shape, 2 * sizeof(*m->input_shape));
    m->input_shape[0] = m->input_shape[1] = 4;
    m->n_input_shape = 2;
    free(m->layers[0]->type);
    m->layers[0]->type = strdup("flatten");
    free(m->layers[0]->activation);
    m->layers[0]->activation = NULL;
    m->layers[0]->has_units = false;
    free(s->generator);
    s->generator = strdup("images");
    s->augment = malloc(sizeof(*s->augment));
    s->augment[0] = wire_new(&sluice__v1__augment_spec__descriptor);
    s->n_augment = 1;
}

// JobOpen is a message, which may say what spec_check lets no job say.
TEST(task, changes_of_images_that_cannot_be_are_refused)
{
    static double one[1];
    static const struct {
        Sluice__V1__AugmentSpec says;
        const char *text;
    } cases[] = {
        {{.n_range = 0}, "augment[0]: wants one of crop, flip"},
        {{.has_crop = true, .crop = 0}, "crop: wants 1 to 3, got 0"},
        {{.has_crop = true, .crop = 4}, "crop: wants 1 to 3, got 4"},
        {{.has_crop = true, .crop = UINT32_MAX}, "crop: wants 1 to 3"},
        {{.has_zoom = true, .zoom = 1e300}, "zoom: wants a number in"},
        {{.has_rotate = true, .rotate = (double)NAN}, "rotate: wants a"},
        {{.has_contrast = true, .contrast = 1, .n_range = 1, .range = one},
         "augment[0].range: wants the least and the largest"},
        {{.has_mixup = true, .mixup = 1}, "mixup: mixes labels"},
    };
    struct job_env env = {.clock = sl_clock_real()};
    struct sl_error err = SL_ERROR_INIT;
    struct worker_job *job = NULL;
    Sluice__V1__SourceSpec *train;
    struct world w;

    world_open_with(&w, "", pictures);
    train = w.record->open->spec->data->train;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        Sluice__V1__AugmentSpec says = cases[i].says, *list[] = {&says};
        Sluice__V1__AugmentSpec **was = train->augment;

        says.base = was[0]->base;
        train->augment = list;
        T_FAILS(SL_EINVAL, worker_job_new(&job, w.record, &env, &err));
        train->augment = was;
        T_HAS(err.text, cases[i].text);
    }
    world_close(&w);
}

// Opens a job whose data are not as a check leaves them: it is refused.
static void data_is_refused(struct world *w, const char *text)
{
    struct job_env env = {.clock = sl_clock_real()};
    struct sl_error err = SL_ERROR_INIT;
    struct worker_job *job = NULL;

    T_FAILS(SL_EINVAL, worker_job_new(&job, w->record, &env, &err));
    T_HAS(err.text, text);
}

TEST(task, data_that_cannot_be_read_is_refused)
{
    static const double shares[] = {0, 1, 2, -1, (double)NAN};
    Sluice__V1__IdColumnSpec id = SLUICE__V1__ID_COLUMN_SPEC__INIT;
    Sluice__V1__IdColumnSpec *ids[] = {&id};
    Sluice__V1__SourceSpec bare = SLUICE__V1__SOURCE_SPEC__INIT, *was;
    Sluice__V1__DataSpec *data, *all;
    Sluice__V1__JobSpec *spec;
    struct world w;
    char *format;

    world_open(&w, "");
    spec = w.record->open->spec;
    data = all = spec->data;
    spec->data = NULL;
    data_is_refused(&w, "data.train is missing");
    spec->data = all;
    was = data->train;
    data->train = NULL;
    data_is_refused(&w, "data.train is missing");
    data->train = was;
    format = was->format;
    was->format = NULL;
    data_is_refused(&w, "data.train.format is missing");
    was->format = format;
    was->ids = ids;
    was->n_ids = 1;
    data_is_refused(&w, "data.train.ids[0].name is missing");
    was->ids = NULL;
    was->n_ids = 0;
    data->has_validation = true;
    for (size_t i = 0; i < SL_COUNT(shares); i++) {
        data->validation = shares[i];
        data_is_refused(&w, "data.validation: ");
    }
    data->has_validation = false;
    was = data->test;
    data->test = &bare;
    data_is_refused(&w, "data.test.format is missing");
    data->test = was;
    world_close(&w);
}

TEST(task, a_job_without_an_optimizer_is_refused)
{
    struct job_env env = {.clock = sl_clock_real()};
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__OptimizerSpec *was;
    struct worker_job *job = NULL;
    struct world w;

    world_open(&w, "");
    was = w.record->open->spec->optimizer;
    w.record->open->spec->optimizer = NULL;
    T_FAILS(SL_EINVAL, worker_job_new(&job, w.record, &env, &err));
    w.record->open->spec->optimizer = was;
    T_HAS(err.text, "optimizer is missing");
    world_close(&w);
}

// The range of a pixel that is a byte is one of bytes, whatever a job gives.
TEST(task, ranges_of_bytes_are_within_a_byte)
{
    static double range[2];
    static const double cases[][4] = {{300, 400, 255, 255},
                                      {-50, -10, 0, 0},
                                      {-1e300, 1e300, 0, 255},
                                      {10, 20, 10, 20}};
    struct job_env env = {.clock = sl_clock_real()};
    Sluice__V1__AugmentSpec *says;
    struct data *d = NULL;
    struct world w;

    world_open_with(&w, "", pictures);
    says = w.record->open->spec->data->train->augment[0];
    says->has_brightness = true;
    says->brightness = 1;
    says->n_range = 2;
    says->range = range;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct worker_job *job = NULL;

        memcpy(range, cases[i], sizeof(range));
        T_OK(worker_job_new(&job, w.record, &env, t_err()));
        T_OK(job_data(job, false, &d, t_err()));
        T_TRUE(data_is_u8(d));
        T_TRUE(job->augment.change[0].range[0] == (float)cases[i][2]);
        T_TRUE(job->augment.change[0].range[1] == (float)cases[i][3]);
        worker_job_free(job);
    }
    says->range = NULL;
    says->n_range = 0;
    world_close(&w);
}

// 100 samples in steps of 21: of the last step there are 16, so 7, 7 and 2.
TEST(task, micro_batches_train_as_the_large_batch)
{
    float few[200], large[200];
    double loss[2];
    size_t n = train_job(", 'accumulate': 3", plain, few, &loss[0]);

    T_EQ(train_job(", 'batch': 21", plain, large, &loss[1]), n);
    for (size_t i = 0; i < n; i++)
        T_NEAR((double)few[i], (double)large[i], 1e-5);
    T_NEAR(loss[0], loss[1], 1e-5);
}

TEST(task, micro_batches_do_not_know_where_a_closure_ends)
{
    float a[200], b[200];
    double loss;
    size_t n = train_job(", 'accumulate': 3", NULL, a, &loss);

    T_EQ(train_job(", 'accumulate': 3, 'steps_per_closure': 2", NULL, b, &loss),
         n);
    T_MEM(a, b, n * sizeof(float));
}

TEST(task, one_micro_batch_is_a_step_as_ever)
{
    float a[200], b[200];
    double loss;
    size_t n = train_job(", 'accumulate': 1", NULL, a, &loss);

    T_EQ(train_job("", NULL, b, &loss), n);
    T_MEM(a, b, n * sizeof(float));
}

TEST(task, micro_batches_of_lost_calls_change_no_count)
{
    struct fake_shard *shards;
    struct world w;

    world_open(&w, ", 'accumulate': 2");
    fake_ps_luck(w.ps, 100, 150);
    fake_ps_stale(w.ps, 300);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++)
        check_evidence(&w, train(&w, c));
    check_all_counted(&w);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_EQ(shards[i].applied, schedule_steps(&w.schedule));
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// Refused for its delay: the parameters are read anew and the step is computed
// again, for that shard; after three times it says so, and is taken. fake_ps
// looks at who says so.
TEST(task, a_step_that_is_refused_for_its_delay_is_computed_again)
{
    uint64_t steps, refused = 0, late = 0, samples = 0, counted = 0;
    struct fake_shard *shards;
    struct world w;

    world_open(&w, "");
    steps = schedule_steps(&w.schedule);
    fake_ps_stale(w.ps, 500);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
        struct lease *l = train(&w, c);
        struct lease_metrics m = lease_progress(l);

        check_evidence(&w, l);
        samples += m.samples; // each step once, however often it was computed
        counted += m.steps;
        T_TRUE(m.loss_sum > 0);
    }
    T_EQ(counted, steps);
    T_EQ(samples, 2 * 100);
    check_all_counted(&w);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, steps);
        refused += shards[i].refused;
        late += shards[i].late;
    }
    fake_ps_unlock(w.ps);
    T_GT(refused, steps); // about half of all pushes of three shards
    T_GT(late, 0);
    world_close(&w);
}

static const char *const narrow_wires[] = {", 'wire': 'bf16'",
                                           ", 'wire': 'f16'"};

TEST(task, a_job_may_send_16_bits)
{
    for (size_t t = 0; t < SL_COUNT(narrow_wires); t++) {
        struct epochs learned = {{0}, {0}};
        struct fake_shard *shards;
        struct world w;

        world_open(&w, narrow_wires[t]);
        fake_ps_luck(w.ps, 100, 150);
        fake_ps_wide(w.ps, 300);
        for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
            struct lease *l = train(&w, c);

            check_evidence(&w, l);
            epochs_add(&learned, &w, c, lease_progress(l));
        }
        check_all_counted(&w);
        check_learned(&learned);
        shards = fake_ps_lock(w.ps);
        for (uint32_t i = 0; i < SHARDS; i++)
            T_EQ(shards[i].narrow, schedule_steps(&w.schedule));
        fake_ps_unlock(w.ps);
        world_close(&w);
    }
}

// The same closure again, by a newer attempt: it finds all counted.
TEST(task, a_counted_closure_is_only_asked_for)
{
    struct world w;
    struct lease *l;

    world_open(&w, "");
    check_evidence(&w, train(&w, 2));
    l = train(&w, 2);
    check_evidence(&w, l);
    T_EQ(lease_progress(l).steps, 0); // it saw none counted by its own pushes
    T_EQ(fake_ps_lock(w.ps)[0].pushes, l->steps);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// A shard comes back from an older snapshot as a new incarnation, in the
// middle of a closure. W1: its steps are computed again, and the others ignore
// what they have.
static void fall_back(struct world *w, uint32_t shard)
{
    struct fake_shard *s = &fake_ps_lock(w->ps)[shard];

    s->incarnation++;
    memset(s->counted, 0, sizeof(s->counted));
    s->applied = s->version = 0;
    w->incarnation[shard]++;
    fake_ps_unlock(w->ps);
}

static void fall_back_locked(void *arg)
{
    struct world *w = arg;

    // On an I/O thread with the lock: the lock is not recursive.
    fake_ps_unlock(w->ps);
    fall_back(w, 1);
    fake_ps_lock(w->ps);
}

TEST(task, a_shard_that_falls_back_is_served_again)
{
    for (unsigned after = 1; after <= 12; after++) {
        struct world w;
        struct fake_shard *shards;
        struct lease *l;

        world_open(&w, "");
        fake_ps_after(w.ps, after, fall_back_locked, &w);
        l = train(&w, 0);
        T_EQ(l->outcome.kind, OUTCOME_COMPLETE);
        // After the shard's last answer the worker cannot know: it names the
        // old incarnation (W2), and the closure is issued again (C1, C3).
        if (l->outcome.incarnations[1] != w.incarnation[1])
            l = train(&w, 0);
        check_evidence(&w, l);
        shards = fake_ps_lock(w.ps);
        for (uint32_t k = 0; k < 4; k++) {
            for (uint32_t i = 0; i < SHARDS; i++)
                T_TRUE(shards[i].counted[0][k]);
        }
        T_EQ(shards[0].applied, 4);
        T_EQ(shards[1].applied, 4);
        T_EQ(shards[2].applied, 4);
        fake_ps_unlock(w.ps);
        world_close(&w);
    }
}

static void all_fall_back_locked(void *arg)
{
    struct world *w = arg;

    fake_ps_unlock(w->ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        fall_back(w, i);
    fake_ps_lock(w->ps);
}

// The coordinator takes numbers of more steps than a closure has for false.
TEST(task, a_step_that_shards_lost_is_told_once)
{
    for (unsigned after = 1; after <= 12; after++) {
        struct world w;
        struct lease_metrics m;

        world_open(&w, "");
        fake_ps_after(w.ps, after, all_fall_back_locked, &w);
        m = lease_progress(train(&w, 0));
        T_EQ(m.steps, 4);
        T_EQ(m.samples, w.done[0]->count);
        T_EQ(m.loss_samples, m.samples);
        world_close(&w);
    }
}

TEST(task, I4_a_newer_attempt_fences_this_one)
{
    struct world w;
    struct lease *l;

    world_open(&w, "");
    fake_ps_lock(w.ps)[2].newest[0] = (struct wire_attempt){1, 99};
    fake_ps_unlock(w.ps);
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(l->outcome.err.text, "newer attempt");
    world_close(&w);
}

// Nobody answers: only the gate ends it.
static void stop_while_waiting(enum gate_reason why, enum outcome_kind kind)
{
    struct world w;
    struct lease *l;

    world_open(&w, "");
    fake_ps_hold(w.ps, true);
    l = train_lease(&w, 0);
    compute_submit(w.compute, l);
    while (!atomic_load(&l->running))
        loop_turn(w.loop);
    if (why == GATE_LEASE)
        atomic_store(&l->gate.lease_ends_ms, 0);
    else
        gate_close(&l->gate, why);
    record_wake(w.record);
    run(&w, 1);
    T_EQ(l->outcome.kind, kind);
    world_close(&w);
}

TEST(task, the_gate_ends_a_wait)
{
    stop_while_waiting(GATE_REVOKED, OUTCOME_HAND_BACK);
    stop_while_waiting(GATE_ENDED, OUTCOME_DROPPED);
    stop_while_waiting(GATE_DRAIN, OUTCOME_HAND_BACK);
    stop_while_waiting(GATE_LEASE, OUTCOME_HAND_BACK);
}

// ---- does it get on?

TEST(task, a_lease_stands_still_while_it_runs_and_its_pulse_does_not_beat)
{
    struct world w;
    struct lease *l;

    world_open(&w, "");
    l = train_lease(&w, 0);
    T_EQ(lease_still_ms(l, 1000), 0);
    T_EQ(lease_still_ms(l, 9000), 0); // it waits behind another
    atomic_store(&l->running, true);
    T_EQ(lease_still_ms(l, 9500), 500);
    T_EQ(lease_still_ms(l, 12000), 3000);
    pulse_beat(&l->gate.pulse);
    T_EQ(lease_still_ms(l, 12500), 0);
    T_EQ(lease_still_ms(l, 13000), 500);
    lease_free(l);
    world_close(&w);
}

// Every operation, batch and answer of a closure beats; one that nobody
// answers waits and does not beat.
TEST(task, the_pulse_beats_with_the_work_and_says_when_it_waits)
{
    struct world w;
    struct lease *l;
    uint64_t beats;

    world_open(&w, "");
    l = train(&w, 0);
    T_GT(atomic_load(&l->gate.pulse.beats), 4 * (1 + SHARDS));
    T_EQ(atomic_load(&l->gate.pulse.step), 3);
    T_FALSE(atomic_load(&l->gate.pulse.waits));
    clear(&w);
    fake_ps_hold(w.ps, true);
    l = train_lease(&w, 1);
    compute_submit(w.compute, l);
    while (!atomic_load(&l->gate.pulse.waits))
        loop_turn(w.loop);
    beats = atomic_load(&l->gate.pulse.beats);
    gate_close(&l->gate, GATE_REVOKED);
    record_wake(w.record);
    run(&w, 1);
    T_EQ(atomic_load(&l->gate.pulse.beats), beats);
    T_FALSE(atomic_load(&l->gate.pulse.waits));
    world_close(&w);
}

// A device may time the ways to compute an op before it takes one: the first
// closure of a job has the beats of its plans beside those of its steps.
TEST(task, the_pulse_beats_while_ops_are_planned)
{
    struct world w;
    uint64_t first, later;

    world_open(&w, "");
    first = atomic_load(&train(&w, 0)->gate.pulse.beats);
    clear(&w);
    later = atomic_load(&train(&w, 1)->gate.pulse.beats);
    T_GT(first, later + 5);
    world_close(&w);
}

// The next lease's batches are being read when it is revoked.
TEST(task, a_lease_ahead_may_be_revoked)
{
    for (int round = 0; round < 20; round++) {
        struct world w;
        struct lease *l[3];

        world_open(&w, "");
        for (unsigned i = 0; i < 3; i++)
            l[i] = train_lease(&w, i);
        fake_ps_after(w.ps, 1 + (unsigned)t_below(10), fall_back_locked, &w);
        for (unsigned i = 0; i < 3; i++)
            compute_submit(w.compute, l[i]);
        gate_close(&l[1]->gate, GATE_REVOKED);
        run(&w, 3);
        T_EQ(l[0]->outcome.kind, OUTCOME_COMPLETE);
        T_EQ(l[2]->outcome.kind, OUTCOME_COMPLETE);
        compute_forget(w.compute, JOB);
        check_evidence(&w, train(&w, 3));
        world_close(&w);
    }
}

TEST(task, draining_ends_between_steps)
{
    struct world w;
    struct lease *l;
    struct fake_shard *shards;

    world_open(&w, "");
    l = train_lease(&w, 0);
    atomic_store(&l->gate.draining, true);
    compute_submit(w.compute, l);
    run(&w, 1);
    T_EQ(l->outcome.kind, OUTCOME_HAND_BACK);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_EQ(shards[i].pushes, shards[0].pushes); // no half step
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// ---- contributions of several closures

#define FOUR                                                                   \
    ", 'mode': 'local', 'steps_per_closure': 1, 'contributions': 2,"           \
    " 'quorum': 1, 'inner': {'steps': 8, 'closure': 2}"

// Queues leases of closures 0 to 3, all before the first of them begins.
static void four(struct world *w, struct lease *l[4])
{
    clear(w);
    fake_ps_hold(w->ps, true);
    for (unsigned i = 0; i < 4; i++)
        compute_submit(w->compute, l[i] = train_lease(w, i));
    fake_ps_hold(w->ps, false);
    run(w, 4);
}

static void check_counted_once(struct world *w, uint64_t pushes)
{
    struct fake_shard *shards = fake_ps_lock(w->ps);

    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, pushes);
        for (unsigned k = 0; k < 4; k++)
            T_TRUE(shards[i].counted[k][0]);
    }
    fake_ps_unlock(w->ps);
}

TEST(task, L5_one_push_counts_the_closures_of_the_leases_that_wait)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, FOUR);
    four(&w, l);
    for (unsigned i = 0; i < 4; i++) {
        check_evidence(&w, l[i]);
        T_EQ(lease_progress(l[i]).steps, 1);
        T_EQ(lease_progress(l[i]).samples, 14);
        T_TRUE(lease_progress(l[i]).loss_sum > 0);
    }
    check_counted_once(&w, 1);
    world_close(&w);
}

// The worker of the first lease is slow: its contribution has two closures. The
// next one begins with closure 2, and may have more than there are.
TEST(task, a_lease_says_how_many_closures_its_contribution_has)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, FOUR);
    clear(&w);
    fake_ps_hold(w.ps, true);
    for (unsigned i = 0; i < 4; i++) {
        l[i] = train_lease(&w, i);
        l[i]->closures = i == 0 ? 2 : i == 1 ? 1 : 8;
        compute_submit(w.compute, l[i]);
    }
    fake_ps_hold(w.ps, false);
    run(&w, 4);
    for (unsigned i = 0; i < 4; i++) {
        check_evidence(&w, l[i]);
        T_EQ(l[i]->outcome.changed, i % 2 == 0);
        T_EQ(l[i]->outcome.change_steps, i % 2 == 0 ? 4 : 0);
        T_TRUE(i % 2 == 1 || l[i]->outcome.change_ms > 0);
    }
    check_counted_once(&w, 2);
    world_close(&w);
}

// Shard 1 has counted closure 2 for another worker. All is given back, and then
// each closure is pushed by itself.
TEST(task, L6_what_a_shard_has_a_part_of_is_dropped_and_done_one_by_one)
{
    struct world w;
    struct lease *l[4];
    struct fake_shard *shards;

    world_open(&w, FOUR);
    fake_ps_lock(w.ps)[1].counted[2][0] = true;
    fake_ps_unlock(w.ps);
    four(&w, l);
    for (unsigned i = 0; i < 4; i++) {
        T_EQ(l[i]->outcome.kind, OUTCOME_HAND_BACK);
        T_HAS(l[i]->outcome.err.text, "has a part");
    }
    shards = fake_ps_lock(w.ps);
    T_EQ(shards[1].applied, 0);
    fake_ps_unlock(w.ps);
    four(&w, l);
    for (unsigned i = 0; i < 4; i++)
        check_evidence(&w, l[i]);
    shards = fake_ps_lock(w.ps);
    T_EQ(shards[1].applied, 3);
    fake_ps_unlock(w.ps);
    four(&w, l); // together again, and counted already
    for (unsigned i = 0; i < 4; i++)
        check_evidence(&w, l[i]);
    world_close(&w);
}

// Any of the four could be the large one.
TEST(task, what_is_too_large_together_is_judged_one_by_one)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, FOUR);
    for (unsigned round = 0; round < 2; round++) {
        clear(&w);
        fake_ps_hold(w.ps, true);
        for (unsigned i = 0; i < 4; i++) {
            l[i] = train_lease(&w, i);
            l[i]->norm_most = 1e-30;
            compute_submit(w.compute, l[i]);
        }
        fake_ps_hold(w.ps, false);
        run(&w, 4);
        for (unsigned i = 0; i < 4; i++) {
            T_EQ(l[i]->outcome.kind, OUTCOME_HAND_BACK);
            T_EQ(l[i]->outcome.aside, round == 1);
        }
    }
    T_EQ(fake_ps_lock(w.ps)[0].pushes, 0);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// What is told of it is what it was.
TEST(task, a_contribution_longer_than_the_median_is_made_as_long)
{
    struct fake_shard *shards;
    struct world w;
    struct lease *l;
    double squares = 0;

    world_open_with(&w,
                    ", 'mode': 'local', 'contributions': 2, 'norm': 'median',"
                    " 'steps_per_closure': 1, 'inner': {'steps': 2}",
                    plain);
    for (uint64_t closure = 0; closure < 2; closure++) {
        clear(&w);
        l = train_lease(&w, closure);
        l->norm_most = closure == 0 ? 1e-3 : 1e6; // the other is shorter
        compute_submit(w.compute, l);
        run(&w, 1);
        check_evidence(&w, l);
        T_GE(fold_norm(&l->outcome.change), 2e-3);
        squares = 0;
        shards = fake_ps_lock(w.ps);
        for (uint32_t i = 0; i < SHARDS; i++)
            squares += pow(shards[i].largest_norm, 2);
        fake_ps_unlock(w.ps);
        if (closure == 0)
            T_NEAR(sqrt(squares), 1e-3, 1e-8);
    }
    T_NEAR(sqrt(squares), fold_norm(&l->outcome.change), 1e-5);
    world_close(&w);
}

// Those that have no push yet come back from a file that has closure 0 alone.
static void others_replaced_locked(void *arg)
{
    struct world *w = arg;

    fake_ps_unlock(w->ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        bool pushed = fake_ps_lock(w->ps)[i].pushes > 0;

        fake_ps_unlock(w->ps);
        if (pushed)
            continue;
        fall_back(w, i);
        fake_ps_lock(w->ps)[i].counted[0][0] = true;
        fake_ps_unlock(w->ps);
    }
    fake_ps_lock(w->ps);
}

TEST(task, L7_evidence_of_one_closure_is_not_that_of_the_others)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, FOUR);
    fake_ps_after(w.ps, 1, others_replaced_locked, &w);
    four(&w, l);
    check_evidence(&w, l[0]);
    for (unsigned i = 1; i < 4; i++)
        T_EQ(l[i]->outcome.kind, OUTCOME_HAND_BACK);
    world_close(&w);
}

// Checks what leases say that were completed while shards fell back. Some were,
// and some were handed back.
static void check_falls(const char *spec, unsigned last)
{
    unsigned completed = 0, handed_back = 0;

    for (unsigned after = 1; after <= last; after++) {
        struct world w;
        struct lease *l[4];
        struct fake_shard *shards;

        world_open(&w, spec);
        fake_ps_after(w.ps, after, fall_back_locked, &w);
        four(&w, l);
        shards = fake_ps_lock(w.ps);
        for (unsigned i = 0; i < 4; i++) {
            bool complete = l[i]->outcome.kind == OUTCOME_COMPLETE;

            completed += complete;
            handed_back += l[i]->outcome.kind == OUTCOME_HAND_BACK;
            for (uint32_t k = 0; k < SHARDS; k++)
                T_TRUE(!complete ||
                       l[i]->outcome.incarnations[k] != shards[k].incarnation ||
                       shards[k].counted[i][0]);
        }
        fake_ps_unlock(w.ps);
        world_close(&w);
    }
    T_GT(completed, 0);
    T_GT(handed_back, 0);
}

TEST(task, L7_what_is_completed_is_counted_where_it_says_whatever_falls_back)
{
    check_falls(FOUR, 6);
}

// The lease of closure 1 ends with the notice to leave, before its steps were
// taken: closure 0 is pushed without it.
TEST(task, L6_a_lease_that_is_to_end_leaves_the_contribution)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, FOUR);
    fake_ps_hold(w.ps, true);
    for (unsigned i = 0; i < 4; i++)
        l[i] = train_lease(&w, i);
    atomic_store(&l[1]->gate.draining, true);
    for (unsigned i = 0; i < 4; i++)
        compute_submit(w.compute, l[i]);
    fake_ps_hold(w.ps, false);
    run(&w, 4);
    T_EQ(l[1]->outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(l[1]->outcome.err.text, "leaving");
    check_evidence(&w, l[0]);
    check_evidence(&w, l[2]);
    check_evidence(&w, l[3]);
    T_EQ(fake_ps_lock(w.ps)[0].applied, 2); // 0 alone, then 2 and 3
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// ---- streams: two fragments of three shards

#define STREAM                                                                 \
    ", 'mode': 'local', 'steps_per_closure': 1, 'contributions': 2,"           \
    " 'quorum': 1, 'inner': {'steps': 4}, 'fragments': 2"

// Checks that each shard has counted all closures, those of fragment f by
// pushes[f] pushes.
static void check_fragments(struct world *w, const uint64_t pushes[2])
{
    struct fake_shard *shards = fake_ps_lock(w->ps);
    struct fragments f = fragments_begin(2);

    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, pushes[fragments_add(&f, shards[i].count)]);
        for (unsigned k = 0; k < 4; k++)
            T_TRUE(shards[i].counted[k][0]);
    }
    fake_ps_unlock(w->ps);
}

// One leaves behind each closure, with what it has not been sent, and at the
// end what is left: {0}, {1, 2}, {3} and {0, 1}, {2, 3}.
TEST(task, L8_a_push_of_a_fragment_counts_what_its_shards_were_not_sent)
{
    static const char *const specs[] = {STREAM, STREAM ", 'overlap': 1"};

    for (unsigned s = 0; s < 2; s++) {
        struct world w;
        struct lease *l[4];

        world_open(&w, specs[s]);
        four(&w, l);
        for (unsigned i = 0; i < 4; i++) {
            check_evidence(&w, l[i]);
            T_EQ(lease_progress(l[i]).steps, 1);
            T_EQ(lease_progress(l[i]).samples, 14);
            T_TRUE(lease_progress(l[i]).loss_sum > 0);
        }
        check_fragments(&w, (const uint64_t[]){3, 2});
        world_close(&w);
    }
}

TEST(task, L8_what_is_completed_is_counted_where_it_says_whatever_falls_back)
{
    check_falls(STREAM, 8);
}

// Shard 1 has counted closure 2 for another worker.
TEST(task, L8_a_stream_that_is_refused_ends_and_the_next_are_of_one_closure)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, STREAM);
    fake_ps_lock(w.ps)[1].counted[2][0] = true;
    fake_ps_unlock(w.ps);
    four(&w, l);
    T_EQ(l[2]->outcome.kind, OUTCOME_HAND_BACK);
    T_EQ(l[3]->outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(l[2]->outcome.err.text, "has a part");
    four(&w, l);
    for (unsigned i = 0; i < 4; i++)
        check_evidence(&w, l[i]);
    world_close(&w);
}

// Shards of fragment 0 hold closure 0 and have counted closure 1 for another
// worker: their last push is a repeat, and closure 0 is not counted by it.
TEST(task, L8_a_repeat_of_one_closure_leaves_others_held)
{
    struct fragments f = fragments_begin(2);
    struct fake_shard *shards;
    bool first[SHARDS];
    struct lease *l[2];
    struct world w;

    world_open(&w, STREAM);
    fake_ps_hold(w.ps, true);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        first[i] = fragments_add(&f, shards[i].count) == 0;
        shards[i].holds = true;
        shards[i].counted[1][0] = first[i];
    }
    fake_ps_unlock(w.ps);
    for (unsigned i = 0; i < 2; i++) {
        l[i] = train_lease(&w, i);
        compute_submit(w.compute, l[i]);
    }
    fake_ps_hold(w.ps, false);
    run(&w, 2);
    check_evidence(&w, l[0]);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_TRUE(l[0]->outcome.held[i]);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_EQ(shards[i].duplicates, first[i]);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// The steps of closure 2 are not taken, as its lease ends with the notice to
// leave.
TEST(task, L8_a_worker_that_leaves_pushes_every_fragment)
{
    struct world w;
    struct lease *l[4];

    world_open(&w, STREAM);
    fake_ps_hold(w.ps, true);
    for (unsigned i = 0; i < 4; i++)
        l[i] = train_lease(&w, i);
    atomic_store(&l[2]->gate.draining, true);
    for (unsigned i = 0; i < 4; i++)
        compute_submit(w.compute, l[i]);
    fake_ps_hold(w.ps, false);
    run(&w, 4);
    T_EQ(l[2]->outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(l[2]->outcome.err.text, "leaving");
    check_evidence(&w, l[0]);
    check_evidence(&w, l[1]);
    check_evidence(&w, l[3]);
    world_close(&w);
}

static void blow_up_plain(Sluice__V1__JobSpec *spec)
{
    plain(spec);
    blow_up(spec);
}

// Each closure is counted, and what was sent with it is zero.
TEST(task, L8_a_closure_that_is_not_finite_changes_nothing_and_counts)
{
    struct world w;
    struct lease *l[4];
    struct fake_shard *shards;

    world_open_with(&w, STREAM, blow_up_plain);
    four(&w, l);
    for (unsigned i = 0; i < 4; i++) {
        check_evidence(&w, l[i]);
        T_EQ(lease_progress(l[i]).skipped, 1);
    }
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_TRUE(shards[i].largest_norm == 0);
        for (unsigned k = 0; k < 4; k++)
            T_TRUE(shards[i].counted[k][0]);
    }
    fake_ps_unlock(w.ps);
    world_close(&w);
}

// 100 rows in their order, of which one of closure 1 is too large.
static void one_too_large(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__SourceSpec *s = spec->data->train;
    FILE *f = fopen(t_path("rows.csv"), "w");

    T_TRUE(f != NULL);
    for (unsigned i = 0; i < 100; i++)
        fprintf(f, "%u,%u,%u,1,%u,%s,%u\n", i % 5, i % 3, i % 7, i % 4,
                i == 20 ? "3e38" : "2", i % 3);
    T_EQ(fclose(f), 0);
    strcpy(s->format, "csv"); // a shorter word
    s->x = strdup(t_path("rows.csv"));
    s->label_column = strdup("6");
    s->delimiter = strdup(",");
    spec->train->shuffle = false;
    spec->train->has_shuffle = true;
}

// Fragment 0 leaves with {0}, {1, 2}, {3} and fragment 1 with {0, 1}, {2, 3}.
// Moving statistics are sent as they were.
TEST(task, L8_others_of_the_push_of_a_closure_that_is_not_finite_are_applied)
{
    struct world w;
    struct lease *l[4];

    world_open_with(&w, STREAM, one_too_large);
    four(&w, l);
    for (unsigned i = 0; i < 4; i++) {
        check_evidence(&w, l[i]);
        T_EQ(lease_progress(l[i]).skipped, i == 1);
    }
    check_fragments(&w, (const uint64_t[]){3, 2});
    for (uint32_t i = 0; i < SHARDS; i++) {
        double norm = fake_ps_lock(w.ps)[i].largest_norm;

        fake_ps_unlock(w.ps);
        T_TRUE(norm > 0 && norm < 100);
    }
    world_close(&w);
}

// ---- numbers

TEST(task, what_is_not_finite_is_counted_and_not_applied)
{
    struct world w;
    struct fake_shard *shards;
    struct lease *l;

    world_open_with(&w, "", blow_up);
    l = train(&w, 0);
    check_evidence(&w, l);
    T_EQ(lease_progress(l).skipped, 4);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].applied, 0);
        T_EQ(shards[i].skipped, 4);
    }
    fake_ps_unlock(w.ps);
    world_close(&w);
}

TEST(task, a_step_of_which_a_micro_batch_is_not_finite_is_skipped_whole)
{
    struct world w;
    struct fake_shard *shards;
    struct lease *l;

    world_open_with(&w, ", 'accumulate': 3", blow_up);
    l = train(&w, 0);
    check_evidence(&w, l);
    T_EQ(lease_progress(l).skipped, l->steps);
    T_EQ(lease_progress(l).samples, l->count);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++)
        T_EQ(shards[i].skipped, l->steps);
    fake_ps_unlock(w.ps);
    world_close(&w);
}

TEST(task, nonfinite_fail_is_the_jobs_end)
{
    struct world w;
    struct lease *l;

    world_open_with(&w, ", 'nonfinite': 'fail'", blow_up);
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_TRUE(l->outcome.job_error);
    T_HAS(l->outcome.err.text, "not finite");
    world_close(&w);
}

TEST(task, too_many_nonfinite_steps_are_not_advised_to_be_skipped)
{
    struct world w;
    struct lease *l;

    world_open_with(&w, ", 'max_nonfinite': 2", blow_up);
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_HAS(l->outcome.err.text, "3 steps in a row");
    T_TRUE(strstr(l->outcome.err.text, "train.nonfinite") == NULL);
    world_close(&w);
}

TEST(task, clipping_bounds_what_is_sent)
{
    struct world w;
    struct fake_shard *shards;
    double sum = 0;

    world_open(&w, "o:, 'global_clipnorm': 0.01");
    check_evidence(&w, train(&w, 0));
    shards = fake_ps_lock(w.ps);
    // Shard 0 holds the first kernel only: no statistics.
    sum = shards[0].largest_norm;
    T_EQ(shards[0].applied, 4);
    fake_ps_unlock(w.ps);
    T_TRUE(sum > 0 && sum <= 0.0101);
    world_close(&w);
}

// ---- steps that are computed twice (A5)

// The gradient of which this is the digest is wrong in one number; 0: none.
static unsigned planted;

uint64_t __real_grad_digest(uint64_t before, const float *g, size_t n);
uint64_t __wrap_grad_digest(uint64_t before, const float *g, size_t n);

uint64_t __wrap_grad_digest(uint64_t before, const float *g, size_t n)
{
    if (planted > 0 && --planted == 0)
        ((float *)g)[n / 2] += 1;
    return __real_grad_digest(before, g, n);
}

// What is digested of each step: the parameters, and the gradient two times.
#define DIGESTS 3

// Only steps of devices in host memory are computed twice.
static bool twice(void)
{
    return strncmp(task_device(), "ref", strlen("ref")) == 0;
}

// Trains all closures of a job, and writes its parameters to `values`. Returns
// their number. A closure that is handed back is leased again.
static size_t train_twice(const char *extra,
                          void (*change)(Sluice__V1__JobSpec *spec),
                          float values[200], unsigned *handed_back)
{
    struct fake_shard *shards;
    struct world w;
    size_t count = 0;

    *handed_back = 0;
    world_open_with(&w, extra, change);
    for (uint64_t c = 0; c < schedule_closures(&w.schedule); c++) {
        struct lease *l = train(&w, c);
        const struct lease_repeat *r = l->outcome.repeats;

        if (l->outcome.kind == OUTCOME_HAND_BACK) {
            ++*handed_back;
            T_HAS(l->outcome.err.text, "it computed a step twice");
            T_EQ(l->outcome.repeats_count, 2);
            T_TRUE(r[0].closure == c && r[1].closure == c);
            T_TRUE(r[0].kind == r[1].kind && r[0].inputs == r[1].inputs);
            T_TRUE(r[0].output != r[1].output);
            c--;
            continue;
        }
        check_evidence(&w, l);
        if (strstr(extra, "'audit'") == NULL || !twice()) {
            T_EQ(l->outcome.repeats_count, 0);
            continue;
        }
        T_EQ(l->outcome.repeats_count, 2);
        T_MEM(&r[0], &r[1], sizeof(r[0]));
        T_TRUE(r[0].closure == c && (change == blow_up) == (r[0].output == 0));
    }
    check_all_counted(&w);
    shards = fake_ps_lock(w.ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].pushes, schedule_steps(&w.schedule)); // none twice
        memcpy(values + count, shards[i].values,
               shards[i].count * sizeof(*values));
        count += shards[i].count;
    }
    fake_ps_unlock(w.ps);
    world_close(&w);
    return count;
}

// Steps that are sent range by range, and whole; of several micro-batches; of
// which the numbers are not finite.
static const struct {
    const char *once, *twice;
    void (*change)(Sluice__V1__JobSpec *spec);
} trained_twice[] = {
    {"", ", 'audit': 1", NULL},
    {", 'accumulate': 3", ", 'accumulate': 3, 'audit': 1", NULL},
    {", 'precision': 'f16'", ", 'precision': 'f16', 'audit': 1", NULL},
    {", 'max_nonfinite': 100", ", 'max_nonfinite': 100, 'audit': 1", blow_up},
    {"", ", 'audit': 1", dropout_before_the_end},
};

TEST(task, A5_a_step_that_is_computed_twice_counts_once)
{
    for (size_t i = 0; i < SL_COUNT(trained_twice); i++) {
        float once[200], again[200];
        unsigned back;
        size_t n = train_twice(trained_twice[i].once, trained_twice[i].change,
                               once, &back);

        sharing = i == 0;
        T_EQ(train_twice(trained_twice[i].twice, trained_twice[i].change, again,
                         &back),
             n);
        sharing = false;
        T_EQ(back, 0);
        T_MEM(once, again, n * sizeof(float));
    }
}

// The first or the second gradient of a step in the midst of a closure is
// wrong: nothing of that step is sent, and the other steps are computed once.
TEST(task, A5_a_step_with_two_results_is_not_sent)
{
    static const char *const jobs[][2] = {
        {"", ", 'audit': 1"},
        {", 'precision': 'f16'", ", 'precision': 'f16', 'audit': 1"},
    };

    for (size_t i = 0; i < 2 * SL_COUNT(jobs); i++) {
        float once[200], again[200];
        unsigned back;
        size_t n = train_twice(jobs[i / 2][0], NULL, once, &back);

        planted = twice() ? 5 * DIGESTS + 2 + (unsigned)i % 2 : 0;
        T_EQ(train_twice(jobs[i / 2][1], NULL, again, &back), n);
        T_EQ(back, twice());
        T_MEM(once, again, n * sizeof(float));
    }
}

// ---- f16

// All of a job's closures, each complete.
static void f16_job(struct world *w, struct lease_metrics *sum, double *last)
{
    *sum = (struct lease_metrics){.steps = 0};
    for (uint64_t c = 0; c < schedule_closures(&w->schedule); c++) {
        struct lease *l = train(w, c);
        struct lease_metrics m = lease_progress(l);

        check_evidence(w, l);
        sum->steps += m.steps;
        sum->skipped += m.skipped;
        sum->loss_scale = m.loss_scale;
        if (m.steps > m.skipped)
            *last = m.loss_sum;
    }
    check_all_counted(w);
}

static void check_skipped(struct world *w, uint64_t skipped)
{
    struct fake_shard *shards = fake_ps_lock(w->ps);

    for (uint32_t i = 0; i < SHARDS; i++) {
        T_EQ(shards[i].skipped, skipped); // by all shards or by none
        T_EQ(shards[i].applied + skipped, schedule_steps(&w->schedule));
    }
    fake_ps_unlock(w->ps);
}

TEST(task, f16_starts_at_keras_scale)
{
    struct lease_metrics m;
    struct world w;
    double last = 0;

    world_open(&w, ", 'precision': 'f16'");
    f16_job(&w, &m, &last);
    check_skipped(&w, m.skipped);
    T_TRUE(isfinite(last));
    T_NEAR(m.loss_scale, ldexp(32768, -(int)m.skipped), 0);
    world_close(&w);
}

// A scale that is far too large is halved step by step, and that is nobody's
// fault: nonfinite: fail and max_nonfinite are not asked.
TEST(task, f16_finds_its_scale)
{
    struct lease_metrics m;
    struct world w;
    double last = 0;

    heard = 0x1p36;
    world_open(&w, ", 'precision': 'f16', 'nonfinite': 'fail',"
                   " 'max_nonfinite': 1");
    heard = 0;
    f16_job(&w, &m, &last);
    T_GT(m.skipped, 8);
    T_LT(m.skipped, 36);
    check_skipped(&w, m.skipped);
    T_NEAR(m.loss_scale, ldexp(0x1p36, -(int)m.skipped), 0);
    world_close(&w);
}

// One decision for a step, whatever part of it was not finite.
TEST(task, f16_finds_its_scale_for_several_micro_batches)
{
    struct lease_metrics m;
    struct world w;
    double last = 0;

    heard = 0x1p40;
    world_open(&w, ", 'precision': 'f16', 'nonfinite': 'fail',"
                   " 'max_nonfinite': 1, 'accumulate': 2, 'batch': 3,"
                   " 'steps_per_closure': 16");
    heard = 0;
    f16_job(&w, &m, &last);
    T_GT(m.skipped, 8);
    T_LT(m.skipped, 34);
    check_skipped(&w, m.skipped);
    T_NEAR(m.loss_scale, ldexp(0x1p40, -(int)m.skipped), 0);
    world_close(&w);
}

// A loss that is not finite is not the scale's doing, nor is anything if the
// scale is fixed.
TEST(task, f16_with_a_loss_that_is_not_finite_counts_as_always)
{
    struct lease *l;
    struct world w;

    world_open_with(&w, ", 'precision': 'f16', 'max_nonfinite': 2", blow_up);
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_HAS(l->outcome.err.text, "3 steps in a row");
    T_TRUE(l->outcome.job_error);
    world_close(&w);
}

TEST(task, f16_with_a_fixed_scale_that_is_too_large)
{
    struct lease *l;
    struct world w;

    world_open(&w, ", 'precision': 'f16', 'loss_scale': 1e12,"
                   " 'max_nonfinite': 2");
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_HAS(l->outcome.err.text, "3 steps in a row");
    T_NEAR(lease_progress(l).loss_scale, 1e12, 0);
    world_close(&w);
}

TEST(task, other_precisions_have_no_loss_scale)
{
    struct world w;

    world_open(&w, ", 'precision': 'bf16'");
    check_evidence(&w, train(&w, 0));
    T_NEAR(lease_progress(w.done[0]).loss_scale, 0, 0);
    T_EQ(lease_progress(w.done[0]).skipped, 0);
    world_close(&w);
}

TEST(task, probe_and_evaluation)
{
    struct world w;
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    Sluice__V1__Tag *tags[SHARDS] = {&tag, &tag, &tag};
    struct lease *l;

    world_open(&w, "");
    attempt.term = attempt.n = 1;
    m.job = JOB;
    m.attempt = &attempt;
    m.kind = SLUICE__V1__LEASE_KIND__LEASE_PROBE;
    T_OK(lease_new(&l, &m, w.record, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    compute_submit(w.compute, l);
    run(&w, 1);
    T_EQ(l->outcome.kind, OUTCOME_COMPLETE);
    T_EQ(l->outcome.facts.train_samples, 100);
    T_EQ(l->outcome.facts.test_samples, 50);
    T_NE(l->outcome.facts.train_hash, l->outcome.facts.test_hash);
    clear(&w);

    m.kind = SLUICE__V1__LEASE_KIND__LEASE_EVALUATE;
    m.first = 5;
    m.count = 45;
    m.cut = 3;
    m.tags = tags;
    m.n_tags = SHARDS;
    tag.incarnation = tag.sequence = 1;
    for (int again = 0; again < 2; again++) {
        T_OK(lease_new(&l, &m, w.record, t_err()));
        atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
        compute_submit(w.compute, l);
        run(&w, 1);
        T_EQ(l->outcome.kind, OUTCOME_COMPLETE);
        T_EQ(lease_progress(l).samples, 45);
        T_EQ(lease_progress(l).steps, 3);
        clear(&w);
    }
    tag.sequence = 2; // collected meanwhile
    m.cut = 4;
    T_OK(lease_new(&l, &m, w.record, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    compute_submit(w.compute, l);
    run(&w, 1);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_FALSE(l->outcome.job_error);
    world_close(&w);
}

// As when a ring lease that found no memory has dropped the job, and the state
// with it, while the range waited.
TEST(task, a_rank_without_a_state_evaluates_nothing)
{
    struct world w;
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    Sluice__V1__Tag *tags[SHARDS] = {&tag, &tag, &tag};
    struct lease *l;

    world_open(&w, ", 'mode': 'allreduce'");
    attempt.term = attempt.n = tag.incarnation = tag.sequence = 1;
    m.job = JOB;
    m.attempt = &attempt;
    m.kind = SLUICE__V1__LEASE_KIND__LEASE_EVALUATE;
    m.count = 45;
    m.cut = 3;
    m.tags = tags;
    m.n_tags = SHARDS;
    T_OK(lease_new(&l, &m, w.record, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    compute_submit(w.compute, l);
    run(&w, 1);
    T_EQ(l->outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(l->outcome.err.text, "state");
    T_EQ(lease_progress(l).samples, 0);
    world_close(&w);
}

static void want_rows(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__SourceSpec *s = spec->data->train;
    FILE *f = fopen(t_path("rows.csv"), "w");

    T_TRUE(f != NULL);
    for (int i = 0; i < 100; i++)
        fputs("1,2,3,4,5,6,0\n", f);
    T_EQ(fclose(f), 0);
    wire_free(&s->base);
    s = spec->data->train = wire_new(&sluice__v1__source_spec__descriptor);
    s->format = strdup("csv");
    s->x = strdup(t_path("rows.csv"));
}

static enum outcome_kind probe_rows(struct world *w, enum gate_reason why,
                                    bool draining)
{
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    struct job_env env = {.roots = t_roots(), .dev = NULL};
    struct task_env task = {.clock = sl_clock_real()};
    enum outcome_kind kind;
    struct lease *l;
    struct worker_job *job;

    attempt.term = attempt.n = 1;
    m.job = JOB;
    m.attempt = &attempt;
    m.kind = SLUICE__V1__LEASE_KIND__LEASE_PROBE;
    T_OK(lease_new(&l, &m, w->record, t_err()));
    T_OK(worker_job_new(&job, w->record, &env, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    atomic_store(&l->gate.draining, draining);
    if (why != GATE_OPEN)
        gate_close(&l->gate, why);
    task_run(&task, job, l);
    kind = l->outcome.kind;
    worker_job_free(job);
    lease_free(l);
    return kind;
}

// Its data may take hours to look through. It is nobody's failure.
TEST(task, data_is_looked_through_as_long_as_the_lease_holds)
{
    struct world w;

    world_open_with(&w, "", want_rows);
    T_EQ(probe_rows(&w, GATE_OPEN, false), OUTCOME_COMPLETE);
    T_EQ(probe_rows(&w, GATE_ENDED, false), OUTCOME_DROPPED);
    T_EQ(probe_rows(&w, GATE_REVOKED, false), OUTCOME_HAND_BACK);
    T_EQ(probe_rows(&w, GATE_OPEN, true), OUTCOME_HAND_BACK);
    world_close(&w);
}

// Of one host alone: others may have what was seen first.
TEST(task, data_that_differs_is_told_with_what_was_found)
{
    Sluice__V1__DataFacts facts = SLUICE__V1__DATA_FACTS__INIT;
    struct world w;
    struct lease *l;

    facts.train_samples = 101;
    seen_first = &facts;
    world_open(&w, "");
    seen_first = NULL;
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_TRUE(l->outcome.job_error);
    T_TRUE(l->outcome.data);
    T_TRUE(l->outcome.differs);
    T_EQ(l->outcome.facts.train_samples, 100);
    T_NE(l->outcome.facts.train_hash, 0);
    T_EQ(l->outcome.facts.test_samples, 0);
    T_HAS(l->outcome.err.text, "data.train: ");
    T_HAS(l->outcome.err.text, "100 samples here, 101 were seen first");
    world_close(&w);
}

static void elsewhere(Sluice__V1__JobSpec *spec)
{
    sl_free(spec->data->train->format);
    sl_free(spec->data->train->x);
    spec->data->train->format = sl_strdup("csv");
    spec->data->train->x = sl_strdup("not/mounted.csv");
}

TEST(task, data_that_is_not_there_is_told_as_such)
{
    struct world w;
    struct lease *l;

    world_open_with(&w, "", elsewhere);
    l = train(&w, 0);
    T_EQ(l->outcome.kind, OUTCOME_FAILED);
    T_TRUE(l->outcome.job_error);
    T_TRUE(l->outcome.data);
    T_FALSE(l->outcome.differs);
    T_HAS(l->outcome.err.text, "not/mounted.csv");
    world_close(&w);
}

static void want_metrics(Sluice__V1__JobSpec *spec)
{
    static const char *const names[] = {"top_k", "precision", "recall",
                                        "mean_absolute_error"};
    Sluice__V1__EvaluateSpec *e = spec->evaluate;
    Sluice__V1__LayerSpec **layers = spec->model->layers;

    // What the fake psserver makes of moving statistics is none.
    wire_free(&layers[1]->base);
    layers[1] = layers[2];
    spec->model->n_layers = 2;
    e->metrics = calloc(SL_COUNT(names), sizeof(*e->metrics));
    for (size_t i = 0; i < SL_COUNT(names); i++)
        e->metrics[e->n_metrics++] = strdup(names[i]);
    T_OK(spec_check(spec, t_err()));
    e->top_k = 1; // as the accuracy has it
}

// Batches of 20, 20 and 5, also in parts: outputs stand beside their
// labels, or the class that is the largest would be another than what the
// loss found.
TEST(task, an_evaluation_tells_sums_for_metrics)
{
    struct world w;
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    Sluice__V1__Tag *tags[SHARDS] = {&tag, &tag, &tag};
    struct lease_metrics seen;
    const struct score *s;
    struct lease *l;

    world_open_with(&w, "", want_metrics);
    for (uint64_t c = 0; c < 4; c++)
        check_evidence(&w, train(&w, c));
    clear(&w);
    attempt.term = attempt.n = tag.incarnation = tag.sequence = 1;
    m.job = JOB;
    m.attempt = &attempt;
    m.kind = SLUICE__V1__LEASE_KIND__LEASE_EVALUATE;
    m.first = 5;
    m.count = 45;
    m.cut = 3;
    m.tags = tags;
    m.n_tags = SHARDS;
    T_OK(lease_new(&l, &m, w.record, t_err()));
    atomic_store(&l->gate.lease_ends_ms, UINT64_MAX);
    compute_submit(w.compute, l);
    run(&w, 1);
    T_EQ(l->outcome.kind, OUTCOME_COMPLETE);
    seen = lease_progress(l);
    s = l->outcome.score;
    T_TRUE(s != NULL);
    T_GT(seen.right_sum, 0);
    T_LT(seen.right_sum, 45);
    T_NEAR((double)s->top, seen.right_sum, 0);
    T_EQ(s->true_positives + s->false_negatives, 45);
    T_GT(s->absolute, 0);
    T_LT(s->absolute, 45);
    T_EQ(s->positives[0] + s->negatives[0], 0); // no auc
    world_close(&w);
}

TEST(task, a_lease_that_does_not_fit_the_geometry_is_refused)
{
    struct world w;
    Sluice__V1__Lease m = SLUICE__V1__LEASE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    struct sl_error err = SL_ERROR_INIT;
    struct lease *l;

    world_open(&w, "");
    m.job = JOB;
    m.attempt = &attempt;
    m.closure = 0;
    m.count = 27; // 28 would be right
    m.steps = 4;
    T_FAILS(SL_EINVAL, lease_new(&l, &m, w.record, &err));
    T_HAS(err.text, "geometry");
    m.closure = 1000;
    T_FAILS(SL_EINVAL, lease_new(&l, &m, w.record, &err));
    T_HAS(err.text, "no closure 1000");
    world_close(&w);
}

// ---- through shared memory

// Trains the whole job; true if every shard got a gradient through it.
static bool train_all(struct world *w)
{
    uint64_t steps = schedule_steps(&w->schedule);
    struct fake_shard *shards;
    bool all = true;

    for (uint64_t c = 0; c < schedule_closures(&w->schedule); c++)
        check_evidence(w, train(w, c));
    check_all_counted(w);
    shards = fake_ps_lock(w->ps);
    for (uint32_t i = 0; i < SHARDS; i++) {
        T_ASSERT(shards[i].applied == steps);
        all = all && shards[i].shared > 0;
    }
    fake_ps_unlock(w->ps);
    return all;
}

// A space takes a moment, and the job is short: several may be needed.
static void until_shared(const char *train, unsigned before, unsigned after,
                         unsigned forget)
{
    bool all = false;

    sharing = true;
    for (int i = 0; i < 200 && !all; i++) {
        struct world w;

        world_open(&w, train);
        fake_ps_luck(w.ps, before, after);
        fake_ps_forget(w.ps, forget);
        all = train_all(&w);
        world_close(&w);
    }
    sharing = false;
    T_TRUE(all);
}

TEST(task, shared_memory_changes_no_count)
{
    until_shared("", 0, 0, 0);
}

// Three layers, of which the second passes a gradient on through its weights.
static void all_dense(Sluice__V1__JobSpec *spec)
{
    Sluice__V1__LayerSpec *l = spec->model->layers[1];

    free(l->type);
    l->type = strdup("dense");
    l->has_units = 1;
    l->units = 8;
}

#define SPANS 4096

// Returns true if a shard of the step of `backward`, the last of its ops that
// ran at once, had left by then.
static bool left_before(const struct span *spans, size_t count,
                        const struct span *backward)
{
    for (size_t i = 0; i < count; i++) {
        const struct span *s = &spans[i];

        if (s->of.closure == backward->of.closure &&
            s->of.step == backward->of.step && strcmp(s->name, "push") == 0 &&
            s->start_us <= backward->start_us)
            return true;
    }
    return false;
}

// Returns the number of steps among the spans of which no shard left before the
// last ops began.
static unsigned sent_at_the_end(const struct span *spans, size_t count)
{
    const struct span *last = NULL;
    unsigned late = 0;

    for (size_t i = 0; i < count; i++) {
        const struct span *s = &spans[i];

        if (strcmp(s->name, "backward") != 0)
            continue;
        if (last != NULL &&
            (s->of.closure != last->of.closure || s->of.step != last->of.step))
            late += !left_before(spans, count, last);
        last = s;
    }
    T_TRUE(last != NULL);
    return late + !left_before(spans, count, last);
}

// A shard that shares memory is sent when its parameters are read no more. That
// is in the middle of the ops that ran at once, not at the step's end.
TEST(task, a_shard_leaves_before_the_first_layers_are_through)
{
    static struct span spans[SPANS];
    bool all = false;

    if (strcmp(task_device(), "ref") != 0)
        return; // devices are given all ops at once
    sharing = true;
    most_bytes = 4 * SHARD_BYTES; // a layer or so
    for (int i = 0; i < 200 && !all; i++) {
        struct world w;
        size_t count;

        world_open_with(&w, "", all_dense);
        T_OK(spans_start(JOB));
        all = train_all(&w);
        spans_stop();
        count = spans_take(spans, SPANS);
        T_LT(count, SPANS);
        T_EQ(sent_at_the_end(spans, count), 0);
        world_close(&w);
    }
    spans_release();
    sharing = false;
    most_bytes = SHARD_BYTES;
    T_TRUE(all);
}

// What a call without an answer named is spoilt: it is never used again.
TEST(task, shared_memory_of_lost_calls_is_not_used_again)
{
    until_shared("", 100, 150, 0);
}

TEST(task, forgotten_regions_lead_to_bytes)
{
    until_shared("", 50, 50, 300);
}

TEST(task, shared_memory_may_hold_16_bits)
{
    for (size_t t = 0; t < SL_COUNT(narrow_wires); t++)
        until_shared(narrow_wires[t], 50, 50, 300);
}

// On the loop: what was mapped is gone, and workers are welcome again.
static void reopen(void *arg)
{
    struct world *w = arg;

    fake_ps_local(w->ps, NULL);
    local_free(w->local);
    local_open(w, t_path("l"));
    fake_ps_local(w->ps, w->local);
}

static void reopen_soon(void *arg)
{
    struct world *w = arg;

    T_ASSERT(loop_post(w->loop, reopen, w) == SL_OK);
}

TEST(task, a_socket_that_goes_away_loses_nothing)
{
    sharing = true;
    for (unsigned after = 1; after <= 20; after++) {
        struct world w;

        world_open(&w, "");
        fake_ps_after(w.ps, 3 * after, reopen_soon, &w);
        (void)train_all(&w);
        world_close(&w);
    }
    sharing = false;
}
