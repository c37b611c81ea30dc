// SPDX-License-Identifier: Apache-2.0
// kernels/flaky.c -- a wrapper of a host backend that fails, stalls or corrupts
// as its words say.
#include "kernels/flaky.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/desc.h"
#include "kernels/host_memory.h"

struct flaky_words {
    uint64_t alloc, bytes, plan, refuse, lost, nan, slow, ms, opens, shut;
    uint32_t op; // enum kern_op; 0: any
};

struct flaky_dev {
    struct kern_dev base;
    struct kern_dev *inner;   // owned
    struct flaky_words words; // 0: never
    uint64_t allocs, plans, runs;
    size_t held; // bytes
    bool lost;
    char fault[80];
};

struct flaky_plan {
    struct kern_plan base;
    struct flaky_dev *dev;
    struct kern_plan *inner; // owned
    struct kern_desc desc;
};

static const struct kern_backend flaky;

// ---- Words ----------------------------------------------------------------

static const struct {
    const char *name;
    size_t offset;
} known[] = {
    {"alloc", offsetof(struct flaky_words, alloc)},
    {"bytes", offsetof(struct flaky_words, bytes)},
    {"plan", offsetof(struct flaky_words, plan)},
    {"refuse", offsetof(struct flaky_words, refuse)},
    {"lost", offsetof(struct flaky_words, lost)},
    {"nan", offsetof(struct flaky_words, nan)},
    {"slow", offsetof(struct flaky_words, slow)},
    {"ms", offsetof(struct flaky_words, ms)},
    {"opens", offsetof(struct flaky_words, opens)},
    {"shut", offsetof(struct flaky_words, shut)},
};

static uint32_t op_of(const char *name, size_t n)
{
    for (uint32_t op = 1; op < KERN_OP_COUNT; op++) {
        const char *known_name = kern_op_name((enum kern_op)op);

        if (strlen(known_name) == n && memcmp(known_name, name, n) == 0)
            return op;
    }
    return 0;
}

static enum sl_err flaky_parse_word(struct flaky_words *w, const char *word,
                                    size_t n, struct sl_error *err)
{
    size_t key = strcspn(word, "=,");
    char *end = NULL;
    unsigned long long value;

    if (n > 3 && strncmp(word, "op=", 3) == 0) {
        w->op = op_of(word + 3, n - 3);
        if (w->op != 0)
            return SL_OK;
    }
    for (unsigned i = 0; i < SL_COUNT(known); i++) {
        if (strlen(known[i].name) != key ||
            memcmp(known[i].name, word, key) != 0 || word[key] != '=')
            continue;
        value = strtoull(word + key + 1, &end, 10);
        if (word[key + 1] < '0' || word[key + 1] > '9' || end != word + n)
            break;
        *(uint64_t *)((char *)w + known[i].offset) = value;
        return SL_OK;
    }
    return sl_fail(err, SL_EINVAL, "backend flaky: no word is \"%.*s\"", (int)n,
                   word);
}

// Words that begin with `prefix`; other words belong to the other
// backend.
static enum sl_err flaky_parse_words(struct flaky_words *w, const char *text,
                                     const char *prefix, struct sl_error *err)
{
    size_t skip = strlen(prefix);
    enum sl_err rc = SL_OK;

    while (text != NULL && *text != '\0' && rc == SL_OK) {
        size_t n = strcspn(text, ",");

        if (n > 0 && strncmp(text, prefix, skip) == 0)
            rc = flaky_parse_word(w, text + skip, n - skip, err);
        text += n + (text[n] == ',');
    }
    return rc;
}

// ---- Opening --------------------------------------------------------------

static void flaky_close(struct kern_dev *base)
{
    struct flaky_dev *dev = (struct flaky_dev *)base;

    if (dev == NULL)
        return;
    kern_close(dev->inner);
    sl_free(dev);
}

// So many were opened before by this process. It may have started itself anew
// since, so the environment counts, for its pid.
static uint64_t count_opening(void)
{
    static const char name[] = "SLUICE_FLAKY_OPENED";
    const char *text = getenv(name);
    uint64_t before = 0;
    char now[48];
    int pid;

    if (text == NULL || sscanf(text, "%d %" SCNu64, &pid, &before) != 2 ||
        pid != (int)getpid())
        before = 0;
    snprintf(now, sizeof(now), "%d %" PRIu64, (int)getpid(), before + 1);
    setenv(name, now, 1);
    return before;
}

