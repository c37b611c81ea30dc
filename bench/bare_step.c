// SPDX-License-Identifier: Apache-2.0
// bench/bare_step.c -- a worker's training steps without a cluster.
//
// Model, data, order, batches ahead and the compiled program are the worker's
// own; the only thread beside this one is its input thread, on the same core.
// What is left out is everything that makes it distributed: leases, shards,
// messages. With --apply the optimizer runs here, as it does at a psserver.
//
// In turn, --rounds times: steps for --seconds, the FMA peak of this core, and
// for a model of dense layers their products alone. Prints the milliseconds of
// each. With --where also those of each operation, in steps of their own. With
// --memory: steps, and steps on batches that lie in memory. With --start no
// step: how long a worker's first start takes to compile the program, with its
// kernels checked or (--no-prove) not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/floor.h"
#include "bench/net_job.h"
#include "bench/op_times.h"
#include "bench/program.h"
#include "kernels/optim.h"
#include "kernels/prove/prove.h"
#include "tests/harness/roots.h"
#include "worker/data/input.h"
#include "worker/lease/job.h"

#define ROUNDS_MAX 64
#define TIMED_STEPS 200 // of --where

struct bare {
    struct kern_dev *dev;
    struct job_env env;
    struct record *record;
    struct worker_job *job;
    struct data *data;
    struct input *input;
    struct input_run run[2]; // this epoch and the next
    uint64_t epoch;          // of run[epoch % 2]
    uint32_t step, steps;    // of the epoch
    uint32_t batch;
    struct batch held[INPUT_SLOTS]; // with --memory, for a while
    uint32_t next;                  // of held
    struct program *program;
    struct program_io io;
    bool apply, memory, narrow;
    struct optim optim;
    uint64_t t;
    float *slots[OPTIM_SLOTS_MAX];
    double loss;            // of the last step
    struct op_times *times; // NULL: the program runs in one go
};

// ---- what a step works on

static void seed(struct bare *b)
{
    const struct model *m = b->job->model;
    float *params = program_memory(m->elements * sizeof(float));

    net_job_params(params, m);
    b->io.params = params;
    b->io.grads = program_memory(m->elements * sizeof(float));
    for (unsigned i = 0; i < optim_slots(&b->optim); i++)
        b->slots[i] = program_memory(m->elements * sizeof(float));
}

static enum kern_dtype compute_of(enum spec_precision precision)
{
    return precision == SPEC_BF16  ? KERN_BF16
           : precision == SPEC_F16 ? KERN_F16
                                   : KERN_F32;
}

static void compile_it(struct bare *b, struct sl_error *err)
{
    struct compile_options o = {
        .loss = b->job->loss,
        .from_logits = b->record->open->spec->from_logits,
        .smoothing = b->record->open->spec->label_smoothing,
        .train = true,
        .batch = b->batch,
        .seed = 1,
        .compute = compute_of(b->job->precision),
        .half_if_faster = true,
    };

    program_must(job_data(b->job, false, &b->data, err), err, "the data");
    o.input = data_is_u8(b->data) ? KERN_U8 : KERN_F32;
    o.input_scale = (double)data_scale(b->data);
    o.input_offset = (double)data_offset(b->data);
    b->job->memory.dev = b->dev;
    program_must(
        compile(&b->program, b->dev, b->job->model, &o, &b->job->memory, err),
        err, "the program");
}

// ---- batches

static void open_epoch(struct bare *b, uint64_t epoch)
{
    struct input_run *run = &b->run[epoch % 2];
    uint64_t samples = data_samples(b->data);

    *run = (struct input_run){.data = b->data,
                              .shuffle = true,
                              .epoch = epoch,
                              .count = samples - samples % b->batch,
                              .batch = b->batch};
    program_must(order_init(&run->order, 1, epoch, samples), NULL, "an order");
    input_open(b->input, run);
}

static void take_batch(struct bare *b, struct batch *out, struct sl_error *err)
{
    if (b->step == b->steps) {
        input_close(b->input, &b->run[b->epoch % 2]);
        open_epoch(b, b->epoch + 2);
        b->epoch++;
        b->step = 0;
    }
    program_must(
        input_get(b->input, &b->run[b->epoch % 2], b->step++, out, err), err,
        "a batch");
}

static void open_input(struct bare *b, struct sl_error *err)
{
    program_must(input_new(&b->input, 1, err), err, "the input");
    open_epoch(b, 0);
    open_epoch(b, 1);
    b->steps = input_run_steps(&b->run[0]);
}

