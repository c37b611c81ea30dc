// SPDX-License-Identifier: Apache-2.0
// bench/gpu_step.c -- a worker's step on a device, and nothing around it.
//
// The compiled program is the worker's own; parameters and one batch of noise,
// of the kind that the job's data is (bytes of images), lie in the device's
// memory, and the gradient stays there. What is left out is what a worker does
// besides: reading, copies, leases, shards.
//
// The step is enqueued once as it is, then recorded whole (a CUDA graph), and
// the recording is run again and again: --rounds times for --seconds. Prints
// the milliseconds of each round, and those of steps that are not recorded.
// Every step has the same loss and gradient, bit for bit, or this fails.
//
// --ops  also times each op by itself, in its place in the step: the ops before
//        it run once, then a recording that has it so often that a round takes
//        a while. Prints what the op asks of the device (op_work.h) beside it.
// --tune makes the plans of these batches, which --options keeps in a file, and
//        prints a line per batch; runs nothing.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/net_job.h"
#include "bench/op_times.h"
#include "bench/op_work.h"
#include "bench/plan_notes.h"
#include "bench/program.h"
#include "common/base/rng.h"
#include "tests/harness/roots.h"
#include "worker/lease/job.h"

#define ROUNDS_MAX 64
#define WARM_STEPS 5
#define OP_RUNS_MOST 50 // of an op in one recording
#define OP_ROUNDS 3
#define BATCH_MOST (1 << 16)
#define LOSS_SCALE 32768.0 // in f16, at first

struct gpu_step {
    struct kern_dev *dev;
    const struct kern_backend *backend;
    struct kern_stream *stream;
    struct job_env env;
    struct record *record;
    struct worker_job *job;
    struct program *program;
    struct kern_mem mem[PROGRAM_PLACES];
    uint8_t *at[PROGRAM_PLACES];
    struct kern_plan *recording;
    uint32_t batch;
    const struct gpu_rates *rates; // NULL: of a card that is not known
    bool ops;                      // times each op, too
    double loss;                   // of the first step
    uint64_t digest;
};

static void must(struct gpu_step *g, enum sl_err rc, const char *what)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rc != SL_OK)
        sl_fail(&err, rc, "%s", program_fault(g->dev, rc));
    program_must(rc, &err, what);
}

// ---- Device and program ---------------------------------------------------

static void open_device(struct gpu_step *g, const struct conf *c)
{
    struct sl_error err = SL_ERROR_INIT;

    program_must(
        kern_open(&g->dev, conf_str(c, "device"), conf_str(c, "options"), &err),
        &err, "a device");
    g->backend = g->dev->backend;
    if (g->backend->host)
        program_die("%s computes in host memory: bench.bare_step measures that",
                    g->backend->name);
    must(g, g->backend->stream_new(&g->stream, g->dev, 0), "a stream");
}

// The data sheet of the card that is named, or of the device.
static const struct gpu_rates *rates_of(struct gpu_step *g, const char *name)
{
    const struct gpu_rates *found;
    struct kern_info info;

    g->backend->info(&info, g->dev);
    found = gpu_rates_of(name != NULL ? name : info.name);
    if (name != NULL && found == NULL)
        program_die("--rates %s: no such card is known", name);
    return found;
}

// The very program of a worker: with that precision, fed with bytes where the
// data is bytes.
static void compile_it(struct gpu_step *g)
{
    struct sl_error err = SL_ERROR_INIT;

    if (g->ops)
        plan_notes_begin(g->dev);
    program_must(job_compile(g->job, JOB_TRAINS, g->batch, &g->program, &err),
                 &err, "the program");
    if (g->job->precision == SPEC_F16)
        program_set_loss_scale(g->program, LOSS_SCALE);
}

// ---- What it works on -----------------------------------------------------

// A place on the device with these bytes; NULL: zeroes.
static void place(struct gpu_step *g, enum program_place where,
                  const void *from, size_t bytes)
{
    enum sl_err rc =
        g->backend->alloc(&g->mem[where], g->dev, bytes + 1, KERN_DEVICE);

    must(g, rc, "memory on the device");
    g->at[where] = g->mem[where].at;
    if (from)
        rc = g->backend->copy(g->stream, g->at[where], from, bytes,
                              KERN_TO_DEVICE);
    else
        rc = g->backend->fill(g->stream, g->at[where], 0, bytes);
    must(g, rc, "a copy to the device");
}

