// SPDX-License-Identifier: Apache-2.0
// worker/data/augment.h -- random changes of training images.
//
// What becomes of a sample is a function of (seed, epoch, sample): the words of
// a Philox block, one for each change of the list. So every worker, and every
// attempt of a closure, trains on the same images, and no two epochs do. The
// transforms are those of Keras' layers (RandomTranslation, RandomRotation,
// RandomZoom: bilinear, mirrored at the edge; RandomBrightness,
// RandomContrast); crop moves the image by whole pixels over black. Bytes stay
// bytes: a value is rounded after each change.
//
// Threads  an augment is read-only after augment_add: any.
// Memory   the caller's; nothing is allocated.
// Units    angles in degrees; translations are parts of height and width.
// Errors   none: what a spec may say was checked (spec_augment_fits).
#ifndef WORKER_DATA_AUGMENT_H
#define WORKER_DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUGMENT_MAX 16

enum augment_kind {
    AUGMENT_CROP,       // by up to `high` pixels, whole
    AUGMENT_FLIP,       // `rows` upside down, `columns` left to right
    AUGMENT_TRANSLATE,  // by low to high, drawn for rows, then for columns
    AUGMENT_ROTATE,     // by low to high
    AUGMENT_ZOOM,       // pixel (y, x) comes from 1 + low to 1 + high times it
    AUGMENT_BRIGHTNESS, // low to high of the range are added
    AUGMENT_CONTRAST,   // distance from the mean is 1 + low to 1 + high times
    AUGMENT_MIXUP,      // `high`: alpha of the beta distribution
    AUGMENT_CUTMIX,     // the same
    AUGMENT_KINDS
};

struct augment_change {
    enum augment_kind kind;
    double low, high;
    bool rows, columns;
    float range[2]; // brightness, contrast: of a pixel as it is read
};

struct augment {
    uint64_t seed;
    uint32_t rows, columns, channels; // 1, 1: of samples that are no images
    bool u8;                          // pixels are u8, else f32
    float black;                      // what crop moves in
    size_t labels;                    // f32 of a label; 0: it cannot be mixed
    bool mixes;                       // a change is mixup or cutmix
    unsigned count;
    struct augment_change change[AUGMENT_MAX];
};

// Appends a change. Asserts that there are fewer than AUGMENT_MAX.
void augment_add(struct augment *a, const struct augment_change *c);

// Changes the image `x` of sample `sample` in place, but for what mixes two;
// `scratch` has space for an image and is overwritten.
void augment_apply(const struct augment *a, uint64_t epoch, uint64_t sample,
                   void *x, void *scratch);

// Mixes two samples of a batch with each other, if a change says so, in place:
// their images x[0] and x[1] and their labels y[0] and y[1]. `sample` is the
// number of the first.
void augment_mix(const struct augment *a, uint64_t epoch, uint64_t sample,
                 void *const x[2], float *const y[2]);

#endif
