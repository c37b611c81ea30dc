// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/planted_test.c -- mistakes in what we ask of cuDNN
// (tests/emul/planted_calls.def), made before the real one: what the stand-in
// of tests/emul refuses, it refuses too, for a described H200.
#include "kernels/cuda/conv_graph.h"
#include "tests/emul/planted_calls.h"
#include "tests/harness/t.h"
#include "tests/unit/kernels/gpus.h"
#include "tests/unit/kernels/window_same.h"

static struct graph_target target;

static void open_target(void)
{
    char json[2048];

    gpu_json(json, sizeof(json), gpu_h200());
    T_OK(graph_describe(&target, json, t_err()));
}

// True if a convolution with bias and ReLU has an engine.
static bool taken(enum planted_call call)
{
    const struct graph_rules rules = {KERN_CONV_FWD, true, true};
    struct kern_window w = kern_window(5, 5, 2, 2);
    struct graph_choices c;
    struct kern_desc d;
    struct graph g;
    bool yes;

    window_same(&w, 0, 32);
    window_same(&w, 1, 32);
    kern_desc_conv(&d, KERN_CONV_FWD, (int64_t[]){8, 32, 32, 16}, 24, &w, 1,
                   KERN_BIAS | KERN_RELU);
    planted_make(call);
    yes = conv_graph(&g, &d, &target, NULL) == SL_OK &&
          graph_choose(&c, &g, &target, &rules, NULL) == SL_OK;
    planted_make(PLANTED_NOTHING);
    if (yes)
        graph_choices_release(&c);
    graph_release(&g);
    return yes;
}

static const struct {
    const char *name;
    enum planted_how how;
} calls[PLANTED_CALLS] = {
#define PLANTED_CALL(name, how, words) [PLANTED_##name] = {#name, how},
#include "tests/emul/planted_calls.def"
};

TEST(planted, cudnn_refuses_what_the_stand_in_refuses)
{
    open_target();
    T_TRUE(taken(PLANTED_NOTHING));
    for (unsigned i = 1; i < PLANTED_CALLS; i++)
        if (calls[i].how == GRAPH && taken(i))
            T_FAIL("%s: cuDNN has an engine for it", calls[i].name);
}
