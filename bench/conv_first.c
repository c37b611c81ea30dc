// SPDX-License-Identifier: Apache-2.0
// bench/conv_first.c -- first convolutions, of few input channels: our own
// loops beside the best of oneDNN, op by op.
//
// Each op (forward with bias and ReLU; the gradient by filter and bias) is
// planned twice, on a device without our direct loops and on one that takes
// them wherever they can. Both work on the same tensors, in turn, --rounds
// times; a round is as many runs as take about 5 ms. What is printed: medians
// of a round's milliseconds per run, of this thread's processor time, so that
// other work on the machine is not in it (what it does to caches is); whether
// cpu's own rule (kernels/cpu/cpu.c) takes our loops there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/program.h"
#include "kernels/desc.h"

#define ROUNDS_MAX 256
#define ROUND_MS 5

enum { OTHERS, OURS, RULE, WAYS };

struct way {
    struct kern_dev *dev;
    struct kern_plan *plan;
    double ms[ROUNDS_MAX];
};

// Square images and filters.
static const struct {
    const char *name;
    int32_t n, edge, ci, co, k, stride, dilation;
    bool same; // pads to SAME
} nets[] = {
    {"fashion", 64, 28, 1, 32, 3, 1, 1, false},
    {"fashion, batch 320", 320, 28, 1, 32, 3, 1, 1, false},
    {"deep-mnist", 64, 28, 1, 32, 5, 1, 1, true},
    {"LeNet", 64, 28, 1, 6, 5, 1, 1, true},
    {"MNIST 64 filters", 64, 28, 1, 64, 3, 1, 1, true},
    {"MNIST 16 filters", 64, 28, 1, 16, 3, 1, 1, true},
    {"MNIST 7x7", 64, 28, 1, 32, 7, 1, 1, false},
    {"one image", 1, 28, 1, 32, 3, 1, 1, false},
    {"CIFAR 3x3", 64, 32, 3, 32, 3, 1, 1, true},
    {"CIFAR VGG", 64, 32, 3, 64, 3, 1, 1, true},
    {"CIFAR ResNet", 64, 32, 3, 16, 3, 1, 1, true},
    {"CIFAR 5x5", 64, 32, 3, 32, 5, 1, 1, true},
    {"CIFAR 20 filters", 64, 32, 3, 20, 5, 1, 1, false},
    {"imagenette", 16, 256, 3, 32, 5, 2, 1, true},
    {"ResNet-50", 8, 224, 3, 64, 7, 2, 1, true},
    {"VGG-16", 4, 224, 3, 64, 3, 1, 1, true},
    {"MobileNet", 8, 224, 3, 32, 3, 2, 1, true},
    {"AlexNet", 8, 224, 3, 64, 11, 4, 1, true},
    {"ViT patches", 8, 224, 3, 192, 16, 16, 1, false},
    {"dilated", 64, 32, 3, 32, 3, 1, 2, true},
    {"2 channels", 64, 32, 2, 32, 3, 1, 1, true},
    {"4 channels", 64, 32, 4, 32, 3, 1, 1, true},
    {"6 channels", 64, 32, 6, 32, 3, 1, 1, true},
    {"8 channels", 64, 32, 8, 32, 3, 1, 1, true},
    {"8 channels, 5x5", 64, 32, 8, 32, 5, 1, 1, true},
};

static void describe(struct kern_desc *d, size_t net, enum kern_op op)
{
    struct kern_window w = kern_window(nets[net].k, nets[net].k,
                                       nets[net].stride, nets[net].stride);
    int64_t edge = nets[net].edge, out;
    int32_t reach = (nets[net].k - 1) * nets[net].dilation + 1, pads;

    out = nets[net].same ? (edge + nets[net].stride - 1) / nets[net].stride : 0;
    pads = (int32_t)((out - 1) * nets[net].stride + reach - edge);
    for (int i = 0; i < 2; i++) {
        w.dilation[i] = nets[net].dilation;
        if (nets[net].same && pads > 0) {
            w.pad_before[i] = pads / 2;
            w.pad_after[i] = pads - pads / 2;
        }
    }
    kern_desc_conv(d, op, (int64_t[]){nets[net].n, edge, edge, nets[net].ci},
                   nets[net].co, &w, 1,
                   op == KERN_CONV_FWD ? KERN_BIAS | KERN_RELU : KERN_BGRAD);
}

// ---- time

static double time_of(struct way *w, void *const *io, void *workspace, int runs)
{
    double began = program_thread_s();

    for (int i = 0; i < runs; i++)
        program_must(kern_run(w->plan, NULL, io, workspace), NULL, "a run");
    return 1e3 * (program_thread_s() - began) / runs;
}

