// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_inner.h -- what the keras*.c files share. For them only.
//
// Threads  any; a graph: one at a time.
// Memory   JSON values and names are borrowed from the file's JSON, but for
//          what is said to be owned or is set in *out.
// Errors   those of a function with a graph are said in g->err. Its outputs are
//          undefined then.
#ifndef CLIENT_KERAS_KERAS_INNER_H
#define CLIENT_KERAS_KERAS_INNER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/keras/keras.h"
#include "common/base/map.h"
#include "proto/model.h"

#define KERAS_NESTED_MAX 8 // models in models
#define KERAS_EDGES_MAX 100000
#define KERAS_KEYS_MAX 1000 // of an object, such as a config

// A layer with its edges; the sample is node 0, nodes[i] node i + 1.
struct keras_node {
    char *name;             // name in the job, "inner.dense"; owned
    const char *class_name; // borrowed, as config
    const json_t *config;
    uint32_t inputs;
    uint32_t input[MODEL_INPUTS_MAX];
    bool causal; // called with use_causal_mask
    // Called with one number beside its tensor, or before it: x + 3, 1 - x.
    bool numbered, number_first;
    double number;
    bool frozen; // a model around it is not trainable
    // The half of a Bidirectional that begins at the end; `turned`: its config
    // is that of the other half.
    bool second, turned;
    // What the file says of its mask of steps: KERAS_UNSAID, KERAS_UNMASKED, or
    // KERAS_MASKED and more: of that node less KERAS_MASKED, by `mask_number`.
    uint32_t mask;
    double mask_number;
    uint32_t shares; // node of the layer's first call; 0: this is it
};
enum { KERAS_UNSAID, KERAS_UNMASKED, KERAS_MASKED };
// Class of a node that is one of several inputs; of an input that is no row of
// numbers, it is called "NAME.flat", and a Reshape of it has the input's name.
#define KERAS_SLICE "SluiceSlice"
#define KERAS_FLAT "flat"

// The layers of all models in the file, each after its inputs.
struct keras_graph {
    struct keras_node *nodes; // owned
    uint32_t count, cap;
    uint32_t called; // layers and models seen, for each of their calls
    uint32_t frozen; // models around the layer at hand that are not trainable
    size_t edges;
    bool masks;            // a layer masks steps
    uint32_t output;       // node; the first of several
    json_t *outputs;       // as those of struct keras; owned, or NULL
    const json_t *shape;   // input's shape, with the batch's axis; borrowed
    json_t *made;          // a list of what no file says; owned, or NULL
    const char *precision; // f16, bf16, or NULL
    bool keras2;
    struct sl_error *err;
};

// ---- keras_graph.c

// Sets *g, zeroes but for `err`, to the layers of `model`, which must outlive
// it; release it in any case. SL_EINVAL: not what Keras writes, or no shape of
// the input; SL_ENOTSUP: a layer is not supported, or over a limit; SL_ENOMEM.
enum sl_err keras_graph(struct keras_graph *g, const json_t *model);
void keras_graph_release(struct keras_graph *g); // all zeroes is allowed

// Returns true if the class of `layer` is that of a model, which may hold
// layers: Sequential, Functional or Model.
bool keras_is_model(const json_t *layer);

// ---- keras_call.c

// A call of a layer. Its inputs are numbers of layers in the list of the model;
// `at` says which call of each, as the file numbers those.
struct keras_call {
    uint32_t inputs, input[MODEL_INPUTS_MAX], at[MODEL_INPUTS_MAX];
    bool causal;                 // with use_causal_mask
    bool numbered, number_first; // as a node's
    double number;
    uint32_t mask;      // layer + 1 that makes its mask; 0: it has none
    uint32_t mask_at;   // which call of that
    double mask_number; // of keras_masked
    uint32_t node_mask; // of the node
    uint32_t suffix;    // number behind the name of its node; 0: none
};

// Sets *out to call `i` of `layer`, which has a class and a name: one of those
// that it lists (inbound_nodes), and counts its inputs in g->edges. `numbers`:
// the name of each layer of its model -> its number + 1. SL_ENOTSUP: it is
// called with an argument that is not known, or has too many inputs; SL_EINVAL:
// it reads nothing, or what is no layer.
enum sl_err keras_call(struct keras_call *out, struct keras_graph *g,
                       const struct strmap *numbers, const json_t *layer,
                       size_t i);

// Returns the name of the layer that the tensor `value` of the file comes from,
// and sets at[0] to the call of the layer, and at[1] to which of the outputs of
// that it is, both from 0. NULL: `value` is no tensor, and `at` means nothing.
// Tensors are {"class_name": "__keras_tensor__", ...} or ["dense", 0, 0].
const char *keras_tensor(const json_t *value, json_int_t at[2]);
// Sets *layer and *call to what the tensor `value` comes from. SL_EINVAL: it is
// no tensor of a layer in `numbers`, or the number of its call is none; both
// are untouched then.
enum sl_err keras_source(uint32_t *layer, uint32_t *call,
                         const struct strmap *numbers, const json_t *value);

