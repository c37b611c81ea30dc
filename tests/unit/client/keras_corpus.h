// SPDX-License-Identifier: Apache-2.0
// tests/unit/client/keras_corpus.h -- the files in keras/, and what make.py
// there expects of each.
#ifndef TESTS_UNIT_CLIENT_KERAS_CORPUS_H
#define TESTS_UNIT_CLIENT_KERAS_CORPUS_H

#include <jansson.h>

#include "client/keras/keras.h"
#include "common/base/fs.h"
#include "proto/layout.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

// Each of Keras 2 and of Keras 3: keras/NAME-k2.json, keras/NAME-k3.json.
#define KERAS_CORPUS(X)                                                        \
    X(mlp)                                                                     \
    X(mlp_built)                                                               \
    X(initializers)                                                            \
    X(lenet)                                                                   \
    X(pools)                                                                   \
    X(norms)                                                                   \
    X(resnet)                                                                  \
    X(activations)                                                             \
    X(nested)                                                                  \
    X(nested_sequential)                                                       \
    X(branches)                                                                \
    X(first_layer)                                                             \
    X(sums)                                                                    \
    X(deep)                                                                    \
    X(names)                                                                   \
    X(mixed)                                                                   \
    X(padding)                                                                 \
    X(channels)                                                                \
    X(shapes)                                                                  \
    X(joins)                                                                   \
    X(extremes)                                                                \
    X(mobile)                                                                  \
    X(dilated)                                                                 \
    X(more_activations)                                                        \
    X(rare_activations)                                                        \
    X(transformer)                                                             \
    X(embedding)                                                               \
    X(regularized)                                                             \
    X(line)                                                                    \
    X(drawn)                                                                   \
    X(composed)                                                                \
    X(numbers)                                                                 \
    X(frozen)                                                                  \
    X(recurrent)                                                               \
    X(words)                                                                   \
    X(masked)                                                                  \
    X(sparse_steps)                                                            \
    X(siamese)                                                                 \
    X(twice)                                                                   \
    X(encoded)                                                                 \
    X(inputs)                                                                  \
    X(outputs)

// Appends a file of the corpus to *out, and returns its path, which lives until
// the next call.
static inline const char *corpus_read(struct buf *out, const char *name)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/%s", KERAS_FILES, name);
    T_OK(fs_read_all(fs_posix(), path, KERAS_BYTES_MAX, out, t_err()));
    return path;
}

// Returns what is expected of `name`, such as "mlp-k2", for json_decref.
static inline json_t *corpus_want(const char *name)
{
    struct buf text = BUF_INIT;
    char file[128];
    json_t *want;

    snprintf(file, sizeof(file), "%s.want.json", name);
    (void)corpus_read(&text, file);
    want = json_loads(buf_text(&text), 0, NULL);
    T_TRUE(want != NULL);
    buf_release(&text);
    return want;
}

// Reads the model `name`, such as "mlp-k2", into *k, as keras_read does.
static inline void corpus_import(struct keras *k, const char *name)
{
    struct buf text = BUF_INIT;
    char file[128];
    const char *path;

    snprintf(file, sizeof(file), "%s.json", name);
    path = corpus_read(&text, file);
    T_OK(keras_read(k, path, buf_text(&text), text.len, t_err()));
    buf_release(&text);
}

// Makes the graph of what was read, for model_free.
static inline struct model *corpus_model(const struct keras *k)
{
    ProtobufCMessage *spec = NULL;
    struct model *m = NULL;
    json_t *names, *outputs = json_array();
    size_t i;

    // What the check of a spec makes of its losses.
    json_array_foreach(k->outputs, i, names)
        T_EQ(json_array_append(outputs, json_array_get(names, 0)), 0);
    if (k->outputs != NULL)
        T_EQ(json_object_set(k->model, "outputs", outputs), 0);
    json_decref(outputs);
    T_OK(pbjson_read(&spec, &sluice__v1__model_spec__descriptor, k->model,
                     "model", t_err()));
    T_OK(model_make(&m, (Sluice__V1__ModelSpec *)spec, t_err()));
    wire_free(spec);
    return m;
}

// Returns a variable as its export would see it, without its name.
static inline struct layout_variable
corpus_variable(const struct model_variable *v)
{
    struct layout_variable out = {
        .shape = v->shape,
        .elements = v->elements,
        .rows = v->shape.dim[0],
        .row_elements = v->elements / v->shape.dim[0],
        .keras_rank = v->keras_rank,
    };

    memcpy(out.keras_order, v->keras_order, sizeof(out.keras_order));
    return out;
}

#endif
