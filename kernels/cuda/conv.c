// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv.c -- convolutions: the choice of an engine, plans, runs.
#include <inttypes.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "kernels/cuda/vendor.h"

struct cuda_conv {
    struct cuda_plan base;
    struct kern_desc desc;
    struct graph_picks picks; // chosen plan, and its stand-ins
    unsigned at;              // number of the plan that runs
    struct kern_plan *after;  // of our own: sums dy for BGRAD, or ReLU; or NULL
    char impl[64];
};

static struct graph_target conv_target_of(const struct vendor *v)
{
    return (struct graph_target){.handle = v->dnn};
}

static struct graph_rules conv_rules_of(const struct vendor *v,
                                        const struct kern_desc *d)
{
    return (struct graph_rules){
        .op = (enum kern_op)d->op,
        .tensor_cores = d->io[0].dtype != KERN_F32 || vendor_tf32(v, d),
        .deterministic = v->options.deterministic,
    };
}

// What an answer of cuDNN is asked by. Release the graph.
struct conv_question {
    struct graph graph;
    struct graph_target target;
    struct graph_rules rules;
};

static enum sl_err conv_question_init(struct conv_question *q,
                                      struct cuda_dev *dev,
                                      const struct kern_desc *d,
                                      struct sl_error *err)
{
    enum sl_err rc;

    graph_init(&q->graph, err);
    rc = vendor_dnn(dev, err);
    if (rc != SL_OK)
        return rc;
    q->target = conv_target_of(vendor(dev));
    q->rules = conv_rules_of(vendor(dev), d);
    return conv_graph(&q->graph, d, &q->target, err);
}

static bool has_engine(struct cuda_dev *dev, const struct kern_desc *d)
{
    struct graph_choices c;
    struct conv_question q;
    bool yes = conv_question_init(&q, dev, d, NULL) == SL_OK &&
               graph_choose(&c, &q.graph, &q.target, &q.rules, NULL) == SL_OK;

    if (yes)
        graph_choices_release(&c);
    graph_release(&q.graph);
    return yes;
}

int conv_score(struct cuda_dev *dev, const struct kern_desc *d)
{
    if (!conv_graph_has(d))
        return 0;
    if (kern_desc_empty(d)) // a bias would still be due
        return kern_has(d, KERN_BIAS) && kern_shape_count(&d->io[d->inputs]) > 0
                   ? 0
                   : 100;
    return has_engine(dev, d) ? 100 : 0;
}

// ---- Running --------------------------------------------------------------

// What p says that runs.
static void conv_set_impl_name(struct cuda_conv *p,
                               const struct graph_plan *plan)
{
    bool plain = !plan->tensor_cores && p->picks.cores != GRAPH_CORES_FORBIDDEN;

    if (plan->engine < 0)
        snprintf(p->impl, sizeof(p->impl), "cudnn:kept");
    else
        snprintf(p->impl, sizeof(p->impl), "cudnn:engine %" PRId64 "%s",
                 plan->engine, plain ? ", no tensor cores" : "");
}

void conv_stream_ends(struct cuda_dev *dev, cudaStream_t s)
{
    struct vendor *v = vendor(dev);

    // A new stream often has the address of one that has ended. It would pass
    // for the stream that the handle has, and cuDNN would go on with the ended
    // one.
    if (!v->dnn_streamed || v->dnn_stream != s)
        return;
    v->dnn_streamed = false;
    v->dnn_stream = NULL;
    if (!dev->lost)
        cudnnSetStream(v->dnn, NULL);
}

