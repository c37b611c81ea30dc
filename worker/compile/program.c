// SPDX-License-Identifier: Apache-2.0
// worker/compile/program.c -- runs the programs that compile.c makes; see
// program.h.
#include "worker/compile/program.h"

#include <string.h>

#include "common/base/mem.h"

void program_memory_release(struct program_memory *m)
{
    if (m->dev == NULL)
        return;
    if (m->arena.at != NULL)
        m->dev->backend->release(m->dev, &m->arena);
    if (m->workspace.at != NULL)
        m->dev->backend->release(m->dev, &m->workspace);
    *m = (struct program_memory){.dev = m->dev, .moved = m->moved + 1};
}

struct kern_mem program_own(struct program *p, enum program_place place)
{
    switch (place) {
    case PROGRAM_CONSTANTS:
        return (struct kern_mem){p->constants, p->constants_bytes};
    case PROGRAM_SCALE:
        return (struct kern_mem){p->scale_space, p->heads * p->real};
    case PROGRAM_UNSCALE:
        return (struct kern_mem){&p->unscale, sizeof(p->unscale)};
    case PROGRAM_STATS:
        return (struct kern_mem){p->stats, 2 * p->heads * sizeof(double)};
    case PROGRAM_OUTPUTS:
        return (struct kern_mem){
            p->outputs, p->outputs == NULL ? 0
                                           : (size_t)p->batch * p->per_sample *
                                                 sizeof(*p->outputs)};
    case PROGRAM_ROWS:
        return (struct kern_mem){p->rows, p->rows_bytes};
    case PROGRAM_ROW_GRADS:
        return (struct kern_mem){p->row_grads,
                                 p->row_grads == NULL ? 0 : p->rows_bytes};
    case PROGRAM_KEYS:
        return (struct kern_mem){p->keys, 2 * p->dropouts * sizeof(*p->keys)};
    default:
        return (struct kern_mem){NULL, 0};
    }
}

static void program_fill_places(uint8_t *at[PROGRAM_PLACES], struct program *p,
                                const struct program_io *io)
{
    for (unsigned i = 0; i < PROGRAM_PLACES; i++)
        at[i] = program_own(p, (enum program_place)i).at;
    at[PROGRAM_ARENA] = p->memory->arena.at;
    at[PROGRAM_PARAMS] = io->params;
    at[PROGRAM_GRADS] = io->grads;
    at[PROGRAM_X] = (uint8_t *)(uintptr_t)io->x;
    at[PROGRAM_LABELS] = (uint8_t *)(uintptr_t)io->labels;
}

const char *program_fault(struct kern_dev *dev, enum sl_err rc)
{
    const struct kern_backend *b = dev->backend;
    const char *text = b->fault != NULL ? b->fault(dev) : "";

    return text[0] != '\0' ? text : sl_err_text(rc);
}

enum sl_err program_enqueue(struct program *p, struct kern_stream *stream,
                            uint8_t *const at[PROGRAM_PLACES], uint32_t first,
                            uint32_t end, struct pulse *pulse,
                            struct sl_error *err)
{
    void *arg[KERN_IO];

    for (uint32_t i = first; i < end; i++) {
        const struct program_op *op = &p->ops[i];
        enum sl_err rc;

        for (uint32_t k = 0; k < op->args; k++)
            arg[k] = at[op->arg[k].place] + op->arg[k].offset;
        rc = kern_run(op->plan, stream, arg, p->memory->workspace.at);
        if (rc != SL_OK)
            return sl_fail(err, rc, "%s of layer %u failed on this device: %s",
                           kern_op_name(op->op), op->node,
                           program_fault(p->dev, rc));
        pulse_beat(pulse);
    }
    return SL_OK;
}

enum sl_err program_run(struct program *p, const struct program_io *io,
                        uint32_t first, uint32_t end, struct sl_error *err)
{
    uint8_t *at[PROGRAM_PLACES];

    if (!p->dev->backend->host)
        return sl_fail(err, SL_ENOTSUP,
                       "backend %s does not compute in host memory; place the "
                       "program on the device",
                       p->dev->backend->name);
    program_fill_places(at, p, io);
    return program_enqueue(p, NULL, at, first, end, io->pulse, err);
}

void program_set_step(struct program *p, uint64_t number)
{
    p->number = number;
    for (uint32_t i = 0; i < p->dropouts; i++) {
        p->keys[2 * i] = (int64_t)p->seeds[i];
        p->keys[2 * i + 1] = (int64_t)number;
    }
}

void program_set_loss_scale(struct program *p, double loss_scale)
{
    p->loss_scale = loss_scale;
    p->unscale = (float)(1 / loss_scale);
    for (uint32_t i = 0; i < p->heads; i++) {
        const struct program_head *h = &p->head[i];
        double all = h->weight / ((double)p->samples * h->rows) * loss_scale;
        float f = (float)all;

        if (p->real == sizeof(double))
            memcpy(p->scale_space + i * sizeof(all), &all, sizeof(all));
        else
            memcpy(p->scale_space + i * sizeof(f), &f, sizeof(f));
    }
}

void program_set_samples(struct program *p, uint64_t samples)
{
    p->samples = samples;
    program_set_loss_scale(p, p->loss_scale);
}

double program_loss_sum(const struct program *p)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->heads; i++)
        sum += p->head[i].weight * p->stats[2 * i] / p->head[i].rows;
    return sum;
}

double program_right_sum(const struct program *p)
{
    return p->stats[1] / p->head[0].rows;
}

void program_free(struct program *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->plans_count; i++)
        kern_plan_free(p->plans[i]);
    sl_free(p->plans);
    sl_free(p->ops);
    sl_free(p->constants);
    sl_free(p->outputs);
    sl_free(p->tables);
    sl_free(p->rows);
    sl_free(p->row_grads);
    sl_free(p->seeds);
    sl_free(p->keys);
    sl_free(p);
}
