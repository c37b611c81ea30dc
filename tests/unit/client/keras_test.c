// SPDX-License-Identifier: Apache-2.0
// What Keras wrote against what it said of it: variables, shapes, numbers. What
// cannot be imported, and in which words.
#include "keras_corpus.h"

#include <stdlib.h>

#include "client/keras/keras_take.h"
#include "client/spec/specfile.h"
#include "client/cli/yaml.h"
#include "common/base/json.h"
#include "proto/spec.h"

// ---- the corpus

static void check_variables(const struct model *m, const json_t *want)
{
    uint64_t parameters = 0;

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];
        struct layout_variable as = corpus_variable(v);
        struct model_shape shape = layout_keras_shape(&as);
        const json_t *dims = json_object_get(want, v->name);

        if (dims == NULL)
            T_FAIL("%s is no variable of Keras'", v->name);
        T_EQ(shape.rank, json_array_size(dims));
        for (uint32_t a = 0; a < shape.rank; a++)
            T_EQ(shape.dim[a], json_integer_value(json_array_get(dims, a)));
        parameters += v->elements;
    }
    T_EQ(m->variables_count, json_object_size(want));
    T_EQ(parameters, m->elements);
}

// Names, shapes and counts are Keras' own; what is written is read again as the
// same.
static void check_file(const char *name)
{
    json_t *want = corpus_want(name), *again = NULL;
    struct buf text = BUF_INIT;
    struct keras k;
    struct model *m;

    t_again(name);
    corpus_import(&k, name);
    m = corpus_model(&k);
    check_variables(m, json_object_get(want, "variables"));
    T_EQ(m->elements, json_integer_value(json_object_get(want, "parameters")));
    T_OK(yaml_write(&text, k.model));
    T_OK(yaml_read(&again, NULL, name, buf_text(&text), text.len, t_err()));
    if (!json_equal(again, k.model))
        T_FAIL("%s is read as something else:\n%s", name, buf_text(&text));
    json_decref(again);
    json_decref(want);
    buf_release(&text);
    model_free(m);
    keras_release(&k);
}

