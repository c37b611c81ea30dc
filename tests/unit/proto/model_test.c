// SPDX-License-Identifier: Apache-2.0
// Shapes, paddings, parameters, names and initial values, as Keras has them.
#include <math.h>

#include "proto/model.h"
#include "tests/unit/proto/t_proto.h"

#define CONV(filters, size)                                                    \
    "{'type':'conv2d','filters':" #filters ",'kernel_size':" #size             \
    ",'activation':'relu'}"

#define FASHION                                                                \
    "{'input_shape':[28,28,1],'layers':[" CONV(                                \
        32, 3) ","                                                             \
               "{'type':'max_pooling2d'}," CONV(                               \
                   64, 3) ",{'type':'max_pooling2d'},"                         \
                          "{'type':'flatten'},{'type':'dense','units':64,'"    \
                          "activation':'relu'},"                               \
                          "{'type':'dense','units':10}]}"

#define BIG(filters, size)                                                     \
    "{'type':'conv2d','filters':" #filters ",'kernel_size':" #size             \
    ",'strides':2,'padding':'same','activation':'relu'},"                      \
    "{'type':'batch_normalization'},"
#define IMAGENETTE                                                             \
    "{'input_shape':[256,256,3],'layers':[" BIG(32, 5) BIG(64, 7)              \
        BIG(128, 11) "{'type':'global_average_pooling2d'},"                    \
                     "{'type':'dense','units':10,'activation':'softmax'}]}"

static struct model *make(const char *text)
{
    ProtobufCMessage *spec = t_make(&sluice__v1__model_spec__descriptor, text);
    struct model *m = NULL;

    T_OK(model_make(&m, (Sluice__V1__ModelSpec *)spec, t_err()));
    wire_free(spec);
    return m;
}

static void has_shape(const struct model_shape *s, const char *want)
{
    char text[MODEL_SHAPE_TEXT];

    T_STR(model_shape_text(text, s), want);
}

TEST(model, fashion)
{
    static const struct {
        const char *name, *out;
    } want[] = {
        {"input", "(28, 28, 1)"},
        {"conv2d", "(26, 26, 32)"},
        {"max_pooling2d", "(13, 13, 32)"},
        {"conv2d_1", "(11, 11, 64)"},
        {"max_pooling2d_1", "(5, 5, 64)"},
        {"flatten", "(1600,)"},
        {"dense", "(64,)"},
        {"dense_1", "(10,)"},
    };
    struct model *m = make(FASHION);

    T_EQ(m->nodes_count, SL_COUNT(want));
    for (unsigned i = 0; i < SL_COUNT(want); i++) {
        T_STR(m->nodes[i].name, want[i].name);
        has_shape(&m->nodes[i].out, want[i].out);
        T_EQ(m->nodes[i].users, 1);
    }
    T_EQ(m->elements, 121930);
    T_EQ(m->trainable, 121930);
    T_EQ(m->output[0], 7);
    T_EQ(m->nodes[1].act, MODEL_ACT_RELU);
    T_EQ(m->nodes[7].act, MODEL_ACT_LINEAR);
    T_EQ(m->nodes[2].window[1], 2);
    T_EQ(m->nodes[2].stride[0], 2);
    model_free(m);
}

