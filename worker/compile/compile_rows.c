// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_rows.c -- layer norm, and rows of a table.
#include "worker/compile/compile_build.h"

// ---- layer norm

static void layer_norm_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    uint32_t beta = compile_scale_or_center(b, node, MODEL_BETA);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->in, dim);
    struct kern_desc d;

    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    kern_desc_ln(&d, KERN_LN_FWD, nd, dim, (float)node->epsilon);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(b->value[node->input[0]]),
                                      WHOLE(gamma), WHOLE(beta),
                                      WHOLE(b->value[i])});
}

static void layer_norm_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i], x = b->value[node->input[0]], t;
    size_t elements = (size_t)compile_elements(b, &node->in);
    int64_t dim[KERN_DIMS], rows;
    unsigned nd = compile_dims(b, &node->in, dim);
    struct kern_desc d;

    rows = (int64_t)elements / compile_channels(&node->in);
    compile_sum_rows(b, i, MODEL_BETA, rows, dy, b->t); // dx takes its place
    t = compile_tensor(b, elements * b->real);
    kern_desc_ln(&d, KERN_LN_BWD, nd, dim, (float)node->epsilon);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){
                     WHOLE(x), WHOLE(dy),
                     WHOLE(compile_scale_or_center(b, node, MODEL_GAMMA)),
                     WHOLE(dy), WHOLE(t)});
    compile_sum_rows(b, i, MODEL_GAMMA, rows, t, KERN_F32);
    if (compile_wants_grad(b, node, 0))
        compile_pass(b, node->input[0], dy, true);
}

const struct compile_layer compile_layer_norm = {
    .forward = layer_norm_forward, .backward = layer_norm_backward};

// ---- rows of a table

static void embedding_describe(const struct build *b,
                               const struct model_node *node,
                               struct kern_desc *d, enum kern_op op)
{
    const struct model_variable *v =
        &b->model->variables[node->weight[MODEL_EMBEDDINGS]];
    int64_t n = compile_elements(b, &node->in);

    kern_desc_gather(d, op, n, (int64_t)v->shape.dim[0],
                     (int64_t)v->shape.dim[1]);
    if (b->t != KERN_F32)
        kern_desc_dtype(d, b->t);
}

// Returns the elements that a layer reads of its table for a batch.
static int64_t rows_elements(const struct build *b,
                             const struct model_node *node)
{
    return (int64_t)(b->o->batch * node->out.dim[0]);
}

// The rows are there, summed up by sample: they only become activations.
static void rows_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t n = rows_elements(b, node);
    uint32_t x = compile_at(b, PROGRAM_ROWS, b->p->tables[node->table].offset,
                            (size_t)n * b->real);

    b->value[i] = compile_cast(b, i, x, n, KERN_F32, b->t);
}

static void rows_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t n = rows_elements(b, node);
    uint32_t dx =
        compile_at(b, PROGRAM_ROW_GRADS, b->p->tables[node->table].offset,
                   (size_t)n * b->real);
    struct kern_shape from = kern_shape(b->t, 1, &n);
    struct kern_shape to = kern_shape(KERN_F32, 1, &n);
    struct kern_desc d;

    kern_desc_axpby(&d, &from, &to, 1, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(b->grad[i]), WHOLE(dx)});
}

static void gather_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t table = compile_weight(b, node, MODEL_EMBEDDINGS, PROGRAM_PARAMS);
    struct kern_desc d;

    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    embedding_describe(b, node, &d, KERN_GATHER);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(compile_numbers(b, i, node->input[0])),
                             WHOLE(table), WHOLE(b->value[i])});
}

static void gather_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_desc d;
    uint32_t sum;

    if (node->frozen)
        return;
    sum = compile_grad(b, i, MODEL_EMBEDDINGS);
    embedding_describe(b, node, &d, KERN_GATHER_BWD);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(compile_numbers(b, i, node->input[0])),
                             WHOLE(b->grad[i]), WHOLE(sum)});
    compile_grad_home(b, i, MODEL_EMBEDDINGS, sum, KERN_F32);
}

static void embedding_forward(struct build *b, uint32_t i)
{
    if (b->model->nodes[i].column != NULL)
        rows_forward(b, i);
    else
        gather_forward(b, i);
}

static void embedding_backward(struct build *b, uint32_t i)
{
    if (b->model->nodes[i].column != NULL)
        rows_backward(b, i);
    else
        gather_backward(b, i);
}

const struct compile_layer compile_embedding = {.forward = embedding_forward,
                                                .backward = embedding_backward};