TEST(keras, files_have_the_variables_that_keras_says)
{
#define CHECK(name)                                                            \
    check_file(#name "-k2");                                                   \
    check_file(#name "-k3");
    KERAS_CORPUS(CHECK)
#undef CHECK
}

// Keras 2 moves the variance of images in a way of its own.
TEST(keras, a_norm_of_keras2_is_fused)
{
    static const char *const files[] = {"norms-k3", "norms-k2"};

    for (size_t i = 0; i < SL_COUNT(files); i++) {
        size_t at, norms = 0;
        json_t *layer;
        struct keras k;

        corpus_import(&k, files[i]);
        json_array_foreach(json_object_get(k.model, "layers"), at, layer)
        {
            const char *type =
                json_string_value(json_object_get(layer, "type"));

            if (strcmp(type, "batch_normalization") != 0)
                continue;
            norms++;
            T_EQ(json_is_true(json_object_get(layer, "fused")), i == 1);
        }
        T_GT(norms, 0);
        keras_release(&k);
    }
}

// ---- arguments without memory

static size_t json_left; // allocations of JSON that succeed

static void *json_alloc(size_t bytes)
{
    return json_left == 0 ? NULL : (json_left--, malloc(bytes));
}

// Takes `text` with ever more memory. Returns how often there was too little,
// where nothing may be said.
static unsigned take_short(keras_take_fn take, const char *text,
                           const char *want)
{
    struct sl_error err = SL_ERROR_INIT;
    struct keras_graph g = {.err = &err};
    struct keras_rule rule = {.key = "x"};
    json_t *value = json_loads(text, 0, NULL), *wanted = NULL;
    unsigned failed = 0;
    enum sl_err rc = SL_ENOMEM;

    wanted = json_loads(want, 0, NULL);
    for (size_t left = 0; rc != SL_OK; left++) {
        struct keras_take t = {.g = &g, .to = json_object()};

        json_set_alloc_funcs(json_alloc, free);
        json_left = left;
        rc = take(&t, &rule, value);
        json_set_alloc_funcs(malloc, free);
        if (rc != SL_OK) {
            T_EQ(rc, SL_ENOMEM);
            T_EQ(err.code, SL_ENOMEM);
            T_EQ(json_object_size(t.to), 0);
            failed++;
        } else {
            T_TRUE(json_equal(t.to, wanted));
        }
        json_decref(t.to);
    }
    json_decref(value);
    json_decref(wanted);
    return failed;
}

TEST(keras, an_argument_without_memory_is_said_to_be_that)
{
    T_GT(take_short(take_padding, "[[2, 2], [2, 2]]", "{\"x\": 2}"), 0);
    T_GT(take_short(take_padding, "[[1, 2], [3, 4]]", "{\"x\": [1, 2, 3, 4]}"),
         0);
    T_GT(take_short(take_padding, "[[1, 1], [1, 1]]", "{}"), 0);
    T_GT(take_short(take_regularizer,
                    "{\"class_name\": \"L1L2\","
                    " \"config\": {\"l1\": 0.5, \"l2\": 0.25}}",
                    "{\"x\": {\"l1\": 0.5, \"l2\": 0.25}}"),
         0);
    T_GT(take_short(take_regularizer,
                    "{\"class_name\": \"L2\", \"config\": {\"l2\": 0}}", "{}"),
         0);
}

// ---- what it was compiled with

static json_t *filled(const char *name, const char *said, struct buf *notes)
{
    json_t *spec = json_object(), *own = json_loads(said, 0, NULL);
    struct keras k;

    corpus_import(&k, name);
    T_OK(keras_fill(spec, own, &k, notes, name, t_err()));
    keras_release(&k);
    json_decref(own);
    return spec;
}

static void check_filled(const char *name, const char *said, const char *want)
{
    struct buf text = BUF_INIT, notes = BUF_INIT;
    json_t *spec = filled(name, said, &notes);

    T_OK(sl_json_write(&text, spec, false));
    T_STR(buf_text(&text), want);
    T_STR(buf_text(&notes), "");
    buf_release(&text);
    buf_release(&notes);
    json_decref(spec);
}

TEST(keras, a_compiled_model_brings_optimizer_and_loss)
{
    check_filled(
        "mlp_built-k3", "{}",
        "{\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":"
        "0.10000000149011612,\"momentum\":0.9,\"nesterov\":true},"
        "\"loss\":\"categorical_crossentropy\",\"from_logits\":false}");
    check_filled("resnet-k3", "{}",
                 "{\"optimizer\":{\"type\":\"sgd\",\"schedule\":{\"type\":"
                 "\"cosine_decay\",\"decay_steps\":1000,\"alpha\":0.01},"
                 "\"learning_rate\":0.1,\"clipnorm\":1,\"momentum\":0.9},"
                 "\"loss\":\"sparse_categorical_crossentropy\","
                 "\"from_logits\":true}");
    check_filled("mixed-k3", "{}",
                 "{\"optimizer\":{\"type\":\"adamw\",\"learning_rate\":"
                 "0.0010000000474974513,\"weight_decay\":0.01,"
                 "\"global_clipnorm\":1},\"loss\":\"mean_squared_error\","
                 "\"train\":{\"precision\":\"f16\"}}");
}

TEST(keras, what_is_said_is_not_asked_of_keras)
{
    // Keras 2 writes no compile_config.
    check_filled("mlp_built-k2", "{}", "{}");
    check_filled("mlp_built-k3",
                 "{\"optimizer\": {\"type\": \"adam\"}, \"loss\": "
                 "\"mean_squared_error\"}",
                 "{}");
    check_filled("mlp_built-k3",
                 "{\"optimizer\": {\"momentum\": 0.5}, \"from_logits\": true}",
                 "{\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":"
                 "0.10000000149011612,\"momentum\":0.5,\"nesterov\":true},"
                 "\"loss\":\"categorical_crossentropy\"}");
    check_filled("mixed-k3",
                 "{\"optimizer\": {\"type\": \"adam\"}, \"loss\": "
                 "\"mean_squared_error\", \"train\": {\"precision\": \"f32\"}}",
                 "{}");
}

#define ADAM                                                                   \
    "\"optimizer\":{\"type\":\"adam\",\"learning_rate\":"                      \
    "0.0010000000474974513}"

// In the order of the outputs, whatever that of the names is.
TEST(keras, several_outputs_bring_losses_and_weights)
{
    check_filled("outputs-k3", "{}",
                 "{" ADAM ",\"losses\":[{\"output\":\"yes\","
                 "\"label_smoothing\":0.1,\"loss\":\"binary_crossentropy\","
                 "\"from_logits\":false},{\"output\":\"kind\",\"loss\":"
                 "\"categorical_crossentropy\",\"from_logits\":false,"
                 "\"weight\":0.5},{\"output\":\"size\",\"loss\":"
                 "\"mean_squared_error\",\"weight\":2}]}");
    check_filled("outputs-k3", "{\"losses\": []}", "{" ADAM "}");
    check_filled("outputs-k2", "{}", "{}");
}

// ---- what is refused

// Text with ' for ".
static enum sl_err import_text(struct keras *k, const char *text,
                               struct sl_error *err)
{
    struct buf json = BUF_INIT;
    enum sl_err rc;

    for (; *text != '\0'; text++)
        T_OK(buf_append_char(&json, *text == '\'' ? '"' : *text));
    rc = keras_read(k, "m.json", buf_text(&json), json.len, err);
    buf_release(&json);
    return rc;
}

static void refused_text(enum sl_err code, const char *text, const char *words)
{
    struct sl_error err = SL_ERROR_INIT;
    struct keras k = {.model = NULL};

    T_FAILS(code, import_text(&k, text, &err));
    T_HAS(err.text, "m.json:");
    T_HAS(err.text, words);
    T_PTR(k.model, NULL);
}

static void refused_file(const char *name, const char *words)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    char file[128];
    struct keras k;
    const char *path;

    snprintf(file, sizeof(file), "refused/%s.json", name);
    t_again(file);
    path = corpus_read(&text, file);
    T_FAILS(SL_ENOTSUP, keras_read(&k, path, buf_text(&text), text.len, &err));
    T_HAS(err.text, words);
    T_HAS(err.text, path);
    buf_release(&text);
}

TEST(keras, models_that_keras_wrote_are_refused_by_name)
{
    static const struct {
        const char *name, *words;
    } both[] = {
        {"by_a_tensor", "(TrueDivide) divides a number by a tensor"},
        {"lambda", "layer 'times' (Lambda) holds code"},
        {"custom", "layer 'm' (Mine) is no layer of Keras' own"},
        {"registered", "layer 'd' (Dense) is no layer of Keras' own"},
        {"two_inputs", "has 2 inputs; a model in a job has one"},
        {"any_length", "layer 'b' (InputLayer) is of shape [null,null]; one "
                       "of several inputs has at least one axis, and each is a "
                       "number"},
        {"two_outputs", "reads the second tensor of 'both'; layers have one"},
        {"wrapped", "layer 'each' (TimeDistributed) is around a Conv1D"},
        {"reset_before", "layer 'old' (GRU) has reset_after: false"},
        {"unknown",
         "layer 'memory' (ConvLSTM1D) is of a class that is not known: a "
         "program of yours can train it"},
        {"by_a_negative", "layer 'turned' (Rescaling) has scale: [1.0,-1.0]"},
        {"constraint", "layer 'd' (Dense) has kernel_constraint"},
        {"initializer", "layer 'd' (Dense) has kernel_initializer"},
        {"channels_first", "layer 'c' (Conv2D) has data_format"},
        {"hashing", "layer 'hash' (Hashing) hashes numbers as decimal text"},
        {"strings", "layer 'word' (StringLookup) looks up text"},
        {"unlearnt", "layer 'few' (IntegerLookup) has vocabulary: null; what "
                     "adapt() found is not in this file"},
        {"float64", "known are float32, mixed_float16 and mixed_bfloat16"},
    };

    for (size_t i = 0; i < SL_COUNT(both); i++) {
        char name[64];

        snprintf(name, sizeof(name), "%s-k2", both[i].name);
        refused_file(name, both[i].words);
        snprintf(name, sizeof(name), "%s-k3", both[i].name);
        refused_file(name, both[i].words);
    }
    refused_file("in_training-k2", "(Dropout) is called with training=true");
    refused_file("renorm-k2", "layer 'bn' (BatchNormalization) has renorm");
    refused_file("renorm-k3", "(BatchNormalization) has synchronized: true");
    refused_file("hard_sigmoid-k2",
                 "Keras 2 and Keras 3 have different functions");
}

#define DENSE(name, reads)                                                     \
    "{'class_name': 'Dense', 'name': '" name "', 'config': {'units': 2}, "     \
    "'inbound_nodes': [[['" reads "', 0, 0]]]}"
#define FUNCTIONAL(layers, output) FUNCTIONAL_TO(layers, "['" output "', 0, 0]")
#define FUNCTIONAL_TO(layers, output)                                          \
    "{'class_name': 'Functional', 'keras_version': '2.9', 'config': "          \
    "{'name': 'm', 'layers': [{'class_name': 'InputLayer', 'name': 'x', "      \
    "'config': {'batch_input_shape': [null, 3]}, 'inbound_nodes': "            \
    "[]}, " layers "], 'output_layers': [" output "]}}"

#define LSTM(more)                                                             \
    "{'module': 'keras.layers', 'class_name': 'LSTM', 'config': {'name': "     \
    "'l', 'units': 2" more "}}"
#define AROUND(first, more)                                                    \
    "{'module': 'keras', 'class_name': 'Sequential', 'config': {'name': "      \
    "'s', 'layers': [{'module': 'keras.layers', 'class_name': "                \
    "'InputLayer', 'config': {'batch_shape': [null, 3, 2], 'name': 'i'}}, "    \
    "{'module': 'keras.layers', 'class_name': 'Bidirectional', 'config': "     \
    "{'name': 'b', 'layer': " first more "}}]}}"

TEST(keras, what_is_around_a_layer_is_looked_at)
{
    static const char *const halves[] = {
        "{}", "3", "[]", "{'class_name': 'Mine', 'config': {}}",
        "{'module': 'keras.layers', 'class_name': 'Dense', 'config': {}}"};
    struct keras k;

    for (size_t i = 0; i < SL_COUNT(halves); i++) {
        char text[2000];

        snprintf(
            text, sizeof(text),
            AROUND(LSTM(""), ", 'merge_mode': 'sum', 'backward_layer': %s"),
            halves[i]);
        refused_text(SL_ENOTSUP, text, "known is LSTM, GRU or SimpleRNN");
    }
    refused_text(SL_ENOTSUP, AROUND("{}", ", 'merge_mode': 'sum'"),
                 "is around a thing");
    refused_text(SL_ENOTSUP, AROUND(LSTM(""), ""), "has a merge_mode");
    refused_text(SL_ENOTSUP,
                 AROUND(LSTM(", 'go_backwards': true, 'return_sequences': "
                             "true"),
                        ", 'merge_mode': 'sum'"),
                 "begins at the first step");
    // Frozen from without; and words of some Keras 3.
    T_OK(import_text(&k,
                     AROUND(LSTM(", 'use_bias': false, 'unit_forget_bias': "
                                 "false, 'recurrent_initializer': {'module': "
                                 "'keras.initializers', 'class_name': "
                                 "'OrthogonalInitializer', 'config': {'gain': "
                                 "1.0, 'seed': null}}"),
                            ", 'merge_mode': 'sum', 'trainable': false"),
                     t_err()));
    for (size_t i = 0; i < 2; i++)
        T_TRUE(json_is_false(json_object_get(
            json_array_get(json_object_get(k.model, "layers"), i),
            "trainable")));
    keras_release(&k);
}

TEST(keras, a_graph_that_is_none_is_refused)
{
    struct keras k;

    refused_text(SL_EINVAL,
                 FUNCTIONAL(DENSE("a", "b") "," DENSE("b", "a"), "b"),
                 "are a circle: 'b' reads 'a'");
    refused_text(SL_EINVAL, FUNCTIONAL(DENSE("a", "a"), "a"), "are a circle");
    refused_text(SL_EINVAL, FUNCTIONAL(DENSE("a", "c"), "a"),
                 "reads 'c', which is no layer");
    refused_text(SL_EINVAL, FUNCTIONAL(DENSE("a", "x"), "b"), "output_layers");
    refused_text(SL_EINVAL,
                 FUNCTIONAL(DENSE("a", "x") "," DENSE("a", "x"), "a"),
                 "two layers are called 'a'");
    refused_text(SL_ENOTSUP, FUNCTIONAL(DENSE("a", "x"), "x"), "no layers");
    refused_text(SL_ENOTSUP,
                 FUNCTIONAL("{'class_name': 'Dense', 'name': 'a', 'config': "
                            "{}, 'inbound_nodes': [{'args': [['x', 0, 0], "
                            "[]]}]}",
                            "a"),
                 "layer 'a' (Dense) is called with [], which is not a tensor");
    // In any order is fine.
    T_OK(import_text(&k, FUNCTIONAL(DENSE("b", "a") "," DENSE("a", "x"), "b"),
                     t_err()));
    T_STR(json_string_value(json_object_get(
              json_array_get(json_object_get(k.model, "layers"), 1), "name")),
          "b");
    keras_release(&k);
}

// As Keras 3 writes an op that makes a mask of steps, and a layer that has one.
#define NOT_ZERO(name, reads) NOT_ZERO_OF(name, ZERO_OF(reads))
#define NOT_ZERO_OF(name, calls)                                               \
    "{'module': 'keras.src.ops.numpy', 'class_name': 'NotEqual', 'name': "     \
    "'" name "', 'config': {}, 'inbound_nodes': [" calls "]}"
#define ZERO_OF(reads) CALL3(TENSOR(reads) ", 0", "")
#define TENSOR(name)                                                           \
    "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['" name   \
    "', 0, 0]}}"
#define CALL3(args, kwargs) "{'args': [" args "], 'kwargs': {" kwargs "}}"
#define LAYER3(class_name, name, config, calls)                                \
    "{'module': 'keras.layers', 'class_name': '" class_name                    \
    "', 'name': '" name "', 'config': {" config "}, 'inbound_nodes': [" calls  \
    "]}"
#define EMBEDDING(name, reads)                                                 \
    LAYER3("Embedding", name,                                                  \
           "'input_dim': 4, 'output_dim': 2, 'mask_zero': true",               \
           CALL3(TENSOR(reads), ""))
#define GRU_OF(calls)                                                          \
    LAYER3("GRU", "g", "'units': 2, 'reset_after': true", calls)
#define GRU(reads, mask) GRU_OF(CALL3(TENSOR(reads), "'mask': " TENSOR(mask)))
#define MODEL3(input, layers, output)                                          \
    "{'module': 'keras', 'class_name': 'Functional', 'name': 'm', 'config': "  \
    "{'name': 'm', 'layers': [{'module': 'keras.layers', 'class_name': "       \
    "'InputLayer', 'name': '" input                                            \
    "', 'config': {'batch_shape': [null, 3]}, 'inbound_nodes': []}, " layers   \
    "], 'output_layers': ['" output "', 0, 0]}, 'inbound_nodes': [{'args': "   \
    "[" TENSOR("x") "], 'kwargs': {}}]}"

TEST(keras, a_mask_of_steps_is_one_that_a_layer_reads)
{
    struct keras k;

    T_OK(import_text(
        &k,
        MODEL3("x",
               EMBEDDING("e", "x") "," NOT_ZERO("n", "x") "," GRU("e", "n"),
               "g"),
        t_err()));
    keras_release(&k);
    // A model's output is no mask, nor is that of a model within one.
    refused_text(
        SL_ENOTSUP,
        MODEL3("x", EMBEDDING("e", "x") "," NOT_ZERO("n", "x"), "n"),
        "layer 'n' (NotEqual) makes a mask, and is the model's output");
    refused_text(
        SL_ENOTSUP,
        MODEL3("x",
               MODEL3("i", NOT_ZERO("n", "i"), "n") "," EMBEDDING("e", "m"),
               "e"),
        "layer 'n' (NotEqual) makes a mask, and is the model's output");
    refused_text(SL_EINVAL,
                 MODEL3("x", EMBEDDING("e", "x") "," GRU("e", "gone"), "g"),
                 "layer 'g' reads 'gone', which is no layer");
    // Nor is a mask made twice by one op, or of nothing.
    refused_text(
        SL_ENOTSUP,
        MODEL3("x",
               EMBEDDING("e", "x") "," NOT_ZERO_OF(
                   "n", ZERO_OF("x") ", " ZERO_OF("e")) "," GRU("e", "n"),
               "g"),
        "layer 'n' (NotEqual) makes a mask, and is called 2 times");
    refused_text(
        SL_ENOTSUP,
        MODEL3("x",
               EMBEDDING("e", "x") "," NOT_ZERO_OF("n", "") "," GRU("e", "n"),
               "g"),
        "layer 'n' (NotEqual) is never called");
    // Neither of a layer that comes later, nor of another mask.
    refused_text(SL_ENOTSUP,
                 MODEL3("x",
                        EMBEDDING("e", "x") "," NOT_ZERO("n", "late") "," GRU(
                            "e", "n") "," EMBEDDING("late", "x"),
                        "g"),
                 "layer 'g' (GRU) has a mask of 'late', which it does not "
                 "read");
    refused_text(SL_ENOTSUP,
                 MODEL3("x",
                        EMBEDDING("e", "x") "," NOT_ZERO("n", "x") "," NOT_ZERO(
                            "o", "n") "," GRU("e", "o"),
                        "g"),
                 "layer 'g' (GRU) has a mask of 'n', which it does not read");
}

// A layer in Keras 2 with two calls, the inputs of which are `one` and `two`.
#define TWICE(class_name, config, one, two)                                    \
    "{'class_name': '" class_name "', 'name': 't', 'config': {" config         \
    "}, 'inbound_nodes': [[" one "], [" two "]]}"
#define OF(name, call) "['" name "', " call ", 0, {}]"

static const json_t *layer_at(const struct keras *k, size_t i)
{
    return json_array_get(json_object_get(k->model, "layers"), i);
}

static void has_text(const json_t *layer, const char *key, const char *want)
{
    T_STR(json_string_value(json_object_get(layer, key)), want);
}

TEST(keras, a_layer_that_is_called_again_shares_its_variables)
{
    struct keras k;

    // The second call comes first, as the other one reads it.
    T_OK(import_text(
        &k,
        FUNCTIONAL(TWICE("Dense", "'units': 3", OF("t", "1"), OF("x", "0")),
                   "t"),
        t_err()));
    has_text(layer_at(&k, 0), "name", "t");
    T_EQ(json_integer_value(json_object_get(layer_at(&k, 0), "units")), 3);
    T_PTR(json_object_get(layer_at(&k, 0), "shares"), NULL);
    has_text(layer_at(&k, 1), "name", "t-2");
    has_text(layer_at(&k, 1), "shares", "t");
    T_PTR(json_object_get(layer_at(&k, 1), "units"), NULL);
    T_PTR(json_object_get(layer_at(&k, 1), "inputs"), NULL);
    keras_release(&k);
    // Another layer may have the name.
    T_OK(import_text(&k,
                     FUNCTIONAL_TO(DENSE("t-2", "x") "," TWICE(
                                       "Dense", "'units': 3", OF("t-2", "0"),
                                       OF("t", "0") "], [" OF("t", "1")),
                                   OF("t", "2")),
                     t_err()));
    has_text(layer_at(&k, 0), "name", "t-2");
    has_text(layer_at(&k, 1), "name", "t");
    has_text(layer_at(&k, 2), "name", "t-3");
    has_text(layer_at(&k, 3), "name", "t-4");
    keras_release(&k);
    // What has no variables is a layer like others.
    T_OK(import_text(&k,
                     FUNCTIONAL(TWICE("Dropout", "'rate': 0.5", OF("x", "0"),
                                      OF("d", "0")) "," DENSE("d", "t"),
                                "t"),
                     t_err()));
    has_text(layer_at(&k, 2), "name", "t-2");
    T_PTR(json_object_get(layer_at(&k, 2), "shares"), NULL);
    T_TRUE(json_object_get(layer_at(&k, 2), "rate") != NULL);
    keras_release(&k);
}

TEST(keras, calls_of_a_layer_that_cannot_be_are_refused)
{
    refused_text(
        SL_EINVAL,
        FUNCTIONAL(TWICE("Dense", "'units': 3", OF("x", "0"), OF("t", "1")),
                   "t"),
        "are a circle: 't' reads 't'");
    refused_text(
        SL_EINVAL,
        FUNCTIONAL(TWICE("Dense", "'units': 3", OF("x", "0"), OF("t", "2")),
                   "t"),
        "layer 't' reads a call of a layer that is none");
    refused_text(
        SL_EINVAL,
        FUNCTIONAL_TO(TWICE("Dense", "'units': 3", OF("x", "0"), OF("t", "0")),
                      OF("t", "2")),
        "output_layers does not say which call");
    refused_text(
        SL_EINVAL,
        FUNCTIONAL(TWICE("Dense", "'units': 3", OF("x", "0"), OF("t", "-1")),
                   "t"),
        "reads 't', which is no layer");
    refused_text(SL_ENOTSUP,
                 FUNCTIONAL("{'class_name': 'Dense', 'name': 't', 'config': "
                            "{'units': 3}, 'inbound_nodes': []}",
                            "t"),
                 "layer 't' (Dense) is never called");
    refused_text(
        SL_ENOTSUP,
        FUNCTIONAL(TWICE("MultiHeadAttention", "'num_heads': 1, 'key_dim': 2",
                         "['x', 0, 0, {'value': ['x', 0, 0], "
                         "'use_causal_mask': true}]",
                         "['t', 0, 0, {'value': ['x', 0, 0]}]"),
                   "t"),
        "is called with use_causal_mask and without");
}

#define SEQUENTIAL(layer)                                                      \
    "{'module': 'keras', 'class_name': 'Sequential', 'config': {'name': 'm', " \
    "'build_input_shape': [null, 3], 'layers': [" layer "]}}"

TEST(keras, what_is_no_model_is_refused)
{
    refused_text(SL_EINVAL, "{'class_name': 1}", "no model of Keras");
    refused_text(SL_EINVAL, "[1, 2]", "no model of Keras");
    refused_text(SL_ENOTSUP, "{'class_name': 'Mine', 'config': {}}",
                 "a Mine is code");
    refused_text(SL_ENOTSUP, "{'class_name': 'Functional', 'config': {}}",
                 "is code");
    refused_text(SL_EINVAL,
                 "{'class_name': 'Sequential', 'config': {'layers': []},\n"
                 "'x': NaN}",
                 "m.json:2: NaN or Infinity is no JSON");
    refused_text(SL_EINVAL, "{'a': 'NaN', 'b': -Infinity}", "m.json:1: NaN or");
    refused_text(SL_EINVAL, "{'a': 'NaN', 'a': 1}", "duplicate");
    refused_text(SL_EINVAL, "{'class_name': 'Sequential'", "m.json:1:");
    refused_text(SL_EINVAL, "PK\3\4...", "a saved model, which is not read");
    refused_text(SL_EINVAL,
                 "{'class_name': 'Sequential', 'config': [{'class_name': "
                 "'Dense', 'config': {'name': 'd', 'units': 1}}]}",
                 "does not say what shape");
    refused_text(SL_ENOTSUP,
                 SEQUENTIAL("{'module': 'os', 'class_name': 'Dense', "
                            "'config': {'name': 'd'}}"),
                 "is no layer of Keras' own");
    refused_text(SL_ENOTSUP,
                 SEQUENTIAL("{'class_name': 'Dense', 'config': {'name': 'd', "
                            "'units': 3, 'lora_rank': 4}}"),
                 "has lora_rank: 4; that argument is not known");
    // A tuple without items is a value like another that is none.
    refused_text(SL_ENOTSUP,
                 SEQUENTIAL("{'class_name': 'Masking', 'config': {'name': 'd', "
                            "'mask_value': {'class_name': '__tuple__'}}}"),
                 "known is one number");
    refused_text(SL_ENOTSUP,
                 SEQUENTIAL("{'class_name': 'Dense', 'config': {'name': 'd', "
                            "'units': 3, 'activation': {'module': 'mine', "
                            "'class_name': 'function', 'config': 'relu'}}}"),
                 "sluice knows only functions of Keras itself");
    refused_text(SL_ENOTSUP,
                 SEQUENTIAL("{'class_name': 'InputLayer', 'config': {'name': "
                            "'x', 'batch_shape': [null, 'a', 3]}}, "
                            "{'class_name': 'Flatten', 'config': {'name': "
                            "'f'}}"),
                 "an axis must be a number or null");
}

TEST(keras, models_in_models_have_an_end)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    struct keras k;

    for (int i = 0; i < 10; i++)
        T_OK(buf_append_str(&text, "{\"class_name\":\"Sequential\",\"config\":"
                                   "{\"name\":\"m\",\"layers\":["));
    for (int i = 0; i < 10; i++)
        T_OK(buf_append_str(&text, "]}}"));
    T_FAILS(SL_ENOTSUP,
            keras_read(&k, "m.json", buf_text(&text), text.len, &err));
    T_HAS(err.text, "models within models, 8 deep");
    buf_release(&text);
}

