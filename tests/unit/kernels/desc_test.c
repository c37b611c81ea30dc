// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/desc_test.c -- descriptors: shapes, padding, refusals.
#include "kernels/desc.h"
#include "tests/harness/t.h"
#include "tests/unit/kernels/window_same.h"

static struct sl_error err; // of calls whose text is looked at

TEST(desc, same_padding_is_tensorflows)
{
    // Odd elements go behind: imagenette's three layers.
    static const struct {
        int32_t size, before, after;
        int64_t in, out;
    } layer[] = {{5, 1, 2, 256, 128}, {7, 2, 3, 128, 64}, {11, 4, 5, 64, 32}};

    for (unsigned i = 0; i < SL_COUNT(layer); i++) {
        struct kern_window w = kern_window(layer[i].size, layer[i].size, 2, 2);

        window_same(&w, 0, layer[i].in);
        T_EQ(w.pad_before[0], layer[i].before);
        T_EQ(w.pad_after[0], layer[i].after);
        T_EQ(kern_window_out(&w, 0, layer[i].in), layer[i].out);
    }
}

TEST(desc, same_padding_gives_the_ceiling)
{
    for (int32_t size = 1; size < 6; size++)
        for (int32_t stride = 1; stride < 4; stride++)
            for (int64_t in = 1; in < 20; in++) {
                struct kern_window w = kern_window(size, 1, stride, 1);

                window_same(&w, 0, in);
                T_EQ(kern_window_out(&w, 0, in), (in + stride - 1) / stride);
            }
}

TEST(desc, a_window_too_large_says_so)
{
    struct kern_window w = kern_window(5, 5, 1, 1);
    struct kern_desc d;

    kern_desc_conv(&d, KERN_CONV_FWD, (int64_t[]){1, 3, 3, 2}, 4, &w, 1, 0);
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
    T_HAS(err.text, "window 5x5 does not fit the padded input 3x3");
}

TEST(desc, shapes_have_to_fit_together)
{
    struct kern_desc d;

    kern_desc_matmul(&d, 3, 4, 5, false, true, KERN_BIAS);
    T_OK(kern_desc_check(&d, t_err()));
    d.io[1].dim[1] = 6;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
    T_HAS(err.text, "matmul");
}

TEST(desc, an_epilogue_must_be_the_ops)
{
    struct kern_desc d;

    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){2, 3});
    d.epilogue = KERN_RELU;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, NULL));
}

TEST(desc, groups_must_divide)
{
    struct kern_window w = kern_window(1, 1, 1, 1);
    struct kern_desc d;

    kern_desc_conv(&d, KERN_CONV_FWD, (int64_t[]){1, 3, 3, 6}, 4, &w, 4, 0);
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
    T_HAS(err.text, "groups");
}

TEST(desc, sizes_that_overflow_are_refused)
{
    struct kern_desc d;
    const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};

    kern_desc_unary(&d, KERN_UNARY_FWD, KERN_UNARY_TANH, 0, 2, huge);
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
    T_HAS(err.text, "large");
}

TEST(desc, too_many_axes_are_refused_and_not_read)
{
    int64_t x[300];
    const unsigned wrong[] = {0, KERN_DIMS + 1, 255, 256, 256 + 2};

    for (unsigned i = 0; i < SL_COUNT(x); i++)
        x[i] = 2;
    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        struct kern_desc d[6];
        unsigned nd = wrong[i];

        kern_desc_norm(&d[0], KERN_BN_FWD, nd, x, 1e-3f, 0);
        kern_desc_ln(&d[1], KERN_LN_FWD, nd, x, 1e-3f);
        kern_desc_reduce(&d[2], nd, x, 0);
        kern_desc_unary(&d[3], KERN_UNARY_FWD, KERN_UNARY_TANH, 0, nd, x);
        kern_desc_image_u8(&d[4], nd, x, 1, 0);
        kern_desc_image_pad(&d[4], 8);
        kern_desc_mse(&d[5], nd, x, 0);
        for (unsigned k = 0; k < SL_COUNT(d); k++) {
            T_EQ(kern_shape_count(&d[k].io[0]), 1);
            T_EQ(kern_rows(&d[k].io[0]), 1);
            T_FAILS(SL_EINVAL, kern_desc_check(&d[k], &err));
            T_HAS(err.text, "not 1 to 6 dimensions");
        }
    }
}

// Bytes that are not a descriptor at all must be refused, not read beyond.
TEST(desc, random_bytes_are_refused_or_right)
{
    struct kern_desc d;

    for (unsigned i = 0; i < 20000; i++) {
        uint8_t *at = (uint8_t *)&d;

        kern_desc_conv(&d, KERN_CONV_WGRAD, (int64_t[]){2, 5, 5, 3}, 4,
                       &(struct kern_window){.size = {3, 3},
                                             .stride = {1, 1},
                                             .dilation = {1, 1}},
                       1, KERN_BGRAD);
        for (unsigned k = 0; k <= t_below(4); k++)
            at[t_below(sizeof(d))] = (uint8_t)t_rand();
        if (i % 2)
            d.op = (uint32_t)t_below(KERN_OP_COUNT + 2);
        d.size = sizeof(d);
        (void)kern_desc_check(&d, NULL);
    }
}

