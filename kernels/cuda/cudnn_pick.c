// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_pick.c -- from choices to plans that fit.
#include "kernels/cuda/cudnn_inner.h"

#include <string.h>

#define STAND_INS 2     // behind the first pick, unless all are compared
#define COMPILED_MOST 2 // picks that are compiled at run time: seconds each

const char *graph_cores_name(enum graph_cores c)
{
    static const char *const names[] = {
        [GRAPH_CORES_USED] = "used",
        [GRAPH_CORES_FORBIDDEN] = "forbidden: f32 is to stay f32",
        [GRAPH_CORES_RANKED] = "cuDNN holds another engine for faster",
        [GRAPH_CORES_CAPPED] = "such engines want more workspace than they may",
        [GRAPH_CORES_NONE] = "cuDNN has no such engine",
        [GRAPH_CORES_SLOWER] = "another engine was faster when tried",
        [GRAPH_CORES_WRONG] = "such engines compute wrongly here",
    };

    return c > 0 && c < SL_COUNT(names) ? names[c] : "unknown";
}

struct picking {
    struct graph_picks *out;
    const struct graph_target *target;
    size_t cap_bytes;
    bool compare;
    unsigned most, compiled;
    unsigned offered, allowed; // by cuDNN; of these by the rules
    bool cores_fit;            // some choice with tensor cores keeps to the cap
};

static bool picking_fits_cap(struct picking *p, struct graph_plan *plan)
{
    size_t *missed = &p->out->missed_bytes;

    if (plan->workspace_bytes <= p->cap_bytes)
        return true;
    if (plan->tensor_cores && (*missed == 0 || plan->workspace_bytes < *missed))
        *missed = plan->workspace_bytes;
    graph_plan_forget(plan);
    return false;
}

// Is it worth its making? Once there are enough, only to learn whether any with
// tensor cores fits.
static bool worth(struct picking *p, const struct graph_choice *c)
{
    unsigned count = p->out->count;

    if (count == p->most && (p->cores_fit || !c->tensor_cores))
        return false;
    if (!c->compiles)
        return true;
    if (count == p->most || p->compiled == COMPILED_MOST ||
        (count > 0 && !p->compare))
        return false;
    p->compiled++;
    return true;
}

// A stand-in costs no memory.
static void picking_add_plan(struct picking *p, struct graph_plan *plan)
{
    struct graph_picks *out = p->out;

    if (out->count == p->most ||
        (!p->compare && out->count > 0 &&
         plan->workspace_bytes > out->at[0].workspace_bytes))
        graph_plan_forget(plan);
    else
        out->at[out->count++] = *plan;
}

static void picking_try_choice(struct picking *p, const struct graph_choice *c)
{
    struct graph_plan plan;

    if (!worth(p, c) || graph_plan_make(&plan, p->target, c, NULL) != SL_OK ||
        !picking_fits_cap(p, &plan))
        return;
    p->cores_fit |= plan.tensor_cores;
    picking_add_plan(p, &plan);
}

static enum sl_err picking_try_mode(struct picking *p, const struct graph *g,
                                    cudnnBackendHeurMode_t mode,
                                    const struct graph_rules *rules,
                                    struct sl_error *err)
{
    struct graph_choices c;
    enum sl_err rc = graph_ask(&c, g, p->target, mode, rules, err);

    if (rc != SL_OK)
        return rc;
    p->offered += c.offered;
    p->allowed += c.count;
    for (unsigned i = 0; i < c.count; i++)
        picking_try_choice(p, &c.at[i]);
    graph_choices_release(&c);
    return SL_OK;
}

static bool enough(const struct picking *p, const struct graph_rules *rules)
{
    return p->out->count >= (p->compare ? p->most : 2) &&
           (!rules->tensor_cores || p->cores_fit);
}

// Mode B's picks with tensor cores go in front of what there is.
static enum sl_err look_longer(struct picking *p, const struct graph *g,
                               const struct graph_rules *rules,
                               struct sl_error *err)
{
    struct graph_picks before = *p->out;
    enum sl_err rc;

    p->out->count = 0;
    rc = picking_try_mode(p, g, CUDNN_HEUR_MODE_B, rules, err);
    if (rc == SL_OK && before.count > 0 && !p->cores_fit)
        graph_picks_forget(p->out, 0);
    for (unsigned i = 0; i < before.count; i++)
        picking_add_plan(p, &before.at[i]);
    return rc;
}

static enum graph_cores picking_tensor_cores(const struct picking *p,
                                             const struct graph_rules *rules)
{
    return !rules->tensor_cores         ? GRAPH_CORES_FORBIDDEN
           : p->out->at[0].tensor_cores ? GRAPH_CORES_USED
           : p->cores_fit               ? GRAPH_CORES_RANKED
           : p->out->missed_bytes > 0   ? GRAPH_CORES_CAPPED
                                        : GRAPH_CORES_NONE;
}

void graph_picks_forget(struct graph_picks *picks, unsigned first)
{
    for (unsigned i = first; i < picks->count; i++)
        graph_plan_forget(&picks->at[i]);
    if (picks->count > first)
        picks->count = first;
}

enum sl_err graph_pick(struct graph_picks *out, const struct graph *g,
                       const struct graph_target *t,
                       const struct graph_rules *rules, bool compare,
                       size_t cap_bytes, struct sl_error *err)
{
    struct graph_picks picks = {.count = 0};
    struct picking p = {
        .out = &picks,
        .target = t,
        .cap_bytes = cap_bytes,
        .compare = compare,
        .most = compare ? GRAPH_PICKS : 1 + STAND_INS,
    };
    enum sl_err rc = picking_try_mode(&p, g, CUDNN_HEUR_MODE_A, rules, err);

    if (rc == SL_OK && !enough(&p, rules))
        rc = picking_try_mode(&p, g, CUDNN_HEUR_MODE_FALLBACK, rules, err);
    if (rc == SL_OK &&
        (picks.count == 0 || (rules->tensor_cores && !p.cores_fit)))
        rc = look_longer(&p, g, rules, err);
    if (rc == SL_OK && p.allowed == 0)
        rc = graph_none(rules, p.offered, err);
    if (rc == SL_OK && picks.count == 0)
        rc = sl_fail(err, SL_ENOMEM,
                     "none of cuDNN's %u plans for %s fits into %zu bytes of "
                     "workspace",
                     p.allowed, kern_op_name(rules->op), cap_bytes);
    if (rc != SL_OK) {
        graph_picks_forget(&picks, 0);
        return rc;
    }
    picks.cores = picking_tensor_cores(&p, rules);
    *out = picks;
    return SL_OK;
}