TEST(keras, old_files_are_read)
{
    struct keras k;
    struct model *m;

    // Keras 2.1: a bare list, and the shape in the first layer.
    T_OK(import_text(
        &k,
        "{'class_name': 'Sequential', 'config': [{'class_name': 'Dense', "
        "'config': {'name': 'd', 'units': 2, 'batch_input_shape': {"
        "'class_name': '__tuple__', 'items': [null, 3]}, "
        "'kernel_initializer': {'class_name': 'VarianceScaling', 'config': "
        "{'scale': 1.0, 'mode': 'fan_avg', 'distribution': 'uniform', "
        "'seed': null}}}}], 'keras_version': '2.1.6', 'backend': "
        "'tensorflow'}",
        t_err()));
    m = corpus_model(&k);
    T_EQ(m->elements, 8);
    T_STR(k.name, "model");
    model_free(m);
    keras_release(&k);
}

// As in files of Keras 2.2.4-tf: the type of the values in each initializer,
// the shape in the first layer, no InputLayer.
#define OF_224(type)                                                           \
    "{'class_name': 'Sequential', 'config': {'name': 'm', 'layers': ["         \
    "{'class_name': 'Dense', 'config': {'name': 'd', 'trainable': true, "      \
    "'batch_input_shape': [null, 3], 'dtype': 'float32', 'units': 2, "         \
    "'activation': 'linear', 'use_bias': true, 'kernel_initializer': "         \
    "{'class_name': 'VarianceScaling', 'config': {'scale': 1.0, 'mode': "      \
    "'fan_avg', 'distribution': 'uniform', 'seed': null, 'dtype': '" type "'}" \
    "}, 'bias_initializer': {'class_name': 'Zeros', 'config': {'dtype': "      \
    "'float32'}}, 'kernel_regularizer': null}}, {'class_name': "               \
    "'BatchNormalization', 'config': {'name': 'b', 'dtype': 'float32', "       \
    "'gamma_initializer': {'class_name': 'Ones', 'config': {'dtype': "         \
    "'float32'}}}}]}, 'keras_version': '2.2.4-tf', 'backend': 'tensorflow'}"