TEST(model, fashion_variables_are_ours_inside_and_keras_outside)
{
    struct model *m = make(FASHION);
    const struct model_variable *v = m->variables;

    T_EQ(m->variables_count, 8);
    T_STR(v[0].name, "conv2d/kernel");
    has_shape(&v[0].shape, "(32, 3, 3, 1)");
    T_STR(v[1].name, "conv2d/bias");
    T_STR(v[4].name, "dense/kernel");
    has_shape(&v[4].shape, "(64, 1600)");
    T_EQ(v[4].keras_rank, 2);
    T_EQ(v[4].keras_order[0], 1);
    T_EQ(v[0].keras_order[3], 0);
    T_EQ(v[1].first, 288);
    T_EQ(v[7].first + v[7].elements, m->elements);
    T_EQ(m->nodes[1].weight[MODEL_BIAS], 1);
    T_EQ(m->nodes[2].weight[MODEL_KERNEL], MODEL_NONE);
    // glorot_uniform: fans of the Keras kernel (3, 3, 1, 32).
    T_EQ(v[0].init.kind, MODEL_INIT_UNIFORM);
    T_NEAR(v[0].init.b, sqrt(6.0 / (9 + 288)), 1e-15);
    T_NEAR(v[0].init.a, -v[0].init.b, 0);
    T_NEAR(v[4].init.b, sqrt(6.0 / (1600 + 64)), 1e-15);
    T_EQ(v[1].init.kind, MODEL_INIT_CONSTANT);
    model_free(m);
}

TEST(model, imagenette_pads_as_tensorflow)
{
    static const struct {
        unsigned node, before, after, elements;
        const char *out;
    } want[] = {
        {1, 1, 2, 2432, "(128, 128, 32)"},
        {3, 2, 3, 100416, "(64, 64, 64)"},
        {5, 4, 5, 991360, "(32, 32, 128)"},
    };
    struct model *m = make(IMAGENETTE);

    for (unsigned i = 0; i < SL_COUNT(want); i++) {
        const struct model_node *n = &m->nodes[want[i].node];
        const struct model_variable *v = &m->variables[n->weight[MODEL_KERNEL]];

        T_EQ(n->pad_before[0], want[i].before);
        T_EQ(n->pad_after[0], want[i].after);
        T_EQ(n->pad_before[1], want[i].before);
        T_EQ(v[0].elements + v[1].elements, want[i].elements);
        has_shape(&n->out, want[i].out);
    }
    T_EQ(m->trainable, 1095946);
    T_EQ(m->elements, 1095946 + 448);
    has_shape(&m->nodes[7].out, "(128,)");
    T_EQ(m->nodes[7].window[0], 32);
    model_free(m);
}

// A layer that is called again: its variables stand for both calls, and the
// model has them once.
TEST(model, a_shared_layer_has_the_variables_of_the_first)
{
    struct model *m =
        make("{'input_shape':[6,4],'layers':["
             "{'type':'conv1d','name':'a','filters':4,'kernel_size':3,"
             "'activation':'relu','kernel_regularizer':{'l2':0.5}},"
             "{'type':'batch_normalization','name':'n','momentum':0.5},"
             "{'type':'conv1d','name':'b','shares':'a'},"
             "{'type':'batch_normalization','name':'o','shares':'n'},"
             "{'type':'batch_normalization','name':'p','shares':'n'},"
             "{'type':'lstm','name':'l','units':4,'return_sequences':true},"
             "{'type':'lstm','name':'k','shares':'l'}]}");
    const struct model_node *n = m->nodes;

    T_EQ(m->edition, MODEL_EDITION_SHARES);
    T_EQ(m->variables_count, 2 + 4 + 3);
    for (unsigned w = 0; w < MODEL_WEIGHTS; w++) {
        T_EQ(n[3].weight[w], n[1].weight[w]);
        T_EQ(n[4].weight[w], n[2].weight[w]);
        T_EQ(n[5].weight[w], n[2].weight[w]);
        T_EQ(n[7].weight[w], n[6].weight[w]);
    }
    T_STR(n[3].name, "b");
    T_EQ(n[3].act, MODEL_ACT_RELU);
    has_shape(&n[1].out, "(4, 4)");
    has_shape(&n[3].out, "(2, 4)");
    has_shape(&n[7].out, "(2, 4)");
    T_EQ(m->variables[0].node, 1);
    T_EQ(m->variables[0].calls, 2);
    T_STR(m->variables[2].name, "n/gamma");
    T_EQ(m->variables[2].calls, 3);
    T_EQ(m->variables[8].calls, 2);
    // Three calls of the norm move what it keeps.
    T_NEAR(m->variables[4].momentum, 0.125, 1e-15);
    T_NEAR(m->variables[5].momentum, 0.125, 1e-15);
    T_EQ(m->elements, 3 * 4 * 4 + 4 + 4 * 4 + 2 * 16 * 4 + 16);
    T_EQ(m->trainable, m->elements - 2 * 4);
    model_free(m);
}

