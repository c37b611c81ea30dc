// SPDX-License-Identifier: Apache-2.0
// bench/apply.c -- how near an optimizer's update comes to what memory gives.
//
//   sgd   reads gradient and value, writes value         against  d += s
//   adam  reads gradient, reads and writes value, m, v   against  a = b + x c
//
// or, where that is less, what the processor computes of Adam: a plain loop
// over arrays in its first cache.
//
// Both go over the same memory of the same size, in turn, on one thread, again
// and again where it is small. Values and slots lie as a shard has them
// (state/base/region.h); the gradient is a mapping of its own, as what comes
// over shared memory is. Counted is what must cross the memory bus: every read,
// every write, and for `a` of the triad also the line that is fetched before
// it is written. The update is called as a psserver calls it: run by run, with
// the gradient at an address of no alignment.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/program.h"
#include "kernels/optim.h"
#include "state/base/region.h"

#define RUN 16384 // elements of one call, as state/shard/apply.c
#define ROUNDS_MAX 64
#define PASS_BYTES ((size_t)512 << 20) // of memory that a figure is of

struct arrays {
    size_t count, elements, passes;
    float *at[4]; // value, slots; the last is the gradient
    struct region state, gradient;
    uint64_t t;
};

static enum optim_kind kind_by_name(const char *name)
{
    for (unsigned kind = 1; kind < OPTIM_KIND_COUNT; kind++)
        if (strcmp(optim_kind_name((enum optim_kind)kind), name) == 0)
            return (enum optim_kind)kind;
    return OPTIM_NONE;
}

// ---- ours

static void pass(struct arrays *a, const struct optim *o)
{
    const uint8_t *grad = (uint8_t *)a->at[a->count - 1] + 1;
    float *slots[OPTIM_SLOTS_MAX];
    size_t n;

    a->t++;
    // One element less: the gradient begins a byte late.
    for (size_t i = 0; i < a->elements - 1; i += n) {
        n = a->elements - 1 - i < RUN ? a->elements - 1 - i : RUN;
        for (unsigned k = 0; k < optim_slots(o); k++)
            slots[k] = a->at[1 + k] + i;
        optim_apply(o, a->t, 1e-6, n, grad + i * sizeof(float), a->at[0] + i,
                    slots);
    }
}

static double update(struct arrays *a, const struct optim *o)
{
    double began = program_now_s();

    for (size_t i = 0; i < a->passes; i++)
        pass(a, o);
    return program_now_s() - began;
}

static double update_bytes(const struct arrays *a)
{
    size_t per_element = 1 + 2 * (a->count - 1); // the gradient is only read

    return (double)(per_element * sizeof(float) * (a->elements - 1) *
                    a->passes);
}

// ---- the floor

__attribute__((noinline)) static void
plain_add(float *restrict d, const float *restrict s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] += s[i];
}

__attribute__((noinline)) static void triad(float *restrict a,
                                            const float *restrict b,
                                            const float *restrict c, float x,
                                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + x * c[i];
}

__attribute__((noinline)) static void
plain_adam(float *restrict w, float *restrict m, float *restrict v,
           const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * 0.1f;
        v[i] += (g[i] * g[i] - v[i]) * 0.001f;
        w[i] -= 1e-6f * m[i] / (sqrtf(v[i]) + 1e-7f);
    }
}

// Bytes per second, counted as update_bytes does.
static double arithmetic(void)
{
    enum { N = 1024, TIMES = 100000 };
    static float x[4][N + 16];
    double began = program_now_s();

    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < N; i++)
            x[k][i] = 1e-3f;
    for (size_t i = 0; i < TIMES; i++)
        plain_adam(x[0], x[1], x[2], x[3], N);
    return 7.0 * sizeof(float) * N * TIMES / (program_now_s() - began);
}

// The triad goes over value and slots.
static double floor_run(struct arrays *a, double *bytes)
{
    size_t n = a->elements;
    double began = program_now_s();

    for (size_t i = 0; i < a->passes; i++) {
        if (a->count == 2)
            plain_add(a->at[0], a->at[1], n);
        else
            triad(a->at[0], a->at[1], a->at[2], 1e-6f, n);
    }
    *bytes = (double)((a->count == 2 ? 3 : 4) * sizeof(float) * n * a->passes);
    return program_now_s() - began;
}

static void fill(struct arrays *a, size_t bytes)
{
    size_t each = bytes / a->count / sizeof(float) * sizeof(float);
    unsigned own = (unsigned)a->count - 1;

    a->elements = each / sizeof(float);
    a->passes = 1 + PASS_BYTES / bytes;
    if (region_new(&a->state, region_arrays_bytes(each, own)) != SL_OK ||
        region_new(&a->gradient, each) != SL_OK)
        program_die("no memory for %zu bytes", bytes);
    for (unsigned k = 0; k < own; k++)
        a->at[k] = (float *)((char *)a->state.data + region_array_at(each, k));
    a->at[own] = a->gradient.data;
}

// The triad writes over the values: they must be what an optimizer has.
static void refill(struct arrays *a)
{
    for (size_t k = 0; k < a->count; k++)
        for (size_t i = 0; i < a->elements; i++)
            a->at[k][i] = 1e-3f;
}

static const struct conf_about about = {
    .program = "apply",
    .usage = "apply [OPTION]...",
    .text = "Runs an optimizer over memory, and a plain loop over the same, "
            "in turn; says bytes per second of both.",
    .example = "apply --optimizer adam --rounds 5",
};

static const struct conf_key keys[] = {
    {.name = "optimizer",
     .kind = CONF_CHOICE,
     .value = "sgd",
     .choices = "sgd|adam",
     .help = "Which one."},
    {.name = "bytes",
     .kind = CONF_BYTES,
     .value = "0",
     .min = 0,
     .max = (int64_t)64 << 30,
     .help = "Memory in all; 0: four times the last cache, at least 1 GiB."},
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

// What a virtual machine says of its last cache may be too little.
static size_t footprint(const struct conf *c)
{
    size_t bytes = (size_t)conf_int(c, "bytes"), least = (size_t)1 << 30;
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    if (bytes != 0)
        return bytes;
    return cache > 0 && 4 * (size_t)cache > least ? 4 * (size_t)cache : least;
}

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    double ours[ROUNDS_MAX], peer[ROUNDS_MAX], bytes;
    int rounds = (int)conf_int(c, "rounds");
    struct arrays a = {0};
    struct optim o;

    optim_defaults(&o, kind_by_name(conf_str(c, "optimizer")));
    a.count = 2 + optim_slots(&o);
    program_pin((int)conf_int(c, "cpu"));
    fill(&a, footprint(c));
    for (int i = -1; i < rounds; i++) { // the first of each only warms up
        refill(&a);
        double update_s = update(&a, &o), floor_s = floor_run(&a, &bytes);

        if (i < 0)
            continue;
        ours[i] = update_bytes(&a) / update_s;
        peer[i] = bytes / floor_s;
        if (a.count > 2)
            peer[i] = fmin(peer[i], arithmetic());
    }
    printf("{\"what\": \"%s\", \"footprint\": %zu, ", conf_str(c, "optimizer"),
           a.count * a.elements * sizeof(float));
    program_print_list("ours", ours, rounds);
    printf(", ");
    program_print_list("peer", peer, rounds);
    printf("}\n");
    conf_free(c);
    return 0;
}