// All that the ring has, so that its thread has nowhere to read to.
static void hold_batches(struct bare *b)
{
    struct sl_error err = SL_ERROR_INIT;

    for (int i = 0; i < INPUT_SLOTS; i++)
        take_batch(b, &b->held[i], &err);
}

static void put_batches(struct bare *b)
{
    for (int i = 0; i < INPUT_SLOTS; i++)
        input_put(b->input, &b->held[i]);
}

// ---- steps

static void run_program(struct bare *b, const struct batch *batch)
{
    struct sl_error err = SL_ERROR_INIT;

    b->io.x = batch->x;
    b->io.labels = batch->y;
    if (b->times != NULL)
        op_times_step(b->times, &b->io);
    else
        program_must(
            program_run(b->program, &b->io, 0, b->program->count, &err), &err,
            "a step");
    b->loss = program_loss_sum(b->program) / batch->n;
}

static void apply_gradient(struct bare *b)
{
    optim_apply(&b->optim, ++b->t, 0.001, b->job->model->elements, b->io.grads,
                b->io.params, b->slots);
}

static void one_step(struct bare *b)
{
    struct sl_error err = SL_ERROR_INIT;
    struct batch batch;

    take_batch(b, &batch, &err);
    run_program(b, &batch);
    input_put(b->input, &batch);
    if (b->apply)
        apply_gradient(b);
}

static void memory_step(void *arg)
{
    struct bare *b = arg;

    run_program(b, &b->held[b->next++ % INPUT_SLOTS]);
    if (b->apply)
        apply_gradient(b);
}

static void gemm_step(void *arg)
{
    floor_gemms_run(arg);
}

static void bare_step(void *arg)
{
    one_step(arg);
}

// Milliseconds of one call, over so many seconds of them.
static double time_of(void (*fn)(void *arg), void *arg, double seconds)
{
    double began = program_now_s(), now;
    unsigned calls = 0;

    do {
        fn(arg);
        calls++;
        now = program_now_s();
    } while (now < began + seconds);
    return (now - began) * 1e3 / calls;
}

// Of both kinds of step, neither of which does the other's reading: the ring
// is as in the middle of an epoch when its time begins. Their batches lie at
// the same places, so that those make no difference.
static void compare(struct bare *b, double seconds, double *step,
                    double *memory)
{
    for (int i = 0; i < 2 * INPUT_SLOTS; i++)
        one_step(b);
    *step = time_of(bare_step, b, seconds);
    hold_batches(b);
    for (int i = 0; i < 2 * INPUT_SLOTS; i++)
        memory_step(b);
    *memory = time_of(memory_step, b, seconds);
    put_batches(b);
}

static void open_dev(struct bare *b, const char *isa, int threads, bool prove,
                     struct sl_error *err)
{
    char options[64];

    snprintf(options, sizeof(options), "threads=%d,prove=%d%s%s", threads,
             prove, isa != NULL ? ",cpu.isa=" : "", isa != NULL ? isa : "");
    program_must(kern_open(&b->dev, "auto", options, err), err, "a device");
    b->narrow = isa != NULL && strcmp(isa, "avx2") == 0;
}

static bool only_dense(const struct model *m)
{
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        if (m->nodes[i].type == MODEL_CONV2D)
            return false;
    }
    return true;
}

// ---- the program

static void print(const char *key, const double *ms, int rounds)
{
    printf(", ");
    program_print_list(key, ms, rounds);
}

// The input thread's is what the process used and this thread did not.
static double read_ms(void)
{
    return 1e3 * (program_cpu_s() - program_thread_s());
}

// Where a step's time goes: each operation, the reading of the next batches,
// and the optimizer.
static void print_where(struct bare *b)
{
    double read = read_ms(), began, apply = 0;

    b->times = op_times_new(b->program, b->job->model, TIMED_STEPS);
    for (int i = 0; i < TIMED_STEPS; i++)
        one_step(b);
    read = (read_ms() - read) / TIMED_STEPS;
    began = program_now_s();
    for (int i = 0; i < TIMED_STEPS && b->apply; i++)
        apply_gradient(b);
    apply = (program_now_s() - began) * 1e3 / TIMED_STEPS;
    printf(", \"read_ms\": %.6g, \"apply_ms\": %.6g, \"ops\": ", read, apply);
    op_times_print(b->times);
    op_times_free(b->times);
    b->times = NULL;
}

