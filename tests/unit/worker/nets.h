// SPDX-License-Identifier: Apache-2.0
// tests/unit/worker/nets.h -- small models for tests, written as specs are.
#ifndef TESTS_UNIT_WORKER_NETS_H
#define TESTS_UNIT_WORKER_NETS_H

#include "common/base/json.h"
#include "proto/model.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

// Makes a model from JSON with ' for ", for model_free. What is no model, or
// has 4096 bytes or more, fails the test.
static inline struct model *t_model(const char *text)
{
    ProtobufCMessage *msg = NULL;
    struct model *m = NULL;
    char json[4096];
    json_t *value;
    size_t n = strlen(text);

    T_LT(n, sizeof(json));
    for (size_t i = 0; i <= n; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    value = json_loads(json, 0, NULL);
    T_TRUE(value != NULL);
    T_OK(pbjson_read(&msg, &sluice__v1__model_spec__descriptor, value, "model",
                     t_err()));
    T_OK(model_make(&m, (Sluice__V1__ModelSpec *)msg, t_err()));
    wire_free(msg);
    json_decref(value);
    return m;
}

// A convolution net with everything in it: two branches that are added, two
// that are concatenated, fused and unfused activations.
#define NET_EVERYTHING                                                         \
    "{'input_shape': [9, 8, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'c1', 'filters': 4, 'kernel_size': 3,"         \
    " 'activation': 'relu', 'inputs': ['input']},"                             \
    "{'type': 'batch_normalization', 'name': 'bn', 'inputs': ['c1']},"         \
    "{'type': 'max_pooling2d', 'name': 'mp', 'pool_size': 2,"                  \
    " 'inputs': ['bn']},"                                                      \
    "{'type': 'conv2d', 'name': 'c2', 'filters': 4, 'kernel_size': [3, 2],"    \
    " 'padding': 'same', 'activation': 'tanh', 'inputs': ['mp']},"             \
    "{'type': 'add', 'name': 'sum', 'inputs': ['c2', 'mp']},"                  \
    "{'type': 'conv2d', 'name': 'c3', 'filters': 3, 'kernel_size': 2,"         \
    " 'strides': 2, 'padding': 'same', 'use_bias': false,"                     \
    " 'inputs': ['sum']},"                                                     \
    "{'type': 'relu', 'name': 'r3', 'inputs': ['c3']},"                        \
    "{'type': 'average_pooling2d', 'name': 'ap', 'pool_size': 2,"              \
    " 'strides': 2, 'padding': 'same', 'inputs': ['sum']},"                    \
    "{'type': 'concatenate', 'name': 'cat', 'inputs': ['r3', 'ap']},"          \
    "{'type': 'dropout', 'name': 'drop', 'rate': 0.3, 'inputs': ['cat']},"     \
    "{'type': 'flatten', 'name': 'flat', 'inputs': ['drop']},"                 \
    "{'type': 'dense', 'name': 'd1', 'units': 7, 'activation': 'gelu',"        \
    " 'inputs': ['flat']},"                                                    \
    "{'type': 'dense', 'name': 'd2', 'units': 5, 'inputs': ['d1']}]}"

#define NET_FASHION                                                            \
    "{'input_shape': [14, 14, 1], 'layers': ["                                 \
    "{'type': 'conv2d', 'filters': 8, 'kernel_size': 3,"                       \
    " 'activation': 'relu'},"                                                  \
    "{'type': 'max_pooling2d', 'pool_size': 2},"                               \
    "{'type': 'conv2d', 'filters': 16, 'kernel_size': 3,"                      \
    " 'activation': 'relu'},"                                                  \
    "{'type': 'max_pooling2d', 'pool_size': 2},"                               \
    "{'type': 'flatten'},"                                                     \
    "{'type': 'dense', 'units': 32, 'activation': 'relu'},"                    \
    "{'type': 'dense', 'units': 10, 'activation': 'softmax'}]}"

#define NET_RESIDUAL                                                           \
    "{'input_shape': [6, 6, 3], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'a', 'filters': 4, 'kernel_size': 3,"          \
    " 'padding': 'same', 'use_bias': false, 'inputs': ['input']},"             \
    "{'type': 'batch_normalization', 'name': 'bn1', 'scale': false,"           \
    " 'inputs': ['a']},"                                                       \
    "{'type': 'relu', 'name': 'ra', 'inputs': ['bn1']},"                       \
    "{'type': 'conv2d', 'name': 'b', 'filters': 4, 'kernel_size': 3,"          \
    " 'padding': 'same', 'inputs': ['ra']},"                                   \
    "{'type': 'add', 'name': 'sum', 'inputs': ['ra', 'b', 'ra']},"             \
    "{'type': 'elu', 'name': 'e', 'inputs': ['sum']},"                         \
    "{'type': 'batch_normalization', 'name': 'bn2', 'center': false,"          \
    " 'inputs': ['e']},"                                                       \
    "{'type': 'global_average_pooling2d', 'name': 'gap',"                      \
    " 'inputs': ['bn2']},"                                                     \
    "{'type': 'dense', 'name': 'out', 'units': 3,"                             \
    " 'activation': 'sigmoid', 'inputs': ['gap']}]}"

#define NET_MLP                                                                \
    "{'input_shape': [12], 'layers': ["                                        \
    "{'type': 'dense', 'units': 9, 'activation': 'relu'},"                     \
    "{'type': 'batch_normalization'},"                                         \
    "{'type': 'dense', 'units': 6, 'activation': 'softmax'},"                  \
    "{'type': 'dense', 'units': 4, 'activation': 'softplus'}]}"

// What moves elements, and combines several: views, products, means. `e` reads
// one layer twice.
#define NET_VIEWS                                                              \
    "{'input_shape': [5, 6, 3], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'c', 'filters': 4, 'kernel_size': 3,"          \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'zero_padding2d', 'name': 'z', 'pad': [2, 1, 0, 3],"             \
    " 'inputs': ['c']},"                                                       \
    "{'type': 'rescaling', 'name': 's', 'factor': 1.5, 'offset': -0.25,"       \
    " 'inputs': ['z']},"                                                       \
    "{'type': 'permute', 'name': 'p', 'dims': [3, 1, 2], 'inputs': ['s']},"    \
    "{'type': 'permute', 'name': 'q', 'dims': [2, 3, 1], 'inputs': ['p']},"    \
    "{'type': 'silu', 'name': 'a', 'inputs': ['q']},"                          \
    "{'type': 'gelu_tanh', 'name': 'g', 'inputs': ['z']},"                     \
    "{'type': 'multiply', 'name': 'm', 'inputs': ['a', 'g', 's']},"            \
    "{'type': 'multiply', 'name': 'e', 'inputs': ['a', 'a']},"                 \
    "{'type': 'subtract', 'name': 'd', 'inputs': ['m', 'e']},"                 \
    "{'type': 'average', 'name': 'v', 'inputs': ['d', 'a', 'z']},"             \
    "{'type': 'selu', 'name': 'l', 'inputs': ['v']},"                          \
    "{'type': 'global_max_pooling2d', 'name': 'x', 'keepdims': true,"          \
    " 'inputs': ['l']},"                                                       \
    "{'type': 'global_max_pooling2d', 'name': 'y', 'inputs': ['d']},"          \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [-1],"                   \
    " 'inputs': ['x']},"                                                       \
    "{'type': 'concatenate', 'name': 'n', 'inputs': ['r', 'y']},"              \
    "{'type': 'reshape', 'name': 'w', 'target_shape': [4, 2],"                 \
    " 'inputs': ['n']},"                                                       \
    "{'type': 'dense', 'name': 'k', 'units': 3, 'activation': 'tanh',"         \
    " 'inputs': ['w']},"                                                       \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['k']},"                       \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['f']}]}"

