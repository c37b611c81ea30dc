// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv.c -- convolutions: the choice of an engine, plans, runs.
#include <inttypes.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "kernels/cuda/vendor.h"

#define COMPILED_MOST                                                          \
    2 // candidates that are compiled at run time: seconds each

struct conv {
    struct cuda_plan base;
    struct kern_desc desc;
    struct graph_plan plan;
    struct kern_plan *after; // of our own: sums dy for BGRAD, or ReLU; or NULL
    char impl[32];
};

static struct graph_target target_of(const struct vendor *v)
{
    return (struct graph_target){.handle = v->dnn};
}

static struct graph_rules rules_of(const struct vendor *v,
                                   const struct kern_desc *d)
{
    return (struct graph_rules){
        .op = (enum kern_op)d->op,
        .tensor_cores = d->io[0].dtype != KERN_F32 || vendor_tf32(v, d),
        .deterministic = v->options.deterministic,
    };
}

// The graph of `d` and who may run it. Release both.
static enum sl_err choose(struct graph_choices *out, struct cuda_dev *dev,
                          const struct kern_desc *d, struct sl_error *err)
{
    struct graph_target target;
    struct graph_rules rules;
    struct graph g;
    enum sl_err rc = vendor_dnn(dev, err);

    if (rc != SL_OK)
        return rc;
    target = target_of(vendor(dev));
    rules = rules_of(vendor(dev), d);
    rc = conv_graph(&g, d, &target, err);
    if (rc == SL_OK)
        rc = graph_choose(out, &g, &target, &rules, err);
    graph_release(&g);
    return rc;
}

int conv_score(struct cuda_dev *dev, const struct kern_desc *d)
{
    struct graph_choices c;

    if (!conv_graph_has(d))
        return 0;
    if (kern_desc_empty(d)) // a bias would still be due
        return kern_has(d, KERN_BIAS) && kern_shape_count(&d->io[d->inputs]) > 0
                   ? 0
                   : 100;
    if (choose(&c, dev, d, NULL) != SL_OK)
        return 0;
    graph_choices_release(&c);
    return 100;
}

// ---- Running --------------------------------------------------------------

static enum sl_err run_graph(struct cuda_dev *dev, const struct kern_desc *d,
                             const struct graph_plan *plan, cudaStream_t s,
                             void *const *io, void *workspace)
{
    struct vendor *v = vendor(dev);
    unsigned n = conv_graph_tensors(d);
    int64_t uids[4];
    enum sl_err rc;

    if (!vendor_aligned(n, io))
        return vendor_refused(dev, SL_EINTERNAL, "unaligned tensors");
    if (!v->dnn_streamed || v->dnn_stream != s) {
        if (cudnnSetStream(v->dnn, s) != CUDNN_STATUS_SUCCESS)
            return vendor_refused(dev, SL_EINTERNAL, "cuDNN's stream");
        v->dnn_stream = s;
        v->dnn_streamed = true;
    }
    for (unsigned i = 0; i < n; i++)
        uids[i] = CONV_UID(i);
    rc = graph_plan_run(plan, v->dnn, n, uids, io, workspace);
    return rc == SL_OK ? rc : vendor_refused(dev, rc, "a convolution");
}

// What cuDNN does not fuse: db = sum of dy, or y = relu(y).
static enum sl_err run_after(struct conv *p, cudaStream_t s, void *const *io,
                             void *workspace)
{
    struct cuda_plan *after = (struct cuda_plan *)p->after;
    bool wgrad = p->desc.op == KERN_CONV_WGRAD;
    void *y = io[p->desc.inputs];
    void *const two[2] = {wgrad ? io[1] : y, wgrad ? io[3] : y};

    return after->run(after, s, two, workspace);
}

static enum sl_err conv_run(struct cuda_plan *plan, cudaStream_t s,
                            void *const *io, void *workspace)
{
    struct conv *p = (struct conv *)plan;
    enum sl_err rc = run_graph(plan->dev, &p->desc, &p->plan, s, io, workspace);

    return rc == SL_OK && p->after ? run_after(p, s, io, workspace) : rc;
}

static void conv_free(struct cuda_plan *plan)
{
    struct conv *p = (struct conv *)plan;

    cuda_plan_free(p->after);
    sl_free(p); // the graph's plan stays: graph_plan_forget says why
}

// ---- Planning -------------------------------------------------------------

struct candidates {
    struct cuda_dev *dev;
    const struct kern_desc *desc;
    struct graph_plan at[VENDOR_TRIES];
    unsigned count;
    size_t workspace_bytes; // of the hungriest
};

static enum sl_err try_one(void *arg, unsigned i, cudaStream_t s,
                           void *const *io, void *workspace)
{
    struct candidates *c = arg;

    return run_graph(c->dev, c->desc, &c->at[i], s, io, workspace);
}