// Bytes as a file has them, or numbers: noise.
static void place_x(struct gpu_step *g)
{
    size_t n =
        (size_t)g->batch * model_shape_elements(&g->job->model->nodes[0].out);
    float *x = program_memory(n * sizeof(*x));
    uint8_t *bytes = program_memory(n);

    rng_fill_uniform(x, 2, 0, 0, n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(x[i] * 256);
    if (data_is_u8(g->job->train))
        place(g, PROGRAM_X, bytes, n);
    else
        place(g, PROGRAM_X, x, n * sizeof(*x));
    must(g, g->backend->stream_sync(g->stream), "the batch");
    free(x);
    free(bytes);
}

static void place_labels(struct gpu_step *g)
{
    int32_t *labels = program_memory(g->batch * sizeof(*labels));
    struct sl_error err = SL_ERROR_INIT;
    struct data_want want;

    program_must(compile_wants(&want, g->job->model, g->job->loss, NULL, &err),
                 &err, "the data");
    if (want.labels != DATA_INDEX)
        program_die("the net's loss must want classes as labels");
    for (uint32_t i = 0; i < g->batch; i++)
        labels[i] = (int32_t)(i % want.outputs);
    place(g, PROGRAM_LABELS, labels, g->batch * sizeof(*labels));
    must(g, g->backend->stream_sync(g->stream), "the labels");
    free(labels);
}

static void place_everything(struct gpu_step *g)
{
    uint64_t elements = g->job->model->elements;
    float *params = program_memory(elements * sizeof(*params));

    net_job_params(params, g->job->model);
    place(g, PROGRAM_PARAMS, params, elements * sizeof(*params));
    place(g, PROGRAM_GRADS, NULL, elements * sizeof(*params));
    place_x(g);
    place_labels(g);
    for (int i = 0; i < PROGRAM_PLACES; i++) {
        struct kern_mem own = program_own(g->program, (enum program_place)i);

        if (own.bytes > 0)
            place(g, (enum program_place)i, own.at, own.bytes);
    }
    g->at[PROGRAM_ARENA] = g->job->memory.arena.at;
    must(g, g->backend->stream_sync(g->stream), "the parameters");
    free(params);
}

// ---- Steps ----------------------------------------------------------------

static void enqueue(struct gpu_step *g)
{
    struct sl_error err = SL_ERROR_INIT;

    program_must(program_enqueue(g->program, g->stream, g->at, 0,
                                 g->program->count, NULL, &err),
                 &err, "a step");
}

static void replay(struct gpu_step *g)
{
    must(g, kern_run(g->recording, g->stream, NULL, NULL), "a recorded step");
}

static void wait(struct gpu_step *g)
{
    must(g, g->backend->stream_sync(g->stream), "waiting for the device");
}

static void record(struct gpu_step *g)
{
    must(g, g->backend->record_begin(g->stream), "to record");
    enqueue(g);
    must(g, g->backend->record_end(&g->recording, g->stream), "to record");
}

static double loss_now(struct gpu_step *g)
{
    struct kern_mem own = program_own(g->program, PROGRAM_STATS);

    must(g,
         g->backend->copy(g->stream, own.at, g->at[PROGRAM_STATS], own.bytes,
                          KERN_TO_HOST),
         "the loss");
    wait(g);
    return program_loss_sum(g->program) / g->batch;
}

// Copies the gradient; free it.
static float *gradient_now(struct gpu_step *g)
{
    size_t n = g->job->model->elements;
    float *gradient = program_memory(n * sizeof(*gradient));

    must(g,
         g->backend->copy(g->stream, gradient, g->at[PROGRAM_GRADS],
                          n * sizeof(*gradient), KERN_TO_HOST),
         "the gradient");
    wait(g);
    return gradient;
}

// Returns the number of the first element that is not finite; their count if
// all are.
static size_t first_not_finite(const float *x, size_t n)
{
    size_t i = 0;

    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

static uint64_t gradient_digest(struct gpu_step *g)
{
    size_t n = g->job->model->elements, bad;
    float *gradient = gradient_now(g);
    uint64_t h = 7;
    uint32_t bits;

    bad = first_not_finite(gradient, n);
    if (bad < n)
        program_die("element %zu of the gradient is %g", bad, gradient[bad]);
    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &gradient[i], sizeof(bits));
        h = (h ^ bits) * 0x100000001b3u;
    }
    free(gradient);
    return h;
}

// Parameters do not change, so neither does what a step finds.
static void check_same(struct gpu_step *g, const char *which)
{
    double loss = loss_now(g);
    uint64_t digest = gradient_digest(g);

    if (!isfinite(loss))
        program_die("%s: the loss is %g", which, loss);
    if (g->digest == 0) {
        g->loss = loss;
        g->digest = digest;
    } else if (loss != g->loss || digest != g->digest) {
        program_die("%s: loss %.9g and another gradient, %.9g at first", which,
                    loss, g->loss);
    }
}

static void copy_own(struct gpu_step *g, enum program_place where)
{
    struct kern_mem own = program_own(g->program, where);

    must(g,
         g->backend->copy(g->stream, g->at[where], own.at, own.bytes,
                          KERN_TO_DEVICE),
         "the loss scale");
}