// Convolutions in groups, of each channel, with holes.
#define NET_GROUPS                                                             \
    "{'input_shape': [8, 9, 4], 'layers': ["                                   \
    "{'type': 'depthwise_conv2d', 'kernel_size': [3, 2],"                      \
    " 'depth_multiplier': 2, 'strides': 2, 'padding': 'same',"                 \
    " 'activation': 'relu6'},"                                                 \
    "{'type': 'batch_normalization'},"                                         \
    "{'type': 'separable_conv2d', 'filters': 6, 'kernel_size': 3,"             \
    " 'depth_multiplier': 2, 'padding': 'same', 'activation': 'relu'},"        \
    "{'type': 'conv2d', 'filters': 6, 'kernel_size': 2, 'groups': 3,"          \
    " 'dilation_rate': [2, 1], 'activation': 'relu'},"                         \
    "{'type': 'separable_conv2d', 'filters': 5, 'kernel_size': [1, 2],"        \
    " 'use_bias': false},"                                                     \
    "{'type': 'depthwise_conv2d', 'kernel_size': [1, 2],"                      \
    " 'use_bias': false},"                                                     \
    "{'type': 'global_average_pooling2d', 'keepdims': true},"                  \
    "{'type': 'flatten'},"                                                     \
    "{'type': 'dense', 'units': 10}]}"

// Rows of one pixel that stand at every pixel, in each of the combinations.
#define NET_ROWS                                                               \
    "{'input_shape': [5, 4, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'c', 'filters': 3, 'kernel_size': 2,"          \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'global_average_pooling2d', 'name': 'g', 'keepdims': true,"      \
    " 'inputs': ['c']},"                                                       \
    "{'type': 'dense', 'name': 's', 'units': 3, 'activation': 'sigmoid',"      \
    " 'inputs': ['g']},"                                                       \
    "{'type': 'multiply', 'name': 'm', 'inputs': ['s', 'c', 's']},"            \
    "{'type': 'add', 'name': 'a', 'inputs': ['g', 'm', 'c']},"                 \
    "{'type': 'subtract', 'name': 'd', 'inputs': ['a', 's']},"                 \
    "{'type': 'maximum', 'name': 'x', 'inputs': ['d', 'g']},"                  \
    "{'type': 'average', 'name': 'v', 'inputs': ['s', 'x']},"                  \
    "{'type': 'subtract', 'name': 'e', 'inputs': ['g', 'v']},"                 \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['e']},"                       \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['f']}]}"

