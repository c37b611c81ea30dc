// SPDX-License-Identifier: Apache-2.0
// worker/data/data_image_jpeg.c -- JPEG by libjpeg-turbo.
//
// The library reports an error by a call that must not return: all its errors
// arrive behind one setjmp. Damage that it only warns of and makes up for (a
// file that ends early, bits that are no code) is an error here, except for a
// few harmless oddities that cameras and editors write.
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "common/base/mem.h"
#include "worker/data/data_image.h"

#define SCANS_MAX 100 // a progressive file has about 10
#define MEMORY_MAX ((long)1 << 30)
#define CMYK 4

struct jpeg {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    size_t bytes; // of the file
    char text[JMSG_LENGTH_MAX];
};

static struct jpeg *of(j_common_ptr common)
{
    return common->client_data;
}

// Notes the library's text, and the byte where it was. Messages with numbers in
// them would quote the file.
static void image_jpeg_on_error(j_common_ptr common)
{
    struct jpeg *j = of(common);
    const struct jpeg_error_mgr *e = common->err;
    const char *text = e->msg_code > 0 && e->msg_code <= e->last_jpeg_message
                           ? e->jpeg_message_table[e->msg_code]
                           : NULL;
    size_t left = j->d.src != NULL ? j->d.src->bytes_in_buffer : 0;

    if (text == NULL || strchr(text, '%') != NULL)
        text = "damaged, or a kind of JPEG that sluice cannot read";
    snprintf(j->text, sizeof(j->text), "near byte %zu: %s",
             left < j->bytes ? j->bytes - left : 0, text);
    longjmp(j->failed, 1);
}

static bool harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
           code == JWRN_JFIF_MAJOR || code == JWRN_TOO_MUCH_DATA;
}

// Makes warnings (level -1) errors; levels from 0 on are traces.
static void image_jpeg_on_message(j_common_ptr common, int level)
{
    if (level < 0 && !harmless(common->err->msg_code))
        image_jpeg_on_error(common);
}

static void on_output(j_common_ptr common)
{
}

// Limits the scans: a small file can ask for a great many over a great many
// pixels.
static void on_progress(j_common_ptr common)
{
    struct jpeg *j = of(common);

    if (j->d.input_scan_number <= SCANS_MAX)
        return;
    snprintf(j->text, sizeof(j->text), "the JPEG has more than %d scans",
             SCANS_MAX);
    longjmp(j->failed, 1);
}

// Makes the decoder. jpeg_create_decompress allocates, so it may fail by the
// error call.
static struct jpeg *jpeg_new(void)
{
    struct jpeg *j = sl_calloc(1, sizeof(*j));

    if (j == NULL)
        return NULL;
    j->d.err = jpeg_std_error(&j->errors);
    j->d.client_data = j;
    j->errors.error_exit = image_jpeg_on_error;
    j->errors.emit_message = image_jpeg_on_message;
    j->errors.output_message = on_output;
    if (setjmp(j->failed) != 0) {
        jpeg_destroy_decompress(&j->d);
        sl_free(j);
        return NULL;
    }
    jpeg_create_decompress(&j->d);
    j->progress.progress_monitor = on_progress;
    j->d.progress = &j->progress;
    j->d.mem->max_memory_to_use = MEMORY_MAX;
    return j;
}

void image_jpeg_free(struct jpeg *j)
{
    if (j == NULL)
        return;
    jpeg_destroy_decompress(&j->d);
    sl_free(j);
}

// Converts CMYK to RGB. Adobe's programs write ink inverted: 255 is none.
static void from_cmyk(const uint8_t *ink, uint32_t width, bool inverted,
                      uint8_t *rgb)
{
    unsigned flip = inverted ? 0 : 255;

    for (uint32_t i = 0; i < width; i++, ink += CMYK, rgb += 3)
        for (unsigned c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(((ink[c] ^ flip) * (ink[3] ^ flip) + 127) / 255);
}

static void read_rows(struct image *im)
{
    struct jpeg_decompress_struct *d = &im->jpeg->d;
    bool ink = d->out_color_space == JCS_CMYK;

    while (d->output_scanline < d->output_height) {
        uint8_t *to =
            (uint8_t *)im->rgb.at + (size_t)d->output_scanline * im->width * 3;
        JSAMPROW row = ink ? im->row.at : to;

        jpeg_read_scanlines(d, &row, 1);
        if (ink)
            from_cmyk(row, im->width, d->saw_Adobe_marker, to);
    }
}

static enum sl_err image_jpeg_decode(struct image *im, const uint8_t *bytes,
                                     size_t n, struct sl_error *err)
{
    struct jpeg_decompress_struct *d = &im->jpeg->d;
    enum sl_err rc;

    im->jpeg->bytes = n;
    jpeg_mem_src(d, bytes, n);
    jpeg_read_header(d, TRUE);
    rc = image_begin(im, d->image_width, d->image_height, n, err);
    d->out_color_space = JCS_RGB;
    if (d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK) {
        d->out_color_space = JCS_CMYK;
        if (rc == SL_OK)
            rc = image_space(&im->row, (size_t)im->width * CMYK, err);
    }
    if (rc != SL_OK) {
        jpeg_abort_decompress(d);
        return rc;
    }
    jpeg_start_decompress(d);
    read_rows(im);
    jpeg_finish_decompress(d);
    return SL_OK;
}

enum sl_err image_jpeg(struct image *im, const uint8_t *bytes, size_t n,
                       struct sl_error *err)
{
    if (im->jpeg == NULL)
        im->jpeg = jpeg_new();
    if (im->jpeg == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a JPEG decoder");
    if (setjmp(im->jpeg->failed) != 0) {
        jpeg_abort_decompress(&im->jpeg->d);
        return sl_fail(err, SL_ECORRUPT, "broken JPEG, %s", im->jpeg->text);
    }
    return image_jpeg_decode(im, bytes, n, err);
}
