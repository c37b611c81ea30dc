// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu.c -- the host backend: its options and its vtable.
#include "kernels/cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/desc.h"
#include "kernels/host_memory.h"
#include "kernels/spoil.h"

#define THREADS_MAX 256

// ---- Opening --------------------------------------------------------------

static int allowed_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

// Our loops by instruction set, best first.
static const struct isa {
    const char *name;
    const struct loop_op *const *loops;
    const struct loops_products *products;
    const struct loops_half *half;
} isas[] = {
#ifdef __x86_64__
    {"avx512", loops_avx512_table, &loops_avx512_products, &loops_avx512_half},
    {"avx2", loops_avx2_table, &loops_avx2_products, &loops_avx2_half},
#endif
    {"base", loops_base_table, &loops_base_products, &loops_base_half},
};

static bool isa_runs(const struct isa *isa)
{
#ifdef __x86_64__
    if (strcmp(isa->name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (strcmp(isa->name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return true;
}

// Notes the loops for instructions from number `i` of isas[] on.
static void note_loops(struct cpu_dev *dev, size_t i)
{
    for (; i < SL_COUNT(isas); i++)
        if (isa_runs(&isas[i]))
            dev->own[dev->own_count++] =
                (struct cpu_loops){isas[i].name, isas[i].loops};
}

// The best that runs here, or the named one; false: it does not run here.
static bool choose_loops(struct cpu_dev *dev, const char *name)
{
    for (size_t i = 0; i < SL_COUNT(isas); i++) {
        if ((name && strcmp(name, isas[i].name) != 0) || !isa_runs(&isas[i]))
            continue;
        dev->isa = isas[i].name;
        dev->loops = isas[i].loops;
        dev->products = isas[i].products;
        dev->half = isas[i].half;
        dev->own_count = 0;
        note_loops(dev, i);
        snprintf(dev->wino_name, sizeof(dev->wino_name), "%s winograd",
                 dev->isa);
        snprintf(dev->direct_name, sizeof(dev->direct_name), "%s direct",
                 dev->isa);
        return true;
    }
    return false;
}

static enum sl_err cpu_parse_option(struct cpu_dev *dev, const char *word,
                                    struct sl_error *err)
{
    char *end;
    long n;

    if (strncmp(word, "threads=", 8) == 0) {
        n = strtol(word + 8, &end, 10);
        if (end != word + 8 && *end == '\0' && n >= 0 && n <= THREADS_MAX) {
            dev->threads = n == 0 ? allowed_cpus() : (int)n;
            return SL_OK;
        }
    } else if (strcmp(word, "winograd=0") == 0 ||
               strcmp(word, "winograd=1") == 0) {
        dev->winograd = word[9] == '1';
        return SL_OK;
    } else if (strcmp(word, "autotune=0") == 0 ||
               strcmp(word, "autotune=1") == 0) {
        dev->autotune = word[9] == '1';
        return SL_OK;
    } else if (strncmp(word, "direct=", 7) == 0 && word[7] >= '0' &&
               word[7] <= '2' && word[8] == '\0') {
        dev->direct = (enum cpu_direct)(word[7] - '0');
        return SL_OK;
    } else if (strncmp(word, "without=", 8) == 0 && word[8] != '\0' &&
               strlen(word + 8) < sizeof(dev->without)) {
        snprintf(dev->without, sizeof(dev->without), "%s", word + 8);
        return SL_OK;
    } else if (strncmp(word, "isa=", 4) == 0 && choose_loops(dev, word + 4)) {
        dev->capped = true;
        return SL_OK;
    }
    return sl_fail(
        err, SL_EINVAL,
        "backend cpu: option \"%s\" is not threads=0..%d, "
        "winograd=0|1, direct=0|1|2, autotune=0|1, without=TEXT of at most %zu "
        "bytes, or isa=base|avx2|avx512 of this host",
        word, THREADS_MAX, sizeof(dev->without) - 1);
}

static enum sl_err cpu_parse_options(struct cpu_dev *dev, const char *options,
                                     struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    char *text, *rest, *word;

    if (!options)
        return SL_OK;
    text = rest = sl_strdup(options);
    if (!text)
        return sl_fail(err, SL_ENOMEM, "backend cpu: out of memory");
    while (rc == SL_OK && (word = strsep(&rest, ",")) != NULL)
        if (*word)
            rc = cpu_parse_option(dev, word, err);
    sl_free(text);
    return rc;
}

static int cpu_probe(char *why, size_t n)
{
    return 1;
}

static void cpu_close(struct kern_dev *base)
{
    struct cpu_dev *dev = (struct cpu_dev *)base;

    if (!dev)
        return;
    cpu_onednn_close(dev->onednn);
    sl_free(dev->halves);
    sl_free(dev);
}

static enum sl_err cpu_open(struct kern_dev **out, int ordinal,
                            const char *options, struct sl_error *err)
{
    struct cpu_dev *dev = sl_calloc(1, sizeof(*dev));
    enum sl_err rc;

    if (!dev)
        return sl_fail(err, SL_ENOMEM, "backend cpu: out of memory");
    dev->base.backend = &kern_cpu;
    dev->threads = 1;
    dev->winograd = true;
    dev->direct = DIRECT_RULE;
    dev->time_half = cpu_half_time;
    choose_loops(dev, NULL);
    rc = cpu_parse_options(dev, options, err);
    if (rc == SL_OK)
        rc = cpu_onednn_open(&dev->onednn, dev->threads,
                             dev->capped ? dev->isa : NULL, err);
    if (rc != SL_OK) {
        cpu_close(&dev->base);
        return rc;
    }
    *out = &dev->base;
    return SL_OK;
}

static void cpu_info(struct kern_info *out, struct kern_dev *base)
{
    struct cpu_dev *dev = (struct cpu_dev *)base;

    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "cpu: %s, %s loops",
             cpu_onednn_name(), dev->isa);
    out->dtypes = 1u << KERN_F32 | 1u << KERN_F16 | 1u << KERN_BF16;
    out->threads = (uint32_t)dev->threads;
}

// ---- The vtable -----------------------------------------------------------

// How it computes; doubles are ref's.
enum way { NO_WAY, PLAIN, HALF };

static enum way cpu_dtype_way(const struct kern_desc *d)
{
    uint32_t typed = kern_typed(d);
    bool half = false;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        if (typed >> i & 1 && d->io[i].dtype == KERN_F64)
            return NO_WAY;
        half |= d->io[i].dtype == KERN_F16 || d->io[i].dtype == KERN_BF16;
    }
    return half ? HALF : PLAIN;
}

static int cpu_score(struct kern_dev *base, const struct kern_desc *d)
{
    struct cpu_dev *dev = (struct cpu_dev *)base;
    enum way way = cpu_dtype_way(d);
    int score = 0;

    if (way == PLAIN)
        return cpu_f32_score(dev, d);
    if (way == HALF && !dev->loops[d->op] && !cpu_half_by_f32(dev, d))
        score = cpu_product_score(dev, d);
    return way == HALF && score == 0 ? cpu_mixed_score(dev, d) : score;
}

// Products of 16 bits by oneDNN where it is good at them, all else by f32: also
// what f32 computes faster (cpu_half.c).
static enum sl_err plan_half(struct cpu_plan **out, size_t *workspace_bytes,
                             struct cpu_dev *dev, const struct kern_desc *d,
                             struct sl_error *err)
{
    enum sl_err rc = SL_ENOTSUP;

    if (!dev->loops[d->op] && !cpu_half_by_f32(dev, d))
        rc = cpu_product_plan(out, workspace_bytes, dev, d, err);
    if (rc == SL_ENOTSUP)
        rc = cpu_mixed_plan(out, workspace_bytes, dev, d, err);
    return rc;
}

static enum sl_err cpu_plan(struct kern_plan **out, size_t *workspace_bytes,
                            struct kern_dev *base, const struct kern_desc *d,
                            size_t workspace_cap_bytes, struct sl_error *err)
{
    struct cpu_dev *dev = (struct cpu_dev *)base;
    struct cpu_plan *p = NULL;
    size_t bytes = 0;
    enum sl_err rc;

    rc = cpu_dtype_way(d) == HALF ? plan_half(&p, &bytes, dev, d, err)
                                  : cpu_f32_plan(&p, &bytes, dev, d, err);
    if (rc != SL_OK)
        return rc;
    p->base.backend = &kern_cpu;
    p->dev = dev;
    p->desc = *d;
    rc = kern_desc_fits(d, bytes, workspace_cap_bytes, err);
    if (rc != SL_OK) {
        p->free(p);
        return rc;
    }
    *out = &p->base;
    *workspace_bytes = bytes;
    return SL_OK;
}

static void cpu_plan_free(struct kern_plan *plan)
{
    struct cpu_plan *p = (struct cpu_plan *)plan;

    if (p)
        p->free(p);
}

static enum sl_err cpu_run(struct kern_plan *plan, struct kern_stream *s,
                           void *const *io, void *workspace)
{
    struct cpu_plan *p = (struct cpu_plan *)plan;
    enum sl_err rc = p->run(p, io, workspace);

    SPOIL(plan->impl, &p->desc, io);
    return rc;
}

const struct kern_backend kern_cpu = {
    .abi = KERN_ABI,
    .size = sizeof(struct kern_backend),
    .name = "cpu",
    .host = true,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = host_alloc,
    .release = host_release,
    .stream_new = host_stream_new,
    .stream_free = host_stream_free,
    .stream_sync = host_stream_sync,
    .copy = host_copy,
    .fill = host_fill,
    .score = cpu_score,
    .plan = cpu_plan,
    .plan_free = cpu_plan_free,
    .run = cpu_run,
};