static enum sl_err run_graph(struct cuda_dev *dev, const struct kern_desc *d,
                             const struct graph_plan *plan, cudaStream_t s,
                             void *const *io, void *workspace)
{
    struct vendor *v = vendor(dev);
    unsigned n = conv_graph_tensors(d);
    int64_t uids[4];
    enum sl_err rc;

    if (!vendor_aligned(n, io))
        return vendor_refused(dev, s, SL_EINTERNAL, "unaligned tensors");
    if (!v->dnn_streamed || v->dnn_stream != s) {
        if (cudnnSetStream(v->dnn, s) != CUDNN_STATUS_SUCCESS)
            return vendor_refused(dev, s, SL_EINTERNAL, "cuDNN's stream");
        v->dnn_stream = s;
        v->dnn_streamed = true;
    }
    for (unsigned i = 0; i < n; i++)
        uids[i] = CONV_UID(i);
    rc = graph_plan_run(plan, v->dnn, n, uids, io, workspace);
    return rc == SL_OK ? rc : vendor_refused(dev, s, rc, "a convolution");
}

// What cuDNN does not fuse: db = sum of dy, or y = relu(y).
static enum sl_err run_after(struct cuda_conv *p, cudaStream_t s,
                             void *const *io, void *workspace)
{
    struct cuda_plan *after = (struct cuda_plan *)p->after;
    bool wgrad = p->desc.op == KERN_CONV_WGRAD;
    void *y = io[p->desc.inputs];
    void *const two[2] = {wgrad ? io[1] : y, wgrad ? io[3] : y};

    return after->run(after, s, two, workspace);
}

// An engine that refuses, and leaves the device whole, is not asked again.
static enum sl_err run_picked(struct cuda_conv *p, cudaStream_t s,
                              void *const *io, void *workspace)
{
    struct cuda_dev *dev = p->base.dev;
    enum sl_err rc =
        run_graph(dev, &p->desc, &p->picks.at[p->at], s, io, workspace);

    while (p->at + 1 < p->picks.count && vendor_try_next(s, rc) &&
           vendor_aligned(conv_graph_tensors(&p->desc), io)) {
        vendor_tell_next(dev, &p->desc, p->impl);
        p->at++;
        conv_set_impl_name(p, &p->picks.at[p->at]);
        rc = run_graph(dev, &p->desc, &p->picks.at[p->at], s, io, workspace);
    }
    return rc;
}

static enum sl_err conv_run(struct cuda_plan *plan, cudaStream_t s,
                            void *const *io, void *workspace)
{
    struct cuda_conv *p = (struct cuda_conv *)plan;
    enum sl_err rc = run_picked(p, s, io, workspace);

    return rc == SL_OK && p->after ? run_after(p, s, io, workspace) : rc;
}

static void conv_free(struct cuda_plan *plan)
{
    struct cuda_conv *p = (struct cuda_conv *)plan;

    cuda_plan_free(p->after);
    graph_picks_forget(&p->picks, p->at + 1);
    sl_free(p); // those that ran stay: graph_plan_forget says why
}

// ---- Planning -------------------------------------------------------------

struct conv_candidates {
    struct cuda_dev *dev;
    const struct kern_desc *desc;
    const struct graph_picks *picks;
};

static enum sl_err conv_try_candidate(void *arg, unsigned i, cudaStream_t s,
                                      void *const *io, void *workspace)
{
    struct conv_candidates *c = arg;

    return run_graph(c->dev, c->desc, &c->picks->at[i], s, io, workspace);
}

// The fastest goes first and stays alone: the others ran, so they stay too.
static void conv_pick_fastest(struct graph_picks *picks, struct cuda_dev *dev,
                              const struct kern_desc *d)
{
    struct conv_candidates c = {dev, d, picks};
    size_t most = 0;
    unsigned winner;

    for (unsigned i = 0; i < picks->count; i++)
        if (picks->at[i].workspace_bytes > most)
            most = picks->at[i].workspace_bytes;
    winner = tune_fastest(dev, d, picks->count, most, conv_try_candidate, &c);
    picks->at[0] = picks->at[winner];
    picks->count = 1;
    if (picks->at[0].tensor_cores)
        picks->cores = GRAPH_CORES_USED;
    else if (picks->cores == GRAPH_CORES_USED)
        picks->cores = GRAPH_CORES_SLOWER;
}