// Returns the class of a layer in Keras 3. Keras 2 wrote x + 3 as TFOpLambda,
// with the name of a function; with one that is not known here it stays
// "TFOpLambda". Borrowed, or a constant; NULL: it has none, or `layer` is NULL
// or no JSON object.
const char *keras_class(const json_t *layer);

// ---- keras_mask.c

// Returns true if `layer` is an op of those that Keras 3 makes masks with.
bool keras_mask_op(const json_t *layer);
// Sets masks[], of each of `layers` and zeroes before, to what its output is as
// a mask; 0: it is none. `numbers` as of keras_call.
void keras_masks(uint32_t *masks, const json_t *layers,
                 const struct strmap *numbers);
// Sets call->mask and ->mask_at, of a call of `layer`, to what the mask is of,
// and call->mask_number; a call without a mask stays as it is. SL_ENOTSUP: it
// is no mask that a job's layers hand on.
enum sl_err keras_masked(struct keras_call *call, struct keras_graph *g,
                         const uint32_t *masks, const json_t *layers,
                         const struct strmap *numbers, const json_t *layer);

// ---- keras_layer.c

// Returns true if keras_layer makes layers of this class of a file: not models,
// InputLayer, and the wrappers Bidirectional and TimeDistributed, of which
// keras_graph makes other nodes.
bool keras_offered(const char *class_name);
// Returns true if layers of this class go step by step.
bool keras_recurrent(const char *class_name);
// Returns true if layers of this class may be called with a number beside a
// tensor.
bool keras_takes_number(const char *class_name);

// Makes *out a LayerSpec of `node`, one of g's, without its inputs; its class
// must be offered, or KERAS_SLICE. Of a further call of a layer with variables
// it has only type, name and shares. May set g->precision. The reference is the
// caller's. SL_ENOTSUP: an argument, or how it is called, is not supported, or
// the first call was with use_causal_mask and this is without, or the reverse;
// SL_ENOMEM.
enum sl_err keras_layer(json_t **out, struct keras_graph *g,
                        const struct keras_node *node);

// ---- keras_augment.c

// Returns true if layers of this class change images at random, and become
// data.train.augment.
bool keras_augments(const char *class_name);
// Returns the number of such layers that the graph begins with: nodes 1 to that
// become none of the job's.
uint32_t keras_augmented(const struct keras_graph *g);
// Appends the change that g->nodes[i] is, of such a class, to the list `to`.
// SL_ENOTSUP: it stands behind another layer, or an argument cannot be said;
// SL_ENOMEM.
enum sl_err keras_augment(json_t *to, struct keras_graph *g, uint32_t i);

// ---- keras_metrics.c

// Adds top_k, evaluate.metrics and evaluate.top_k of the compile_config
// `compiled` (NULL: nothing) to `spec`, but for what `said` has of them, and a
// line to `notes` for what is left out, as keras_fill does. Call it when the
// loss and from_logits of the model are in `spec`: they decide what is left
// out and noted. Fails with SL_ENOMEM only; `spec` and `notes` may then have a
// part of it.
enum sl_err keras_fill_metrics(json_t *spec, const json_t *said,
                               const json_t *compiled, struct buf *notes,
                               struct sl_error *err);

// ---- keras_value.c: words and numbers as Keras writes them

// Returns the name of `layer`, borrowed: its own, else that in its config (old
// files); NULL: it has none.
const char *keras_name(const json_t *layer);

// Returns the name in a job of the loss that `value` of Keras, a word or an
// object, means; NULL: a job has no such loss.
const char *keras_loss_name(const json_t *value);

// Sets g->err to "layer 'x' (Dense) ...", with what follows made as printf
// makes it, and returns SL_ENOTSUP.
enum sl_err keras_refuse(struct keras_graph *g, const char *name,
                         const char *class_name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Returns the string object[key], borrowed; NULL: there is none.
const char *keras_str(const json_t *object, const char *key);

// Returns the items of `value` if that is a tuple, {"class_name": "__tuple__",
// "items": [...]}: a list. Else returns `value` itself, which may be NULL, also
// a tuple in a wrong file that has no list of items. Tuples in the list stay as
// they are.
const json_t *keras_plain(const json_t *value);

// Returns true if the values a and b are equal. 1 equals 1.0, except within an
// array.
bool keras_same(const json_t *a, const json_t *b);
// Returns true if `value` equals the JSON in `text`.
bool keras_is(const json_t *value, const char *text);

#define KERAS_TEXT 320
// Writes `value` as JSON to `out`; what is longer than KERAS_TEXT is cut, and
// ends in "...". Returns `out`, which is "" without memory.
const char *keras_text(char out[KERAS_TEXT], const json_t *value);

// Returns true if `object` belongs to Keras itself: no user has registered it,
// and its module is one of Keras'. True for strings and other plain values.
bool keras_own(const json_t *object);

// Returns the name of a function or of an object's class: "relu",
// "GlorotUniform". NULL: `value` has none.
const char *keras_word(const json_t *value);
// Returns the object's arguments (config); NULL: none.
const json_t *keras_config(const json_t *value);

// Returns true if both names mean the same: without regard to case and
// underscores, as "GlorotUniform" and "glorot_uniform".
bool keras_alike(const char *a, const char *b);

#endif
