// SPDX-License-Identifier: Apache-2.0
// What is said about models that cannot be.
#include "common/base/buf.h"
#include "proto/model.h"
#include "tests/unit/proto/t_proto.h"

// Stands at the end of a message for the words that are known.
#define KNOWN_LAYERS "known are [layers]; each with 2d also with 1d"
#define NO_NUMBERS                                                             \
    "layer 'embedding' (embedding) reads numbers of rows: it wants the "       \
    "sample or what a layer gives as int, or a reshape, flatten, permute or "  \
    "cropping of it"
#define KNOWN_ACTS "known are [activations]"

#define THREE_INPUTS "'input','input','input'"
#define NINE_INPUTS THREE_INPUTS "," THREE_INPUTS "," THREE_INPUTS

static const char *const layers[] = {
#define LAYER(code, name, ...) name,
#include "proto/layers.def"
};
static const char *const acts[] = {
    "linear",
#define ACTIVATION(code, name, ...) name,
#include "proto/layers.def"
};

// Appends the words to the part of `why` before its [, but those that end in
// 1d, and what follows its ].
static void spell_known(struct buf *out, const char *why,
                        const char *const *words, size_t count)
{
    T_OK(buf_append(out, why, (size_t)(strrchr(why, '[') - why)));
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i] + strlen(words[i]) - 2, "1d") != 0)
            T_OK(buf_appendf(out, "%s%s", i > 0 ? ", " : "", words[i]));
    T_OK(buf_appendf(out, "%s", strrchr(why, ']') + 1));
}

