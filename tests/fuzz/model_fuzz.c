// SPDX-License-Identifier: Apache-2.0
// The model's graph, from the JSON of a ModelSpec to nodes and variables.
#include <jansson.h>

#include "common/base/json.h"
#include "common/base/mem.h"
#include "proto/layout.h"
#include "proto/model.h"
#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

static void check_node(const struct model *m, uint32_t i)
{
    const struct model_node *n = &m->nodes[i];

    FUZZ_TRUE(n->name != NULL && n->inputs <= MODEL_INPUTS_MAX);
    FUZZ_TRUE(i == 0 || n->inputs > 0);
    for (uint32_t k = 0; k < n->inputs; k++)
        FUZZ_TRUE(n->input[k] < i); // in order, so without a cycle
    FUZZ_TRUE(model_shape_elements(&n->out) > 0);
    for (uint32_t w = 0; w < MODEL_WEIGHTS; w++)
        FUZZ_TRUE(n->weight[w] == MODEL_NONE ||
                  n->weight[w] < m->variables_count);
    for (uint32_t k = 0; k < i; k++)
        FUZZ_TRUE(strcmp(m->nodes[k].name, n->name) != 0);
}

static void check_variables(const struct model *m)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];

        FUZZ_TRUE(v->first == first);
        FUZZ_TRUE(v->elements == model_shape_elements(&v->shape));
        FUZZ_TRUE(v->elements > 0 && v->elements <= MODEL_VARIABLE_MAX);
        first += v->elements;
    }
    FUZZ_TRUE(m->elements == first && first <= MODEL_ELEMENTS_MAX);
    FUZZ_TRUE(m->trainable <= m->elements);
}

// Placed whole on one shard each: what the coordinator would send is a layout.
static void check_layout(const struct model *m)
{
    Sluice__V1__Variable **variables = NULL;
    struct part_var *vars = NULL;
    uint64_t rows, row_elements;

    FUZZ_TRUE(layout_variables(&variables, m) == SL_OK);
    FUZZ_TRUE(layout_part_vars(&vars, m) == SL_OK);
    for (uint32_t i = 0; i < m->variables_count; i++) {
        FUZZ_TRUE(layout_rows(variables[i], &rows, &row_elements, NULL) ==
                  SL_OK);
        FUZZ_TRUE(rows * row_elements == m->variables[i].elements);
        FUZZ_TRUE(wire_check(&variables[i]->base, NULL) == SL_OK);
    }
    layout_variables_free(variables, m->variables_count);
    sl_free(vars);
}

static void make(const Sluice__V1__ModelSpec *spec)
{
    struct model *const untouched = (struct model *)(uintptr_t)0xa5;
    struct sl_error err = SL_ERROR_INIT;
    struct model *m = untouched;
    enum sl_err rc = model_make(&m, spec, &err);

    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(m == untouched);
        return;
    }
    for (uint32_t i = 0; i < m->nodes_count; i++)
        check_node(m, i);
    check_variables(m);
    check_layout(m);
    model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *spec = NULL;
    json_t *root = NULL;

    if (sl_json_parse(&root, "model.json", (const char *)data, size, NULL,
                      NULL) != SL_OK)
        return 0;
    if (pbjson_read(&spec, &sluice__v1__model_spec__descriptor, root,
                    "model.json", NULL) == SL_OK)
        make((const Sluice__V1__ModelSpec *)spec);
    wire_free(spec);
    json_decref(root);
    return 0;
}
