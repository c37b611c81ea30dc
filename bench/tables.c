// SPDX-License-Identifier: Apache-2.0
// bench/tables.c -- how near look-ups and updates of a table's rows come to
// what memory gives.
//
//   pull    reads rows        against a gather of as many lines from an array
//   apply   changes rows      against a gather and scatter of the same
//   load    reads, with the index 0.9 full, against an index 0.5 full
//   step    reads a batch and changes its rows, as a step does: a rate alone
//   tier    does the same with a tenth of the rows in memory, and the rest in a
//           file below --folder, against all of them in memory; here time is
//           that of the clock
//   evict   looks for rows to evict in one bucket, as each update does: times
//   memory  bytes that rows take, are in use, and are values and slots; time to
//           make the rows
//
// Ids are drawn from a power law, and each batch has an id once, in the order
// of hashes, as a push has it. The array of the peer has a row of the same size
// for each id, at a place that was drawn, and is told the places. Both go over
// the same batches, in turn, on one thread; time is the thread's own, since
// other work on the machine must not count.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/program.h"
#include "common/base/mem.h"
#include "plan/tables.h"
#include "state/rows/row_disk.h"
#include "state/rows/row_index.h"
#include "state/rows/rowset.h"

#define ROUNDS_MAX 64
#define DRAWS 8192  // of a batch, before an id stands in it once
#define BATCHES 192 // so that all rows of them are more than the caches hold
#define AHEAD 16    // rows that the peer prefetches

struct batch {
    size_t n;
    uint64_t *ids;   // by hash
    uint32_t *place; // of the peer's row
};

struct world {
    uint64_t rows;
    uint32_t dim;
    size_t stride; // bytes of a record
    size_t reach;  // of a row of the peer: a line more, as ours has an index
    uint32_t buckets;
    struct rowset *set;
    uint8_t *array; // the peer's rows
    float *values, *grads;
    uint32_t version;
    struct batch batch[BATCHES];
};

// The id of a rank: ranks of a power law lie anywhere among the ids.
static uint64_t id_of(uint64_t rank)
{
    return sl_mix64(rank + 1);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = table_hash(*(const uint64_t *)a);
    uint64_t y = table_hash(*(const uint64_t *)b);

    return x < y ? -1 : x > y;
}

// ---- the table

static struct rowset *table_new(const struct world *w, uint64_t unused_steps,
                                struct row_account *account)
{
    struct rowset_spec spec = {
        .dim = w->dim,
        .buckets = w->buckets,
        .unused_steps = unused_steps,
        .shards = 1,
        .seed = 7,
        .initial = {SLUICE__V1__INIT_KIND__INIT_CONSTANT, 0.01, 0},
        .scale = 1,
        .probability = 1,
        .account = account,
    };
    struct sl_error err = SL_ERROR_INIT;
    struct rowset *r = NULL;

    row_rule_defaults(&spec.rule, ROW_RULE_ROWWISE_ADAGRAD, OPTIM_NONE);
    program_must(rowset_new(&r, &spec, &err), &err, "a table");
    return r;
}

static void table_push(struct world *w, size_t n, const uint64_t *ids)
{
    struct rowset_step step = {
        .version = ++w->version, .rate = 1e-3, .factor = 1};

    program_must(rowset_reserve(w->set, n, ids), NULL, "an update");
    program_must(rowset_fill(w->set, n, ids), NULL, "an update");
    rowset_apply(w->set, &step, n, ids, WIRE_F32, w->grads);
}

static void table_read(struct world *w, const struct batch *b, float *values)
{
    static struct rowset_miss miss[DRAWS];
    size_t n = rowset_look(w->set, b->n, b->ids, values, miss), left;

    program_must(rowset_fetch(w->set, n, miss, values, &left, NULL), NULL,
                 "rows of a file");
}

static uint64_t common_factor(uint64_t a, uint64_t b)
{
    return b == 0 ? a : common_factor(b, a % b);
}

