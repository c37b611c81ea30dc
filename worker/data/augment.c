// SPDX-License-Identifier: Apache-2.0
// worker/data/augment.c -- see augment.h.
#include "worker/data/augment.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/rng.h"

#define STREAM UINT64_C(0x6175676d656e7421) // a seed of dropout is another
#define TRIES 64

// What a change reads and draws.
struct augment_draw {
    const struct augment *a;
    const struct augment_change *c;
    double u[4]; // from [0, 1)
    double by;   // low to high, by u[0]
};

static size_t augment_pixels(const struct augment *a)
{
    return (size_t)a->rows * a->columns;
}

static size_t augment_bytes(const struct augment *a)
{
    return augment_pixels(a) * a->channels * (a->u8 ? 1 : sizeof(float));
}

// Draws four numbers from [0, 1), of the try `attempt` of a change.
static void augment_words(const struct augment *a, uint64_t epoch,
                          uint64_t sample, unsigned change, unsigned attempt,
                          double u[4])
{
    uint64_t seed = sl_mix64(a->seed ^ STREAM);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)sample,
                                 (uint32_t)(sample >> 32) | change << 8 |
                                     attempt << 16,
                                 (uint32_t)epoch, (uint32_t)(epoch >> 32)};
    uint32_t word[4];

    philox4x32(word, counter, key);
    for (unsigned i = 0; i < 4; i++)
        u[i] = word[i] * 0x1p-32;
}

static double augment_between(const struct augment_change *c, double u)
{
    return c->low + (c->high - c->low) * u;
}

// ---- pixels, of either type

static inline __attribute__((always_inline)) float pixel_load(const void *image,
                                                              size_t i, bool u8)
{
    return u8 ? ((const uint8_t *)image)[i] : ((const float *)image)[i];
}

// Stores a value; of a byte the nearest, which `v` is not far below 0 or above
// 255 of.
static inline __attribute__((always_inline)) void
pixel_store(void *image, size_t i, float v, bool u8)
{
    if (u8)
        ((uint8_t *)image)[i] = (uint8_t)(v + 0.5f);
    else
        ((float *)image)[i] = v;
}