// So are layers that stay as they begin; and those that have no variables.
TEST(model, a_shared_layer_is_frozen_as_the_first)
{
    struct model *m =
        make("{'input_shape':[4],'layers':["
             "{'type':'batch_normalization','name':'n','trainable':false},"
             "{'type':'dropout','name':'d','rate':0.5},"
             "{'type':'batch_normalization','name':'o','shares':'n'},"
             "{'type':'dropout','name':'e','shares':'d'},"
             "{'type':'dense','units':1}]}");

    T_TRUE(m->nodes[3].frozen);
    T_NEAR(m->variables[2].momentum, 1, 0);
    T_NEAR(m->nodes[4].rate, 0.5, 0);
    model_free(m);
}

TEST(model, batch_norm_has_moving_statistics)
{
    struct model *m = make(IMAGENETTE);
    const struct model_node *n = &m->nodes[2];
    const struct model_variable *mean =
        &m->variables[n->weight[MODEL_MOVING_MEAN]];

    T_NEAR(n->momentum, 0.99, 0);
    T_NEAR(n->epsilon, 1e-3, 0);
    T_STR(mean->name, "batch_normalization/moving_mean");
    T_EQ(mean->kind, MODEL_MOVING);
    T_NEAR(mean->momentum, 0.99, 0);
    T_NEAR(mean[1].init.a, 1, 0); // moving_variance
    T_EQ(m->variables[n->weight[MODEL_GAMMA]].kind, MODEL_TRAINABLE);
    T_NEAR(m->variables[n->weight[MODEL_GAMMA]].init.a, 1, 0);
    model_free(m);
}

// SAME and VALID against a table made with TensorFlow's formula by hand.
TEST(model, windows)
{
    static const struct {
        unsigned in, window, stride;
        const char *padding;
        unsigned out, before, after;
    } cases[] = {
        {5, 3, 1, "valid", 3, 0, 0}, {5, 3, 1, "same", 5, 1, 1},
        {5, 2, 1, "same", 5, 0, 1},  {6, 3, 2, "same", 3, 0, 1},
        {5, 3, 2, "same", 3, 1, 1},  {7, 1, 3, "same", 3, 0, 0},
        {2, 5, 1, "same", 2, 2, 2},  {4, 4, 9, "valid", 1, 0, 0},
        {1, 11, 2, "same", 1, 5, 5},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[400];
        struct model *m;
        const struct model_node *n;

        snprintf(text, sizeof(text),
                 "{'input_shape':[%u,%u,1],'layers':[{'type':'conv2d',"
                 "'filters':1,'kernel_size':%u,'strides':%u,'padding':'%s'}]}",
                 cases[i].in, cases[i].in, cases[i].window, cases[i].stride,
                 cases[i].padding);
        m = make(text);
        n = &m->nodes[1];
        T_EQ(n->out.dim[0], cases[i].out);
        T_EQ(n->pad_before[0], cases[i].before);
        T_EQ(n->pad_after[1], cases[i].after);
        model_free(m);
    }
}

