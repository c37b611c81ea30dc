// SPDX-License-Identifier: Apache-2.0
// worker/data/data.h -- samples by number.
//
// A data is a source of samples 0 .. n-1: features as f32 in the shape the
// model reads, and a label in the form its loss wants. Any sample can be read
// at any time, in any order: that is what lets a closure be a range of an
// epoch's order and run anywhere, twice if need be. Sources: IDX (also
// gzipped), npy, npz, CSV, a folder of images, TFRecord, tar, and synthetic
// generators, whose samples are functions of (seed, number) alone.
//
// Features are x = raw * scale + offset. A source whose features are bytes
// (images; arrays of u8) gives those instead if that is wanted: then the
// model's first operation multiplies and adds. A synthetic test set draws from
// the same task (weights, centres, patterns) as the training set with the same
// seed, but other samples.
//
// A csv, npz or tfrecord may have id columns too (ids.h): each gives a sample a
// bag of ids, which data_read reads with it and data_gather_ids adds to a
// batch.
//
// A sample may have a weight, or one for each row of outputs: of the source's
// own (data_source.weights), of its class (data_weigh_classes), or the product
// of both. Then a class, or the outputs that stand for one row, is followed by
// its weight, an f32: each of the two is from 0 to DATA_WEIGHT_MOST.
//
// Threads  One at a time per data (rows are read through its scratch); if
//          data_shared() says so, data_read any number at a time. data_soon,
//          data_expect and what only asks: any, also while others read.
// Memory   data_free; strings and roots of a data_source are only read by
//          data_open, which takes a reference to its `bad`.
// Units    samples; features and outputs are elements of one sample.
// Errors   All are the job's own fault and name file, place and expectation:
//          SL_EINVAL, SL_ENOENT, SL_EDENIED, SL_ECORRUPT, SL_ERANGE,
//          SL_ENOTSUP. Only SL_ENOMEM and SL_EIO are this host's; SL_ECANCELED
//          (data_open): its pulse is over. The contents of a file are never
//          quoted, only the place: the user that submits a job reads the
//          errors. `err` may be NULL.
#ifndef WORKER_DATA_DATA_H
#define WORKER_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "trainer/base/data_bad.h"
#include "common/base/roots.h"
#include "trainer/base/pulse.h"
#include "worker/data/ids.h"

#define DATA_RANK 4
#define DATA_KEYS_MAX 1024 // most features that are read of a record
#define DATA_WEIGHT_MOST 1e15

enum data_labels {
    DATA_INDEX,   // i32 [n, rows]: classes below `outputs`
    DATA_ONE_HOT, // f32 [n, rows, outputs]; a source with classes is spread out
    DATA_VALUES,  // f32 [n, outputs], where classes of parts are spread out
};

// A part of the label of several outputs, as the source has it: `numbers`
// numbers. Each is a class below `classes`, for which data_read gives a row of
// zeroes with a 1; or, where that is 0, itself.
struct data_label_part {
    uint64_t numbers, classes;
};
#define DATA_PARTS_MAX 16

// The form of samples that the model reads.
struct data_want {
    unsigned rank; // dimensions of one sample
    uint64_t dim[DATA_RANK];
    uint64_t outputs; // elements of the model's output, or of a row of it
    uint64_t rows; // rows that have a class each; 0: one, as with DATA_VALUES
    enum data_labels labels;
    // Of DATA_VALUES: the parts of a label, which have `outputs` numbers; 0:
    // one part of numbers.
    uint32_t parts;
    struct data_label_part part[DATA_PARTS_MAX];
    bool u8;   // features may be given as bytes
    bool test; // the test set: its synthetic samples are others
};

enum data_decode {
    DATA_DECODE_AUTO, // JPEG or PNG, as the first bytes say
    DATA_DECODE_JPEG,
    DATA_DECODE_PNG,
    DATA_DECODE_RAW, // bytes, as many as a sample has
};

// A feature of a record or a member of a group. `key` NULL: it is not said.
struct data_feature {
    const char *key;
    const char *field; // of a label in JSON; NULL: none
    enum data_decode decode;
    int64_t first; // of a label: what is class 0
};

struct index_place;

// A source of samples: SourceSpec as plain values. NULL: not set.
struct data_source {
    // idx, npy, npz, csv, libsvm, synthetic, images, tfrecord, webdataset, tar
    const char *format;
    const char *x,
        *y; // images: x is the folder; or patterns (common/base/paths.h)
    // Rows of arrays stay in the file, however few they are. Not read of a
    // pattern: data_open_join.
    bool stay;
    const char *x_member, *y_member; // npz
    // idx, npy: a path, or a pattern; npz: a member; csv: a column. NULL: all
    // weigh 1
    const char *weights;
    double scale, offset;
    bool header; // csv
    char delimiter;
    const char *label_column;
    char *const *label_columns; // csv, of DATA_VALUES, in place of label_column
    size_t label_columns_count;
    char *const *columns; // dense ones; none: all but label and ids
    size_t columns_count;
    const struct id_column *ids; // csv, libsvm, npz, tfrecord
    size_t ids_count;
    uint64_t first_index;   // libsvm: the number of the first value
    uint64_t samples, seed; // synthetic
    const char *generator;  // binary, classes, images
    uint32_t classes;
    // images, tar: each class's folder; none: in byte order
    char *const *names;
    size_t names_count;
    uint32_t depth; // images: bits in use of 16; 0: all
    struct data_feature image, number, label; // tfrecord, webdataset
    uint64_t limit;                           // most samples to use; 0: all
    const struct roots *roots;       // folders where files may lie; NULL: none
    const struct index_place *index; // where indexes are kept; NULL: nowhere
    struct data_bad *bad; // samples that are passed over; NULL: none may be
    struct pulse *pulse;  // beats while a long file is looked through
};