// More inputs than an op takes, as many as a layer may have.
#define NET_MANY                                                               \
    "{'input_shape': [3, 4], 'layers': ["                                      \
    "{'type': 'dense', 'name': 'a', 'units': 4, 'inputs': ['input'],"          \
    " 'activation': 'tanh'},"                                                  \
    "{'type': 'dense', 'name': 'b', 'units': 4, 'inputs': ['input']},"         \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['a']},"                       \
    "{'type': 'dense', 'name': 'd', 'units': 4, 'inputs': ['f']},"             \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [1, 4],"                 \
    " 'inputs': ['d']},"                                                       \
    "{'type': 'add', 'name': 's', 'inputs': ['a', 'b', 'r', 'a', 'input',"     \
    " 'a', 'b', 'b', 'a', 'a', 'b', 'a', 'b', 'a', 'r', 'a', 'a']},"           \
    "{'type': 'rescaling', 'name': 't', 'factor': 0.1, 'inputs': ['s']},"      \
    "{'type': 'exponential', 'name': 'e', 'inputs': ['t']},"                   \
    "{'type': 'sigmoid', 'name': 'g', 'inputs': ['b']},"                       \
    "{'type': 'multiply', 'name': 'm', 'inputs': ['e', 'a', 'e', 'g', 'e',"    \
    " 'e', 'e', 'e', 'g', 'r']},"                                              \
    "{'type': 'average', 'name': 'v', 'inputs': ['m', 'g', 'a', 'b', 'r',"     \
    " 'm', 'm', 'm', 'b']},"                                                   \
    "{'type': 'concatenate', 'name': 'c', 'inputs': ['v', 'a', 'm', 'b',"      \
    " 'v', 'g', 'v', 'e', 'b', 'a', 'v', 'v', 'v', 'v', 'v', 'v', 'v',"        \
    " 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v', 'v',"        \
    " 'm', 'b']},"                                                             \
    "{'type': 'rescaling', 'name': 'x', 'factor': 0.02, 'inputs': ['c']},"     \
    "{'type': 'flatten', 'name': 'w', 'inputs': ['x']},"                       \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['w']}]}"

// Vectors that are multiplied with each other, and cross layers: of whole and
// of low rank, of the sample and of several axes.
#define NET_FEATURES                                                           \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'dense', 'name': 'a', 'units': 4, 'inputs': ['input'],"          \
    " 'activation': 'tanh'},"                                                  \
    "{'type': 'dense', 'name': 'b', 'units': 12, 'inputs': ['input']},"        \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [3, 4],"                 \
    " 'inputs': ['b']},"                                                       \
    "{'type': 'dot_interaction', 'name': 'd', 'inputs': ['a', 'r', 'a']},"     \
    "{'type': 'dot_interaction', 'name': 's', 'self_interaction': true,"       \
    " 'inputs': ['r']},"                                                       \
    "{'type': 'fm', 'name': 'f', 'inputs': ['r', 'a']},"                       \
    "{'type': 'fm', 'name': 'g', 'inputs': ['r']},"                            \
    "{'type': 'cross', 'name': 'q', 'inputs': ['r', 'r'],"                     \
    " 'diag_scale': 0.5},"                                                     \
    "{'type': 'flatten', 'name': 'v', 'inputs': ['q']},"                       \
    "{'type': 'concatenate', 'name': 'c', 'inputs': ['d', 's', 'f', 'g',"      \
    " 'v', 'a']},"                                                             \
    "{'type': 'dense', 'name': 'n', 'units': 6, 'activation': 'tanh',"         \
    " 'inputs': ['c']},"                                                       \
    "{'type': 'cross', 'name': 'x', 'inputs': ['n']},"                         \
    "{'type': 'cross', 'name': 'y', 'inputs': ['n', 'x'],"                     \
    " 'projection_dim': 2, 'diag_scale': 0.25,"                                \
    " 'kernel_regularizer': {'l2': 0.1}, 'bias_regularizer': {'l2': 0.2}},"    \
    "{'type': 'cross', 'name': 'z', 'inputs': ['input', 'y'],"                 \
    " 'use_bias': false},"                                                     \
    "{'type': 'cross', 'name': 'w', 'inputs': ['z', 'input'],"                 \
    " 'projection_dim': 3},"                                                   \
    "{'type': 'cross', 'name': 'p', 'inputs': ['input']},"                     \
    "{'type': 'add', 'name': 'm', 'inputs': ['w', 'p']},"                      \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['m']}]}"

// Who is largest and smallest, normalized rows, activations of all kinds.
#define NET_PICKS                                                              \
    "{'input_shape': [4, 5], 'layers': ["                                      \
    "{'type': 'dense', 'name': 'a', 'units': 6, 'inputs': ['input'],"          \
    " 'activation': 'mish'},"                                                  \
    "{'type': 'dense', 'name': 'b', 'units': 6, 'inputs': ['input'],"          \
    " 'activation': 'softsign'},"                                              \
    "{'type': 'maximum', 'name': 'm', 'inputs': ['a', 'b', 'a']},"             \
    "{'type': 'layer_normalization', 'name': 'n', 'inputs': ['m']},"           \
    "{'type': 'hard_silu', 'name': 's', 'inputs': ['n']},"                     \
    "{'type': 'minimum', 'name': 'l', 'inputs': ['s', 'b']},"                  \
    "{'type': 'hard_sigmoid', 'name': 'h', 'inputs': ['n']},"                  \
    "{'type': 'multiply', 'name': 'p', 'inputs': ['l', 'h']},"                 \
    "{'type': 'layer_normalization', 'name': 'o', 'scale': false,"             \
    " 'epsilon': 0.01, 'inputs': ['p']},"                                      \
    "{'type': 'layer_normalization', 'name': 'c', 'center': false,"            \
    " 'inputs': ['o']},"                                                       \
    "{'type': 'dense', 'name': 'e', 'units': 3, 'inputs': ['c'],"              \
    " 'activation': 'exponential'},"                                           \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['e']},"                       \
    "{'type': 'dense', 'name': 'd', 'units': 10, 'inputs': ['f']}]}"

