// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv.c -- convolutions: the choice of an engine, plans, runs.
#include <inttypes.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/cuda/plain.h"
#include "kernels/cuda/vendor.h"

#define CONV_PICKS 3 // of a plan: the chosen engine, and what may stand in

struct cuda_conv {
    struct cuda_plan base;
    struct kern_desc desc;
    struct graph_picks picks; // chosen plan, and its stand-ins
    unsigned at;              // number of the plan that runs
    struct kern_plan *after;  // of our own: sums dy for BGRAD, or ReLU; or NULL
    size_t after_bytes;       // its workspace
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
                               const struct graph_picks *picks, unsigned i)
{
    const struct graph_plan *plan = &picks->at[i];
    bool plain = !plan->tensor_cores && picks->cores != GRAPH_CORES_FORBIDDEN;

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
                             struct graph_plan *plan, cudaStream_t s,
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
    plan->ran = true;
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
        conv_set_impl_name(p, &p->picks, p->at);
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
    graph_picks_forget(&p->picks, 0);
    sl_free(p);
}

// ---- Planning -------------------------------------------------------------

struct conv_candidates {
    struct cuda_conv *p;
    struct graph_picks *picks;
};

static enum sl_err conv_try_candidate(void *arg, unsigned i, cudaStream_t s,
                                      void *const *io, void *workspace)
{
    struct conv_candidates *c = arg;

    return run_graph(c->p->base.dev, &c->p->desc, &c->picks->at[i], s, io,
                     workspace);
}

// The whole op by one candidate.
static enum sl_err conv_try_whole(void *arg, unsigned i, cudaStream_t s,
                                  void *const *io, void *workspace)
{
    struct conv_candidates *c = arg;
    enum sl_err rc = conv_try_candidate(arg, i, s, io, workspace);

    return rc == SL_OK && c->p->after ? run_after(c->p, s, io, workspace) : rc;
}

// Returns the most workspace of what is tried.
static size_t conv_most_bytes(const struct cuda_conv *p,
                              const struct graph_picks *picks)
{
    size_t most = p->after_bytes;

    for (unsigned i = 0; i < picks->count; i++)
        if (picks->at[i].workspace_bytes > most)
            most = picks->at[i].workspace_bytes;
    return most;
}

// ---- Proofs ---------------------------------------------------------------

// Returns a hash of a plan's text, which has its engine and all its settings.
// The file of plans has blanks for its line ends.
static uint64_t conv_hash_text(const char *text)
{
    uint64_t h = 0;

    for (; *text; text++)
        if ((unsigned char)*text > ' ')
            h = sl_mix64(h ^ (uint8_t)*text);
    return h;
}

static uint64_t conv_identity(const struct graph_plan *plan)
{
    struct buf text = BUF_INIT;
    uint64_t h = (uint64_t)plan->engine;

    if (graph_plan_write(&text, plan, NULL) == SL_OK)
        h = conv_hash_text(buf_text(&text));
    buf_release(&text);
    return h;
}

static struct judge_candidate conv_candidate(struct conv_candidates *c,
                                             unsigned i)
{
    conv_set_impl_name(c->p, c->picks, i);
    return (struct judge_candidate){
        .run = conv_try_whole,
        .arg = c,
        .i = i,
        .impl = c->p->impl,
        .identity = conv_identity(&c->picks->at[i]),
        .version = cudnnGetVersion(),
    };
}

// Leaves out the picks that are wrong on this device. With an error all that
// nothing is known of stay, for the caller to forget.
static enum sl_err conv_keep_right(struct cuda_conv *p,
                                   struct graph_picks *picks,
                                   struct sl_error *err)
{
    struct conv_candidates c = {p, picks};
    unsigned kept = 0;
    bool cores_wrong = false;
    enum sl_err rc = SL_OK;
    struct judge j;

    judge_init(&j, p->base.dev, &p->desc, conv_most_bytes(p, picks));
    for (unsigned i = 0; i < picks->count; i++) {
        struct judge_candidate one = conv_candidate(&c, i);
        struct graph_plan *plan = &picks->at[i];
        bool right = true;

        if (rc == SL_OK)
            rc = judge_try(&right, &j, &one);
        cores_wrong |= !right && plan->tensor_cores;
        if (right)
            picks->at[kept++] = *plan;
        else
            graph_plan_forget(plan);
    }
    judge_release(&j);
    picks->count = kept;
    if (cores_wrong && (kept == 0 || !picks->at[0].tensor_cores))
        picks->cores = GRAPH_CORES_WRONG;
    return rc == SL_OK ? rc : judge_fail(&j, rc, err);
}