TEST(keras, keras2_json_of_224_is_read)
{
    static const char *const files[] = {
        OF_224("float32"),
        "{'format': 'layers-model', 'modelTopology': {'keras_version': "
        "'2.4.0', 'model_config': " OF_224("float32") "}, 'weightsManifest': "
                                                      "[]}"};

    for (size_t i = 0; i < SL_COUNT(files); i++) {
        struct keras k;
        struct model *m;

        T_OK(import_text(&k, files[i], t_err()));
        m = corpus_model(&k);
        T_EQ(m->elements, 16);
        T_STR(k.name, "m");
        model_free(m);
        keras_release(&k);
    }
    // What is refused is written whole.
    refused_text(SL_ENOTSUP, OF_224("float16"),
                 "has kernel_initializer: {\"class_name\":\"VarianceScaling\","
                 "\"config\":{\"scale\":1.0,\"mode\":\"fan_avg\","
                 "\"distribution\":\"uniform\",\"seed\":null,\"dtype\":"
                 "\"float16\"}}; known are zeros");
    refused_text(SL_ENOTSUP, OF_224("float16"), "sluice.keras.save_weights");
    refused_text(SL_EINVAL, "'{}'", "JSON within a string");
}

TEST(keras, names_are_those_of_a_job)
{
    static const struct {
        const char *is, *becomes;
    } cases[] = {
        {"My Model_2", "my-model-2"},
        {"j-17", "model"},
        {"j-net", "j-net"},
        {"__", "model"},
        {"a--b-", "a-b"},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        char text[256];
        struct keras k;

        snprintf(text, sizeof(text),
                 "{'class_name': 'Sequential', 'config': {'name': '%s', "
                 "'build_input_shape': [null, 3], 'layers': [{'class_name': "
                 "'Dense', 'config': {'name': 'd', 'units': 1}}]}}",
                 cases[i].is);
        T_OK(import_text(&k, text, t_err()));
        T_STR(k.name, cases[i].becomes);
        keras_release(&k);
    }
}