// Sizes of variables in the loss: of each kind of layer that can say so.
#define NET_PENALTIES                                                          \
    "{'input_shape': [6, 5, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'filters': 4, 'kernel_size': 2, 'activation': 'relu'," \
    " 'kernel_regularizer': {'l2': 0.3},"                                      \
    " 'bias_regularizer': {'l1': 0.1, 'l2': 0.2}},"                            \
    "{'type': 'depthwise_conv2d', 'kernel_size': 2,"                           \
    " 'depthwise_regularizer': {'l1': 0.2}},"                                  \
    "{'type': 'separable_conv2d', 'filters': 3, 'kernel_size': 2,"             \
    " 'depthwise_regularizer': {'l2': 0.1},"                                   \
    " 'pointwise_regularizer': {'l1': 0.3, 'l2': 0.1}},"                       \
    "{'type': 'reshape', 'target_shape': [-1, 3]},"                            \
    "{'type': 'multi_head_attention', 'num_heads': 2, 'key_dim': 2,"           \
    " 'kernel_regularizer': {'l2': 0.2}, 'bias_regularizer': {'l2': 0.4}},"    \
    "{'type': 'flatten'},"                                                     \
    "{'type': 'dense', 'units': 200, 'activation': 'tanh',"                    \
    " 'kernel_regularizer': {'l1': 0.01, 'l2': 0.02}},"                        \
    "{'type': 'dense', 'units': 10, 'kernel_regularizer': {'l2': 0.1}}]}"

// Layers with rows of tables, of which one is read twice, beside the sample.
#define NET_TABLES                                                             \
    "{'input_shape': [3], 'layers': ["                                         \
    "{'type': 'embedding', 'name': 'u', 'rows': 'dynamic', 'ids': 'user',"     \
    " 'output_dim': 5},"                                                       \
    "{'type': 'embedding', 'name': 't', 'rows': 'dynamic', 'ids': 'tags',"     \
    " 'output_dim': 5, 'combiner': 'mean'},"                                   \
    "{'type': 'multiply', 'name': 'm', 'inputs': ['u', 't']},"                 \
    "{'type': 'concatenate', 'name': 'c', 'inputs': ['input', 'u', 'm']},"     \
    "{'type': 'dense', 'name': 'h', 'units': 6, 'activation': 'tanh'},"        \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// A label for each step: a language model.
#define NET_STEPS                                                              \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'embedding', 'name': 'm', 'input_dim': 9, 'output_dim': 5,"      \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'multi_head_attention', 'name': 'a', 'num_heads': 1,"            \
    " 'key_dim': 4, 'use_causal_mask': true, 'inputs': ['m']},"                \
    "{'type': 'add', 'name': 'r', 'inputs': ['m', 'a']},"                      \
    "{'type': 'dense', 'name': 'o', 'units': 4, 'inputs': ['r']}]}"

// A label for each pixel: an image that becomes smaller, and as large again.
#define NET_PIXELS                                                             \
    "{'input_shape': [4, 6, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'd', 'filters': 3, 'kernel_size': 3,"          \
    " 'padding': 'same', 'activation': 'relu', 'inputs': ['input']},"          \
    "{'type': 'max_pooling2d', 'name': 'p', 'inputs': ['d']},"                 \
    "{'type': 'conv2d', 'name': 'b', 'filters': 4, 'kernel_size': 3,"          \
    " 'padding': 'same', 'activation': 'relu', 'inputs': ['p']},"              \
    "{'type': 'conv2d_transpose', 'name': 'u', 'filters': 3,"                  \
    " 'kernel_size': 2, 'strides': 2, 'inputs': ['b']},"                       \
    "{'type': 'concatenate', 'name': 'n', 'inputs': ['u', 'd']},"              \
    "{'type': 'conv2d', 'name': 'o', 'filters': 3, 'kernel_size': 1,"          \
    " 'activation': 'softmax', 'inputs': ['n']}]}"

// A small transformer: numbers below 9 are its samples, of which some are also
// read as numbers.
#define NET_TOKENS                                                             \
    "{'input_shape': [12], 'layers': ["                                        \
    "{'type': 'reshape', 'name': 'ids', 'target_shape': [6, 2],"               \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'embedding', 'name': 'm', 'input_dim': 9, 'output_dim': 5,"      \
    " 'inputs': ['ids']},"                                                     \
    "{'type': 'reshape', 'name': 'e', 'target_shape': [12, 5],"                \
    " 'inputs': ['m']},"                                                       \
    "{'type': 'embedding', 'name': 'w', 'input_dim': 9, 'output_dim': 3,"      \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'layer_normalization', 'name': 'n', 'inputs': ['e']},"           \
    "{'type': 'multi_head_attention', 'name': 'a', 'num_heads': 2,"            \
    " 'key_dim': 3, 'value_dim': 4, 'rate': 0.2, 'use_causal_mask': true,"     \
    " 'inputs': ['n']},"                                                       \
    "{'type': 'add', 'name': 'r', 'inputs': ['e', 'a']},"                      \
    "{'type': 'multi_head_attention', 'name': 'x', 'num_heads': 3,"            \
    " 'key_dim': 2, 'use_bias': false, 'inputs': ['r', 'w', 'r']},"            \
    "{'type': 'multi_head_attention', 'name': 'y', 'num_heads': 1,"            \
    " 'key_dim': 4, 'inputs': ['x', 'w']},"                                    \
    "{'type': 'dense', 'name': 'h', 'units': 7, 'activation': 'gelu',"         \
    " 'inputs': ['y']},"                                                       \
    "{'type': 'dense', 'name': 'b', 'units': 2, 'inputs': ['h']},"             \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['b']},"                       \
    "{'type': 'slice', 'name': 'i', 'begin': 4, 'size': 3,"                    \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'embedding', 'name': 'u', 'input_dim': 9, 'output_dim': 2,"      \
    " 'inputs': ['i']},"                                                       \
    "{'type': 'flatten', 'name': 'v', 'inputs': ['u']},"                       \
    "{'type': 'slice', 'name': 's', 'begin': 9, 'size': 3,"                    \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'rescaling', 'name': 't', 'factor': 0.1, 'inputs': ['s']},"      \
    "{'type': 'slice', 'name': 'p', 'size': 5, 'inputs': ['f']},"              \
    "{'type': 'concatenate', 'name': 'c', 'inputs': ['f', 'v', 't', 'p']},"    \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['c']}]}"

