// SPDX-License-Identifier: Apache-2.0
// bench/table_cut.c -- what a checkpoint of a large table costs: the bytes of
// its base and of a delta, how long pushes take while each is written, and how
// long another shard takes to restore it.
//
// One thread pushes, as an I/O thread of a psserver does; another one writes
// in the background, as a thread of its pool does.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "common/base/mem.h"
#include "common/run/background.h"
#include "plan/tables.h"
#include "proto/table_rows.h"
#include "state/snap/snap.h"

#define ROWS_A_PUSH 2048
#define DENSE 64  // elements of the one variable
#define QUIET 400 // pushes that are timed while no file is written
#define TIMES 1000000

struct cutting {
    struct shard *shard;
    const char *folder;
    uint64_t rows, every, next; // row of the next push; 1 of `every` changes
    uint32_t dim, step;
    uint8_t *message;  // of a push
    double *ms;        // times of pushes
    size_t count;      // of them
    _Atomic bool over; // the file is written
    struct shard_image image;
    struct snap_written written;
    struct wire_tag newest; // of what was written
    struct sl_error err;
};

// ---- a shard with one table

static void spec_fill(Sluice__V1__ShardSpec *spec, uint32_t dim)
{
    static Sluice__V1__OptimizerSpec sgd, adagrad;
    static Sluice__V1__Geometry geometry;
    static Sluice__V1__Variable variable, *variables[] = {&variable};
    static Sluice__V1__Piece piece, *pieces[] = {&piece};
    static Sluice__V1__Table table, *tables[] = {&table};
    static uint64_t shape[] = {DENSE};
    static uint32_t ids[] = {1};

    sluice__v1__shard_spec__init(spec);
    sluice__v1__optimizer_spec__init(&sgd);
    sluice__v1__optimizer_spec__init(&adagrad);
    sluice__v1__geometry__init(&geometry);
    sluice__v1__variable__init(&variable);
    sluice__v1__piece__init(&piece);
    sluice__v1__table__init(&table);
    sgd.type = (char *)"sgd";
    sgd.learning_rate = 0.1;
    adagrad.type = (char *)"rowwise_adagrad";
    adagrad.learning_rate = 0.1;
    adagrad.epsilon = 1e-8;
    geometry.samples = 4096 * 1000;
    geometry.batch = 1;
    geometry.epochs = 10;
    geometry.steps_per_closure = 4096;
    variable.name = (char *)"top";
    variable.shape = shape;
    variable.n_shape = 1;
    piece.variable = ids[0];
    piece.rows = piece.elements = DENSE;
    table.name = (char *)"users";
    table.dim = dim;
    table.buckets = TABLE_BUCKETS;
    table.optimizer = &adagrad;
    table.scale = table.probability = 1;
    table.min_count = 1;
    spec->job = spec->job_incarnation = spec->job_uid = spec->shards = 1;
    spec->job_name = (char *)"cut";
    spec->geometry = &geometry;
    spec->optimizer = &sgd;
    spec->variables = variables;
    spec->variable_ids = ids;
    spec->pieces = pieces;
    spec->tables = tables;
    spec->n_variables = spec->n_variable_ids = spec->n_pieces = 1;
    spec->n_tables = 1;
}

static void make_shard(struct cutting *c)
{
    Sluice__V1__ShardSpec spec;
    struct plan plan;

    spec_fill(&spec, c->dim);
    program_must(plan_read(&plan, &spec, &c->err), &c->err, "plan");
    program_must(shard_new(&c->shard, &plan), &c->err, "shard");
}

static void cutting_begin(struct cutting *c)
{
    make_shard(c);
    c->shard->chain.most = 16;
    shard_admit(c->shard, 1);
    c->message = program_memory(4 * DENSE + TABLE_ROWS_HEAD +
                                ROWS_A_PUSH * (8 + 4 * (size_t)c->dim) + 8);
    c->ms = program_memory(TIMES * sizeof(*c->ms));
}

// ---- pushes

static int by_hash(const void *a, const void *b)
{
    uint64_t x = table_hash(table_id(a, 0)), y = table_hash(table_id(b, 0));

    return (x > y) - (x < y);
}

// Pushes the next rows, each `apart` behind the one before, and times it.
static void push_rows(struct cutting *c, uint64_t apart)
{
    uint8_t *ids =
        table_rows_head(c->message + 4 * DENSE, 0, ROWS_A_PUSH, WIRE_F32);
    struct wire_push push = {.job = 1, .job_incarnation = 1, .incarnation = 1};
    struct wire_push_reply reply;
    struct sl_slices all;
    struct sl_slice one;
    double began;

    for (size_t i = 0; i < ROWS_A_PUSH; i++, c->next += apart) {
        uint64_t id = sl_mix64(c->next % c->rows);

        memcpy(ids + 8 * i, &id, 8);
    }
    qsort(ids, ROWS_A_PUSH, 8, by_hash);
    push.rows_bytes = TABLE_ROWS_HEAD + 8 * ROWS_A_PUSH +
                      table_rows_elements_bytes(ROWS_A_PUSH, c->dim, WIRE_F32);
    push.closure = c->step / 4096;
    push.step = c->step % 4096;
    push.digest = schedule_digest(0, c->step);
    push.attempt = (struct wire_attempt){1, 1};
    push.samples = 1;
    one = (struct sl_slice){c->message, 4 * DENSE + push.rows_bytes};
    all = slices_one(&one);
    slices_sub(&push.payload, &all, 0, 4 * DENSE);
    slices_sub(&push.rows, &all, 4 * DENSE, push.rows_bytes);
    began = program_now_s();
    program_must(shard_push(c->shard, &push, &reply, NULL, &c->err), &c->err,
                 "push");
    if (c->count < TIMES)
        c->ms[c->count++] = 1e3 * (program_now_s() - began);
    if (reply.result != WIRE_PUSH_COUNTED)
        program_die("push %u was not counted", c->step);
    c->step++;
}