// The fastest goes first and stays alone: the others ran, so they stay too.
static void conv_pick_fastest(struct cuda_conv *p, struct graph_picks *picks)
{
    struct conv_candidates c = {p, picks};
    unsigned winner =
        tune_fastest(p->base.dev, &p->desc, picks->count,
                     conv_most_bytes(p, picks), conv_try_candidate, &c);

    picks->at[0] = picks->at[winner];
    picks->count = 1;
    if (picks->at[0].tensor_cores)
        picks->cores = GRAPH_CORES_USED;
    else if (picks->cores == GRAPH_CORES_USED)
        picks->cores = GRAPH_CORES_SLOWER;
}

// Picks of cuDNN that are right: its first ones, or with `all` what it has.
static enum sl_err conv_pick_right(struct graph_picks *out, struct cuda_conv *p,
                                   const struct conv_question *q, bool all,
                                   size_t cap_bytes, struct sl_error *err)
{
    enum sl_err rc =
        graph_pick(out, &q->graph, &q->target, &q->rules, all, cap_bytes, err);

    if (rc != SL_OK)
        return rc;
    rc = conv_keep_right(p, out, err);
    if (rc != SL_OK)
        graph_picks_forget(out, 0);
    return rc;
}

// Leaves behind the first pick what costs no more memory than that.
static void conv_trim(struct graph_picks *picks)
{
    unsigned kept = 1;

    for (unsigned i = 1; i < picks->count; i++) {
        if (kept < CONV_PICKS &&
            picks->at[i].workspace_bytes <= picks->at[0].workspace_bytes)
            picks->at[kept++] = picks->at[i];
        else
            graph_plan_forget(&picks->at[i]);
    }
    picks->count = kept;
}

// None at all: every engine that may run is wrong here.
static enum sl_err conv_pick_plans(struct cuda_conv *p, size_t cap_bytes,
                                   struct sl_error *err)
{
    bool autotune = vendor(p->base.dev)->options.autotune;
    struct graph_picks picks;
    struct conv_question q;
    enum sl_err rc = conv_question_init(&q, p->base.dev, &p->desc, err);

    if (rc == SL_OK)
        rc = conv_pick_right(&picks, p, &q, autotune, cap_bytes, err);
    if (rc == SL_OK && picks.count == 0 && !autotune)
        rc = conv_pick_right(&picks, p, &q, true, cap_bytes, err);
    graph_release(&q.graph);
    if (rc != SL_OK)
        return rc;
    if (picks.count > 0 && autotune)
        conv_pick_fastest(p, &picks);
    else if (picks.count > 0)
        conv_trim(&picks);
    p->picks = picks;
    return SL_OK;
}

// ---- Kept plans -----------------------------------------------------------

// Forgets a kept plan that is wrong by now: its library may be another build of
// the same version.
static bool conv_kept_is_right(struct cuda_conv *p, struct graph_picks *kept,
                               const char *text)
{
    struct conv_candidates c = {p, kept};
    struct judge_candidate one = conv_candidate(&c, 0);
    struct judge j;
    bool right = false;

    one.identity = conv_hash_text(text);
    judge_init(&j, p->base.dev, &p->desc, conv_most_bytes(p, kept));
    if (judge_try(&right, &j, &one) != SL_OK)
        right = false;
    judge_release(&j);
    return right;
}