// All rows, in an order that has nothing to do with ranks or hashes. `most`
// rows are reserved for before, in one go: so full is the index.
static void table_fill(struct world *w, uint64_t most)
{
    static uint64_t ids[DRAWS];
    uint64_t step = UINT64_C(0x9e3779b97f4a7c15) % w->rows, rank = 0;
    uint64_t *all;
    size_t n;

    while (common_factor(step, w->rows) > 1)
        step++;
    if (most > 0) {
        all = sl_malloc_array(most, sizeof(*all));
        if (all == NULL)
            program_die("no memory for %" PRIu64 " ids", most);
        for (uint64_t i = 0; i < most; i++)
            all[i] = id_of(i);
        qsort(all, most, sizeof(*all), by_hash);
        program_must(rowset_reserve(w->set, most, all), NULL, "rows");
        sl_free(all);
    }
    for (uint64_t i = 0; i < w->rows; i += n) {
        n = w->rows - i < DRAWS ? w->rows - i : DRAWS;
        for (size_t k = 0; k < n; k++, rank = (rank + step) % w->rows)
            ids[k] = id_of(rank);
        qsort(ids, n, sizeof(*ids), by_hash);
        table_push(w, n, ids);
    }
}

// ---- batches

// The inverse of the power law's distribution, as if ranks were continuous.
static uint64_t draw_rank(struct rng *rng, double n, double power)
{
    double u = ((double)rng_u32(rng) + 0.5) * 0x1p-32;

    return (uint64_t)pow(u * (pow(n, 1 - power) - 1) + 1, 1 / (1 - power)) - 1;
}

static void batch_fill(struct world *w, struct batch *b, struct rng *rng,
                       double power)
{
    uint64_t *ids = sl_malloc_array(DRAWS, sizeof(*ids));

    b->place = sl_malloc_array(DRAWS, sizeof(*b->place));
    if (ids == NULL || b->place == NULL)
        program_die("no memory for a batch");
    b->n = 0;
    for (size_t i = 0; i < DRAWS; i++)
        ids[i] = id_of(draw_rank(rng, (double)w->rows, power) % w->rows);
    qsort(ids, DRAWS, sizeof(*ids), by_hash);
    for (size_t i = 0; i < DRAWS; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[b->n++] = ids[i];
    b->ids = ids;
    for (size_t i = 0; i < b->n; i++)
        b->place[i] = (uint32_t)((sl_mix64(ids[i] ^ 99) >> 32) * w->rows >> 32);
}

static void world_init(struct world *w, const struct conf *c)
{
    struct rng rng;

    w->rows = (uint64_t)conf_int(c, "rows");
    w->dim = (uint32_t)conf_int(c, "dim");
    w->buckets = (uint32_t)conf_int(c, "buckets");
    w->values = program_memory((size_t)DRAWS * w->dim * sizeof(float));
    w->grads = program_memory((size_t)DRAWS * w->dim * sizeof(float));
    for (size_t i = 0; i < (size_t)DRAWS * w->dim; i++)
        w->grads[i] = 1e-3f * (float)(i % 7);
    rng_init(&rng, 5, 5);
    for (size_t i = 0; i < BATCHES; i++)
        batch_fill(w, &w->batch[i], &rng, conf_float(c, "power"));
    w->set = table_new(w, 0, NULL);
    w->stride = rowset_stride(w->set);
    w->reach = w->stride + 64;
}

static uint64_t world_ids(const struct world *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < BATCHES; i++)
        n += w->batch[i].n;
    return n;
}

// ---- ours and the peer's, over all batches

static double pull(struct world *w)
{
    double began = program_thread_s();

    for (size_t i = 0; i < BATCHES; i++)
        table_read(w, &w->batch[i], w->values);
    return program_thread_s() - began;
}