// Returns what 99 of 100 pushes did not exceed since the last call.
static double take_p99(struct cutting *c)
{
    double p99;

    program_sort(c->ms, c->count);
    p99 = program_percentile(c->ms, c->count, 0.99);
    c->count = 0;
    return p99;
}

// ---- snapshots

static void write_file(void *arg)
{
    struct cutting *c = arg;

    program_must(snap_write_image(fs_posix(), c->folder, &c->image, &c->written,
                                  &c->err),
                 &c->err, "snapshot");
    shard_image_release(&c->image);
}

static void *write_thread(void *arg)
{
    struct cutting *c = arg;

    background_run(write_file, arg);
    atomic_store(&c->over, true);
    return NULL;
}

static void take_instant(struct cutting *c)
{
    program_must(shard_freeze(c->shard, 1, &c->image, &c->err), &c->err,
                 "image");
}

// Writes a snapshot while pushes go on; returns the bytes of its records.
static uint64_t cut_while_pushed(struct cutting *c, double *p99)
{
    uint64_t bytes;
    pthread_t thread;

    take_instant(c);
    c->count = 0;
    atomic_store(&c->over, false);
    if (pthread_create(&thread, NULL, write_thread, c) != 0)
        program_die("no thread");
    while (!atomic_load(&c->over))
        push_rows(c, c->every);
    pthread_join(thread, NULL);
    *p99 = take_p99(c);
    bytes = c->written.table_bytes;
    c->newest = c->written.tag;
    snap_written_release(&c->written);
    return bytes;
}

// Writes one that nothing is measured of.
static void cut_alone(struct cutting *c)
{
    take_instant(c);
    write_file(c);
    snap_written_release(&c->written);
}

static void passed_over(void *arg, const char *file, const struct sl_error *why)
{
    (void)arg;
    program_die("%s: %s", file, why->text);
}

// Drops the shard, as a process that ends, and makes another one from the
// files. Returns the seconds of the second.
static double restore(struct cutting *c)
{
    struct shard_brief brief;
    double began;

    shard_unref(c->shard);
    began = program_now_s();
    make_shard(c);
    program_must(snap_load(fs_posix(), c->folder, c->newest, true, c->shard,
                           passed_over, NULL, &c->err),
                 &c->err, "restore");
    (void)shard_brief(c->shard, true, &brief);
    if (brief.tables.rows != c->rows)
        program_die("%" PRIu64 " rows were restored, not %" PRIu64,
                    brief.tables.rows, c->rows);
    return program_now_s() - began;
}

static void run_cuts(struct cutting *c)
{
    uint64_t base, delta, changed = c->rows / c->every;
    double quiet, base_ms, delta_ms, began = program_now_s(), made_s, cut_s,
                                     restore_s;

    for (uint64_t i = 0; i < c->rows; i += ROWS_A_PUSH)
        push_rows(c, 1);
    made_s = program_now_s() - began;
    c->next = c->count = 0;
    for (unsigned i = 0; i < QUIET; i++)
        push_rows(c, c->every);
    quiet = take_p99(c);
    began = program_now_s();
    base = cut_while_pushed(c, &base_ms);
    cut_s = program_now_s() - began;
    c->shard->chain.count = 0;
    cut_alone(c); // a base with what changed meanwhile
    c->next = 0;
    for (uint64_t i = 0; i < changed; i += ROWS_A_PUSH)
        push_rows(c, c->every);
    delta = cut_while_pushed(c, &delta_ms);
    restore_s = restore(c);
    printf("{\"base\": %" PRIu64 ", \"delta\": %" PRIu64
           ", \"quiet_ms\": %.3f, \"base_ms\": %.3f, \"delta_ms\": %.3f, "
           "\"made_s\": %.1f, \"cut_s\": %.1f, \"restore_s\": %.1f, "
           "\"peak\": %.0f}\n",
           base, delta, quiet, base_ms, delta_ms, made_s, cut_s, restore_s,
           program_peak_bytes());
}

static const struct conf_about about = {
    .program = "table_cut",
    .usage = "table_cut --folder DIR [OPTION]...",
    .text = "Writes a base and a delta of a table while rows are pushed, and "
            "restores it; says their bytes, and how long all takes.",
    .example = "table_cut --folder /tmp/cuts --rows 1000000",
};

static const struct conf_key keys[] = {
    {.name = "folder", .kind = CONF_STRING, .help = "Empty folder for it."},
    {.name = "rows",
     .kind = CONF_INT,
     .value = "4194304",
     .min = ROWS_A_PUSH,
     .max = 1000000000,
     .help = "Rows of the table."},
    {.name = "dim",
     .kind = CONF_INT,
     .value = "16",
     .min = 1,
     .max = TABLE_DIM_MOST,
     .help = "Values of a row."},
    {.name = "every",
     .kind = CONF_INT,
     .value = "100",
     .min = 1,
     .max = 1000,
     .help = "One row of so many changes."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *conf = program_options(&about, tables, argc, argv);
    struct cutting c = {.rows = (uint64_t)conf_int(conf, "rows"),
                        .every = (uint64_t)conf_int(conf, "every"),
                        .dim = (uint32_t)conf_int(conf, "dim"),
                        .folder = conf_str(conf, "folder")};

    if (c.folder == NULL)
        program_die("name a folder with --folder");
    cutting_begin(&c);
    run_cuts(&c);
    shard_unref(c.shard);
    free(c.ms);
    free(c.message);
    conf_free(conf);
    return 0;
}