// Its wide layers are computed in parts, if those have NET_WIDE_PART bytes.
#define NET_WIDE_PART 4000
#define NET_WIDE                                                               \
    "{'input_shape': [12], 'layers': ["                                        \
    "{'type': 'dense', 'units': 20, 'activation': 'tanh'},"                    \
    "{'type': 'dense', 'units': 200, 'activation': 'relu'},"                   \
    "{'type': 'dense', 'units': 150, 'use_bias': false},"                      \
    "{'type': 'dense', 'units': 4, 'activation': 'softplus'}]}"

// Layers of one axis.
#define NET_LINE                                                               \
    "{'input_shape': [15, 3], 'layers': ["                                     \
    "{'type': 'conv1d', 'filters': 4, 'kernel_size': 3, 'dilation_rate': 2,"   \
    " 'padding': 'causal', 'activation': 'relu'},"                             \
    "{'type': 'batch_normalization'},"                                         \
    "{'type': 'zero_padding1d', 'name': 'z', 'pad': [2, 1]},"                  \
    "{'type': 'max_pooling1d', 'name': 'm', 'pool_size': 3, 'strides': 2},"    \
    "{'type': 'depthwise_conv1d', 'name': 'd', 'kernel_size': 2,"              \
    " 'depth_multiplier': 2, 'padding': 'same', 'activation': 'tanh'},"        \
    "{'type': 'average_pooling1d', 'name': 'a', 'padding': 'same'},"           \
    "{'type': 'separable_conv1d', 'name': 's', 'filters': 6, 'kernel_size': "  \
    "2,"                                                                       \
    " 'strides': 2, 'activation': 'relu', 'padding': 'same'},"                 \
    "{'type': 'conv1d', 'name': 'c', 'filters': 4, 'kernel_size': 1, "         \
    "'groups': 2,"                                                             \
    " 'use_bias': false},"                                                     \
    "{'type': 'global_max_pooling1d', 'name': 'x'},"                           \
    "{'type': 'global_average_pooling1d', 'name': 'g', 'keepdims': true,"      \
    " 'inputs': ['d']},"                                                       \
    "{'type': 'flatten', 'name': 'f'},"                                        \
    "{'type': 'concatenate', 'name': 'n', 'inputs': ['x', 'f']},"              \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// Every layer that goes step by step, in both directions, whole sequences and
// last rows.
#define NET_RECURRENT                                                          \
    "{'input_shape': [5, 3], 'layers': ["                                      \
    "{'type': 'lstm', 'name': 'f', 'units': 4, 'return_sequences': true,"      \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'lstm', 'name': 'b', 'units': 4, 'return_sequences': true,"      \
    " 'go_backwards': true, 'keep_order': true, 'activation': 'elu',"          \
    " 'kernel_regularizer': {'l2': 0.01},"                                     \
    " 'recurrent_regularizer': {'l2': 0.02}, 'inputs': ['input']},"            \
    "{'type': 'concatenate', 'name': 'both', 'inputs': ['f', 'b']},"           \
    "{'type': 'gru', 'name': 'g', 'units': 3, 'return_sequences': true,"       \
    " 'go_backwards': true, 'bias_initializer': 'random_uniform',"             \
    " 'inputs': ['both']},"                                                    \
    "{'type': 'simple_rnn', 'name': 's', 'units': 6, 'use_bias': false,"       \
    " 'inputs': ['g']},"                                                       \
    "{'type': 'gru', 'name': 'h', 'units': 2, 'use_bias': false,"              \
    " 'recurrent_activation': 'hard_sigmoid', 'inputs': ['g']},"               \
    "{'type': 'lstm', 'name': 'l', 'units': 3, 'unit_forget_bias': false,"     \
    " 'go_backwards': true, 'inputs': ['both']},"                              \
    "{'type': 'concatenate', 'name': 'all', 'inputs': ['s', 'h', 'l']},"       \
    "{'type': 'dense', 'name': 'out', 'units': 10, 'inputs': ['all']}]}"

