// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_dnn.c -- calls of cuDNN with a mistake (planted_calls.h).
#include <cudnn_graph.h>
#include <string.h>

#include "tests/emul/planted_calls.h"

cudnnStatus_t __real_cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t n, const void *from);
cudnnStatus_t __wrap_cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t n, const void *from);
cudnnStatus_t __real_cudnnBackendFinalize(cudnnBackendDescriptor_t d);
cudnnStatus_t __wrap_cudnnBackendFinalize(cudnnBackendDescriptor_t d);

// One attribute as it is to be set; what it says may be replaced.
struct said {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n, at[4];
    union {
        int64_t whole[4];
        int word;
        bool flag;
    } other;
    const void *from;
};

static void say(struct said *s, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t all[4] = {a, b, c, d};

    memcpy(s->other.whole, all, sizeof(all));
    s->from = s->other.whole;
}

static void say_word(struct said *s, int word)
{
    s->other.word = word;
    s->from = &s->other.word;
}

static int64_t depth; // channels of the tensor that is being described

static void alignment(struct said *s)
{
    if (PLANTED(dnn_align_of_nothing))
        say(s, 0, 0, 0, 0);
    if (PLANTED(dnn_align_of_256))
        say(s, 256, 0, 0, 0);
    if (PLANTED(dnn_align_of_an_element))
        say(s, 4, 0, 0, 0);
}

// A tensor: n, c, h, w.
static void tensor(struct said *s)
{
    const int64_t *at = s->at;
    bool dims = s->name == CUDNN_ATTR_TENSOR_DIMENSIONS;
    bool strides = s->name == CUDNN_ATTR_TENSOR_STRIDES;

    if (dims)
        depth = at[1];
    if (PLANTED(dnn_dims_in_our_order) && dims)
        say(s, at[0], at[2], at[3], at[1]);
    if (PLANTED(dnn_bias_along_the_batch) && dims && at[0] == 1 && at[2] == 1)
        say(s, at[1], 1, 1, 1);
    if (PLANTED(dnn_stride_of_nothing) && strides)
        say(s, at[0], 0, at[2], at[3]);
    if (PLANTED(dnn_rows_overlap) && strides && at[2] > depth)
        say(s, at[0], at[1], at[2] - depth, at[3]);
    if (PLANTED(dnn_no_strides) && strides)
        s->n = -1;
    if (PLANTED(dnn_uid_twice) && s->name == CUDNN_ATTR_TENSOR_UNIQUE_ID)
        say(s, 1, 0, 0, 0);
    if (PLANTED(dnn_strides_of_nchw) && strides)
        say(s, at[0], at[0] / depth, at[2] / depth, 1);
    if (PLANTED(dnn_sum_not_inside) &&
        s->name == CUDNN_ATTR_TENSOR_IS_VIRTUAL) {
        s->other.flag = false;
        s->from = &s->other.flag;
    }
    if (s->name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
        alignment(s);
}

static int tensors; // described since the last graph

static void type_of(struct said *s)
{
    int word;

    memcpy(&word, s->from, sizeof(word));
    if (++tensors == 3 && PLANTED(dnn_output_of_another_type))
        say_word(s, word == CUDNN_DATA_FLOAT ? CUDNN_DATA_BFLOAT16
                                             : CUDNN_DATA_FLOAT);
}

static void axes(struct said *s)
{
    static int64_t before[2], dilation[2];

    if (s->name == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) {
        memcpy(before, s->from, sizeof(before));
        if (PLANTED(dnn_pads_swapped)) // SAME has one more behind
            say(s, before[0] + 1, before[1] + 1, 0, 0);
    }
    if (s->name == CUDNN_ATTR_CONVOLUTION_DILATIONS)
        memcpy(dilation, s->from, sizeof(dilation));
    if (s->name == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) {
        if (PLANTED(dnn_no_pad_behind))
            say(s, 0, 0, 0, 0);
        if (PLANTED(dnn_pads_swapped))
            say(s, before[0], before[1], 0, 0);
    }
    if (PLANTED(dnn_dilation_for_stride) &&
        s->name == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
        say(s, dilation[0], dilation[1], 0, 0);
    if (PLANTED(dnn_three_axes) &&
        s->name == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
        say(s, 3, 0, 0, 0);
}

static void operation(struct said *s)
{
    if (PLANTED(dnn_sums_of_16_bits) &&
        s->name == CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
        say_word(s, CUDNN_DATA_BFLOAT16);
    if (PLANTED(dnn_alpha_as_whole_number) &&
        (s->name == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA ||
         s->name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA ||
         s->name == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)) {
        s->type = CUDNN_TYPE_INT64;
        say(s, 1, 0, 0, 0);
    }
    if (PLANTED(dnn_add_of_one) &&
        s->name == CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
        s->n = -1;
}

// What a run is given.
static void pack(struct said *s)
{
    static _Alignas(256) char host[4096];
    static void *at[8];
    bool addresses = s->name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;

    if (PLANTED(dnn_uid_left_out) &&
        (addresses || s->name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS))
        s->n--;
    if (PLANTED(dnn_address_of_the_host) && addresses) {
        memcpy(at, s->from, (size_t)s->n * sizeof(*at));
        at[1] = host;
        s->from = at;
    }
    if (PLANTED(dnn_no_workspace) &&
        s->name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
        at[0] = NULL;
        s->from = at;
    }
}

cudnnStatus_t __wrap_cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t n, const void *from)
{
    struct said s = {.name = name, .type = type, .n = n, .from = from};

    if (type == CUDNN_TYPE_INT64 && n <= 4)
        memcpy(s.at, from, (size_t)n * sizeof(int64_t));
    if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS)
        tensors = 0;
    if (name == CUDNN_ATTR_TENSOR_DATA_TYPE)
        type_of(&s);
    tensor(&s);
    axes(&s);
    operation(&s);
    pack(&s);
    if (s.n < 0) // left out
        return CUDNN_STATUS_SUCCESS;
    return __real_cudnnBackendSetAttribute(d, name, s.type, s.n, s.from);
}

cudnnStatus_t __wrap_cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    if (PLANTED(dnn_part_unsealed) && planted_first())
        return CUDNN_STATUS_SUCCESS;
    return __real_cudnnBackendFinalize(d);
}
