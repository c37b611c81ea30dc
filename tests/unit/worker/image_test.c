// SPDX-License-Identifier: Apache-2.0
// Files against what PIL found in them (make_images.py), resizing against the
// formula in fractions, and files cut short or changed anywhere.
#include "tests/harness/t.h"

#include "common/base/mem.h"
#include "worker/data/data_image.h"

#ifndef IMAGES
#error "IMAGES: the folder of the files"
#endif

struct bytes {
    uint8_t *at;
    size_t n;
};

static struct bytes load(const char *name)
{
    struct bytes b = {NULL, 0};
    char path[600];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", IMAGES, name);
    f = fopen(path, "rb");
    T_TRUE(f != NULL);
    b.at = malloc(1 << 16);
    b.n = fread(b.at, 1, 1 << 16, f);
    fclose(f);
    return b;
}

// A PPM's pixels; of ours, all begin "P6\n<width> <height>\n255\n".
static uint8_t *pixels(const char *name, uint32_t *width, uint32_t *height)
{
    struct bytes b = load(name);
    size_t n;

    T_EQ(sscanf((char *)b.at, "P6 %u %u 255", width, height), 2);
    n = (size_t)*width * *height * 3;
    T_GT(b.n, n);
    memmove(b.at, b.at + b.n - n, n);
    return b.at;
}

static enum sl_err decode(struct image *im, const char *name,
                          struct sl_error *err)
{
    struct bytes b = load(name);
    enum sl_err rc = image_decode(im, b.at, b.n, err);

    free(b.at);
    return rc;
}

// The largest difference between what we and what PIL see in a file.
static int worst(const char *name)
{
    struct image im = {0};
    char ppm[100];
    uint32_t width, height;
    uint8_t *want, *have;
    int most = 0;

    T_OK(decode(&im, name, t_err()));
    snprintf(ppm, sizeof(ppm), "%s.ppm", name);
    want = pixels(ppm, &width, &height);
    T_EQ(im.width, width);
    T_EQ(im.height, height);
    have = malloc((size_t)width * height * 3);
    T_OK(image_put(&im, height, width, 3, have, t_err()));
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        most = abs(have[i] - want[i]) > most ? abs(have[i] - want[i]) : most;
    image_release(&im);
    free(want);
    free(have);
    return most;
}

TEST(image, jpegs_are_what_pil_sees_within_two_levels)
{
    static const char *const names[] = {
        "sampled.jpg", "full.jpg",     "halves.jpg", "progressive.jpg",
        "grey.jpg",    "restarts.jpg", "cmyk.jpg"};

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        if (worst(names[i]) > 2)
            T_FAIL("%s: %d levels off", names[i], worst(names[i]));
    }
}

TEST(image, pngs_are_what_pil_sees)
{
    static const char *const names[] = {
        "rgb.png",     "rgba.png",          "grey.png",      "grey-alpha.png",
        "palette.png", "palette-clear.png", "rgb-clear.png", "bits.png",
        "grey-4.png",  "interlaced.png",    "deep.png",      "grey-deep.png"};

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        if (worst(names[i]) > 0)
            T_FAIL("%s: %d levels off", names[i], worst(names[i]));
    }
}

TEST(image, twelve_bits_of_sixteen_are_scaled_by_their_depth)
{
    struct image im = {.depth = 12};
    uint32_t width, height;
    uint8_t *want = pixels("twelve.png.ppm", &width, &height), *have;

    have = malloc((size_t)width * height * 3);
    T_OK(decode(&im, "twelve.png", t_err()));
    T_EQ(im.used, 4095);
    T_OK(image_put(&im, height, width, 3, have, t_err()));
    T_MEM(have, want, (size_t)width * height * 3);
    T_EQ(have[0], 255);
    // All sixteen: nearly black, as said by which bits are used.
    im.depth = 0;
    T_OK(decode(&im, "twelve.png", t_err()));
    T_OK(image_put(&im, height, width, 3, have, t_err()));
    T_EQ(have[0], 15);
    T_EQ(im.used, 4095);
    T_OK(decode(&im, "rgb.png", t_err())); // of 8 bits: depth does not matter
    T_EQ(im.used, 0);
    image_release(&im);
    free(want);
    free(have);
}

TEST(image, resizing_is_the_formula)
{
    static const char *const names[] = {"rgb-10x31.ppm", "rgb-46x34.ppm",
                                        "rgb-5x5.ppm",   "rgb-1x1.ppm",
                                        "rgb-23x40.ppm", "rgb-64x17.ppm"};
    struct image im = {0};

    T_OK(decode(&im, "rgb.png", t_err()));
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        uint32_t width, height;
        uint8_t *want = pixels(names[i], &width, &height);
        uint8_t *have = malloc((size_t)width * height * 3);

        T_OK(image_put(&im, height, width, 3, have, t_err()));
        T_MEM(have, want, (size_t)width * height * 3);
        free(want);
        free(have);
    }
    image_release(&im);
}

