// SPDX-License-Identifier: Apache-2.0
// worker/data/data_source.h -- what a kind of source gives to data.c. Only
// data*.c include it.
//
// Threads  as data.h. Memory: release frees what open made, and allows all
// zeroes. Errors: as data.h.
#ifndef WORKER_DATA_DATA_SOURCE_H
#define WORKER_DATA_DATA_SOURCE_H

#include "worker/data/data.h"

struct data_ops {
    enum sl_err (*read)(struct data *d, uint64_t number, void *x, void *y,
                        struct sl_error *err);
    // Optional: the sample is read next; the caches fetch it.
    void (*soon)(struct data *d, uint64_t number);
    // Optional: the sample is read before long; the system fetches it.
    void (*expect)(struct data *d, uint64_t number);
    // Optional: the name of class i, below d->classes.
    const char *(*class_name)(const struct data *d, uint32_t i);
    // Optional: bytes of memory that grow with the data; without it, few.
    uint64_t (*memory)(const struct data *d);
    void (*release)(struct data *d);
};

// First member of every source.
struct data {
    const struct data_ops *ops;
    struct data_want want;
    uint64_t samples;
    uint64_t hash;
    struct data_bad *bad; // a reference; NULL: every sample must be read
    size_t strip;         // of errors: bytes of what lies before the path's end
    size_t features;
    float scale, offset;
    bool u8;          // what read gives; else f32
    bool shared;      // read may be called by several threads at a time
    uint32_t classes; // that have names
};

// Each allocates a struct of its own that begins with a data, and calls
// data_init on it.
enum sl_err data_open_arrays(struct data **out, const struct data_source *s,
                             const struct data_want *want,
                             struct sl_error *err);
enum sl_err data_open_csv(struct data **out, const struct data_source *s,
                          const struct data_want *want, struct sl_error *err);
enum sl_err data_open_synthetic(struct data **out, const struct data_source *s,
                                const struct data_want *want,
                                struct sl_error *err);

enum sl_err data_open_folder(struct data **out, const struct data_source *s,
                             const struct data_want *want,
                             struct sl_error *err);
// Generator "images" of format synthetic.
enum sl_err data_open_pattern(struct data **out, const struct data_source *s,
                              const struct data_want *want,
                              struct sl_error *err);

void data_init(struct data *d, const struct data_ops *ops,
               const struct data_source *s, const struct data_want *want);

// The number of samples to use of `have`; 0 is SL_EINVAL.
enum sl_err data_set_samples(struct data *d, uint64_t have,
                             const struct data_source *s, struct sl_error *err);

// Adds a fact to the hash: the base name of a path, or a number.
void data_hash_name(struct data *d, const char *path);
void data_hash_number(struct data *d, uint64_t n);

// n bytes as floats: out[i] = raw[i] * scale + offset. raw may lie behind the
// first 3 n bytes of out.
void data_floats(const uint8_t *raw, size_t n, float scale, float offset,
                 float *out);

// Rows, columns and channels of a sample that is an image; SL_EINVAL if what
// the model reads is none.
enum sl_err data_image_shape(const struct data_want *want, uint32_t shape[3],
                             struct sl_error *err);

// Writes a class to y in the form that is wanted. SL_ERANGE if it is none of
// the model's; the caller says where it stands.
enum sl_err data_put_class(const struct data *d, double value, void *y,
                           struct sl_error *err);

#endif
