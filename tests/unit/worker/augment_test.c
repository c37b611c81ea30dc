// SPDX-License-Identifier: Apache-2.0
// Changes of images, against values that Keras 3.15 computes with the same
// amounts, and what a batch is made of.
#include "tests/harness/t.h"

#include "worker/data/input.h"

#define ROWS 4
#define COLUMNS 5
#define CHANNELS 2
#define PIXELS ((size_t)ROWS * COLUMNS)
#define VALUES (PIXELS * CHANNELS)

// Pixels of layers.RandomRotation((20/360, 20/360)) and so on of the image that
// image_f32 makes; fill_mode and value_range as they are by default.
static const struct {
    enum augment_kind kind;
    double amount;
    float want[VALUES];
} golden[] = {
    {AUGMENT_ROTATE,
     20,
     {57.8897f, 94.8897f, 127.427f, 164.427f, 185.023f, 104.902f, 144.925f,
      103.967f, 148.166f, 185.166f, 73.7677f, 110.768f, 144.052f, 181.052f,
      43.243f,  78.9487f, 143.139f, 97.0651f, 80.7264f, 117.726f, 164.011f,
      129.274f, 130.38f,  149.935f, 131.051f, 168.051f, 161.716f, 65.9481f,
      124.567f, 136.232f, 219.234f, 61.8343f, 155.178f, 143.033f, 105.098f,
      142.098f, 45.573f,  82.573f,  115.11f,  152.11f}},
    {AUGMENT_ROTATE,
     -130,
     {24.1016f, 61.1016f, 103.611f, 140.611f, 136.255f, 153.207f, 192.007f,
      90.2487f, 121.919f, 158.919f, 80.7889f, 117.789f, 87.6808f, 97.7813f,
      113.573f, 150.573f, 195.143f, 231.784f, 69.951f,  106.951f, 127.114f,
      140.049f, 209.204f, 15.2161f, 76.5978f, 96.4268f, 112.219f, 149.219f,
      92.2111f, 129.211f, 51.081f,  88.081f,  135.522f, 156.751f, 155.935f,
      93.7934f, 196.465f, 106.389f, 148.898f, 185.898f}},
    {AUGMENT_ZOOM,
     0.3,
     {11,       48,      62.8f,    99.8f,   159,     196,     179.9f,   41.2f,
      56,       93,      112.15f,  149.15f, 163.95f, 200.95f, 46.8f,    83.8f,
      131.705f, 142.35f, 157.15f,  194.15f, 229.2f,  52.85f,  131.655f, 104.65f,
      126.2f,   163.2f,  158.395f, 46.05f,  60.85f,  97.85f,  117,      154,
      168.8f,   205.8f,  14,       51,      110.2f,  147.2f,  162,      199}},
    {AUGMENT_ZOOM,
     -0.3,
     {108.95f, 145.95f,  126.865f, 163.865f, 99.6f,    136.6f,   151.4f,
      91.765f, 147.98f,  102.15f,  169.66f,  191.6f,   142.395f, 179.395f,
      44.85f,  81.85f,   96.65f,   107.295f, 133.39f,  147.8f,   147.54f,
      99.2f,   102.705f, 139.705f, 128.15f,  165.15f,  179.95f,  67.605f,
      146.41f, 55.4f,    153.03f,  144.85f,  118.235f, 155.235f, 73.4f,
      110.4f,  125.2f,   83.135f,  131.82f,  101.05f}},
    {AUGMENT_TRANSLATE,
     -0.25,
     {159.75f, 196.75f, 45.5f,  82.5f,  119.5f,  156.5f,  175,     212,
      156.5f,  193.5f,  90.5f,  127.5f, 164.5f,  138.75f, 175.75f, 24.5f,
      43,      80,      87.25f, 61.5f,  146.75f, 183.75f, 32.5f,   69.5f,
      106.5f,  143.5f,  162,    199,    143.5f,  180.5f,  146.75f, 183.75f,
      32.5f,   69.5f,   106.5f, 143.5f, 162,     199,     143.5f,  180.5f}},
    {AUGMENT_BRIGHTNESS,
     0.3,
     {87.5f,  124.5f, 161.5f, 198.5f, 235.5f, 255,    255,    95.5f,
      132.5f, 169.5f, 206.5f, 243.5f, 255,    255,    103.5f, 140.5f,
      177.5f, 214.5f, 251.5f, 255,    255,    111.5f, 148.5f, 185.5f,
      222.5f, 255,    255,    82.5f,  119.5f, 156.5f, 193.5f, 230.5f,
      255,    255,    90.5f,  127.5f, 164.5f, 201.5f, 238.5f, 255}},
    {AUGMENT_CONTRAST,
     0.5,
     {0,      10.25f,  65.425f,  121.25f,  176.425f, 232.25f,  255,
      0,      21.925f, 77.75f,   132.925f, 188.75f,  243.925f, 255,
      0,      34.25f,  89.425f,  145.25f,  200.425f, 255,      255,
      0,      45.925f, 101.75f,  156.925f, 212.75f,  255,      0,
      2.425f, 58.25f,  113.425f, 169.25f,  224.425f, 255,      0,
      14.75f, 69.925f, 125.75f,  180.925f, 236.75f}},
};

