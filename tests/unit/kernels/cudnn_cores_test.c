// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/cudnn_cores_test.c -- do convolutions get tensor cores?
//
// For every convolution of three nets, in each direction and in each precision
// that allows tensor cores, at batches from 16 to 1024, on a GPU of each
// architecture: the engine that the module would take uses them, or the case
// is in cudnn_plain.def with cuDNN's own answer as the reason. A case there
// that has become untrue fails as well. The module's own choice is asked
// (graph_pick), of the real cuDNN; nothing runs.
//
// The suite looks at three of the batches; SLUICE_CUDNN_ALL=1 at all.
// SLUICE_CUDNN_PRINT=1 prints cudnn_plain.def as it should be (with all).
#include "kernels/cuda/conv_graph.h"
#include "tests/harness/t.h"
#include "tests/unit/kernels/conv_nets.h"
#include "tests/unit/kernels/gpus.h"

// The exceptions are those of this release; what another one answers is held to
// the rule that they follow.
#define TABLE_OF (CUDNN_VERSION / 100 * 100)
#define WORKSPACE_SHARE 4 // of a device's memory, as vendor.c has it

static const struct {
    int64_t batch;
    bool usual; // the suite looks at it
} batches[] = {{16, true},   {32, false},  {48, false}, {64, true},
               {128, false}, {256, false}, {512, true}, {1024, false}};

static const struct {
    enum kern_dtype t;
    const char *name;
} dtypes[] = {{KERN_F32, "tf32"}, {KERN_F16, "f16"}, {KERN_BF16, "bf16"}};

// Without tensor cores: on which GPU, which convolution, in which direction and
// precision, at which batches, and why.
static const struct plain {
    const char *gpu, *layer, *op, *dtype, *batches;
    enum graph_cores why;
} plain[] = {
#define PLAIN(gpu, layer, op, dtype, batches, why)                             \
    {                                                                          \
        gpu, layer, op, dtype, " " batches " ", GRAPH_CORES_##why              \
    }
#include "tests/unit/kernels/cudnn_plain.def"
};

struct asked {
    const struct gpu_facts *gpu;
    const struct conv_layer *layer;
    enum kern_op op;
    unsigned dtype;
    int64_t batch;
};

static struct graph_target target;

// cuDNN's answer to what the module asks.
static enum graph_cores answer(const struct asked *a)
{
    const struct graph_rules rules = {a->op, true, true};
    struct graph_picks picks;
    struct kern_desc d;
    struct graph g;
    enum sl_err rc;

    conv_layer_desc(&d, a->layer, a->op, a->batch, dtypes[a->dtype].t);
    T_OK(kern_desc_check(&d, t_err()));
    rc = conv_graph(&g, &d, &target, t_err());
    if (rc == SL_OK)
        rc = graph_pick(&picks, &g, &target, &rules, false,
                        gpu_bytes(a->gpu) / WORKSPACE_SHARE, t_err());
    graph_release(&g);
    if (rc != SL_OK)
        T_FAIL("%s, %s, %s, %s, batch %d: %s", a->gpu->name, a->layer->name,
               kern_op_name(a->op), dtypes[a->dtype].name, (int)a->batch,
               t_err()->text);
    graph_picks_forget(&picks, 0);
    return picks.cores;
}

// What the table says: used, or why not.
static enum graph_cores expected(const struct asked *a)
{
    char batch[32];

    snprintf(batch, sizeof(batch), " %d ", (int)a->batch);
    for (unsigned i = 0; i < SL_COUNT(plain); i++)
        if (strcmp(plain[i].gpu, a->gpu->name) == 0 &&
            strcmp(plain[i].layer, a->layer->name) == 0 &&
            strcmp(plain[i].op, kern_op_name(a->op)) == 0 &&
            strcmp(plain[i].dtype, dtypes[a->dtype].name) == 0 &&
            strstr(plain[i].batches, batch) != NULL)
            return plain[i].why;
    return GRAPH_CORES_USED;
}

static const char *const words[] = {
    [GRAPH_CORES_RANKED] = "RANKED",
    [GRAPH_CORES_CAPPED] = "CAPPED",
    [GRAPH_CORES_NONE] = "NONE",
};

// One line of cudnn_plain.def for each reason that some batches have.
static void print(struct asked a)
{
    enum graph_cores got[SL_COUNT(batches)];

    for (unsigned b = 0; b < SL_COUNT(batches); b++) {
        a.batch = batches[b].batch;
        got[b] = answer(&a);
    }
    for (unsigned why = GRAPH_CORES_RANKED; why < SL_COUNT(words); why++) {
        char list[64] = "";
        size_t used = 0;

        for (unsigned b = 0; b < SL_COUNT(batches); b++)
            if (got[b] == why)
                used += (size_t)snprintf(list + used, sizeof(list) - used,
                                         "%s%d", used > 0 ? " " : "",
                                         (int)batches[b].batch);
        if (used > 0)
            printf("PLAIN(\"%s\", \"%s\", \"%s\", \"%s\", \"%s\", %s),\n",
                   a.gpu->name, a.layer->name, kern_op_name(a.op),
                   dtypes[a.dtype].name, list, words[why]);
    }
}

static void check(const struct asked *a)
{
    enum graph_cores got = answer(a), want = expected(a);

    // What cuDNN itself says is no mistake of ours, but the table is of one
    // release.
    if (cudnnGetVersion() / 100 * 100 != TABLE_OF && got != GRAPH_CORES_CAPPED)
        return;
    if (got != want)
        T_FAIL("%s, %s, %s, %s, batch %d: tensor cores: %s; cudnn_plain.def "
               "says: %s",
               a->gpu->name, a->layer->name, kern_op_name(a->op),
               dtypes[a->dtype].name, (int)a->batch, graph_cores_name(got),
               graph_cores_name(want));
}

static void check_layer(const struct gpu_facts *gpu, const struct conv_layer *l)
{
    bool all = getenv("SLUICE_CUDNN_ALL") != NULL;
    struct asked a = {.gpu = gpu, .layer = l};

    for (unsigned o = 0; o < SL_COUNT(conv_ops); o++) {
        a.op = conv_ops[o];
        if (!conv_layer_has(l, a.op))
            continue;
        for (a.dtype = 0; a.dtype < SL_COUNT(dtypes); a.dtype++) {
            if (getenv("SLUICE_CUDNN_PRINT") != NULL) {
                print(a);
                continue;
            }
            for (unsigned b = 0; b < SL_COUNT(batches); b++) {
                a.batch = batches[b].batch;
                if (all || batches[b].usual)
                    check(&a);
            }
        }
    }
}

static void check_net(const struct conv_layer *layers, unsigned n)
{
    char json[2048];

    for (unsigned i = 0; i < SL_COUNT(gpu_facts); i++) {
        gpu_json(json, sizeof(json), &gpu_facts[i]);
        T_OK(graph_describe(&target, json, t_err()));
        for (unsigned l = 0; l < n; l++)
            check_layer(&gpu_facts[i], &layers[l]);
    }
}

TEST(cores, imagenette_has_tensor_cores)
{
    check_net(imagenette, SL_COUNT(imagenette));
}

TEST(cores, fashion_has_tensor_cores)
{
    check_net(fashion, SL_COUNT(fashion));
}

TEST(cores, resnet_50_has_tensor_cores)
{
    check_net(resnet, SL_COUNT(resnet));
}