// A kept plan is whether it has tensor cores (enum graph_cores), and its text.
static bool conv_find_kept(struct cuda_conv *p, uint64_t key, size_t cap_bytes)
{
    struct vendor *v = vendor(p->base.dev);
    struct graph_target target = conv_target_of(v);
    struct buf text = BUF_INIT;
    struct graph_picks kept = {.count = 1};
    unsigned cores = 0;
    int used = 0;
    bool found = plans_find(&text, &v->plans, "conv", cudnnGetVersion(), key);

    found = found && sscanf(buf_text(&text), "%u %n", &cores, &used) == 1 &&
            graph_plan_read(&kept.at[0], &target, buf_text(&text) + used,
                            NULL) == SL_OK;
    kept.cores = (enum graph_cores)cores;
    if (found && (kept.at[0].workspace_bytes > cap_bytes ||
                  !conv_kept_is_right(p, &kept, buf_text(&text) + used))) {
        graph_plan_forget(&kept.at[0]);
        found = false;
    }
    buf_release(&text);
    if (found)
        p->picks = kept;
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

// A kept plan has what may stand in for it too, in its workspace, as far as
// that is known to be right: its library may be another build of the same
// version.
static void conv_add_stand_ins(struct cuda_conv *p)
{
    struct graph_picks *picks = &p->picks, more;
    struct conv_candidates c = {p, &more};
    struct conv_question q;
    struct judge j;
    enum sl_err rc = conv_question_init(&q, p->base.dev, &p->desc, NULL);

    if (rc == SL_OK)
        rc = graph_pick(&more, &q.graph, &q.target, &q.rules, false,
                        picks->at[0].workspace_bytes, NULL);
    graph_release(&q.graph);
    judge_init(&j, p->base.dev, &p->desc, 0);
    for (unsigned i = 0; rc == SL_OK && i < more.count; i++) {
        struct judge_candidate one = conv_candidate(&c, i);

        if (picks->count < GRAPH_PICKS && judge_trusts(&j, &one))
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
    if (conv_find_kept(p, key, cap_bytes)) {
        judge_recall_left_out(dev, &p->desc, cudnnGetVersion(), key);
        conv_add_stand_ins(p);
    } else {
        rc = conv_pick_plans(p, cap_bytes, err);
        if (rc != SL_OK)
            return rc;
        if (p->picks.count > 0 && judge_sure(&vendor(dev)->book, &p->desc)) {
            conv_keep_plan(dev, key, &p->picks);
            judge_keep_left_out(dev, &p->desc, cudnnGetVersion(), key);
        }
    }
    conv_set_impl_name(p, &p->picks, 0);
    vendor_tell_cores(dev, &p->desc, &p->picks, cap_bytes);
    return SL_OK;
}

static enum sl_err plan_after(struct cuda_conv *p, size_t cap_bytes,
                              struct sl_error *err)
{
    const struct kern_desc *d = &p->desc;
    const struct kern_shape *y = &d->io[d->inputs];
    struct kern_desc relu;

    if (kern_has(d, KERN_BGRAD))
        return rows_plan(&p->after, &p->after_bytes, p->base.dev, &d->io[1],
                         kern_has(d, KERN_ACCUM), cap_bytes, err);
    if (!kern_has(d, KERN_RELU) || conv_graph_relu(d))
        return SL_OK;
    kern_desc_unary(&relu, KERN_UNARY_FWD, KERN_UNARY_RELU, 0, y->nd, y->dim);
    kern_desc_dtype(&relu, (enum kern_dtype)y->dtype);
    return cuda_own_plan(&p->after, &p->after_bytes, &p->base.dev->base, &relu,
                         cap_bytes, err);
}

enum sl_err conv_plan(struct kern_plan **out, size_t *workspace_bytes,
                      struct cuda_dev *dev, const struct kern_desc *d,
                      size_t cap_bytes, struct sl_error *err)
{
    size_t cap = vendor_cap(dev, cap_bytes);
    struct cuda_conv *p;
    enum sl_err rc;

    if (kern_desc_empty(d))
        return nothing_plan(out, workspace_bytes, dev, d, err);
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    cuda_plan_init(&p->base, dev, p->impl, conv_run, conv_free);
    p->desc = *d;
    rc = plan_after(p, cap_bytes, err);
    if (rc == SL_OK)
        rc = plan_graph(p, cap, err);
    if (rc != SL_OK || p->picks.count == 0) {
        conv_free(&p->base);
        return rc != SL_OK ? rc : plain_plan(out, workspace_bytes, dev, d, err);
    }
    *out = &p->base.base;
    *workspace_bytes = p->picks.at[0].workspace_bytes > p->after_bytes
                           ? p->picks.at[0].workspace_bytes
                           : p->after_bytes;
    return SL_OK;
}
