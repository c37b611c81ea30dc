// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_choose.c -- which engines may run a graph.
#include "kernels/cuda/cudnn_inner.h"

#include <string.h>

// What is known to give wrong results, by version of cuDNN (as
// cudnnGetVersion() says it), direction and engine. From pytorch's list.
static const struct erratum {
    size_t first, last; // versions, both included
    enum kern_op op;
    int64_t engine;
} errata[] = {
    {92301, 92400, KERN_CONV_FWD, 5},
};

static bool known_wrong(enum kern_op op, int64_t engine)
{
    size_t version = cudnnGetVersion();

    for (unsigned i = 0; i < SL_COUNT(errata); i++)
        if (errata[i].op == op && errata[i].engine == engine &&
            version >= errata[i].first && version <= errata[i].last)
            return true;
    return false;
}

static bool allowed(cudnnBackendNumericalNote_t note,
                    const struct graph_rules *rules)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: // loses three digits
        return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return rules->tensor_cores;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return !rules->deterministic;
    default:
        return true;
    }
}

// Reads what an engine says of itself into *c; true if it may run.
static bool graph_choice_inspect(struct graph_choice *c,
                                 cudnnBackendDescriptor_t engine,
                                 const struct graph_rules *rules)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t ways[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0, m = 0, one = 0;

    if (cudnnBackendGetAttribute(c->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one,
                                 &engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                 CUDNN_TYPE_INT64, 1, &one,
                                 &c->engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, SL_COUNT(notes), &n,
                                 notes) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                 CUDNN_TYPE_BEHAVIOR_NOTE, SL_COUNT(ways), &m,
                                 ways) != CUDNN_STATUS_SUCCESS)
        return false;
    c->compiles = c->tensor_cores = false;
    for (int64_t i = 0; i < m && i < (int64_t)SL_COUNT(ways); i++)
        c->compiles |= ways[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    for (int64_t i = 0; i < n && i < (int64_t)SL_COUNT(notes); i++) {
        if (!allowed(notes[i], rules))
            return false;
        c->tensor_cores |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    }
    return !known_wrong(rules->op, c->engine);
}

static bool may_run(struct graph_choice *c, const struct graph_rules *rules)
{
    cudnnBackendDescriptor_t engine = NULL;
    bool yes;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                     &engine) != CUDNN_STATUS_SUCCESS)
        return false;
    yes = graph_choice_inspect(c, engine, rules);
    cudnnBackendDestroyDescriptor(engine);
    return yes;
}

// Makes the empty descriptors that cuDNN fills with configurations.
static unsigned make_configs(cudnnBackendDescriptor_t *configs, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                         &configs[i]) != CUDNN_STATUS_SUCCESS)
            return i;
    return n;
}

// Fetches what one way of asking has to offer, and keeps what may run.
static void take_results(struct graph_choices *out,
                         cudnnBackendDescriptor_t asked,
                         const struct graph_rules *rules)
{
    cudnnBackendDescriptor_t configs[GRAPH_CHOICES];
    unsigned made = make_configs(configs, GRAPH_CHOICES - out->count);
    int64_t got = 0;

    if (cudnnBackendGetAttribute(asked, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &got,
                                 configs) != CUDNN_STATUS_SUCCESS)
        got = 0;
    for (unsigned i = 0; i < made; i++) {
        struct graph_choice c = {.config = configs[i]};

        out->offered += i < got;
        if (i < got && may_run(&c, rules))
            out->at[out->count++] = c;
        else
            cudnnBackendDestroyDescriptor(configs[i]);
    }
}

static enum sl_err graph_choices_add_mode(struct graph_choices *out,
                                          const struct graph *g,
                                          const struct graph_target *t,
                                          cudnnBackendHeurMode_t mode,
                                          const struct graph_rules *rules,
                                          struct sl_error *err)
{
    cudnnBackendDescriptor_t h = NULL;
    enum sl_err rc;

    rc = cudnn_fail(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &h),
        "asking for engines", err);
    if (rc != SL_OK)
        return rc;
    rc = cudnn_set(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->sealed, err);
    if (rc == SL_OK)
        rc = cudnn_set(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                       &mode, err);
    if (rc == SL_OK && t->described)
        rc = cudnn_set(h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t->described, err);
    // A mode that has nothing for this graph fails here: ask the other one.
    if (rc == SL_OK && cudnnBackendFinalize(h) == CUDNN_STATUS_SUCCESS)
        take_results(out, h, rules);
    cudnnBackendDestroyDescriptor(h);
    return rc;
}

enum sl_err graph_ask(struct graph_choices *out, const struct graph *g,
                      const struct graph_target *t, cudnnBackendHeurMode_t mode,
                      const struct graph_rules *rules, struct sl_error *err)
{
    struct graph_choices c = {.count = 0};
    enum sl_err rc = graph_choices_add_mode(&c, g, t, mode, rules, err);

    if (rc == SL_OK)
        *out = c;
    else
        graph_choices_release(&c);
    return rc;
}

enum sl_err graph_none(const struct graph_rules *rules, unsigned offered,
                       struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP,
                   "cuDNN %zu has no engine for this %s%s%s (%u offered)",
                   cudnnGetVersion(), kern_op_name(rules->op),
                   rules->tensor_cores ? "" : " in strict f32",
                   rules->deterministic ? ", deterministic" : "", offered);
}

enum sl_err graph_choose(struct graph_choices *out, const struct graph *g,
                         const struct graph_target *t,
                         const struct graph_rules *rules, struct sl_error *err)
{
    struct graph_choices c = {.count = 0};
    enum sl_err rc =
        graph_choices_add_mode(&c, g, t, CUDNN_HEUR_MODE_A, rules, err);

    if (rc == SL_OK)
        rc = graph_choices_add_mode(&c, g, t, CUDNN_HEUR_MODE_FALLBACK, rules,
                                    err);
    if (rc == SL_OK && c.count == 0)
        rc = graph_choices_add_mode(&c, g, t, CUDNN_HEUR_MODE_B, rules, err);
    if (rc == SL_OK && c.count == 0)
        rc = graph_none(rules, c.offered, err);
    if (rc != SL_OK) {
        graph_choices_release(&c);
        return rc;
    }
    *out = c;
    return SL_OK;
}

void graph_choices_release(struct graph_choices *c)
{
    while (c->count > 0)
        cudnnBackendDestroyDescriptor(c->at[--c->count].config);
}