static const struct wrong {
    const char *shape, *layers, *why;
} wrong[] = {
    {"[4]", "{'type':'dence','units':1}",
     "model.layers[0]: unknown layer type 'dence'; did you mean "
     "'dense'? " KNOWN_LAYERS},
    {"[4]", "{'type':'lambda'}",
     "model.layers[0]: unknown layer type 'lambda'; " KNOWN_LAYERS},
    {"[4]", "{'units':1}", "model.layers[0].type is missing"},
    {"[4]", "{'type':'dense'}",
     "layer 'dense' (dense) needs 'units' of at least 1"},
    {"[4]", "{'type':'dense','units':1,'activation':'rleu'}",
     "layer 'dense' (dense): unknown activation 'rleu'; did you mean "
     "'relu'? " KNOWN_ACTS},
    {"[4]", "{'type':'lstm','units':1}",
     "layer 'lstm' (lstm) wants an input of shape (steps, features), got (4,)"},
    {"[4,2]", "{'type':'gru'}",
     "layer 'gru' (gru) needs 'units' of 1 to 250000000"},
    {"[4096,2]",
     "{'type':'gru','units':1,'return_sequences':true},"
     "{'type':'gru','units':1,'return_sequences':true},"
     "{'type':'gru','units':1,'return_sequences':true},"
     "{'type':'gru','units':1,'return_sequences':true},"
     "{'type':'gru','name':'last','units':1}",
     "layer 'last' (gru) goes 20480 steps together with the recurrent layers "
     "before it, and at most 16384 are possible"},
    {"[4,4,16]",
     "{'type':'conv2d','filters':1,'kernel_size':[1073741824,1073741824],"
     "'padding':'same','kernel_initializer':'orthogonal'}",
     "layer 'conv2d': a kernel has at most 1000000000 elements"},
    {"[4]", "{'type':'masking'}",
     "layer 'masking' (masking) wants an input of shape (steps, features), got "
     "(4,)"},
    {"[4,2]", "{'type':'masking'},{'type':'batch_normalization'}",
     "layer 'batch_normalization' (batch_normalization) reads steps of which "
     "'masking' masks some, and is not offered with a mask"},
    {"[4,2]", "{'type':'masking'},{'type':'softmax'}",
     "layer 'softmax' (softmax) reads steps of which 'masking' masks some, and "
     "is not offered with a mask"},
    {"[4,2]",
     "{'type':'masking'},{'type':'multi_head_attention','num_heads':1,"
     "'key_dim':2}",
     "layer 'multi_head_attention' (multi_head_attention) reads steps of which "
     "'masking' masks some, and is not offered with a mask"},
    {"[4,2]",
     "{'type':'masking','name':'a'},{'type':'masking','name':'b','inputs':"
     "['input']},{'type':'add','inputs':['a','b']}",
     "layer 'add' (add) reads 'a' and 'b', in which other steps are masked; "
     "use one mask for all"},
    {"[4,2]",
     "{'type':'masking','name':'a'},{'type':'masking','name':'b','inputs':"
     "['input']},{'type':'add','inputs':['input','a','b']}",
     "layer 'add' (add) reads 'a' and 'b', in which other steps are masked; "
     "use one mask for all"},
    {"[4,2]",
     "{'type':'masking','name':'a'},{'type':'concatenate','inputs':['input',"
     "'a']}",
     "layer 'concatenate' (concatenate) reads 'input' and 'a', in which other "
     "steps are masked; use one mask for all"},
    {"[4,2]",
     "{'type':'embedding','input_dim':3,'output_dim':1,'mask_zero':true}",
     "layer 'embedding' (embedding) wants an input of shape (steps) for "
     "'mask_zero', got 2 axes"},
    {"[4,2]", "{'type':'lstm','units':1,'activation':'tahn'}",
     "layer 'lstm' (lstm): unknown activation 'tahn'; did you mean "
     "'tanh'? " KNOWN_ACTS},
    {"[4,2]", "{'type':'gru','units':1,'recurrent_activation':'gelu'}",
     "layer 'gru' (gru) has 'recurrent_activation' gelu; a recurrent layer "
     "knows linear, relu, relu6, tanh, sigmoid, selu, elu and hard_sigmoid"},
    {"[5000,2]", "{'type':'simple_rnn','units':1}",
     "layer 'simple_rnn' (simple_rnn) goes 5000 steps, and at most 4096 are "
     "possible"},
    {"[4,2]", "{'type':'simple_rnn','units':1,'recurrent_activation':'tanh'}",
     "layer 'simple_rnn' (simple_rnn) takes no 'recurrent_activation'"},
    {"[4,2]", "{'type':'lstm','units':1,'bias_initializer':'ones'}",
     "layer 'lstm' (lstm) has a 'bias_initializer' beside its "
     "'unit_forget_bias': say unit_forget_bias: false"},
    {"[4,2]", "{'type':'gru','units':5000}",
     "layer 'gru': a kernel of 15000 x 5000 is too large for the initializer "
     "orthogonal: say another one (of a recurrent layer "
     "recurrent_initializer: glorot_uniform)"},
    {"[4]",
     "{'type':'dense','units':1,'kernel_initializer':'random_normal(0)'}",
     "layer 'dense': wants random_normal(mean, stddev), of finite numbers "
     "above 0 but for a mean, got 'random_normal(0)'"},
    {"[4]",
     "{'type':'dense','units':1,'kernel_initializer':'random_uniform(1, 1)'}",
     "layer 'dense': wants random_uniform(min, max), of finite numbers, min "
     "below max, got 'random_uniform(1, 1)'"},
    {"[4]", "{'type':'dense','units':1,'kernel_initializer':'constant(1e99)'}",
     "layer 'dense': wants constant(value), of finite numbers, got "
     "'constant(1e99)'"},
    {"[4]", "{'type':'dense','units':1,'kernel_initializer':'constant(nan)'}",
     "layer 'dense': wants constant(value), of finite numbers, got "
     "'constant(nan)'"},
    {"[4]",
     "{'type':'dense','units':1,'kernel_initializer':'truncated_normal(0, 1) "
     "'}",
     "layer 'dense': wants truncated_normal(mean, stddev), of finite numbers "
     "above 0 but for a mean, got 'truncated_normal(0, 1) '"},
    {"[4]", "{'type':'dense','units':1,'kernel_initializer':'orthogonal(1)'}",
     "layer 'dense': unknown initializer with arguments 'orthogonal(1)'; known "
     "are constant, random_normal, random_uniform, truncated_normal, "
     "variance_scaling"},
    {"[4]", "{'type':'dense','units':1,'trainable':false}",
     "model.layers: nothing to train: no layer has weights, or all have "
     "trainable: false"},
    {"[4]", "{'type':'dense','units':1,'kernel_initializer':'he_norml'}",
     "layer 'dense': unknown initializer 'he_norml'; did you mean 'he_normal'? "
     "known are zeros, ones, random_normal, random_uniform, truncated_normal, "
     "glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, "
     "lecun_normal"},
    {"[4]",
     "{'type':'dense','units':1,'use_bias':false,"
     "'bias_initializer':'ones'}",
     "layer 'dense' (dense) has a 'bias_initializer' but no bias"},
    {"[28,28,1]", "{'type':'max_pooling2d','name':'pool1','filters':3}",
     "layer 'pool1' (max_pooling2d) takes no 'filters'"},
    {"[28,28,1]", "{'type':'flatten','rate':0.5}",
     "layer 'flatten' (flatten) takes no 'rate'"},
    {"[4,4,1]",
     "{'type':'conv2d','filters':1,'kernel_size':3,'dilation_rate':2}",
     "layer 'conv2d' (conv2d) has a window of 5 x 5, larger than its input "
     "(4, 4, 1); use padding: same or a smaller kernel_size"},
    {"[9,9,1]",
     "{'type':'conv2d','filters':1,'kernel_size':3,'dilation_rate':2,"
     "'strides':2}",
     "layer 'conv2d' (conv2d) wants 'strides' of 1 where 'dilation_rate' is "
     "more than 1"},
    {"[9,9,4]", "{'type':'conv2d','filters':6,'kernel_size':3,'groups':4}",
     "layer 'conv2d' (conv2d) wants 'groups' that divide the channels (4) and "
     "the filters (6), got 4"},
    {"[9,9,4]", "{'type':'conv2d','filters':6,'kernel_size':3,'groups':0}",
     "layer 'conv2d' (conv2d) wants 'groups' that divide the channels (4) and "
     "the filters (6), got 0"},
    {"[9,9,4]",
     "{'type':'depthwise_conv2d','kernel_size':3,"
     "'depth_multiplier':0}",
     "layer 'depthwise_conv2d' (depthwise_conv2d) wants 'depth_multiplier' of "
     "at least 1, and not more than 1000000000 channels"},
    {"[9,9,4]", "{'type':'depthwise_conv2d'}",
     "layer 'depthwise_conv2d' (depthwise_conv2d) needs 'kernel_size'"},
    {"[9,9,4]", "{'type':'depthwise_conv2d','kernel_size':3,'filters':4}",
     "layer 'depthwise_conv2d' (depthwise_conv2d) takes no 'filters'"},
    {"[9,9,4]", "{'type':'separable_conv2d','kernel_size':3}",
     "layer 'separable_conv2d' (separable_conv2d) needs 'filters' of at least "
     "1"},
    {"[9,4]", "{'type':'zero_padding1d','pad':[1,2,3]}",
     "layer 'zero_padding1d' (zero_padding1d) "
     "wants 1 or 2 values of 'pad' (both; before, after), got 3"},
    {"[9,9,4]", "{'type':'conv1d','filters':2,'kernel_size':3}",
     "layer 'conv1d' (conv1d) wants an input of shape (length, channels), got "
     "(9, 9, 4)"},
    {"[9,4]", "{'type':'conv1d','filters':2,'kernel_size':[3,3]}",
     "layer 'conv1d' (conv1d) "
     "wants 1 value of 'kernel_size', got 2"},
    {"[9,4]", "{'type':'conv1d','filters':2,'kernel_size':3,'padding':'full'}",
     "layer 'conv1d' (conv1d) "
     "wants padding 'valid', 'causal' or 'same', got 'full'"},
    {"[9,4]", "{'type':'max_pooling1d','padding':'causal'}",
     "layer 'max_pooling1d' (max_pooling1d) "
     "wants padding 'valid' or 'same', got 'causal'"},
    {"[9,9,4]", "{'type':'zero_padding2d','pad':[1,2,3]}",
     "layer 'zero_padding2d' (zero_padding2d) wants 1, 2 or 4 values of 'pad' "
     "(all; height, width; top, bottom, left, right), got 3"},
    {"[4]", "{'type':'zero_padding2d'}",
     "layer 'zero_padding2d' (zero_padding2d) wants an input of shape (height, "
     "width, channels), got (4,)"},
    {"[4]", "{'type':'rescaling'}",
     "layer 'rescaling' (rescaling) needs 'factor'"},
    {"[4]", "{'type':'rescaling','factor':1e300}",
     "layer 'rescaling' (rescaling) wants a finite 'factor' and 'offset'"},
    {"[4,6]", "{'type':'reshape','target_shape':[5,5]}",
     "layer 'reshape' (reshape) cannot make (5, 5) of (4, 6): the numbers of "
     "elements differ"},
    {"[4,6]", "{'type':'reshape','target_shape':[5,-1]}",
     "layer 'reshape' (reshape) cannot make (5, 1) of (4, 6): the numbers of "
     "elements differ"},
    {"[4,6]", "{'type':'reshape','target_shape':[-1,-1]}",
     "layer 'reshape' (reshape) wants axes of at least 1 in 'target_shape', or "
     "one of -1"},
    {"[4,6]", "{'type':'reshape'}",
     "layer 'reshape' (reshape) wants 1 to 4 axes of 'target_shape', got 0"},
    {"[4,6]", "{'type':'permute','dims':[1,1]}",
     "layer 'permute' (permute) wants each axis from 1 to 2 once in 'dims'"},
    {"[4,6]", "{'type':'permute','dims':[2,3]}",
     "layer 'permute' (permute) wants each axis from 1 to 2 once in 'dims'"},
    {"[4,6]", "{'type':'permute','dims':[1,2,3]}",
     "layer 'permute' (permute) wants each axis from 1 to 2 once in 'dims'"},
    {"[4]", "{'type':'dense','units':1,'kernel_regularizer':{'l2':-1}}",
     "layer 'dense' (dense) wants 'l1' and 'l2' of a regularizer between 0 and "
     "1e6, got 0 and -1"},
    {"[4]",
     "{'type':'dense','units':1,'use_bias':false,"
     "'bias_regularizer':{'l2':1}}",
     "layer 'dense' (dense) has a 'bias_regularizer' but no bias"},
    {"[4]", "{'type':'layer_normalization','kernel_regularizer':{'l2':1}}",
     "layer 'layer_normalization' (layer_normalization) takes no "
     "'kernel_regularizer'"},
    {"[4]", "{'type':'layer_normalization','epsilon':0}",
     "layer 'layer_normalization' (layer_normalization) wants 'epsilon' above "
     "0, got 0"},
    {"[4,3]", "{'type':'layer_normalization','axis':1}",
     "layer 'layer_normalization' (layer_normalization) works along the last "
     "axis (-1), got axis 1"},
    {"[4]", "{'type':'embedding','input_dim':3}",
     "layer 'embedding' (embedding) needs 'input_dim' and 'output_dim' of at "
     "least 1"},
    {"[4,1,1,1]", "{'type':'embedding','input_dim':3,'output_dim':2}",
     "layer 'embedding' (embedding) wants an input of at most 3 axes, got 4"},
    {"[4]", "{'type':'relu'},{'type':'embedding','input_dim':3,'output_dim':2}",
     NO_NUMBERS},
    {"[4]",
     "{'type':'category_encoding','num_tokens':3,'output_mode':'one_hot'},"
     "{'type':'embedding','input_dim':3,'output_dim':2}",
     NO_NUMBERS},
    {"[4]",
     "{'type':'embedding','name':'e','input_dim':3,'output_dim':2},"
     "{'type':'embedding','input_dim':3,'output_dim':2}",
     NO_NUMBERS},
    {"[4]", "{'type':'category_encoding'}",
     "layer 'category_encoding' (category_encoding) needs 'num_tokens' of at "
     "least 1"},
    {"[4]", "{'type':'category_encoding','num_tokens':3,'output_mode':'int'}",
     "layer 'category_encoding' (category_encoding) wants 'output_mode' "
     "one_hot, multi_hot or count, got 'int'"},
    {"[4,2]", "{'type':'category_encoding','num_tokens':3}",
     "layer 'category_encoding' (category_encoding) wants an input of shape "
     "(numbers), got (4, 2); only one_hot takes others"},
    {"[4,1,1,1]",
     "{'type':'category_encoding','num_tokens':3,'output_mode':'one_hot'}",
     "layer 'category_encoding' (category_encoding) wants an input of at most "
     "3 axes, got 4"},
    {"[4]", "{'type':'category_encoding','num_tokens':70000}",
     "layer 'category_encoding' (category_encoding) has 70000 tokens; a layer "
     "may have 65536, and all layers that are given numbers 1048576"},
    {"[300,300]",
     "{'type':'category_encoding','num_tokens':60000,'output_mode':'one_hot'}",
     "layer 'category_encoding' (category_encoding) compares 90000 numbers "
     "with 60000, more than 1000000000 times"},
    {"[4]",
     "{'type':'dense','name':'d','units':2},{'type':'flatten','name':'f'},"
     "{'type':'discretization','bin_boundaries':[1]}",
     "layer 'discretization' (discretization) reads 'f', at or behind a layer "
     "that is trained: no gradient goes through an index"},
    {"[4]", "{'type':'discretization'}",
     "layer 'discretization' (discretization) needs 'bin_boundaries', at least "
     "one"},
    {"[4]", "{'type':'discretization','bin_boundaries':[1,2,1.5]}",
     "layer 'discretization' (discretization) wants finite 'bin_boundaries' in "
     "ascending order, got 1.5 behind 2"},
    {"[4]", "{'type':'discretization','bin_boundaries':[1,1e99]}",
     "layer 'discretization' (discretization) wants finite 'bin_boundaries' in "
     "ascending order, got 1e+99 behind 1"},
    {"[4]",
     "{'type':'discretization','bin_boundaries':[1],'output_mode':'onehot'}",
     "layer 'discretization' (discretization) wants 'output_mode' int, "
     "one_hot, multi_hot or count, got 'onehot'"},
    {"[4]", "{'type':'discretization','bin_boundaries':[1],'num_tokens':2}",
     "layer 'discretization' (discretization) takes no 'num_tokens'"},
    {"[4]", "{'type':'integer_lookup'}",
     "layer 'integer_lookup' (integer_lookup) needs 'vocabulary', at least one "
     "number"},
    {"[4]", "{'type':'integer_lookup','vocabulary':[3,1,3]}",
     "layer 'integer_lookup' (integer_lookup) has 3 twice in 'vocabulary', or "
     "there and as 'mask_token'"},
    {"[4]", "{'type':'integer_lookup','vocabulary':[3,1],'mask_token':1}",
     "layer 'integer_lookup' (integer_lookup) has 1 twice in 'vocabulary', or "
     "there and as 'mask_token'"},
    {"[4]", "{'type':'integer_lookup','vocabulary':[3,-16777216]}",
     "layer 'integer_lookup' (integer_lookup) knows -16777216; data are "
     "floats, of which whole numbers are exact below 16777216"},
    {"[4]", "{'type':'integer_lookup','vocabulary':[3],'num_oov_indices':2}",
     "layer 'integer_lookup' (integer_lookup) wants 'num_oov_indices' 0 or 1, "
     "got 2"},
    {"[4]", "{'type':'slice'}",
     "layer 'slice' (slice) needs 'size', the number of features that it "
     "takes"},
    {"[4]", "{'type':'slice','size':0}",
     "layer 'slice' (slice) needs 'size', the number of features that it "
     "takes"},
    {"[4]", "{'type':'slice','size':[1,2]}",
     "layer 'slice' (slice) needs 'size', the number of features that it "
     "takes"},
    {"[4]", "{'type':'slice','begin':2,'size':3}",
     "layer 'slice' (slice) takes features 2 to 5 of an input of 4"},
    {"[4]", "{'type':'slice','begin':4294967295,'size':4294967295}",
     "layer 'slice' (slice) takes features 4294967295 to 8589934590 of an "
     "input of 4"},
    {"[4,1]", "{'type':'slice','size':3}",
     "layer 'slice' (slice) wants an input of shape (features), got (4, 1)"},
    {"[4]", "{'type':'embedding','rows':'static','ids':'a','output_dim':2}",
     "layer 'embedding' (embedding) wants 'rows' dynamic, got 'static'"},
    {"[4]", "{'type':'embedding','rows':'dynamic','output_dim':2}",
     "layer 'embedding' (embedding) needs 'ids', a column of data.train.ids, "
     "for 'rows: dynamic'"},
    {"[4]", "{'type':'embedding','rows':'dynamic','ids':'a'}",
     "layer 'embedding' (embedding) needs 'output_dim' of at least 1"},
    {"[4]", "{'type':'embedding','input_dim':3,'output_dim':2,'ids':'a'}",
     "layer 'embedding' (embedding) takes 'ids' only with 'rows: dynamic'"},
    {"[4]", "{'type':'dense','units':1,'rows':'dynamic'}",
     "layer 'dense' (dense) takes no 'rows'"},
    {"[4]", "{'type':'multi_head_attention','num_heads':2,'key_dim':2}",
     "layer 'multi_head_attention' (multi_head_attention) wants inputs of "
     "shape (length, features), got (4,)"},
    {"[4,2]", "{'type':'multi_head_attention','num_heads':2}",
     "layer 'multi_head_attention' (multi_head_attention) needs 'num_heads' "
     "and 'key_dim' of at least 1"},
    {"[4,2]",
     "{'type':'multi_head_attention','num_heads':2,'key_dim':2,'rate':1}",
     "layer 'multi_head_attention' (multi_head_attention) wants 'rate' in [0, "
     "1)"},
    {"[4,2]",
     "{'type':'multi_head_attention','num_heads':2,'key_dim':2,"
     "'inputs':['input','input','input','input']}",
     "layer 'multi_head_attention' (multi_head_attention) reads the query, and "
     "if they are others the value and the key; got 4 inputs"},
    {"[4,2]",
     "{'type':'reshape','name':'r','target_shape':[2,4]},"
     "{'type':'multi_head_attention','num_heads':2,'key_dim':2,"
     "'inputs':['input','input','r']}",
     "layer 'multi_head_attention' (multi_head_attention) wants a key as long "
     "as its value (4), got (2, 4)"},
    {"[40000,2]", "{'type':'multi_head_attention','num_heads':1,'key_dim':2}",
     "layer 'multi_head_attention' (multi_head_attention) has more than "
     "1000000000 scores of all heads"},
    {"[4,4,3]",
     "{'type':'global_max_pooling2d','name':'g'},"
     "{'type':'multiply','inputs':['input','g']}",
     "layer 'multiply' (multiply) wants inputs of one shape, got (4, 4, 3) and "
     "(3,) ('g')"},
    {"[4,4,3]",
     "{'type':'conv2d','name':'c','filters':1,'kernel_size':1},"
     "{'type':'multiply','inputs':['input','c']}",
     "layer 'multiply' (multiply) wants inputs of one shape, got (4, 4, 3) and "
     "(4, 4, 1) ('c')"},
    {"[4]", "{'type':'subtract','inputs':['input','input','input']}",
     "layer 'subtract' (subtract) reads exactly two layers, got 3 inputs"},
    {"[4]", "{'type':'dot_interaction'}",
     "layer 'dot_interaction' (dot_interaction) wants two vectors or more, got "
     "one: name more layers in 'inputs', or one of shape (features, length)"},
    {"[4]", "{'type':'dot_interaction','units':3}",
     "layer 'dot_interaction' (dot_interaction) takes no 'units'"},
    {"[4]",
     "{'type':'dense','name':'a','units':3},"
     "{'type':'dot_interaction','inputs':['input','a']}",
     "layer 'dot_interaction' (dot_interaction) wants inputs of shape (4,) or "
     "(features, 4), got (3,) ('a')"},
    {"[129,2]", "{'type':'dot_interaction'}",
     "layer 'dot_interaction' (dot_interaction) wants at most 128 vectors, got "
     "129"},
    {"[2,3,4]", "{'type':'fm'}",
     "layer 'fm' (fm) wants inputs of shape (4,) or (features, 4), got (2, 3, "
     "4) ('input')"},
    {"[500000000]", "{'type':'fm','inputs':['input','input','input']}",
     "layer 'fm' (fm) has more than 1000000000 elements in all inputs"},
    {"[4]", "{'type':'cross','inputs':['input','input','input']}",
     "layer 'cross' (cross) reads x0 and x, or one layer for both; got 3 "
     "inputs"},
    {"[4]",
     "{'type':'dense','name':'a','units':3},"
     "{'type':'cross','inputs':['input','a']}",
     "layer 'cross' (cross) wants inputs of one shape, got (4,) and (3,) "
     "('a')"},
    {"[4]", "{'type':'cross','projection_dim':0}",
     "layer 'cross' (cross) wants 'projection_dim' of at least 1, got 0"},
    {"[4000,2]", "{'type':'cross','projection_dim':250001}",
     "layer 'cross' (cross) has more than 1000000000 elements between its "
     "kernels"},
    {"[4]", "{'type':'cross','diag_scale':-0.5}",
     "layer 'cross' (cross) wants a finite 'diag_scale' of at least 0, got "
     "-0.5"},
    {"[4]", "{'type':'cross','use_bias':false,'bias_initializer':'ones'}",
     "layer 'cross' (cross) has a 'bias_initializer' but no bias"},
    {"[4]", "{'type':'maximum','inputs':[" NINE_INPUTS "]}",
     "layer 'maximum' (maximum) reads at most 8 layers, got 9 inputs"},
    {"[4]",
     "{'type':'add','inputs':[" NINE_INPUTS "," NINE_INPUTS "," NINE_INPUTS
     ",'input','input','input','input','input','input']}",
     "layer 'add' (add) reads 33 layers; at most 32"},
    {"[64]", "{'type':'conv2d','filters':1,'kernel_size':3}",
     "layer 'conv2d' (conv2d) wants an input of shape (height, width, "
     "channels), got (64,)"},
    {"[4,4,1]", "{'type':'conv2d','filters':1,'kernel_size':[5,3]}",
     "layer 'conv2d' (conv2d) has a window of 5 x 3, larger than its input "
     "(4, 4, 1); use padding: same or a smaller kernel_size"},
    {"[4,4,1]", "{'type':'conv2d','filters':1,'kernel_size':[1,1,1]}",
     "layer 'conv2d' (conv2d) wants 1 or 2 values of 'kernel_size', got 3"},
    {"[4,4,1]", "{'type':'conv2d','filters':1,'kernel_size':3,'strides':0}",
     "layer 'conv2d' (conv2d) wants 'strides' of at least 1, got 0"},
    {"[4,4,1]",
     "{'type':'conv2d','filters':1,'kernel_size':3,"
     "'padding':'full'}",
     "layer 'conv2d' (conv2d) wants padding 'valid' or 'same', got 'full'"},
    {"[4,4,1]", "{'type':'conv2d','kernel_size':3}",
     "layer 'conv2d' (conv2d) needs 'filters' of at least 1"},
    {"[4,4,1]", "{'type':'conv2d','filters':3}",
     "layer 'conv2d' (conv2d) needs 'kernel_size'"},
    {"[4]", "{'type':'dropout','rate':1}",
     "layer 'dropout' (dropout) needs 'rate' in [0, 1)"},
    {"[4]", "{'type':'batch_normalization','momentum':1}",
     "layer 'batch_normalization' (batch_normalization) wants 'momentum' in "
     "[0, 1), got 1"},
    {"[4,4,2]", "{'type':'batch_normalization','axis':1}",
     "layer 'batch_normalization' (batch_normalization) works along the last "
     "axis (-1), got axis 1"},
    {"[4]", "{'type':'relu','alpha':0.1}",
     "layer 'relu' (relu) takes no 'alpha'"},
    {"[4]", "{'type':'activation','activation':'relu','alpha':0.1}",
     "layer 'activation' (activation) takes 'alpha' only for elu and "
     "leaky_relu"},
    {"[4]", "{'type':'activation'}",
     "layer 'activation' (activation) needs 'activation'"},
    {"[4]", "{'type':'add'}",
     "layer 'add' (add) reads at least two layers: name them in 'inputs'"},
    {"[4]", "{'type':'dense','units':1,'inputs':['input','input']}",
     "layer 'dense' (dense) reads one layer, got 2 inputs"},
    {"[4]",
     "{'type':'dense','name':'a','units':2},"
     "{'type':'add','name':'s','inputs':['a','input']}",
     "layer 's' (add) wants inputs of one shape, got (2,) and (4,) ('input')"},
    {"[4]",
     "{'type':'dense','name':'encoder','units':2},"
     "{'type':'relu','name':'r','inputs':'encode'}",
     "layer 'r' (relu) reads 'encode', which is no layer; did you mean "
     "'encoder'?"},
    {"[4]",
     "{'type':'relu','name':'r','inputs':'a'},"
     "{'type':'dense','name':'a','units':2,'inputs':'r'}",
     "layer 'r' (relu) reads 'a', which comes after it; list layers after "
     "those that they read (a cycle cannot be)"},
    {"[4]", "{'type':'relu','name':'r','inputs':'r'}",
     "layer 'r' (relu) reads itself"},
    {"[4]", "{'type':'dense','units':2,'name':'a','shares':'b'}",
     "layer 'a' (dense) shares 'b', which is no layer before it"},
    {"[4]", "{'type':'dense','name':'a','shares':'a'}",
     "layer 'a' (dense) shares 'a', which is no layer before it"},
    {"[4]", "{'type':'dense','name':'a','shares':'input'}",
     "layer 'a' (dense) shares 'input', which is no layer before it"},
    {"[4]",
     "{'type':'dense','name':'b','shares':'a'},"
     "{'type':'dense','name':'a','units':4}",
     "layer 'b' (dense) shares 'a', which is no layer before it"},
    {"[4]",
     "{'type':'dense','name':'a','units':4},"
     "{'type':'cross','name':'b','shares':'a'}",
     "layer 'b' (cross) shares 'a', which is of type dense"},
    {"[4]",
     "{'type':'dense','name':'a','units':4},"
     "{'type':'dense','name':'b','shares':'a','units':4}",
     "layer 'b' (dense) takes no 'units': it shares 'a', and has all keys of "
     "that"},
    {"[4]",
     "{'type':'dense','name':'a','units':4},"
     "{'type':'dense','name':'b','shares':'a','trainable':false}",
     "layer 'b' (dense) takes no 'trainable': it shares 'a', and has all keys "
     "of that"},
    {"[4]",
     "{'type':'dense','name':'a','units':4},"
     "{'type':'dense','name':'b','shares':'a'},"
     "{'type':'dense','name':'c','shares':'b'}",
     "layer 'c' (dense) shares 'b', which shares 'a' itself: name that"},
    {"[3,4]",
     "{'type':'dense','name':'a','units':5},"
     "{'type':'dense','name':'b','shares':'a'}",
     "layer 'b' (dense) wants inputs as 'a' has, the 'kernel' of which it "
     "shares: (3, 4), got (3, 5)"},
    {"[4]",
     "{'type':'embedding','name':'e','rows':'dynamic','ids':'u',"
     "'output_dim':2},"
     "{'type':'embedding','name':'f','shares':'e'}",
     "layer 'f' (embedding) shares 'e', which has rows of a table: those "
     "belong to one layer"},
    {"[4]",
     "{'type':'dense','units':2},{'type':'relu','name':'r'},"
     "{'type':'dense','units':2,'inputs':'dense'}",
     "layer 'r' (relu) leads nowhere: no layer reads it, and it is not the "
     "output"},
    {"[4]", "{'type':'relu','name':'a'},{'type':'relu','name':'a'}",
     "model.layers[1].name: 'a' is the name of layers[0] too"},
    {"[4]", "{'type':'relu','name':'input'}",
     "model.layers[0].name: 'input' means the sample; choose another name"},
    {"[4]", "{'type':'relu','name':'a b'}",
     "model.layers[0].name: wants 1 to 150 letters, digits or any of _-."},
    {"[4]", "{'type':'relu'}",
     "model.layers: nothing to train: no layer has weights, or all "
     "have trainable: false"},
    {"[]", "{'type':'relu'}",
     "model.input_shape: wants the 1 to 4 axes of one sample, e.g. [28, 28, "
     "1], got 0"},
    {"[0]", "{'type':'relu'}",
     "model.input_shape: each axis must be at least 1, and all together at "
     "most 1000000000 elements"},
    {"[4294967295,4294967295,4294967295]", "{'type':'relu'}",
     "model.input_shape: each axis must be at least 1, and all together at "
     "most 1000000000 elements"},
    {"[1000000]", "{'type':'dense','units':1001}",
     "variable 'dense/kernel' is too large: at most 1000000000 elements, and "
     "1099511627776 in the whole model"},
    {"[20000,20000,1]", "{'type':'conv2d','filters':3,'kernel_size':1}",
     "layer 'conv2d' (conv2d) has an output of more than 1000000000 elements"},
    {"[4]", "", "model.layers: wants 1 to 10000 layers, got 0"},
};

