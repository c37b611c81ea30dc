// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/cudnn_test.c -- the graphs of our nets, judged by cuDNN
// for a described H200, on any host.
//
// Each convolution of the two reference nets, in each direction, dtype and
// kind of strictness, must have an engine that the rules allow and that keeps
// to the workspace cap. cuDNN's heuristics and plans are real here; only
// nothing runs.
#include <string.h>

#include "kernels/cuda/conv_graph.h"
#include "tests/harness/t.h"
#include "tests/unit/kernels/conv_nets.h"
#include "tests/unit/kernels/gpus.h"

#define CAP (gpu_bytes(gpu_h200()) / 4) // the default of a device

static struct graph_target target;
static struct sl_error err;

static void describe(void)
{
    char json[2048];

    if (target.described)
        return;
    gpu_json(json, sizeof(json), gpu_h200());
    T_OK(graph_describe(&target, json, t_err()));
}

// A weight gradient is added to in f32.
static void make_desc(struct kern_desc *d, const struct conv_layer *l,
                      enum kern_op op, int64_t batch, enum kern_dtype t)
{
    conv_layer_desc(d, l, op, batch, t);
    if (op == KERN_CONV_WGRAD && t == KERN_F32)
        d->epilogue |= KERN_ACCUM;
}

// True if the first choice that is willing keeps to the cap.
static bool fits(const struct graph_choices *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct graph_plan p;
        bool fit;

        if (c->at[i].compiles ||
            graph_plan_make(&p, &target, &c->at[i], NULL) != SL_OK)
            continue;
        fit = p.workspace_bytes <= CAP;
        graph_plan_forget(&p);
        if (fit)
            return true;
    }
    return false;
}

static void check(const struct conv_layer *l, enum kern_op op, int64_t batch,
                  enum kern_dtype t, bool tensor_cores, bool deterministic)
{
    const struct graph_rules rules = {op, tensor_cores, deterministic};
    struct graph_choices c = {.count = 0};
    struct kern_desc d;
    struct graph g;

    make_desc(&d, l, op, batch, t);
    T_OK(kern_desc_check(&d, t_err()));
    T_TRUE(conv_graph_has(&d));
    T_OK(conv_graph(&g, &d, &target, t_err()));
    if (graph_choose(&c, &g, &target, &rules, &err) != SL_OK)
        T_FAIL("%s, batch %d, dtype %d: %s", l->name, (int)batch, t, err.text);
    else if (!fits(&c))
        T_FAIL("%s, %s, batch %d, dtype %d: none of %u plans fits", l->name,
               kern_op_name(op), (int)batch, t, c.count);
    graph_choices_release(&c);
    graph_release(&g);
}

// How one op may compute: dtype and whether f32 may become TF32.
static const struct {
    enum kern_dtype t;
    bool tensor_cores;
} modes[] = {
    {KERN_F32, false},
    {KERN_F32, true},
    {KERN_F16, true},
    {KERN_BF16, true},
};

static void check_net(const struct conv_layer *layers, unsigned n,
                      int64_t batch)
{
    describe();
    for (unsigned l = 0; l < n; l++)
        for (unsigned o = 0; o < SL_COUNT(conv_ops); o++)
            for (unsigned m = 0; m < SL_COUNT(modes); m++)
                for (int det = 0; det < 2; det++)
                    if (conv_layer_has(&layers[l], conv_ops[o]))
                        check(&layers[l], conv_ops[o], batch, modes[m].t,
                              modes[m].tensor_cores, det);
}

TEST(cudnn, every_graph_of_fashion_has_an_engine)
{
    check_net(fashion, SL_COUNT(fashion), 64);
    check_net(fashion, SL_COUNT(fashion), 320);
}

TEST(cudnn, every_graph_of_imagenette_has_an_engine)
{
    check_net(imagenette, SL_COUNT(imagenette), 32);
    check_net(imagenette, SL_COUNT(imagenette), 512);
}

// ---- The rules ------------------------------------------------------------

static void choices_of(struct graph_choices *out, const struct kern_desc *d,
                       bool tensor_cores, bool deterministic)
{
    const struct graph_rules rules = {(enum kern_op)d->op, tensor_cores,
                                      deterministic};
    struct graph g;

    describe();
    T_OK(conv_graph(&g, d, &target, t_err()));
    T_OK(graph_choose(out, &g, &target, &rules, t_err()));
    graph_release(&g);
}

// Strict f32 leaves out the many engines that would go through TF32, and
// determinism those that add in any order.
TEST(cudnn, the_rules_leave_out_engines)
{
    struct graph_choices any, strict, fixed;
    struct kern_desc d;

    make_desc(&d, &imagenette[2], KERN_CONV_WGRAD, 32, KERN_F32);
    choices_of(&any, &d, true, false);
    choices_of(&strict, &d, false, false);
    choices_of(&fixed, &d, true, true);
    T_EQ(any.count, any.offered);
    T_EQ(strict.offered, any.offered);
    T_LT(strict.count, any.count);
    T_LT(fixed.count, any.count);
    T_GT(strict.count, 0);
    graph_choices_release(&any);
    graph_choices_release(&strict);
    graph_choices_release(&fixed);
}

