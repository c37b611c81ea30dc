// SPDX-License-Identifier: Apache-2.0
// proto/spec_groups.c -- groups of variables that an optimizer updates with
// numbers of their own.
#include "proto/spec_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/suggest.h"

#define GROUPS_MAX 64
#define NAMES_MAX 16384 // of all groups
#define SCALE_MAX 1e6

// One star is enough to go back to: the last. So it takes no longer than both
// lengths multiplied.
static bool spec_pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

uint32_t spec_optimizer_group(const Sluice__V1__OptimizerSpec *o,
                              const char *variable)
{
    for (size_t i = 0; i < o->n_groups; i++)
        for (size_t k = 0; k < o->groups[i]->n_variables; k++)
            if (spec_pattern_fits(o->groups[i]->variables[k], variable))
                return (uint32_t)i + 1;
    return 0;
}

enum sl_err spec_optimizer_of(struct spec_optimizer *out, double *scale,
                              const Sluice__V1__OptimizerSpec *o,
                              uint32_t group, struct sl_error *err)
{
    Sluice__V1__OptimizerSpec of = *o; // what it points at stays *o's
    const Sluice__V1__OptimizerGroup *g;
    enum sl_err rc;

    *scale = 1;
    if (group == 0)
        return spec_optimizer(out, o, err);
    g = o->groups[group - 1];
#define TAKE(field)                                                            \
    do {                                                                       \
        if (g->has_##field) {                                                  \
            of.has_##field = true;                                             \
            of.field = g->field;                                               \
        }                                                                      \
    } while (0)
    TAKE(momentum);
    TAKE(beta_1);
    TAKE(beta_2);
    TAKE(epsilon);
    TAKE(rho);
    TAKE(weight_decay);
#undef TAKE
    rc = spec_optimizer(out, &of, err);
    if (rc == SL_OK && g->has_learning_rate_scale)
        rc = spec_real("learning_rate_scale", g->learning_rate_scale, 0,
                       SCALE_MAX, SPEC_CLOSED, err);
    if (rc == SL_OK && of.momentum != 0 && o->momentum == 0)
        rc = sl_fail(err, SL_EINVAL,
                     "momentum: %g, and the optimizer has none, so no slot for "
                     "it; say optimizer.momentum, and 0 in other groups",
                     of.momentum);
    if (rc == SL_OK && g->has_learning_rate_scale)
        *scale = g->learning_rate_scale;
    if (rc == SL_OK)
        out->optim.elementwise = g->elementwise;
    return rc == SL_OK
               ? rc
               : sl_prefix(err, rc, "optimizer.groups[%" PRIu32 "]", group - 1);
}

enum sl_err spec_check_groups(const Sluice__V1__OptimizerSpec *o,
                              struct sl_error *err)
{
    char path[64], words[400];
    struct spec_optimizer is;
    size_t names = 0;
    double scale;
    enum sl_err rc =
        spec_range("optimizer.groups", o->n_groups, 0, GROUPS_MAX, err);

    snprintf(words, sizeof(words), "%s variables learning_rate_scale ",
             spec_optimizer_fields(o));
    for (size_t i = 0; rc == SL_OK && i < o->n_groups; i++) {
        snprintf(path, sizeof(path), "optimizer.groups[%zu]", i);
        names += o->groups[i]->n_variables;
        if (o->groups[i]->n_variables == 0)
            return sl_fail(err, SL_EINVAL,
                           "%s: it has no variables, e.g. "
                           "variables: [\"*.bias\"]",
                           path);
        rc = spec_only(path, &o->groups[i]->base, words, o->type, err);
        if (rc == SL_OK)
            rc = spec_optimizer_of(&is, &scale, o, (uint32_t)i + 1, err);
    }
    return rc == SL_OK
               ? spec_range("optimizer.groups: names", names, 0, NAMES_MAX, err)
               : rc;
}

// ---- with the model

static bool spec_pattern_fits_any(const char *pattern, const struct model *m)
{
    for (uint32_t i = 0; i < m->variables_count; i++)
        if (m->variables[i].kind != MODEL_MOVING &&
            spec_pattern_fits(pattern, m->variables[i].name))
            return true;
    return false;
}

static enum sl_err no_such(const char *pattern, size_t group,
                           const struct model *m, struct sl_error *err)
{
    size_t n = m->variables_count;
    const char **all = sl_malloc_array(n, sizeof(*all));
    const char *near = NULL;

    if (n == 0) {
        sl_free(all);
        return sl_fail(err, SL_EINVAL,
                       "optimizer.groups: they are of variables, and the model "
                       "has tables alone; leave them out: a table has an "
                       "optimizer of its own");
    }
    for (size_t i = 0; all != NULL && i < n; i++)
        all[i] = m->variables[i].name;
    if (all != NULL)
        near = sl_suggest(pattern, all, n);
    sl_free(all);
    if (near == NULL)
        near = m->variables[0].name;
    return sl_fail(err, SL_EINVAL,
                   "optimizer.groups[%zu].variables: no variable that is "
                   "trained fits '%.200s'; there is e.g. '%s'",
                   group, pattern, near);
}

enum sl_err spec_check_grouped(Sluice__V1__JobSpec *spec, const struct model *m,
                               struct sl_error *err)
{
    const Sluice__V1__OptimizerSpec *o = spec->optimizer;
    enum sl_err rc = SL_OK;

    // A rank of a ring updates ranges of variables, and a worker in local takes
    // many steps between two meetings.
    if (o != NULL && (spec_allreduce(spec) || spec_local(spec)))
        rc = spec_optim_no_whole(
            o, "in modes allreduce and local workers update them", err);
    if (rc != SL_OK)
        return rc;
    for (size_t i = 0; o != NULL && i < o->n_groups; i++)
        for (size_t k = 0; k < o->groups[i]->n_variables; k++)
            if (!spec_pattern_fits_any(o->groups[i]->variables[k], m))
                return no_such(o->groups[i]->variables[k], i, m, err);
    // A rank that does not know groups would update otherwise than the others.
    if (spec_allreduce(spec))
        spec_needs(spec, spec_optim_edition(o));
    if (spec_allreduce(spec) && o->n_groups > 0)
        spec_needs(spec, MODEL_EDITION_GROUPS);
    return SL_OK;
}