static void refused(const char *text, const char *why)
{
    ProtobufCMessage *spec = t_make(&sluice__v1__model_spec__descriptor, text);
    struct sl_error err = SL_ERROR_INIT;
    struct model *m = NULL;

    T_FAILS(SL_EINVAL, model_make(&m, (Sluice__V1__ModelSpec *)spec, &err));
    T_STR(err.text, why);
    T_PTR(m, NULL);
    wire_free(spec);
}

// As refused, with a message that may end with KNOWN_LAYERS or KNOWN_ACTS.
static void refused_knowing(const char *text, const char *why)
{
    struct buf known = BUF_INIT;

    if (strstr(why, KNOWN_LAYERS) != NULL)
        spell_known(&known, why, layers, SL_COUNT(layers));
    else if (strstr(why, KNOWN_ACTS) != NULL)
        spell_known(&known, why, acts, SL_COUNT(acts));
    refused(text, known.len > 0 ? buf_text(&known) : why);
    buf_release(&known);
}

TEST(model_error, says_layer_got_and_wanted)
{
    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        char text[600];

        snprintf(text, sizeof(text), "{'input_shape':%s,'layers':[%s]}",
                 wrong[i].shape, wrong[i].layers);
        refused_knowing(text, wrong[i].why);
    }
}