// Steps that do not count, in layers that go step by step and in a mean of
// steps: those of which a relu left nothing.
#define NET_MASKED                                                             \
    "{'input_shape': [6, 3], 'layers': ["                                      \
    "{'type': 'dense', 'name': 'one', 'units': 2, 'activation': 'relu',"       \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'masking', 'name': 'm'},"                                        \
    "{'type': 'dense', 'name': 'd', 'units': 4, 'activation': 'tanh'},"        \
    "{'type': 'lstm', 'name': 'f', 'units': 4, 'return_sequences': true,"      \
    " 'inputs': ['d']},"                                                       \
    "{'type': 'gru', 'name': 'b', 'units': 4, 'return_sequences': true,"       \
    " 'go_backwards': true, 'keep_order': true, 'inputs': ['d'],"              \
    " 'zero_output_for_mask': true},"                                          \
    "{'type': 'concatenate', 'name': 'both', 'inputs': ['f', 'b']},"           \
    "{'type': 'simple_rnn', 'name': 's', 'units': 3, 'inputs': ['both']},"     \
    "{'type': 'lstm', 'name': 'l', 'units': 3, 'go_backwards': true,"          \
    " 'inputs': ['both']},"                                                    \
    "{'type': 'global_average_pooling1d', 'name': 'g', 'inputs': ['both']},"   \
    "{'type': 'global_average_pooling1d', 'name': 'k', 'keepdims': true,"      \
    " 'inputs': ['m']},"                                                       \
    "{'type': 'flatten', 'name': 'kf'},"                                       \
    "{'type': 'concatenate', 'name': 'all', 'inputs': ['s', 'l', 'g', 'kf']}," \
    "{'type': 'dense', 'name': 'out', 'units': 10, 'inputs': ['all']}]}"

// Layers of images that are made of the ops of others, and views that repeat
// and crop.
#define NET_COMPOSED                                                           \
    "{'input_shape': [5, 4, 3], 'layers': ["                                   \
    "{'type': 'normalization', 'name': 'w', 'mean': [0.5, -1, 0],"             \
    " 'variance': [2, 0.25, 1], 'inputs': ['input']},"                         \
    "{'type': 'conv2d_transpose', 'name': 'a', 'filters': 4, 'kernel_size': "  \
    "3,"                                                                       \
    " 'strides': 2, 'activation': 'tanh'},"                                    \
    "{'type': 'normalization', 'name': 'v', 'mean': 0.1, 'variance': 4},"      \
    "{'type': 'group_normalization', 'name': 'g', 'groups': 2},"               \
    "{'type': 'prelu', 'name': 'p', 'shared_axes': [1, 2],"                    \
    " 'alpha_initializer': 'constant(0.3)'},"                                  \
    "{'type': 'cropping2d', 'name': 'c', 'crop': [1, 2, 3, 0]},"               \
    "{'type': 'spatial_dropout2d', 'name': 'd', 'rate': 0.3},"                 \
    "{'type': 'layer_scale', 'name': 'ls',"                                    \
    " 'gamma_initializer': 'constant(0.7)'},"                                  \
    "{'type': 'stochastic_depth', 'name': 'sd', 'rate': 0.3},"                 \
    "{'type': 'add', 'name': 'sum', 'inputs': ['d', 'sd']},"                   \
    "{'type': 'conv2d_transpose', 'name': 'b', 'filters': 2, 'kernel_size': "  \
    "[2, 3],"                                                                  \
    " 'strides': [1, 2], 'padding': 'same', 'use_bias': false},"               \
    "{'type': 'average_pooling2d', 'name': 'm'},"                              \
    "{'type': 'up_sampling2d', 'name': 'u', 'size': [2, 3]},"                  \
    "{'type': 'global_average_pooling2d', 'name': 'q'},"                       \
    "{'type': 'prelu', 'name': 'x', 'alpha_initializer': 'constant(0.2)',"     \
    " 'inputs': ['m']},"                                                       \
    "{'type': 'flatten', 'name': 'f'},"                                        \
    "{'type': 'concatenate', 'name': 'z', 'inputs': ['q', 'f']},"              \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// The same of one axis, and products of two inputs.
#define NET_PRODUCTS                                                           \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'dense', 'name': 'k', 'units': 6, 'activation': 'tanh'},"        \
    "{'type': 'group_normalization', 'name': 'h', 'groups': 1,"                \
    " 'center': false},"                                                       \
    "{'type': 'repeat_vector', 'name': 'r', 'repeats': 4},"                    \
    "{'type': 'spatial_dropout1d', 'name': 's', 'rate': 0.2},"                 \
    "{'type': 'conv1d_transpose', 'name': 't', 'filters': 3, 'kernel_size': "  \
    "2,"                                                                       \
    " 'strides': 3, 'activation': 'tanh'},"                                    \
    "{'type': 'cropping1d', 'name': 'y', 'crop': [1, 0]},"                     \
    "{'type': 'up_sampling1d', 'name': 'n'},"                                  \
    "{'type': 'unit_normalization', 'name': 'i'},"                             \
    "{'type': 'dot', 'name': 'o1', 'axes': [1, 1], 'inputs': ['i', 'n']},"     \
    "{'type': 'rescaling', 'name': 'os', 'factor': 0.1},"                      \
    "{'type': 'dot', 'name': 'o2', 'axes': -1, 'inputs': ['n', 'os']},"        \
    "{'type': 'dot', 'name': 'o3', 'axes': [1, 2], 'inputs': ['os', 'o2']},"   \
    "{'type': 'dot', 'name': 'o4', 'axes': [2, 1], 'inputs': ['o3', 'o2']},"   \
    "{'type': 'rescaling', 'name': 'l', 'factor': 0.5},"                       \
    "{'type': 'flatten', 'name': 'e'},"                                        \
    "{'type': 'dense', 'name': 'j', 'units': 4, 'inputs': ['e']},"             \
    "{'type': 'dense', 'name': 'jj', 'units': 4, 'inputs': ['k']},"            \
    "{'type': 'dot', 'name': 'o5', 'axes': 1, 'inputs': ['j', 'jj']},"         \
    "{'type': 'concatenate', 'name': 'zz', 'inputs': ['o5', 'j', 'jj']},"      \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// A table that is not trained, beside one that is.