TEST(model, graph_form)
{
    struct model *m = make(
        "{'input_shape':[8,8,4],'output':'out','layers':["
        "{'type':'conv2d','name':'a','inputs':'input','filters':4,"
        "'kernel_size':[1,3],'padding':'same','use_bias':false},"
        "{'type':'batch_normalization','name':'bn','scale':false},"
        "{'type':'add','name':'sum','inputs':['bn','input','a']},"
        "{'type':'concatenate','name':'cat','inputs':['sum','a'],'axis':-1},"
        "{'type':'leaky_relu','name':'l'},"
        "{'type':'dropout','rate':0.5,'seed':3},{'type':'flatten'},"
        "{'type':'dense','name':'out','units':2,'activation':'elu',"
        "'kernel_initializer':'he_normal','bias_initializer':'ones'}]}");
    const struct model_node *n = m->nodes;

    T_STR(n[4].name, "cat");
    T_EQ(n[3].inputs, 3);
    T_EQ(n[3].input[1], 0);
    T_EQ(n[1].users, 3);
    T_EQ(n[1].weight[MODEL_BIAS], MODEL_NONE);
    T_EQ(n[2].weight[MODEL_GAMMA], MODEL_NONE);
    T_NE(n[2].weight[MODEL_BETA], MODEL_NONE);
    has_shape(&n[4].out, "(8, 8, 8)");
    T_EQ(n[5].type, MODEL_ACTIVATION);
    T_EQ(n[5].act, MODEL_ACT_LEAKY_RELU);
    T_NEAR(n[5].alpha, 0.3, 0);
    T_NEAR(n[6].rate, 0.5, 0);
    T_NEAR(n[8].alpha, 1.0, 0);
    T_NEAR(m->variables[m->variables_count - 2].init.b,
           sqrt(2.0 / 512) / 0.87962566103423978, 1e-15);
    T_NEAR(m->variables[m->variables_count - 1].init.a, 1, 0);
    model_free(m);
}

// Shapes, variables and editions of what came after the first edition.
TEST(model, layers_of_the_second_edition)
{
    struct model *m = make(
        "{'input_shape':[7,9,4],'layers':["
        "{'type':'zero_padding2d','pad':[1,2,3,4]},"
        "{'type':'rescaling','factor':0.5,'offset':-1},"
        "{'type':'depthwise_conv2d','name':'dw','kernel_size':[3,2],"
        "'depth_multiplier':3,'activation':'relu6'},"
        "{'type':'separable_conv2d','name':'sep','filters':5,'kernel_size':3,"
        "'dilation_rate':2,'padding':'same'},"
        "{'type':'conv2d','name':'c','filters':10,'kernel_size':1,'groups':5},"
        "{'type':'global_max_pooling2d','keepdims':true},"
        "{'type':'reshape','target_shape':[5,-1]},"
        "{'type':'permute','dims':[2,1]},"
        "{'type':'dense','name':'d','units':3}]}");
    static const char *const shapes[] = {
        "(7, 9, 4)",  "(10, 16, 4)", "(10, 16, 4)", "(8, 15, 12)",
        "(8, 15, 5)", "(8, 15, 10)", "(1, 1, 10)",  "(5, 2)",
        "(2, 5)",     "(2, 3)"};
    static const struct {
        const char *name, *shape, *keras;
    } variables[] = {
        {"dw/kernel", "(4, 3, 3, 2)", "2301"},
        {"dw/bias", "(12,)", ""},
        {"sep/depthwise_kernel", "(12, 1, 3, 3)", "2301"},
        {"sep/pointwise_kernel", "(5, 1, 1, 12)", "1230"},
        {"sep/bias", "(5,)", ""},
        {"c/kernel", "(10, 1, 1, 1)", "1230"},
        {"c/bias", "(10,)", ""},
        {"d/kernel", "(3, 5)", "10"},
        {"d/bias", "(3,)", ""},
    };

    T_EQ(m->nodes_count, SL_COUNT(shapes));
    for (unsigned i = 0; i < SL_COUNT(shapes); i++)
        has_shape(&m->nodes[i].out, shapes[i]);
    T_EQ(m->variables_count, SL_COUNT(variables));
    for (unsigned i = 0; i < SL_COUNT(variables); i++) {
        const struct model_variable *v = &m->variables[i];

        T_STR(v->name, variables[i].name);
        has_shape(&v->shape, variables[i].shape);
        T_EQ(v->keras_rank, strlen(variables[i].keras));
        for (uint32_t k = 0; k < v->keras_rank; k++)
            T_EQ(v->keras_order[k], (uint32_t)(variables[i].keras[k] - '0'));
    }
    // The fans of Keras' depthwise kernel (3, 2, 4, 3).
    T_NEAR(m->variables[0].init.b, sqrt(6.0 / (24 + 18)), 1e-15);
    T_EQ(m->nodes[4].pad_before[0], 2); // of a window that spans 5
    T_EQ(m->edition, 1);
    model_free(m);
}