struct data;

// Returns the number of classes that a sample's label has.
static inline size_t data_want_rows(const struct data_want *want)
{
    return want->rows > 1 ? (size_t)want->rows : 1;
}

// Opens a source and checks that it fits `want`. Long files are looked through,
// with beats of source->pulse; waits for the disk or the network as long as
// that pulse goes on (file_wait_set). What a folder or an archive of images
// holds is logged. On failure *out is untouched. SL_ENOTSUP: there is no such
// format (NULL too), it has one class for a sample and several are wanted, or
// it has no weights and they are.
enum sl_err data_open(struct data **out, const struct data_source *source,
                      const struct data_want *want, struct sl_error *err);
// Frees the data; no read of it is under way. NULL is allowed. What data_split
// made of it keeps it until that is freed as well.
void data_free(struct data *d);

// A share of a set that is not trained with.
struct data_part {
    uint64_t seed;
    double part; // as of order_held_out (plan/order.h)
    bool held;   // take the held-out samples; false: take all others
};
// Makes *out the samples of a share of `whole`, or all others, numbered from 0
// on in their order, and a test set if `held`; `whole` was opened without
// `bad`, which is that of *out. It is read as often as a read of *out: one at a
// time of both, unless they are shared. Takes a bit of memory for each sample
// of `whole`, and looks at every number, with beats of `pulse` (or NULL). The
// weights of classes of `whole` are not those of *out (data_weigh_classes).
// SL_EINVAL: there are no such samples; SL_ERANGE: `whole` has over 2^32;
// SL_ENOMEM, SL_ECANCELED. On failure *out is untouched.
enum sl_err data_split(struct data **out, struct data *whole,
                       const struct data_part *part, struct data_bad *bad,
                       struct pulse *pulse, struct sl_error *err);

// Returns the number of samples.
uint64_t data_samples(const struct data *d);

// Returns a hash of format, base names, sizes, shapes, names of classes, the
// versions of files that have one (fs_version), a generator with its seed, and
// the number of samples to use (`limit`): equal on all hosts that have the same
// files.
uint64_t data_hash(const struct data *d);

// Returns the bytes of one sample's features, as data_read gives them.
size_t data_sample_bytes(const struct data *d);

// Returns true if data_read gives features as u8, to be multiplied by
// data_scale and then moved by data_offset.
bool data_is_u8(const struct data *d);
// Returns the factor of raw features: x = raw * scale + offset. Features that
// data_read gives as f32 have it already.
float data_scale(const struct data *d);
// Returns the number that is added to raw features (data_scale); features that
// data_read gives as f32 have it already.
float data_offset(const struct data *d);

// Returns true if reading a sample is work that several threads may share.
bool data_shared(const struct data *d);

// Returns the bytes of memory that grow with the data: samples, or tables of
// where samples lie. Those of a share are its own alone, without those of the
// set that data_split made it of.
uint64_t data_memory(const struct data *d);

// Returns the number of classes that have names, those of folders (images,
// tar), else 0.
uint32_t data_classes(const struct data *d);

// Returns the name of a class below data_classes(d), from 0; it belongs to the
// data.
const char *data_class(const struct data *d, uint32_t number);

// Returns true if labels are f32, as DATA_VALUES.
bool data_has_values(const struct data *d);

// Returns the bytes of one sample's label, as data_read gives it: with its
// weights, if it has some.
size_t data_label_bytes(const struct data *d);

// Returns true if weights come with the labels.
bool data_weighted(const struct data *d);

// Multiplies the weight of each row of *d, from now on, by that of its class:
// weights[class], copied. DATA_INDEX, or the largest of DATA_ONE_HOT; of
// DATA_VALUES of one output class 1 is a label above 0.5. Called once at most,
// before *d is read. SL_EINVAL: `count` is not the number of classes, or
// a weight is not from 0 to DATA_WEIGHT_MOST; SL_ENOMEM. A failure leaves *d as
// it was.
enum sl_err data_weigh_classes(struct data *d, const double *weights,
                               size_t count, struct sl_error *err);

// Returns the number of id columns.
size_t data_id_columns(const struct data *d);

// Adds the bags of the sample that the last data_read of d has read, with
// success, to `ids`, which was begun for data_id_columns(d) columns. Returns
// SL_OK; SL_ERANGE, as ids_add, with the column; SL_ENOMEM.
enum sl_err data_gather_ids(const struct data *d, struct ids *ids,
                            struct sl_error *err);

// Fetches sample `number`, one of the next few to be read, to the caches of the
// processor, if it is in memory. Ignores a number past the end.
void data_soon(struct data *d, uint64_t number);

// Has the system fetch sample `number`, which is in one of the next batches, if
// it lies on a disk. Ignores a number past the end.
void data_expect(struct data *d, uint64_t number);

// Reads sample `number` into x (data_sample_bytes) and y (data_label_bytes),
// and keeps its ids for data_gather_ids; all are undefined on failure, after
// which other samples may be read. With a `bad` of the source, a sample that
// fails with SL_ECORRUPT, SL_EINVAL, SL_ERANGE or SL_ENOTSUP is noted
// (bad_note), and replaced by the next one that can be read; behind the last
// one comes the first. SL_ERANGE: no such sample, or more bad ones than are
// allowed. SL_ECORRUPT also if every sample is bad.
enum sl_err data_read(struct data *d, uint64_t number, void *x, void *y,
                      struct sl_error *err);

#endif