// Runs the first step; in f16 with the loss scale that a worker would come to.
static void first_step(struct gpu_step *g)
{
    size_t n = g->job->model->elements;

    for (double scale = LOSS_SCALE;; scale /= 2) {
        float *gradient;
        bool fits;

        enqueue(g); // libraries load their code now
        gradient = gradient_now(g);
        fits = first_not_finite(gradient, n) == n;
        free(gradient);
        if (fits || g->job->precision != SPEC_F16 || scale < 2)
            return;
        program_set_loss_scale(g->program, scale / 2);
        copy_own(g, PROGRAM_SCALE);
        copy_own(g, PROGRAM_UNSCALE);
    }
}

// ---- Time -----------------------------------------------------------------

// Of one step, of as many as fit into so many seconds.
static double time_of(struct gpu_step *g, void (*step)(struct gpu_step *g),
                      double seconds)
{
    double began, one;
    long count;

    for (int i = 0; i < WARM_STEPS; i++)
        step(g);
    wait(g);
    began = program_now_s();
    step(g);
    wait(g);
    one = program_now_s() - began;
    count = one < seconds ? (long)(seconds / one) + 1 : 1;
    began = program_now_s();
    for (long i = 0; i < count; i++)
        step(g);
    wait(g);
    return (program_now_s() - began) * 1e3 / (double)count;
}

// Records op i so many times in a row.
static struct kern_plan *record_op(struct gpu_step *g, uint32_t i, long runs)
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_plan *recording = NULL;

    must(g, g->backend->record_begin(g->stream), "to record an op");
    for (long k = 0; k < runs; k++)
        program_must(
            program_enqueue(g->program, g->stream, g->at, i, i + 1, NULL, &err),
            &err, "an op");
    must(g, g->backend->record_end(&recording, g->stream), "to record an op");
    return recording;
}

// Returns the milliseconds of one run of a recording: the best of the rounds.
static double op_recording_ms(struct gpu_step *g, struct kern_plan *recording)
{
    double best = INFINITY;

    for (int r = 0; r < OP_ROUNDS + 1; r++) { // the first one warms up
        double began = program_now_s(), ms;

        must(g, kern_run(recording, g->stream, NULL, NULL), "a recorded op");
        wait(g);
        ms = (program_now_s() - began) * 1e3;
        if (r > 0 && ms < best)
            best = ms;
    }
    return best;
}

// Returns the milliseconds of op i: what a recording of many takes more than
// one of a single op, so that launching and waiting do not count.
static double op_ms(struct gpu_step *g, uint32_t i, double seconds)
{
    struct kern_plan *one = record_op(g, i, 1), *many;
    double one_ms = op_recording_ms(g, one), many_ms;
    double fit = seconds * 1e3 / one_ms;
    long runs = fit < 2 ? 2 : fit > OP_RUNS_MOST ? OP_RUNS_MOST : (long)fit;

    many = record_op(g, i, runs);
    many_ms = op_recording_ms(g, many);
    kern_plan_free(one);
    kern_plan_free(many);
    return many_ms > one_ms ? (many_ms - one_ms) / (double)(runs - 1)
                            : many_ms / (double)runs;
}

static void print_op(struct gpu_step *g, uint32_t i, double ms)
{
    const struct program_op *op = &g->program->ops[i];
    const struct kern_desc *d = plan_notes_desc(op->plan);

    if (d == NULL)
        program_die("op %u has a plan that was not noted", i);
    printf("%s{\"layer\": \"%s\", \"pass\": \"%s\", \"op\": \"%s\", "
           "\"impl\": \"%s\", \"ms\": %.6g, \"bytes\": %.6g, "
           "\"flop\": %.6g, \"least_ms\": ",
           i ? ", " : "", g->job->model->nodes[op->node].name,
           op_times_pass(g->program, i), kern_op_name(op->op), op->plan->impl,
           ms, op_work_bytes(d) + op_work_extra_bytes(d), op_work_flop(d));
    if (g->rates == NULL)
        printf("null}");
    else
        printf("%.6g}", op_work_seconds(d, g->rates) * 1e3);
}

// An op's inputs are what the ops before it leave there, in memory that later
// ops use again: each op is run behind a step's beginning.
static void print_ops(struct gpu_step *g, double seconds)
{
    struct sl_error err = SL_ERROR_INIT;

    printf(", \"rates\": ");
    if (g->rates == NULL)
        printf("null");
    else
        printf("\"%s\"", g->rates->name);
    printf(", \"op_times\": [");
    for (uint32_t i = 0; i < g->program->count; i++) {
        program_must(
            program_enqueue(g->program, g->stream, g->at, 0, i, NULL, &err),
            &err, "the beginning of a step");
        wait(g);
        print_op(g, i, op_ms(g, i, seconds));
    }
    printf("]");
}