#define NET_FROZEN_TABLE                                                       \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'embedding', 'name': 'm', 'input_dim': 9, 'output_dim': 4,"      \
    " 'embeddings_regularizer': {'l2': 0.1}, 'trainable': false,"              \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'embedding', 'name': 'w', 'input_dim': 9, 'output_dim': 4,"      \
    " 'trainable': true, 'inputs': ['input']},"                                \
    "{'type': 'add', 'name': 'r', 'inputs': ['m', 'w']},"                      \
    "{'type': 'flatten', 'name': 'f'},"                                        \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// Layers that are not trained, between two that are.
#define NET_FROZEN                                                             \
    "{'input_shape': [7, 6, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'a', 'filters': 4, 'kernel_size': 2,"          \
    " 'activation': 'tanh'},"                                                  \
    "{'type': 'conv2d', 'name': 'b', 'filters': 4, 'kernel_size': 2,"          \
    " 'activation': 'relu', 'trainable': false},"                              \
    "{'type': 'batch_normalization', 'name': 'n', 'trainable': false},"        \
    "{'type': 'separable_conv2d', 'name': 's', 'filters': 4, 'kernel_size': "  \
    "2,"                                                                       \
    " 'trainable': false},"                                                    \
    "{'type': 'group_normalization', 'name': 'g', 'groups': 2,"                \
    " 'trainable': false},"                                                    \
    "{'type': 'prelu', 'name': 'p', 'shared_axes': [1, 2], 'trainable': "      \
    "false},"                                                                  \
    "{'type': 'layer_scale', 'name': 'ls', 'trainable': false},"               \
    "{'type': 'conv2d_transpose', 'name': 't', 'filters': 4, 'kernel_size': "  \
    "2,"                                                                       \
    " 'trainable': false},"                                                    \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [-1, 4]},"               \
    "{'type': 'layer_normalization', 'name': 'l', 'trainable': false},"        \
    "{'type': 'multi_head_attention', 'name': 'm', 'num_heads': 2,"            \
    " 'key_dim': 2, 'trainable': false},"                                      \
    "{'type': 'cross', 'name': 'x', 'trainable': false},"                      \
    "{'type': 'dense', 'name': 'd', 'units': 200, 'trainable': false,"         \
    " 'kernel_regularizer': {'l2': 0.5}},"                                     \
    "{'type': 'flatten', 'name': 'f'},"                                        \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// Layers that are called again, on inputs of other lengths, between each other,
// and behind themselves.
#define NET_SHARED                                                             \
    "{'input_shape': [6, 5, 2], 'layers': ["                                   \
    "{'type': 'conv2d', 'name': 'a', 'filters': 2, 'kernel_size': 3,"          \
    " 'padding': 'same',"                                                      \
    " 'kernel_regularizer': {'l2': 0.3}, 'bias_regularizer': {'l1': 0.1},"     \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'batch_normalization', 'name': 'n', 'inputs': ['a']},"           \
    "{'type': 'conv2d', 'name': 'b', 'shares': 'a', 'inputs': ['n']},"         \
    "{'type': 'batch_normalization', 'name': 'm', 'shares': 'n'},"             \
    "{'type': 'conv2d', 'name': 'c', 'shares': 'a', 'inputs': ['m']},"         \
    "{'type': 'average_pooling2d', 'name': 'p'},"                              \
    "{'type': 'prelu', 'name': 'x', 'shared_axes': [1, 2],"                    \
    " 'alpha_initializer': 'constant(0.3)', 'inputs': ['n']},"                 \
    "{'type': 'prelu', 'name': 'y', 'shares': 'x', 'inputs': ['p']},"          \
    "{'type': 'reshape', 'name': 'q', 'target_shape': [3, 4],"                 \
    " 'inputs': ['y']},"                                                       \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [-1, 4],"                \
    " 'inputs': ['x']},"                                                       \
    "{'type': 'dense', 'name': 'd', 'units': 4, 'activation': 'tanh',"         \
    " 'kernel_regularizer': {'l1': 0.02}, 'inputs': ['r']},"                   \
    "{'type': 'dense', 'name': 'e', 'shares': 'd', 'inputs': ['q']},"          \
    "{'type': 'lstm', 'name': 'l', 'units': 3, 'inputs': ['d']},"              \
    "{'type': 'lstm', 'name': 'k', 'shares': 'l', 'inputs': ['e']},"           \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['y']},"                       \
    "{'type': 'dense', 'name': 'w', 'units': 200, 'activation': 'tanh',"       \
    " 'inputs': ['f']},"                                                       \
    "{'type': 'reshape', 'name': 'v', 'target_shape': [4, 3],"                 \
    " 'inputs': ['e']},"                                                       \
    "{'type': 'flatten', 'name': 'g', 'inputs': ['v']},"                       \
    "{'type': 'dense', 'name': 'z', 'shares': 'w', 'inputs': ['g']},"          \
    "{'type': 'concatenate', 'name': 'all', 'inputs': ['l', 'k', 'w',"         \
    " 'z']},"                                                                  \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// The same of layers that read numbers of rows, and sequences.
