// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/image_kit.h"

#include "common/base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "worker/data/data_image.h"

#define PIXELS_MOST 65536 // decoding more only takes time
#define FILE_MOST ((size_t)1 << 16)
// Pixels, a row of ink, the library's pool and what did not fit there, and the
// tables of resizing.
#define BUDGET ((size_t)16 << 20)

static uint64_t sum_of(const struct image *im)
{
    const uint8_t *at = im->rgb.at;
    uint64_t sum = 14695981039346656037u;

    for (size_t i = 0; i < (size_t)im->width * im->height * 3; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

static void check_sizes(struct image *im)
{
    static const uint32_t sides[] = {1, 2, 7, 30};
    uint8_t out[30 * 30 * 3 + 1];

    for (size_t i = 0; i < SL_COUNT(sides); i++) {
        uint32_t height = sides[i], width = sides[SL_COUNT(sides) - 1 - i];
        size_t n = (size_t)height * width * 3;

        out[n] = 0xa5;
        FUZZ_TRUE(image_put(im, height, width, 3, out, NULL) == SL_OK);
        FUZZ_TRUE(out[n] == 0xa5);
        FUZZ_TRUE(image_put(im, height, width, 1, out, NULL) == SL_OK);
    }
}

void image_check(const uint8_t *data, size_t size, const char *magic, size_t n)
{
    static uint8_t file[FILE_MOST];
    struct image im = {.pixels_max = PIXELS_MOST};
    struct sl_error err = SL_ERROR_INIT;
    uint64_t sum;
    enum sl_err rc;

    if (size < n || size > FILE_MOST)
        return;
    memcpy(file, data, size);
    memcpy(file, magic, n);
    fuzz_budget(BUDGET);
    rc = image_decode(&im, file, size, &err);
    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
    } else {
        FUZZ_TRUE(im.width > 0 && im.height > 0);
        FUZZ_TRUE((uint64_t)im.width * im.height <= PIXELS_MOST);
        sum = sum_of(&im);
        FUZZ_TRUE(image_decode(&im, file, size, NULL) == SL_OK);
        FUZZ_TRUE(sum_of(&im) == sum);
        check_sizes(&im);
    }
    fuzz_budget(SIZE_MAX);
    image_release(&im);
}