enum sl_err flaky_open(struct kern_dev **out, const char *inner,
                       const char *options, struct sl_error *err)
{
    struct flaky_dev *dev = sl_calloc(1, sizeof(*dev));
    uint64_t before;
    enum sl_err rc;

    if (dev == NULL)
        return sl_fail(err, SL_ENOMEM, "backend flaky: out of memory");
    dev->base.backend = &flaky;
    rc = flaky_parse_words(&dev->words, getenv("SLUICE_FLAKY"), "", err);
    if (rc == SL_OK)
        rc = flaky_parse_words(&dev->words, options, "flaky.", err);
    if (rc == SL_OK)
        rc = kern_open(&dev->inner, inner, options, err);
    if (rc == SL_OK && !dev->inner->backend->host)
        rc = sl_fail(err, SL_ENOTSUP, "backend flaky: %s is no host backend",
                     inner);
    if (rc == SL_OK) {
        before = count_opening();
        if (before > 0 && before <= dev->words.shut)
            rc = sl_fail(err, SL_ELOST, "flaky: it does not answer yet");
        if (dev->words.opens > 0 && before >= dev->words.opens)
            dev->words = (struct flaky_words){0};
    }
    if (rc != SL_OK) {
        flaky_close(&dev->base);
        return rc;
    }
    *out = &dev->base;
    return SL_OK;
}

static int flaky_probe(char *why, size_t n)
{
    return 1;
}

// Mixed precision is asked for: ref is behind every host backend.
static void flaky_info(struct kern_info *out, struct kern_dev *base)
{
    struct flaky_dev *dev = (struct flaky_dev *)base;
    struct kern_info info;

    dev->inner->backend->info(&info, dev->inner);
    *out = info;
    out->dtypes |= 1u << KERN_F16 | 1u << KERN_BF16;
    snprintf(out->name, sizeof(out->name), "flaky: %.50s", info.name);
}

static const char *flaky_fault(struct kern_dev *base)
{
    return ((struct flaky_dev *)base)->fault;
}

// ---- Memory and streams ---------------------------------------------------

static enum sl_err flaky_alloc(struct kern_mem *out, struct kern_dev *base,
                               size_t bytes, enum kern_place place)
{
    struct flaky_dev *dev = (struct flaky_dev *)base;
    enum sl_err rc;

    if (dev->lost)
        return SL_ELOST;
    if (++dev->allocs == dev->words.alloc)
        return SL_ENOMEM;
    if (dev->words.bytes > 0 && dev->held + bytes > dev->words.bytes)
        return SL_ENOMEM;
    rc = host_alloc(out, base, bytes, place);
    if (rc == SL_OK)
        dev->held += bytes;
    return rc;
}

static void flaky_release(struct kern_dev *base, struct kern_mem *mem)
{
    ((struct flaky_dev *)base)->held -= mem->bytes;
    host_release(base, mem);
}

static bool flaky_is_lost(const struct kern_stream *s)
{
    return ((struct flaky_dev *)s->dev)->lost;
}

static enum sl_err flaky_stream_new(struct kern_stream **out,
                                    struct kern_dev *base, int priority)
{
    if (((struct flaky_dev *)base)->lost)
        return SL_ELOST;
    return host_stream_new(out, base, priority);
}

static enum sl_err flaky_stream_sync(struct kern_stream *s)
{
    return flaky_is_lost(s) ? SL_ELOST : SL_OK;
}

static enum sl_err flaky_copy(struct kern_stream *s, void *to, const void *from,
                              size_t bytes, enum kern_dir dir)
{
    return flaky_is_lost(s) ? SL_ELOST : host_copy(s, to, from, bytes, dir);
}

static enum sl_err flaky_fill(struct kern_stream *s, void *to, int byte,
                              size_t bytes)
{
    return flaky_is_lost(s) ? SL_ELOST : host_fill(s, to, byte, bytes);
}

// ---- Plans ----------------------------------------------------------------

static int flaky_score(struct kern_dev *base, const struct kern_desc *desc)
{
    return kern_score(((struct flaky_dev *)base)->inner, desc);
}

