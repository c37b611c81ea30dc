// SPDX-License-Identifier: Apache-2.0
// worker/data/data_image_png.c -- PNG by libpng.
//
// Only the chunks that pixels need are read. The library reports an error by a
// call that must not return (here: longjmp), and frees all memory with each
// file, so it gets a pool that begins anew.
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include <png.h>

#include "common/base/mem.h"
#include "worker/data/data_image.h"

#define POOL_BYTES ((size_t)1 << 18) // zlib's window and tables, some rows
#define CHUNK_BYTES ((png_alloc_size_t)8 << 20)
#define CHUNKS_KEPT 16

struct png_reading {
    struct image *im;
    png_structp png;
    png_infop info;
    const uint8_t *at;
    size_t left, bytes;
    bool no_memory;
    jmp_buf failed;
    char text[160];
};

// Notes the library's text without the name of the chunk, which is the file's.
static void image_png_on_error(png_structp png, png_const_charp text)
{
    struct png_reading *r = png_get_error_ptr(png);
    const char *colon = strstr(text, ": ");

    strncpy(r->text, colon != NULL ? colon + 2 : text, sizeof(r->text) - 1);
    longjmp(r->failed, 1);
}

static void image_png_on_warning(png_structp png, png_const_charp text)
{
}

static void image_png_on_read(png_structp png, png_bytep to, size_t n)
{
    struct png_reading *r = png_get_io_ptr(png);

    if (n > r->left)
        png_error(png, "ends too early");
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
}

static png_voidp image_png_on_malloc(png_structp png, png_alloc_size_t n)
{
    struct png_reading *r = png_get_mem_ptr(png);
    struct image *im = r->im;
    size_t bytes = n > POOL_BYTES ? n : (n + 63) / 64 * 64;
    void *at;

    if (im->pool.bytes - im->pool_used < bytes) {
        at = sl_malloc(n);
        r->no_memory = r->no_memory || at == NULL;
        return at;
    }
    at = (uint8_t *)im->pool.at + im->pool_used;
    im->pool_used += bytes;
    return at;
}

static void image_png_on_free(png_structp png, png_voidp p)
{
    struct png_reading *r = png_get_mem_ptr(png);
    uintptr_t at = (uintptr_t)p, pool = (uintptr_t)r->im->pool.at;

    if (at < pool || at >= pool + r->im->pool.bytes)
        sl_free(p);
}

static enum sl_err image_png_new(struct png_reading *r, struct sl_error *err)
{
    enum sl_err rc = image_space(&r->im->pool, POOL_BYTES, err);

    if (rc != SL_OK)
        return rc;
    r->im->pool_used = 0;
    r->png = png_create_read_struct_2(
        PNG_LIBPNG_VER_STRING, r, image_png_on_error, image_png_on_warning, r,
        image_png_on_malloc, image_png_on_free);
    if (r->png != NULL)
        r->info = png_create_info_struct(r->png);
    if (r->info == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a PNG decoder");
    return SL_OK;
}

static void image_png_set_limits(struct png_reading *r)
{
    // image_begin checks the caps, with better words.
    png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES);
    png_set_chunk_cache_max(r->png, CHUNKS_KEPT);
    // -1: all but IHDR, PLTE, tRNS, IDAT and IEND.
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

// Makes 8 bits of samples of 16, in place, the most significant byte first.
static void on_sixteen(png_structp png, png_row_infop row, png_bytep bytes)
{
    struct image *im = png_get_user_transform_ptr(png);
    uint32_t depth = im->depth == 0 ? 16 : im->depth;
    uint32_t most = (1u << depth) - 1;
    size_t n = row->rowbytes / 2;

    for (size_t i = 0; i < n; i++) {
        uint32_t v = (uint32_t)bytes[2 * i] << 8 | bytes[2 * i + 1];

        im->used |= v;
        if (depth == 16)
            bytes[i] = (uint8_t)(v >> 8);
        else
            bytes[i] = v >= most ? 255 : (uint8_t)((v * 255 + most / 2) / most);
    }
}

static void to_rgb(struct image *im, png_structp png, png_infop info)
{
    int color = png_get_color_type(png, info);

    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if ((color & PNG_COLOR_MASK_COLOR) == 0) {
        png_set_expand_gray_1_2_4_to_8(png);
        png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
    if (png_get_bit_depth(png, info) == 16) {
        png_set_read_user_transform_fn(png, on_sixteen);
        png_set_user_transform_info(png, im, 8, 3);
    }
}

static enum sl_err image_png_decode(struct png_reading *r, struct sl_error *err)
{
    struct image *im = r->im;
    int passes;
    enum sl_err rc;

    png_set_read_fn(r->png, r, image_png_on_read);
    image_png_set_limits(r);
    png_read_info(r->png, r->info);
    rc = image_begin(im, png_get_image_width(r->png, r->info),
                     png_get_image_height(r->png, r->info), r->bytes, err);
    if (rc != SL_OK)
        return rc;
    to_rgb(im, r->png, r->info);
    passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != (size_t)im->width * 3)
        return sl_fail(err, SL_ENOTSUP,
                       "a kind of PNG that sluice cannot read");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < im->height; y++)
            png_read_row(r->png,
                         (uint8_t *)im->rgb.at + (size_t)y * im->width * 3,
                         NULL);
    png_read_end(r->png, NULL); // the last checksums
    return SL_OK;
}

// Decodes behind a setjmp. What changes behind it lies in *r, not in local
// variables.
static enum sl_err guarded(struct png_reading *r, struct sl_error *err)
{
    enum sl_err rc;

    if (setjmp(r->failed) != 0)
        return sl_fail(err, r->no_memory ? SL_ENOMEM : SL_ECORRUPT,
                       "broken PNG, near byte %zu: %s", r->bytes - r->left,
                       r->text);
    rc = image_png_new(r, err);
    return rc == SL_OK ? image_png_decode(r, err) : rc;
}

enum sl_err image_png(struct image *im, const uint8_t *bytes, size_t n,
                      struct sl_error *err)
{
    struct png_reading r = {.im = im, .at = bytes, .left = n, .bytes = n};
    enum sl_err rc = guarded(&r, err);

    png_destroy_read_struct(&r.png, &r.info, NULL);
    return rc;
}