// Numbers of rows, normalized rows, attention: names and orders of Keras.
TEST(model, sequences)
{
    struct model *m = make(
        "{'input_shape':[6],'layers':["
        "{'type':'embedding','name':'e','input_dim':9,'output_dim':8},"
        "{'type':'layer_normalization','name':'n'},"
        "{'type':'multi_head_attention','name':'a','num_heads':2,'key_dim':3,"
        "'value_dim':5},"
        "{'type':'maximum','name':'m','inputs':['a','e']},"
        "{'type':'multi_head_attention','name':'b','num_heads':4,'key_dim':2,"
        "'use_bias':false,'inputs':['m','a']}]}");
    static const struct {
        const char *name, *shape, *keras;
    } variables[] = {
        {"e/embeddings", "(9, 8)", ""},
        {"n/gamma", "(8,)", ""},
        {"n/beta", "(8,)", ""},
        {"a/query/kernel", "(2, 3, 8)", "201"},
        {"a/query/bias", "(2, 3)", ""},
        {"a/key/kernel", "(2, 3, 8)", "201"},
        {"a/key/bias", "(2, 3)", ""},
        {"a/value/kernel", "(2, 5, 8)", "201"},
        {"a/value/bias", "(2, 5)", ""},
        {"a/attention_output/kernel", "(8, 2, 5)", "120"},
        {"a/attention_output/bias", "(8,)", ""},
        {"b/query/kernel", "(4, 2, 8)", "201"},
        {"b/key/kernel", "(4, 2, 8)", "201"},
        {"b/value/kernel", "(4, 2, 8)", "201"},
        {"b/attention_output/kernel", "(8, 4, 2)", "120"},
    };

    T_EQ(m->variables_count, SL_COUNT(variables));
    for (unsigned i = 0; i < SL_COUNT(variables); i++) {
        const struct model_variable *v = &m->variables[i];

        T_STR(v->name, variables[i].name);
        has_shape(&v->shape, variables[i].shape);
        T_EQ(v->keras_rank, strlen(variables[i].keras));
        for (uint32_t k = 0; k < v->keras_rank; k++)
            T_EQ(v->keras_order[k], (uint32_t)(variables[i].keras[k] - '0'));
    }
    T_TRUE(m->nodes[0].ids);
    T_FALSE(m->nodes[1].ids);
    has_shape(&m->nodes[5].out, "(6, 8)");
    // Keras' fans of (8, 2, 3) and of (2, 5, 8).
    T_NEAR(m->variables[3].init.b, sqrt(6.0 / (8 * 2 + 8 * 3)), 1e-15);
    T_NEAR(m->variables[9].init.b, sqrt(6.0 / (2 * 5 + 2 * 8)), 1e-15);
    T_NEAR(m->variables[0].init.b, 0.05, 1e-15);
    model_free(m);
}

// Numbers of rows and others in one sample: a slice is of the kind that who
// reads it wants.
TEST(model, slices_are_parts_of_the_sample)
{
    struct model *m = make(
        "{'input_shape':[9],'layers':["
        "{'type':'slice','name':'x','size':4},"
        "{'type':'slice','name':'ids','begin':4,'size':4,'inputs':['input'"
        "]},"
        "{'type':'reshape','name':'two','target_shape':[2,2]},"
        "{'type':'embedding','input_dim':9,'output_dim':3},"
        "{'type':'flatten','name':'rows'},"
        "{'type':'slice','name':'last','begin':8,'size':1,'inputs':['input'"
        "]},"
        "{'type':'concatenate','inputs':['x','rows','last']}]}");
    static const bool ids[] = {true,  false, true,  true,
                               false, false, false, false};

    T_EQ(m->edition, MODEL_EDITION_ENCODES);
    T_EQ(m->nodes_count, SL_COUNT(ids));
    for (unsigned i = 0; i < SL_COUNT(ids); i++)
        T_EQ(m->nodes[i].ids, ids[i]);
    has_shape(&m->nodes[2].out, "(4,)");
    T_EQ(m->nodes[2].pad_before[1], 4);
    T_EQ(m->nodes[2].pad_after[1], 1);
    has_shape(&m->nodes[7].out, "(17,)");
    model_free(m);
}