static double median(double *ms, int count)
{
    program_sort(ms, (size_t)count);
    return ms[count / 2];
}

// ---- one op

static void *plan_all(struct way *ways, const struct kern_desc *d)
{
    struct sl_error err = SL_ERROR_INIT;
    size_t bytes, most = 64;

    for (int i = 0; i < WAYS; i++) {
        program_must(
            kern_plan_new(&ways[i].plan, &bytes, ways[i].dev, d, 0, &err), &err,
            "a plan");
        most = bytes > most ? bytes : most;
    }
    return program_memory(most);
}

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 37 % 101 - 50) * 0.02f;
}

static void measure(struct way *ways, size_t net, enum kern_op op, int rounds)
{
    void *io[KERN_IO] = {NULL}, *workspace;
    double once, ms[OURS + 1];
    const char *rule = "-";
    struct kern_desc d;
    int runs;

    describe(&d, net, op);
    for (unsigned i = 0; i < d.inputs + d.outputs; i++) {
        io[i] = program_memory(kern_shape_bytes(&d.io[i]));
        fill(io[i], kern_shape_count(&d.io[i]));
    }
    workspace = plan_all(ways, &d);
    once = time_of(&ways[OTHERS], io, workspace, 1);
    (void)time_of(&ways[OURS], io, workspace, 1);
    runs = once > ROUND_MS ? 1 : (int)(ROUND_MS / (once + 1e-3));
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i <= OURS; i++)
            ways[i].ms[r] = time_of(&ways[i], io, workspace, runs);
    for (int i = 0; i <= OURS; i++)
        ms[i] = median(ways[i].ms, rounds);
    if (strcmp(ways[OURS].plan->impl, ways[OTHERS].plan->impl) == 0)
        rule = "same"; // the direct loops cannot, or Winograd is first
    else if (strcmp(ways[RULE].plan->impl, ways[OURS].plan->impl) == 0)
        rule = "ours";
    printf("%-20s %-10s %8.3f  %8.3f  %5.2f  %-4s  %s\n", nets[net].name,
           kern_op_name(op), ms[OTHERS], ms[OURS], ms[OTHERS] / ms[OURS], rule,
           ways[OTHERS].plan->impl);
    for (int i = 0; i < WAYS; i++)
        kern_plan_free(ways[i].plan);
    for (unsigned i = 0; i < d.inputs + d.outputs; i++)
        free(io[i]);
    free(workspace);
}

// ---- the program

static const struct conf_about about = {
    .program = "conv_first",
    .usage = "conv_first [OPTION]...",
    .text = "Times first convolutions by our own loops and by oneDNN.",
    .example = "conv_first --isa avx2 --rounds 21",
};

static const struct conf_key keys[] = {
    {.name = "rounds",
     .kind = CONF_INT,
     .value = "15",
     .min = 1,
     .max = ROUNDS_MAX,
     .help = "How often each is measured."},
    {.name = "net", .kind = CONF_STRING, .help = "Only nets so called."},
    {.name = "cpu", .kind = CONF_INT, .value = "1", .help = "Our core."},
    {.name = "isa",
     .kind = CONF_STRING,
     .value = "avx512",
     .help = "Use no wider instructions than these: base, avx2 or avx512."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, NULL};

int main(int argc, char **argv)
{
    static const int direct[WAYS] = {[OTHERS] = 0, [OURS] = 2, [RULE] = 1};
    static struct way ways[WAYS];
    struct conf *c = program_options(&about, tables, argc, argv);
    struct sl_error err = SL_ERROR_INIT;
    const char *only = conf_str(c, "net");
    struct kern_info info;
    char options[64];

    program_pin((int)conf_int(c, "cpu"));
    for (int i = 0; i < WAYS; i++) {
        snprintf(options, sizeof(options), "threads=1,isa=%s,direct=%d",
                 conf_str(c, "isa"), direct[i]);
        program_must(kern_open(&ways[i].dev, "cpu", options, &err), &err,
                     "a device");
    }
    ways[0].dev->backend->info(&info, ways[0].dev);
    printf("%s\n%-20s %-10s %8s  %8s  %5s  %-4s  %s\n", info.name, "net", "op",
           "theirs", "ours", "times", "rule", "theirs is");
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        if (only != NULL && strstr(nets[i].name, only) == NULL)
            continue;
        measure(ways, i, KERN_CONV_FWD, (int)conf_int(c, "rounds"));
        measure(ways, i, KERN_CONV_WGRAD, (int)conf_int(c, "rounds"));
    }
    for (int i = 0; i < WAYS; i++)
        kern_close(ways[i].dev);
    conf_free(c);
    return 0;
}