// Checks the masks of a GRU that is called on two Embeddings: on the first with
// its mask, on the other with the arguments `second`.
static enum sl_err check_masks(const char *second, struct sl_error *err)
{
    struct buf gru = BUF_INIT, file = BUF_INIT;
    struct model *m;
    struct keras k;
    enum sl_err rc;

    T_OK(buf_appendf(&gru, GRU_OF("%s, " CALL3(TENSOR("f"), "%s")),
                     CALL3(TENSOR("e"), "'mask': " TENSOR("n")), second));
    T_OK(buf_appendf(
        &file, MODEL3("x", "%s, %s, %s, %s, %s, %s, %s", "s"),
        EMBEDDING("e", "x"),
        LAYER3("Reshape", "r", "'target_shape': [3]", CALL3(TENSOR("x"), "")),
        EMBEDDING("f", "r"), NOT_ZERO("n", "x"), NOT_ZERO("o", "r"),
        buf_text(&gru),
        LAYER3("Subtract", "s", "", CALL3("[['g', 0, 0], ['g', 1, 0]]", ""))));
    T_OK(import_text(&k, buf_text(&file), t_err()));
    m = corpus_model(&k);
    rc = keras_check_masks(&k, m, err);
    model_free(m);
    keras_release(&k);
    buf_release(&gru);
    buf_release(&file);
    return rc;
}

TEST(keras, each_call_of_a_layer_has_a_mask_of_its_own)
{
    struct sl_error err = SL_ERROR_INIT;

    T_OK(check_masks("'mask': " TENSOR("o"), t_err()));
    T_FAILS(SL_ENOTSUP, check_masks("'mask': " TENSOR("n"), &err));
    T_HAS(err.text, "layer 'g-2' is called with another mask");
    T_FAILS(SL_ENOTSUP, check_masks("", &err));
    T_HAS(err.text, "layer 'g-2' is called with another mask");
}

// Appends `each` so many times, with the number of the time for '#'.
static void append_each(struct buf *to, unsigned times, const char *each)
{
    for (unsigned i = 0; i < times; i++)
        for (const char *p = each; *p != '\0'; p++)
            T_OK(*p == '#' ? buf_appendf(to, "%u", i)
                           : buf_append_char(to, *p));
}

// Makes `file` a model of the layers in `layers` and the output `a`.
static const char *functional_of(struct buf *file, const struct buf *layers)
{
    buf_reset(file);
    T_OK(buf_appendf(file, FUNCTIONAL("%s", "a"), buf_text(layers)));
    return buf_text(file);
}

TEST(keras, an_op_that_makes_a_mask_counts_as_a_layer)
{
    struct buf layers = BUF_INIT, file = BUF_INIT;

    append_each(&layers, 1, DENSE("a", "m") ", ");
    append_each(&layers, 1,
                "{'class_name': 'Functional', 'name': 'm', 'config': {'name': "
                "'m', 'output_layers': [['d', 0, 0]], 'layers': ["
                "{'class_name': 'InputLayer', 'name': 'i', 'config': {}}, ");
    append_each(&layers, 600, NOT_ZERO("n#", "i") ", ");
    append_each(&layers, 1, DENSE("d", "i") "]}, 'inbound_nodes': [");
    append_each(&layers, 20, "[['x', 0, 0]], ");
    append_each(&layers, 1, "[['x', 0, 0]]]}");
    refused_text(SL_ENOTSUP, functional_of(&file, &layers),
                 "more than 10000 layers, or calls of them");
    buf_release(&layers);
    buf_release(&file);
}

static enum sl_err import_joined(unsigned masks, struct sl_error *err)
{
    struct buf layers = BUF_INIT, file = BUF_INIT;
    struct keras k = {.model = NULL};
    enum sl_err rc;

    append_each(&layers, 1,
                EMBEDDING("e", "x") "," NOT_ZERO("n", "x") "," GRU("e", "j"));
    append_each(&layers, 1,
                ", {'module': 'keras.src.ops.numpy', 'class_name': "
                "'Concatenate', 'name': 'j', 'config': {}, 'inbound_nodes': "
                "[{'args': [[" TENSOR("n"));
    append_each(&layers, masks - 1, ", " TENSOR("n"));
    append_each(&layers, 1, "]], 'kwargs': {}}]}");
    T_OK(buf_appendf(&file, MODEL3("x", "%s", "g"), buf_text(&layers)));
    rc = import_text(&k, buf_text(&file), err);
    keras_release(&k);
    buf_release(&layers);
    buf_release(&file);
    return rc;
}