// The sample is numbers of rows; a reshape of it is read as numbers.
TEST(model, a_view_that_no_embedding_reads_is_numbers)
{
    struct model *m =
        make("{'input_shape':[4],'layers':["
             "{'type':'embedding','name':'e','input_dim':9,'output_dim':1},"
             "{'type':'flatten','name':'rows'},"
             "{'type':'reshape','name':'x','target_shape':[4],'inputs':['input'"
             "]},"
             "{'type':'add','inputs':['rows','x']}]}");

    T_EQ(m->edition, MODEL_EDITION_ENCODES);
    T_TRUE(m->nodes[0].ids);
    T_FALSE(m->nodes[3].ids);
    model_free(m);
}

// Recommendation models: shapes, variables, and initial values of cross.
TEST(model, features)
{
    struct model *m =
        make("{'input_shape':[6],'layers':["
             "{'type':'embedding','name':'e','input_dim':9,'output_dim':4},"
             "{'type':'embedding','name':'g','input_dim':9,'output_dim':4,"
             "'inputs':'input'},"
             "{'type':'dot_interaction','name':'d','inputs':['e','g']},"
             "{'type':'dot_interaction','name':'s','self_interaction':true,"
             "'inputs':'e'},"
             "{'type':'fm','name':'f','inputs':['e','g']},"
             "{'type':'concatenate','name':'c','inputs':['d','s','f']},"
             "{'type':'cross','name':'x'},"
             "{'type':'cross','name':'y','inputs':['c','x'],'projection_dim':5,"
             "'use_bias':false,'kernel_initializer':'zeros'}]}");
    static const char *const shapes[] = {"(6,)",  "(6, 4)", "(6, 4)",
                                         "(66,)", "(21,)",  "(1,)",
                                         "(88,)", "(88,)",  "(88,)"};
    static const struct {
        const char *name, *shape, *keras;
    } variables[] = {
        {"e/embeddings", "(9, 4)", ""},  {"g/embeddings", "(9, 4)", ""},
        {"x/kernel", "(88, 88)", "10"},  {"x/bias", "(88,)", ""},
        {"y/u_kernel", "(5, 88)", "10"}, {"y/kernel", "(88, 5)", "10"},
    };

    T_EQ(m->nodes_count, SL_COUNT(shapes));
    for (unsigned i = 0; i < SL_COUNT(shapes); i++)
        has_shape(&m->nodes[i].out, shapes[i]);
    T_EQ(m->variables_count, SL_COUNT(variables));
    for (unsigned i = 0; i < SL_COUNT(variables); i++) {
        const struct model_variable *v = &m->variables[i];

        T_STR(v->name, variables[i].name);
        has_shape(&v->shape, variables[i].shape);
        T_EQ(v->keras_rank, strlen(variables[i].keras));
    }
    T_EQ(m->variables[2].init.kind, MODEL_INIT_TRUNCATED_NORMAL);
    T_NEAR(m->variables[2].init.b, 0.05, 0);
    T_EQ(m->variables[4].init.kind, MODEL_INIT_CONSTANT);
    T_EQ(m->variables[5].init.kind, MODEL_INIT_CONSTANT);
    model_free(m);
}

#define FOUR_INPUTS "'input','input','input','input'"
#define EIGHT_INPUTS FOUR_INPUTS "," FOUR_INPUTS