static double apply(struct world *w)
{
    double began = program_thread_s();

    for (size_t i = 0; i < BATCHES; i++)
        table_push(w, w->batch[i].n, w->batch[i].ids);
    return program_thread_s() - began;
}

static void prefetch(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(at + i, 1);
    __builtin_prefetch(at + bytes - 1, 1);
}

static void ahead(const struct world *w, const struct batch *b, size_t i)
{
    if (i + AHEAD < b->n)
        prefetch(w->array + b->place[i + AHEAD] * w->reach, w->reach);
}

static double gather(struct world *w)
{
    size_t row = w->dim * sizeof(float);
    double began = program_thread_s();

    for (size_t i = 0; i < BATCHES; i++) {
        const struct batch *b = &w->batch[i];

        for (size_t k = 0; k < b->n; k++) {
            ahead(w, b, k);
            memcpy(w->values + k * w->dim, w->array + b->place[k] * w->reach,
                   row);
        }
    }
    return program_thread_s() - began;
}

static double gather_scatter(struct world *w)
{
    double began = program_thread_s();

    for (size_t i = 0; i < BATCHES; i++) {
        const struct batch *b = &w->batch[i];

        for (size_t k = 0; k < b->n; k++) {
            float *row = (float *)(void *)(w->array + b->place[k] * w->reach);
            const float *g = w->grads + k * w->dim;

            ahead(w, b, k);
            for (uint32_t j = 0; j < w->dim; j++)
                row[j] += g[j];
        }
    }
    return program_thread_s() - began;
}

// ---- what is measured

static void print_rates(const struct world *w, const char *what,
                        const double *ours, const double *peer, int rounds)
{
    struct rowset_counts c;

    rowset_counts(w->set, &c);
    printf("{\"what\": \"%s\", \"rows\": %" PRIu64 ", \"index\": %.3f, ", what,
           c.rows, (double)(c.bytes - c.rows * w->stride) / (double)c.rows);
    program_print_list("ours", ours, rounds);
    printf(", ");
    program_print_list("peer", peer, rounds);
    printf("}\n");
}

static void run_peer(struct world *w, const char *what, int rounds,
                     double (*ours)(struct world *),
                     double (*peer)(struct world *))
{
    double a[ROUNDS_MAX], b[ROUNDS_MAX], ids = (double)world_ids(w);

    table_fill(w, 0);
    w->array = program_memory(w->rows * w->reach);
    for (uint64_t i = 0; i < w->rows * w->reach; i += 4096)
        w->array[i] = 0;
    for (int i = -1; i < rounds; i++) { // the first of each only warms up
        double ours_s = ours(w), peer_s = peer(w);

        if (i >= 0) {
            a[i] = ids / ours_s;
            b[i] = ids / peer_s;
        }
    }
    print_rates(w, what, a, b, rounds);
}

static void run_load(struct world *w, int rounds)
{
    double a[ROUNDS_MAX], b[ROUNDS_MAX], ids = (double)world_ids(w);
    struct world half = *w;

    table_fill(w, w->rows * 82 / 100);
    half.set = table_new(w, 0, NULL);
    table_fill(&half, w->rows * 144 / 100);
    for (int i = -1; i < rounds; i++) {
        double full_s = pull(w), half_s = pull(&half);

        if (i >= 0) {
            a[i] = ids / full_s;
            b[i] = ids / half_s;
        }
    }
    print_rates(w, "load", a, b, rounds);
}

// ---- a tenth of the rows in memory

// A set whose rows beyond a tenth lie in a file: the limit has place for the
// index and what is in memory of those, too.
static void tier_table(struct world *w, struct row_account *account,
                       const char *folder)
{
    uint64_t cold = w->rows * 9 / 10 * 24, index = w->rows * 8;
    uint64_t others =
        w->buckets * sizeof(struct row_bucket) + (DRAWS + 512) * 24;

    program_must(row_account_open(account, NULL), NULL, "an account");
    row_disk_set(fs_posix(), folder, 0);
    row_memory_set(w->rows / 10 * w->stride + cold + index + others, 0);
    w->set = table_new(w, 0, account);
}