TEST(keras, a_mask_is_joined_of_as_many_as_a_layer_reads)
{
    struct sl_error err = SL_ERROR_INIT;

    T_OK(import_joined(MODEL_INPUTS_MAX, t_err()));
    T_FAILS(SL_ENOTSUP, import_joined(MODEL_INPUTS_MAX + 1, &err));
    T_HAS(err.text,
          "layer 'g' (GRU) is called with a mask that is none of one");
}

// Imports a mask that so many ops hand on, each before the one that it reads.
static enum sl_err import_backwards(unsigned ops, struct sl_error *err)
{
    struct buf layers = BUF_INIT, file = BUF_INIT;
    struct keras k = {.model = NULL};
    enum sl_err rc;

    append_each(&layers, 1, EMBEDDING("e", "x") "," GRU("e", "o0") ", ");
    for (unsigned i = 0; i < ops; i++)
        T_OK(buf_appendf(&layers,
                         "{'module': 'keras.src.ops.numpy', 'class_name': "
                         "'Any', 'name': 'o%u', 'config': {}, 'inbound_nodes': "
                         "[{'args': [" TENSOR("o%u") "], 'kwargs': {}}]}, ",
                         i, i + 1));
    T_OK(buf_appendf(&layers, NOT_ZERO("o%u", "x"), ops));
    T_OK(buf_appendf(&file, MODEL3("x", "%s", "g"), buf_text(&layers)));
    rc = import_text(&k, buf_text(&file), err);
    keras_release(&k);
    buf_release(&layers);
    buf_release(&file);
    return rc;
}

TEST(keras, a_mask_is_found_behind_some_ops)
{
    struct sl_error err = SL_ERROR_INIT;

    T_OK(import_backwards(1, t_err()));
    T_OK(import_backwards(7, t_err()));
    T_FAILS(SL_ENOTSUP, import_backwards(8, &err));
    T_HAS(err.text,
          "layer 'g' (GRU) is called with a mask that is none of one");
}

// Makes `layers` a layer with `keys` keys in its config, and in what it is
// called with.
static void wide_layer(struct buf *layers, unsigned keys, unsigned called)
{
    buf_reset(layers);
    append_each(layers, 1,
                "{'class_name': 'Dense', 'name': 'a', 'config': {'units': 2");
    append_each(layers, keys - 1, ", 'k#': null");
    append_each(layers, 1, "}, 'inbound_nodes': [[['x', 0, 0, {'k': null");
    append_each(layers, called - 1, ", 'k#': null");
    append_each(layers, 1, "}]]]}");
}

TEST(keras, an_object_has_as_many_keys_as_keras_writes)
{
    static const char words[] = "an object of more than 1000 keys";
    struct buf layers = BUF_INIT, file = BUF_INIT;
    struct keras k;

    wide_layer(&layers, KERAS_KEYS_MAX, KERAS_KEYS_MAX);
    T_OK(import_text(&k, functional_of(&file, &layers), t_err()));
    keras_release(&k);
    wide_layer(&layers, KERAS_KEYS_MAX + 1, 1);
    refused_text(SL_ENOTSUP, functional_of(&file, &layers), words);
    wide_layer(&layers, 1, KERAS_KEYS_MAX + 1);
    refused_text(SL_ENOTSUP, functional_of(&file, &layers), words);
    buf_release(&layers);
    buf_release(&file);
}

// Imports a layer in a model, with names of so many bytes.
static enum sl_err import_long(struct keras *k, int outer, int inner,
                               struct sl_error *err)
{
    char text[2000], name[MODEL_NAME_BYTES + 2];

    memset(name, 'a', sizeof(name));
    snprintf(text, sizeof(text),
             SEQUENTIAL("{'class_name': 'Sequential', 'config': {'name': "
                        "'%.*s', 'layers': [{'class_name': 'Dense', 'config': "
                        "{'name': '%.*s', 'units': 1}}]}}"),
             outer, name, inner, name);
    return import_text(k, text, err);
}

TEST(keras, a_name_that_no_layer_may_have_is_refused)
{
    static const char words[] = "has a name of more than 150 bytes";
    char text[2000], name[MODEL_NAME_BYTES + 2];
    struct sl_error err = SL_ERROR_INIT;
    struct keras k;

    T_OK(import_long(&k, 100, 49, t_err()));
    T_EQ(strlen(keras_str(layer_at(&k, 0), "name")), MODEL_NAME_BYTES);
    model_free(corpus_model(&k));
    keras_release(&k);
    T_FAILS(SL_ENOTSUP, import_long(&k, 100, 50, &err));
    T_HAS(err.text, words);
    T_FAILS(SL_ENOTSUP, import_long(&k, MODEL_NAME_BYTES + 1, 1, &err));
    T_HAS(err.text, words);
    // The name of what has no name in a job.
    memset(name, 'a', sizeof(name));
    snprintf(text, sizeof(text),
             FUNCTIONAL(DENSE("d", "x") ", {'class_name': 'InputLayer', "
                                        "'name': '%.*s', 'config': {}}",
                        "d"),
             MODEL_NAME_BYTES + 1, name);
    refused_text(SL_ENOTSUP, text, words);
}

// ---- compile_config, by hand

#define DENSE_COMPILED(config)                                                 \
    "{'module': 'keras', 'class_name': 'Sequential', 'config': {'name': 'm', " \
    "'build_input_shape': [null, 3], 'layers': [{'class_name': 'Dense', "      \
    "'config': {'name': 'd', 'units': 2}}]}, 'compile_config': {" config "}}"
#define OPTIMIZER(name, config)                                                \
    DENSE_COMPILED("'optimizer': {'module': 'keras.optimizers', "              \
                   "'class_name': '" name "', 'config': {" config "}}")
#define SCHEDULE(name, config)                                                 \
    "'learning_rate': {'module': 'keras.optimizers.schedules', 'class_name': " \
    "'" name "', 'config': {" config "}}"
#define LOSS(loss) DENSE_COMPILED("'loss': " loss)

static enum sl_err fill_said(json_t *spec, const json_t *said, const char *text,
                             struct buf *notes, struct sl_error *err)
{
    struct keras k;
    enum sl_err rc;

    T_OK(import_text(&k, text, t_err()));
    rc = keras_fill(spec, said, &k, notes, "m.json", err);
    keras_release(&k);
    return rc;
}

static enum sl_err fill_text(json_t *spec, const char *text, struct buf *notes,
                             struct sl_error *err)
{
    return fill_said(spec, NULL, text, notes, err);
}

// As JSON with ' for ".
static void fills(const char *text, const char *want)
{
    struct buf json = BUF_INIT, notes = BUF_INIT;
    json_t *spec = json_object();

    T_OK(fill_text(spec, text, &notes, t_err()));
    T_OK(sl_json_write(&json, spec, false));
    for (size_t i = 0; i < json.len; i++)
        if (json.data[i] == '"')
            json.data[i] = '\'';
    T_STR(buf_text(&json), want);
    T_STR(buf_text(&notes), "");
    buf_release(&json);
    buf_release(&notes);
    json_decref(spec);
}

static void fill_refused(const char *text, const char *words)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf notes = BUF_INIT;
    json_t *spec = json_object();

    T_FAILS(SL_ENOTSUP, fill_text(spec, text, &notes, &err));
    T_HAS(err.text, "m.json: ");
    T_HAS(err.text, words);
    json_decref(spec);
    buf_release(&notes);
}