// Only what is new asks for newer workers.
TEST(model, says_which_edition_it_needs)
{
    static const struct {
        const char *layers;
        unsigned edition;
    } cases[] = {
        {"{'type':'conv2d','filters':2,'kernel_size':2},"
         "{'type':'global_average_pooling2d'},{'type':'dense','units':2}",
         0},
        {"{'type':'conv2d','filters':2,'kernel_size':2,'groups':1,"
         "'dilation_rate':1},{'type':'flatten'}",
         0},
        {"{'type':'conv2d','filters':2,'kernel_size':2,'groups':2}", 1},
        {"{'type':'conv2d','filters':2,'kernel_size':2,'dilation_rate':[1,2]}",
         1},
        {"{'type':'global_average_pooling2d','keepdims':true},"
         "{'type':'flatten'},{'type':'dense','units':2}",
         1},
        {"{'type':'add','inputs':['input','input']},{'type':'flatten'},"
         "{'type':'dense','units':2}",
         0},
        {"{'type':'global_average_pooling2d','keepdims':true,'name':'g'},"
         "{'type':'add','inputs':['g','input']},{'type':'flatten'},"
         "{'type':'dense','units':2}",
         1},
        {"{'type':'dense','units':2}", 1}, // not of a flat input
        {"{'type':'flatten'},{'type':'dense','units':2,'activation':'silu'}",
         1},
        {"{'type':'reshape','target_shape':-1},{'type':'dense','units':2}", 1},
        {"{'type':'add','inputs':[" EIGHT_INPUTS "]},{'type':'flatten'},"
         "{'type':'dense','units':2}",
         0},
        {"{'type':'add','inputs':[" EIGHT_INPUTS ",'input']},"
         "{'type':'flatten'},{'type':'dense','units':2}",
         8},
        {"{'type':'flatten'},{'type':'cross','name':'c'},"
         "{'type':'dense','units':2}",
         9},
        {"{'type':'flatten'},{'type':'embedding','input_dim':3,"
         "'output_dim':2}",
         1},
        {"{'type':'cropping2d','name':'c'},"
         "{'type':'embedding','input_dim':3,'output_dim':2}",
         55}, // numbers of a part of the sample
        {"{'type':'embedding','input_dim':3,'output_dim':6},"
         "{'type':'reshape','name':'r','target_shape':[20,6,6]},"
         "{'type':'permute','name':'p','dims':[1,2,3],'inputs':'input'},"
         "{'type':'flatten','name':'f'},{'type':'flatten','name':'g',"
         "'inputs':'r'},{'type':'concatenate','inputs':['f','g']},"
         "{'type':'dense','units':2}",
         55}, // others read it, too
        {"{'type':'flatten'},{'type':'integer_lookup','vocabulary':3},"
         "{'type':'dense','units':2}",
         55},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[500];
        struct model *m;

        snprintf(text, sizeof(text), "{'input_shape':[4,5,6],'layers':[%s]}",
                 cases[i].layers);
        m = make(text);
        T_EQ(m->edition, cases[i].edition);
        model_free(m);
    }
}

TEST(model, default_names_avoid_given_ones)
{
    struct model *m = make("{'input_shape':[4],'layers':["
                           "{'type':'dense','units':2},"
                           "{'type':'dense','units':2,'name':'dense_1'},"
                           "{'type':'dense','units':2}]}");

    T_STR(m->nodes[1].name, "dense");
    T_STR(m->nodes[3].name, "dense_2");
    model_free(m);
}