// *cpu grows by the thread's own time.
static double steps_s(struct world *w, double *cpu)
{
    double began = program_now_s(), own = program_thread_s();

    for (size_t i = 0; i < BATCHES; i++) {
        table_read(w, &w->batch[i], w->values);
        table_push(w, w->batch[i].n, w->batch[i].ids);
    }
    *cpu += program_thread_s() - own;
    return program_now_s() - began;
}

// Draws other batches: those that were met before would be in memory.
static void draw_anew(struct world *w, struct world *tier, struct rng *rng,
                      double power)
{
    for (size_t i = 0; i < BATCHES; i++) {
        sl_free(w->batch[i].ids);
        sl_free(w->batch[i].place);
        batch_fill(w, &w->batch[i], rng, power);
        tier->batch[i] = w->batch[i];
    }
}

static void run_tier(struct world *w, const struct conf *conf, int rounds)
{
    double a[ROUNDS_MAX], b[ROUNDS_MAX], power = conf_float(conf, "power");
    static struct world tier;
    struct row_account account;
    struct rowset_counts c, first;
    double cpu[2] = {0};
    struct rng rng;

    rng_init(&rng, 6, 6);
    tier = *w;
    table_fill(w, 0);
    tier_table(&tier, &account, conf_str(conf, "folder"));
    table_fill(&tier, 0);
    for (int i = -2; i < rounds; i++) { // CLOCK learns which rows are met
        double tier_s, memory_s;

        draw_anew(w, &tier, &rng, power);
        if (i == 0)
            rowset_counts(tier.set, &first);
        tier_s = steps_s(&tier, &cpu[0]);
        memory_s = steps_s(w, &cpu[1]);
        if (i >= 0) {
            a[i] = (double)world_ids(w) / tier_s;
            b[i] = (double)world_ids(w) / memory_s;
        }
    }
    rowset_counts(tier.set, &c);
    printf("{\"what\": \"tier\", \"rows\": %" PRIu64 ", \"cold\": %" PRIu64
           ", \"bytes\": %" PRIu64 ", \"cpu\": %.3f, \"met\": %.4f, ",
           c.rows, c.cold, c.bytes, cpu[1] / cpu[0],
           (double)(c.hits - first.hits) /
               (double)(c.hits - first.hits + c.misses - first.misses));
    program_print_list("ours", a, rounds);
    printf(", ");
    program_print_list("peer", b, rounds);
    printf("}\n");
    rowset_free(tier.set);
    row_account_close(&account);
}

// A batch after the other, as steps come; the gradients are what was read.
static void run_step(struct world *w, int rounds)
{
    double step[ROUNDS_MAX], read[ROUNDS_MAX], ids = (double)world_ids(w);
    double began, read_s, step_s;

    table_fill(w, 0);
    for (int i = -1; i < rounds; i++) {
        read_s = step_s = 0;
        for (size_t k = 0; k < BATCHES; k++) {
            const struct batch *b = &w->batch[k];

            began = program_thread_s();
            table_read(w, b, w->grads);
            read_s += program_thread_s() - began;
            table_push(w, b->n, b->ids);
            step_s += program_thread_s() - began;
        }
        if (i >= 0) {
            step[i] = ids / step_s;
            read[i] = ids / read_s;
        }
    }
    printf("{\"what\": \"step\", \"rows\": %" PRIu64 ", ", w->rows);
    program_print_list("step", step, rounds);
    printf(", ");
    program_print_list("read", read, rounds);
    printf("}\n");
}