TEST(keras, optimizers_and_schedules_are_taken_over)
{
    fills(OPTIMIZER("Adam", "'beta_1': 0.8, 'amsgrad': true, 'epsilon': 1e-07,"
                            "'use_ema': false, 'ema_momentum': 0.99"),
          "{'optimizer':{'type':'adam','beta_1':0.8,'amsgrad':true}}");
    fills(OPTIMIZER("Adam", "'gradient_accumulation_steps': 4"),
          "{'optimizer':{'type':'adam'},'train':{'accumulate':4}}");
    // Zeroes that are no defaults of a job, and those that mean nothing.
    fills(OPTIMIZER("AdamW", "'weight_decay': 0.0, 'beta_1': 0.0, 'clipnorm': "
                             "0.0, 'clipvalue': 0, 'global_clipnorm': 0.0"),
          "{'optimizer':{'type':'adamw','weight_decay':0.0,'beta_1':0.0}}");
    fills(OPTIMIZER("Adagrad", "'initial_accumulator_value': 0.0, "
                               "'weight_decay': null"),
          "{'optimizer':{'type':'adagrad','initial_accumulator_value':0.0}}");
    fills(OPTIMIZER("Muon", "'weight_decay': 0.1, 'adam_weight_decay': 0.1, "
                            "'rms_rate': null, 'momentum': 0.95"),
          "{'optimizer':{'type':'muon','weight_decay':0.1,'rms_rate':0}}");
    fills(OPTIMIZER("RMSprop", SCHEDULE("PiecewiseConstantDecay",
                                        "'boundaries': [10, 20], 'values': "
                                        "[0.1, 0.01, 0.001], 'name': 'p'")),
          "{'optimizer':{'type':'rmsprop','schedule':{'type':"
          "'piecewise_constant_decay','boundaries':[10,20],'values':[0.1,0.01,"
          "0.001]}}}");
    fills(
        OPTIMIZER("SGD", SCHEDULE("CosineDecayRestarts",
                                  "'initial_learning_rate': 0.1, "
                                  "'first_decay_steps': 1000.0, 't_mul': 2.0")),
        "{'optimizer':{'type':'sgd','schedule':{'type':"
        "'cosine_decay_restarts','decay_steps':1000},'learning_rate':0.1}}");
    // Around the one of mixed precision.
    fills(DENSE_COMPILED(
              "'optimizer': {'module': 'keras.optimizers', 'class_name': "
              "'LossScaleOptimizer', 'config': {'inner_optimizer': {"
              "'class_name': 'Adagrad', 'config': {'learning_rate': 0.5}}}}"),
          "{'optimizer':{'type':'adagrad','learning_rate':0.5}}");
    fill_refused(OPTIMIZER("Ftrl", ""), "optimizer Ftrl is not known");
    fill_refused(OPTIMIZER("Muon", "'weight_decay': 0.1, "
                                   "'adam_weight_decay': 0.004"),
                 "one for both");
    fill_refused(OPTIMIZER("Muon", "'ns_steps': 3"), "Muon has ns_steps: 3");
    fill_refused(OPTIMIZER("Adam", "'use_ema': true"),
                 "Adam has use_ema: true");
    fill_refused(OPTIMIZER("Adam", "'beta_3': 1"), "Adam has beta_3: 1");
    fill_refused(OPTIMIZER("SGD", SCHEDULE("Mine", "")), "rate is a Mine");
    fill_refused(
        OPTIMIZER(
            "SGD",
            SCHEDULE(
                "InverseTimeDecay",
                "'decay_steps': 3, 'decay_rate': 1") ", "
                                                     "'gradient_accumulation_"
                                                     "steps': 2"),
        "a schedule, which a job counts in steps");
}

TEST(keras, losses_are_taken_over)
{
    fills(LOSS("'mse'"), "{'loss':'mean_squared_error'}");
    fills(LOSS("{'d': 'mean_squared_error'}"), "{'loss':'mean_squared_error'}");
    fills(LOSS("['binary_crossentropy']"),
          "{'loss':'binary_crossentropy','from_logits':false}");
    fills(LOSS("{'module': 'builtins', 'class_name': 'function', 'config': "
               "'categorical_crossentropy', 'registered_name': "
               "'categorical_crossentropy'}"),
          "{'loss':'categorical_crossentropy','from_logits':false}");
    fills(LOSS("{'module': 'keras.losses', 'class_name': "
               "'CategoricalCrossentropy', 'config': {'from_logits': true, "
               "'label_smoothing': 0.1, 'axis': -1, 'reduction': "
               "'sum_over_batch_size', 'name': 'c'}, 'registered_name': null}"),
          "{'label_smoothing':0.1,'loss':'categorical_crossentropy',"
          "'from_logits':true}");
    fills(LOSS("'mae'"), "{'loss':'mean_absolute_error'}");
    fill_refused(LOSS("'huber'"), "loss huber is not known");
    fill_refused(LOSS("['mse', 'mse']"), "loss of several is not known");
    fill_refused(LOSS("{'module': 'mine', 'class_name': 'MeanSquaredError', "
                      "'config': {}}"),
                 "is not known");
    fill_refused(LOSS("{'class_name': 'MeanSquaredError', 'config': "
                      "{'reduction': 'sum'}}"),
                 "reduction: sum");
    fill_refused(LOSS("'mse', 'loss_weights': [0.5]"), "loss_weights");
}

TEST(keras, the_accuracy_is_that_of_the_metrics)
{
    fills(DENSE_COMPILED("'metrics': ['sparse_categorical_accuracy', "
                         "'categorical_crossentropy']"),
          "{}");
    fills(DENSE_COMPILED("'metrics': ['top_k_categorical_accuracy']"),
          "{'top_k':5}");
    fills(
        DENSE_COMPILED("'metrics': [{'class_name': "
                       "'SparseTopKCategoricalAccuracy', 'config': {'k': 3}}]"),
        "{'top_k':3}");
}

// Beside a loss that has them, with Keras' defaults.
TEST(keras, metrics_become_those_of_the_evaluations)
{
    fills(LOSS("'sparse_categorical_crossentropy', 'metrics': ['accuracy', "
               "'top_k_categorical_accuracy', 'Recall', 'mae']"),
          "{'loss':'sparse_categorical_crossentropy','from_logits':false,"
          "'evaluate':{'top_k':5,'metrics':['recall','mean_absolute_error',"
          "'top_k']}}");
    fills(LOSS("'binary_crossentropy', 'metrics': [{'class_name': 'Precision',"
               "'config': {'name': 'p', 'thresholds': 0.5, 'top_k': null, "
               "'class_id': null}}, {'class_name': 'AUC', 'config': {"
               "'num_thresholds': 200, 'curve': 'ROC', 'summation_method': "
               "'interpolation', 'multi_label': false, 'label_weights': null, "
               "'from_logits': false}}]"),
          "{'loss':'binary_crossentropy','from_logits':false,"
          "'evaluate':{'metrics':['precision','auc']}}");
    fills(LOSS("'mse', 'metrics': ['mse', 'mae', 'RootMeanSquaredError']"),
          "{'loss':'mean_squared_error','evaluate':{'metrics':["
          "'mean_absolute_error','root_mean_squared_error']}}");
}

static void leaves_out(const char *loss, const char *note)
{
    struct buf notes = BUF_INIT;
    json_t *spec = json_object();

    T_OK(fill_text(spec, loss, &notes, t_err()));
    T_HAS(buf_text(&notes), note);
    T_FALSE(strstr(buf_text(&notes), "accuracy is left out"));
    T_PTR(json_object_get(spec, "evaluate"), NULL);
    buf_release(&notes);
    json_decref(spec);
}

