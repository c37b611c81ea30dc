// SPDX-License-Identifier: Apache-2.0
// trainer/base/figures.c -- see figures.h.
#include "trainer/base/figures.h"

#include <stdatomic.h>

typedef _Atomic uint64_t number;

static struct {
    struct histogram phase[FIGURES_PHASES];
    struct histogram staleness;
    number steps[FIGURES_STEPS], samples, nonfinite[FIGURES_NONFINITE];
    number generation, torn[FIGURES_TORN], ahead, memory, device_memory;
    _Atomic double loss_scale;
} f = {
    .phase = {HISTOGRAM_DURATIONS, HISTOGRAM_DURATIONS, HISTOGRAM_DURATIONS,
              HISTOGRAM_DURATIONS},
    .staleness = HISTOGRAM_UPDATES,
};

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
                "What a counted step spent: waiting for a batch, for shards or "
                "ranks; computing; handing gradients over.");
    for (int i = 0; i < FIGURES_PHASES; i++)
        expo_histogram(e, &f.phase[i], "phase", phases[i], NULL);
    expo_family(e, "sluice_steps_total", EXPO_COUNTER,
                "Steps of this worker, by what became of them; stale ones were "
                "computed again.");
    for (int i = 0; i < FIGURES_STEPS; i++)
        expo_value(e, figures_get(&f.steps[i]), "result", results[i], NULL);
    expo_single(e, "sluice_samples_total", EXPO_COUNTER,
                "Samples of the steps that this worker saw counted.",
                figures_get(&f.samples));
    expo_family(e, "sluice_staleness_updates", EXPO_HISTOGRAM,
                "Updates by others between what a gradient was computed from "
                "and its own, of each shard.");
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
    expo_family(e, "sluice_nonfinite_gradients_total", EXPO_COUNTER,
                "Steps whose loss or gradient was not finite, by what was done "
                "(scale: f16, a smaller loss scale).");
    for (int i = 0; i < FIGURES_NONFINITE; i++)
        expo_value(e, figures_get(&f.nonfinite[i]), "action", actions[i], NULL);
    expo_single(e, "sluice_loss_scale", EXPO_GAUGE,
                "Of f16, the last; 0: there is none.",
                atomic_load_explicit(&f.loss_scale, memory_order_relaxed));
    expo_family(e, "sluice_device_memory_bytes", EXPO_GAUGE,
                "used: of jobs that are kept, of device and host; total: what "
                "the devices have, absent without a GPU.");
    expo_value(e, figures_get(&f.memory), "kind", "used", NULL);
    if (figures_get(&f.device_memory) > 0)
        expo_value(e, figures_get(&f.device_memory), "kind", "total", NULL);
    expo_single(e, "sluice_ring_generation", EXPO_GAUGE,
                "The last generation of a ring that this worker was a rank "
                "of; 0: none.",
                figures_get(&f.generation));
    expo_family(e, "sluice_ring_aborts_total", EXPO_COUNTER,
                "Generations of rings that were torn under this worker: a peer "
                "could not be reached, or others had left.");
    expo_value(e, figures_get(&f.torn[FIGURES_PEER]), "reason", "peer", NULL);
    expo_value(e, figures_get(&f.torn[FIGURES_ELSEWHERE]), "reason",
               "elsewhere", NULL);
    expo_single(e, "sluice_ring_steps_ahead_total", EXPO_COUNTER,
                "Steps of a ring that began while the sums of the round before "
                "were still on their way.",
                figures_get(&f.ahead));
}
