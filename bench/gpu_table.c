// SPDX-License-Identifier: Apache-2.0
// bench/gpu_table.c -- what a step of a job asks of a GPU, on a host without
// one: per op its bytes and FLOP, the least time that they take on two GPUs,
// and the engine that cuDNN's heuristics choose.
//
// The program is the worker's own, compiled for a device that is only
// described; its ops are asked of cuDNN, which answers for a description.
// op_work.h says what counts as bytes, FLOP and least time.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/net_job.h"
#include "bench/op_work.h"
#include "bench/program.h"
#include "common/base/mem.h"
#include "kernels/cuda/vendor.h"
#include "tests/harness/roots.h"
#include "tests/unit/kernels/gpus.h"
#include "worker/lease/job.h"

#define WORKSPACE_SHARE 4 // as vendor.c has it
#define BATCHES 2
#define CARDS 2 // the first of gpu_rates

// ---- A device that is described, and plans that only say what they are -----

struct noted {
    struct kern_plan base;
    struct kern_desc desc;
};

static struct cuda_dev described = {.sm = 90, .name = "described"};

static int score(struct kern_dev *dev, const struct kern_desc *d)
{
    switch (d->op) {
    case KERN_MATMUL:
        return gemm_score(&described, d);
    case KERN_CONV_FWD:
    case KERN_CONV_DGRAD:
    case KERN_CONV_WGRAD:
        return conv_graph_has(d) ? 100 : 0;
    default:
        return cuda_own_score(dev, d);
    }
}

static enum sl_err note(struct kern_plan **out, size_t *workspace_bytes,
                        struct kern_dev *dev, const struct kern_desc *d,
                        size_t cap_bytes, struct sl_error *err)
{
    struct noted *n = program_memory(sizeof(*n));

    n->base = (struct kern_plan){dev->backend, "noted"};
    n->desc = *d;
    *out = &n->base;
    *workspace_bytes = 0;
    return SL_OK;
}

static enum sl_err alloc_nothing(struct kern_mem *out, struct kern_dev *dev,
                                 size_t bytes, enum kern_place place)
{
    static _Alignas(64) uint8_t nothing[64]; // nothing ever runs

    *out = (struct kern_mem){nothing, bytes};
    return SL_OK;
}

static void release_nothing(struct kern_dev *dev, struct kern_mem *mem)
{
    *mem = (struct kern_mem){NULL, 0};
}

static void info(struct kern_info *out, struct kern_dev *dev)
{
    *out = (struct kern_info){.name = "described",
                              .dtypes = 1u << KERN_F32 | 1u << KERN_F16 |
                                        1u << KERN_BF16};
}

static const struct kern_backend backend = {
    .abi = KERN_ABI,
    .size = sizeof(backend),
    .name = "cuda",
    .info = info,
    .alloc = alloc_nothing,
    .release = release_nothing,
    .score = score,
    .plan = note,
};

// ---- Which engine ---------------------------------------------------------

static struct graph_target targets[CARDS];
static size_t caps[CARDS];

static void describe(void)
{
    struct sl_error err = SL_ERROR_INIT;
    char json[2048];

    for (unsigned p = 0; p < CARDS; p++)
        for (unsigned i = 0; i < SL_COUNT(gpu_facts); i++) {
            if (strcmp(gpu_facts[i].name, gpu_rates[p].name) != 0)
                continue;
            gpu_json(json, sizeof(json), &gpu_facts[i]);
            program_must(graph_describe(&targets[p], json, &err), &err,
                         "a description");
            caps[p] = gpu_bytes(&gpu_facts[i]) / WORKSPACE_SHARE;
        }
}

// "24T, 1024 MiB": the engine's number, T for tensor cores, its workspace.
static void ask(char *to, size_t n, const struct kern_desc *d, unsigned p)
{
    const struct graph_rules rules = {(enum kern_op)d->op,
                                      op_work_tensor_cores(d), true};
    struct sl_error err = SL_ERROR_INIT;
    struct graph_picks picks;
    struct graph g;

    program_must(conv_graph(&g, d, &targets[p], &err), &err, "a graph");
    program_must(
        graph_pick(&picks, &g, &targets[p], &rules, false, caps[p], &err), &err,
        "an engine");
    snprintf(to, n, "%" PRId64 "%s, %zu MiB", picks.at[0].engine,
             picks.at[0].tensor_cores ? "T" : "",
             picks.at[0].workspace_bytes >> 20);
    graph_picks_forget(&picks, 0);
    graph_release(&g);
}

static void engine_of(char *to, size_t n, const struct kern_desc *d)
{
    char other[64];

    if (d->op == KERN_MATMUL) {
        snprintf(to, n, "cuBLASLt");
        return;
    }
    if (op_work_flop(d) == 0) {
        snprintf(to, n, "ours");
        return;
    }
    ask(to, n, d, 0);
    for (unsigned p = 1; p < CARDS; p++) {
        ask(other, sizeof(other), d, p);
        if (strcmp(other, to) != 0)
            snprintf(to + strlen(to), n - strlen(to), " (%s: %s)",
                     gpu_rates[p].head, other);
    }
}

// ---- The table ------------------------------------------------------------

struct table {
    struct kern_dev dev;
    struct job_env env;
    struct record *record;
    struct worker_job *job;
    struct program *program[BATCHES];
    struct program_memory memory;
    unsigned batch[BATCHES];
};