TEST(keras, metrics_that_nobody_counts_are_named)
{
    leaves_out(LOSS("'sparse_categorical_crossentropy', 'metrics': {'d': "
                    "['accuracy', {'class_name': 'AUC', 'config': {}}]}"),
               "metric AUC is left out: an evaluation does not compute it for "
               "sparse_categorical_crossentropy");
    leaves_out(LOSS("'binary_crossentropy', 'weighted_metrics': ["
                    "{'class_name': 'Precision', 'config': {'thresholds': "
                    "0.7}}]"),
               "metric Precision is left out: a job has it with Keras' default "
               "of thresholds");
    leaves_out(LOSS("'binary_crossentropy', 'metrics': [{'class_name': 'AUC', "
                    "'config': {'curve': 'PR'}}]"),
               "default of curve");
    leaves_out(LOSS("'binary_crossentropy', 'metrics': ['F1Score']"),
               "metric F1Score is left out: an evaluation does not compute it");
}

TEST(keras, metrics_want_data_to_evaluate_on)
{
    struct buf notes = BUF_INIT;
    json_t *spec = json_object();
    json_t *said = json_loads("{\"data\": {\"train\": {}}}", 0, NULL);

    T_OK(fill_said(spec, said,
                   LOSS("'binary_crossentropy', 'metrics': ['Recall']"), &notes,
                   t_err()));
    T_HAS(buf_text(&notes), "there is no data.test to evaluate on");
    T_PTR(json_object_get(spec, "evaluate"), NULL);
    buf_reset(&notes);
    json_decref(said);
    said = json_loads("{\"data\": {\"test\": {}}, \"from_logits\": true}", 0,
                      NULL);
    T_OK(fill_said(spec, said,
                   LOSS("'binary_crossentropy', 'metrics': ['Recall']"), &notes,
                   t_err()));
    T_HAS(buf_text(&notes), "metric Recall reads probabilities in a job");
    T_TRUE(json_object_get(spec, "evaluate") != NULL);
    buf_release(&notes);
    json_decref(said);
    json_decref(spec);
}

TEST(keras, what_the_user_has_said_stays)
{
    json_t *said = json_pack("{s:f, s:{s:i}}", "label_smoothing", 0.25,
                             "evaluate", "top_k", 3);
    json_t *spec = json_deep_copy(said);
    struct buf notes = BUF_INIT;
    const json_t *evaluate;

    T_OK(fill_said(spec, said,
                   LOSS("{'class_name': 'CategoricalCrossentropy', 'config': "
                        "{'label_smoothing': 0.125}}, 'metrics': ['accuracy', "
                        "{'class_name': 'TopKCategoricalAccuracy', 'config': "
                        "{'k': 7}}]"),
                   &notes, t_err()));
    T_STR(keras_str(spec, "loss"), "categorical_crossentropy");
    evaluate = json_object_get(spec, "evaluate");
    T_TRUE(keras_is(json_object_get(spec, "label_smoothing"), "0.25"));
    T_TRUE(keras_is(json_object_get(evaluate, "top_k"), "3"));
    T_TRUE(keras_is(json_object_get(evaluate, "metrics"), "[\"top_k\"]"));
    buf_release(&notes);
    json_decref(spec);
    json_decref(said);
}

// ---- Random* layers

#define LAYER_OF(class, name, config)                                          \
    "{'module':'keras.layers','registered_name':null,'class_name':'" class     \
        "','config':{'name':'" name "'" config "}}"
#define RANDOM(list)                                                           \
    "{'module':'keras','class_name':'Sequential','config':{'name':'s',"        \
    "'layers':[{'module':'keras.layers','registered_name':null,'class_name':"  \
    "'InputLayer','config':{'name':'i','batch_shape':[null,8,8,3]}}," list     \
    "," LAYER_OF("Flatten", "f", "") "," LAYER_OF("Dense", "d",                \
                                                  ",'units':3") "]}}"
#define FLIP LAYER_OF("RandomFlip", "a", ",'mode':'horizontal_and_vertical'")
#define ROTATE(more)                                                           \
    LAYER_OF("RandomRotation", "b", ",'factor':[-0.1,0.1]" more)
#define ZOOM(width)                                                            \
    LAYER_OF("RandomZoom", "z", ",'height_factor':0.2,'width_factor':" width)

TEST(keras, random_layers_in_front_become_augment)
{
    struct keras k = {.model = NULL};
    struct buf notes = BUF_INIT;
    json_t *spec, *want;
    size_t n;

    T_OK(import_text(
        &k,
        RANDOM(FLIP "," ROTATE(",'fill_mode':'reflect','seed':3") "," ZOOM(
            "null") "," LAYER_OF("RandomTranslation", "t",
                                 ",'height_factor':0.1,'width_factor':"
                                 "0.1") "," LAYER_OF("RandomContrast", "c",
                                                     ",'factor':[0,0."
                                                     "2]") "," LAYER_OF("Random"
                                                                        "Bright"
                                                                        "ness",
                                                                        "e",
                                                                        ",'"
                                                                        "factor"
                                                                        "':[-0."
                                                                        "3,0.3]"
                                                                        ",'"
                                                                        "value_"
                                                                        "range'"
                                                                        ":[0.0,"
                                                                        "1."
                                                                        "0]")),
        t_err()));
    want = json_loads("[{\"flip\":\"both\"},{\"rotate\":36.0},{\"zoom\":0.2},"
                      "{\"translate\":0.1},{\"contrast\":0.2},"
                      "{\"brightness\":0.3,\"range\":[0.0,1.0]}]",
                      0, NULL);
    T_TRUE(json_equal(k.augment, want));
    n = json_array_size(json_object_get(k.model, "layers"));
    T_EQ(n, 2);
    spec = json_pack("{s:{s:{s:s}}}", "data", "train", "format", "npz");
    T_OK(keras_fill_augment(spec, &k, &notes, t_err()));
    T_EQ(notes.len, 0);
    T_TRUE(json_equal(
        json_object_get(json_object_get(json_object_get(spec, "data"), "train"),
                        "augment"),
        want));
    json_object_clear(spec);
    T_OK(keras_fill_augment(spec, &k, &notes, t_err()));
    T_HAS(buf_text(&notes), "augment: [{\"flip\":\"both\"}");
    buf_release(&notes);
    json_decref(spec);
    json_decref(want);
    keras_release(&k);
}

TEST(keras, random_layers_that_a_job_has_not_are_refused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {RANDOM(LAYER_OF("Flatten", "g", "") "," FLIP),
         "layer 'a' (RandomFlip) changes what a layer computed"},
        {RANDOM(ROTATE(",'fill_mode':'constant'")),
         "(RandomRotation) has fill_mode: \"constant\"; a job has Keras' "
         "default alone"},
        {RANDOM(ZOOM("0.3")), "has width_factor: 0.3; a job zooms both axes "
                              "alike"},
        {RANDOM(LAYER_OF("RandomTranslation", "t",
                         ",'height_factor':0.1,'width_factor':0.2")),
         "has width_factor: 0.2; a job moves both axes alike"},
        {RANDOM(LAYER_OF("RandomBrightness", "e", ",'factor':[-0.1,0.3]")),
         "has factor: [-0.1,0.3]; a job draws as much either way"},
        {RANDOM(LAYER_OF("RandomHue", "h", ",'factor':0.2")),
         "is of a class that is not known"},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++)
        refused_text(SL_ENOTSUP, cases[i].text, cases[i].words);
}
