// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu_half.c -- whether a product of 16-bit tensors goes by way of
// f32, or to oneDNN in 16 bits.
//
// By default the shape and the instruction set decide, so that all hosts of one
// kind compute equal bits. That rule was found without AMX, where 16 bits may
// be faster than our Winograd. With autotune=1 both ways are timed on this
// host, once per op, and the file of proofs keeps which one was faster.
#include <float.h>
#include <inttypes.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "kernels/beat.h"
#include "kernels/cpu/cpu.h"
#include "kernels/prove/pages.h"
#include "kernels/prove/prove.h"
#include "kernels/prove/trial.h"

#define HALF_KIND "half" // of a line of the file of proofs
#define HALF_ROUNDS 3
#define HALF_RUNS 20        // of a round, at most
#define HALF_ROUND_US 2000u // or so long

enum { BY_F32, BY_LIBRARY, WAYS };

struct half_way {
    struct cpu_plan *plan; // owned
    size_t bytes;          // of its workspace
    double us;             // the best round, for one run
};

// ---- What is known ----------------------------------------------------------

static bool half_find(const struct cpu_dev *dev, uint64_t desc, bool *by_f32)
{
    for (size_t i = 0; i < dev->halves_count; i++)
        if (dev->halves[i].desc == desc) {
            *by_f32 = dev->halves[i].by_f32;
            return true;
        }
    return false;
}

// Without memory it is timed again.
static void half_note(struct cpu_dev *dev, uint64_t desc, bool by_f32)
{
    struct cpu_half *more = sl_realloc_array(dev->halves, dev->halves_count + 1,
                                             sizeof(*dev->halves));

    if (!more)
        return;
    dev->halves = more;
    dev->halves[dev->halves_count++] = (struct cpu_half){desc, by_f32};
}

static bool half_recall(struct cpu_dev *dev, const struct kern_desc *d,
                        bool *by_f32)
{
    uint64_t desc = kern_desc_hash(d);
    struct buf text = BUF_INIT;
    bool known = half_find(dev, desc, by_f32);

    if (!known && prover_kept(dev->base.prover, HALF_KIND, d, &text) &&
        text.len == 1 && (text.data[0] == '0' || text.data[0] == '1')) {
        known = true;
        *by_f32 = text.data[0] == '1';
        half_note(dev, desc, *by_f32);
    }
    buf_release(&text);
    return known;
}

static void half_keep(struct cpu_dev *dev, const struct kern_desc *d,
                      bool by_f32)
{
    struct buf text = BUF_INIT;

    half_note(dev, kern_desc_hash(d), by_f32);
    if (buf_append_str(&text, by_f32 ? "1" : "0") == SL_OK)
        prover_keep(dev->base.prover, HALF_KIND, d, &text);
    buf_release(&text);
}

// ---- Timing -----------------------------------------------------------------

enum sl_err cpu_half_time(double *us, struct cpu_plan *plan, void *const *io,
                          void *workspace)
{
    uint64_t began = sl_now_us(sl_clock_real()), took = 0;
    enum sl_err rc = SL_OK;
    unsigned runs = 0;

    while (rc == SL_OK && runs < HALF_RUNS && took < HALF_ROUND_US) {
        rc = plan->run(plan, io, workspace);
        took = sl_now_us(sl_clock_real()) - began;
        runs++;
    }
    *us = (double)took / runs;
    return rc;
}

static enum sl_err half_plan(struct half_way way[WAYS], struct cpu_dev *dev,
                             const struct kern_desc *d)
{
    enum sl_err rc =
        cpu_mixed_plan(&way[BY_F32].plan, &way[BY_F32].bytes, dev, d, NULL);

    if (rc == SL_OK)
        rc = cpu_product_plan(&way[BY_LIBRARY].plan, &way[BY_LIBRARY].bytes,
                              dev, d, NULL);
    for (unsigned k = 0; k < WAYS && rc == SL_OK; k++) {
        way[k].plan->dev = dev;
        way[k].plan->desc = *d;
        way[k].us = DBL_MAX;
    }
    return rc;
}

// Times both in turn: each once in vain, as its first run loads code.
static enum sl_err half_rounds(struct half_way way[WAYS], struct cpu_dev *dev,
                               void *const *io, void *workspace)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < (HALF_ROUNDS + 1) * WAYS && rc == SL_OK; i++) {
        struct half_way *w = &way[i % WAYS];
        double us = 0;

        rc = dev->time_half(&us, w->plan, io, workspace);
        if (rc == SL_OK && i >= WAYS && us < w->us)
            w->us = us;
        kern_beat();
    }
    return rc;
}

static enum sl_err half_try(struct half_way way[WAYS], struct cpu_dev *dev,
                            const struct kern_desc *d)
{
    size_t bytes = way[BY_F32].bytes > way[BY_LIBRARY].bytes
                       ? way[BY_F32].bytes
                       : way[BY_LIBRARY].bytes;
    void *workspace = pages_new(bytes);
    struct trial t;
    struct rng rng;
    enum sl_err rc;

    if (!workspace)
        return SL_ENOMEM;
    rng_init(&rng, PROVE_SEED, 0);
    rc = trial_new_mapped(&t, d, 0);
    if (rc == SL_OK)
        rc = trial_fill(&t, &rng);
    if (rc == SL_OK)
        rc = half_rounds(way, dev, t.io, workspace);
    trial_free(&t);
    pages_free(workspace, bytes);
    return rc;
}

// Times both ways. False: there is one only, or a failure; nothing is noted.
static bool half_measure(struct cpu_dev *dev, const struct kern_desc *d,
                         bool *by_f32)
{
    struct half_way way[WAYS] = {{NULL}};
    enum sl_err rc = half_plan(way, dev, d);
    char shape[300];

    if (rc == SL_OK)
        rc = half_try(way, dev, d);
    if (rc == SL_OK) {
        *by_f32 = way[BY_F32].us <= way[BY_LIBRARY].us;
        LOG(INFO, "ways to compute a product in 16 bits are timed",
            "op=%s f32_us=%.3g half_us=%.3g taken=%s",
            kern_desc_text(shape, sizeof(shape), d), way[BY_F32].us,
            way[BY_LIBRARY].us, *by_f32 ? "f32" : "half");
        half_keep(dev, d, *by_f32);
    }
    for (unsigned k = 0; k < WAYS; k++)
        if (way[k].plan)
            way[k].plan->free(way[k].plan);
    return rc == SL_OK;
}

bool cpu_half_by_f32(struct cpu_dev *dev, const struct kern_desc *d)
{
    bool by_f32;

    if (dev->autotune &&
        (half_recall(dev, d, &by_f32) || half_measure(dev, d, &by_f32)))
        return by_f32;
    return cpu_mixed_is_own(dev, d);
}
