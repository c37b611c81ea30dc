// SPDX-License-Identifier: Apache-2.0
// trainer/base/figures.c -- see figures.h.
#include "trainer/base/figures.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

typedef _Atomic uint64_t number;

static struct {
    struct histogram phase[FIGURES_PHASES];
    struct histogram staleness;
    number steps[FIGURES_STEPS], samples, nonfinite[FIGURES_NONFINITE];
    number generation, torn[FIGURES_TORN], ahead, memory, device_memory;
    number kernels_checked, kernels_left_out;
    _Atomic double loss_scale;
} f = {
    .phase = {HISTOGRAM_DURATIONS, HISTOGRAM_DURATIONS, HISTOGRAM_DURATIONS,
              HISTOGRAM_DURATIONS},
    .staleness = HISTOGRAM_UPDATES,
};

// Which kernels are left out.
static struct {
    pthread_mutex_t lock;
    char what[500];
} words = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void figures_add(number *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static double figures_get(number *of)
{
    return (double)atomic_load_explicit(of, memory_order_relaxed);
}

void figures_took(uint64_t steps, const uint64_t us[FIGURES_PHASES])
{
    for (uint64_t n = 0; n < steps; n++) {
        for (int i = 0; i < FIGURES_PHASES; i++)
            histogram_add(&f.phase[i], us[i] / steps);
    }
}

void figures_steps(enum figures_step what, uint64_t n)
{
    figures_add(&f.steps[what], n);
}

void figures_samples(uint64_t n)
{
    figures_add(&f.samples, n);
}

void figures_staleness(uint64_t updates)
{
    histogram_add(&f.staleness, updates);
}

void figures_nonfinite(enum figures_nonfinite action)
{
    figures_add(&f.nonfinite[action], 1);
}

void figures_loss_scale(double scale)
{
    atomic_store_explicit(&f.loss_scale, scale, memory_order_relaxed);
}

void figures_memory(uint64_t bytes)
{
    atomic_store_explicit(&f.memory, bytes, memory_order_relaxed);
}

void figures_device_memory(uint64_t bytes)
{
    atomic_store_explicit(&f.device_memory, bytes, memory_order_relaxed);
}

void figures_kernels(uint64_t checked, uint64_t left_out)
{
    figures_add(&f.kernels_checked, checked);
    figures_add(&f.kernels_left_out, left_out);
}

void figures_left_out(const char *what)
{
    pthread_mutex_lock(&words.lock);
    snprintf(words.what, sizeof(words.what), "%s", what);
    pthread_mutex_unlock(&words.lock);
}

void figures_read_left_out(char *out, size_t n)
{
    pthread_mutex_lock(&words.lock);
    snprintf(out, n, "%s", words.what);
    pthread_mutex_unlock(&words.lock);
}

void figures_ring(uint64_t generation)
{
    atomic_store_explicit(&f.generation, generation, memory_order_relaxed);
}

void figures_ring_torn(enum figures_torn why)
{
    figures_add(&f.torn[why], 1);
}

void figures_ring_ahead(void)
{
    figures_add(&f.ahead, 1);
}

static void put_steps(struct expo *e)
{
    static const char *const phases[FIGURES_PHASES] = {
        [FIGURES_INPUT] = "input",
        [FIGURES_PULL] = "pull",
        [FIGURES_COMPUTE] = "compute",
        [FIGURES_PUSH] = "push",
    };
    static const char *const results[FIGURES_STEPS] = {
        [FIGURES_COUNTED] = "counted",
        [FIGURES_SKIPPED] = "skipped",
        [FIGURES_DUPLICATE] = "duplicate",
        [FIGURES_STALE] = "stale",
    };

    expo_family(e, "sluice_step_seconds", EXPO_HISTOGRAM,
                "Time of a counted step: wait for a batch, wait for shards or "
                "ranks, computing, handing gradients over.");
    for (int i = 0; i < FIGURES_PHASES; i++)
        expo_histogram(e, &f.phase[i], "phase", phases[i], NULL);
    expo_family(e, "sluice_steps_total", EXPO_COUNTER,
                "Steps of this worker, by result; the worker computed stale "
                "steps again.");
    for (int i = 0; i < FIGURES_STEPS; i++)
        expo_value(e, figures_get(&f.steps[i]), "result", results[i], NULL);
    expo_single(e, "sluice_samples_total", EXPO_COUNTER,
                "Samples of the steps of this worker that shards counted.",
                figures_get(&f.samples));
    expo_family(e, "sluice_staleness_updates", EXPO_HISTOGRAM,
                "Updates that other workers pushed to a shard between a "
                "gradient's parameters and its own update.");
    expo_histogram(e, &f.staleness, NULL);
}

void figures_write(struct expo *e)
{
    static const char *const actions[FIGURES_NONFINITE] = {
        [FIGURES_SKIP] = "skip",
        [FIGURES_SCALE] = "scale",
        [FIGURES_FAIL] = "fail",
    };

    put_steps(e);
    expo_family(e, "sluice_kernels_checked_total", EXPO_COUNTER,
                "Kernels compared with their reference before use; wrong: left "
                "out, and computed another way.");
    expo_value(
        e, figures_get(&f.kernels_checked) - figures_get(&f.kernels_left_out),
        "result", "right", NULL);
    expo_value(e, figures_get(&f.kernels_left_out), "result", "wrong", NULL);
    expo_family(e, "sluice_nonfinite_gradients_total", EXPO_COUNTER,
                "Steps with a loss or gradient that was not finite, by action "
                "(scale: f16, a smaller loss scale).");
    for (int i = 0; i < FIGURES_NONFINITE; i++)
        expo_value(e, figures_get(&f.nonfinite[i]), "action", actions[i], NULL);
    expo_single(e, "sluice_loss_scale", EXPO_GAUGE,
                "Last loss scale of f16; 0: no job uses one.",
                atomic_load_explicit(&f.loss_scale, memory_order_relaxed));
    expo_family(e, "sluice_device_memory_bytes", EXPO_GAUGE,
                "Memory by kind; used: kept jobs on device and host; total: "
                "the devices' memory, absent without a GPU.");
    expo_value(e, figures_get(&f.memory), "kind", "used", NULL);
    if (figures_get(&f.device_memory) > 0)
        expo_value(e, figures_get(&f.device_memory), "kind", "total", NULL);
    expo_single(e, "sluice_ring_generation", EXPO_GAUGE,
                "Last ring generation with this worker as a rank; 0: none.",
                figures_get(&f.generation));
    expo_family(e, "sluice_ring_aborts_total", EXPO_COUNTER,
                "Ring generations of this worker that broke: a peer could not "
                "be reached, or other ranks had left.");
    expo_value(e, figures_get(&f.torn[FIGURES_PEER]), "reason", "peer", NULL);
    expo_value(e, figures_get(&f.torn[FIGURES_ELSEWHERE]), "reason",
               "elsewhere", NULL);
    expo_single(e, "sluice_ring_steps_ahead_total", EXPO_COUNTER,
                "Steps of a ring that began before the sums of the previous "
                "round had arrived.",
                figures_get(&f.ahead));
}
