// SPDX-License-Identifier: Apache-2.0
// lib/batches.c -- a contribution of mode local: its batches, which the program
// takes as steps of its own, and what they changed.
#include <inttypes.h>

#include "common/base/num.h"
#include "lib/inner.h"
#include "trainer/base/grad.h"

static enum sl_err batches_inside(struct sluice_closure *c, uint64_t first,
                                  uint64_t count, struct sl_error *err)
{
    enum sl_err rc = closure_inside(c, first, count, err);

    if (rc == SL_OK && c->info.batches == 0)
        return sl_fail(err, SL_ESTATE,
                       "the job is not in mode local: its steps are not parted "
                       "into batches");
    return rc;
}

// Between two batches: no push, which would look at the gate, comes soon. A
// further closure of which the lease ends is left out.
static enum sl_err batches_look(struct sluice_closure *c, struct sl_error *err)
{
    struct gate *gate = &c->lease->gate;

    (void)gate_look(&c->now->gate, sl_clock_real());
    if (closures_undo(&c->set, c->lease, c->now)) {
        c->cut = true;
        c->now = c->lease;
        return SL_OK;
    }
    if (atomic_load(&gate->draining))
        gate_close(gate, GATE_DRAIN);
    return gate_look(gate, sl_clock_real()) == GATE_OPEN
               ? SL_OK
               : closure_lose(c, SYNC_STOPPED, err);
}

enum sl_err sluice_batch(struct sluice_closure *c, uint32_t i,
                         struct sluice_batch *out, struct sl_error *err)
{
    enum sl_err rc = batches_inside(c, 0, 0, err);
    uint64_t at = (uint64_t)i * c->info.batch;

    if (rc == SL_OK && at < c->count && !c->cut)
        rc = batches_look(c, err);
    if (rc != SL_OK)
        return rc;
    *out = (struct sluice_batch){.none = at >= c->count || c->cut, .index = i};
    if (out->none)
        return SL_OK;
    out->first = c->first + at;
    out->count = sl_min(c->info.batch, c->count - at);
    out->number = record_inner_number(c->lease->record, c->now->closure, i);
    return SL_OK;
}

// Writes what is pushed of a variable's elements [from, end).
static void batches_write(const struct kept_job *j, enum model_kind kind,
                          struct elements part, const float *now)
{
    for (uint64_t i = 0; i < part.count; i++)
        j->grads[part.first + i] =
            kind == MODEL_MOVING ? now[i] : j->params[part.first + i] - now[i];
}

enum sl_err sluice_change(struct sluice_closure *c, uint64_t first,
                          uint64_t count, const float *now,
                          struct sl_error *err)
{
    enum sl_err rc = batches_inside(c, first, count, err);
    const struct model *m = c->job->model;

    for (uint32_t i = 0; rc == SL_OK && !c->cut && i < m->variables_count;
         i++) {
        const struct model_variable *v = &m->variables[i];
        uint64_t from = first > v->first ? first : v->first;
        uint64_t end = sl_min(first + count, v->first + v->elements);

        if (from < end)
            batches_write(c->job, v->kind, (struct elements){from, end - from},
                          now + (from - first));
    }
    return rc;
}

enum sl_err sluice_more(struct sluice_closure *c, const struct sluice_result *r,
                        bool *more, struct sl_error *err)
{
    enum sl_err rc = batches_inside(c, 0, 0, err);
    struct lease *l = NULL;

    if (rc != SL_OK)
        return rc;
    if (!c->cut && !c->noted) {
        set_note(c, r);
        if (c->set.most > 1 &&
            grad_finite(c->job->grads, (size_t)c->job->model->elements))
            l = closures_next(&c->set, c->lease);
    }
    if (l != NULL) {
        closure_turn(c, l);
        c->noted = false;
    }
    *more = l != NULL;
    return SL_OK;
}