static void image_f32(float *x)
{
    for (size_t i = 0; i < VALUES; i++)
        x[i] = (float)((i * 37 + 11) % 251);
}

static void image_u8(uint8_t *x)
{
    for (size_t i = 0; i < VALUES; i++)
        x[i] = (uint8_t)((i * 37 + 11) % 251);
}

static struct augment plan_of(bool u8)
{
    return (struct augment){.seed = 5,
                            .rows = ROWS,
                            .columns = COLUMNS,
                            .channels = CHANNELS,
                            .u8 = u8};
}

static struct augment one(bool u8, enum augment_kind kind, double low,
                          double high)
{
    struct augment a = plan_of(u8);

    augment_add(&a, &(struct augment_change){.kind = kind,
                                             .low = low,
                                             .high = high,
                                             .rows = true,
                                             .columns = true,
                                             .range = {0, 255}});
    return a;
}

TEST(augment, values_are_those_of_keras)
{
    for (size_t i = 0; i < SL_COUNT(golden); i++) {
        double amount = golden[i].amount;
        struct augment a = one(false, golden[i].kind, amount, amount);
        float x[VALUES], scratch[VALUES];

        image_f32(x);
        augment_apply(&a, 3, 7, x, scratch);
        for (size_t k = 0; k < VALUES; k++)
            T_NEAR((double)x[k], (double)golden[i].want[k], 1e-3);
    }
}

TEST(augment, bytes_are_rounded)
{
    for (size_t i = 0; i < SL_COUNT(golden); i++) {
        double amount = golden[i].amount;
        struct augment a = one(true, golden[i].kind, amount, amount);
        uint8_t x[VALUES], scratch[VALUES];

        image_u8(x);
        augment_apply(&a, 3, 7, x, scratch);
        for (size_t k = 0; k < VALUES; k++)
            T_NEAR((double)x[k], (double)golden[i].want[k], 0.501);
    }
}

// Returns the shift, as an index, by which `x` is the image over black; fails
// if it is none.
static unsigned shift_of(const uint8_t *x, int most)
{
    uint8_t image[VALUES];
    int span = 2 * most + 1;

    image_u8(image);
    for (int s = 0; s < span * span; s++) {
        int down = s / span - most, right = s % span - most, same = 0;

        for (int i = 0; i < (int)VALUES; i++) {
            int row = i / (COLUMNS * CHANNELS) - down;
            int column = i / CHANNELS % COLUMNS - right;
            bool in = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;

            same +=
                x[i] ==
                (in ? image[(row * COLUMNS + column) * CHANNELS + i % CHANNELS]
                    : 0);
        }
        if (same == (int)VALUES)
            return (unsigned)s;
    }
    T_TRUE(!"no shift of the image");
    return 0;
}

TEST(augment, a_crop_moves_by_whole_pixels_each_way_as_often)
{
    struct augment a = one(true, AUGMENT_CROP, -2, 2);
    unsigned seen[25] = {0};

    for (uint64_t sample = 0; sample < 2500; sample++) {
        uint8_t x[VALUES], scratch[VALUES];

        image_u8(x);
        augment_apply(&a, 0, sample, x, scratch);
        seen[shift_of(x, 2)]++;
    }
    for (unsigned i = 0; i < 25; i++)
        T_TRUE(seen[i] > 60 && seen[i] < 150);
}

