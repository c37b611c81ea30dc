// SPDX-License-Identifier: Apache-2.0
// tests/emul/cut_test.c -- how our kernels' work is cut. A GPU has above a
// hundred multiprocessors, and several blocks on each; what is cut alike has
// equal bits.
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/desc.h"
#include "tests/emul/backend.h"
#include "tests/emul/emul.h"
#include "tests/emul/typed.h"
#include "tests/harness/t.h"

#define OUTPUTS 4096

// The output of an op on ones, and how many blocks the kernel of that name had.
static uint64_t blocks_of(const struct kern_desc *d, const char *kernel,
                          float out[OUTPUTS])
{
    const struct kern_shape *x = &d->io[0], *y = &d->io[d->inputs];
    int64_t n = kern_shape_extent(x);
    size_t in_bytes = (size_t)n * kern_dtype_bytes((enum kern_dtype)x->dtype);
    struct kern_mem mem[2], workspace;
    struct kern_stream *s = NULL;
    struct kern_plan *plan = NULL;
    struct kern_dev *dev = NULL;
    float *ones = malloc((size_t)n * sizeof(float));
    static uint16_t half[OUTPUTS];
    size_t bytes;
    uint64_t blocks = 0;

    T_TRUE(ones != NULL);
    T_OK(cuda_emul.open(&dev, 0, NULL, t_err()));
    T_OK(cuda_stream_new(&s, dev, 0));
    T_OK(kern_plan_new(&plan, &bytes, dev, d, SIZE_MAX, t_err()));
    T_OK(cuda_alloc(&mem[0], dev, in_bytes, KERN_DEVICE));
    T_OK(cuda_alloc(&mem[1], dev, kern_shape_bytes(y), KERN_DEVICE));
    T_OK(cuda_alloc(&workspace, dev, bytes, KERN_DEVICE));
    for (int64_t i = 0; i < n; i++)
        typed_put((enum kern_dtype)x->dtype, ones, i, 1);
    T_OK(cuda_copy(s, mem[0].at, ones, in_bytes, KERN_TO_DEVICE));
    T_OK(kern_run(plan, s, (void *[]){mem[0].at, mem[1].at}, workspace.at));
    n = kern_shape_count(y);
    T_LE(n, OUTPUTS);
    T_OK(cuda_copy(s, y->dtype == KERN_F32 ? (void *)out : (void *)half,
                   mem[1].at, kern_shape_bytes(y), KERN_TO_HOST));
    for (int64_t i = 0; i < n && y->dtype != KERN_F32; i++)
        out[i] = typed_get((enum kern_dtype)y->dtype, half, i);
    for (struct emul_kernel *k = emul_table; k->name; k++)
        if (strcmp(k->name, kernel) == 0)
            blocks = k->blocks;
    kern_plan_free(plan);
    cuda_release(dev, &workspace);
    cuda_release(dev, &mem[0]);
    cuda_release(dev, &mem[1]);
    cuda_stream_free(s);
    cuda_close(dev);
    free(ones);
    return blocks;
}

// imagenette's last pool, at its smallest batch: an output per thread would be
// 4 blocks, each walking 1024 pixels.
TEST(cut, the_mean_of_images_fills_the_device)
{
    static float out[OUTPUTS];
    struct kern_window w = kern_window(32, 32, 1, 1);
    struct kern_desc d;

    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG,
                   (int64_t[]){32, 32, 32, 128}, &w, 0);
    T_GE(blocks_of(&d, "pool_all_fwd_f32", out), 264); // two each
    for (int i = 0; i < 32 * 128; i++)
        T_TRUE(out[i] == 1);
    kern_desc_dtype(&d, KERN_F16);
    T_GE(blocks_of(&d, "pool_all_fwd_f16", out), 264);
    for (int i = 0; i < 32 * 128; i++)
        T_TRUE(out[i] == 1);
}

