// SPDX-License-Identifier: Apache-2.0
// kernels/kern.c -- choosing a backend, and ref behind every host backend.
#include "kernels/kern.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/desc.h"
#include "kernels/ref/ref.h"

// Best first. ref is last and always works.
static const struct kern_backend *const backends[] = {&kern_cpu, &kern_ref};

const struct kern_backend *kern_backend_at(unsigned i)
{
    return i < SL_COUNT(backends) ? backends[i] : NULL;
}

static enum sl_err open_one(struct kern_dev **out,
                            const struct kern_backend *backend,
                            const char *options, struct sl_error *err)
{
    struct kern_dev *dev = NULL;
    enum sl_err rc;

    if (backend->abi != KERN_ABI)
        return sl_fail(err, SL_ENOTSUP,
                       "backend %s was built for interface %u, this is %u",
                       backend->name, backend->abi, KERN_ABI);
    rc = backend->open(&dev, 0, options, err);
    if (rc != SL_OK)
        return rc;
    if (backend->host && backend != &kern_ref) {
        rc = kern_ref.open(&dev->fallback, 0, NULL, err);
        if (rc != SL_OK) {
            backend->close(dev);
            return rc;
        }
    }
    *out = dev;
    return SL_OK;
}

static const struct kern_backend *by_name(const char *name)
{
    for (unsigned i = 0; i < SL_COUNT(backends); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

enum sl_err kern_open(struct kern_dev **out, const char *name,
                      const char *options, struct sl_error *err)
{
    const struct kern_backend *backend = NULL;
    char why[160] = "";

    if (strcmp(name, "auto") == 0) {
        for (unsigned i = 0; !backend && i < SL_COUNT(backends); i++)
            if (backends[i]->probe(why, sizeof(why)) > 0)
                backend = backends[i];
    } else {
        backend = by_name(name);
        if (!backend)
            return sl_fail(err, SL_ENOENT,
                           "no compute backend is called \"%s\" in this build; "
                           "there are auto, cpu and ref",
                           name);
        if (backend->probe(why, sizeof(why)) <= 0)
            return sl_fail(err, SL_ENOTSUP, "backend %s: %s", name, why);
    }
    return open_one(out, backend, options, err);
}

void kern_close(struct kern_dev *dev)
{
    struct kern_dev *fallback;

    if (!dev)
        return;
    fallback = dev->fallback;
    dev->backend->close(dev);
    kern_close(fallback);
}

// A backend that names no 16-bit dtype is not asked about mixed precision.
static int score_of(struct kern_dev *dev, const struct kern_desc *desc)
{
    struct kern_info info;

    if (!kern_desc_plain(desc)) {
        dev->backend->info(&info, dev);
        if (!(info.dtypes & (1u << KERN_F16 | 1u << KERN_BF16)))
            return 0;
    }
    return dev->backend->score(dev, desc);
}

int kern_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    int score = score_of(dev, desc);

    return score > 0 || !dev->fallback ? score
                                       : kern_score(dev->fallback, desc);
}

// Said once per op and device: such an op is slow, and nobody else would say.
static void tell_fallback(struct kern_dev *dev, const struct kern_desc *desc)
{
    uint64_t bit = (uint64_t)1 << (desc->op & 63);

    if (dev->told & bit)
        return;
    dev->told |= bit;
    LOG(WARN, "op is computed by the slow reference code", "op=%s backend=%s",
        kern_op_name((enum kern_op)desc->op), dev->backend->name);
}

enum sl_err kern_plan_new(struct kern_plan **out, size_t *workspace_bytes,
                          struct kern_dev *dev, const struct kern_desc *desc,
                          size_t workspace_cap_bytes, struct sl_error *err)
{
    size_t cap = workspace_cap_bytes ? workspace_cap_bytes : SIZE_MAX;
    enum sl_err rc = kern_desc_check(desc, err);

    if (rc != SL_OK)
        return rc;
    if (dev->fallback && kern_desc_empty(desc))
        dev = dev->fallback; // nothing to be fast about
    if (score_of(dev, desc) <= 0) {
        if (!dev->fallback)
            return sl_fail(err, SL_ENOTSUP, "backend %s cannot compute op %s",
                           dev->backend->name,
                           kern_op_name((enum kern_op)desc->op));
        tell_fallback(dev, desc);
        dev = dev->fallback;
    }
    return dev->backend->plan(out, workspace_bytes, dev, desc, cap, err);
}

void kern_plan_free(struct kern_plan *plan)
{
    if (plan)
        plan->backend->plan_free(plan);
}
