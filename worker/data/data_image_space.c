// SPDX-License-Identifier: Apache-2.0
// worker/data/data_image_space.c -- the memory of an image, and how large one
// may be.
#include "worker/data/data_image.h"

#include "common/base/mem.h"

#define RGB 3

enum sl_err image_space(struct image_space *r, size_t bytes,
                        struct sl_error *err)
{
    if (bytes <= r->bytes)
        return SL_OK;
    sl_free(r->at);
    r->bytes = 0;
    r->at = sl_aligned(64, bytes);
    if (r->at == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for its %zu bytes", bytes);
    r->bytes = bytes;
    return SL_OK;
}

enum sl_err image_begin(struct image *im, uint64_t width, uint64_t height,
                        size_t file_bytes, struct sl_error *err)
{
    uint64_t most = im->pixels_max > 0 ? im->pixels_max : IMAGE_PIXELS;
    size_t bytes;

    if (width == 0 || height == 0)
        return sl_fail(err, SL_ECORRUPT,
                       "its header says that it has no "
                       "pixels");
    if (width > IMAGE_SIDE || height > IMAGE_SIDE || width * height > most)
        return sl_fail(err, SL_ERANGE,
                       "its header gives a size over the limits: %d pixels per "
                       "side and %llu in all",
                       IMAGE_SIDE, (unsigned long long)most);
    bytes = (size_t)(width * height * RGB);
    if (bytes > IMAGE_RATIO_FROM && bytes / IMAGE_RATIO > file_bytes)
        return sl_fail(err, SL_ERANGE,
                       "its header promises more pixels than %zu bytes should "
                       "hold, over the ratio of %d",
                       file_bytes, IMAGE_RATIO);
    im->width = (uint32_t)width;
    im->height = (uint32_t)height;
    return image_space(&im->rgb, bytes, err);
}
