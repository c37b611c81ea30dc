// SPDX-License-Identifier: Apache-2.0
// bench/local_apply.c -- how near a shard of mode local comes to what memory
// gives, from the bytes of a contribution to new parameters.
//
//   ours   shard_push of a contribution in e3m0, of a round of one: checked,
//          decoded, averaged, applied with momentum, and counted
//   open   the same of a round without slots (train.quorum), which keeps no
//          parameters of the round before
//   peer   a = b + x c
//
// on one thread, in turn. Counted is what must cross the memory bus: of ours
// the code, and parameters and slot twice, read and written; so whatever else
// the shard reads or writes is a loss. `mirrored` is the same of a shard that
// also makes the change which it sends to workers.
#include <stdio.h>
#include <string.h>

#include "bench/program.h"
#include "state/shard/shard.h"

#define ELEMENTS ((size_t)12 << 20)
#define PUSHES 8 // of a round of the benchmark
#define ROUNDS_MAX 64

struct bench_shard {
    struct shard *shard;
    uint8_t *code;
    size_t code_bytes;
    uint64_t closure;
};

static void shard_make(struct bench_shard *b, uint32_t down, bool open)
{
    Sluice__V1__ShardSpec spec = SLUICE__V1__SHARD_SPEC__INIT;
    Sluice__V1__OptimizerSpec o = SLUICE__V1__OPTIMIZER_SPEC__INIT;
    Sluice__V1__Geometry g = SLUICE__V1__GEOMETRY__INIT;
    Sluice__V1__Variable v = SLUICE__V1__VARIABLE__INIT, *variables[] = {&v};
    Sluice__V1__Piece piece = SLUICE__V1__PIECE__INIT, *pieces[] = {&piece};
    uint64_t shape[] = {ELEMENTS};
    uint32_t ids[] = {0};
    struct sl_error err = SL_ERROR_INIT;
    struct plan plan;

    v.name = (char *)"w";
    v.shape = shape;
    v.n_shape = 1;
    piece.rows = piece.elements = ELEMENTS;
    g.samples = UINT64_C(1) << 40;
    g.batch = g.steps_per_closure = g.epochs = 1;
    o.type = (char *)"sgd";
    o.has_learning_rate = o.has_momentum = o.has_nesterov = o.nesterov = true;
    o.learning_rate = 0.7;
    o.momentum = 0.9;
    spec.job = spec.job_incarnation = spec.job_uid = 1;
    spec.job_name = (char *)"bench";
    spec.pieces = pieces;
    spec.variables = variables;
    spec.variable_ids = ids;
    spec.n_pieces = spec.n_variables = spec.n_variable_ids = 1;
    spec.optimizer = &o;
    spec.geometry = &g;
    spec.contributions = !open;
    spec.open_contributions = open;
    spec.down = down;
    program_must(plan_read(&plan, &spec, &err), &err, "a plan");
    program_must(shard_new(&b->shard, &plan), &err, "a shard");
    shard_admit(b->shard, 1);
}

static void code_make(struct bench_shard *b)
{
    const struct coded *form = &b->shard->plan.coded;
    float *change = program_memory(ELEMENTS * sizeof(*change));

    for (size_t i = 0; i < ELEMENTS; i++)
        change[i] = (float)(i % 251) * 1e-6f - 1e-4f;
    b->code_bytes = coded_bytes(form, WIRE_E3M0);
    b->code = program_memory(b->code_bytes);
    coded_write(form, WIRE_E3M0, change, b->code);
}

static void push(struct bench_shard *b)
{
    struct sl_slice one = {b->code, b->code_bytes};
    struct wire_push m = {.job = 1,
                          .job_incarnation = 1,
                          .incarnation = 1,
                          .attempt = {1, 1},
                          .samples = 1,
                          .wire = WIRE_E3M0,
                          .payload = slices_one(&one)};
    struct sl_error err = SL_ERROR_INIT;
    struct wire_push_reply reply;

    m.based_on = m.closure = b->closure++;
    program_must(shard_push(b->shard, &m, &reply, NULL, &err), &err, "a push");
    if (reply.result != WIRE_PUSH_COUNTED)
        program_die("a push was not counted: %d", (int)reply.result);
}

// Bytes per second.
static double push_rate(struct bench_shard *b)
{
    double began = program_thread_s();

    for (unsigned i = 0; i < PUSHES; i++)
        push(b);
    return PUSHES * ((double)b->code_bytes + 4.0 * sizeof(float) * ELEMENTS) /
           (program_thread_s() - began);
}

__attribute__((noinline)) static void local_triad(float *restrict a,
                                                  const float *restrict b,
                                                  const float *restrict c,
                                                  float x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + x * c[i];
}

// The line that is written is fetched before.
static double triad_rate(float *const at[3])
{
    double began = program_thread_s();

    for (unsigned i = 0; i < PUSHES; i++)
        local_triad(at[0], at[1], at[2], 1e-6f, ELEMENTS);
    return PUSHES * 4.0 * sizeof(float) * ELEMENTS /
           (program_thread_s() - began);
}

static const struct conf_about about = {
    .program = "local_apply",
    .usage = "local_apply [OPTION]...",
    .text = "Pushes coded contributions to a shard, and runs a plain loop over "
            "as much memory, in turn; says bytes per second of both.",
    .example = "local_apply --rounds 5",
};

static const struct conf_key keys[] = {
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "5",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often each."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    double ours[ROUNDS_MAX], open[ROUNDS_MAX], peer[ROUNDS_MAX];
    double mirrored[ROUNDS_MAX];
    int rounds = (int)conf_int(c, "rounds");
    struct bench_shard plain = {0}, with = {0}, without = {0};
    float *at[3];

    program_pin((int)conf_int(c, "cpu"));
    shard_make(&plain, WIRE_F32, false);
    shard_make(&with, WIRE_E3M0, false);
    shard_make(&without, WIRE_F32, true);
    code_make(&plain);
    with.code = without.code = plain.code;
    with.code_bytes = without.code_bytes = plain.code_bytes;
    for (int k = 0; k < 3; k++)
        at[k] = program_memory(ELEMENTS * sizeof(float));
    for (int i = -1; i < rounds; i++) { // the first of each only warms up
        int to = i < 0 ? 0 : i;

        ours[to] = push_rate(&plain);
        mirrored[to] = push_rate(&with);
        open[to] = push_rate(&without);
        peer[to] = triad_rate(at);
    }
    program_sort(mirrored, (size_t)rounds);
    printf("{\"mirrored\": %g, ", mirrored[rounds / 2]);
    program_print_list("ours", ours, rounds);
    printf(", ");
    program_print_list("open", open, rounds);
    printf(", ");
    program_print_list("peer", peer, rounds);
    printf("}\n");
    shard_unref(plain.shard);
    shard_unref(with.shard);
    shard_unref(without.shard);
    conf_free(c);
    return 0;
}
