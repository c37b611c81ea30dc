// SPDX-License-Identifier: Apache-2.0
// worker/data/data_image.c -- the choice of a decoder, and resizing; see
// data_image.h.
#include "worker/data/data_image.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"

#define RGB 3

bool image_ending(const char *ending)
{
    return strcasecmp(ending, "jpg") == 0 || strcasecmp(ending, "jpeg") == 0 ||
           strcasecmp(ending, "png") == 0;
}

void image_release(struct image *im)
{
    image_jpeg_free(im->jpeg);
    sl_free(im->rgb.at);
    sl_free(im->row.at);
    sl_free(im->axes.at);
    sl_free(im->lines.at);
    sl_free(im->scaled.at);
    sl_free(im->pool.at);
    memset(im, 0, sizeof(*im));
}

enum sl_err image_decode(struct image *im, const uint8_t *bytes, size_t n,
                         struct sl_error *err)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

    im->used = 0;
    if (n > IMAGE_FILE_BYTES)
        return sl_fail(err, SL_ERANGE,
                       "is %zu bytes long; images are read up "
                       "to %llu",
                       n, (unsigned long long)IMAGE_FILE_BYTES);
    if (n >= sizeof(jpeg) && memcmp(bytes, jpeg, sizeof(jpeg)) == 0)
        return image_jpeg(im, bytes, n, err);
    if (n >= sizeof(png) && memcmp(bytes, png, sizeof(png)) == 0)
        return image_png(im, bytes, n, err);
    return sl_fail(err, SL_ECORRUPT, "is neither JPEG nor PNG");
}

// ---- resizing

// Describes where a row or column of the result comes from: a + (b - a) *
// share.
struct between {
    uint32_t a, b;
    float share;
};

static void set_axis(struct between *axis, uint32_t out, uint32_t in)
{
    for (uint32_t i = 0; i < out; i++) {
        double at = ((double)i + 0.5) * in / out - 0.5, low = floor(at);

        axis[i].a = low > 0 ? (uint32_t)low : 0;
        axis[i].b = ceil(at) < in - 1 ? (uint32_t)ceil(at) : in - 1;
        axis[i].share = (float)(at - low);
    }
}

// Resizes a row of the image to the width of the result.
static void image_narrow_row(const uint8_t *row, const struct between *columns,
                             uint32_t width, float *out)
{
    for (uint32_t i = 0; i < width; i++) {
        const uint8_t *a = row + (size_t)columns[i].a * RGB;
        const uint8_t *b = row + (size_t)columns[i].b * RGB;

        for (unsigned c = 0; c < RGB; c++)
            out[i * RGB + c] =
                (float)a[c] + (float)(b[c] - a[c]) * columns[i].share;
    }
}

static void mix(const float *a, const float *b, float share, size_t n,
                uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int)(a[i] + (b[i] - a[i]) * share + 0.5f);
}

// Two rows in the width of the result are kept, since the next row of the
// result mostly comes from one of them.
struct lines {
    const struct image *im;
    const struct between *columns;
    uint32_t width;
    float *line[2];
    int64_t holds[2]; // row of the image in each; -1: none
};

static const float *image_narrowed_row(struct lines *l, uint32_t row,
                                       uint32_t keep)
{
    unsigned k = l->holds[0] == (int64_t)row ? 0 : 1;

    if (l->holds[k] == (int64_t)row)
        return l->line[k];
    k = l->holds[0] == (int64_t)keep ? 1 : 0;
    image_narrow_row((const uint8_t *)l->im->rgb.at +
                         (size_t)row * l->im->width * RGB,
                     l->columns, l->width, l->line[k]);
    l->holds[k] = row;
    return l->line[k];
}

static enum sl_err resize(struct image *im, uint32_t height, uint32_t width,
                          uint8_t *out, struct sl_error *err)
{
    size_t n = (size_t)width * RGB;
    struct lines l = {.im = im, .width = width, .holds = {-1, -1}};
    struct between *rows;
    enum sl_err rc =
        image_space(&im->axes, ((size_t)height + width) * sizeof(*rows), err);

    if (rc == SL_OK)
        rc = image_space(&im->lines, 2 * n * sizeof(float), err);
    if (rc != SL_OK)
        return rc;
    rows = im->axes.at;
    set_axis(rows, height, im->height);
    set_axis(rows + height, width, im->width);
    l.columns = rows + height;
    l.line[0] = im->lines.at;
    l.line[1] = l.line[0] + n;
    for (uint32_t y = 0; y < height; y++) {
        const float *a = image_narrowed_row(&l, rows[y].a, rows[y].b);
        const float *b = image_narrowed_row(&l, rows[y].b, rows[y].a);

        mix(a, b, rows[y].share, n, out + y * n);
    }
    return SL_OK;
}

// Computes the luminance as usual: 0.299 R + 0.587 G + 0.114 B, in 16 bits.
static void luminance(const uint8_t *rgb, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++, rgb += RGB)
        out[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u +
                            0x8000u) >>
                           16);
}

enum sl_err image_put(struct image *im, uint32_t height, uint32_t width,
                      uint32_t channels, uint8_t *out, struct sl_error *err)
{
    size_t pixels = (size_t)height * width;
    bool same = height == im->height && width == im->width;
    uint8_t *to = out;
    enum sl_err rc = SL_OK;

    if (channels != RGB && channels != 1)
        return sl_fail(err, SL_EINVAL,
                       "images have 3 channels or, as grey, 1; not %u",
                       channels);
    if (same && channels == RGB) {
        memcpy(out, im->rgb.at, pixels * RGB);
        return SL_OK;
    }
    if (same) {
        luminance(im->rgb.at, pixels, out);
        return SL_OK;
    }
    if (channels == 1) {
        rc = image_space(&im->scaled, pixels * RGB, err);
        to = im->scaled.at;
    }
    if (rc == SL_OK)
        rc = resize(im, height, width, to, err);
    if (rc == SL_OK && channels == 1)
        luminance(to, pixels, out);
    return rc;
}