TEST(augment, flips_are_drawn_one_by_one)
{
    struct augment a = one(false, AUGMENT_FLIP, 0, 0);
    unsigned seen[4] = {0};

    for (uint64_t sample = 0; sample < 2000; sample++) {
        float x[VALUES], scratch[VALUES], image[VALUES];
        unsigned kind = 0;

        image_f32(image);
        image_f32(x);
        augment_apply(&a, 1, sample, x, scratch);
        // The first pixel is one of the corners.
        while (x[0] != image[(kind & 1 ? COLUMNS - 1 : 0) * CHANNELS +
                             (kind & 2 ? (ROWS - 1) * COLUMNS * CHANNELS : 0)])
            kind++;
        T_LE(kind, 3);
        for (size_t i = 0; i < PIXELS; i++) {
            size_t row = i / COLUMNS, column = i % COLUMNS;

            row = kind & 2 ? ROWS - 1 - row : row;
            column = kind & 1 ? COLUMNS - 1 - column : column;
            T_EQ(memcmp(&x[i * CHANNELS],
                        &image[(row * COLUMNS + column) * CHANNELS],
                        CHANNELS * sizeof(float)),
                 0);
        }
        seen[kind]++;
    }
    for (unsigned i = 0; i < 4; i++)
        T_TRUE(seen[i] > 400 && seen[i] < 600);
}

TEST(augment, is_a_function_of_seed_epoch_and_sample)
{
    static const uint64_t keys[][3] = {
        {5, 0, 0}, {5, 0, 1}, {5, 1, 0}, {6, 0, 0}, {5, 0, UINT64_C(1) << 32}};
    uint8_t first[SL_COUNT(keys)][VALUES], scratch[VALUES], again[VALUES];

    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < SL_COUNT(keys); i++) {
            struct augment a = one(true, AUGMENT_ROTATE, -90, 90);
            uint8_t *x = round == 0 ? first[i] : again;

            a.seed = keys[i][0];
            image_u8(x);
            augment_apply(&a, keys[i][1], keys[i][2], x, scratch);
            for (size_t k = 0; round == 1 && k < SL_COUNT(keys); k++)
                T_EQ(memcmp(again, first[k], VALUES) == 0, i == k);
        }
}

// ---- batches

static struct data *pictures(void)
{
    struct data_source s = {.format = "synthetic",
                            .generator = "images",
                            .samples = 64,
                            .seed = 3,
                            .classes = 3,
                            .scale = 1};
    struct data_want w = {.rank = 3,
                          .dim = {ROWS, COLUMNS, CHANNELS},
                          .outputs = 3,
                          .labels = DATA_ONE_HOT,
                          .u8 = true};
    struct data *d;

    T_OK(data_open(&d, &s, &w, t_err()));
    T_TRUE(data_is_u8(d));
    return d;
}

static struct input_run run_of(struct data *d, const struct augment *a)
{
    struct input_run run = {.data = d,
                            .shuffle = true,
                            .epoch = 4,
                            .count = 30,
                            .batch = 7,
                            .augment = a};

    T_OK(order_init(&run.order, 11, 4, data_samples(d)));
    return run;
}

// Reads 30 samples with `threads` threads, the steps from the last to the
// first.
static void read_all(struct data *d, const struct augment *a, unsigned threads,
                     uint8_t *x, float *y)
{
    struct input_run run = run_of(d, a);
    struct input *in;

    T_OK(input_new(&in, threads, t_err()));
    input_open(in, &run);
    for (uint32_t step = input_run_steps(&run); step-- > 0;) {
        struct batch b;

        T_OK(input_get(in, &run, step, &b, t_err()));
        memcpy(x + step * 7 * VALUES, b.x, b.n * VALUES);
        memcpy(y + step * 7 * 3, b.y, b.n * 3 * sizeof(float));
        input_put(in, &b);
    }
    input_close(in, &run);
    input_free(in);
}

static void add_all(struct augment *a)
{
    static const struct augment_change changes[] = {
        {.kind = AUGMENT_CROP, .low = -1, .high = 1},
        {.kind = AUGMENT_FLIP, .columns = true},
        {.kind = AUGMENT_ROTATE, .low = -15, .high = 15},
        {.kind = AUGMENT_CONTRAST, .low = -.2, .high = .2, .range = {0, 255}}};

    for (size_t i = 0; i < SL_COUNT(changes); i++)
        augment_add(a, &changes[i]);
}