// Updates that change no row: each looks at one bucket. None of its rows is old
// enough.
static void run_evict(struct world *w)
{
    double *ms = program_memory(w->buckets * sizeof(*ms));

    rowset_free(w->set);
    w->set = table_new(w, UINT32_MAX, NULL);
    table_fill(w, 0);
    for (uint32_t i = 0; i < w->buckets; i++) {
        double began = program_thread_s();

        table_push(w, 0, NULL);
        ms[i] = 1e3 * (program_thread_s() - began);
    }
    program_sort(ms, w->buckets);
    printf("{\"what\": \"evict\", \"rows\": %" PRIu64
           ", \"of_bucket\": %" PRIu64 ", \"ms\": %.4f, \"p99_ms\": %.4f}\n",
           w->rows, w->rows / w->buckets,
           program_percentile(ms, w->buckets, 0.5),
           program_percentile(ms, w->buckets, 0.99));
    free(ms);
}

static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (f == NULL || fscanf(f, "%*s %ld", &pages) != 1)
        program_die("no /proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

// What all rows take, what of it is in use, and the values and slots alone.
static void run_memory(struct world *w)
{
    double before = resident(), began = program_thread_s(), made_s, took,
           apply_s;
    struct rowset_counts c;

    table_fill(w, 0);
    made_s = program_thread_s() - began;
    took = resident() - before;
    rowset_counts(w->set, &c);
    apply_s = apply(w);
    printf("{\"what\": \"memory\", \"rows\": %" PRIu64
           ", \"resident\": %.0f, \"used\": %" PRIu64
           ", \"values\": %.0f, \"made_per_s\": %.0f, "
           "\"apply_per_s\": %.0f}\n",
           c.rows, took, c.bytes,
           (double)c.rows * (double)(w->dim + 1) * sizeof(float),
           (double)w->rows / made_s, (double)world_ids(w) / apply_s);
}

static const struct conf_about about = {
    .program = "tables",
    .usage = "tables [OPTION]...",
    .text = "Looks rows of a sparse table up and changes them, and does the "
            "same to an array, in turn; says rows per second of both.",
    .example = "tables --what apply --rounds 3",
};

static const struct conf_key keys[] = {
    {.name = "what",
     .kind = CONF_CHOICE,
     .value = "pull",
     .choices = "pull|apply|load|step|memory|tier|evict",
     .help = "What to measure."},
    {.name = "rows",
     .kind = CONF_INT,
     .value = "16777216",
     .min = DRAWS,
     .max = 1000000000,
     .help = "Rows of the table."},
    {.name = "dim",
     .kind = CONF_INT,
     .value = "64",
     .min = 1,
     .max = TABLE_DIM_MOST,
     .help = "Values of a row."},
    {.name = "buckets",
     .kind = CONF_INT,
     .value = "4096",
     .min = 1,
     .max = TABLE_BUCKETS_MOST,
     .help = "Buckets of the table."},
    {.name = "power",
     .kind = CONF_FLOAT,
     .value = "1.05",
     .min = 0,
     .max = 4,
     .help = "Of the law by which ids are drawn."},
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "3",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often each."},
    {.name = "folder",
     .kind = CONF_STRING,
     .value = ".",
     .help = "Where a file of rows lies."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    int rounds = (int)conf_int(c, "rounds");
    const char *what = conf_str(c, "what");
    static struct world w;

    program_pin((int)conf_int(c, "cpu"));
    world_init(&w, c);
    if (strcmp(what, "pull") == 0)
        run_peer(&w, what, rounds, pull, gather);
    else if (strcmp(what, "apply") == 0)
        run_peer(&w, what, rounds, apply, gather_scatter);
    else if (strcmp(what, "load") == 0)
        run_load(&w, rounds);
    else if (strcmp(what, "evict") == 0)
        run_evict(&w);
    else if (strcmp(what, "step") == 0)
        run_step(&w, rounds);
    else if (strcmp(what, "tier") == 0)
        run_tier(&w, c, rounds);
    else
        run_memory(&w);
    rowset_free(w.set);
    conf_free(c);
    return 0;
}