TEST(desc, equal_descriptors_hash_alike)
{
    struct kern_desc a, b;

    kern_desc_matmul(&a, 3, 4, 5, false, true, 0);
    kern_desc_matmul(&b, 3, 4, 5, false, true, 0);
    T_TRUE(kern_desc_equal(&a, &b));
    T_EQ(kern_desc_hash(&a), kern_desc_hash(&b));
    kern_desc_matmul(&b, 3, 4, 6, false, true, 0);
    T_FALSE(kern_desc_equal(&a, &b));
    T_NE(kern_desc_hash(&a), kern_desc_hash(&b));
}

TEST(desc, every_op_has_a_name_of_its_own)
{
    for (unsigned op = 1; op < KERN_OP_COUNT; op++)
        for (unsigned other = 0; other < op; other++)
            T_TRUE(strcmp(kern_op_name((enum kern_op)op),
                          kern_op_name((enum kern_op)other)) != 0);
    T_STR(kern_op_name(KERN_OP_NONE), "?");
    T_STR(kern_op_name(KERN_OP_COUNT), "?");
}

// ---- Mixed precision ------------------------------------------------------

TEST(desc, mixed_precision_keeps_sums_and_parameters_in_f32)
{
    struct kern_window w = kern_window(2, 2, 2, 2);
    struct kern_desc d;

    kern_desc_norm(&d, KERN_BN_BWD, 2, (int64_t[]){4, 3}, 1e-3f, KERN_BGRAD);
    kern_desc_dtype(&d, KERN_BF16);
    T_OK(kern_desc_check(&d, t_err()));
    T_EQ(d.inputs + d.outputs, 9);
    for (unsigned i = 0; i < 9; i++)
        T_EQ(d.io[i].dtype, i < 2 || i == 5 ? KERN_BF16 : KERN_F32);

    kern_desc_pool(&d, KERN_POOL_BWD, KERN_POOL_MAX, (int64_t[]){1, 4, 4, 2},
                   &w, KERN_BGRAD);
    kern_desc_dtype(&d, KERN_F16);
    T_OK(kern_desc_check(&d, t_err()));
    T_EQ(d.io[0].dtype, KERN_F16);
    T_EQ(d.io[1].dtype, KERN_U8);
    T_EQ(d.io[2].dtype, KERN_F16);
    T_EQ(d.io[3].dtype, KERN_F32);

    kern_desc_xent(&d, 4, 3, false, 0);
    kern_desc_dtype(&d, KERN_F16);
    T_OK(kern_desc_check(&d, t_err()));
    T_EQ(d.io[1].dtype, KERN_F32);
    T_EQ(d.io[3].dtype, KERN_F16);
    T_EQ(d.io[4].dtype, KERN_F64);
}

TEST(desc, products_may_give_f32_from_16_bits_and_do_where_they_add)
{
    struct kern_desc d;

    kern_desc_matmul(&d, 3, 4, 5, true, false, KERN_BGRAD);
    kern_desc_dtype(&d, KERN_BF16);
    T_EQ(d.io[2].dtype, KERN_BF16);
    T_EQ(d.io[3].dtype, KERN_F32);
    T_OK(kern_desc_check(&d, t_err()));
    d.io[2].dtype = KERN_F32;
    T_OK(kern_desc_check(&d, t_err()));
    d.io[2].dtype = KERN_F16;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, NULL));

    kern_desc_matmul(&d, 3, 4, 5, true, false, KERN_ACCUM);
    kern_desc_dtype(&d, KERN_BF16);
    T_EQ(d.io[2].dtype, KERN_F32);
    T_OK(kern_desc_check(&d, t_err()));
    d.io[2].dtype = KERN_BF16;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, NULL));
}

TEST(desc, dtypes_that_do_not_go_together_are_refused)
{
    struct kern_shape x = kern_shape(KERN_F16, 1, (int64_t[]){7});
    struct kern_shape y = kern_shape(KERN_BF16, 1, (int64_t[]){7});
    struct kern_desc d;

    kern_desc_axpby(&d, &x, &y, 1, 0); // the cast
    T_OK(kern_desc_check(&d, t_err()));

    kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){2, 3});
    d.io[1].dtype = KERN_F16;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
    T_HAS(err.text, "dtypes");
    kern_desc_norm(&d, KERN_BN_FWD, 2, (int64_t[]){4, 3}, 1e-3f, 0);
    d.io[1].dtype = KERN_F16; // gamma
    T_FAILS(SL_EINVAL, kern_desc_check(&d, NULL));
}

TEST(desc, an_image_may_be_padded_but_not_cut)
{
    struct kern_desc d;

    kern_desc_image_u8(&d, 4, (int64_t[]){2, 5, 5, 3}, 1, 0);
    kern_desc_image_pad(&d, 8);
    kern_desc_dtype(&d, KERN_F16);
    T_OK(kern_desc_check(&d, t_err()));
    T_EQ(d.io[1].stride[2], 8);
    T_FALSE(kern_desc_plain(&d));
    kern_desc_image_pad(&d, 2);
    T_FAILS(SL_EINVAL, kern_desc_check(&d, NULL));
}