TEST(model_error, the_rest_of_the_model)
{
    refused("{'type':'grpah'}",
            "model.type: wants 'graph' or 'external', got 'grpah'");
    refused("{'input_shape':[4],'output':'x','layers':[{'type':'dense',"
            "'units':1}]}",
            "model.output: there is no layer 'x'");
    refused("{'input_shape':[4],'variables':[{'name':'a'}],'layers':[{'type':"
            "'dense','units':1}]}",
            "model.variables: only an external model (type: external) lists "
            "variables");
    refused("{'type':'external'}", "model.variables: an external model needs "
                                   "at least one variable, or one of "
                                   "model.tables");
    refused("{'type':'external','layers':[{}]}",
            "model: an external model lists variables; it has no layers and no "
            "output");
    refused("{'type':'external','variables':[{'name':'a'},{'name':'a'}]}",
            "model.variables[1].name: 'a' appears twice");
    refused("{'type':'external','variables':[{'name':'a#m'}]}",
            "model.variables[0].name: wants 1 to 200 letters, digits or any of "
            "_-./:");
    refused("{'type':'external','variables':[{'name':'a','shape':[2,0]}]}",
            "model.variables[0]: each axis must be at least 1, and all "
            "together at most 1000000000 elements");
}

// Any spec at all is refused or made, never more.
TEST(model_error, survives_random_specs)
{
    for (unsigned i = 0; i < 3000; i++) {
        Sluice__V1__ModelSpec *spec =
            (void *)t_random_message(&sluice__v1__model_spec__descriptor);
        struct model *m = NULL;

        sl_free(spec->type);
        spec->type = NULL;
        for (size_t l = 0; l < spec->n_layers; l++) {
            Sluice__V1__LayerSpec *layer = spec->layers[l];

            sl_free(layer->type);
            layer->type = sl_strdup(layers[t_below(SL_COUNT(layers))]);
        }
        (void)model_make(&m, spec, NULL);
        model_free(m);
        wire_free(&spec->base);
    }
}
