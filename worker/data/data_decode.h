// SPDX-License-Identifier: Apache-2.0
// worker/data/data_decode.h -- decoders of images, one for each thread that
// reads at the same time.
//
// Threads  decoders_init and _release: one. The rest: any; a decoder that was
//          taken: one.
// Memory   A decoder keeps its spaces from one sample to the next;
//          decoders_release frees all that were given back.
// Errors   those of data_image.h; the caller names the sample. `err` may be
//          NULL.
#ifndef WORKER_DATA_DATA_DECODE_H
#define WORKER_DATA_DATA_DECODE_H

#include <pthread.h>

#include "worker/data/data_image.h"
#include "worker/data/data_source.h"

struct decoder {
    struct decoder *next;
    struct image image;
    struct image_space file;  // for the caller: the bytes of a sample
    struct image_space bytes; // a sample, where floats are wanted
};

struct decoders {
    pthread_mutex_t lock;
    struct decoder *idle;
    uint32_t depth; // of the images (data_image.h)
};

// Makes *s empty. `depth` is that of struct image, for all images.
void decoders_init(struct decoders *s, uint32_t depth);
// Frees all decoders; those that were taken have been given back. *s is then
// for decoders_init only.
void decoders_release(struct decoders *s);

// Returns a decoder that no other thread has, for decoders_give; NULL: no
// memory.
struct decoder *decoders_take(struct decoders *s);
// Gives back a decoder of decoders_take; the caller no longer uses it.
void decoders_give(struct decoders *s, struct decoder *d);

// Checks that a model's input is an image of 3 channels or 1, and fills in its
// shape as data_image_shape does. SL_EINVAL: it is none; `shape` is then
// undefined.
enum sl_err decoder_shape(const struct data_want *want, uint32_t shape[3],
                          struct sl_error *err);

// Decodes an image of n bytes to x, as data_read gives it; `shape` is the
// model's (decoder_shape). x is undefined on failure.
enum sl_err decoder_put(struct decoder *d, const struct data *data,
                        const uint32_t shape[3], const uint8_t *bytes, size_t n,
                        void *x, struct sl_error *err);

// Puts an image of n bytes as decoder_put does, or bytes as they are, as
// `decode` says. SL_EINVAL: it is of another kind, or has another number of
// bytes.
enum sl_err data_put_image(struct decoder *d, const struct data *data,
                           const uint32_t shape[3], enum data_decode decode,
                           const uint8_t *bytes, size_t n, void *x,
                           struct sl_error *err);

#endif