TEST(model, initializers_as_keras_scales_them)
{
    static const struct {
        const char *name;
        enum model_init_kind kind;
        double a, b;
    } cases[] = {
        {"zeros", MODEL_INIT_CONSTANT, 0, 0},
        {"ones", MODEL_INIT_CONSTANT, 1, 0},
        {"random_normal", MODEL_INIT_NORMAL, 0, .05},
        {"random_uniform", MODEL_INIT_UNIFORM, -.05, .05},
        {"truncated_normal", MODEL_INIT_TRUNCATED_NORMAL, 0, .05},
        {"glorot_uniform", MODEL_INIT_UNIFORM, -0.5, 0.5},
        {"glorot_normal", MODEL_INIT_TRUNCATED_NORMAL, 0, 0.328179528386},
        {"he_uniform", MODEL_INIT_UNIFORM, -0.61237244, 0.61237244},
        {"he_normal", MODEL_INIT_TRUNCATED_NORMAL, 0, 0.401936194287},
        {"lecun_uniform", MODEL_INIT_UNIFORM, -0.43301270, 0.43301270},
        {"lecun_normal", MODEL_INIT_TRUNCATED_NORMAL, 0, 0.284211808585},
        {"constant(-2.5)", MODEL_INIT_CONSTANT, -2.5, 0},
        {"random_normal(1, 0.5)", MODEL_INIT_NORMAL, 1, 0.5},
        {"random_uniform( -1 ,2e-1)", MODEL_INIT_UNIFORM, -1, 0.2},
        {"truncated_normal(0, 0.02)", MODEL_INIT_TRUNCATED_NORMAL, 0, 0.02},
        {"variance_scaling(1, fan_avg, uniform)", MODEL_INIT_UNIFORM, -0.5,
         0.5},
        {"variance_scaling(2, fan_in, truncated_normal)",
         MODEL_INIT_TRUNCATED_NORMAL, 0, 0.401936194287},
        {"variance_scaling(2, fan_out, untruncated_normal)", MODEL_INIT_NORMAL,
         0, 0.5},
    };

    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[300];
        struct model *m;

        snprintf(text, sizeof(text),
                 "{'input_shape':[16],'layers':[{'type':'dense','units':8,"
                 "'kernel_initializer':'%s'}]}",
                 cases[i].name);
        m = make(text);
        T_EQ(m->variables[0].init.kind, cases[i].kind);
        T_EQ(m->edition, strchr(cases[i].name, '(') ? MODEL_EDITION_FORMED : 0);
        T_NEAR(m->variables[0].init.a, cases[i].a, 1e-8);
        T_NEAR(m->variables[0].init.b, cases[i].b, 1e-8);
        model_free(m);
    }
}

TEST(model, external)
{
    struct model *m = make("{'type':'external','variables':["
                           "{'name':'w','shape':[3,5]},{'name':'b','shape':3},"
                           "{'name':'scale','initializer':'ones'}]}");

    T_TRUE(m->external);
    T_EQ(m->elements, 19);
    T_EQ(m->nodes_count, 0);
    T_EQ(m->variables[0].init.kind, MODEL_INIT_UNIFORM);
    T_NEAR(m->variables[0].init.b, sqrt(6.0 / 8), 1e-15);
    T_EQ(m->variables[1].init.kind, MODEL_INIT_CONSTANT);
    T_EQ(m->variables[2].shape.rank, 0);
    T_EQ(m->variables[2].elements, 1);
    model_free(m);
}

TEST(model, every_layer_and_activation_has_a_node)
{
    static const char *const acts[] = {
        "linear",
#define ACTIVATION(code, name, ...) name,
#include "proto/layers.def"
    };

    for (unsigned i = 0; i < SL_COUNT(acts); i++) {
        char text[300];
        struct model *m;

        snprintf(text, sizeof(text),
                 "{'input_shape':[4],'layers':[{'type':'dense','units':2},"
                 "{'type':'activation','activation':'%s'}]}",
                 acts[i]);
        m = make(text);
        T_STR(model_act_name(m->nodes[2].act), acts[i]);
        model_free(m);
    }
}

TEST(model, out_of_memory_at_every_step)
{
    ProtobufCMessage *spec =
        t_make(&sluice__v1__model_spec__descriptor, FASHION);
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct model *m = NULL;
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = model_make(&m, (Sluice__V1__ModelSpec *)spec, NULL);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        model_free(m);
        T_EQ(sl_mem_live(), live);
    }
    wire_free(spec);
}
