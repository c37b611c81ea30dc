// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_take.h -- arguments of Keras' layers, and the kinds that
// they are of. For keras_layer.c and keras_argument.c only.
//
// Each take_* is a kind: it adds to t->to what the job has to say of the value,
// which may be nothing, or refuses it.
//
// Threads  one at a time.
// Memory   values are borrowed; what is added is a copy or a reference. No
//          pointer is NULL: a null of JSON is a value, too.
// Errors   SL_ENOTSUP, said in t->g->err, which may be NULL; SL_ENOMEM. After
//          both t->to is as it was.
#ifndef CLIENT_KERAS_KERAS_TAKE_H
#define CLIENT_KERAS_KERAS_TAKE_H

#include "client/keras/keras_inner.h"

// A layer at hand.
struct keras_take {
    struct keras_graph *g;
    const struct keras_node *node;
    json_t *to; // the LayerSpec
};

struct keras_rule;
typedef enum sl_err (*keras_take_fn)(struct keras_take *t,
                                     const struct keras_rule *r,
                                     const json_t *value);

// What becomes of an argument of a class.
struct keras_rule {
    const char *key;
    keras_take_fn take;
    const char *field; // field of LayerSpec; NULL: called as the key
    // What needs not be said, or alone may be: as JSON; for take_activation,
    // and initializers, a bare word. NULL: nothing; but not for take_only,
    // take_initial, take_initializer and take_bias.
    const char *otherwise;
};

// Each takes argument `value` of rule `r` for the layer at hand: it sets
// t->to[field], or adds nothing where a null or `otherwise` is what a job has
// anyway. `value` is as keras_plain gives it, never NULL: of a tuple the list.
// SL_ENOTSUP, with the layer and the argument: it cannot be said.

// Takes any value and adds nothing: the argument changes no result. Returns
// SL_OK always.
enum sl_err take_ignore(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value);
// Refuses any value but null and `otherwise`; adds nothing.
enum sl_err take_only(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value);
// Adds the value as it is.
enum sl_err take_copy(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value);
// Adds an axis as take_axis does; null and an empty list add nothing.
enum sl_err take_axis_or_none(struct keras_take *t, const struct keras_rule *r,
                              const json_t *value);
// Adds the initializer "constant(N)" of the number `value`; refuses all else.
enum sl_err take_constant(struct keras_take *t, const struct keras_rule *r,
                          const json_t *value);
// Adds numbers that a layer was given; refuses null.
enum sl_err take_given(struct keras_take *t, const struct keras_rule *r,
                       const json_t *value);
// Adds a list that a layer was given, or found in data; refuses all else.
enum sl_err take_learnt(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value);
// Adds one number; refuses all else, also null.
enum sl_err take_number(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value);
// Adds the value as take_copy does, but a list of one value, or of two equal
// ones, as the one value. Refuses nothing: the check of the finished spec does.
// SL_ENOMEM.
enum sl_err take_pair(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value);
// Adds an axis, a whole number, which may stand in a list of one; refuses all
// else, also null.
enum sl_err take_axis(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value);
// Adds the job's name for an activation function of Keras' own; refuses
// functions of users, objects that are no function, and hard_sigmoid of Keras
// 2. Whether a job has the function is for the check of the finished spec.
enum sl_err take_activation(struct keras_take *t, const struct keras_rule *r,
                            const json_t *value);
// Adds a job's word for an initializer of Keras'; refuses arguments that a job
// cannot say. A seed is left out.
enum sl_err take_initializer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value);
// Adds the value as take_copy does; if the layer has use_bias false, accepts
// any value and adds nothing.
enum sl_err take_bias_flag(struct keras_take *t, const struct keras_rule *r,
                           const json_t *value);
// Adds a bias' initializer as take_initializer does; if the layer has use_bias
// false, accepts any value and adds nothing.
enum sl_err take_bias(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value);
// Refuses any initializer but null and `otherwise`, with which a job's variable
// always begins; adds nothing.
enum sl_err take_initial(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value);
// Adds {l1, l2} of a regularizer L1, L2 or L1L2, without factors of 0.
enum sl_err take_regularizer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value);
// Adds a bias' regularizer as take_regularizer does; if the layer has use_bias
// false, accepts any value and adds nothing.
enum sl_err take_bias_regularizer(struct keras_take *t,
                                  const struct keras_rule *r,
                                  const json_t *value);
// Accepts float32 and null, and adds nothing; mixed_float16 and mixed_bfloat16
// set g->precision, which holds for the whole job. Refuses others.
enum sl_err take_dtype(struct keras_take *t, const struct keras_rule *r,
                       const json_t *value);
// Adds ((top, bottom), (left, right)) as a list of the four, or one number if
// all are the same; nothing if that is 1. The inner pairs may be __tuple__
// objects. Refuses all else, also null.
enum sl_err take_padding(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value);
// Copies an attention's value_dim; adds nothing if it equals key_dim.
enum sl_err take_value_dim(struct keras_take *t, const struct keras_rule *r,
                           const json_t *value);

// Sets the error "layer 'x' (Dense) has KEY: VALUE; WHY". Returns SL_ENOTSUP.
enum sl_err take_refuse(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value, const char *why);

#endif