static void start(struct bare *b, struct sl_error *err)
{
    double began = program_now_s();
    struct proofs proofs;

    compile_it(b, err);
    proofs = kern_proofs(b->dev);
    printf("{\"what\": \"bare_step\", \"batch\": %u, \"start_ms\": %.6g, "
           "\"checked\": %u, \"wrong\": %u}\n",
           b->batch, (program_now_s() - began) * 1e3, proofs.checked,
           proofs.wrong);
}

static void measure(struct bare *b, int rounds, double seconds, bool where)
{
    double step[ROUNDS_MAX] = {0}, bound[ROUNDS_MAX] = {0};
    double gemm[ROUNDS_MAX] = {0}, memory[ROUNDS_MAX] = {0};
    double flop = floor_flop(b->job->model, b->batch), began = b->loss;
    struct floor_gemms *g = NULL;

    if (only_dense(b->job->model) && !b->memory)
        g = floor_gemms_new(b->job->model, b->batch);
    for (int i = 0; i < rounds; i++) {
        if (b->memory) {
            compare(b, seconds, &step[i], &memory[i]);
            continue;
        }
        bound[i] = flop / floor_fma_peak(b->narrow) * 1e3;
        step[i] = time_of(bare_step, b, seconds);
        if (g != NULL)
            gemm[i] = time_of(gemm_step, g, seconds / 2);
    }
    printf("{\"what\": \"bare_step\", \"batch\": %u, \"parameters\": %llu, "
           "\"flop\": %.6g, \"loss_first\": %.4f, \"loss_last\": %.4f",
           b->batch, (unsigned long long)b->job->model->elements, flop, began,
           b->loss);
    print("step_ms", step, rounds);
    if (b->memory)
        print("memory_ms", memory, rounds);
    else
        print("bound_ms", bound, rounds);
    if (g != NULL) {
        print("gemm_ms", gemm, rounds);
        floor_gemms_free(g);
    }
    if (where)
        print_where(b);
    printf("}\n");
}

static const struct conf_about about = {
    .program = "bare_step",
    .usage = "bare_step --spec FILE [OPTION]...",
    .text = "Runs the training steps of a job in a bare loop on one core, and "
            "the floors of their multiplications.",
    .example = "bare_step --spec examples/fashion-cnn.yaml --batch 64",
};

static const struct conf_key keys[] = {
    {.name = "batch",
     .kind = CONF_INT,
     .value = "64",
     .min = 1,
     .max = 1 << 16,
     .unit = "samples",
     .help = "Of one step."},
    {.name = "apply",
     .kind = CONF_BOOL,
     .value = "true",
     .help = "Update the parameters with Adam after each step."},
    {.name = "memory",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Compare with steps on batches that lie in memory."},
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "5",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often each is measured."},
    {.name = "seconds",
     .kind = CONF_FLOAT,
     .value = "1",
     .help = "Of one round."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = "isa",
     .kind = CONF_STRING,
     .help = "Use no wider instructions than these, nor in the floors: avx2 or "
             "avx512."},
    {.name = "start",
     .kind = CONF_BOOL,
     .value = "false",
     .help =
         "Time the making of the program alone, on two threads that are not "
         "pinned."},
    {.name = "prove",
     .kind = CONF_BOOL,
     .value = "true",
     .help = "Check the kernels before they are used."},
    {.name = "where",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Also time each operation."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {net_job_keys, keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    struct sl_error err = SL_ERROR_INIT;
    struct bare b = {.batch = (uint32_t)conf_int(c, "batch"),
                     .apply = conf_bool(c, "apply"),
                     .memory = conf_bool(c, "memory")};

    if (!conf_bool(c, "start"))
        program_pin((int)conf_int(c, "cpu"));
    open_dev(&b, conf_str(c, "isa"), conf_bool(c, "start") ? 2 : 1,
             conf_bool(c, "prove"), &err);
    optim_defaults(&b.optim, OPTIM_ADAM);
    b.env.dev = b.dev;
    b.env.roots = t_roots();
    b.record = net_job_record(c);
    program_must(worker_job_new(&b.job, b.record, &b.env, &err), &err,
                 "the job");
    seed(&b);
    if (conf_bool(c, "start")) {
        start(&b, &err);
        conf_free(c);
        return 0;
    }
    compile_it(&b, &err);
    open_input(&b, &err);
    one_step(&b);
    (void)time_of(bare_step, &b, 0.5);
    measure(&b, (int)conf_int(c, "rounds"), conf_float(c, "seconds"),
            conf_bool(c, "where"));
    // The process ends: what it holds goes with it, but for the thread that
    // still reads into this frame.
    input_close(b.input, &b.run[0]);
    input_close(b.input, &b.run[1]);
    input_free(b.input);
    conf_free(c);
    return 0;
}