// Engines that convert inputs down or sum in 16 bits are never taken.
TEST(cudnn, reduced_precision_is_never_offered)
{
    struct graph_choices c;
    struct kern_desc d;

    make_desc(&d, &imagenette[2], KERN_CONV_WGRAD, 32, KERN_F16);
    choices_of(&c, &d, true, false);
    T_LT(c.count, c.offered);
    graph_choices_release(&c);
}

TEST(cudnn, what_cudnn_cannot_is_not_asked)
{
    struct kern_desc d;

    make_desc(&d, &imagenette[2], KERN_CONV_WGRAD, 32, KERN_F16);
    T_TRUE(conv_graph_has(&d));
    d.io[2].dtype = KERN_F32; // 16 bits in, f32 out
    T_FALSE(conv_graph_has(&d));
    kern_desc_reduce(&d, 2, (int64_t[]){2, 3}, 0);
    T_FALSE(conv_graph_has(&d));
}

// Awkward sizes and all ways to fuse have an engine too.
TEST(cudnn, awkward_shapes_have_an_engine)
{
    static const struct conv_layer odd[] = {
        {"odd", 9, 5, 7, 3, 1, false, false, true},
        {"one pixel", 1, 3, 3, 1, 1, false, false, true},
        {"even filter", 10, 4, 6, 4, 3, true, false, true},
    };
    static const uint32_t epilogues[] = {0, KERN_BIAS, KERN_RELU,
                                         KERN_BIAS | KERN_RELU};
    struct graph_choices c;
    struct kern_desc d;

    for (unsigned i = 0; i < SL_COUNT(odd); i++)
        for (unsigned m = 0; m < SL_COUNT(modes); m++) {
            for (unsigned e = 0; e < SL_COUNT(epilogues); e++) {
                struct kern_window w = kern_window(
                    odd[i].k, odd[i].k, odd[i].stride, odd[i].stride);

                kern_desc_conv(&d, KERN_CONV_FWD,
                               (int64_t[]){3, odd[i].h, odd[i].h, odd[i].ci},
                               odd[i].co, &w, 1, epilogues[e]);
                kern_desc_dtype(&d, modes[m].t);
                choices_of(&c, &d, modes[m].tensor_cores, true);
                T_TRUE(fits(&c));
                graph_choices_release(&c);
            }
            check(&odd[i], KERN_CONV_DGRAD, 1, modes[m].t,
                  modes[m].tensor_cores, true);
            check(&odd[i], KERN_CONV_WGRAD, 1, modes[m].t,
                  modes[m].tensor_cores, true);
        }
}

// ---- What a graph refuses ---------------------------------------------------

TEST(cudnn, a_graph_refuses_more_operations_than_it_has_room_for)
{
    struct graph_tensor t = {.uid = 1,
                             .dtype = KERN_F32,
                             .dim = {1, 8, 4, 4},
                             .stride = {128, 1, 32, 8}};
    cudnnBackendDescriptor_t x, y;
    struct graph g;

    describe();
    graph_init(&g, &err);
    x = graph_tensor(&g, &t);
    t.uid = 2;
    y = graph_tensor(&g, &t);
    for (unsigned i = 0; i <= GRAPH_OPS; i++) {
        T_EQ(g.rc, SL_OK);
        graph_pointwise(&g, x, NULL, y);
    }
    T_EQ(g.op_count, GRAPH_OPS);
    T_FAILS(SL_EINTERNAL, graph_seal(&g, &target));
    T_HAS(err.text, "too many operations");
    graph_release(&g);
}

TEST(cudnn, a_graph_is_finished_once)
{
    cudnnBackendDescriptor_t sealed;
    struct kern_desc d;
    struct graph g;

    describe();
    make_desc(&d, &fashion[1], KERN_CONV_FWD, 64, KERN_F32);
    T_OK(conv_graph(&g, &d, &target, &err));
    sealed = g.sealed;
    T_FAILS(SL_EINTERNAL, graph_seal(&g, &target));
    T_PTR(g.sealed, sealed); // which graph_release destroys
    graph_release(&g);
}

// ---- Plans as text --------------------------------------------------------

TEST(cudnn, a_plan_survives_as_text)
{
    struct buf first = BUF_INIT, second = BUF_INIT;
    struct graph_plan made, read_back;
    struct graph_choices c;
    struct kern_desc d;

    make_desc(&d, &fashion[1], KERN_CONV_FWD, 64, KERN_BF16);
    choices_of(&c, &d, true, true);
    T_OK(graph_plan_make(&made, &target, &c.at[0], t_err()));
    T_OK(graph_plan_write(&first, &made, t_err()));
    T_OK(graph_plan_read(&read_back, &target, buf_text(&first), t_err()));
    T_EQ(read_back.workspace_bytes, made.workspace_bytes);
    T_OK(graph_plan_write(&second, &read_back, t_err()));
    T_STR(buf_text(&second), buf_text(&first));
    T_TRUE(graph_plan_read(&read_back, &target, "{\"no\": 1}", &err) != SL_OK);
    graph_plan_forget(&made);
    graph_plan_forget(&read_back);
    graph_choices_release(&c);
    buf_release(&first);
    buf_release(&second);
}

TEST(cudnn, a_wrong_description_is_an_error)
{
    struct graph_target t = {0};

    T_TRUE(graph_describe(&t, "{\"deviceName\": \"x\"}", &err) != SL_OK);
    T_HAS(err.text, "describing a device");
    T_PTR(t.described, NULL);
}
