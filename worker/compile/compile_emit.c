// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_emit.c -- the small parts that all layers are built
// of: tensors and their shapes, and ops that are planned and appended.
#include <string.h>

#include "common/base/mem.h"
#include "worker/compile/compile_build.h"

void compile_fail(struct build *b, uint32_t node, enum sl_err code,
                  const char *what)
{
    if (b->rc != SL_OK)
        return;
    b->rc = sl_fail(&b->err, code, "layer '%s': %s", b->model->nodes[node].name,
                    what);
}

uint32_t compile_at(struct build *b, enum program_place place, size_t offset,
                    size_t bytes)
{
    if (b->rc != SL_OK)
        return 0;
    if (b->tensors_count == b->tensors_capacity) {
        uint32_t capacity =
            b->tensors_capacity == 0 ? 64 : b->tensors_capacity * 2;
        struct tensor *more =
            sl_realloc_array(b->tensors, capacity, sizeof(*more));

        if (more == NULL) {
            b->rc = sl_no_memory(&b->err);
            return 0;
        }
        b->tensors = more;
        b->tensors_capacity = capacity;
    }
    b->tensors[b->tensors_count] = (struct tensor){place, offset, bytes};
    return b->tensors_count++;
}

uint32_t compile_stats_of(struct build *b, uint32_t head)
{
    return compile_at(b, PROGRAM_STATS, 2 * head * sizeof(double),
                      2 * sizeof(double));
}

uint32_t compile_scale_of(struct build *b, uint32_t head)
{
    return compile_at(b, PROGRAM_SCALE, head * b->real, b->real);
}

uint32_t compile_tensor(struct build *b, size_t bytes)
{
    return compile_at(b, PROGRAM_ARENA, 0, bytes);
}

uint32_t compile_weight(struct build *b, const struct model_node *node,
                        enum model_weight w, enum program_place vector)
{
    const struct model_variable *v = &b->model->variables[node->weight[w]];

    return compile_at(b, vector, (size_t)v->first * b->real,
                      (size_t)v->elements * b->real);
}

unsigned compile_dims(const struct build *b, const struct model_shape *s,
                      int64_t dim[KERN_DIMS])
{
    dim[0] = b->o->batch;
    for (uint32_t i = 0; i < s->rank; i++)
        dim[1 + i] = (int64_t)s->dim[i];
    return 1 + s->rank;
}

void compile_image_dims(const struct build *b, const struct model_shape *s,
                        int64_t dim[KERN_DIMS])
{
    struct model_shape image = *s;

    if (s->rank == 2)
        image = (struct model_shape){3, {1, s->dim[0], s->dim[1]}};
    compile_dims(b, &image, dim);
}

int64_t compile_elements(const struct build *b, const struct model_shape *s)
{
    return (int64_t)(b->o->batch * model_shape_elements(s));
}

size_t compile_bytes(const struct build *b, const struct model_shape *s)
{
    return (size_t)compile_elements(b, s) * b->act;
}

bool compile_try_epilogue(struct build *b, struct kern_desc *d,
                          uint32_t epilogue)
{
    struct kern_desc plain = *d;

    d->epilogue |= epilogue;
    if (compile_fuses(b, d, &plain))
        return true;
    *d = plain;
    return false;
}

void compile_fuse_drelu(struct build *b, const struct model_node *node,
                        struct kern_desc *d)
{
    const struct model_node *input = &b->model->nodes[node->input[0]];

    if (b->o->train && b->model->nodes[node->input[0]].learns &&
        input->act == MODEL_ACT_RELU && input->users == 1 &&
        compile_try_epilogue(b, d, KERN_DRELU))
        b->act_done[node->input[0]] = true;
}

uint32_t compile_scale_or_center(struct build *b, const struct model_node *node,
                                 enum model_weight w)
{
    size_t at = w == MODEL_GAMMA ? 0 : b->constants * b->real;

    if (node->weight[w] != MODEL_NONE)
        return compile_weight(b, node, w, PROGRAM_PARAMS);
    return compile_at(b, PROGRAM_CONSTANTS, at,
                      (size_t)node->in.dim[node->in.rank - 1] * b->real);
}

enum kern_unary_kind compile_unary(const struct model_node *node, float *a)
{
    static const enum kern_unary_kind kinds[MODEL_ACT_COUNT] = {
#define KERN_UNARY_SOFTMAX KERN_UNARY_NONE // an op of its own
        [MODEL_ACT_LINEAR] = KERN_UNARY_LINEAR,
#define ACTIVATION(code, ...) [MODEL_ACT_##code] = KERN_UNARY_##code,
#include "proto/layers.def"
#undef KERN_UNARY_SOFTMAX
    };

    *a = (float)node->alpha;
    return kinds[node->act];
}

struct kern_window compile_window(const struct model_node *node)
{
    struct kern_window w =
        kern_window((int32_t)node->window[0], (int32_t)node->window[1],
                    (int32_t)node->stride[0], (int32_t)node->stride[1]);

    if (node->type == MODEL_GLOBAL_AVERAGE_POOLING2D ||
        node->type == MODEL_GLOBAL_MAX_POOLING2D) // all of its input
        return kern_window((int32_t)node->in.dim[0], (int32_t)node->in.dim[1],
                           1, 1);
    for (int axis = 0; axis < 2; axis++) {
        w.pad_before[axis] = (int32_t)node->pad_before[axis];
        w.pad_after[axis] = (int32_t)node->pad_after[axis];
        if (node->dilation[axis] > 0)
            w.dilation[axis] = (int32_t)node->dilation[axis];
    }
    return w;
}

static bool grow_ops(struct build *b)
{
    uint32_t capacity = b->p->capacity == 0 ? 32 : b->p->capacity * 2;
    struct program_op *ops;
    struct build_op *refs;

    if (b->p->count < b->p->capacity)
        return true;
    ops = sl_realloc_array(b->p->ops, capacity, sizeof(*ops));
    if (ops == NULL)
        return false;
    b->p->ops = ops;
    refs = sl_realloc_array(b->ops, capacity, sizeof(*refs));
    if (refs == NULL)
        return false;
    b->ops = refs;
    b->p->capacity = capacity;
    return true;
}

void compile_emit(struct build *b, uint32_t node, struct kern_desc *d,
                  const struct build_ref *refs)
{
    struct program_op *op;

    if (b->rc != SL_OK)
        return;
    if (!grow_ops(b)) {
        compile_fail(b, node, SL_ENOMEM, "no memory");
        return;
    }
    if (b->o->f64)
        kern_desc_f64(d);
    op = &b->p->ops[b->p->count];
    memset(op, 0, sizeof(*op));
    b->rc = compile_plan(b, d, &op->plan);
    if (b->rc != SL_OK) {
        sl_prefix(&b->err, b->rc, "layer '%s'", b->model->nodes[node].name);
        return;
    }
    op->op = d->op;
    op->node = node;
    op->inputs = d->inputs;
    op->args = (uint32_t)d->inputs + d->outputs;
    memcpy(b->ops[b->p->count].ref, refs, op->args * sizeof(*refs));
    b->p->count++;
}
