// SPDX-License-Identifier: Apache-2.0
// worker/data/data_source.h -- the interface between data.c and the kinds of
// sources. Only data*.c include it.
//
// Threads  as data.h: one at a time per data, but for a shared read.
// Memory   release frees what open made, and takes all zeroes. Sources and
//          wants are borrowed for the call and copied where they are kept; no
//          pointer to one may be NULL.
// Errors   as data.h: the job's own fault (SL_EINVAL, SL_ENOENT, SL_EDENIED,
//          SL_ECORRUPT, SL_ERANGE, SL_ENOTSUP) or this host's (SL_ENOMEM,
//          SL_EIO); SL_ECANCELED of a pulse. In those that open, `err` may be
//          NULL.
#ifndef WORKER_DATA_DATA_SOURCE_H
#define WORKER_DATA_DATA_SOURCE_H

#include "worker/data/data.h"

// What a source does. `number` is below d->samples.
struct data_ops {
    // Reads a sample as data_read does, but passes over none: SL_ECORRUPT,
    // SL_EINVAL, SL_ERANGE and SL_ENOTSUP say that the sample is bad.
    enum sl_err (*read)(struct data *d, uint64_t number, void *x, void *y,
                        struct sl_error *err);
    // Optional: brings a sample that is read next to the caches. This and
    // `expect`: any thread, also while others read.
    void (*soon)(struct data *d, uint64_t number);
    // Optional: has the system fetch a sample that is read before long.
    void (*expect)(struct data *d, uint64_t number);
    // Optional: returns the name of class `i`, below d->classes.
    const char *(*class_name)(const struct data *d, uint32_t i);
    // Optional: returns the bytes of memory that grow with the data; without
    // it, few.
    uint64_t (*memory)(const struct data *d);
    // Frees what the source has beside the data; also after a failed opening.
    void (*release)(struct data *d);
};

// An id column: a copy of what the source says of it, and the ids of the sample
// that was read last (uint64_t), which read fills in.
struct data_ids {
    struct id_column how;
    struct buf bag;
};

// The first member of every source.
struct data {
    const struct data_ops *ops;
    unsigned refs; // references: the owner's, and one of each data_split
    struct data_want want;
    uint64_t samples;
    uint64_t hash;
    struct data_bad *bad; // a reference; NULL: every sample must be read
    size_t strip; // bytes of an error's text before the path's last part
    size_t features;
    float scale, offset;
    bool u8;          // features are read as u8; else as f32
    bool shared;      // read may be called by several threads at a time
    uint32_t classes; // number of classes that have names
    struct data_ids *ids;
    size_t ids_count;
    bool weighted; // labels come with weights
    // Weights of the rows of the sample that was read last, data_want_rows of
    // them, which read fills in; NULL: the source has none. Only of data that
    // are not shared.
    float *weights;
    float *class_weights; // by class; NULL: all are 1
};

// Returns the bytes of one row's label, without a weight.
size_t data_row_bytes(const struct data *d);

// Makes d->weights, so that labels have weights (d->weighted); SL_ENOMEM.
// Called once at most, by a source that takes s->weights.
enum sl_err data_set_weights(struct data *d, struct sl_error *err);

// Takes over what the last read of `from`, a part of *d or its whole, has read
// beside features and label: the bags of ids change places, so that none is
// copied, and weights are copied.
void data_take_beside(struct data *d, struct data *from);

// Checks that a weight is from 0 to DATA_WEIGHT_MOST. SL_EINVAL, without a
// path.
enum sl_err data_check_weight(double weight, struct sl_error *err);

// Opens a source of two arrays, format idx, npy or npz, and the arrays of its
// weights and ids. Checks the classes of labels that lie in memory. SL_ENOENT
// also: an npz was replaced while its arrays were opened. This and the next
// ones allocate a struct that begins with a data, and call data_init on it;
// data_free frees it. On failure *out is untouched.
enum sl_err data_open_arrays(struct data **out, const struct data_source *s,
                             const struct data_want *want,
                             struct sl_error *err);
// Opens one source; see above.
typedef enum sl_err (*data_open_fn)(struct data **out,
                                    const struct data_source *s,
                                    const struct data_want *want,
                                    struct sl_error *err);
// Opens the files that the patterns s->x and s->y name (common/base/paths.h),
// each with `open`, as one source: as many as s->limit needs; s->weights are a
// pattern too, if s->y is not NULL. Rows of arrays stay in the files if all of
// these have over ARRAY_MEMORY_BYTES together, else not, whatever s->stay says.
// s->x is not NULL. SL_EINVAL also: they name different numbers of files, or
// files have features of different types.
enum sl_err data_open_join(struct data **out, const struct data_source *s,
                           const struct data_want *want, data_open_fn open,
                           struct sl_error *err);
