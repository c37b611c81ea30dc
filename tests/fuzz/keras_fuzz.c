// SPDX-License-Identifier: Apache-2.0
// What Keras' to_json() is taken for, as `sluice import` does: from the text to
// a job's model, optimizer and loss, and to YAML.
#include "client/keras/keras.h"

#include "client/cli/yaml.h"
#include "client/keras/keras_inner.h"
#include "proto/model.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5

// Memory for the calls of as many layers as a job may have, which a file says
// in a few bytes each, or once for all calls of a model. A call becomes up to 3
// nodes, in an array that doubles; names are in the last number.
#define CALLS_BYTES                                                            \
    (MODEL_LAYERS_MAX *                                                        \
     (sizeof(struct keras_call) + 12 * sizeof(struct keras_node) + 1024))

// What is written as YAML is read as the same, but for what YAML's reader does
// not take at all: too long, too deep.
static void check_yaml(const json_t *spec)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    json_t *again = NULL;
    enum sl_err rc;

    FUZZ_TRUE(yaml_write(&text, spec) == SL_OK);
    rc = yaml_read(&again, NULL, "job.yaml", buf_text(&text), text.len, &err);
    FUZZ_TRUE(rc == SL_OK || rc == SL_ERANGE);
    FUZZ_TRUE(rc != SL_OK || json_equal(again, spec));
    json_decref(again);
    buf_release(&text);
}

// The model has every layer's name, or says which of its values is none.
static void check_model(const json_t *model)
{
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *spec = NULL;
    struct model *m = NULL;
    enum sl_err rc = pbjson_read(&spec, &sluice__v1__model_spec__descriptor,
                                 model, "model", &err);

    if (rc == SL_OK)
        rc = model_make(&m, (Sluice__V1__ModelSpec *)spec, &err);
    if (rc == SL_OK) {
        const json_t *layers = json_object_get(model, "layers");

        FUZZ_TRUE(m->nodes_count == json_array_size(layers) + 1);
    } else {
        fuzz_refused(rc, &err);
    }
    model_free(m);
    wire_free(spec);
}

static void check_accepted(const struct keras *k)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf notes = BUF_INIT;
    json_t *spec = json_object();
    enum sl_err rc;

    FUZZ_TRUE(k->name[0] != '\0' && strlen(k->name) < KERAS_NAME);
    check_model(k->model);
    rc = keras_fill(spec, NULL, k, &notes, "model.json", &err);
    if (rc != SL_OK)
        fuzz_refused(rc, &err);
    else if (json_object_set(spec, "model", k->model) == 0)
        check_yaml(spec);
    json_decref(spec);
    buf_release(&notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    struct keras k;
    enum sl_err rc;

    memset(&k, UNTOUCHED, sizeof(k));
    // As specfile_read gives it: with a 0 behind it.
    FUZZ_TRUE(buf_append(&text, data, size) == SL_OK);
    fuzz_budget(CALLS_BYTES + 64 * size);
    rc = keras_read(&k, "model.json", buf_text(&text), size, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(&k);
        keras_release(&k);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(fuzz_all(&k, UNTOUCHED, sizeof(k)));
    }
    buf_release(&text);
    return 0;
}
