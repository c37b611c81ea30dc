// SPDX-License-Identifier: Apache-2.0
// client/keras/keras.h -- what Keras' to_json() writes, as a job's model.
//
// Keras 2 and 3, Sequential and Functional, with models as layers of models; a
// nested model's layers are then called "inner.dense". Several inputs are parts
// of one sample, in the order in which the file lists them (input_layers), and
// several outputs have a loss each, in the order of output_layers. What
// our layers compute is said in their words; everything else is refused:
// classes and arguments that are not known, custom objects, code. A layer that
// is called again becomes one that shares the variables of the first call,
// "dense-2". A variable of the job is called as `<layer>/<weight>`, so that
// python/sluice/keras_weights.py finds it again.
//
// Threads  any.
// Memory   keras_release; texts and `said` are read only during the call.
// Errors   SL_EINVAL: not what Keras writes, with the line if it is no JSON;
//          SL_ENOTSUP: it cannot be said as a job, with the layer and what of
//          it; SL_ERANGE: over a limit, of bytes (KERAS_BYTES_MAX) or of those
//          in common/base/json.h. They name the file. SL_ENOMEM. *out is
//          untouched after a failure; `err` may be NULL.
#ifndef CLIENT_KERAS_KERAS_H
#define CLIENT_KERAS_KERAS_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"

#define KERAS_BYTES_MAX ((size_t)16 << 20)
#define KERAS_NAME 64

struct keras {
    json_t *model; // a ModelSpec; in its input_shape, 0: of any length
    // Of the layers that may have a mask of steps, as far as the file says it:
    // name -> null (no mask), or [name, number]: the output of that layer, or
    // "input", is the number at steps that do not count.
    json_t *masks;
    // Of a model with several outputs, in the order of the file, each
    // [the layer's name in the job, in Keras, the output's name in Keras];
    // NULL: it has one.
    json_t *outputs;
    json_t *augment;  // data.train.augment; NULL or empty: the model has none
    json_t *compiled; // compile_config; NULL: the model was not compiled
    const char *precision; // a literal for train.precision; NULL: none is said
    char name[KERAS_NAME]; // the model's, as a job may be called; "model" if
                           // no job may be called so
};

// Reads text[len], called `name` in errors: what to_json() gives, or the
// model.json of TensorFlow.js, which holds that. *out need not be zeroed;
// release it with keras_release.
enum sl_err keras_read(struct keras *out, const char *name, const char *text,
                       size_t len, struct sl_error *err);
void keras_release(struct keras *k); // all zeroes is allowed

struct model;
// Checks that masks of steps in `m`, the model of k->model, are those that the
// file says. SL_ENOTSUP: a layer has another one; the error names the layer,
// not the file.
enum sl_err keras_check_masks(const struct keras *k, const struct model *m,
                              struct sl_error *err);

// Adds what the model was compiled with (optimizer; loss with from_logits and
// label_smoothing, or losses of several outputs with their weights; top_k,
// train.accumulate, evaluate.metrics and .top_k) and the precision that it
// computes in to the job spec `spec`, which must have its model: Muon looks
// there for embeddings. What `said`, the spec as the user wrote it, has already
// is left as it is; an optimizer without a type in `said`
// changes the compiled one. Appends a line to `notes` for each metric that is
// left out, or means something else than in Keras. `name` is the file's, for
// errors: SL_ENOTSUP and SL_ENOMEM. After a failure `spec` and `notes` may have
// a part of it.
enum sl_err keras_fill(json_t *spec, const json_t *said, const struct keras *k,
                       struct buf *notes, const char *name,
                       struct sl_error *err);

// Adds the changes of images that the model begins with (k->augment itself, by
// a reference) to data.train of `spec`, unless that has augment; without
// data.train, says them in `notes`. SL_ENOMEM.
enum sl_err keras_fill_augment(json_t *spec, const struct keras *k,
                               struct buf *notes, struct sl_error *err);

// Appends a line to `notes` that says which numbers of a sample are which
// input, if the model has several. SL_ENOMEM.
enum sl_err keras_tell_inputs(const struct keras *k, struct buf *notes);

// Appends the classes that become layers of a job, separated by ", ": those of
// models, InputLayer and Random* (keras_fill_augment) are not named. SL_ENOMEM:
// *out may have a part of them.
enum sl_err keras_known(struct buf *out);

#endif