static void print(struct gpu_step *g, const double *ms, int rounds,
                  double unrecorded)
{
    struct kern_info info;

    g->backend->info(&info, g->dev);
    printf("{\"what\": \"gpu_step\", \"device\": \"%s\", \"batch\": %u, "
           "\"precision\": \"%s\", \"input\": \"%s\", \"ops\": %u, "
           "\"parameters\": %llu, "
           "\"arena_bytes\": %zu, \"workspace_bytes\": %zu, "
           "\"loss_first\": %.6g, \"loss_last\": %.6g, "
           "\"unrecorded_ms\": %.6g, \"step_ms\": [",
           info.name, g->batch, spec_precision_name(g->job->precision),
           data_is_u8(g->job->train) ? "u8" : "f32", g->program->count,
           (unsigned long long)g->job->model->elements, g->program->arena_bytes,
           g->program->workspace_bytes, g->loss, loss_now(g), unrecorded);
    for (int i = 0; i < rounds; i++)
        printf("%s%.6g", i ? ", " : "", ms[i]);
    printf("]");
}

static void measure(struct gpu_step *g, int rounds, double seconds)
{
    double ms[ROUNDS_MAX], unrecorded;

    first_step(g);
    check_same(g, "the first step");
    unrecorded = time_of(g, enqueue, seconds / 2);
    check_same(g, "a second step");
    record(g);
    for (int i = 0; i < rounds; i++)
        ms[i] = time_of(g, replay, seconds);
    check_same(g, "the recorded step");
    print(g, ms, rounds, unrecorded);
    if (g->ops)
        print_ops(g, seconds / OP_ROUNDS);
    printf("}\n");
}

// ---- Plans only -----------------------------------------------------------

// Makes the plans of each batch in "32,512"; what a kept plan has, costs
// nothing.
static void tune(struct gpu_step *g, const char *batches)
{
    for (const char *at = batches; *at != '\0';) {
        double began = program_now_s();
        char *end = NULL;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > BATCH_MOST ||
            (*end != ',' && *end != '\0'))
            program_die("--tune %s: batches with commas between", batches);
        g->batch = (uint32_t)n;
        compile_it(g);
        program_free(g->program);
        g->program = NULL;
        printf("{\"tuned\": %ld, \"seconds\": %.3f}\n", n,
               program_now_s() - began);
        fflush(stdout);
        at = *end == ',' ? end + 1 : end;
    }
}

// ---- The program ----------------------------------------------------------

static const struct conf_about about = {
    .program = "gpu_step",
    .usage = "gpu_step --spec FILE [OPTION]...",
    .text = "Runs the training step of a job on a device, again and again, as "
            "one recording.",
    .example = "gpu_step --spec examples/fashion-cnn.yaml --batch 320 "
               "--set train.precision=bf16",
};

static const struct conf_key keys[] = {
    {.name = "batch",
     .kind = CONF_INT,
     .value = "320",
     .min = 1,
     .max = BATCH_MOST,
     .unit = "samples",
     .help = "Of one step."},
    {.name = "tune",
     .kind = CONF_STRING,
     .help = "Batches whose plans are made, \"32,512\"; nothing is run."},
    {.name = "ops", .kind = CONF_BOOL, .help = "Times each op, too."},
    {.name = "rates",
     .kind = CONF_STRING,
     .help = "The card whose data sheet holds, if not the device's own name: "
             "\"NVIDIA H200\"."},
    {.name = "device",
     .kind = CONF_STRING,
     .value = "cuda",
     .help = "As of a worker: cuda or cuda:N."},
    {.name = "options",
     .kind = CONF_STRING,
     .help = "Of the device: autotune=1, deterministic=0, ..."},
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "5",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often it is measured."},
    {.name = "seconds",
     .kind = CONF_FLOAT,
     .value = "0.5",
     .help = "Of one round."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {net_job_keys, keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct gpu_step g = {.batch = (uint32_t)conf_int(c, "batch")};
    struct sl_error err = SL_ERROR_INIT;

    open_device(&g, c);
    g.ops = conf_bool(c, "ops");
    g.rates = rates_of(&g, conf_str(c, "rates"));
    g.env.dev = g.dev;
    g.env.roots = t_roots();
    g.record = net_job_record(c);
    program_must(worker_job_new(&g.job, g.record, &g.env, &err), &err,
                 "the job");
    if (conf_str(c, "tune") != NULL) {
        tune(&g, conf_str(c, "tune"));
        return 0;
    }
    compile_it(&g);
    place_everything(&g);
    measure(&g, (int)conf_int(c, "rounds"), conf_float(c, "seconds"));
    // The process ends, and what it holds goes with it.
    conf_free(c);
    return 0;
}