static enum sl_err conv_pick_plans(struct graph_picks *out,
                                   struct cuda_dev *dev,
                                   const struct kern_desc *d, size_t cap_bytes,
                                   struct sl_error *err)
{
    bool autotune = vendor(dev)->options.autotune;
    struct conv_question q;
    enum sl_err rc = conv_question_init(&q, dev, d, err);

    if (rc == SL_OK)
        rc = graph_pick(out, &q.graph, &q.target, &q.rules, autotune, cap_bytes,
                        err);
    graph_release(&q.graph);
    if (rc == SL_OK && autotune)
        conv_pick_fastest(out, dev, d);
    return rc;
}

// A kept plan is whether it has tensor cores (enum graph_cores), and its text.
static bool conv_find_kept(struct graph_picks *out, struct cuda_dev *dev,
                           uint64_t key, size_t cap_bytes)
{
    struct graph_target target = conv_target_of(vendor(dev));
    struct buf text = BUF_INIT;
    struct graph_picks kept = {.count = 1};
    unsigned cores = 0;
    int used = 0;
    bool found =
        plans_find(&text, &vendor(dev)->plans, "conv", cudnnGetVersion(), key);

    found = found && sscanf(buf_text(&text), "%u %n", &cores, &used) == 1 &&
            graph_plan_read(&kept.at[0], &target, buf_text(&text) + used,
                            NULL) == SL_OK;
    buf_release(&text);
    if (found && kept.at[0].workspace_bytes > cap_bytes) {
        graph_plan_forget(&kept.at[0]);
        found = false;
    }
    kept.cores = (enum graph_cores)cores;
    if (found)
        *out = kept;
    return found;
}

static void conv_keep_plan(struct cuda_dev *dev, uint64_t key,
                           const struct graph_picks *p)
{
    struct buf text = BUF_INIT;

    if (vendor(dev)->plans.path &&
        buf_appendf(&text, "%u ", (unsigned)p->cores) == SL_OK &&
        graph_plan_write(&text, &p->at[0], NULL) == SL_OK)
        plans_add(&vendor(dev)->plans, "conv", cudnnGetVersion(), key, &text);
    buf_release(&text);
}

// A kept plan has what may stand in for it too, in its workspace: its library
// may be another build of the same version.
static void conv_add_stand_ins(struct cuda_conv *p)
{
    struct graph_picks *picks = &p->picks, more;
    struct conv_question q;
    enum sl_err rc = conv_question_init(&q, p->base.dev, &p->desc, NULL);

    if (rc == SL_OK)
        rc = graph_pick(&more, &q.graph, &q.target, &q.rules, false,
                        picks->at[0].workspace_bytes, NULL);
    graph_release(&q.graph);
    for (unsigned i = 0; rc == SL_OK && i < more.count; i++) {
        if (picks->count < GRAPH_PICKS)
            picks->at[picks->count++] = more.at[i];
        else
            graph_plan_forget(&more.at[i]);
    }
}

// The plan of the graph: one that was kept, or a new one.
static enum sl_err plan_graph(struct cuda_conv *p, size_t cap_bytes,
                              struct sl_error *err)
{
    struct cuda_dev *dev = p->base.dev;
    uint64_t key = vendor_key(dev, &p->desc, cap_bytes);
    enum sl_err rc = vendor_dnn(dev, err);

    if (rc != SL_OK)
        return rc;
    if (conv_find_kept(&p->picks, dev, key, cap_bytes)) {
        conv_add_stand_ins(p);
    } else {
        rc = conv_pick_plans(&p->picks, dev, &p->desc, cap_bytes, err);
        if (rc != SL_OK)
            return rc;
        conv_keep_plan(dev, key, &p->picks);
    }
    conv_set_impl_name(p, &p->picks.at[0]);
    vendor_tell_cores(dev, &p->desc, &p->picks, cap_bytes);
    return SL_OK;
}

static enum sl_err plan_after(struct cuda_conv *p, size_t *workspace_bytes,
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
    struct cuda_conv *p;
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
    *workspace_bytes = p->picks.at[0].workspace_bytes > after
                           ? p->picks.at[0].workspace_bytes
                           : after;
    return SL_OK;
}