static enum sl_err may_plan(struct flaky_dev *dev, struct sl_error *err)
{
    if (dev->lost)
        return sl_fail(err, SL_ELOST, "%s", dev->fault);
    dev->plans++;
    if (dev->plans == dev->words.plan)
        return sl_fail(err, SL_ENOMEM, "flaky: no memory for plan %" PRIu64,
                       dev->plans);
    if (dev->words.refuse > 0 && dev->plans >= dev->words.refuse)
        return sl_fail(err, SL_EINTERNAL, "flaky: refuses plan %" PRIu64,
                       dev->plans);
    return SL_OK;
}

static enum sl_err flaky_plan(struct kern_plan **out, size_t *workspace_bytes,
                              struct kern_dev *base,
                              const struct kern_desc *desc,
                              size_t workspace_cap_bytes, struct sl_error *err)
{
    struct flaky_dev *dev = (struct flaky_dev *)base;
    enum sl_err rc = may_plan(dev, err);
    struct flaky_plan *p;

    if (rc != SL_OK)
        return rc;
    p = sl_calloc(1, sizeof(*p));
    if (p == NULL)
        return sl_fail(err, SL_ENOMEM, "backend flaky: out of memory");
    rc = kern_plan_new(&p->inner, workspace_bytes, dev->inner, desc,
                       workspace_cap_bytes, err);
    if (rc != SL_OK) {
        sl_free(p);
        return rc;
    }
    p->base = (struct kern_plan){.backend = &flaky, .impl = p->inner->impl};
    p->dev = dev;
    p->desc = *desc;
    *out = &p->base;
    return SL_OK;
}

static void flaky_plan_free(struct kern_plan *base)
{
    struct flaky_plan *p = (struct flaky_plan *)base;

    if (p == NULL)
        return;
    kern_plan_free(p->inner);
    sl_free(p);
}

static void spoil(const struct kern_desc *d, void *const *io)
{
    for (unsigned i = d->inputs; i < (unsigned)d->inputs + d->outputs; i++) {
        if (kern_shape_count(&d->io[i]) == 0)
            continue;
        if (d->io[i].dtype == KERN_F32)
            *(float *)io[i] = NAN;
        else if (d->io[i].dtype == KERN_F64)
            *(double *)io[i] = (double)NAN;
        else if (d->io[i].dtype == KERN_F16 || d->io[i].dtype == KERN_BF16)
            *(uint16_t *)io[i] = 0x7fff; // a NaN of both
    }
}

static void dawdle(uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000),
                         .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static enum sl_err flaky_run(struct kern_plan *base, struct kern_stream *s,
                             void *const *io, void *workspace)
{
    struct flaky_plan *p = (struct flaky_plan *)base;
    struct flaky_dev *dev = p->dev;
    bool counts = dev->words.op == 0 || dev->words.op == p->desc.op;
    uint64_t run = counts ? ++dev->runs : 0;
    enum sl_err rc;

    if (counts && run == dev->words.lost) {
        snprintf(dev->fault, sizeof(dev->fault),
                 "flaky: lost at run %" PRIu64 ", as it was told", run);
        dev->lost = true;
    }
    if (dev->lost)
        return SL_ELOST;
    if (counts && run == dev->words.slow)
        dawdle(dev->words.ms);
    rc = kern_run(p->inner, NULL, io, workspace);
    if (rc == SL_OK && counts && run == dev->words.nan)
        spoil(&p->desc, io);
    return rc;
}

static const struct kern_backend flaky = {
    .abi = KERN_ABI,
    .size = sizeof(flaky),
    .name = "flaky",
    .host = true,
    .probe = flaky_probe,
    .close = flaky_close, // flaky_open opens it, over another backend
    .info = flaky_info,
    .alloc = flaky_alloc,
    .release = flaky_release,
    .stream_new = flaky_stream_new,
    .stream_free = host_stream_free,
    .stream_sync = flaky_stream_sync,
    .copy = flaky_copy,
    .fill = flaky_fill,
    .score = flaky_score,
    .plan = flaky_plan,
    .plan_free = flaky_plan_free,
    .run = flaky_run,
    .fault = flaky_fault,
};
