// SPDX-License-Identifier: Apache-2.0
// bench/apply.c -- how near an optimizer's update comes to what memory gives.
//
//   sgd   reads gradient and value, writes value         against  d += s
//   adam  reads gradient, reads and writes value, m, v   against  a = b + x c
//
// Both go over the same memory of the same size, far beyond the last cache, in
// turn, on one thread. Counted is what must cross the memory bus: every read,
// every write, and for `a` of the triad also the line that is fetched before
// it is written. The update is called as a psserver calls it: run by run, with
// the gradient at an address of no alignment.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/program.h"
#include "kernels/optim.h"

#define RUN 16384 // elements of one call, as state/shard/apply.c
#define ROUNDS_MAX 64

struct arrays {
    size_t count, elements;
    float *at[4]; // value, slots; the last is the gradient
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

static double update(struct arrays *a, const struct optim *o)
{
    const uint8_t *grad = (uint8_t *)a->at[a->count - 1] + 1;
    float *slots[OPTIM_SLOTS_MAX];
    double began = program_now_s();
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
    return program_now_s() - began;
}

static double update_bytes(const struct arrays *a)
{
    size_t per_element = 1 + 2 * (a->count - 1); // the gradient is only read

    return (double)(per_element * sizeof(float) * (a->elements - 1));
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

// The triad divides the memory of four arrays among three.
static double floor_run(struct arrays *a, double *bytes)
{
    size_t n = a->count * a->elements / 3;
    double began = program_now_s();

    if (a->count == 2) {
        plain_add(a->at[0], a->at[1], a->elements);
        *bytes = (double)(3 * sizeof(float) * a->elements);
    } else {
        triad(a->at[0], a->at[0] + n, a->at[0] + 2 * n, 1e-6f, n);
        *bytes = (double)(4 * sizeof(float) * n);
    }
    return program_now_s() - began;
}

static void fill(struct arrays *a, size_t bytes)
{
    float *all = program_memory(bytes);

    a->elements = bytes / a->count / sizeof(float);
    for (size_t k = 0; k < a->count; k++)
        a->at[k] = all + k * a->elements;
}

// The triad writes over the slots: they must be what an optimizer has.
static void refill(struct arrays *a)
{
    for (size_t i = 0; i < a->count * a->elements; i++)
        a->at[0][i] = 1e-3f;
}

static const struct conf_about about = {
    .program = "apply",
    .usage = "apply [OPTION]...",
    .text = "Runs an optimizer over memory beyond the caches, and a plain "
            "loop over the same, in turn; says bytes per second of both.",
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