#define NET_SHARED_TOKENS                                                      \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'embedding', 'name': 'm', 'input_dim': 9, 'output_dim': 4,"      \
    " 'embeddings_regularizer': {'l2': 0.1}, 'inputs': ['input']},"            \
    "{'type': 'reshape', 'name': 'ids', 'target_shape': [2, 3],"               \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'embedding', 'name': 'w', 'shares': 'm',"                        \
    " 'inputs': ['ids']},"                                                     \
    "{'type': 'reshape', 'name': 'e', 'target_shape': [3, 8],"                 \
    " 'inputs': ['w']},"                                                       \
    "{'type': 'dense', 'name': 'h', 'units': 4, 'inputs': ['e']},"             \
    "{'type': 'multi_head_attention', 'name': 'a', 'num_heads': 2,"            \
    " 'key_dim': 3, 'rate': 0.2, 'inputs': ['m']},"                            \
    "{'type': 'multi_head_attention', 'name': 'b', 'shares': 'a',"             \
    " 'inputs': ['h', 'a']},"                                                  \
    "{'type': 'layer_normalization', 'name': 'n', 'inputs': ['a']},"           \
    "{'type': 'layer_normalization', 'name': 'k', 'shares': 'n',"              \
    " 'inputs': ['b']},"                                                       \
    "{'type': 'cross', 'name': 'c', 'projection_dim': 2,"                      \
    " 'inputs': ['n']},"                                                       \
    "{'type': 'cross', 'name': 'd', 'shares': 'c', 'inputs': ['k']},"          \
    "{'type': 'gru', 'name': 'g', 'units': 3, 'inputs': ['c']},"               \
    "{'type': 'gru', 'name': 's', 'shares': 'g', 'inputs': ['d']},"            \
    "{'type': 'separable_conv1d', 'name': 't', 'filters': 3,"                  \
    " 'kernel_size': 2, 'inputs': ['n']},"                                     \
    "{'type': 'separable_conv1d', 'name': 'u', 'shares': 't',"                 \
    " 'inputs': ['k']},"                                                       \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['t']},"                       \
    "{'type': 'flatten', 'name': 'v', 'inputs': ['u']},"                       \
    "{'type': 'concatenate', 'name': 'all', 'inputs': ['g', 's', 'f',"         \
    " 'v']},"                                                                  \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"

// Numbers below 9 as indexes, rows and sums of rows, in all modes; and what
// else reads them.
#define NET_ENCODED                                                            \
    "{'input_shape': [6], 'layers': ["                                         \
    "{'type': 'reshape', 'name': 'r', 'target_shape': [6, 1],"                 \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'cropping1d', 'name': 'c', 'crop': [1, 2]},"                     \
    "{'type': 'flatten', 'name': 'three'},"                                    \
    "{'type': 'integer_lookup', 'name': 'i', 'vocabulary': [7, 0, 3],"         \
    " 'mask_token': 8},"                                                       \
    "{'type': 'embedding', 'name': 'e', 'input_dim': 5, 'output_dim': 3},"     \
    "{'type': 'flatten', 'name': 'ef'},"                                       \
    "{'type': 'discretization', 'name': 'd', 'bin_boundaries': [2, 4.5, 4.5]," \
    " 'inputs': ['c']},"                                                       \
    "{'type': 'permute', 'name': 'p', 'dims': [2, 1]},"                        \
    "{'type': 'embedding', 'name': 'w', 'input_dim': 4, 'output_dim': 2},"     \
    "{'type': 'flatten', 'name': 'wf'},"                                       \
    "{'type': 'category_encoding', 'name': 'o1', 'num_tokens': 7,"             \
    " 'output_mode': 'one_hot', 'inputs': ['three']},"                         \
    "{'type': 'flatten', 'name': 'of'},"                                       \
    "{'type': 'category_encoding', 'name': 'm', 'num_tokens': 9,"              \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'discretization', 'name': 'n', 'bin_boundaries': [1, 6],"        \
    " 'output_mode': 'count', 'inputs': ['input']},"                           \
    "{'type': 'integer_lookup', 'name': 'l', 'vocabulary': [5, 2],"            \
    " 'num_oov_indices': 0, 'output_mode': 'multi_hot',"                       \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'dense', 'name': 'x', 'units': 4, 'activation': 'tanh',"         \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'dense', 'name': 'y', 'units': 3, 'inputs': ['d']},"             \
    "{'type': 'flatten', 'name': 'yf'},"                                       \
    "{'type': 'concatenate', 'name': 'all', 'inputs': ['ef', 'wf', 'of',"      \
    " 'm', 'n', 'l', 'x', 'yf']},"                                             \
    "{'type': 'dense', 'name': 'out', 'units': 10}]}"

// Three outputs: classes for each of six rows, bits, and numbers that the next
// layers read as well; two penalties.
#define NET_OUTPUTS                                                            \
    "{'input_shape': [6, 5], 'outputs': ['rows', 'value', 'bits'],"            \
    " 'layers': ["                                                             \
    "{'type': 'dense', 'name': 'h', 'units': 8, 'activation': 'tanh',"         \
    " 'kernel_regularizer': {'l2': 0.3}, 'inputs': ['input']},"                \
    "{'type': 'dense', 'name': 'rows', 'units': 4, 'activation': 'softmax',"   \
    " 'inputs': ['h']},"                                                       \
    "{'type': 'global_average_pooling1d', 'name': 'm', 'inputs': ['h']},"      \
    "{'type': 'dense', 'name': 'value', 'units': 3, 'activation': 'tanh',"     \
    " 'bias_regularizer': {'l1': 0.1}, 'inputs': ['m']},"                      \
    "{'type': 'dense', 'name': 'g', 'units': 5, 'activation': 'relu',"         \
    " 'inputs': ['value']},"                                                   \
    "{'type': 'dense', 'name': 'bits', 'units': 2, 'activation': 'sigmoid',"   \
    " 'inputs': ['g']}]}"

#endif