// Plans of the first choices that fit under the cap, at most `want`.
static void make_candidates(struct candidates *c,
                            const struct graph_choices *choices, unsigned want,
                            size_t cap_bytes)
{
    struct graph_target target = target_of(vendor(c->dev));
    unsigned compiled = 0;

    for (unsigned i = 0; i < choices->count && c->count < want; i++) {
        struct graph_plan p;

        if (choices->at[i].compiles && compiled == COMPILED_MOST)
            continue;
        compiled += choices->at[i].compiles;
        if (graph_plan_make(&p, &target, &choices->at[i], NULL) != SL_OK)
            continue;
        if (p.workspace_bytes > cap_bytes) {
            graph_plan_forget(&p);
            continue;
        }
        if (p.workspace_bytes > c->workspace_bytes)
            c->workspace_bytes = p.workspace_bytes;
        c->at[c->count++] = p;
    }
}

static enum sl_err make_plan(struct graph_plan *out, struct cuda_dev *dev,
                             const struct kern_desc *d, size_t cap_bytes,
                             struct sl_error *err)
{
    bool autotune = vendor(dev)->options.autotune;
    struct candidates c = {.dev = dev, .desc = d};
    struct graph_choices choices;
    unsigned winner;
    enum sl_err rc = choose(&choices, dev, d, err);

    if (rc != SL_OK)
        return rc;
    make_candidates(&c, &choices, autotune ? VENDOR_TRIES : 1, cap_bytes);
    rc = c.count > 0 ? SL_OK
                     : sl_fail(err, SL_ENOMEM,
                               "none of cuDNN's %u plans for %s fits into %zu "
                               "bytes of workspace",
                               choices.count, kern_op_name((enum kern_op)d->op),
                               cap_bytes);
    graph_choices_release(&choices);
    if (rc != SL_OK)
        return rc;
    winner = tune(dev, d, c.count, c.workspace_bytes, try_one, &c);
    *out = c.at[winner]; // the others stay too: they ran
    return SL_OK;
}

static bool find_kept(struct graph_plan *out, struct cuda_dev *dev,
                      uint64_t key, size_t cap_bytes)
{
    struct graph_target target = target_of(vendor(dev));
    struct buf json = BUF_INIT;
    bool found =
        plans_find(&json, &vendor(dev)->plans, "conv", cudnnGetVersion(), key);

    found =
        found && graph_plan_read(out, &target, buf_text(&json), NULL) == SL_OK;
    buf_release(&json);
    if (found && out->workspace_bytes > cap_bytes) {
        graph_plan_forget(out);
        found = false;
    }
    return found;
}

static void keep(struct cuda_dev *dev, uint64_t key, const struct graph_plan *p)
{
    struct buf json = BUF_INIT;

    if (vendor(dev)->plans.path && graph_plan_write(&json, p, NULL) == SL_OK)
        plans_add(&vendor(dev)->plans, "conv", cudnnGetVersion(), key, &json);
    buf_release(&json);
}

// The plan of the graph: one that was kept, or a new one.
static enum sl_err plan_graph(struct conv *p, size_t cap_bytes,
                              struct sl_error *err)
{
    struct cuda_dev *dev = p->base.dev;
    uint64_t key = vendor_key(dev, &p->desc);
    enum sl_err rc = vendor_dnn(dev, err);

    if (rc != SL_OK)
        return rc;
    if (find_kept(&p->plan, dev, key, cap_bytes)) {
        snprintf(p->impl, sizeof(p->impl), "cudnn:kept");
        return SL_OK;
    }
    rc = make_plan(&p->plan, dev, &p->desc, cap_bytes, err);
    if (rc != SL_OK)
        return rc;
    keep(dev, key, &p->plan);
    snprintf(p->impl, sizeof(p->impl), "cudnn:engine %" PRId64, p->plan.engine);
    return SL_OK;
}

static enum sl_err plan_after(struct conv *p, size_t *workspace_bytes,
                              size_t cap_bytes, struct sl_error *err)
{
    const struct kern_desc *d = &p->desc;
    const struct kern_shape *y = &d->io[d->inputs];
    struct kern_desc relu;

    if (kern_has(d, KERN_BGRAD))
        return rows_plan(&p->after, workspace_bytes, p->base.dev, &d->io[1],
                         kern_has(d, KERN_ACCUM), cap_bytes, err);
    if (!kern_has(d, KERN_RELU) || conv_graph_relu(d))
        return SL_OK;
    kern_desc_unary(&relu, KERN_UNARY_FWD, KERN_UNARY_RELU, 0, y->nd, y->dim);
    kern_desc_dtype(&relu, (enum kern_dtype)y->dtype);
    return cuda_own_plan(&p->after, workspace_bytes, &p->base.dev->base, &relu,
                         cap_bytes, err);
}

enum sl_err conv_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err)
{
    size_t cap = vendor_cap(dev, cap_bytes), after = 0;
    struct conv *p;
    enum sl_err rc;

    if (kern_desc_empty(d))
        return nothing_plan(out, workspace_bytes, dev, d, err);
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, p->impl, conv_run, conv_free);
    p->desc = *d;
    rc = plan_graph(p, cap, err);
    if (rc == SL_OK)
        rc = plan_after(p, &after, cap_bytes, err);
    if (rc != SL_OK) {
        conv_free(&p->base);
        return rc;
    }
    *out = &p->base.base;
    *workspace_bytes =
        p->plan.workspace_bytes > after ? p->plan.workspace_bytes : after;
    return SL_OK;
}