// A thread of a view has 16 bytes where rows allow it, else one element.
TEST(cut, views_move_packs)
{
    static float out[OUTPUTS];
    struct kern_shape x = kern_shape(KERN_F32, 2, (int64_t[]){64, 64});
    struct kern_shape y = x;
    struct kern_desc d;

    x.stride[0] = 72;
    kern_desc_axpby(&d, &x, &y, 2, 0);
    T_EQ(blocks_of(&d, "view_from_f32_to_f32", out), 64 * 64 / 4 / 256);
    T_TRUE(out[0] == 2 && out[64 * 64 - 1] == 2);
    x.stride[0] = 65;
    kern_desc_axpby(&d, &x, &y, 2, 0);
    T_EQ(blocks_of(&d, "view_from_f32_to_f32", out), 64 * 64 / 256);
    T_TRUE(out[0] == 2 && out[64 * 64 - 1] == 2);
}

#define ROWS 333
#define COLS 40
#define CELLS (ROWS * COLS)

struct bench {
    struct kern_dev *dev;
    struct kern_stream *s;
    struct kern_mem mem[10];
    void *io[10];
};

// Numbers into all that `d` reads; memory for all.
static void prepare(struct bench *b, const struct kern_desc *d)
{
    static float host[CELLS];

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        const struct kern_shape *s = &d->io[i];
        size_t bytes = kern_shape_bytes(s);

        for (int64_t k = 0; k < kern_shape_count(s); k++)
            typed_put((enum kern_dtype)s->dtype, host, k,
                      (float)((k * 37 + i * 11) % 101) / 50 - (i != 4));
        T_OK(cuda_alloc(&b->mem[i], b->dev, bytes, KERN_DEVICE));
        b->io[i] = b->mem[i].at;
        T_OK(cuda_copy(b->s, b->io[i], host, bytes, KERN_TO_DEVICE));
    }
}

static void run(struct bench *b, const struct kern_desc *d, void *const *io)
{
    struct kern_plan *plan = NULL;
    struct kern_mem workspace;
    size_t bytes;

    T_OK(kern_plan_new(&plan, &bytes, b->dev, d, SIZE_MAX, t_err()));
    T_OK(cuda_alloc(&workspace, b->dev, bytes, KERN_DEVICE));
    T_OK(kern_run(plan, b->s, io, workspace.at));
    kern_plan_free(plan);
    cuda_release(b->dev, &workspace);
}

// The sum that comes with batch norm's dx is that of a pass of its own over
// it, bit for bit: whoever asks for one or the other trains the same.
TEST(cut, the_sum_beside_dx_has_the_bits_of_its_own_pass)
{
    static const enum kern_dtype types[] = {KERN_F32, KERN_F16, KERN_BF16};
    const int64_t dim[] = {ROWS, COLS};
    float beside[COLS], alone[COLS];

    for (unsigned t = 0; t < SL_COUNT(types); t++) {
        struct bench b = {.dev = NULL};
        struct kern_desc norm, sum;

        kern_desc_norm(&norm, KERN_BN_BWD, 2, dim, 1e-3f,
                       KERN_DRELU | KERN_BGRAD);
        kern_desc_reduce(&sum, 2, dim, 0);
        kern_desc_dtype(&norm, types[t]);
        kern_desc_dtype(&sum, types[t]);
        T_OK(cuda_emul.open(&b.dev, 0, NULL, t_err()));
        T_OK(cuda_stream_new(&b.s, b.dev, 0));
        prepare(&b, &norm);
        run(&b, &norm, b.io);
        T_OK(cuda_copy(b.s, beside, b.io[8], sizeof(beside), KERN_TO_HOST));
        run(&b, &sum, (void *[]){b.io[5], b.io[8]});
        T_OK(cuda_copy(b.s, alone, b.io[8], sizeof(alone), KERN_TO_HOST));
        T_MEM(beside, alone, sizeof(beside));
        for (unsigned i = 0; i < 9; i++)
            cuda_release(b.dev, &b.mem[i]);
        cuda_stream_free(b.s);
        cuda_close(b.dev);
    }
}
