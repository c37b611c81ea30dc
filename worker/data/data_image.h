// SPDX-License-Identifier: Apache-2.0
// worker/data/data_image.h -- JPEG and PNG files as pixels of the size that a
// model reads.
//
// The first bytes of a file tell its type, not its name. The header is read
// before anything else, and an image over the caps is refused then. All images
// become 8 bit RGB: grey and palettes are expanded, of 16 bits the high ones
// are taken, or of `depth` low bits (a camera's 12) so that the largest value
// is 255; alpha is dropped, CMYK is converted as if ink were ideal. Colour
// profiles, gamma and EXIF's orientation are ignored.
//
// Resizing is bilinear with half-pixel centres, not antialiased, each side by
// its own factor: sample i of n lies at (i + 1/2) in/n - 1/2, held to the
// image; the value is rounded to the nearest byte. That is what Keras'
// image_dataset_from_directory does, but for the rounding.
//
// Threads  one at a time per image.
// Memory   An image is zeroes before its first file, but for pixels_max and
//          depth; it keeps its spaces for the next file; image_release frees.
//          The libraries' own: libpng's lies in a pool of the image, libjpeg
//          takes some per file and gives it back.
// Units    pixels; bytes of a file.
// Errors   SL_ECORRUPT, SL_ERANGE (over the caps), SL_ENOTSUP, SL_ENOMEM. The
//          caller names the file. After a failure no image is decoded; the
//          struct may be used for the next file. `err` may be NULL.
#ifndef WORKER_DATA_DATA_IMAGE_H
#define WORKER_DATA_DATA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define IMAGE_FILE_BYTES ((uint64_t)64 << 20)
#define IMAGE_SIDE 16384
#define IMAGE_PIXELS 100000000
// An image of more than IMAGE_RATIO_FROM bytes has at most IMAGE_RATIO times
// the bytes of its file.
#define IMAGE_RATIO 100
#define IMAGE_RATIO_FROM ((size_t)16 << 20)

// Memory that is kept from one file to the next.
struct image_space {
    void *at;
    size_t bytes;
};

struct image {
    uint64_t pixels_max; // 0: IMAGE_PIXELS
    uint32_t depth;      // bits in use of a sample of 16; 0: all
    uint32_t used;       // bits of 16 that the last file uses; 0: not 16 bits
    uint32_t width, height;                 // pixels of the last image decoded
    struct image_space rgb;                 // its pixels [height, width, 3]
    struct image_space row;                 // scratch: a row of CMYK
    struct image_space axes, lines, scaled; // scratch of resizing
    struct image_space pool;                // libpng's
    size_t pool_used;
    struct jpeg *jpeg; // made with the first JPEG
};

// Frees all spaces and makes *im all zeroes, pixels_max and depth too. All
// zeroes is allowed.
void image_release(struct image *im);

// Returns true if `ending` is that of a name of an image which can be decoded:
// jpg, jpeg or png, in any case.
bool image_ending(const char *ending);

// Decodes a JPEG or PNG file of `n` bytes, which are not kept. Replaces the
// image decoded before.
enum sl_err image_decode(struct image *im, const uint8_t *bytes, size_t n,
                         struct sl_error *err);

// Writes the image that image_decode has decoded, resized, to `out` as [height,
// width, channels]; called only after an image_decode with success, and may be
// called again. channels is 3, or 1 for its luminance (ITU-R 601); else
// SL_EINVAL. SL_ENOMEM. `out` is undefined on failure.
enum sl_err image_put(struct image *im, uint32_t height, uint32_t width,
                      uint32_t channels, uint8_t *out, struct sl_error *err);

// ---- between the files data_image*.c

// Decodes a JPEG file of `n` bytes into im->rgb. Errors as above.
enum sl_err image_jpeg(struct image *im, const uint8_t *bytes, size_t n,
                       struct sl_error *err);
// Decodes a PNG file of `n` bytes into im->rgb. Errors as above.
enum sl_err image_png(struct image *im, const uint8_t *bytes, size_t n,
                      struct sl_error *err);
void image_jpeg_free(struct jpeg *j); // NULL is allowed

// Sets the size of the image as the header of a file of `file_bytes` bytes
// says, and makes room for its pixels in im->rgb. SL_ECORRUPT: no pixels;
// SL_ERANGE: over the caps; SL_ENOMEM.
enum sl_err image_begin(struct image *im, uint64_t width, uint64_t height,
                        size_t file_bytes, struct sl_error *err);

// Makes *r at least `bytes` bytes large, aligned to 64 bytes; its contents are
// lost if it grows. Checks no cap; with 0 bytes, or if it is large enough,
// leaves it as it is. SL_ENOMEM: it is empty, {NULL, 0}.
enum sl_err image_space(struct image_space *r, size_t bytes,
                        struct sl_error *err);

#endif
