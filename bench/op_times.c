// SPDX-License-Identifier: Apache-2.0
// bench/op_times.c -- see op_times.h.
#include "bench/op_times.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/program.h"

struct op_times {
    struct program *program;
    const struct model *model;
    unsigned steps, most;
    double *ms; // [op][step]
};

struct op_times *op_times_new(struct program *program,
                              const struct model *model, unsigned steps_most)
{
    struct op_times *t = calloc(1, sizeof(*t));

    if (t == NULL)
        program_die("no memory for times");
    t->program = program;
    t->model = model;
    t->most = steps_most;
    t->ms =
        program_memory((size_t)program->count * steps_most * sizeof(*t->ms));
    return t;
}

void op_times_step(struct op_times *t, const struct program_io *io)
{
    struct sl_error err = SL_ERROR_INIT;
    double began = program_now_s(), now;

    for (uint32_t i = 0; i < t->program->count; i++) {
        program_must(program_run(t->program, io, i, i + 1, &err), &err,
                     "an operation");
        now = program_now_s();
        if (t->steps < t->most)
            t->ms[(size_t)i * t->most + t->steps] = (now - began) * 1e3;
        began = now;
    }
    t->steps += t->steps < t->most;
}

const char *op_times_pass(const struct program *p, uint32_t i)
{
    const struct program_op *op = &p->ops[i];

    if (i < p->forward)
        return "forward";
    for (uint32_t k = op->inputs; k < op->args; k++) {
        if (op->arg[k].place == PROGRAM_GRADS)
            return "backward, weights";
    }
    return "backward";
}

void op_times_print(const struct op_times *t)
{
    printf("[");
    for (uint32_t i = 0; i < t->program->count; i++) {
        const struct program_op *op = &t->program->ops[i];
        double *ms = t->ms + (size_t)i * t->most;

        program_sort(ms, t->steps);
        printf("%s{\"pass\": \"%s\", \"op\": \"%s\", \"layer\": \"%s\", "
               "\"ms\": %.6g}",
               i ? ", " : "", op_times_pass(t->program, i),
               kern_op_name(op->op), t->model->nodes[op->node].name,
               t->steps > 0 ? ms[t->steps / 2] : 0);
    }
    printf("]");
}

void op_times_free(struct op_times *t)
{
    free(t->ms);
    free(t);
}