static void pixels_fill(const struct augment *a, void *to, size_t n)
{
    if (a->u8) {
        memset(to, (int)a->black, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((float *)to)[i] = a->black;
}

// ---- moves of whole pixels

static uint8_t *augment_row(const struct augment *a, void *image, uint32_t row)
{
    return (uint8_t *)image + augment_bytes(a) / a->rows * row;
}

// Copies what lies within both of an image and the same moved by (down, right).
static bool change_crop(const struct augment_draw *d, void *from, void *to)
{
    const struct augment *a = d->a;
    int32_t most = (int32_t)d->c->high, span = 2 * most + 1;
    int32_t down = (int32_t)(d->u[0] * span) - most;
    int32_t right = (int32_t)(d->u[1] * span) - most;
    size_t pixel = augment_bytes(a) / augment_pixels(a);
    size_t width = a->columns - (uint32_t)(right < 0 ? -right : right);
    size_t out = right > 0 ? (size_t)right : 0, in = right < 0 ? -right : 0;

    pixels_fill(a, to, augment_pixels(a) * a->channels);
    for (int32_t y = 0; y < (int32_t)a->rows; y++) {
        int32_t at = y - down;

        if (at >= 0 && at < (int32_t)a->rows)
            memcpy(augment_row(a, to, (uint32_t)y) + out * pixel,
                   augment_row(a, from, (uint32_t)at) + in * pixel,
                   width * pixel);
    }
    return true;
}

static void row_mirror(uint8_t *to, const uint8_t *from, uint32_t columns,
                       size_t pixel)
{
    for (uint32_t x = 0; x < columns; x++)
        memcpy(to + x * pixel, from + (columns - 1 - x) * pixel, pixel);
}

static bool change_flip(const struct augment_draw *d, void *from, void *to)
{
    const struct augment *a = d->a;
    bool rows = d->c->rows && d->u[0] < 0.5;
    bool columns = d->c->columns && d->u[1] < 0.5;
    size_t row = augment_bytes(a) / a->rows;

    if (!rows && !columns)
        return false;
    for (uint32_t y = 0; y < a->rows; y++) {
        uint8_t *out = augment_row(a, to, y);
        const uint8_t *in = augment_row(a, from, rows ? a->rows - 1 - y : y);

        if (columns)
            row_mirror(out, in, a->columns, row / a->columns);
        else
            memcpy(out, in, row);
    }
    return true;
}

// ---- affine maps

// Where pixel (y, x) of the result comes from: x[0] x + x[1] y + x[2], and y[]
// likewise.
struct augment_map {
    double x[3], y[3];
};

// Returns the pixel of an image of n that stands at `i` of the image mirrored
// at its edges again and again.
static inline size_t mirrored(int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return (size_t)i;
    i %= 2 * n;
    if (i < 0)
        i += 2 * n;
    return (size_t)(i < n ? i : 2 * n - 1 - i);
}

static inline int64_t whole_below(double v)
{
    int64_t i = (int64_t)v;

    return i - (v < (double)i);
}

static inline __attribute__((always_inline)) void
warp_typed(const struct augment *a, const struct augment_map *m,
           const void *from, void *to, bool u8)
{
    uint32_t channels = a->channels;
    size_t out = 0;

    for (uint32_t y = 0; y < a->rows; y++) {
        for (uint32_t x = 0; x < a->columns; x++) {
            double at_x = m->x[0] * x + m->x[1] * y + m->x[2];
            double at_y = m->y[0] * x + m->y[1] * y + m->y[2];
            int64_t left = whole_below(at_x), top = whole_below(at_y);
            float fx = (float)(at_x - (double)left);
            float fy = (float)(at_y - (double)top);
            size_t x0 = mirrored(left, a->columns) * channels;
            size_t x1 = mirrored(left + 1, a->columns) * channels;
            size_t y0 = mirrored(top, a->rows) * a->columns * channels;
            size_t y1 = mirrored(top + 1, a->rows) * a->columns * channels;

            for (uint32_t c = 0; c < channels; c++, out++) {
                float upper = pixel_load(from, y0 + x0 + c, u8) * (1 - fx) +
                              pixel_load(from, y0 + x1 + c, u8) * fx;
                float lower = pixel_load(from, y1 + x0 + c, u8) * (1 - fx) +
                              pixel_load(from, y1 + x1 + c, u8) * fx;

                pixel_store(to, out, upper * (1 - fy) + lower * fy, u8);
            }
        }
    }
}

static bool warp(const struct augment *a, const struct augment_map *m,
                 const void *from, void *to)
{
    if (a->u8)
        warp_typed(a, m, from, to, true);
    else
        warp_typed(a, m, from, to, false);
    return true;
}

static bool change_translate(const struct augment_draw *d, void *from, void *to)
{
    double down = d->by * d->a->rows;
    double right = augment_between(d->c, d->u[1]) * d->a->columns;
    struct augment_map m = {{1, 0, -right}, {0, 1, -down}};

    return warp(d->a, &m, from, to);
}

// Computes sine and cosine of an angle from -pi to pi by their series: the C
// library's differ in the last bit between processors.
static void sine_cosine(double angle, double *sine, double *cosine)
{
    double square = angle * angle, s = 1, c = 1;

    for (int i = 30; i > 0; i -= 2) {
        s = 1 - square / (i * (i + 1)) * s;
        c = 1 - square / (i * (i - 1)) * c;
    }
    *sine = s * angle;
    *cosine = c;
}

static bool change_rotate(const struct augment_draw *d, void *from, void *to)
{
    double s, c, x = (d->a->columns - 1) / 2.0, y = (d->a->rows - 1) / 2.0;
    struct augment_map m;

    sine_cosine(d->by * (3.14159265358979323846 / 180), &s, &c);
    m = (struct augment_map){{c, -s, x - x * c + y * s},
                             {s, c, y - x * s - y * c}};
    return warp(d->a, &m, from, to);
}

static bool change_zoom(const struct augment_draw *d, void *from, void *to)
{
    double x = (d->a->columns - 1) / 2.0, y = (d->a->rows - 1) / 2.0;
    struct augment_map m = {{1 + d->by, 0, -x * d->by},
                            {0, 1 + d->by, -y * d->by}};

    return warp(d->a, &m, from, to);
}

// ---- colours

// Writes (value - about) * factor + about + more, within the change's range, of
// every `step`-th pixel from `first` on.
static void colours(const struct augment_draw *d, const void *from, void *to,
                    size_t first, size_t step, float about, float factor,
                    float more)
{
    const struct augment *a = d->a;
    const float *range = d->c->range;
    size_t n = augment_pixels(a) * a->channels;

    for (size_t i = first; i < n; i += step) {
        float v = (pixel_load(from, i, a->u8) - about) * factor + about + more;

        v = v < range[0] ? range[0] : v > range[1] ? range[1] : v;
        pixel_store(to, i, v, a->u8);
    }
}

static bool change_brightness(const struct augment_draw *d, void *from,
                              void *to)
{
    const float *range = d->c->range;

    colours(d, from, to, 0, 1, 0, 1, (float)(d->by * (range[1] - range[0])));
    return true;
}

static bool change_contrast(const struct augment_draw *d, void *from, void *to)
{
    const struct augment *a = d->a;
    size_t n = augment_pixels(a) * a->channels;

    for (uint32_t c = 0; c < a->channels; c++) {
        double sum = 0;

        for (size_t i = c; i < n; i += a->channels)
            sum += (double)pixel_load(from, i, a->u8);
        colours(d, from, to, c, a->channels,
                (float)(sum / (double)augment_pixels(a)), (float)(1 + d->by),
                0);
    }
    return true;
}

// ---- one sample

// Writes `to`, from `from`; false: the image is to stay as it is.
typedef bool (*change_fn)(const struct augment_draw *d, void *from, void *to);

static const change_fn change_of[AUGMENT_KINDS] = {
    [AUGMENT_CROP] = change_crop,
    [AUGMENT_FLIP] = change_flip,
    [AUGMENT_TRANSLATE] = change_translate,
    [AUGMENT_ROTATE] = change_rotate,
    [AUGMENT_ZOOM] = change_zoom,
    [AUGMENT_BRIGHTNESS] = change_brightness,
    [AUGMENT_CONTRAST] = change_contrast,
};

void augment_add(struct augment *a, const struct augment_change *c)
{
    assert(a->count < AUGMENT_MAX);
    a->change[a->count++] = *c;
    a->mixes = a->mixes || change_of[c->kind] == NULL;
}

void augment_apply(const struct augment *a, uint64_t epoch, uint64_t sample,
                   void *x, void *scratch)
{
    void *from = x, *to = scratch;

    for (unsigned i = 0; i < a->count; i++) {
        struct augment_draw d = {.a = a, .c = &a->change[i]};
        change_fn change = change_of[d.c->kind];

        if (change == NULL)
            continue;
        augment_words(a, epoch, sample, i, 0, d.u);
        d.by = augment_between(d.c, d.u[0]);
        if (change(&d, from, to)) {
            void *was = from;

            from = to;
            to = was;
        }
    }
    if (from != x)
        memcpy(x, from, augment_bytes(a));
}

// ---- two samples

// Draws from the beta distribution (alpha, alpha), as Johnk does.
static double augment_part(const struct augment *a, uint64_t epoch,
                           uint64_t sample, unsigned change)
{
    double power = 1 / a->change[change].high;

    for (unsigned i = 1; i <= TRIES; i++) {
        double u[4], x, y;

        augment_words(a, epoch, sample, change, i, u);
        x = pow(u[0], power);
        y = pow(u[1], power);
        if (x + y > 0 && x + y <= 1)
            return (double)(float)(x / (x + y));
    }
    return 0.5;
}

static void mix_floats(float *a, float *b, size_t n, float part)
{
    for (size_t i = 0; i < n; i++) {
        float first = a[i], second = b[i];

        a[i] = part * first + (1 - part) * second;
        b[i] = part * second + (1 - part) * first;
    }
}

static void mix_images(const struct augment *a, void *const x[2], float part)
{
    size_t n = augment_pixels(a) * a->channels;

    for (size_t i = 0; i < n; i++) {
        float first = pixel_load(x[0], i, a->u8);
        float second = pixel_load(x[1], i, a->u8);

        pixel_store(x[0], i, part * first + (1 - part) * second, a->u8);
        pixel_store(x[1], i, part * second + (1 - part) * first, a->u8);
    }
}

// Sets [*from, *end) to what lies in [0, n) of a span of `size` about `middle`.
static void span_within(double middle, double size, uint32_t n, uint32_t *from,
                        uint32_t *end)
{
    double low = middle - size / 2, high = middle + size / 2;

    *from = low < 0 ? 0 : (uint32_t)low;
    *end = high > n ? n : (uint32_t)high;
}

// Exchanges a rectangle of about 1 - part of the area. Returns the part of each
// image that stays its own.
static float swap_rectangle(const struct augment *a, void *const x[2],
                            double part, const double u[2])
{
    size_t pixel = augment_bytes(a) / augment_pixels(a);
    double side = sqrt(1 - part);
    uint32_t top, bottom, left, right;

    span_within(u[0] * a->rows, side * a->rows, a->rows, &top, &bottom);
    span_within(u[1] * a->columns, side * a->columns, a->columns, &left,
                &right);
    for (uint32_t y = top; y < bottom; y++) {
        uint8_t *p = augment_row(a, x[0], y), *q = augment_row(a, x[1], y);

        for (size_t i = left * pixel; i < right * pixel; i++) {
            uint8_t was = p[i];

            p[i] = q[i];
            q[i] = was;
        }
    }
    return 1 - (float)(bottom - top) * (float)(right - left) /
                   (float)augment_pixels(a);
}

void augment_mix(const struct augment *a, uint64_t epoch, uint64_t sample,
                 void *const x[2], float *const y[2])
{
    for (unsigned i = 0; i < a->count; i++) {
        float part;
        double u[4];

        if (change_of[a->change[i].kind] != NULL)
            continue;
        part = (float)augment_part(a, epoch, sample, i);
        augment_words(a, epoch, sample, i, 0, u);
        if (a->change[i].kind == AUGMENT_MIXUP)
            mix_images(a, x, part);
        else
            part = swap_rectangle(a, x, (double)part, u);
        mix_floats(y[0], y[1], a->labels, part);
    }
}
