// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_penalty.c -- penalties: what the size of a variable
// adds to the loss, and to the variable's gradient.
//
// A step's loss is a mean over its samples, and the penalty is added to that; a
// micro-batch counts it by its share of the samples, so that all of the step's
// count it once. The gradient's part is computed when the rest of it is there,
// in f32 and without the loss scale.
#include "worker/compile/compile_build.h"

static bool has_one(const struct model_variable *v)
{
    return v->l1 > 0 || v->l2 > 0;
}

// Emits the penalty of `count` elements of a variable: w, scale, unscale -> h,
// stats.
static void compile_penalty_emit(struct build *b, uint32_t node,
                                 const struct model_variable *v, int64_t count,
                                 const struct build_ref refs[5],
                                 uint32_t epilogue)
{
    struct kern_desc d;

    kern_desc_penalty(&d, (float)v->l1, (float)v->l2,
                      (float)(b->o->batch * b->p->head[b->penalties].rows), 1,
                      &count, epilogue);
    compile_emit(b, node, &d, refs);
}

// Returns the factor that takes the loss scale off: gradients carry it, h is
// wanted without.
static uint32_t unscaling(struct build *b)
{
    if (b->scaled)
        return compile_at(b, PROGRAM_UNSCALE, 0, sizeof(float));
    return compile_at(b, PROGRAM_CONSTANTS, 0, b->real); // 1
}

bool compile_has_penalties(const struct model *m)
{
    for (uint32_t i = 0; i < m->variables_count; i++)
        if (has_one(&m->variables[i]))
            return true;
    return false;
}

void compile_penalties(struct build *b)
{
    const struct model *m = b->model;
    bool first = b->penalties > 0; // else the loss has written there

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];
        size_t bytes = (size_t)v->elements * b->real;

        if (!has_one(v))
            continue;
        compile_penalty_emit(
            b, v->node, v, (int64_t)v->elements,
            (struct build_ref[]){
                WHOLE(compile_at(b, PROGRAM_PARAMS, (size_t)v->first * b->real,
                                 bytes)),
                WHOLE(compile_scale_of(b, b->penalties)), WHOLE(unscaling(b)),
                WHOLE(compile_tensor(b, bytes)),
                WHOLE(compile_stats_of(b, b->penalties))},
            first ? 0 : KERN_ACCUM);
        first = false;
    }
}

void compile_penalize(struct build *b, uint32_t i, enum model_weight w,
                      int64_t first, int64_t count, uint32_t grad)
{
    const struct model_variable *v =
        &b->model->variables[b->model->nodes[i].weight[w]];
    size_t at = ((size_t)v->first + (size_t)first) * b->real;
    size_t bytes = (size_t)count * b->real;
    struct kern_shape flat = kern_shape(KERN_F32, 1, &count);
    struct kern_desc d;
    uint32_t h;

    if (!has_one(v))
        return;
    h = compile_tensor(b, bytes);
    compile_penalty_emit(
        b, i, v, count,
        (struct build_ref[]){
            WHOLE(compile_at(b, PROGRAM_PARAMS, at, bytes)),
            WHOLE(compile_scale_of(b, b->penalties)), WHOLE(unscaling(b)),
            WHOLE(h),
            WHOLE(compile_tensor(b, 2 * sizeof(double)))}, // not looked at
        0);
    kern_desc_axpby(&d, &flat, &flat, 1, 1);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(h), WHOLE(grad)});
}