// Opens format csv. Looks the whole file through.
enum sl_err data_open_csv(struct data **out, const struct data_source *s,
                          const struct data_want *want, struct sl_error *err);
// Opens format libsvm: at most one column of ids. Looks the whole file through.
enum sl_err data_open_libsvm(struct data **out, const struct data_source *s,
                             const struct data_want *want,
                             struct sl_error *err);
// Opens format synthetic, any generator. Reads no file. SL_EINVAL: there is no
// such generator (NULL too), s->samples is 0, or classes and labels do not fit
// the model; SL_ERANGE: too many samples; SL_ENOMEM.
enum sl_err data_open_synthetic(struct data **out, const struct data_source *s,
                                const struct data_want *want,
                                struct sl_error *err);

// Opens format images: a folder. Lists its files, and reads none of them. As
// data_open has checked, and this does not, a sample has one label (want->rows)
// and no weight. SL_EINVAL also: s->x is NULL.
enum sl_err data_open_folder(struct data **out, const struct data_source *s,
                             const struct data_want *want,
                             struct sl_error *err);
// Opens format tfrecord. Looks at the head of every record, and keeps an index
// of them (s->index), or reads that in place of it. So does data_open_tar, but
// where folders are the classes.
enum sl_err data_open_tfrecord(struct data **out, const struct data_source *s,
                               const struct data_want *want,
                               struct sl_error *err);
// Opens format webdataset or tar. Looks at the header of every member.
enum sl_err data_open_tar(struct data **out, const struct data_source *s,
                          const struct data_want *want, struct sl_error *err);
// Opens generator "images" of format synthetic, with the errors of
// data_open_synthetic, which calls it.
enum sl_err data_open_pattern(struct data **out, const struct data_source *s,
                              const struct data_want *want,
                              struct sl_error *err);

// Fills in all fields of `d`: those that follow from source and want, and else
// zeroes. Takes a reference to s->bad; s->format is not NULL.
void data_init(struct data *d, const struct data_ops *ops,
               const struct data_source *s, const struct data_want *want);

// Copies the id columns of a source. SL_ERANGE: over IDS_COLUMNS_MAX;
// SL_ENOMEM. data_free frees them, on failure too.
enum sl_err data_set_ids(struct data *d, const struct data_source *s,
                         struct sl_error *err);

// Sets the number of samples of *d: `have`, those that the source has, or
// s->limit if that is lower and not 0. SL_EINVAL if `have` is 0.
enum sl_err data_set_samples(struct data *d, uint64_t have,
                             const struct data_source *s, struct sl_error *err);

// Adds the base name of a path to the hash: the same files elsewhere are equal.
void data_hash_name(struct data *d, const char *path);

// Adds the version of a file that has one (fs_version) to the hash: a place's.
// Does nothing for 0.
void data_hash_version(struct data *d, uint64_t version);

// Checks that a set of `images` images in `classes` folders, found at `path`,
// has images, and as many classes as the model has outputs; with DATA_VALUES
// two classes, for one output. SL_EINVAL, with the path.
enum sl_err data_check_classes(const struct data_want *want, const char *path,
                               uint64_t images, uint32_t classes,
                               struct sl_error *err);
// Adds a number to the hash.
void data_hash_number(struct data *d, uint64_t n);

// Converts n bytes to floats: out[i] = raw[i] * scale + offset. raw may be the
// last n of the 4 n bytes of out.
void data_floats(const uint8_t *raw, size_t n, float scale, float offset,
                 float *out);

// Fills in rows, columns and channels of a sample that is an image: two or
// three dimensions of 1 to 2^14, of two with 1 channel. SL_EINVAL if the model
// does not read images; `shape` is then undefined.
enum sl_err data_image_shape(const struct data_want *want, uint32_t shape[3],
                             struct sl_error *err);

// Reads a decimal number, maybe with an exponent, with blanks and tabs around
// it and nothing else, in any locale. Returns false, with *out undefined, if
// the text is none ("nan" and "inf" are none), or too large for a float.
bool data_parse_number(const char *text, double *out);

// Checks that `value` is a class below `classes`. SL_ERANGE, to which the
// caller adds the file and place.
enum sl_err data_check_class(double value, uint64_t classes,
                             struct sl_error *err);
// Writes the class `value` to y: as its number if d->want.labels is DATA_INDEX,
// else one-hot. SL_ERANGE: it is no whole number from 0 to outputs - 1; y is
// unchanged then, and the caller adds the file and place to the text.
enum sl_err data_put_class(const struct data *d, double value, void *y,
                           struct sl_error *err);
// Writes a label that is one number to y: the value, as f32, if d->want.labels
// is DATA_VALUES, else its class, with the error of data_put_class.
enum sl_err data_put_number(const struct data *d, double value, void *y,
                            struct sl_error *err);

#endif