TEST(image, one_channel_is_the_luminance)
{
    struct image im = {0};
    uint32_t width, height;
    uint8_t *want = pixels("rgb-luminance.ppm", &width, &height), *have;
    uint8_t small[4];

    have = malloc((size_t)width * height);
    T_OK(decode(&im, "rgb.png", t_err()));
    T_OK(image_put(&im, height, width, 1, have, t_err()));
    for (size_t i = 0; i < (size_t)width * height; i++)
        T_EQ(have[i], want[3 * i]);
    T_OK(image_put(&im, 2, 2, 1, small, t_err()));
    T_FAILS(SL_EINVAL, image_put(&im, 2, 2, 2, small, t_err()));
    image_release(&im);
    free(want);
    free(have);
}

static void refused(const char *name, enum sl_err code, const char *word)
{
    struct sl_error err = SL_ERROR_INIT;
    struct image im = {0};

    T_FAILS(code, decode(&im, name, &err));
    T_HAS(err.text, word);
    T_OK(decode(&im, "sampled.jpg", t_err())); // and it goes on
    T_OK(decode(&im, "rgb.png", t_err()));
    image_release(&im);
}

TEST(image, broken_and_huge_files_are_refused_with_words)
{
    refused("cut.jpg", SL_ECORRUPT,
            "broken JPEG, near byte 681: Premature end");
    refused("cut.png", SL_ECORRUPT, "broken PNG");
    refused("checksum.png", SL_ECORRUPT, ": CRC error");
    refused("huge.jpg", SL_ERANGE, "gives a size over the limits");
    refused("huge.png", SL_ERANGE, "gives a size over the limits");
    refused("bomb.png", SL_ERANGE, "ratio");
    refused("rgb-1x1.ppm", SL_ECORRUPT, "neither JPEG nor PNG");
}

TEST(image, what_stands_behind_a_jpeg_is_nothing)
{
    struct image im = {0};

    T_OK(decode(&im, "junk-behind.jpg", t_err()));
    image_release(&im);
}

// Cut short anywhere: refused. One byte changed: refused or some picture.
static void damage(const char *name)
{
    struct image im = {0};
    struct bytes b = load(name);
    uint8_t *copy = malloc(b.n), out[12];

    for (size_t n = 0; n < b.n; n++) {
        memcpy(copy, b.at, n);
        if (image_decode(&im, copy, n, NULL) == SL_OK)
            T_GT(n + 3, b.n); // only its end marker was cut
    }
    for (size_t i = 0; i < 3000; i++) {
        memcpy(copy, b.at, b.n);
        copy[t_below(b.n)] ^= (uint8_t)(1 + t_below(255));
        if (image_decode(&im, copy, b.n, NULL) == SL_OK)
            T_OK(image_put(&im, 2, 2, 3, out, t_err()));
    }
    free(copy);
    free(b.at);
    image_release(&im);
}

TEST(image, damage_never_does_harm)
{
    damage("sampled.jpg");
    damage("progressive.jpg");
    damage("cmyk.jpg");
    damage("palette-clear.png");
    damage("interlaced.png");
}

// Of the second file of a kind on, the spaces are there.
TEST(image, rooms_are_kept)
{
    struct image im = {0};
    uint8_t *out = malloc(40 * 23 * 3);
    uint64_t calls;

    for (int i = 0; i < 2; i++) {
        calls = sl_mem_calls();
        T_OK(decode(&im, "sampled.jpg", t_err()));
        T_OK(image_put(&im, 40, 23, 3, out, t_err()));
        T_OK(decode(&im, "interlaced.png", t_err()));
        T_OK(image_put(&im, 40, 23, 1, out, t_err()));
    }
    T_EQ(sl_mem_calls(), calls);
    image_release(&im);
    free(out);
}

TEST(image, runs_out_of_memory_anywhere)
{
    uint8_t out[12 * 3];

    for (uint64_t n = 1; n < 100; n++) {
        struct image im = {0};
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = decode(&im, "sampled.jpg", NULL);
        if (rc == SL_OK)
            rc = decode(&im, "palette.png", NULL);
        if (rc == SL_OK)
            rc = image_put(&im, 3, 4, 1, out, NULL);
        image_release(&im);
        if (!sl_mem_failed())
            return;
        T_EQ(rc, SL_ENOMEM);
    }
    T_FAIL("it allocates for ever");
}