static void compile_it(struct table *t, unsigned b)
{
    const Sluice__V1__JobSpec *spec = t->record->open->spec;
    enum spec_precision precision = spec_precision(spec);
    struct sl_error err = SL_ERROR_INIT;
    struct compile_options o = {
        .loss = t->job->loss,
        .from_logits = spec->from_logits,
        .smoothing = spec->label_smoothing,
        .train = true,
        .batch = t->batch[b],
        .input = KERN_U8,
        .input_scale = 1.0 / 255,
        .compute = precision == SPEC_BF16  ? KERN_BF16
                   : precision == SPEC_F16 ? KERN_F16
                                           : KERN_F32,
        .math = precision == SPEC_TF32 ? KERN_MATH_TF32 : KERN_MATH_F32,
    };

    program_must(
        compile(&t->program[b], &t->dev, t->job->model, &o, &t->memory, &err),
        &err, "the program");
}

static const struct kern_desc *desc_at(const struct program *p, uint32_t i)
{
    return &((const struct noted *)p->ops[i].plan)->desc;
}

// "conv_fwd 512x128x128x32", by the first tensor without its batch.
static void name_of(char *to, size_t n, const struct kern_desc *d)
{
    const struct kern_shape *s = &d->io[0];
    size_t used =
        (size_t)snprintf(to, n, "%s of n", kern_op_name((enum kern_op)d->op));

    for (unsigned i = 1; i < s->nd && used < n; i++)
        used += (size_t)snprintf(to + used, n - used, "x%" PRId64, s->dim[i]);
}

// Not worth a line: nothing but the launch takes time.
static bool tiny(const struct table *t, uint32_t i)
{
    return op_work_bytes(desc_at(t->program[BATCHES - 1], i)) < 1e7;
}

static void print_row(const struct table *t, uint32_t i)
{
    char name[80], engine[160];

    name_of(name, sizeof(name), desc_at(t->program[0], i));
    printf("| %s |", name);
    for (unsigned b = 0; b < BATCHES; b++) {
        const struct kern_desc *d = desc_at(t->program[b], i);

        printf(" %.1f | %.2f |",
               (op_work_bytes(d) + op_work_extra_bytes(d)) / 1e6,
               op_work_flop(d) / 1e9);
        for (unsigned p = 0; p < CARDS; p++)
            printf(" %.1f |", op_work_seconds(d, &gpu_rates[p]) * 1e6);
        engine_of(engine, sizeof(engine), d);
        printf(" %s |", engine);
    }
    printf("\n");
}

static void print_sums(const struct table *t)
{
    printf("| **sum** |");
    for (unsigned b = 0; b < BATCHES; b++) {
        double bytes = 0, flop = 0, seconds[CARDS] = {0};

        for (uint32_t i = 0; i < t->program[b]->count; i++) {
            const struct kern_desc *d = desc_at(t->program[b], i);

            bytes += op_work_bytes(d) + op_work_extra_bytes(d);
            flop += op_work_flop(d);
            for (unsigned p = 0; p < CARDS; p++)
                seconds[p] += op_work_seconds(d, &gpu_rates[p]);
        }
        printf(" %.1f | %.2f |", bytes / 1e6, flop / 1e9);
        for (unsigned p = 0; p < CARDS; p++)
            printf(" %.1f |", seconds[p] * 1e6);
        printf(" |");
    }
    printf("\n");
}

static void print(const struct table *t)
{
    unsigned others = 0;

    printf("%s, cuDNN %zu\n\n",
           spec_precision_name(spec_precision(t->record->open->spec)),
           cudnnGetVersion());
    printf("| op |");
    for (unsigned b = 0; b < BATCHES; b++) {
        printf(" %u: MB | GFLOP |", t->batch[b]);
        for (unsigned p = 0; p < CARDS; p++)
            printf(" %s us |", gpu_rates[p].head);
        printf(" engine |");
    }
    printf("\n| --- |");
    for (unsigned i = 0; i < BATCHES * (3 + CARDS); i++)
        printf(" --- |");
    printf("\n");
    for (uint32_t i = 0; i < t->program[0]->count; i++) {
        if (tiny(t, i))
            others++;
        else
            print_row(t, i);
    }
    if (others > 0)
        printf("| %u of less than 10 MB at %u |\n", others,
               t->batch[BATCHES - 1]);
    print_sums(t);
}

// ---- The program ----------------------------------------------------------

static const struct conf_about about = {
    .program = "gpu_table",
    .usage = "gpu_table --spec FILE [OPTION]...",
    .text = "Prints what each op of a job's step asks of a GPU, and which "
            "engine cuDNN's heuristics take for it; needs cuDNN and no GPU.",
    .example = "gpu_table --spec examples/imagenette.yaml "
               "--set train.precision=bf16",
};

static const struct conf_key keys[] = {
    {.name = "batch",
     .kind = CONF_INT,
     .value = "32",
     .min = 1,
     .max = 1 << 16,
     .unit = "samples",
     .help = "Of the first half of the table."},
    {.name = "large",
     .kind = CONF_INT,
     .value = "512",
     .min = 1,
     .max = 1 << 16,
     .unit = "samples",
     .help = "Of the second."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {net_job_keys, keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct table t = {.dev = {.backend = &backend},
                      .batch = {(unsigned)conf_int(c, "batch"),
                                (unsigned)conf_int(c, "large")}};
    struct sl_error err = SL_ERROR_INIT;

    t.env.dev = &t.dev;
    t.env.roots = t_roots();
    t.memory.dev = &t.dev;
    t.record = net_job_record(c);
    program_must(worker_job_new(&t.job, t.record, &t.env, &err), &err,
                 "the job");
    describe();
    for (unsigned b = 0; b < BATCHES; b++)
        compile_it(&t, b);
    print(&t);
    // The process ends, and what it holds goes with it.
    conf_free(c);
    return 0;
}
