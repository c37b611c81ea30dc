// SPDX-License-Identifier: Apache-2.0
// trainer/lease/outcome.c -- the outcomes of a lease that does not complete.
#include "trainer/lease/lease.h"

#include <stdio.h>

#include "proto/model.h"
#include "proto/spec.h"

// Returns true for an error that every worker would meet.
static bool job_error(enum sl_err code)
{
    return code == SL_EINVAL || code == SL_ENOENT || code == SL_ECORRUPT ||
           code == SL_ERANGE || code == SL_ENOTSUP || code == SL_ENUMERIC ||
           code == SL_EDENIED;
}

void lease_fail(struct lease *l, enum sl_err rc, const struct sl_error *err)
{
    struct outcome *o = &l->outcome;

    if (rc == SL_ECANCELED && pulse_over(&l->gate.pulse)) {
        if (atomic_load(&l->gate.draining))
            gate_close(&l->gate, GATE_DRAIN);
        lease_stopped(l); // the reading was stopped by the gate
        return;
    }
    o->kind = OUTCOME_FAILED;
    o->err = *err;
    o->err.code = rc;
    if (o->err.text[0] == '\0')
        sl_fail(&o->err, rc, "%s", sl_err_text(rc));
    o->job_error = job_error(rc);
}

void lease_hand_back(struct lease *l, const char *why)
{
    l->outcome.kind = OUTCOME_HAND_BACK;
    sl_fail(&l->outcome.err, SL_ECANCELED, "%s", why);
}

// Folds what is pushed of each variable but moving statistics.
static struct fold change_fold(const struct model *m, const float *grads)
{
    struct fold f = {0};

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];

        if (v->kind != MODEL_MOVING)
            fold_add(&f, v->first, grads + v->first, (size_t)v->elements);
    }
    return f;
}

static void change_scale(const struct model *m, float *grads, float by)
{
    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];

        for (uint64_t k = 0; v->kind != MODEL_MOVING && k < v->elements; k++)
            grads[v->first + k] *= by;
    }
}

bool lease_change(struct lease *l, const struct model *model, float *grads,
                  bool finite)
{
    struct fold change = finite ? change_fold(model, grads) : fold_not_finite();
    double norm = fold_norm(&change), most = l->norm_most;
    char why[160];

    l->outcome.change = change;
    l->outcome.changed = true;
    if (norm >= 0 && spec_norm_median(l->record->open->spec->train)) {
        if (most > 0 && norm > most)
            change_scale(model, grads, (float)(most / norm));
        return false;
    }
    if (most <= 0 || (norm >= 0 && norm <= most))
        return false;
    if (norm < 0)
        snprintf(why, sizeof(why), "its contribution is not finite");
    else
        snprintf(why, sizeof(why),
                 "the norm of its contribution is %.4g, and %.4g is the most",
                 norm, most);
    lease_hand_back(l, why);
    l->outcome.aside = true;
    return true;
}

void lease_stopped(struct lease *l)
{
    switch ((enum gate_reason)atomic_load(&l->gate.closed)) {
    case GATE_DRAIN:
        lease_hand_back(l, "the worker is leaving");
        return;
    case GATE_LEASE:
        lease_hand_back(l, "its lease ended without a heartbeat's answer");
        return;
    case GATE_OPEN:
        lease_hand_back(l, "stopped");
        return;
    case GATE_REVOKED:
        lease_hand_back(l, "it was revoked");
        return;
    case GATE_ENDED:
        l->outcome.kind = OUTCOME_DROPPED;
        return;
    }
}
