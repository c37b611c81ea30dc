// SPDX-License-Identifier: Apache-2.0
// worker/program.c -- runs what compile.c made; see program.h.
#include "worker/program.h"

#include <string.h>

#include "common/mem.h"

void program_memory_release(struct program_memory *m)
{
    if (m->dev == NULL)
        return;
    if (m->arena.at != NULL)
        m->dev->backend->release(m->dev, &m->arena);
    if (m->workspace.at != NULL)
        m->dev->backend->release(m->dev, &m->workspace);
    *m = (struct program_memory){.dev = m->dev};
}

static void places(uint8_t *at[PROGRAM_PLACES], struct program *p,
                   const struct program_io *io)
{
    at[PROGRAM_NOWHERE] = NULL;
    at[PROGRAM_ARENA] = p->memory->arena.at;
    at[PROGRAM_PARAMS] = io->params;
    at[PROGRAM_GRADS] = io->grads;
    at[PROGRAM_X] = (uint8_t *)io->x;
    at[PROGRAM_LABELS] = (uint8_t *)io->labels;
    at[PROGRAM_CONSTANTS] = p->constants;
    at[PROGRAM_SCALE] = p->scale_room;
    at[PROGRAM_STATS] = (uint8_t *)p->stats;
    at[PROGRAM_KEYS] = (uint8_t *)p->keys;
    at[PROGRAM_UNSCALE] = (uint8_t *)&p->unscale;
}

enum sl_err program_run(struct program *p, const struct program_io *io,
                        uint32_t first, uint32_t end, struct sl_error *err)
{
    uint8_t *at[PROGRAM_PLACES];
    void *arg[KERN_IO];

    places(at, p, io);
    for (uint32_t i = first; i < end; i++) {
        const struct program_op *op = &p->ops[i];
        enum sl_err rc;

        for (uint32_t k = 0; k < op->args; k++)
            arg[k] = at[op->arg[k].place] + op->arg[k].offset;
        rc = kern_run(op->plan, NULL, arg, p->memory->workspace.at);
        if (rc != SL_OK)
            return sl_fail(err, rc, "%s of layer %u failed on this device",
                           kern_op_name(op->op), op->node);
        pulse_beat(io->pulse);
    }
    return SL_OK;
}

void program_set_step(struct program *p, uint64_t global_step)
{
    for (uint32_t i = 0; i < p->dropouts; i++) {
        p->keys[2 * i] = (int64_t)p->seeds[i];
        p->keys[2 * i + 1] = (int64_t)global_step;
    }
}

void program_set_loss_scale(struct program *p, double loss_scale)
{
    double all = p->scale * loss_scale;
    float f = (float)all;

    p->loss_scale = loss_scale;
    p->unscale = (float)(1 / loss_scale);
    if (p->real == sizeof(double))
        memcpy(p->scale_room, &all, sizeof(all));
    else
        memcpy(p->scale_room, &f, sizeof(f));
}

double program_loss_sum(const struct program *p)
{
    return p->stats[0] / p->loss_rows;
}

double program_right_sum(const struct program *p)
{
    return p->stats[1] / p->loss_rows;
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
    sl_free(p->seeds);
    sl_free(p->keys);
    sl_free(p);
}
