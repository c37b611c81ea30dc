// SPDX-License-Identifier: Apache-2.0
// lib/changed.c -- what a contribution of mode local changed: how long that is,
// and whether it is too long to be pushed.
#include "lib/inner.h"
#include "plan/fold.h"

// Calls `each` for what is pushed of each variable but moving statistics.
static void changed_each(struct kept_job *j, void *arg,
                         void (*each)(void *arg, uint64_t first, float *x,
                                      size_t n))
{
    for (uint32_t i = 0; i < j->model->variables_count; i++) {
        const struct model_variable *v = &j->model->variables[i];

        if (v->kind != MODEL_MOVING)
            each(arg, v->first, j->grads + v->first, (size_t)v->elements);
    }
}

static void changed_fold(void *fold, uint64_t first, float *x, size_t n)
{
    fold_add(fold, first, x, n);
}

static void changed_scale(void *by, uint64_t first, float *x, size_t n)
{
    (void)first;
    for (size_t i = 0; i < n; i++)
        x[i] *= *(const float *)by;
}

bool changed_aside(struct sluice_closure *c, bool finite)
{
    const Sluice__V1__JobSpec *spec = c->lease->record->open->spec;
    struct fold change = finite ? (struct fold){0} : fold_not_finite();
    double most = c->lease->norm_most;
    float by;

    if (finite)
        changed_each(c->job, &change, changed_fold);
    if (fold_norm(&change) >= 0 && spec_norm_median(spec->train)) {
        by = (float)(most / fold_norm(&change));
        if (most > 0 && by < 1)
            changed_each(c->job, &by, changed_scale);
        most = 0;
    }
    c->lease->outcome.change_steps = c->info.batches;
    return lease_changed(c->lease, &change, most);
}
