// SPDX-License-Identifier: Apache-2.0
// client/keras_take.h -- arguments of Keras' layers, and the kinds that they
// are of. For keras_layer.c and keras_argument.c only.
//
// Each take_* is a kind: it adds to t->to what the job has to say of the value,
// which may be nothing, or refuses it.
#ifndef CLIENT_KERAS_TAKE_H
#define CLIENT_KERAS_TAKE_H

#include "client/keras_inner.h"

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
    const char *field;     // of LayerSpec; NULL: called as the key
    const char *otherwise; // as JSON: what needs not be said, or alone may be
};

enum sl_err take_ignore(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value); // it changes nothing
enum sl_err take_only(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value); // null or `otherwise`
enum sl_err take_copy(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value); // as it is
enum sl_err take_number(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value); // one number, not a list
enum sl_err take_pair(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value); // one or two numbers
enum sl_err take_axis(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value); // the last one
enum sl_err take_activation(struct keras_take *t, const struct keras_rule *r,
                            const json_t *value); // a function
enum sl_err take_initializer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value);
enum sl_err take_bias(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value); // the initializer of a bias
enum sl_err take_initial(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value); // ours begins as `otherwise`
enum sl_err take_regularizer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value);
enum sl_err take_bias_regularizer(struct keras_take *t,
                                  const struct keras_rule *r,
                                  const json_t *value);
enum sl_err take_dtype(struct keras_take *t, const struct keras_rule *r,
                       const json_t *value);
enum sl_err take_padding(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value); // ((1, 1), (1, 1))
enum sl_err take_value_dim(struct keras_take *t, const struct keras_rule *r,
                           const json_t *value); // of attention

// "layer 'x' (Dense) has KEY: VALUE; WHY". Returns SL_ENOTSUP.
enum sl_err take_refuse(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value, const char *why);

#endif