TEST(augment, a_batch_is_the_same_with_any_number_of_threads)
{
    struct data *d = pictures();
    struct augment a = plan_of(true);
    static uint8_t one_x[30 * VALUES], x[30 * VALUES], plain[VALUES];
    static float one_y[90], y[90];
    struct input_run run = run_of(d, &a);
    uint8_t scratch[VALUES];
    float label[3];

    add_all(&a);
    a.labels = 3;
    read_all(d, &a, 1, one_x, one_y);
    for (uint32_t i = 0; i < 30; i++) {
        uint64_t sample = order_at(&run.order, i);

        T_OK(data_read(d, sample, plain, label, t_err()));
        augment_apply(&a, 4, sample, plain, scratch);
        T_EQ(memcmp(plain, one_x + i * VALUES, VALUES), 0);
        T_EQ(memcmp(label, one_y + i * 3, sizeof(label)), 0);
    }
    augment_add(&a, &(struct augment_change){.kind = AUGMENT_MIXUP, .high = 1});
    read_all(d, &a, 1, one_x, one_y);
    for (unsigned threads = 2; threads <= 4; threads++) {
        read_all(d, &a, threads, x, y);
        T_EQ(memcmp(x, one_x, sizeof(x)), 0);
        T_EQ(memcmp(y, one_y, sizeof(y)), 0);
    }
    data_free(d);
}

// Each sample is a mixture of itself and its partner by the part that its label
// says, and the two sum up to what they were.
TEST(augment, mixtures_are_of_images_as_of_labels)
{
    struct augment a = plan_of(false);
    double sum = 0, squares = 0;

    a.labels = 2;
    augment_add(&a,
                &(struct augment_change){.kind = AUGMENT_MIXUP, .high = 0.4});
    for (uint64_t sample = 0; sample < 4000; sample++) {
        float x[2][VALUES], y[2][2] = {{1, 0}, {0, 1}};
        double part;

        for (size_t i = 0; i < VALUES; i++) {
            x[0][i] = (float)i;
            x[1][i] = 100;
        }
        augment_mix(&a, 2, sample, (void *[]){x[0], x[1]},
                    (float *[]){y[0], y[1]});
        part = (double)y[0][0];
        T_NEAR((double)(y[0][0] + y[0][1]), 1, 1e-6);
        for (size_t i = 0; i < VALUES; i += 13) {
            T_NEAR((double)x[0][i], part * (double)i + (1 - part) * 100, 1e-3);
            T_NEAR((double)(x[0][i] + x[1][i]), (double)i + 100, 1e-3);
        }
        sum += part;
        squares += part * part;
    }
    // Beta(0.4, 0.4): mean 1/2, variance 1 / (4 (2 * 0.4 + 1)).
    T_NEAR(sum / 4000, 0.5, 0.03);
    T_NEAR(squares / 4000 - sum / 4000 * sum / 4000, 1 / 7.2, 0.01);
}

TEST(augment, rectangles_are_exchanged_and_labels_say_their_area)
{
    struct augment a = plan_of(true);
    unsigned some = 0;

    a.labels = 2;
    augment_add(&a,
                &(struct augment_change){.kind = AUGMENT_CUTMIX, .high = 1});
    for (uint64_t sample = 0; sample < 500; sample++) {
        uint8_t x[2][VALUES];
        float y[2][2] = {{1, 0}, {0, 1}};
        size_t theirs = 0;

        memset(x[0], 1, VALUES);
        memset(x[1], 2, VALUES);
        augment_mix(&a, 0, sample, (void *[]){x[0], x[1]},
                    (float *[]){y[0], y[1]});
        for (size_t i = 0; i < VALUES; i++) {
            T_EQ(x[0][i] + x[1][i], 3);
            theirs += x[0][i] == 2;
        }
        T_NEAR((double)y[0][1], (double)theirs / VALUES, 1e-6);
        T_NEAR((double)y[1][0], (double)theirs / VALUES, 1e-6);
        some += theirs > 0 && theirs < VALUES;
    }
    T_TRUE(some > 250);
}
